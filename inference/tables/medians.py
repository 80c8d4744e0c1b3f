"""How sure the shift of a median is, of values that are all different and of tied ones."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from .ordered import Sorted

#: Rows from which a median has an interval.
LEAST_ROWS = 6
#: Values around a median count as continuous where none of them stands for more of the rows in its
#: interval than one in so many, and where their largest gap is no larger than in all but one of so
#: many samples of uniform numbers.
LEAST_VALUES, CHANCE = 8, 100.0


def shift_interval(before: Sorted, after: Sorted, alpha: float) -> tuple[float, float] | None:
    """An interval of the second median less the first, with confidence 1 - alpha.

    The error of a median is that of which its own interval, between two order statistics, is twice
    the normal quantile (Price and Bonett 2002). Where values around a median are few and repeated
    that is no measure of its error, and the interval is from the lower end of the one median to
    the upper end of the other, each between order statistics with confidence (1 - alpha)^(1/2):
    that holds of any distribution, at least so often, and is about 1.7 times as wide. So it is too
    where there is a gap among the values around a median.

    Returns:
        Its ends, in the values' unit; ``None`` of few rows.
    """
    if min(before.rows, after.rows) < LEAST_ROWS:
        return None
    z = -float(ndtri(0.5 * alpha))
    reach = [0.5 * z / math.sqrt(one.rows) for one in (before, after)]
    (low, was, high), (least, now, most) = (
        one.quantiles([max(0.5 - near, 0.0), 0.5, min(0.5 + near, 1.0)])
        for one, near in zip((before, after), reach, strict=True)
    )
    if _uneven(before, low, high) or _uneven(after, least, most):
        return _tied(before, after, alpha)
    error = 0.5 * math.hypot(high - low, most - least)
    return float(now - was - error), float(now - was + error)


def _uneven(one: Sorted, low: float, high: float) -> bool:
    """Whether a value stands for many rows of an interval, or a gap is in it."""
    inside = slice(np.searchsorted(one.values, low), np.searchsorted(one.values, high, "right"))
    values, which = np.unique(one.values[inside], return_inverse=True)
    if len(values) < 2:
        return True
    weights = np.bincount(which, weights=one.weights[inside])
    rows = max(len(which), round(float(weights.sum())))  # entries with counts are several
    if weights.max() > weights.sum() / LEAST_VALUES and rows > len(values):
        return True
    # Of as many uniform numbers the largest gap is larger in one of CHANCE.
    longest = min(1.0, (math.log(rows) + math.log(CHANCE)) / rows)
    return bool(np.diff(values).max() > longest * (values[-1] - values[0]))


def _tied(before: Sorted, after: Sorted, alpha: float) -> tuple[float, float] | None:
    """From the intervals of both medians, each between order statistics."""
    from scipy.stats import binom  # slow to import, and most columns do without

    each = 1.0 - math.sqrt(1.0 - alpha)
    ends = []
    for one in (before, after):
        rows = max(math.floor(one.rows), 1)
        rank = float(binom.ppf(0.5 * each, rows, 0.5))
        if rank < 1.0:
            return None
        level = (rank - 0.5) / rows
        ends.append(one.quantiles([level, 1.0 - level]))
    (low, high), (least, most) = np.asarray(ends)
    return float(least - high), float(most - low)
