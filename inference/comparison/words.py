"""A comparison in words: what was found first, then where, at what scale and by how much."""

from __future__ import annotations

import math

import numpy as np

from ..data.checks import pluralize
from ..permutation.null_distribution import describe_p, describe_p_with_error
from .detectable import POWER
from .findings import Findings
from .named import Place

#: Places that are told one by one.
MOST_TOLD = 8
#: Columns whose differences in location are written.
MAX_LOCATIONS = 3
#: Intervals of a place that a sentence lists.
MOST_INTERVALS = 3
#: Columns whose scales are told one by one.
MOST_SCALES = 3
#: Odds from which a Bayes factor is called positive (Kass and Raftery 1995).
MODERATE = 3.0
#: Log odds beyond which their power of ten is told.
LARGE = math.log(1e4)
#: Chances up to which one row tells hardly anything.
HARDLY = 0.6
#: Ratios below this are next to nothing.
NOTHING = 0.005


def told(found: Findings) -> str:
    """Tell a comparison in a few lines."""
    return "\n".join([verdict(found), *(f"  {line}" for line in _details(found))])


def odds_in_words(log_bayes_factor: float) -> str:
    """The odds of a difference, the larger number first said to be for or against it."""
    size = abs(log_bayes_factor)
    number = _short(math.exp(size), 3) if size < LARGE else f"1e{size / math.log(10.0):.0f}"
    return f"{number} : 1 {'for' if log_bayes_factor >= 0.0 else 'against'} a difference"


def headline(found: Findings) -> str:
    """Return whether the samples differ, with p-value and odds, without a full stop."""
    p = describe_p_with_error(found.pvalue, found.pvalue_error, found.permutations)
    numbers = f"({p}; odds {odds_in_words(found.log_bayes_factor)})"
    first, second = found.names
    if found.differ:
        return f"{first} and {second} differ {numbers}"
    return f"No difference between {first} and {second} was found {numbers}"


def verdict(found: Findings) -> str:
    """The first sentence: it goes by the test, and says where the odds point another way."""
    size, start = found.log_bayes_factor, headline(found)
    if found.differ:
        if size >= math.log(MODERATE):
            return f"{start}."
        if size > -math.log(MODERATE):
            return f"{start}: the test decides, and the odds are hardly more than even."
        return (
            f"{start}: the test decides; the odds go by a difference of unknown scale and size, "
            "and this one is not what they expect."
        )
    if size >= math.log(MODERATE):
        return f"{start}: the test decides, the odds alone would speak of one."
    return f"{start}."


def _details(found: Findings) -> list[str]:
    lines = []
    if found.differ:
        lines += _where(found)
        lines.append(f"The loudest evidence is {found.components[0].name}.")
        lines.append(f"Scale of the difference: {_scale(found)}.")
    else:
        lines.append(_missed(found))
    lines += _locations(found)
    least, most = found.effect_interval
    first, second = found.names
    paired = found.rows.permutation_type == "samples"
    whose = f"Of a pair the row of {first}" if paired else f"A row of {first}"
    chance = "0.5 is chance"
    if found.differ and least <= 0.5 <= most and found.effect <= HARDLY:
        chance += ": the samples differ, but to that rule one row alone hardly shows it"
    # Its interval alone would say so too often; a p-value near 1 is of few relabellings.
    if most < 0.5 and found.pvalue > 1.0 - found.alpha:
        chance += ": they are more alike than draws of one distribution would be"
    lines.append(
        f"{whose} is told from one of {second} with probability {found.effect:.3f} by the rule "
        f"learned here ({_percent(found)}: {least:.3f} to {most:.3f}; {chance})."
    )
    m, n = found.sizes
    rows, how = f"{m} pairs" if paired else f"{m} and {n} rows", "permutations"
    if found.rows.permutation_type == "signs":
        worth = " and ".join(_short(one, 3) for one in found.rows.effective_sizes)
        rows, how = f"{rows}, by their weights worth {worth} of one weight", "changes of signs"
    if found.left_out:
        lines.append(f"Of one value in all rows and left out: {', '.join(found.left_out)}.")
    lines.append(f"{rows}, {found.permutations} {how}, level {found.alpha:g}.")
    return [*lines, *(f"Note: {note}" for note in found.notes)]


def _locations(found: Findings) -> list[str]:
    """Write the differences in location of up to :data:`MAX_LOCATIONS` columns."""
    if len(found.columns) > MAX_LOCATIONS:
        return []
    first, second = found.names
    lines = []
    for at, column in enumerate(found.columns):
        parts = []
        for estimate, interval in (
            (found.mean_difference, found.mean_difference_interval),
            (found.median_difference, found.median_difference_interval),
        ):
            if estimate is not None and interval is not None:
                low, high = (_short(float(end[at]), 3) for end in interval)
                parts.append(
                    f"{_short(float(estimate[at]), 3)} ({_percent(found)}: {low} to {high})"
                )
        shift = "; Hodges-Lehmann shift ".join(parts)
        lines.append(f"The mean of {column} in {second} less that in {first} is {shift}.")
    return lines


