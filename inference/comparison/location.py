"""Differences in location of two samples, per column: of means, and the Hodges-Lehmann estimate.

The Hodges-Lehmann estimate is the median of all differences of a value of one sample and a value of
the other, or for pairs of all means of two differences. SciPy has neither it nor its interval.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

#: Largest number of values of a sample whose differences are counted. More are replaced by as many
#: quantiles, with an error in rank that is small compared with that of the sample.
MAX_VALUES = 2**12


class LocationDifference(NamedTuple):
    """Difference in location of the second sample from the first, per column.

    Attributes:
        estimate: (D,), in the units of the data.
        interval: (D,) lower and (D,) upper ends, with confidence 1 - alpha for each column.
    """

    estimate: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]


def mean_difference(
    first: np.ndarray,
    second: np.ndarray,
    alpha: float,
    *,
    paired: bool = False,
    weights: tuple[np.ndarray, np.ndarray] | None = None,
    effective_sizes: tuple[float, float] | None = None,
) -> LocationDifference:
    """Compute the difference of means with Welch's interval, for pairs with Student's interval.

    The number of rows of a weighted sample is its effective number, 1 / sum w^2.

    Args:
        first: rows (m, D) of the first sample.
        second: rows (n, D) of the second sample.
        alpha: one minus the confidence.
        paired: if true, row i of both samples is a pair.
        weights: weights of the rows, (m,) and (n,); ``None`` for equal weights.
        effective_sizes: numbers of rows of weighted samples, if they are not the effective numbers
            of the weights, as for frequencies.
    """
    samples = (second - first,) if paired else (second, first)
    all_weights = [None] * len(samples) if weights is None else weights[::-1]
    known_sizes = [None] * len(samples) if effective_sizes is None else effective_sizes[::-1]
    # Scaled, so that squares do not overflow.
    scale = np.max([np.abs(sample).max(axis=0) for sample in samples], axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    means, variances, sizes = [], [], []
    for sample, weight, known in zip(samples, all_weights, known_sizes, strict=True):
        # Sorted, so that rounding does not depend on the order of the rows.
        values = np.ascontiguousarray(sample.T) / scale[:, None]
        if weight is None:
            values, normalized = np.sort(values), np.full(values.shape, 1.0 / len(sample))
        else:
            order = np.lexsort((np.broadcast_to(weight, values.shape), values))
            values = np.take_along_axis(values, order, axis=1)
            normalized = weight[order] / np.sort(weight).sum()
        size = 1.0 / np.sum(normalized[0] ** 2) if known is None else known
        mean = np.sum(normalized * values, axis=1)
        scatter = np.sum(normalized * (values - mean[:, None]) ** 2, axis=1)
        means.append(mean)
        variances.append(scatter / (size - 1.0))
        sizes.append(size)
    estimate = means[0] if paired else means[0] - means[1]
    total = np.sum(variances, axis=0)
    terms = sum(variance**2 / (size - 1.0) for variance, size in zip(variances, sizes, strict=True))
    # Without variance the interval is one number, whatever the degrees of freedom.
    freedom = np.divide(total**2, terms, out=np.ones_like(total), where=terms > 0.0)
    error = np.sqrt(total) * stdtrit(freedom, 1.0 - 0.5 * alpha)
    return LocationDifference(
        estimate * scale, ((estimate - error) * scale, (estimate + error) * scale)
    )


def median_difference(
    first: np.ndarray, second: np.ndarray, alpha: float, *, paired: bool = False
) -> LocationDifference:
    """Compute the Hodges-Lehmann estimate with the interval of the rank test.

    The ends of the interval are order statistics of the differences (Hollander and Wolfe 1999,
    sections 3.3 and 4.3), by the normal approximation of the rank-sum or signed-rank statistic.

    Args:
        first: rows (m, D) of the first sample.
        second: rows (n, D) of the second sample.
        alpha: one minus the confidence.
        paired: if true, row i of both samples is a pair.
    """
    m, n = len(first), len(second)
    if paired:
        samples = [second - first] * 2
        pairs, deviation = n * (n + 1) / 2.0, np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    else:
        samples = [first, second]
        pairs, deviation = float(m * n), np.sqrt(m * n * (m + n + 1) / 12.0)
    rank = max(np.floor(0.5 * pairs + ndtri(0.5 * alpha) * deviation), 1.0)
    ranks = (rank, np.ceil(0.5 * pairs), np.floor(0.5 * pairs) + 1.0, pairs + 1.0 - rank)
    columns = [(_sorted(x), _sorted(y)) for x, y in zip(samples[0].T, samples[1].T, strict=True)]
    low, lower_middle, upper_middle, high = (
        np.array([_quantile(x, y, rank / pairs, paired=paired) for x, y in columns])
        for rank in ranks
    )
    return LocationDifference(0.5 * (lower_middle + upper_middle), (low, high))


def _sorted(values: np.ndarray) -> np.ndarray:
    """Return sorted values, or :data:`MAX_VALUES` of their quantiles."""
    if len(values) <= MAX_VALUES:
        return np.sort(values)
    return np.asarray(np.quantile(values, (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES))


def _quantile(x: np.ndarray, y: np.ndarray, proportion: float, *, paired: bool) -> float:
    """Return a quantile of all differences y - x of sorted values, by bisection.

    Args:
        x: (m,), sorted.
        y: (n,), sorted; for pairs the same differences as ``x``, whose means of two are counted.
        proportion: proportion of the differences, or means, that are at most as large.
        paired: if true, means of two differences are counted.
    """
    if paired:
        x, total, doubled = -x[::-1], len(y) * (len(y) + 1) / 2.0, 2.0 * y
    else:
        total, doubled = float(len(x) * len(y)), np.empty(0)
    needed = np.ceil(proportion * total - 1e-9)

    def count(value: float) -> float:
        differences = np.searchsorted(y, x + value, side="right").sum()
        return 0.5 * (differences + np.sum(doubled <= value)) if paired else float(differences)

    low, high = y[0] - x[-1], y[-1] - x[0]
    if count(low) >= needed:
        high = low
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (low, middle) if count(middle) >= needed else (middle, high)
    # The nearest difference, since sums are rounded, with outliers by more than other differences.
    index = np.maximum(np.searchsorted(y, x + high, side="right") - 1, 0)
    differences = y[index] - x
    value = float(differences[np.argmin(np.abs(differences - high))])
    return 0.5 * value if paired else value
