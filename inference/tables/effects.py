"""Effect sizes and histograms of a column in two tables: medians, AUC, proportions of levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..comparison.effect_sizes import (
    LocationDifference,
    mean_difference,
    median_difference,
    proportion_with_interval,
)
from ..data.weighted import weighted_quantiles
from ..io.types import Column
from .derived_features import MISSING
from .statistics import Marginal

#: Smallest number of rows of a table for intervals of differences in location.
MIN_LOCATION_ROWS = 6


class LevelProportion(NamedTuple):
    """Proportion of a level among the rows with a value, in both tables.

    ``interval`` is a confidence interval of the difference, ``after`` less ``before`` (Agresti and
    Caffo 2000, without the part below -1 or above 1); ``None`` for clusters.
    """

    level: str
    before: float
    after: float
    interval: tuple[float, float] | None = None


class Effect(NamedTuple):
    """Change of a column between two tables.

    Attributes:
        missing: proportions of rows without a value.
        missing_interval: confidence interval of their difference; ``None`` for clusters.
        medians: medians of numbers, and of dates in seconds since 1970; otherwise ``None``.
        mean_difference: mean of a number in the second table minus that in the first; otherwise
            ``None``.
        mean_difference_interval: its confidence interval at 1 - alpha (Welch 1947, with effective
            numbers of weighted rows); ``None`` for few rows and for clusters.
        median_difference: Hodges-Lehmann estimate of the shift of a number, the median of all
            differences of a value of each table; ``None`` for few rows, for clusters, and for
            weights that are not whole numbers.
        median_difference_interval: its confidence interval at 1 - alpha.
        deviations: scales of numbers: half the distance of the quantiles at 15.87 and 84.13 %.
        auc: probability that a number of the second table is larger than one of the first, with
            ties counted as half; otherwise ``None``.
        auc_interval: confidence interval at 1 - alpha (DeLong, DeLong and Clarke-Pearson 1988, on
            the logit scale); ``None`` for clusters.
        shares: proportions of levels, weekdays, hours, words or character trigrams, or of rows in
            the tails, the most significant change first; for text words come before trigrams.
        size: effect size, the largest change in a proportion of rows, from 0 to 1: for numbers of
            values up to any number (Kolmogorov-Smirnov distance); for categories of any set of
            levels (total variation distance); for dates of any set of weekdays or of hours; for
            text of rows with a word, with a trigram or up to any length; and in all columns of
            missing values. It is not corrected for chance, and so it is positive for tables of one
            distribution.
    """

    missing: tuple[float, float]
    missing_interval: tuple[float, float] | None = None
    medians: tuple[float, float] | None = None
    mean_difference: float | None = None
    mean_difference_interval: tuple[float, float] | None = None
    median_difference: float | None = None
    median_difference_interval: tuple[float, float] | None = None
    deviations: tuple[float, float] | None = None
    auc: float | None = None
    auc_interval: tuple[float, float] | None = None
    shares: tuple[LevelProportion, ...] = ()
    size: float = 0.0

    @property
    def shift(self) -> float | None:
        """The second median minus the first."""
        return None if self.medians is None else self.medians[1] - self.medians[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name, for JSON."""
        values = {
            name: [item._asdict() if isinstance(item, LevelProportion) else item for item in value]
            if isinstance(value, tuple)
            else value
            for name, value in self._asdict().items()
        }
        return values | {"shift": self.shift}


def column_effect(
    column: Column,
    marginals: list[Marginal],
    n_first: int,
    alpha: float,
    weights: np.ndarray,
    *,
    independent: bool = True,
) -> Effect:
    """Estimate the change of a column.

    Args:
        column: column of both tables.
        marginals: statistics of its derived features.
        n_first: number of rows of the first table.
        alpha: one minus the confidence of intervals.
        weights: (N,), weight of each row.
        independent: the rows are independent; otherwise there are no intervals.
    """
    tables = (slice(None, n_first), slice(n_first, None))
    fractions = [
        np.average(np.isnan(column.values[rows]), weights=weights[rows]) for rows in tables
    ]
    missing = (float(fractions[0]), float(fractions[1]))
    first, second = (WeightedValues.of(column.values[rows], weights[rows]) for rows in tables)
    confidence = alpha if independent else None
    effect = Effect(
        missing,
        _proportion_interval(missing, [float(weights[rows].sum()) for rows in tables], confidence),
        shares=_level_proportions(marginals, confidence),
        size=max([abs(missing[1] - missing[0]), *map(_distance, marginals)]),
    )
    is_ordered = column.kind in ("number", "integer", "datetime")
    if not is_ordered or not len(first.values) or not len(second.values):
        return effect
    medians = (float(first.quantiles([0.5])[0]), float(second.quantiles([0.5])[0]))
    if column.kind == "datetime":
        return effect._replace(medians=medians)
    # The codes of the marginal are binned, so that the distance is computed from all values.
    values = np.concatenate([first.values, second.values])
    distance = float(np.abs(second.cdf(values) - first.cdf(values)).max())
    normal_levels = ndtr([-1.0, 1.0]).tolist()
    deviations = (
        float(np.ptp(first.quantiles(normal_levels))) / 2.0,
        float(np.ptp(second.quantiles(normal_levels))) / 2.0,
    )
    auc, interval = _auc(first, second, alpha)
    return effect._replace(
        medians=medians,
        deviations=deviations,
        auc=auc,
        auc_interval=interval if independent else None,
        size=max(effect.size, distance),
        **_location_differences(first, second, alpha, independent=independent),
    )


