"""Places that are named: significant cells, merged where they are neighbours of one sign."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..statistics.local_differences import LocalStatistics
from .weighing import Weighing

#: How near a row must be, in scales of a cell, to where a difference is said to be.
NEAR = 0.3
#: Products of weights that are as good as none.
TINY = 1e-200
#: Points by which the ends of a place are found.
GRID = 1000
#: Points, and rows, at which a place is looked at for its intervals.
STRIP_GRID = 200
#: So many standard errors of a scale, up to so many times finer, are a word against a cell.
AGAINST, FINER = 2.0, 8.0


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one sample has more weight than the other: rows around ``at``, at ``scale``.

    A row z weighs ``exp(-1/2 sum_d ((z_d - at_d) / scale_d)^2)``.

    Attributes:
        at: (D,), in the units of the data.
        scale: (D,), likewise; infinite in a column that the place does not hang on.
        sign: 1 where P has more, -1 where Q has.
        ratio: the mean weight of P's rows over that of Q's.
        interval: of ``ratio``, simultaneous over all places and scales to the accuracy of the
            normal limit, which is rough for cells of few rows; its end may be infinite.
        pvalue: step-down, adjusted for all places and scales.
        intervals: for one column, the intervals (low, high) around ``at``, in its units, in which
            the ratio of weights at ``scale`` has an interval that excludes 1, simultaneous over all
            places; empty for several columns.
    """

    at: np.ndarray
    scale: np.ndarray
    sign: int
    ratio: float
    interval: tuple[float, float]
    pvalue: float
    intervals: tuple[tuple[float, float], ...] = ()

    @property
    def columns(self) -> np.ndarray:
        """The indices of the columns that the place hangs on."""
        return np.flatnonzero(np.isfinite(self.scale))

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name, as JSON has them: what is infinite is ``None``."""
        return {
            "at": self.at.tolist(),
            "scale": [float(one) if np.isfinite(one) else None for one in self.scale],
            "sign": self.sign,
            "ratio": self.ratio if np.isfinite(self.ratio) else None,
            "interval": [one if np.isfinite(one) else None for one in self.interval],
            "pvalue": self.pvalue,
            "intervals": [list(interval) for interval in self.intervals],
        }


@dataclasses.dataclass(frozen=True)
class Named:
    """Every named cell, the most significant first, and the places that they make.

    Attributes:
        at: (k, D), in the units of the data.
        scale: (k, D), likewise.
        signs: (k,).
        widest_first: (k,), their indices, the least significant first where they are as wide.
        places: neighbours of one sign are one place, told at its most significant cell around which
            :meth:`sign` is its own.
        weighing: of the samples' rows in all columns; ``None`` where cells hang on some of them.
        scales: (s, D), all at which the samples were compared, in the units of the data.
    """

    at: np.ndarray
    scale: np.ndarray
    signs: np.ndarray
    widest_first: np.ndarray
    places: tuple[Place, ...]
    weighing: Weighing | None
    scales: np.ndarray

    def told(self, points: np.ndarray) -> np.ndarray:
        """Return signs (m,) of :meth:`sign`, for one column 0 outside of all intervals."""
        signs = self.sign(points)
        if self.at.shape[1] > 1:
            return signs
        inside = np.zeros(len(points), dtype=bool)
        for place in self.places:
            for low, high in place.intervals:
                inside |= (low <= points[:, 0]) & (points[:, 0] <= high) & (signs == place.sign)
        return np.where(inside, signs, 0)

    def sign(self, points: np.ndarray) -> np.ndarray:
        """The sign (m,) of the narrowest named cell that a point shows, or 0.

        A point shows a cell within whose scale it is, if by that scale the samples differ around
        the point as in the cell's middle, no scale down to an eighth of it says the opposite by two
        standard errors, and rows are near. So rows on one side of a wide cell do not speak for the
        other side. Of equally narrow cells the most significant decides, and a narrow place within
        a wide one of the other sign keeps its own.
        """
        signs = np.zeros(len(points), dtype=int)
        if not len(points):
            return signs
        shows = functools.cache(self._shown_by(points)) if self.weighing is not None else None
        for cell in self.widest_first:
            scale, sign = self.scale[cell], self.signs[cell]
            inside = np.sum(((points - self.at[cell]) / scale) ** 2, axis=1) <= 1.0
            if shows is not None and inside.any():
                inside &= shows(tuple(scale), sign)
            signs[inside] = sign
        return signs

    def _shown_by(self, points: np.ndarray) -> Callable[[tuple[float, ...], int], np.ndarray]:
        """Which of ``points`` show a sign by a scale."""
        assert self.weighing is not None
        weighing = self.weighing
        inside = weighing.spans(points)
        weighed = functools.cache(lambda scale: weighing.at(points, np.array(scale)))

        def shows(scale: tuple[float, ...], sign: int) -> np.ndarray:
            of_p, of_q = weighed(scale)[0].T
            near = inside & (weighing.nearest(points, np.array(scale)) <= NEAR)
            found = near & (np.sign(of_p - of_q) == sign)
            finer = (self.scales < scale) & (self.scales * FINER >= scale)
            for other in self.scales[finer.all(axis=1)]:
                found &= sign * weighed(tuple(other))[1] > -AGAINST
            return np.asarray(found)

        return shows

    def strips(self) -> np.ndarray:
        """From where to where, of one column, around every cell the sign is what it is there."""
        ends = (self.at - self.scale, self.at + self.scale)
        between = np.linspace(ends[0].min(), ends[1].max(), GRID)
        rows = np.empty(0) if self.weighing is None else self.weighing.range.ravel()
        middles = self.at[:, 0]
        grid = np.unique(np.concatenate([*(end[:, 0] for end in ends), middles, between, rows]))
        starts = np.flatnonzero(np.diff(self.sign(grid[:, None]), prepend=np.nan) != 0)
        stops = np.append(starts[1:], len(grid)) - 1
        strip = np.searchsorted(grid[starts], middles, side="right") - 1
        return np.stack([grid[starts][strip], grid[stops][strip]], axis=1)

    def intervals(
        self, strip: np.ndarray, center: float, scale: float, sign: int, critical: float
    ) -> tuple[tuple[float, float], ...]:
        """Return where in a strip of one column the samples differ locally by more than errors.

        For pairs, whose errors of means are not those of independent rows, that is the strip.

        Args:
            strip: (2,), ends of the strip, in which the sign is that of the cell.
            center: center of the cell, which is in the strip.
            scale: scale of the cell, and of the weights around each point.
            sign: sign of the cell.
            critical: critical value of a difference over its standard error.
        """
        low, high = map(float, strip)
        if self.weighing is None or not self.weighing.independent:
            return ((low, high),)
        rows = self.weighing.points[:, 0]
        rows = np.unique(rows[(low <= rows) & (rows <= high)])
        some = rows[np.unique(np.linspace(0, len(rows) - 1, STRIP_GRID).astype(int))]
        grid = np.unique(np.concatenate([np.linspace(low, high, STRIP_GRID), some, [center]]))
        errors = self.weighing.at(grid[:, None], np.array([scale]))[1]
        # The test found a difference at the center, whose normal error may be a little larger.
        differs = (sign * errors > critical) | (grid == center)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], differs, [0]])))
        return tuple(
            (float(grid[start]), float(grid[stop])) for start, stop in edges.reshape(-1, 2) - [0, 1]
        )


def named(
    found: LocalStatistics,
    unit: np.ndarray,
    alpha: float,
    *,
    differ: bool,
    weighing: Weighing | None = None,
) -> Named:
    """Name the cells whose step-down p-value is at most ``alpha``, none unless samples ``differ``.

    Args:
        found: places and scales with their t.
        unit: (D,), the columns' standard deviations.
        alpha: level.
        differ: whether the overall test rejects.
        weighing: of :class:`Named`.
    """
    pvalues = found.pvalues()
    chosen = np.flatnonzero(pvalues <= alpha) if differ else np.empty(0, dtype=int)
    size = np.abs(found.t[chosen, 0]) if len(chosen) else np.empty(0)
    # Of cells that say the same, as those of a column with two values do, the narrowest.
    order = chosen[np.argsort(-np.round(size, 9), kind="stable")]
    signs = np.sign(found.t[order, 0]).astype(int)
    lower, upper = intervals(found, alpha)
    # On the side of 1 on which the test puts the place.
    lower = np.where(found.t[:, 0] > 0.0, np.maximum(lower, 1.0), lower)
    upper = np.where(found.t[:, 0] < 0.0, np.minimum(upper, 1.0), upper)
    of_p, of_q = found.means.T
    with np.errstate(over="ignore"):  # of hardly any weight of Q it is infinite
        ratios = np.divide(of_p, of_q, out=np.full(len(of_p), np.inf), where=of_q > 0.0)
    width = np.round(found.scales[order].min(axis=1, initial=np.inf), 9)
    widest_first = np.lexsort((-np.arange(len(order)), -width))
    at, scale = found.centers[order] * unit, found.scales[order] * unit
    scales = np.unique(found.scales * unit, axis=0)
    shown = Named(at, scale, signs, widest_first, (), weighing, scales)
    agree = shown.sign(shown.at) == signs
    # Of several columns no cell is told how far it reaches.
    told = at.shape[1] == 1 and len(order) > 0
    strips = shown.strips() if told else None
    critical = _critical(found, alpha)
    places = tuple(
        Place(
            found.centers[cell] * unit,
            found.scales[cell] * unit,
            int(np.sign(found.t[cell, 0])),
            float(ratios[cell]),
            (float(lower[cell]), float(upper[cell])),
            float(pvalues[cell]),
            ()
            if strips is None
            else shown.intervals(strips[i], at[i, 0], scale[i, 0], signs[i], critical),
        )
        for i in _heads(found, order, signs, agree, strips)
        for cell in [int(order[i])]
    )
    return dataclasses.replace(shown, places=places)


def _heads(
    found: LocalStatistics,
    order: np.ndarray,
    signs: np.ndarray,
    agree: np.ndarray,
    strips: np.ndarray | None,
) -> list[int]:
    """The most significant cell that has its own sign of every group of neighbours of one sign.

    A group without any is the middle of another one at another scale, and no place of its own. Of
    one column neighbours are what one strip is around: each is told once, whatever wide cells it
    belongs to, and a group that a wide cell holds together at each of its strips.
    """
    if strips is not None:
        apart = np.column_stack([signs, strips])[agree]
        return sorted(
            np.flatnonzero(agree)[np.unique(apart, axis=0, return_index=True)[1]].tolist()
        )
    used = np.isfinite(found.scales)
    group = np.full(len(order), -1)
    count = 0
    for i, cell in enumerate(order):
        # Windows of different columns are different places.
        scale = np.maximum(found.scales[order[:i]], found.scales[cell])
        near = (
            np.sum(((found.centers[order[:i]] - found.centers[cell]) / scale) ** 2, axis=1) <= 1.0
        )
        near &= signs[:i] == signs[i]
        near &= (used[order[:i]] == used[cell]).all(axis=1)
        if near.any():
            group[i] = group[np.flatnonzero(near)[0]]
        else:
            group[i], count = count, count + 1
    heads = np.flatnonzero(agree)[np.unique(group[agree], return_index=True)[1]].tolist()
    heads.sort()
    return [i for i in heads if not _explained(found, order, signs, i, heads)]


def _explained(
    found: LocalStatistics, order: np.ndarray, signs: np.ndarray, one: int, heads: list[int]
) -> bool:
    """Whether a place of one column, of the same sign and near, says what a place of all does."""
    columns = np.isfinite(found.scales[order[one]])
    for other in heads:
        fewer = np.isfinite(found.scales[order[other]])
        if signs[other] != signs[one] or fewer.sum() >= columns.sum():
            continue
        cells = order[[one, other]]
        apart = np.ptp(found.centers[cells][:, fewer], axis=0)
        if (apart <= found.scales[cells][:, fewer].max(axis=0)).all():
            return True
    return False


def _critical(found: LocalStatistics, alpha: float) -> float:
    """Return the critical value of |t| over all places, at least that of one interval alone."""
    return max(found.critical_value(alpha), float(ndtri(1.0 - 0.5 * alpha)))


def intervals(found: LocalStatistics, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends (J,) of the simultaneous intervals of every cell's ratio.

    Those values rho at which mean_P - rho mean_Q is within the critical value of |t| of its
    standard errors of 0 (Fieller 1954). The upper end may be infinite.
    """
    critical = _critical(found, alpha)
    (p, q), (error_p, error_q) = found.means.T, found.errors.T
    a, c = q**2 - (critical * error_q) ** 2, p**2 - (critical * error_p) ** 2
    b = p * q - critical**2 * found.covariance
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    bounded = a > 0.0
    safe = np.where(bounded, a, 1.0)
    sum_of_both = b + root
    few = np.divide(c, sum_of_both, out=np.zeros_like(c), where=sum_of_both > TINY)
    lower = np.where(bounded, (b - root) / safe, few)
    upper = np.where(bounded, (b + root) / safe, np.inf)
    return np.maximum(lower, 0.0), upper
