"""Paired rows: the level under swaps within pairs, and the power that pairs add."""

import numpy as np
import pytest
import scipy.stats
from bke.inference import InputError, compare
from bke.inference.comparison.regions import ratio_intervals
from bke.inference.permutation.pool import pool_pairs
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.kernels import squared_exponential
from bke.inference.statistics.label_bayes_factor import (
    KernelAtNodes,
    decompose_kernel,
    label_log_bayes_factors,
)
from bke.inference.statistics.local_differences import local_statistics
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
P = np.round(RNG.normal(size=(40, 3)), 1)
Q = np.round(0.8 * P + 0.5 * RNG.normal(size=(40, 3)), 1)
QUIET = {"progress": False}


def rows_of(first, second, n_resamples=9):
    return pool_pairs(TwoSamples.checked(first, second), n_resamples, np.random.default_rng(1))


@pytest.mark.parametrize("column", [0, 4])
def test_the_bayes_factor_is_the_ratio_of_two_normal_densities_of_sums_over_pairs(column):
    rows = rows_of(P, Q)
    decomposition = decompose_kernel(rows, KernelAtNodes.of(squared_exponential, rows.points, 0.9))
    K = np.exp(-0.5 * cdist(rows.points, rows.points, "sqeuclidean") / 0.9**2)
    center = np.eye(80) - 1.0 / 80
    values, vectors = np.linalg.eigh(center @ K @ center)
    values, vectors = values[-8:], vectors[:, -8:]  # 40 pairs: eight eigenfunctions
    functions = vectors * np.sqrt(values)
    a, b = rows.partners.T
    differences = functions[a] - functions[b]
    total = (2.0 * rows.labels[a, column] - 1.0) @ differences
    null = scipy.stats.multivariate_normal(np.zeros(8), differences.T @ differences)
    variances = np.array([0.02, 2.0])
    for variance, log in zip(
        variances, label_log_bayes_factors(decomposition, variances), strict=True
    ):
        signal = differences.T @ differences + variance * np.diag(values**2)
        other = scipy.stats.multivariate_normal(np.zeros(8), signal)
        assert log[column] == pytest.approx(other.logpdf(total) - null.logpdf(total), rel=1e-5)


def test_independent_pairs_have_nearly_the_bayes_factor_of_independent_rows():
    rng = np.random.default_rng(3)
    both = rng.normal(size=300), rng.normal(0.3, size=300)
    unpaired, with_pairs = (
        compare(*both, paired=paired, n_resamples=99, **QUIET) for paired in (False, True)
    )
    assert unpaired.log_bayes_factor > 3.0
    assert with_pairs.log_bayes_factor == pytest.approx(unpaired.log_bayes_factor, rel=0.3)
    at = np.linspace(-2.0, 2.0, 5)
    first, second = (comparison.witness(at, scale=1.0) for comparison in (unpaired, with_pairs))
    np.testing.assert_allclose(first.mean, second.mean, atol=(first.upper - first.lower).max() / 2)


def test_t_statistics_use_the_differences_of_partners():
    rows = rows_of(P, Q)
    local = local_statistics(rows)
    assert len(local.t) > 20
    low, _ = ratio_intervals(local, 0.05)
    for cell in (0, len(local.t) // 3, len(local.t) - 1):
        used = np.isfinite(local.scales[cell])
        if used.sum() == 1:  # whose values are merged to cells of nearly equal ones
            continue
        k = [
            np.exp(
                -0.5
                * np.sum(((x / rows.scale - local.centers[cell]) / local.scales[cell]) ** 2, axis=1)
            )
            for x in (P, Q)
        ]
        difference = k[0] - k[1]
        expected = difference.mean() / np.sqrt(np.mean(difference**2) / 40)
        assert local.t[cell, 0] == pytest.approx(expected)
        assert local.covariance[cell] == pytest.approx(np.cov(*k, bias=True)[0, 1] / 40)
        # The ends of the interval are where the ratio is as far off as the critical value.
        end = low[cell]
        if end > 0.0:
            rest = k[0] - end * k[1]
            # Two pairs more, anywhere, with the correlation of the others.
            more = [2 * np.mean((np.concatenate(k) - weights.mean()) ** 2) / 40**2 for weights in k]
            uncorrelated = 1 - max(np.corrcoef(*k)[0, 1], 0.0)
            t = rest.mean() / np.sqrt(rest.var() / 40 + uncorrelated * (more[0] + end**2 * more[1]))
            assert abs(t) == pytest.approx(local.critical_value(0.05), rel=1e-6)


@pytest.mark.slow
def test_the_level_for_dependent_rows():
    """60 sets of 50 pairs with correlation 0.9, 99 swaps, level 0.1; 13 or more: chance 0.007."""
    rejected = 0
    for seed in range(60):
        common = np.random.default_rng(seed)
        both = common.multivariate_normal([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]], size=50)
        result = compare(*both.T, paired=True, n_resamples=99, alpha=0.1, **QUIET)
        rejected += result.reject
    assert 0 < rejected <= 12


def test_pairs_reveal_a_small_shift_that_unpaired_rows_do_not():
    rng = np.random.default_rng(1)
    both = rng.multivariate_normal([0.0, 0.15], [[1.0, 0.97], [0.97, 1.0]], size=200)
    unpaired, paired = (
        compare(*both.T, paired=as_pairs, n_resamples=199, **QUIET) for as_pairs in (False, True)
    )
    assert not unpaired.reject
    assert paired.reject
    assert paired.log_bayes_factor > unpaired.log_bayes_factor + 10.0
    truth = np.exp(-0.25 * 1.0**2) - np.exp(-0.25 * 1.15**2)  # of N(0, 1) and N(0.15, 1), doubled
    bands = paired.witness([-1.0], scale=1.0)
    assert bands.wide_lower[0] < truth / 2**0.5 < bands.wide_upper[0]
    assert (bands.upper - bands.lower)[0] < 0.5 * (
        unpaired.witness([-1.0], scale=1.0).upper - unpaired.witness([-1.0], scale=1.0).lower
    )[0]
    assert paired.auc > 0.6
    assert (
        "Cross-validated proportion of pairs in which a classifier recognizes the row of P"
        in str(paired)
    )
    assert "200 pairs" in str(paired)
    with pytest.raises(InputError, match="independent rows"):
        paired.required_sample_size()


def test_effect_of_pairs_is_how_often_the_row_of_the_first_wins():
    """100 pairs, seed 0: columns that vary by 12, and fall by 3 within 1.5 in every pair."""
    rng = np.random.default_rng(0)
    before = 70.0 + 12.0 * rng.normal(size=100)
    after = before - 3.0 + 1.5 * rng.normal(size=100)
    result = compare(before, after, paired=True, n_resamples=99, **QUIET)
    falls = np.mean(before > after)
    assert falls > 0.95
    assert abs(result.auc - falls) < 0.05
    low, high = result.auc_interval
    assert low <= falls <= high
    assert compare(before, after, n_resamples=99, **QUIET).auc < 0.7