def _proportion_interval(
    proportions: tuple[float, float], sizes: Sequence[float], alpha: float | None
) -> tuple[float, float] | None:
    """Compute the interval of the difference of two proportions, each with 1 + 1 further rows."""
    if alpha is None:
        return None
    rows = np.asarray(sizes) + 2.0
    first, second = adjusted = (np.asarray(proportions) * sizes + 1.0) / rows
    error = -float(ndtri(0.5 * alpha)) * math.sqrt(np.sum(adjusted * (1.0 - adjusted) / rows))
    return float(max(second - first - error, -1.0)), float(min(second - first + error, 1.0))


def _location_differences(
    before: WeightedValues, after: WeightedValues, alpha: float, *, independent: bool
) -> dict[str, Any]:
    """Return the difference of means and the Hodges-Lehmann shift, with intervals."""
    samples = before.values[:, None], after.values[:, None]
    weights = (before.weights, after.weights)
    mean = float(np.average(after.values, weights=after.weights)) - float(
        np.average(before.values, weights=before.weights)
    )
    differences: dict[str, Any] = {"mean_difference": mean}
    if not independent or min(len(sample) for sample in samples) < MIN_LOCATION_ROWS:
        return differences
    equal = all((weight == 1.0).all() for weight in weights)
    are_counts = before.are_counts and after.are_counts
    of_means = mean_difference(
        *samples,
        alpha,
        weights=None if equal else weights,
        effective_sizes=(before.size, after.size) if are_counts else None,
    )
    differences["mean_difference_interval"] = _interval(of_means)
    if are_counts:
        first, second = (
            sample if equal else np.repeat(sample, weight.astype(np.int64), axis=0)
            for sample, weight in zip(samples, weights, strict=True)
        )
        of_medians = median_difference(first, second, alpha)
        if of_medians is not None:
            differences["median_difference"] = float(of_medians.estimate[0])
            differences["median_difference_interval"] = _interval(of_medians)
    return differences


def _interval(difference: LocationDifference) -> tuple[float, float]:
    low, high = difference.interval
    return float(low[0]), float(high[0])


def _proportions(marginal: Marginal) -> tuple[np.ndarray, np.ndarray]:
    """Return the observed proportions (C,) of rows with each code in both tables."""
    first = marginal.labels[:, 0].astype(float)
    second = np.maximum(marginal.counts - first, 0.0)  # negative by rounding of weights
    return first / max(marginal.sizes[0], 1.0), second / max(marginal.sizes[1], 1.0)


def _distance(marginal: Marginal) -> float:
    """Return the largest change in the proportion of rows with any set of codes.

    Sets are single tokens, any levels, or all numbers up to one of them.
    """
    before, after = _proportions(marginal)
    difference = after - before
    if marginal.feature.incidence is not None:  # rows have several tokens
        return float(np.abs(difference).max())
    if marginal.feature.levels:
        return 0.5 * float(np.abs(difference).sum())
    return float(np.abs(np.cumsum(difference)).max())


def _level_proportions(
    marginals: list[Marginal], alpha: float | None, max_tokens: int = 10
) -> tuple[LevelProportion, ...]:
    """Return the proportions of levels and of the ``max_tokens`` most significant tokens.

    Differences have intervals with confidence 1 - ``alpha`` unless it is ``None``.
    """
    proportions: list[tuple[float, LevelProportion]] = []
    for marginal in marginals:
        if not marginal.feature.levels or marginal.feature.name == MISSING:
            continue
        before, after = _proportions(marginal)
        error = np.sqrt(np.maximum(marginal.counts / marginal.counts.sum(), 1e-300))
        change = np.abs(after - before) / error
        order = np.argsort(-change, kind="stable")
        if marginal.feature.incidence is not None:
            order = order[:max_tokens]
        for index in order:
            if marginal.counts[index]:
                level = marginal.feature.levels[index]
                pair = float(before[index]), float(after[index])
                interval = _proportion_interval(pair, marginal.sizes, alpha)
                row = LevelProportion(level, *pair, interval)
                proportions.append((float(change[index]), row))
    if not any(marginal.feature.incidence is not None for marginal in marginals):
        proportions.sort(key=lambda item: -item[0])  # otherwise words stay before trigrams
    return tuple(proportion for _, proportion in proportions)


