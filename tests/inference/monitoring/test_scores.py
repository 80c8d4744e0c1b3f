"""Scores of rows: bins, independence of other rows, weights and descriptions."""

import numpy as np
import pytest
from bke.inference import Monitor
from bke.inference.monitoring.scores import (
    Columns,
    Scores,
    bin_counts,
    bin_edges,
    bin_indices,
    describe_direction,
)


def test_bins_separate_tails_and_ties():
    """Bins of a score with few values, with many, and with one; and bins of equal proportions."""
    rng = np.random.default_rng(3)
    scores = np.column_stack([rng.integers(0, 4, 90), rng.normal(size=90), np.full(90, 2.0)])
    edges = bin_edges(scores.astype(np.float32))
    inside = bin_indices(np.float32([[0, 0, 2], [3, 0, 2]]), edges)
    assert inside[0, 0] != inside[1, 0]
    beyond = bin_indices(np.float32([[-1, -99, 1], [9, 99, 3]]), edges)
    assert beyond[0, 0] < inside[0, 0]
    assert beyond[1, 0] > inside[1, 0]
    assert beyond[0, 2] < inside[0, 2] < beyond[1, 2]
    large = np.random.default_rng(0).normal(size=(50_000, 1)).astype(np.float32)
    proportions = bin_counts(bin_indices(large, bin_edges(large)))[0] / 50_000
    assert proportions.sum() == pytest.approx(1.0)
    assert proportions.max() < 0.0125
    assert proportions[proportions > 0.0][:2].max() < 0.001  # the tails have smaller bins


def test_scores_do_not_depend_on_other_rows():
    """Scores are equal to the last bit, also if they are constant up to rounding."""
    rng = np.random.default_rng(3)
    level, x = rng.integers(0, 2, size=400), rng.normal(size=400)
    values = np.column_stack([level, 1 - level, level, x, -3.0 * x, *rng.normal(size=(9, 400))])
    scores = Scores.choose(Columns(tuple("abcdefghijklmn"), ((),) * 14), values[:200], 0)
    by_rows = np.concatenate([scores.compute(row[np.newaxis]) for row in values])
    np.testing.assert_array_equal(by_rows, scores.compute(values))
    by_blocks = np.concatenate([scores.compute(part) for part in np.array_split(values, 7)])
    np.testing.assert_array_equal(by_blocks, scores.compute(values))


def test_equal_rows_are_ties_in_blocks_of_any_size():
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.7, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scores = Monitor(rng.normal(size=(300, 3)) @ mixing)._test.scores
    row = rng.normal(size=(1, 3)) @ mixing
    copies = np.repeat(row, 777, axis=0)
    assert len(np.unique(scores.compute(copies), axis=0)) == 1
    np.testing.assert_array_equal(scores.compute(copies)[:1], scores.compute(row))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_combination_of_a_single_column_is_that_column(sign):
    after, reference = np.arange(30.0) + 9.0, np.arange(30.0)
    description = describe_direction(np.array([0.1, sign, 0.0]), ["a", "b", "c"])
    assert (description.family, description.columns) == ("numbers", ("b",))
    assert description.describe_change(sign * reference, sign * after) == "b is larger"
    assert describe_direction(np.array([0.5, -1.0]), ["a", "b"]).label == "the combination - b + a"
