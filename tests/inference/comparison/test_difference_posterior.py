"""The posterior of a difference and the AUC of its rule, by their eigendecompositions."""

import numpy as np
import pytest
import scipy.stats
from bke.inference.comparison.difference_posterior import difference_posterior
from bke.inference.comparison.effect_sizes import cross_validated_auc
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
#: Rounded, so that rows are tied; unequal sizes.
P = np.round(RNG.normal(size=(30, 2)), 0)
Q = np.round(RNG.normal(0.4, 1.3, size=(45, 2)), 0)


def pool(first, second, n_resamples=1):
    return pool_rows(TwoSamples.checked(first, second), n_resamples, np.random.default_rng(1))


def test_posterior_of_the_difference_is_that_of_regression(single_rows):
    """Mean and covariance of draws at one lengthscale and variance; 40 000 draws, seed 0."""
    sample = pool(P, Q)
    posterior = difference_posterior(sample)
    at = np.array([[0.0, 0.0], [1.5, -1.0], [-2.0, 0.5]])
    points, is_first = single_rows(sample)
    n, fraction = len(points), 30 / 75
    y = (is_first - fraction) / np.sqrt(fraction * (1 - fraction))
    H = np.eye(n) - 1.0 / n
    index, s = 9, 12
    weights = np.zeros_like(posterior.weights)
    weights[index, s] = 1.0
    single = type(posterior)(**{**vars(posterior), "weights": weights})
    scale, variance = posterior.lengthscales[index], posterior.variances[s]
    K = np.exp(-0.5 * cdist(points, points, "sqeuclidean") / scale**2)
    across = np.exp(-0.5 * cdist(at, points, "sqeuclidean") / scale**2)
    gram_at = np.exp(-0.5 * cdist(at, at, "sqeuclidean") / scale**2)
    # Centered as functions: less their mean over the rows.
    across_c = (across - K.mean(axis=0)) @ H
    gram_at_c = gram_at - across.mean(axis=1)[:, None] - across.mean(axis=1) + K.mean()
    gain = variance * across_c @ np.linalg.inv(np.eye(n) + variance * H @ K @ H)
    mean, covariance = gain @ y, variance * (gram_at_c - gain @ across_c.T)
    draws = single.draw(40_000, np.random.default_rng(0)).evaluate(at)
    draws = draws * np.sqrt(fraction * (1 - fraction))
    error = np.sqrt(np.diag(covariance) / 40_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())


def test_auc_of_a_shift_and_of_equal_distributions():
    """2000 + 2000 rows, seeds 3 and 4: within 4 standard errors of the closed form."""
    for seed, shift in ((3, 0.5), (4, 0.0)):
        rng = np.random.default_rng(seed)
        sample = pool(rng.normal(size=2000), rng.normal(shift, size=2000)).observed()
        estimate = cross_validated_auc(difference_posterior(sample), sample, 0.05)
        # A learned rule is slightly worse than the best one.
        best = scipy.stats.norm.cdf(shift / 2**0.5)
        low, high = estimate.interval
        assert low < estimate.auc < high
        assert abs(estimate.auc - best) < (high - low)


@pytest.mark.slow
def test_interval_of_the_auc_covers_a_half_for_equal_distributions():
    """60 null data sets of 2 x 60 rows, seeds 0 to 59: 9 or more misses have probability 0.003.

    If scores of rules trained on common rows were treated as independent, there would be 10.
    """
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sample = pool(rng.normal(size=60), rng.normal(size=60)).observed()
        low, high = cross_validated_auc(difference_posterior(sample), sample, 0.05).interval
        missed += not low <= 0.5 <= high
    assert missed <= 8


def test_auc_of_separated_samples_is_unity_with_an_exact_lower_limit():
    sample = pool(RNG.normal(size=40), RNG.normal(50.0, size=30)).observed()
    estimate = cross_validated_auc(difference_posterior(sample), sample, 0.05)
    assert estimate.auc == 1.0
    assert estimate.interval == (pytest.approx(0.025 ** (1 / 30)), 1.0)
