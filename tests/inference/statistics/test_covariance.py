"""The distance of covariances and their effective dimensions, compared with loops over rows."""

import numpy as np
import pytest
from bke.inference.permutation.pool import pool_pairs, pool_rows, pool_weighted
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import covariance
from bke.inference.statistics.covariance import RIDGES, Covariances

RNG = np.random.default_rng(0)


def draw_samples(dimension, first=30, second=45):
    """Round, so that rows are tied in few columns; the first column of Q has a larger spread."""
    P, Q = RNG.normal(size=(first, dimension)), RNG.normal(size=(second, dimension))
    Q[:, 0] *= 1.5
    return np.round(P, 1), np.round(Q, 1)


def covariances(sample):
    """Return the distance (1 + B,) and the differences of effective dimensions (G, 1 + B)."""
    values = Covariances.choose(sample).evaluate(sample).values
    return values[0], values[1:]


def by_loops(sample, directions=None):
    """Compute both statistics from single rows and NumPy's covariances."""
    projection = np.eye(sample.points.shape[1]) if directions is None else directions
    rows = np.repeat(sample.points, sample.counts, axis=0)
    trace = np.trace(np.cov(rows.T, ddof=0).reshape(rows.shape[1], -1))
    distance, dimensions = [], []
    for labels in sample.labels.T:
        matrices = [
            np.cov((np.repeat(sample.points, counts, axis=0) @ projection).T, ddof=0).reshape(
                projection.shape[1], -1
            )
            for counts in (labels, sample.counts - labels)
        ]
        distance.append(np.linalg.norm(matrices[0] - matrices[1]) ** 2)
        by_sample = [
            [np.trace(S @ np.linalg.inv(S + ridge * trace * np.eye(len(S)))) for ridge in RIDGES]
            for S in matrices
        ]
        dimensions.append(np.subtract(*by_sample))
    return np.array(distance), np.array(dimensions).T


@pytest.mark.parametrize("dimension", [1, 3, 70])
@pytest.mark.parametrize("pool", [pool_rows, pool_pairs])
def test_both_statistics_are_those_of_covariance_matrices(dimension, pool):
    """By matrices of columns, and of rows if there are more columns."""
    samples = TwoSamples(*draw_samples(dimension, 30, 30 if pool is pool_pairs else 45))
    sample = pool(samples, 9, np.random.default_rng(1))
    distance, dimensions = covariances(sample)
    expected = by_loops(sample)
    np.testing.assert_allclose(distance, expected[0], rtol=1e-8)
    np.testing.assert_allclose(dimensions, expected[1], rtol=1e-6, atol=1e-9)


def test_large_samples_of_high_dimension_are_projected_on_leading_principal_components(monkeypatch):
    monkeypatch.setattr(covariance, "MAX_COLUMNS", 4)
    monkeypatch.setattr(covariance, "MAX_GRAM_ROWS", 50)
    P, Q = draw_samples(9)
    Q *= np.arange(1.0, 10.0)
    sample = pool_rows(TwoSamples(P, Q), 9, np.random.default_rng(1), np.ones(9))
    rows = np.repeat(sample.points, sample.counts, axis=0)
    _, directions = np.linalg.eigh(np.cov(rows.T))
    distance, dimensions = covariances(sample)
    expected = by_loops(sample, directions[:, -4:])
    np.testing.assert_allclose(distance, expected[0], rtol=1e-8)
    np.testing.assert_allclose(dimensions, expected[1], rtol=1e-6, atol=1e-9)


def test_equal_weights_do_not_change_the_observed_statistics():
    P, Q = draw_samples(3)
    samples, weights = TwoSamples(P, Q), (np.ones(30), np.ones(45))
    weighted = pool_weighted(samples, weights, 9, np.random.default_rng(1))
    unweighted = pool_rows(samples, 9, np.random.default_rng(1))
    for values, expected in zip(covariances(weighted), covariances(unweighted), strict=True):
        np.testing.assert_allclose(values[..., 0], expected[..., 0], rtol=1e-9)


def test_small_differences_in_all_directions_are_detected_by_dimensions_only():
    """Correlations 0.5^|i - j| and 0.6^|i - j| of 200 columns, 60 + 60 rows, seed 3."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(2, 60, 200))
    for column in range(1, 200):
        for rows, rho in ((P, 0.5), (Q, 0.6)):
            rows[:, column] = rho * rows[:, column - 1] + np.sqrt(1 - rho**2) * rows[:, column]
    sample = pool_rows(TwoSamples(P, Q), 199, np.random.default_rng(1))
    distance, dimensions = covariances(sample)
    deviations = np.abs(dimensions - dimensions.mean(axis=1, keepdims=True))
    assert (deviations[0] >= deviations[0, 0]).mean() <= 0.01
    assert (distance >= distance[0]).mean() > 0.05


def test_principal_components_of_fewer_rows_than_columns_are_those_of_columns():
    rows = RNG.normal(size=(90, 200))
    rows -= rows.mean(axis=0)
    projection = covariance._principal_components(rows)
    expected = np.linalg.eigh(rows.T @ rows)[1][:, -covariance.MAX_COLUMNS :]
    np.testing.assert_allclose(projection @ projection.T, expected @ expected.T, atol=1e-10)


def test_fewer_pairs_than_components():
    """Pairs are evaluated by columns, of which there are no more than rows."""
    P, Q = (np.random.default_rng(seed).normal(size=(5, 80)) for seed in (0, 1))
    sample = pool_pairs(TwoSamples.checked(P, Q, paired=True), 9, np.random.default_rng(0))
    statistic = Covariances.choose(sample)
    assert statistic.products.rank <= 10
    assert np.isfinite(statistic.evaluate(sample).values).all()
