"""How far covariances are apart and over how many directions they go, beside loops over rows."""

import numpy as np
import pytest
from bke.inference.evidence import covariances as module
from bke.inference.evidence.covariances import SMALL, covariances
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled, swapped
from bke.inference.permutation.weighted import weighted

RNG = np.random.default_rng(0)


def samples(dimension, first=30, second=45):
    """Rounded, so that rows are equal in few columns; wider in the first column of the second."""
    P, Q = RNG.normal(size=(first, dimension)), RNG.normal(size=(second, dimension))
    Q[:, 0] *= 1.5
    return np.round(P, 1), np.round(Q, 1)


def by_loops(rows, directions=None):
    """Both statistics, from single rows and NumPy's covariances."""
    turn = np.eye(rows.points.shape[1]) if directions is None else directions
    every = np.repeat(rows.points, rows.counts, axis=0)
    trace = np.trace(np.cov(every.T, ddof=0).reshape(every.shape[1], -1))
    distance, dimensions = [], []
    for labels in rows.labels.T:
        own = [
            np.cov((np.repeat(rows.points, of, axis=0) @ turn).T, ddof=0).reshape(turn.shape[1], -1)
            for of in (labels, rows.counts - labels)
        ]
        distance.append(np.linalg.norm(own[0] - own[1]) ** 2)
        each = [
            [np.trace(S @ np.linalg.inv(S + g * trace * np.eye(len(S)))) for g in SMALL]
            for S in own
        ]
        dimensions.append(np.subtract(*each))
    return np.array(distance), np.array(dimensions).T


@pytest.mark.parametrize("dimension", [1, 3, 70])
@pytest.mark.parametrize("relabel", [relabelled, swapped])
def test_both_are_those_of_covariance_matrices(dimension, relabel):
    """By matrices of columns, and of rows where columns are more."""
    pair = Pair(*samples(dimension, 30, 30 if relabel is swapped else 45))
    rows = relabel(pair, 9, np.random.default_rng(1))
    distance, dimensions = covariances(rows)
    expected = by_loops(rows)
    np.testing.assert_allclose(distance, expected[0], rtol=1e-8)
    np.testing.assert_allclose(dimensions, expected[1], rtol=1e-6, atol=1e-9)


def test_of_many_rows_and_columns_the_leading_directions_count(monkeypatch):
    monkeypatch.setattr(module, "MOST_COLUMNS", 4)
    monkeypatch.setattr(module, "MOST_ROWS", 50)
    P, Q = samples(9)
    Q *= np.arange(1.0, 10.0)
    rows = relabelled(Pair(P, Q), 9, np.random.default_rng(1), np.ones(9))
    every = np.repeat(rows.points, rows.counts, axis=0)
    _, directions = np.linalg.eigh(np.cov(every.T))
    distance, dimensions = covariances(rows)
    expected = by_loops(rows, directions[:, -4:])
    np.testing.assert_allclose(distance, expected[0], rtol=1e-8)
    np.testing.assert_allclose(dimensions, expected[1], rtol=1e-6, atol=1e-9)


def test_equal_weights_are_none():
    """The labels as they are; others are errors with signs."""
    P, Q = samples(3)
    pair = Pair(P, Q)
    rows = weighted(pair, (np.ones(30), np.ones(45)), 9, np.random.default_rng(1))
    alone = relabelled(pair, 9, np.random.default_rng(1))
    for found, expected in zip(covariances(rows), covariances(alone), strict=True):
        np.testing.assert_allclose(found[..., 0], expected[..., 0], rtol=1e-9)


def test_what_is_spread_over_all_directions_shows_in_dimensions_alone():
    """Correlations of 0.6^|i - j| for 0.5^|i - j| in 200 columns, 60 + 60 rows, seed 3."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(2, 60, 200))
    for column in range(1, 200):
        for of, rho in ((P, 0.5), (Q, 0.6)):
            of[:, column] = rho * of[:, column - 1] + np.sqrt(1 - rho**2) * of[:, column]
    rows = relabelled(Pair(P, Q), 199, np.random.default_rng(1))
    distance, dimensions = covariances(rows)
    apart = np.abs(dimensions - dimensions.mean(axis=1, keepdims=True))
    assert (apart[0] >= apart[0, 0]).mean() <= 0.01
    assert (distance >= distance[0]).mean() > 0.05
