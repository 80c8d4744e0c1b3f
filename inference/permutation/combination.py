"""Combination of statistics by their tail probabilities, at an exact level.

The values of a statistic for all permutations, the observed one included, are replaced by minus the
logarithm of the tail probability of the Pearson III distribution with their mean, variance and
skewness. All permutations are treated alike, so that a permutation test of the combination is
exact, however well that distribution fits. A heavy-tailed statistic does not dominate the others,
as it does if each is divided by its standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincc, gammaln, log_ndtr

from .null_distribution import StatisticMoments, standardize, with_single_observed

#: Below this skewness Pearson III equals the normal distribution up to rounding; for negative
#: skewness the normal distribution is used.
MIN_SKEWNESS = 1e-3
#: Default order of the generalized mean of tail probabilities, with opposite sign: the minimum at
#: infinity, the geometric mean at zero.
ORDER = 0.5


def neg_log_pvalues(
    statistics: np.ndarray, *, trim: int = 0, n_observed: int = 0, approximate: bool = False
) -> np.ndarray:
    """Compute minus the log tail probability of every value of statistics (..., 1 + B).

    It is zero for a constant statistic.

    Args:
        statistics: each row among its own columns.
        trim: number of largest values that are left out of the mean, variance and skewness. With 1
            a value far beyond all others gets its very small tail probability, instead of about
            one in 1 + B, which separates several significant statistics.
        n_observed: number of first columns that are observed statistics, each compared with the
            other columns alone, see :func:`.null_distribution.with_single_observed`.
        approximate: approximate the distribution, which takes a fifth of the time and suffices
            for a standard error.
    """
    varies = standardize(statistics, n_observed=n_observed).any(axis=-1, keepdims=True)
    used = statistics[..., n_observed:]
    if trim:
        used = np.sort(used, axis=-1)[..., :-trim]
    mean, deviation = used.mean(axis=-1, keepdims=True), used.std(axis=-1, keepdims=True)
    scores = (used - mean) / np.where(deviation > 0.0, deviation, 1.0)
    # Three factors, because a power takes ten times as long.
    skewness = np.mean(scores * scores * scores, axis=-1, keepdims=True)
    if n_observed:
        moments = StatisticMoments(mean, deviation, skewness)
        mean, deviation, skewness = with_single_observed(statistics, moments, n_observed)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    shape = 4.0 / np.maximum(skewness, MIN_SKEWNESS) ** 2
    values = np.maximum(shape + (statistics - mean) / deviation * np.sqrt(shape), 0.0)
    compute = _approximate_log_tails if approximate else _neg_log_tails
    return np.where(varies, compute(shape, values), 0.0)


def _neg_log_tails(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute minus log P(G > values) of gamma variables G with shapes (..., 1) and scale one."""
    tails = gammaincc(shape, values)
    # If the tail underflows: the leading terms of the incomplete gamma function, for x > shape.
    underflow = tails == 0.0
    logs = np.log(np.where(underflow, 1.0, tails))
    x, shape = values[underflow], np.broadcast_to(shape, values.shape)[underflow]
    logs[underflow] = (shape - 1.0) * np.log(x) - x - gammaln(shape)
    logs[underflow] -= np.log1p(-np.maximum(shape - 1.0, 0.0) / x)
    return -logs


def _approximate_log_tails(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Approximate the same by cube roots, which are nearly normal (Wilson and Hilferty 1931)."""
    normal = np.cbrt(values / shape) - 1.0 + 1.0 / (9.0 * shape)
    return np.asarray(-log_ndtr(-3.0 * np.sqrt(shape) * normal))


def combine_statistics(
    statistics: Sequence[np.ndarray],
    weights: Sequence[float],
    *,
    n_observed: int = 0,
    approximate: bool = False,
) -> np.ndarray:
    """Combine statistics, (1 + B,) each, by the generalized mean of their tail probabilities.

    The mean has the order -:data:`ORDER` (Vovk and Wang 2020). The result is minus its logarithm up
    to a constant; its null distribution is that over permutations.

    Args:
        statistics: (1 + B,) each.
        weights: weights in the mean.
        n_observed: as for :func:`neg_log_pvalues`.
        approximate: as for :func:`neg_log_pvalues`.
    """
    logs = neg_log_pvalues(np.asarray(statistics), n_observed=n_observed, approximate=approximate)
    return generalized_mean(logs + np.log(np.asarray(weights))[:, None] / ORDER)


def generalized_mean(neg_logs: np.ndarray, order: float = ORDER) -> np.ndarray:
    """Return minus the log of the mean of order ``-order`` of p-values, up to a constant.

    Args:
        neg_logs: minus the logarithms of the p-values, (k, 1 + B).
        order: the order with opposite sign.
    """
    # Several times faster than SciPy's logsumexp, which is for arrays of any library.
    scaled = order * neg_logs
    largest = scaled.max(axis=0)
    return np.asarray((largest + np.log(np.exp(scaled - largest).sum(axis=0))) / order)
