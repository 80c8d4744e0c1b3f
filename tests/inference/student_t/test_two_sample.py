"""Bayes factors of two kernel Student-t densities against one."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from bke.inference import InputError, TwoDensityResult, two_density_test
from bke.inference.student_t import two_sample
from bke.models import SquaredExponential, kernel_student_t
from scipy.special import logsumexp, multigammaln
from scipy.stats import binom, multivariate_t

KERNEL = SquaredExponential(0.8)
#: A density with fixed hyperparameters, which takes no time to learn.
FIXED = {"kernel": KERNEL, "factors": (1.0,), "noise_variance": 0.7, "progress": False}


def log_marginal_of_features(features, alpha, beta, noise_variance):
    """Return the log marginal likelihood of features (n, M), by predictive densities one by one.

    The update of a normal-inverse-Wishart distribution is that of Murphy (2007), *Conjugate
    Bayesian analysis of the Gaussian distribution*, section 9.
    """
    M = features.shape[1]
    mean, weight, degrees = np.zeros(M), beta, alpha
    scale = noise_variance * np.eye(M)
    total = 0.0
    for row in features:
        freedom = degrees - M + 1.0
        shape = scale * (weight + 1.0) / (weight * freedom)
        total += multivariate_t.logpdf(row, mean, shape, df=freedom)
        scale = scale + weight / (weight + 1.0) * np.outer(row - mean, row - mean)
        mean = (weight * mean + row) / (weight + 1.0)
        weight, degrees = weight + 1.0, degrees + 1.0
    return total


def constant(n, M, alpha, beta, noise_variance):
    """Return the part of the log marginal likelihood that depends on sizes only."""
    value = multigammaln(0.5 * (alpha + n), M) - multigammaln(0.5 * alpha, M)
    value += 0.5 * M * np.log(beta / (beta + n))
    return value - 0.5 * n * M * np.log(np.pi * noise_variance)


def test_log_ratio_is_that_of_gaussian_features():
    alpha, beta, noise_variance = 3.7, 0.3, 0.6
    density = SimpleNamespace(alpha=alpha, beta=beta, noise_variance=noise_variance)
    rng = np.random.default_rng(0)
    features = rng.normal([1.0, -2.0], [1.0, 0.4], (8, 2))
    log_ratio = two_sample.permuted_log_ratio(density, features @ features.T, 3)
    assignments = np.stack([np.arange(8), rng.permutation(8), rng.permutation(8)])
    prior = (alpha, beta, noise_variance)
    expected = [
        log_marginal_of_features(features[order[:3]], *prior)
        + log_marginal_of_features(features[order[3:]], *prior)
        - log_marginal_of_features(features, *prior)
        for order in assignments
    ]
    constants = constant(3, 2, *prior) + constant(5, 2, *prior) - constant(8, 2, *prior)
    np.testing.assert_allclose(log_ratio(assignments) + constants, expected, rtol=1e-10)


def enumerated_log_ratios(points, n, noise_variance, beta=0.01, alpha=1.0):
    """Return log ratios of all assignments, that of the first n rows first, without constants."""

    def log_density(rows):
        K = np.exp(-0.5 * (rows[:, None] - rows) ** 2 / 0.8**2)
        A = K + noise_variance * (np.eye(len(rows)) + 1.0 / beta)
        return -0.5 * (alpha + len(rows)) * np.linalg.slogdet(A)[1]

    indices = range(len(points))
    return np.array(
        [
            log_density(points[list(first)])
            + log_density(points[[i for i in indices if i not in first]])
            for first in itertools.combinations(indices, n)
        ]
    )


@pytest.mark.parametrize("noise_variance", [5.0, 0.7])
def test_mean_ratio_is_that_of_all_assignments(noise_variance):
    # The seed is fixed. The standard deviation of the estimate over seeds is below 0.06 nats, so
    # that other seeds fail once in 10^6 times.
    points = np.random.default_rng(1).normal(size=11)
    K = np.exp(-0.5 * (points[:, None] - points) ** 2 / 0.8**2)
    density = kernel_student_t(points, KERNEL, noise_variance=noise_variance)
    log_ratio = two_sample.permuted_log_ratio(density, K, 4)
    logs = enumerated_log_ratios(points, 4, noise_variance)
    logs += log_ratio(np.arange(11)[None])[0] - logs[0]
    expected = logsumexp(logs) - np.log(len(logs))
    assert expected - np.mean(logs) > 0.02
    estimate, error = two_sample.log_mean_ratio(log_ratio, 4, 7, np.random.default_rng(2))
    assert abs(estimate - expected) < 0.3
    assert 0.0 < error < 0.3


def test_exchanges_keep_permutations():
    before = np.random.default_rng(3).permuted(np.tile(np.arange(7), (50, 1)), axis=1)
    after = two_sample._exchange_rows(before, 2, np.random.default_rng(4))
    np.testing.assert_array_equal(np.sort(after, axis=1), np.tile(np.arange(7), (50, 1)))
    moved = [len(set(a[:2]) - set(b[:2])) for a, b in zip(after, before, strict=True)]
    assert set(moved) <= {0, 1, 2}
    assert sum(moved) >= 50


def test_values_are_log_bayes_factors_of_permuted_labels():
    first, second = np.array([0.1, 2.0, 2.3]), np.array([-1.0, -0.4, 0.5, 0.2])
    result = two_density_test(first, second, n_resamples=299, **FIXED)
    assert isinstance(result, TwoDensityResult)
    logs = enumerated_log_ratios(np.concatenate([first, second]), 3, 0.7)
    log_bayes_factors = logs - logsumexp(logs) + np.log(len(logs))
    # The statistic differs by the Monte Carlo error of the mean, its differences by rounding.
    assert abs(result.log_bayes_factor - log_bayes_factors[0]) < 0.2
    steps = np.unique(np.round(result.null_distribution - result.statistic, 9))
    np.testing.assert_allclose(steps, np.unique(np.round(logs - logs[0], 9)), atol=2e-9)
    exact = np.mean(logs >= logs[0] - 1e-9)
    assert abs(result.pvalue - exact) < 5.0 * np.sqrt(exact * (1.0 - exact) / 300)
    assert result.exact


def test_order_of_rows_and_samples_has_no_influence():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(9, 1)), rng.normal(1.0, 0.5, (6, 1))
    options = {**FIXED, "n_resamples": 99}
    result = two_density_test(first, second, **options)
    again = two_density_test(rng.permutation(second), rng.permutation(first), **options)
    assert again.pvalue == result.pvalue
    np.testing.assert_allclose(again.log_bayes_factor, result.log_bayes_factor, atol=1e-9)
    np.testing.assert_allclose(again.null_distribution, result.null_distribution, atol=1e-9)


def test_text_and_plain_data_agree():
    rng = np.random.default_rng(6)
    result = two_density_test(rng.normal(size=15), rng.normal(4.0, 1.0, 12), **FIXED)
    assert result.pvalue == 0.001
    assert result.log_bayes_factor > 3.0
    data = json.loads(json.dumps(result.to_dict()))
    np.testing.assert_allclose(np.log(data["odds"]), result.log_bayes_factor)
    probability = data["posterior_probability_of_difference"]
    np.testing.assert_allclose(probability / (1.0 - probability), result.odds, rtol=1e-6)
    assert data["noise_variance"] == 0.7
    lines = str(result).split("\n")
    assert "P and Q differ at level 0.05 (p ≤ 0.001" in lines[0]
    assert lines[1].startswith("  posterior odds: ")
    assert ": 1 for a difference" in lines[1]
    assert f"{result.log_bayes_factor:.3g} ± {result.log_bayes_factor_error:.1g}" in lines[1]
    assert "lengthscale 0.8, noise variance 0.7" in lines[2]
    huge = two_sample.dataclasses.replace(result, statistic=1e4)
    assert np.isfinite(huge.odds)
    assert huge.posterior_probability_of_difference == 1.0


def test_a_large_error_is_noted(monkeypatch):
    monkeypatch.setattr(two_sample, "log_mean_ratio", lambda *arguments: (0.0, 0.7))
    rng = np.random.default_rng(7)
    result = two_density_test(rng.normal(size=8), rng.normal(size=9), **FIXED)
    assert any("standard error of 0.7" in note for note in result.notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Q": [[1.0, 2.0], [3.0, 4.0]]}, "column"),
        ({"P": [1.0, np.nan, 2.0]}, "row 2"),
        ({"n_resamples": 10}, "take at least 19"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"noise_variance": 1e-30}, "noise_variance = 1e-30 is too small"),
        ({"kernel": "mean"}, "kernel"),
        ({"seed": -1}, "seed"),
        ({"alpha": 2.0}, "alpha"),
    ],
)
def test_invalid_input(arguments, message):
    samples = {"P": np.linspace(0.0, 1.0, 20), "Q": np.linspace(0.1, 1.2, 15)}
    with pytest.raises(InputError, match=message):
        two_density_test(**{**samples, **FIXED, **arguments})


@pytest.mark.slow
def test_learned_hyperparameters_in_three_columns():
    rng = np.random.default_rng(8)
    first, second = rng.normal(size=(25, 3)), rng.normal(1.0, 1.0, (20, 3))
    result = two_density_test(first, second, progress=False)
    assert result.pvalue <= 0.01
    assert result.log_bayes_factor > 1.0


@pytest.mark.slow
def test_level(monkeypatch):
    # 300 pairs of normal samples; a correct test fails once in 10^4 seeds.
    monkeypatch.setattr(two_sample, "log_mean_ratio", lambda *arguments: (0.0, 0.0))
    options = {**FIXED, "n_resamples": 19}
    rejected = 0
    for seed in range(300):
        first, second = np.split(np.random.default_rng([9, seed]).normal(size=17), [6])
        rejected += two_density_test(first, second, seed=seed, **options).reject
    low, high = binom.interval(0.9999, 300, 0.05)
    assert low <= rejected <= high
