"""By how much a column has changed: medians and shares, and how often a value is larger."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..comparison.area import with_interval
from ..io.types import Column
from .marginal import Marginal
from .medians import shift_interval
from .ordered import Sorted

#: Of words, groups of characters and tails, those whose shares are told.
PARTS = 10
#: Levels of the quantiles that are a standard deviation below and above a normal mean.
ONE_DEVIATION = [float(ndtr(side)) for side in (-1.0, 1.0)]


class Share(NamedTuple):
    """The share of a level's rows among those that have a value, in both tables."""

    level: str
    before: float
    after: float


class Change(NamedTuple):
    """How a column was and how it is.

    Attributes:
        missing: shares of rows without a value.
        medians: of numbers, and of dates in seconds since 1970; ``None`` of others.
        shift_interval: of the second median less the first, with confidence 1 - alpha; ``None`` of
            few, or where rows depend on each other.
        deviations: the widths of numbers: half the distance between their quantiles at 15.87
            and 84.13 %.
        auc: how often a value of the second table is larger than one of the first, ties counting
            half; ``None`` of others than numbers.
        auc_interval: with confidence 1 - alpha (DeLong, DeLong and Clarke-Pearson 1988, on the
            scale of log odds); ``None`` where rows depend on each other.
        shares: of levels, weekdays, hours, words or groups of characters, or beyond ends of a long
            tail, the most conspicuous change first; of text all words before groups of characters.
        size: the effect size, the largest change in a proportion of rows, from 0 to 1: of numbers
            in that of values up to any number (the Kolmogorov-Smirnov distance), of categories in
            that of any set of levels (the total variation distance), of dates in that of any set
            of weekdays or of hours, of text in that of rows with a word, with a group of
            characters or up to any length; of all of them in that of missing values. It is not
            corrected for chance, which makes it positive where nothing has changed.
    """

    missing: tuple[float, float]
    medians: tuple[float, float] | None = None
    shift_interval: tuple[float, float] | None = None
    deviations: tuple[float, float] | None = None
    auc: float | None = None
    auc_interval: tuple[float, float] | None = None
    shares: tuple[Share, ...] = ()
    size: float = 0.0

    @property
    def shift(self) -> float | None:
        """The second median less the first."""
        return None if self.medians is None else self.medians[1] - self.medians[0]

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name, as JSON has them."""
        told = self._asdict()
        return {
            **{name: list(one) if isinstance(one, tuple) else one for name, one in told.items()},
            "shift": self.shift,
            "shares": [share._asdict() for share in self.shares],
        }


def change(
    column: Column,
    marginals: list[Marginal],
    rows: int,
    alpha: float,
    weights: np.ndarray,
    *,
    independent: bool = True,
) -> Change:
    """Tell how a column has changed.

    Args:
        column: of both tables.
        marginals: of its aspects.
        rows: of the first table.
        alpha: one less the confidence of intervals.
        weights: (N,), how many rows each row counts for.
        independent: whether rows are; intervals are of such alone.
    """
    tables = (slice(None, rows), slice(rows, None))
    gone = [np.average(np.isnan(column.values[one]), weights=weights[one]) for one in tables]
    missing = (float(gone[0]), float(gone[1]))
    first, second = (Sorted.of(column.values[one], weights[one]) for one in tables)
    shares = _shares(marginals)
    size = max([abs(missing[1] - missing[0]), *map(_distance, marginals)])
    on_a_line = column.kind in ("number", "integer", "datetime")
    if not on_a_line or not len(first.values) or not len(second.values):
        return Change(missing, shares=shares, size=size)
    each = [float(one.quantiles([0.5])[0]) for one in (first, second)]
    medians = (each[0], each[1])
    shift = shift_interval(first, second, alpha) if independent else None
    if column.kind == "datetime":
        return Change(missing, medians, shift, shares=shares, size=size)
    at = np.concatenate([first.values, second.values])  # a marginal has quantiles of many values
    size = max(size, float(np.abs(second.share_at_most(at) - first.share_at_most(at)).max()))
    ends = [one.quantiles(ONE_DEVIATION) for one in (first, second)]
    widths = (float(np.ptp(ends[0])) / 2.0, float(np.ptp(ends[1])) / 2.0)
    auc, near = _larger(first, second, alpha)
    interval = near if independent else None
    return Change(missing, medians, shift, widths, auc, interval, shares, size)


def _proportions(of: Marginal) -> tuple[np.ndarray, np.ndarray]:
    """The proportions (C,) of rows with each code in both tables."""
    first = of.labels[:, 0].astype(float)
    second = np.maximum(of.counts - first, 0.0)  # weights leave rounding errors
    return first / max(of.sizes[0], 1.0), second / max(of.sizes[1], 1.0)


def _distance(of: Marginal) -> float:
    """The largest change in the proportion of rows with some of the codes."""
    before, after = _proportions(of)
    apart = after - before
    if of.aspect.holds is not None:  # rows have several codes
        return float(np.abs(apart).max())
    if of.aspect.levels:
        return 0.5 * float(np.abs(apart).sum())
    return float(np.abs(np.cumsum(apart)).max())


def _shares(marginals: list[Marginal]) -> tuple[Share, ...]:
    """Shares of codes that have names, but for missing values; of words those that changed."""
    found: list[tuple[float, Share]] = []
    for one in marginals:
        if not one.aspect.levels or one.aspect.what == "missing":
            continue
        before, after = _proportions(one)
        error = np.sqrt(np.maximum(one.counts / one.counts.sum(), 1e-300))
        apart = np.abs(after - before) / error
        order = np.argsort(-apart, kind="stable")
        many = one.aspect.holds is not None
        for index in order[:PARTS] if many else order:
            if one.counts[index]:
                share = Share(one.aspect.levels[index], float(before[index]), float(after[index]))
                found.append((float(apart[index]), share))
    if not any(one.aspect.holds is not None for one in marginals):  # words before their parts
        found.sort(key=lambda one: -one[0])
    return tuple(share for _, share in found)


def _larger(before: Sorted, after: Sorted, alpha: float) -> tuple[float, tuple[float, float]]:
    """How often a value of ``after`` is larger than one of ``before``, and its interval."""
    wins = before.share_below(after.values)
    losses = 1.0 - after.share_below(before.values)
    auc = float(np.average(wins, weights=after.weights))
    variance = sum(
        float(np.average((shares - auc) ** 2, weights=one.weights)) / max(one.rows - 1.0, 1.0)
        for shares, one in ((wins, after), (losses, before))
    )
    found = with_interval(auc, math.sqrt(variance), min(before.rows, after.rows), alpha)
    return auc, found.interval
