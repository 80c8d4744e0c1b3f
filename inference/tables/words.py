"""A comparison of two tables in words: the answer, then columns, then pairs."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..comparison.named import Place
from ..data.checks import pluralize
from ..io.types import Column
from ..permutation.permutation import p_in_words, p_with_error
from .aspects import DAY, MISSING
from .changes import Share
from .findings import ColumnFindings, PairComparison, TableFindings

#: Pairs, levels of a column and places in it that are told one by one.
MOST_PAIRS, MOST_LEVELS, MOST_PLACES = 8, 3, 3
#: Changes of the share of missing values that are told.
LEAST_SHARE = 0.005
#: It is told of dates of which a smaller share lies between the other table's.
FEW = 0.5
#: Numbers of more digits before the point are told by powers of ten.
WHOLE = 1e15
#: A place is told where it is clearest if its intervals are so many of its scales wide.
CLEARLY = 4.0
#: Intervals of a place that a sentence lists.
MOST_INTERVALS = 3


def told(found: TableFindings) -> str:
    """Tell a comparison of tables in a few lines."""
    columns = sorted((one for one in found.columns if one.differ), key=lambda one: one.pvalue)
    pairs = sorted((one for one in found.pairs if one.differ), key=lambda one: one.pvalue)
    lines = [verdict(found), *map(column_told, columns)]
    lines += [pair_told(pair, found) for pair in pairs[:MOST_PAIRS]]
    if len(pairs) > MOST_PAIRS:
        lines.append(f"And {pluralize(len(pairs) - MOST_PAIRS, 'more pair')} of columns.")
    return "\n  ".join([*lines, made(found)])


def made(found: TableFindings) -> str:
    """Tell how a comparison was made."""
    m, n = found.sizes
    told = [f"{m} and {n} rows", pluralize(len(found.columns), "column"), *found.design]
    told += [f"{found.permutations} permutations", f"level {found.alpha:.3g} for all together"]
    if any(column.effect.shift_interval or column.effect.auc_interval for column in found.columns):
        told.append(f"intervals with confidence {100.0 * (1.0 - found.alpha):.4g} % each")
    return f"{', '.join(told)}."


def verdict(found: TableFindings) -> str:
    """The first sentence."""
    first, second = found.names
    p = p_with_error(found.pvalue, found.pvalue_error, found.permutations)
    if not found.differ:
        return f"No difference between {first} and {second} was found ({p})."
    columns = sum(column.differ for column in found.columns)
    pairs = sum(pair.differ for pair in found.pairs)
    named = []
    if columns:
        named.append(f"{pluralize(columns, 'column')} {'has' if columns == 1 else 'have'} changed")
    if pairs:
        one = pairs == 1
        named.append(
            f"{pluralize(pairs, 'pair')} of columns {'goes' if one else 'go'} together differently"
        )
    if not named:
        return f"{first} and {second} differ ({p}), but no single column or pair can be named."
    return f"{first} and {second} differ ({p}): {' and '.join(named)}."


def column_p(column: ColumnFindings) -> str:
    """Tell the p-value of a column."""
    permutations = column.marginals[0].permutations if column.marginals else 0
    return p_in_words(column.pvalue, permutations)


def column_told(column: ColumnFindings) -> str:
    """Tell what became of a column."""
    p = column_p(column)
    verb = "has changed" if column.differ else "shows no change"
    parts = effects_told(column)
    return f"{column.name} ({column.kind}) {verb} ({p}){': ' if parts else ''}{'; '.join(parts)}."


def holes(column: ColumnFindings) -> list[Share]:
    """The share of rows without a value, where that has changed enough to be told."""
    was, now = column.effect.missing
    return [Share(MISSING, was, now)] if abs(now - was) >= LEAST_SHARE else []


def effects_told(column: ColumnFindings) -> list[str]:
    """Tell by how much a column has changed, one part after the other."""
    found = column.effect
    parts = [f"{one.level} {one.before:.1%} → {one.after:.1%}" for one in holes(column)]
    if found.medians is not None:
        write = moment if column.kind == "datetime" else _writer(column)
        parts.append(f"median {write(found.medians[0])} → {write(found.medians[1])}")
        if column.kind != "datetime" and found.shift_interval is not None:
            assert found.shift is not None
            by, least, most = (digits(one, 3) for one in (found.shift, *found.shift_interval))
            parts[-1] += f" (shift {by}, {least} to {most})"
    if found.deviations is not None:
        parts.append(f"spread {digits(found.deviations[0], 4)} → {digits(found.deviations[1], 4)}")
    if found.auc is not None and found.auc_interval is not None:
        low, high = found.auc_interval
        second = column.names[1]
        parts.append(
            f"a value of {second} is the larger with probability {found.auc:.3f} "
            f"({low:.3f} to {high:.3f})"
        )
    parts += [
        f"{share.level}: {share.before:.1%} → {share.after:.1%}"
        for share in found.shares[: 1 if found.auc is not None else MOST_LEVELS]
    ]
    places = dict.fromkeys(place_told(place, column) for place in column.places)
    parts += list(places)[:MOST_PLACES]
    more = len(places) - MOST_PLACES
    return [*parts, *([f"and {pluralize(more, 'more place')}"] if more > 0 else [])]


def _writer(column: ColumnFindings) -> Callable[[float], str]:
    """How numbers of a column are told: whole ones with all digits."""
    return "{:.15g}".format if column.kind == "integer" else lambda value: digits(value, 4)


def digits(value: float, count: int) -> str:
    """Write a number with so many digits, and all of those before its point."""
    if 10.0**count <= abs(value) < WHOLE:
        return f"{value:.0f}"
    return f"{value:.{count}g}"


def place_told(place: Place, column: ColumnFindings) -> str:
    """Tell which table has more where, and where within if that is a small part of it.

    Whole numbers are told by those that there are.
    """
    more = f"{column.names[place.sign < 0]} has more"
    is_integer = column.kind == "integer"
    intervals = list(place.intervals)
    if is_integer:
        whole = [(math.ceil(start), math.floor(end)) for start, end in intervals]
        intervals = [(start, end) for start, end in whole if start <= end]
    at = round(float(place.at[0])) if is_integer else float(place.at[0])
    if not intervals:
        return f"{more} around {digits(at, 4)}"
    parts = [
        f"at {digits(start, 4)}" if start == end else f"from {digits(start, 4)} to {digits(end, 4)}"
        for start, end in intervals[:MOST_INTERVALS]
    ]
    sentence = f"{more} {' and '.join(parts)}{', ...' * (len(intervals) > MOST_INTERVALS)}"
    if CLEARLY * float(place.scale[0]) >= intervals[-1][1] - intervals[0][0]:
        return sentence
    return f"{sentence}, most clearly around {digits(at, 4)}"


def moment(seconds: float) -> str:
    """Tell seconds since 1970 as a date and a time, UTC; those of its first day as a time."""
    try:
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{seconds:.6g} s after 1970"
    return when.strftime("%H:%M" if 0.0 <= seconds < DAY else "%Y-%m-%d %H:%M")


def dates_told(columns: Sequence[Column], rows: int, names: tuple[str, str]) -> list[str]:
    """Tell of dates of which few lie where the other table's do, for when they are is not compared.

    Args:
        columns: of both tables.
        rows: of the first table.
        names: what the tables are called.
    """
    found = []
    for column in columns:
        if column.kind != "datetime":
            continue
        each = [part[~np.isnan(part)] for part in (column.values[:rows], column.values[rows:])]
        if not all(map(len, each)):
            continue
        ends = [(part.min(), part.max()) for part in each]
        among = [
            np.mean((low <= part) & (part <= high))
            for part, (low, high) in zip(each, ends[::-1], strict=True)
        ]
        if min(among) < FEW:
            told = " and ".join(
                f"from {_day(low)} to {_day(high)} in {name}"
                for name, (low, high) in zip(names, ends, strict=True)
            )
            found.append(
                f"The dates of {column.name!r} are {told}: their weekdays and hours are compared, "
                "not when they are."
            )
    return found


def _day(seconds: float) -> str:
    return moment(seconds).removesuffix(" 00:00")


def pair_told(pair: PairComparison, found: TableFindings) -> str:
    """Tell how a pair of columns goes together differently."""
    one, other = pair.columns
    p = p_in_words(pair.pvalue, found.permutations)
    return f"{one} and {other} go together differently ({p}): {_strengths_told(pair, found)}."


def _strengths_told(pair: PairComparison, found: TableFindings) -> str:
    """Tell how strongly features of a pair went together, and go."""
    one, other = pair.features
    told = [_strength_told(pair.measure, strength) for strength in pair.strengths]
    sides = ", ".join(f"{how} in {name}" for how, name in zip(told, found.names, strict=True))
    if pair.measure == "difference":
        return f"with {one} the ranks of {other} are, in standard deviations, {sides}"
    if pair.measure == "odds ratio":
        return f"the odds ratio of {one} and {other} is {sides}"
    return f"the correlation of {one} and {other}, by ranks and as without ties, is {sides}"


def _strength_told(measure: str, strength: float) -> str:
    """Tell one strength; there is none where a feature is constant."""
    if math.isnan(strength):
        return "not defined"
    if measure == "difference":
        return f"{abs(strength):.2f} {'lower' if strength < 0.0 else 'higher'}"
    return f"{strength:.3g}" if measure == "odds ratio" else f"{strength:.2f}"
