"""Statistics of several kinds as one, at an exact level: each told by how surprising it is.

A statistic's values for all relabellings, the observed among them, are brought to one scale: minus
the logarithm of the tail probability of the Pearson III distribution that has their mean, variance
and skewness. It treats all columns alike, so that a permutation test of the combination is exact
however well that distribution fits; and a heavy-tailed statistic does not drown the others, as it
does where each is divided by its deviation alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincc, gammaln, logsumexp

from .permutation import Moments, standardised, with_each

#: Below this skewness Pearson III is the normal distribution, to what rounding lets see.
LEAST_SKEWNESS = 1e-3
#: How much the loudest statistic counts: at infinity it is alone, at zero all count alike.
AGREEMENT = 0.5
#: Roughly told are so many of the smallest and largest values, and of the others every so many-th.
SMALLEST, LARGEST, EVERY = 8, 64, 16


def surprise(
    rows: np.ndarray, *, without: int = 0, alone: int = 0, roughly: bool = False
) -> np.ndarray:
    """Minus the log tail probability of every column of statistics (..., 1 + B), nats.

    A constant statistic surprises nowhere: zero.

    Args:
        rows: the statistics, each among its own columns.
        without: so many of its largest values, whichever they are, do not count for its mean,
            variance and skewness. With 1 an observed value far beyond all others is as surprising
            as it is, where it otherwise is hardly more than one of 1 + B: that tells among many
            statistics, of which some are always the largest of 1 + B.
        alone: so many of the first columns come one at a time among the others, see
            :func:`~bke.inference.permutation.permutation.with_each`.
        roughly: tell the largest values, and interpolate between some of the others: for a standard
            error, of which the tails of every value would be most of the work. Not of values that
            are ``alone``.
    """
    varies = standardised(rows, alone=alone).any(axis=-1, keepdims=True)
    kept = np.sort(rows[..., alone:], axis=-1)[..., : rows.shape[-1] - alone - without]
    mean, deviation = kept.mean(axis=-1, keepdims=True), kept.std(axis=-1, keepdims=True)
    apart = (kept - mean) / np.where(deviation > 0.0, deviation, 1.0)
    # Three factors, for a power takes ten times as long.
    skewness = np.mean(apart * apart * apart, axis=-1, keepdims=True)
    if alone:
        mean, deviation, skewness = with_each(rows, Moments(mean, deviation, skewness), alone)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    shape = 4.0 / np.maximum(skewness, LEAST_SKEWNESS) ** 2
    values = np.maximum(shape + (rows - mean) / deviation * np.sqrt(shape), 0.0)
    told = _interpolated if roughly else _minus_log_tail
    return np.where(varies, told(shape, values), 0.0)


def _minus_log_tail(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Minus log P(G > values), of gamma variables G of some shapes (..., 1) and scale one."""
    tails = gammaincc(shape, values)
    # Beyond what the library tells: the leading terms of the incomplete gamma function.
    far = tails == 0.0
    logs = np.log(np.where(far, 1.0, tails))
    x, shape = values[far], np.broadcast_to(shape, values.shape)[far]
    logs[far] = (shape - 1.0) * np.log(x) - x - gammaln(shape)
    return -logs


def _interpolated(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same, linear between some of the values."""
    ranks = np.arange(values.shape[-1])
    ends = (ranks < SMALLEST) | (ranks >= len(ranks) - LARGEST)
    nodes = np.sort(values, axis=-1)[..., ends | (ranks % EVERY == 0)]
    told = _minus_log_tail(shape, nodes)
    found = np.empty_like(values)
    for row in np.ndindex(values.shape[:-1]):
        found[row] = np.interp(values[row], nodes[row], told[row])
    return found


def combined(
    statistics: Sequence[np.ndarray],
    weights: Sequence[float] | None = None,
    *,
    alone: int = 0,
    roughly: bool = False,
) -> np.ndarray:
    """Combine statistics, (1 + B,): near the loudest surprise, more if others agree.

    The mean of tail probabilities of order -:data:`AGREEMENT` (Vovk and Wang 2020), as minus its
    logarithm and up to constants; its null distribution is that over relabellings.

    Args:
        statistics: (1 + B,) each.
        weights: of each in that mean; by default equal ones.
        alone: as of :func:`surprise`.
        roughly: likewise.
    """
    each = np.ones(len(statistics)) if weights is None else np.asarray(weights)
    surprises = surprise(np.asarray(statistics), alone=alone, roughly=roughly)
    return agreed(surprises + np.log(each)[:, None] / AGREEMENT)


def agreed(surprises: np.ndarray, order: float = AGREEMENT) -> np.ndarray:
    """Combine surprises (k, 1 + B) as :func:`combined` does, by a mean of order ``-order``."""
    return np.asarray(logsumexp(order * surprises, axis=0) / order)
