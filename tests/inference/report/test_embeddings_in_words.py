"""Sentences and plain data about embeddings."""

import numpy as np
from bke.inference.report.embeddings import far_rows_notes, listed, rows_in_words


def test_rows_are_named_ten_at_most():
    assert rows_in_words(np.array([3]), "row") == "Row 3 is"
    assert rows_in_words(np.array([3, 7]), "observation") == "Observations 3, 7 are"
    many = rows_in_words(np.arange(1, 13), "row")
    assert many == "Rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more are"


def test_rows_far_from_all_pairs_are_told():
    assert far_rows_notes(np.array([1.0, 0.9]), "row") == []
    (note,) = far_rows_notes(np.array([1.0, 0.3]), "row")
    assert note.startswith("Row 2 is far from the training pairs")
    assert "less than 0.8 or more than 1.2" in note
    assert note.endswith("Below 0.1 nothing is.")


def test_empty_cells_of_a_table():
    assert listed(np.array([[1.0, np.nan], [2.5, 3.0]])) == [[1.0, None], [2.5, 3.0]]
