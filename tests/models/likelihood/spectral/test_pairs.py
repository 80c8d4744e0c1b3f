"""Isolated points of one and of several columns."""

import numpy as np
import pytest
from bke.models.likelihood.spectral.pairs import DistinctPoints, _sparse_rows, isolated_in_column


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


def test_all_points_with_few_neighbors_are_found():
    x = np.sort(np.concatenate([skewed(200), [9.0, 9.0, 30.0]]))
    for lengthscale, threshold in ((0.05, 2e-6), (0.05, 0.4), (0.7, 1e-3), (4.0, 0.4)):
        scaled = np.abs(x - x[:, None]) / lengthscale
        total = np.sum(scaled * np.exp(-0.5 * scaled**2), axis=1)
        rows = _sparse_rows(x, lengthscale, threshold, np.ones(len(x)))
        assert set(np.flatnonzero(total < threshold)) <= set(rows)
        assert not set(np.flatnonzero(total > 5.0 * threshold)) & set(rows)  # no trivial bound
        rows = _sparse_rows(x, lengthscale, 3.0 * threshold, np.full(len(x), 3.0))
        assert set(np.flatnonzero(total < threshold)) <= set(rows)


def test_points_are_isolated_until_a_neighbor_counts():
    x = np.sort(np.concatenate([skewed(400), [40.0]]))
    result = isolated_in_column(x, [0.5])
    (row,) = result.rows[result.rows < len(x)]
    assert x[row] == 40.0
    gap = (40.0 - x[-2]) / result.max_lengthscale[0]
    assert gap * np.exp(-0.5 * gap**2) == pytest.approx(1e-8 * len(x), rel=1e-6)


def test_isolated_points_and_their_pairs():
    X = np.random.default_rng(1).gamma(2.0, size=(1000, 2))
    X[:7] = [[40, 40], [40.3, 40], [-9, 7], [-9, 7], [21, 0], [13, -12], [3e3, 1]]
    shortest, longest = 0.8, 1.2
    result = DistinctPoints(X).isolated(shortest, longest)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    least = np.inf
    for lengthscale in np.linspace(shortest, longest, 9):
        t = distances / lengthscale
        least = np.minimum(least, (t * np.exp(-0.5 * t**2)).sum(axis=1))
    isolated = np.flatnonzero(least < 3e-8 * len(X))
    assert set(isolated) <= set(result.rows)
    assert list(isolated) == [2, 3, 4, 5, 6]
    assert len(result.rows) <= 20
    # The tied pair is one point, whose neighbors exclude both rows.
    tied = np.flatnonzero(np.all(X == [-9.0, 7.0], axis=1))
    tied_points = result.point_of_row[np.isin(result.rows, tied)]
    assert len(tied_points) == 2
    assert tied_points[0] == tied_points[1]
    tied_differences = result.delta[:, result.point_of_pair == tied_points[0]].T
    assert np.all(np.any(tied_differences != 0.0, axis=1))
    nearest = np.sort(distances[tied[0]])[2]
    assert np.linalg.norm(tied_differences, axis=1).min() == pytest.approx(nearest)
