"""Differences in location of two samples, column by column: of means, and of Hodges and Lehmann.

The Hodges–Lehmann estimate is the median of all differences of a value of one sample and a value of
the other, or for pairs of all means of two differences. SciPy has neither it nor its interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from ..permutation.pooled_sample import PairedSample, PooledSample

#: Values of a sample of which the differences are counted; of more, as many quantiles stand for
#: them, with an error in rank that is small beside that of so many values.
MAX_VALUES = 2**14


class LocationDifference(NamedTuple):
    """A difference in location of the second sample from the first, column by column.

    Attributes:
        estimate: (D,), in the units of the data.
        interval: (D,) lower and (D,) upper ends, with confidence 1 - alpha for each column.
    """

    estimate: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]


def mean_difference(rows: PooledSample, alpha: float) -> LocationDifference:
    """Compute the difference of means with Welch's interval, or for pairs that of Student's t.

    Weighted samples count as many rows of one weight as they are worth.

    Args:
        rows: the pooled rows with the labels as they are.
        alpha: one minus the confidence.
    """
    if isinstance(rows, PairedSample):
        differences = _pair_differences(rows) / rows.scale
        count = len(differences)
        estimate = differences.mean(axis=0)
        variances = differences.var(axis=0, ddof=1)[None] / count
        freedom = np.full(len(estimate), count - 1.0)
    else:
        # Scaled, so that squares do not overflow.
        values, weights, worth = rows.points, rows.weights, rows.effective_sizes
        means = weights.T @ values
        estimate = means[1] - means[0]
        spreads = [
            weight @ (values - mean) ** 2 for weight, mean in zip(weights.T, means, strict=True)
        ]
        variances = np.stack(spreads) / (worth - 1.0)[:, None]
        total = variances.sum(axis=0)
        parts = np.sum(variances**2 / (worth - 1.0)[:, None], axis=0)
        # Without variance the interval is one number, whatever the degrees of freedom.
        freedom = np.divide(total**2, parts, out=np.ones_like(total), where=parts > 0.0)
    error = np.sqrt(variances.sum(axis=0)) * stdtrit(freedom, 1.0 - 0.5 * alpha)
    low, high = (estimate - error) * rows.scale, (estimate + error) * rows.scale
    return LocationDifference(estimate * rows.scale, (low, high))


def median_difference(rows: PooledSample, alpha: float) -> LocationDifference | None:
    """Compute the Hodges–Lehmann estimate with the interval of the rank test.

    The ends of the interval are order statistics of the differences (Hollander and Wolfe 1999,
    sections 3.3 and 4.3), by the normal approximation of the rank-sum or signed-rank statistic.

    Args:
        rows: the pooled rows with the labels as they are.
        alpha: one minus the confidence.

    Returns:
        The difference, or ``None`` for weighted rows.
    """
    if rows.permutation_type == "signs":
        return None
    if isinstance(rows, PairedSample):
        samples = [_pair_differences(rows)] * 2
        n = len(samples[0])
        pairs, deviation = n * (n + 1) / 2.0, np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    else:
        values, first = rows.points * rows.scale, rows.first_counts.astype(int)
        samples = [np.repeat(values, count, axis=0) for count in (first, rows.counts - first)]
        m, n = map(len, samples)
        pairs, deviation = float(m * n), np.sqrt(m * n * (m + n + 1) / 12.0)
    rank = max(np.floor(0.5 * pairs + ndtri(0.5 * alpha) * deviation), 1.0)
    ranks = (rank, np.ceil(0.5 * pairs), np.floor(0.5 * pairs) + 1.0, pairs + 1.0 - rank)
    columns = [(_sorted(x), _sorted(y)) for x, y in zip(samples[0].T, samples[1].T, strict=True)]
    of_pairs = isinstance(rows, PairedSample)
    low, *middle, high = (
        np.array([_quantile(x, y, rank / pairs, of_pairs=of_pairs) for x, y in columns])
        for rank in ranks
    )
    return LocationDifference(0.5 * (middle[0] + middle[1]), (low, high))


def _pair_differences(rows: PooledSample) -> np.ndarray:
    """Return the second sample's value less the first's, (m, D), for every pair."""
    assert isinstance(rows, PairedSample)
    values, first = rows.points * rows.scale, rows.first_counts
    one, other = rows.partners.T
    # Points are single rows; the sign is that of the member of the first sample.
    sign = np.where(first[one] > 0, 1.0, -1.0)
    return np.asarray(sign[:, None] * (values[other] - values[one]))


def _sorted(values: np.ndarray) -> np.ndarray:
    """Return sorted values, or :data:`MAX_VALUES` of their quantiles."""
    if len(values) <= MAX_VALUES:
        return np.sort(values)
    return np.asarray(np.quantile(values, (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES))


def _quantile(x: np.ndarray, y: np.ndarray, proportion: float, *, of_pairs: bool) -> float:
    """Return a quantile of all differences y - x of sorted values, by bisection.

    Args:
        x: (m,) sorted.
        y: (n,) sorted; the same differences as ``x`` for pairs, of which the means of two count.
        proportion: of the differences, or means, at most as large.
        of_pairs: whether means of two are meant.
    """
    if of_pairs:
        x, total = -x[::-1], len(y) * (len(y) + 1) / 2.0
        own = 2.0 * y
    else:
        total, own = float(len(x) * len(y)), np.empty(0)
    needed = np.ceil(proportion * total - 1e-9)

    def count(at: float) -> float:
        every = np.searchsorted(y, x + at, side="right").sum()
        return 0.5 * (every + np.sum(own <= at)) if of_pairs else float(every)

    low, high = y[0] - x[-1], y[-1] - x[0]
    if count(low) >= needed:
        high = low
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (low, middle) if count(middle) >= needed else (middle, high)
    # The largest difference that is at most this, since rounding adds up.
    index = np.searchsorted(y, x + high, side="right") - 1
    reached = index >= 0
    value = float(np.max(y[index[reached]] - x[reached])) if reached.any() else high
    return 0.5 * value if of_pairs else value