def _missed(found: Findings) -> str:
    """What the test would have found."""
    shift = found.detectable_shift
    if shift is None:
        return (
            "However these rows are dealt out, no shift of a column would have been found with "
            f"probability {POWER:g}."
        )
    whose, size = "one column", f"{shift:.2g} of its standard deviations"
    if len(found.columns) == 1:
        whose = found.columns[0]
        size = f"{shift * found.rows.scale[0]:.2g} ({shift:.2g} standard deviations)"
    return f"A shift of {whose} by about {size} would have been found with probability {POWER:g}."


def _scale(found: Findings) -> str:
    """The lengthscale with its interval: of one column in its units, of several in deviations."""
    ends = (found.lengthscale, *found.lengthscale_interval)
    middle, low, high = (float(end[0] / found.rows.scale[0]) for end in ends)
    unit = " standard deviations of each column"
    if len(found.columns) == 1:
        middle, low, high = (float(end[0]) for end in ends)
        unit = f" in {found.columns[0]}"
    told, least, most = (_short(value, 2) for value in (middle, low, high))
    return f"{told} ({_percent(found)}: {least} to {most}){unit}"


def _where(found: Findings) -> list[str]:
    if not found.places:
        return ["They differ, but no single place can be named."]
    more = len(found.places) - MOST_TOLD
    lines = [_place(found, place) for place in found.places[:MOST_TOLD]]
    return [*lines, *([f"And {pluralize(more, 'more place')}."] if more > 0 else [])]


def _place(found: Findings, place: Place) -> str:
    more, less = found.names[:: place.sign]
    ratio, low, high = place.ratio, *place.interval
    if place.sign < 0:  # the larger weight over the smaller one
        ratio, low, high = (1.0 / one if one > 0.0 else math.inf for one in (ratio, high, low))
    where = f"around {_vector(found, place.at, place.columns, place.scale)}"
    if place.intervals:
        unit = float(place.scale[0])
        listed = " and ".join(
            f"from {_number(start, unit)} to {_number(end, unit)}"
            for start, end in place.intervals[:MOST_INTERVALS]
        )
        listed += ", ..." * (len(place.intervals) > MOST_INTERVALS)
        where = f"for {found.columns[0]} {listed}, most clearly {where}"
    scale = _vector(found, place.scale, place.columns, place.scale)
    if len(place.columns) > MOST_SCALES:  # which are alike but for the units
        deviations = float(place.scale[0] / found.rows.scale[0])
        scale = f"{_short(deviations, 3)} standard deviations of each"
    p = describe_p(place.pvalue, found.permutations)
    if ratio > 1.0 / NOTHING:
        nothing = "none" if math.isinf(ratio) else "next to nothing"
        return (
            f"{more} has more {where} (scale {scale}): {less} has {nothing} there ({more} at least "
            f"{_ratio(low)} times its weight, {p})."
        )
    ends = " to ".join(_ratios(low, high)) if math.isfinite(high) else f"at least {_ratio(low)}"
    return (
        f"{more} has more {where} (scale {scale}): {_ratio(ratio)} times the weight of {less} "
        f"there ({ends}, {p})."
    )


def _ratio(value: float) -> str:
    """A ratio with two digits of its distance from 1."""
    apart = abs(value - 1.0)
    if not math.isfinite(value) or value >= 10.0:
        return f"{value:.3g}"
    return f"{value:.{min(max(2, 1 - math.floor(math.log10(apart))), 6) if apart else 2}f}"


def _ratios(low: float, high: float) -> tuple[str, str]:
    """Two ratios with as many digits after the point."""
    first, second = _ratio(low), _ratio(high)
    if max(low, high) >= 10.0:
        return first, second
    digits = max(len(one.partition(".")[2]) for one in (first, second))
    return f"{low:.{digits}f}", f"{high:.{digits}f}"


def _vector(found: Findings, values: np.ndarray, columns: np.ndarray, scales: np.ndarray) -> str:
    """The column and a number for each of ``columns``, with digits that its scale needs."""
    return ", ".join(f"{found.columns[c]} {_number(values[c], scales[c])}" for c in columns)


def _number(value: float, scale: float) -> str:
    """Three digits, or as many as show a tenth of ``scale``."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    apart = math.floor(math.log10(abs(value))) - math.floor(math.log10(scale))
    return _short(value, min(max(3, apart + 2), 15))


def _short(value: float, digits: int) -> str:
    """So many digits, without a power of ten where zeros do."""
    rounded = f"{value:.{digits}g}"
    return f"{float(rounded):.15g}" if 1e-4 <= abs(value) < 1e6 else rounded


def _percent(found: Findings) -> str:
    return f"{100 * (1 - found.alpha):g} %"
