"""Bayes factors at landmarks, compared with SciPy's multivariate normal densities."""

import numpy as np
import pytest
from bke.inference.permutation import bins, pool
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.pooled_sample import PairedSample, PooledSample
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import landmark_bayes_factor
from bke.inference.statistics.landmark_bayes_factor import (
    JITTER,
    VARIANCES,
    LandmarkBayesFactors,
    draw_landmarks,
    simultaneous_diagonalization,
)
from bke.models import SquaredExponential
from scipy import stats

RNG = np.random.default_rng(0)


def log_bayes_factors(points, labels, lengthscales, landmarks, *, paired=False):
    counts, scale = np.ones(len(points), dtype=int), np.ones(points.shape[1])
    sample = PooledSample(points, counts, labels.astype(np.int8), scale)
    if paired:
        partners = np.arange(len(points)).reshape(2, -1).T
        sample = PairedSample(points, counts, sample.labels, scale, partners=partners)
    return LandmarkBayesFactors(np.array(lengthscales), landmarks).evaluate(sample).values


def test_bayes_factor_is_a_ratio_of_normal_densities(permute_labels):
    points = RNG.normal(size=(30, 2))
    labels = permute_labels((18, 12), 5, np.random.default_rng(1))
    lengthscales, landmarks = np.array([0.7, 2.0]), points[:6]
    values = log_bayes_factors(points, labels, lengthscales, landmarks)
    assert values.shape == (6, 6)
    for column, column_values in zip(labels.T, values.T, strict=True):
        expected = []
        for length in lengthscales:
            features = np.asarray(SquaredExponential(length)(points, landmarks))
            difference = features[column].mean(axis=0) - features[~column].mean(axis=0)
            C = np.cov(features.T) * (1 / 18 + 1 / 12)
            C += 1e-8 * np.trace(C) / 6 * np.eye(6)
            R = np.asarray(SquaredExponential(length).smoothed("unit", 2)(landmarks, landmarks))
            null = stats.multivariate_normal(cov=C, allow_singular=True).logpdf(difference)
            for variance in VARIANCES:
                other = stats.multivariate_normal(cov=C + variance * R, allow_singular=True)
                expected.append(other.logpdf(difference) - null)
        np.testing.assert_allclose(column_values, expected, rtol=1e-6)


def test_bayes_factor_of_pairs_uses_the_covariance_of_their_differences(swap_labels):
    """A swap of all pairs does not change the statistic, which it does for independent rows."""
    first = RNG.normal(size=(20, 1))
    points = np.concatenate([first, first + 0.5 * RNG.normal(size=(20, 1))])
    labels = swap_labels(20, 3, np.random.default_rng(1))
    length, landmarks = 0.8, points[:4]
    paired = log_bayes_factors(points, labels, [length], landmarks, paired=True)
    features = np.asarray(SquaredExponential(length)(points, landmarks))
    C = np.zeros((4, 4))
    for i in range(20):
        difference = features[i] - features[20 + i]
        C += np.outer(difference, difference) / 20**2
    C += 1e-8 * np.trace(C) / 4 * np.eye(4)
    R = np.asarray(SquaredExponential(length).smoothed("unit", 1)(landmarks, landmarks))
    for column, values in zip(labels.T, paired.T, strict=True):
        mean = features[column].mean(axis=0) - features[~column].mean(axis=0)
        null = stats.multivariate_normal(cov=C, allow_singular=True).logpdf(mean)
        for variance, value in zip(VARIANCES, values, strict=True):
            other = stats.multivariate_normal(cov=C + variance * R, allow_singular=True)
            assert value == pytest.approx(other.logpdf(mean) - null, rel=1e-5)
    swapped = log_bayes_factors(points, ~labels, [length], landmarks, paired=True)
    np.testing.assert_allclose(swapped, paired, rtol=1e-9)
    independent = log_bayes_factors(points, labels, [length], landmarks)
    assert np.abs(paired - independent).max() > 0.5


def test_covariance_of_large_samples_is_estimated_from_a_subset(monkeypatch):
    """4000 + 4000 rows, 2000 of them in the subset: Bayes factors change by less than a tenth.

    With all rows in the subset several kernels give the same as one at a time.
    """
    monkeypatch.setattr(pool, "MAX_SINGLE", 20)
    monkeypatch.setattr(bins, "N_BINS", 25)
    monkeypatch.setattr(bins, "MIN_BINS", 5)
    rng = np.random.default_rng(9)
    sample = pool_rows(TwoSamples(*rng.normal(size=(2, 4000, 3))), 199, rng)
    landmarks = draw_landmarks(sample.points, 10, 0)

    def by_requests(statistic, n_rows):
        monkeypatch.setattr(landmark_bayes_factor, "PRODUCT_ROWS", n_rows)
        return statistic.collect(
            [sample.answer(request) for request in statistic.requests(sample)]
        ).values

    statistic = LandmarkBayesFactors(np.array([1.0]), landmarks)
    exact, part = statistic.evaluate(sample).values, by_requests(statistic, 2000)
    assert np.abs(part - exact).max() > 0.0
    assert np.abs(part - exact).std() < 0.1 * exact.std()
    statistic = LandmarkBayesFactors(np.array([2.0, 2.0**0.5, 1.0]), landmarks)
    assert len(statistic.requests(sample)) == 1
    separate, together = statistic.evaluate(sample).values, by_requests(statistic, 8000)
    np.testing.assert_allclose(together, separate, rtol=1e-6)


def test_landmarks_are_different_rows():
    points = np.repeat(RNG.normal(size=(7, 2)), 30, axis=0)
    chosen = draw_landmarks(points, 60, 0)
    assert len(np.unique(chosen, axis=0)) == len(chosen) == 7
    assert len(draw_landmarks(RNG.normal(size=(80, 2)), 60, 0)) == 10


def test_simultaneous_diagonalization_increases_the_jitter_of_an_indefinite_covariance():
    root = np.random.default_rng(5).normal(size=(6, 6))
    exact, prior = root @ root.T, np.exp(-np.abs(np.subtract.outer(range(6), range(6))))
    eigenvalues, basis = simultaneous_diagonalization(prior, exact)
    jitter = JITTER * np.trace(exact) / 6 * np.eye(6)
    np.testing.assert_allclose(basis.T @ (exact + jitter) @ basis, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(basis.T @ prior @ basis, np.diag(eigenvalues), atol=1e-9)
    values, vectors = np.linalg.eigh(exact)
    values[0] = -1e-7 * np.trace(exact) / 6
    eigenvalues, basis = simultaneous_diagonalization(prior, (vectors * values) @ vectors.T)
    assert np.isfinite(eigenvalues).all()
    np.testing.assert_allclose(basis.T @ prior @ basis, np.diag(eigenvalues), rtol=1e-6, atol=1e-6)
    values[0] = -np.trace(exact)
    with pytest.raises(np.linalg.LinAlgError):
        simultaneous_diagonalization(prior, (vectors * values) @ vectors.T)
