"""What of a column is compared: its values, that it has none, a date's weekday and hour, words.

Each aspect gives every row one of a few hundred codes, so that all that a statistic needs of a
million rows is how many of each code are in the first table, for every relabelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..data.weighted import weighted_quantiles
from ..io.types import Column
from ..permutation.pooling import TAILS, width
from . import grams

#: Codes of numbers, quantiles of more.
CODES = 512
#: Levels of a category that are told apart; rarer ones are one more.
LEVELS = 200
DAY, HOUR = 86_400.0, 3600.0
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: 1 January 1970 was a Thursday.
THURSDAY = 3
#: The chance that all values are of one table beyond which they are not compared on a line.
ALONE = 1e-3
#: Widths from the median beyond which a value is far out, and the shares of rows whose number
#: beyond is compared, at both ends.
FAR = 10.0
BEYOND = np.array([0.001, 0.0025, 0.005, 0.01, 0.02, 0.05])
TOPS = 1.0 - BEYOND
#: What the aspect of holes is called, and the level of rows that have one.
MISSING = "missing"
#: What rarer levels are called together.
OTHERS = "(others)"


class Aspect(NamedTuple):
    """Codes of rows, which are points on a line or in a plane, or only different.

    Attributes:
        what: of the column it is, such as weekday; nothing for its values.
        codes: (N,), -1 where the row has none.
        points: (C, D), of every code in standard deviations; ``None`` where codes are only
            different.
        unit: of ``points``, in that of the column.
        levels: what the codes are called, where they have no points on a line.
        holds: (K, C) of 0 and 1, where rows are compared by which of K parts, which ``levels``
            names, the text of each code holds.
    """

    what: str
    codes: np.ndarray
    points: np.ndarray | None
    unit: float = 1.0
    levels: tuple[str, ...] = ()
    holds: scipy.sparse.csr_array | None = None

    @property
    def size(self) -> int:
        """How many codes there are."""
        if self.holds is not None:
            return int(self.holds.shape[1])
        return len(self.levels) if self.points is None else len(self.points)


def aspects(column: Column, weights: np.ndarray) -> list[Aspect]:
    """Take a column apart into what of it is compared; none of one with a single value.

    Args:
        column: of both tables.
        weights: (N,), how many rows each row counts for, which is more than 0.
    """
    found: list[Aspect] = []
    if column.kind in ("number", "integer"):
        found += numeric("", column.values, weights)
        found += _tails(found, column.values, weights)
    elif column.kind == "datetime":
        found += _moments(column.values, weights)
    elif column.kind == "text":
        found += _texts(column, weights)
    else:
        found += levelled("", column.values, column.levels, weights)
    missing = np.isnan(column.values)
    if missing.any() and not missing.all():
        found.append(Aspect(MISSING, missing.astype(np.int64), None, levels=("there", MISSING)))
    return found


def in_both(aspect: Aspect, rows: int, weights: np.ndarray) -> bool:
    """Whether both tables have values on a line, and relabellings would have them too.

    Where they have not it is told by what is missing. Rows are left out that are so few that all of
    them may be of one table by chance, as often as :data:`ALONE`, so that this choice, which looks
    at labels, hardly changes the level.
    """
    if aspect.points is None:
        return True
    there = aspect.codes >= 0
    if there.all():
        return True
    first, total = (weights[part][there[part]].sum() for part in (slice(rows), slice(None)))
    share = weights[:rows].sum() / weights.sum()
    larger = max(share, 1.0 - share)
    return bool(0 < first < total and larger**total <= ALONE)


def numeric(what: str, values: np.ndarray, weights: np.ndarray) -> list[Aspect]:
    """Numbers (N,) as points on a line: distinct ones, or the means of as many quantiles.

    Values further than :data:`FAR` widths from the median are as far: each of them alone on the
    line would tell nothing.
    """
    there = ~np.isnan(values)
    known, weight = values[there], weights[there]
    if not len(known):
        return []
    ends = _quantiles(known, weight, [*TAILS, 0.5, *(1.0 - TAILS)])
    middle, low, high = ends[len(TAILS)], ends[: len(TAILS)], ends[len(TAILS) + 1 :]
    apart = known - np.average(known, weights=weight)
    deviation = np.sqrt(np.average(apart**2, weights=weight))
    unit = float(width(np.array([deviation]), np.stack([low, high])[..., None])[0])
    known = np.clip(known, middle - FAR * unit, middle + FAR * unit)
    distinct, which = np.unique(known, return_inverse=True)
    counts = np.bincount(which, weights=weight)
    if len(distinct) < 2:
        return []
    if len(distinct) == 2:
        ends = np.unique(values[there])[[0, -1]]
        names = tuple(f"{what} {one:.15g}".lstrip() for one in ends)
        either = np.full(len(values), np.nan)
        either[there] = which
        return levelled(what, either, names, weights)
    if len(distinct) > CODES:
        up_to = np.ceil(np.cumsum(counts) * (CODES / counts.sum())).astype(int)
        cell = np.unique(up_to, return_inverse=True)[1]
        distinct = np.bincount(cell, weights=counts * distinct) / np.bincount(cell, weights=counts)
        which = cell[which]
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[there] = which
    return [Aspect(what, codes, distinct[:, None] / unit, unit)]


def _quantiles(
    known: np.ndarray, weights: np.ndarray, levels: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Values (levels,) up to which there is that much of the weight."""
    return weighted_quantiles(known, weights, list(levels), method="inverted_cdf")


