"""Bayes factors of labels, compared with dense normal densities."""

import numpy as np
import pytest
import scipy.stats
from bke.inference.permutation.null_distribution import neg_log_tails
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import label_bayes_factor
from bke.inference.statistics.combined import CombinedStatistic
from bke.inference.statistics.kernels import LAPLACE, KernelScale, squared_exponential
from bke.inference.statistics.label_bayes_factor import (
    VARIANCES,
    KernelAtNodes,
    LabelBayesFactors,
    decompose_kernel,
    label_fits,
    label_log_bayes_factors,
)
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
#: Rounded, so that rows are tied; unequal sizes.
P = np.round(RNG.normal(size=(30, 2)), 0)
Q = np.round(RNG.normal(0.4, 1.3, size=(45, 2)), 0)


@pytest.fixture
def sample():
    return pool_rows(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))


@pytest.mark.parametrize("column", [0, 3])
def test_bayes_factor_is_the_ratio_of_two_normal_densities(sample, column, single_rows):
    decomposition = decompose_kernel(
        sample, KernelAtNodes.of(squared_exponential, sample.points, 0.7)
    )
    points, first = single_rows(sample, column)
    n, fraction = len(points), 30 / 75
    y = (first - fraction) / np.sqrt(fraction * (1 - fraction))
    H = np.eye(n) - 1.0 / n
    centered = H @ np.exp(-0.5 * cdist(points, points, "sqeuclidean") / 0.7**2) @ H
    variances = np.array([0.01, 3.0])
    logs = label_log_bayes_factors(decomposition, variances)
    for variance, log in zip(variances, logs, strict=True):
        alternative = scipy.stats.multivariate_normal(np.zeros(n), np.eye(n) + variance * centered)
        null = scipy.stats.multivariate_normal(np.zeros(n))
        assert log[column] == pytest.approx(alternative.logpdf(y) - null.logpdf(y), rel=1e-8)


def test_bayes_factor_of_a_small_variance_is_the_squared_mmd(sample, single_rows):
    """As s -> 0 the slope of the fit is n f (1 - f) MMD^2 n / 2 with the fraction f."""
    decomposition = decompose_kernel(
        sample, KernelAtNodes.of(squared_exponential, sample.points, 0.7)
    )
    fit = 0.5 * np.sum(decomposition.loadings[:, 0] ** 2)
    points, first = single_rows(sample)
    K = np.exp(-0.5 * cdist(points, points, "sqeuclidean") / 0.7**2)
    signed = np.where(first, 1 / 30, -1 / 45)
    fraction = 30 / 75
    expected = 0.5 * 75**2 * fraction * (1 - fraction) * (signed @ K @ signed)
    assert fit == pytest.approx(expected)


@pytest.mark.parametrize("per_sample", [100, 300])
@pytest.mark.parametrize("columns", [2, 10])
def test_bayes_factors_of_several_hundred_rows_are_those_of_the_full_kernel(per_sample, columns):
    """For 200 rows of ten columns; larger samples, or two columns, have at most 192 nodes."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, per_sample, columns))
    sample = pool_rows(TwoSamples.checked(x, 1.1 * y), 9, rng)
    statistic = LabelBayesFactors((KernelScale(LAPLACE, 1.0),))
    nodes = statistic._nodes(sample)[LAPLACE]
    if (per_sample, columns) != (100, 10):
        assert len(nodes) <= 192
        return
    decomposition = decompose_kernel(sample, KernelAtNodes.of(LAPLACE.function, nodes, 1.0))
    n, fraction = 200, 0.5
    labels = sample.labels[:, 0]
    K = LAPLACE.function(sample.points, sample.points, 1.0)
    H = np.eye(n) - 1.0 / n
    alternative = scipy.stats.multivariate_normal(np.zeros(n), np.eye(n) + 3.0 * H @ K @ H)
    deviations = (labels - fraction) / np.sqrt(fraction * (1 - fraction))
    null = scipy.stats.multivariate_normal(np.zeros(n))
    expected = alternative.logpdf(deviations) - null.logpdf(deviations)
    (log,) = label_log_bayes_factors(decomposition, np.array([3.0]))
    assert log[0] == pytest.approx(expected, rel=1e-8)


def test_joint_evaluation_of_kernels_agrees_with_separate_evaluation(monkeypatch):
    """With products of features by all rows; Q has a larger spread."""
    monkeypatch.setattr(label_bayes_factor, "NODES", 30)
    monkeypatch.setattr(label_bayes_factor, "MAX_EXACT_ROWS", 0)
    rng = np.random.default_rng(0)
    samples = TwoSamples.checked(rng.normal(size=(40, 3)), 1.5 * rng.normal(size=(40, 3)))
    sample = pool_rows(samples, 9, np.random.default_rng(1))
    lengthscales = (2.0, 1.0, 0.5, 0.3)
    statistic = LabelBayesFactors(tuple(KernelScale(LAPLACE, length) for length in lengthscales))
    requests = statistic.requests(sample)
    assert len(requests) == 2  # the last kernel is no square of the previous one
    together = statistic.collect([sample.answer(request) for request in requests]).values
    nodes = statistic._nodes(sample)[LAPLACE]
    assert len(nodes) < len(sample.points)
    for index, lengthscale in enumerate(lengthscales):
        separate = decompose_kernel(sample, KernelAtNodes.of(LAPLACE.function, nodes, lengthscale))
        kernel_rows = slice(index * len(VARIANCES), (index + 1) * len(VARIANCES))
        np.testing.assert_allclose(
            together[kernel_rows], label_fits(separate, VARIANCES), rtol=1e-7
        )


def test_laplace_kernels_detect_heavier_tails_of_all_columns():
    """80 + 80 rows of 40 columns, normal and Laplace of one variance; seed 3, 199 permutations."""
    rng = np.random.default_rng(3)
    samples = TwoSamples.checked(
        rng.normal(size=(80, 40)), rng.laplace(scale=0.5**0.5, size=(80, 40))
    )
    sample = pool_rows(samples, 199, rng)
    statistic = LabelBayesFactors.choose(sample)
    combined = CombinedStatistic.evaluate(sample, [statistic])
    values = combined.evaluations[0].values
    significance = neg_log_tails(values, trim=1)[:, 0]
    is_laplace = np.repeat([scale.family is LAPLACE for scale in statistic.scales], len(VARIANCES))
    assert significance[is_laplace].max() > significance[~is_laplace].max() + 2.0
    assert combined.scale.family is LAPLACE
