"""What of a column is compared: its values, that it has none, a date's weekday and hour, words.

Each aspect gives every row one of a few hundred codes, so that all that a statistic needs of a
million rows is how many of each code are in the first table, for every relabelling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..difference.pooling import TAILS, width
from . import grams
from .kinds import Column

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


def aspects(column: Column) -> list[Aspect]:
    """Take a column apart into what of it is compared; none of one with a single value."""
    found: list[Aspect] = []
    if column.kind in ("number", "integer"):
        found += numeric("", column.values)
        found += _tails(found, column.values)
    elif column.kind == "datetime":
        found += _moments(column.values)
    elif column.kind == "text":
        found += _texts(column)
    else:
        found += levelled("", column.values, column.levels)
    missing = np.isnan(column.values)
    if missing.any() and not missing.all():
        found.append(Aspect(MISSING, missing.astype(np.int64), None, levels=("there", MISSING)))
    return found


def in_both(aspect: Aspect, rows: int) -> bool:
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
    first, total = np.count_nonzero(there[:rows]), np.count_nonzero(there)
    larger = max(rows, len(there) - rows) / len(there)
    return bool(0 < first < total and larger**total <= ALONE)


def numeric(what: str, values: np.ndarray) -> list[Aspect]:
    """Numbers (N,) as points on a line: distinct ones, or the means of as many quantiles.

    Values further than :data:`FAR` widths from the median are as far: each of them alone on the
    line would tell nothing.
    """
    there = ~np.isnan(values)
    known = values[there]
    if not len(known):
        return []
    ends = np.quantile(known[:, None], [TAILS, 1.0 - TAILS], axis=0)
    unit = float(width(known.std(keepdims=True), ends)[0])
    reach = FAR * unit
    known = np.clip(known, np.median(known) - reach, np.median(known) + reach)
    distinct, which, counts = np.unique(known, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        return []
    if len(distinct) == 2:
        names = tuple(f"{one:.15g}" for one in np.unique(values[there])[[0, -1]])
        either = np.full(len(values), np.nan)
        either[there] = which
        return levelled(what, either, names)
    if len(distinct) > CODES:
        up_to = np.ceil(np.cumsum(counts) * (CODES / counts.sum())).astype(int)
        cell = np.unique(up_to, return_inverse=True)[1]
        weight = np.bincount(cell, weights=counts)
        distinct = np.bincount(cell, weights=counts * distinct) / weight
        which = cell[which]
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[there] = which
    return [Aspect(what, codes, distinct[:, None] / unit, unit)]


def _tails(line: list[Aspect], values: np.ndarray) -> list[Aspect]:
    """How many values (N,) are far out, where some are so far that each is alone on the line.

    By the shares of rows that are beyond each of some quantiles of both tables together.
    """
    if not line or line[0].points is None:
        return []
    there = ~np.isnan(values)
    known = np.sort(values[there])
    if np.abs(known[[0, -1]] - np.median(known)).max() <= FAR * line[0].unit:
        return []
    ends = [np.unique(np.quantile(known, levels, method="lower")) for levels in (BEYOND, TOPS)]
    low, high = ends[0][ends[0] > known[0]], ends[1][ends[1] < known[-1]]
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


def levelled(what: str, values: np.ndarray, levels: tuple[str, ...]) -> list[Aspect]:
    """Indices (N,) of levels as codes, those of the rarest levels being one.

    Args:
        what: of the column it is.
        values: indices of ``levels``; NaN where there is none.
        levels: their names.
    """
    there = ~np.isnan(values)
    index = np.full(len(values), -1, dtype=np.int64)
    index[there] = values[there].astype(int)
    counts = np.bincount(index[there], minlength=len(levels))
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


def _texts(column: Column) -> list[Aspect]:
    """How long texts are, and which words and groups of characters they hold."""
    there = ~np.isnan(column.values)
    found = numeric("length", column.lengths)
    codes = np.where(there, column.values, -1.0).astype(np.int64)
    seen = grams.looked_into(column.levels)
    codes[there] = np.where(seen[codes[there]], codes[there], -1)
    times = np.bincount(codes[codes >= 0], minlength=len(column.levels))
    for what, parts in (("words", grams.words), ("characters", grams.characters)):
        names, holds = grams.held(column.levels, times, parts)
        if names:
            told = tuple(f"with {name!r}" for name in names)
            found.append(Aspect(what, codes, None, levels=told, holds=holds))
    return found


def _moments(seconds: np.ndarray) -> list[Aspect]:
    """The weekday and the hour of dates (N,), which go round; not when they are."""
    found: list[Aspect] = []
    days = np.floor(seconds / DAY)
    if np.nanmax(seconds, initial=0.0) > DAY:
        found += levelled("weekday", np.mod(days + THURSDAY, 7.0), WEEKDAYS)
    hours = np.floor((seconds - days * DAY) / HOUR)
    if len(np.unique(hours[~np.isnan(hours)])) > 1:
        codes = np.where(np.isnan(hours), -1, hours).astype(np.int64)
        angle = 2.0 * np.pi * (np.arange(24) + 0.5) / 24.0
        names = tuple(f"{hour}:00" for hour in range(24))
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        found.append(Aspect("hour", codes, circle, levels=names))
    return found