def _tails(line: list[Aspect], values: np.ndarray, weights: np.ndarray) -> list[Aspect]:
    """How many values (N,) are far out, where some are so far that each is alone on the line.

    By the shares of rows that are beyond each of some quantiles of both tables together.
    """
    if not line or line[0].points is None:
        return []
    there = ~np.isnan(values)
    known, weight = values[there], weights[there]
    least, most = known.min(), known.max()
    (middle,) = _quantiles(known, weight, [0.5])
    if max(middle - least, most - middle) <= FAR * line[0].unit:
        return []
    low, high = (np.unique(_quantiles(known, weight, levels)) for levels in (BEYOND, TOPS))
    low, high = low[low > least], high[high < most]
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[there] = np.searchsorted(low, values[there], side="right")
    codes[there] += np.searchsorted(high, values[there], side="left")
    band = np.arange(len(low) + len(high) + 1)
    holds = [band <= index for index in range(len(low))]
    holds += [band > len(low) + index for index in range(len(high))]
    names = [f"below {one:.4g}" for one in low] + [f"above {one:.4g}" for one in high]
    if not holds:
        return []
    matrix = scipy.sparse.csr_array(np.array(holds, dtype=float))
    return [Aspect("tails", codes, None, levels=tuple(names), holds=matrix)]


def levelled(
    what: str, values: np.ndarray, levels: tuple[str, ...], weights: np.ndarray
) -> list[Aspect]:
    """Indices (N,) of levels as codes, those of the rarest levels being one.

    Args:
        what: of the column it is.
        values: indices of ``levels``; NaN where there is none.
        levels: their names.
        weights: (N,), how many rows each row counts for.
    """
    there = ~np.isnan(values)
    index = np.full(len(values), -1, dtype=np.int64)
    index[there] = values[there].astype(int)
    counts = np.bincount(index[there], weights=weights[there], minlength=len(levels))
    if np.count_nonzero(counts) < 2:
        return []
    kept = np.flatnonzero(counts)
    rare = len(kept) > LEVELS
    if rare:
        kept = np.sort(np.lexsort((np.arange(len(counts)), -counts))[: LEVELS - 1])
    code = np.full(len(levels) + 1, len(kept), dtype=np.int64)
    code[kept] = np.arange(len(kept))
    code[-1] = -1
    names = tuple(levels[one] for one in kept) + ((OTHERS,) if rare else ())
    return [Aspect(what, code[index], None, levels=names)]


def _texts(column: Column, weights: np.ndarray) -> list[Aspect]:
    """How long texts are, and which words and groups of characters they hold."""
    there = ~np.isnan(column.values)
    found = numeric("length", column.lengths, weights)
    codes = np.where(there, column.values, -1.0).astype(np.int64)
    seen = grams.looked_into(column.levels)
    codes[there] = np.where(seen[codes[there]], codes[there], -1)
    known = codes >= 0
    times = np.bincount(codes[known], weights=weights[known], minlength=len(column.levels))
    for what, parts, of in (
        ("words", grams.words, "the word "),
        ("characters", grams.characters, ""),
    ):
        names, holds = grams.held(column.levels, times, parts)
        if names:
            told = tuple(f"with {of}{name!r}" for name in names)
            found.append(Aspect(what, codes, None, levels=told, holds=holds))
    return found


def _moments(seconds: np.ndarray, weights: np.ndarray) -> list[Aspect]:
    """The weekday and the hour of dates (N,), which go round; not when they are.

    Times of day without a date are seconds of the first day and have no weekday.
    """
    found: list[Aspect] = []
    days = np.floor(seconds / DAY)
    if np.any(days[~np.isnan(days)] != 0.0):
        found += levelled("weekday", np.mod(days + THURSDAY, 7.0), WEEKDAYS, weights)
    hours = np.floor((seconds - days * DAY) / HOUR)
    if len(np.unique(hours[~np.isnan(hours)])) > 1:
        codes = np.where(np.isnan(hours), -1, hours).astype(np.int64)
        angle = 2.0 * np.pi * (np.arange(24) + 0.5) / 24.0
        names = tuple(f"{hour}:00" for hour in range(24))
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        found.append(Aspect("hour", codes, circle, levels=names))
    return found
