"""By how much a column has changed: medians and shares, and how often a value is larger."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from .kinds import Column
from .marginal import Marginal


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
        deviations: the widths of numbers: half the distance between their quantiles at 16 and 84 %.
        auc: how often a value of the second table is larger than one of the first, ties counting
            half; ``None`` of others than numbers.
        auc_interval: with confidence 1 - alpha (DeLong, DeLong and Clarke-Pearson 1988).
        shares: of levels, weekdays or hours, the most conspicuous change first.
    """

    missing: tuple[float, float]
    medians: tuple[float, float] | None = None
    deviations: tuple[float, float] | None = None
    auc: float | None = None
    auc_interval: tuple[float, float] | None = None
    shares: tuple[Share, ...] = ()

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


def change(column: Column, marginals: list[Marginal], rows: int, alpha: float) -> Change:
    """Tell how a column has changed.

    Args:
        column: of both tables.
        marginals: of its aspects.
        rows: of the first table.
        alpha: one less the confidence of intervals.
    """
    parts = column.values[:rows], column.values[rows:]
    missing = tuple(float(np.isnan(part).mean()) for part in parts)
    known = [part[~np.isnan(part)] for part in parts]
    if column.kind not in ("number", "integer", "datetime"):
        return Change(missing, shares=_shares(marginals))  # type: ignore[arg-type]
    if not all(map(len, known)):
        return Change(missing, shares=_shares(marginals))  # type: ignore[arg-type]
    medians = tuple(float(np.median(part)) for part in known)
    if column.kind == "datetime":
        return Change(missing, medians, shares=_shares(marginals))  # type: ignore[arg-type]
    ends = [np.quantile(part, norm.cdf([-1.0, 1.0])) for part in known]
    widths = tuple(float(high - low) / 2.0 for low, high in ends)
    auc, interval = _larger(known[0], known[1], alpha)
    return Change(missing, medians, widths, auc, interval, _shares(marginals))  # type: ignore[arg-type]


def _shares(marginals: list[Marginal]) -> tuple[Share, ...]:
    """Shares of codes that have names, but for missing values."""
    found = []
    for one in marginals:
        if not one.aspect.levels or one.aspect.what == "missing":
            continue
        first = one.labels[:, 0].astype(float)
        second = one.counts - first
        before, after = (part / max(part.sum(), 1.0) for part in (first, second))
        error = np.sqrt(np.maximum(one.counts / one.counts.sum(), 1e-300))
        for index in np.argsort(-np.abs(after - before) / error, kind="stable"):
            if one.counts[index]:
                found.append(
                    Share(one.aspect.levels[index], float(before[index]), float(after[index]))
                )
    return tuple(found)


def _larger(
    before: np.ndarray, after: np.ndarray, alpha: float
) -> tuple[float, tuple[float, float]]:
    """How often a value of ``after`` is larger than one of ``before``, and its interval."""
    wins = _share_below(before, after)
    losses = 1.0 - _share_below(after, before)
    auc = float(wins.mean())
    variances = [
        float(part.var(ddof=1)) / len(part) if len(part) > 1 else 0.25 for part in (wins, losses)
    ]
    variance = sum(variances)
    reach = norm.isf(0.5 * alpha) * math.sqrt(variance)
    return auc, (max(auc - reach, 0.0), min(auc + reach, 1.0))


def _share_below(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The share of ``values`` (m,) below each of ``at`` (n,), ties counting half."""
    ordered = np.sort(values)
    left, right = (np.searchsorted(ordered, at, side="left"), np.searchsorted(ordered, at, "right"))
    return np.asarray(0.5 * (left + right) / len(values))
