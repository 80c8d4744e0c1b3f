"""Notes of rows that are copies."""

import numpy as np
import pytest
from bke.inference import compare, two_sample_test
from bke.inference.data.row_notes import duplicate_rows_note


def rows(n=60, columns=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


@pytest.mark.parametrize("columns", [1, 3])
def test_a_file_repeated_three_times_is_noted(columns):
    x = rows(columns=columns)
    assert "occurs 3 times" in duplicate_rows_note(np.tile(x, (3, 1)), "after")[0]
    assert duplicate_rows_note(x, "after") == ()


def test_copies_are_noted_if_a_column_identifies_rows():
    x = rows()
    assert duplicate_rows_note(np.concatenate([x, x[:10]]), "after")[0].startswith(
        "10 rows of after"
    )
    assert duplicate_rows_note(np.concatenate([x, x[:2]]), "after") == ()
    zeros = np.concatenate([x, np.zeros((30, 2))])
    assert duplicate_rows_note(zeros, "after") == ()
    # Equal rows of a single rounded column, or of counts, are no copies.
    assert duplicate_rows_note(np.concatenate([x[:, :1], x[:10, :1]]), "after") == ()


def test_discrete_integers_are_no_copies():
    """Of 200 samples at most one in 2^20 each has counts with a common divisor (30 values)."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        assert duplicate_rows_note(rng.integers(0, 30, size=(1000, 1)).astype(float), "x") == ()
        assert duplicate_rows_note(rng.integers(0, 30, size=(1000, 2)).astype(float), "x") == ()


@pytest.mark.slow
def test_results_have_the_note():
    x, y = rows(seed=2), rows(seed=3)
    comparison = compare(x, np.tile(y, (2, 1)), names=("may", "june"), progress=False)
    assert any("every row of june occurs 2 times" in note for note in comparison.notes)
    result = two_sample_test(np.tile(x, (2, 1)), y, progress=False)
    assert any("every row of P occurs 2 times" in note for note in result.notes)
