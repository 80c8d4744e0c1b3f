"""Seeds of clusters, compared with a loop over the probabilities."""

import numpy as np
import pytest
from bke.models.linalg.clustering import kmeans_plusplus

ROWS = np.random.default_rng(0).normal(size=(40, 3))


def kmeans_plusplus_by_probabilities(rows, count, rng):
    chosen = [rng.integers(len(rows))]
    for _ in range(count - 1):
        squared = ((rows[:, None] - rows[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(rng.choice(len(rows), p=squared / squared.sum()))
    return np.array(chosen)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_drawn_by_their_squared_distance(seed):
    indices = kmeans_plusplus(ROWS, 15, np.random.default_rng(seed))
    expected = kmeans_plusplus_by_probabilities(ROWS, 15, np.random.default_rng(seed))
    np.testing.assert_array_equal(indices, expected)
    assert len(set(indices)) == 15


def test_no_more_seeds_than_distinct_rows():
    rows = np.repeat(ROWS[:4], 3, axis=0)
    indices = kmeans_plusplus(rows, 10, np.random.default_rng(1))
    assert len(np.unique(rows[indices], axis=0)) == len(indices) == 4