def _auc(
    before: WeightedValues, after: WeightedValues, alpha: float
) -> tuple[float, tuple[float, float]]:
    """Return the AUC of ``after`` against ``before``, and its confidence interval."""
    # The proportions of rows of the other table that are on the winning side of each row.
    placements_after = before.mid_cdf(after.values)
    placements_before = 1.0 - after.mid_cdf(before.values)
    auc = float(np.average(placements_after, weights=after.weights))
    variance = sum(
        float(np.average((placements - auc) ** 2, weights=sample.variance_weights))
        / max(sample.size - 1.0, 1.0)
        for placements, sample in ((placements_after, after), (placements_before, before))
    )
    result = proportion_with_interval(auc, math.sqrt(variance), min(before.size, after.size), alpha)
    return auc, result.interval


class WeightedValues(NamedTuple):
    """Values of a column in a table, in ascending order, (n,), and their weights."""

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> WeightedValues:
        """Sort values, without missing values and rows of weight 0."""
        valid = ~np.isnan(values) & (weights > 0.0)
        values, weights = values[valid], weights[valid]
        if len(weights) and (weights == weights[0]).all():
            return cls(np.sort(values), weights)  # several times faster than argsort
        order = np.argsort(values, kind="stable")
        return cls(values[order], weights[order])

    @property
    def size(self) -> float:
        """Total weight: the number of rows, or the effective number of weighted rows."""
        return float(self.weights.sum())

    @property
    def are_counts(self) -> bool:
        """Whether weights are numbers of equal rows."""
        return bool((self.weights == np.floor(self.weights)).all())

    @property
    def variance_weights(self) -> np.ndarray:
        """Weights of squared deviations in the variance of a weighted mean.

        Those of weights that may depend on the values are their squares.
        """
        return self.weights if self.are_counts else self.weights**2

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """Compute quantiles (levels,): the mean of both values for a level between two values."""
        cumulative = np.cumsum(self.weights) / self.size
        rounding = 1e-9 / len(self.values)
        last = len(self.values) - 1
        low, high = (
            np.searchsorted(cumulative, np.asarray(levels) + sign * rounding).clip(max=last)
            for sign in (-1, 1)
        )
        return np.asarray(0.5 * (self.values[low] + self.values[high]))

    def mid_cdf(self, points: np.ndarray) -> np.ndarray:
        """Compute the distribution function at points (n,), with ties counted as half."""
        total = np.append(0.0, np.cumsum(self.weights))
        left, right = (np.searchsorted(self.values, points, side) for side in ("left", "right"))
        return np.asarray(0.5 * (total[left] + total[right]) / self.size)

    def cdf(self, points: np.ndarray) -> np.ndarray:
        """Compute the empirical distribution function at points (n,)."""
        total = np.append(0.0, np.cumsum(self.weights))
        return np.asarray(total[np.searchsorted(self.values, points, "right")] / self.size)


class Histogram(NamedTuple):
    """Histogram of both tables; the first and the last bin include all values beyond them.

    Attributes:
        edges: (b + 1,), edges of the bins.
        proportions: (2, b), proportions of the rows with a value in each table.
    """

    edges: np.ndarray
    proportions: np.ndarray


def column_histogram(column: Column, n_first: int, weights: np.ndarray) -> Histogram | None:
    """Compute the histogram of numbers, dates or lengths of texts; ``None`` for other columns.

    Args:
        column: column of both tables.
        n_first: number of rows of the first table.
        weights: (N,), weight of each row.
    """
    values = column.values
    if column.kind == "text":
        values = column.lengths
    elif column.kind not in ("number", "integer", "datetime"):
        return None
    valid = ~np.isnan(values) & (weights > 0.0)
    known = values[valid]
    if not len(known) or known.min() == known.max():
        return None
    edges = _bin_edges(known, weights[valid])
    index = np.searchsorted(edges, values, side="right") - 1
    index = index.clip(0, len(edges) - 2)
    proportions = []
    for rows in (slice(None, n_first), slice(n_first, None)):
        valid = ~np.isnan(values[rows])
        counts = np.bincount(
            index[rows][valid], weights=weights[rows][valid], minlength=len(edges) - 1
        )
        proportions.append(counts / max(counts.sum(), 1.0))
    return Histogram(edges, np.array(proportions))


def _bin_edges(
    values: np.ndarray, weights: np.ndarray, max_bins: int = 40, tail: float = 0.005
) -> np.ndarray:
    """Return equidistant edges between two tail quantiles; integers are centers of bins."""
    low, high = weighted_quantiles(values, weights, (tail, 1.0 - tail), method="inverted_cdf")
    if low == high:
        low, high = values.min(), values.max()
    if (values == np.floor(values)).all():
        low, high = np.floor(low), np.ceil(high)
        step = np.ceil((high - low + 1.0) / max_bins)
        return np.arange(low - 0.5, high + step, step)
    return np.linspace(low, high, max_bins + 1)
