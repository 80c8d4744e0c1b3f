"""Summary of a comparison of two tables, as sentences and as Markdown."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence

import numpy as np

from ..comparison.regions import Region
from ..comparison.summary import format_ratio
from ..core.names import printable
from ..data.checks import pluralize
from ..io.types import Column
from ..permutation.null_distribution import describe_p, describe_p_with_error, format_p
from .derived_features import DAY, MISSING, WEEKDAYS
from .effects import LevelProportion
from .findings import ColumnFindings, PairComparison, TableFindings

#: Largest number of pairs, and of levels, regions and intervals of a column, in a summary.
MAX_PAIRS, MAX_LEVELS, MAX_REGIONS, MAX_INTERVALS = 8, 3, 3, 3
#: What the derived features of a column are called; that of its values has no name.
FEATURES = {
    MISSING: "missing values",
    "tails": "tails",
    "weekday": "weekdays",
    "hour": "hours",
    "length": "lengths",
    "words": "words",
    "characters": "groups of characters",
}


def format_tables(result: TableFindings) -> str:
    """Summarize a comparison: the answer, changed columns and pairs, and the method."""
    lines = [format_answer(result)]
    lines += [format_column(column) for column in result.ordered if column.reject]
    pairs = result.changed_pairs
    lines += [format_pair(pair, result) for pair in pairs[:MAX_PAIRS]]
    if len(pairs) > MAX_PAIRS:
        lines.append(f"And {pluralize(len(pairs) - MAX_PAIRS, 'more pair')} of columns.")
    return "\n  ".join([*lines, format_method(result)])


def format_method(result: TableFindings) -> str:
    """Describe how a comparison was computed."""
    m, n = result.sizes
    parts = [f"{m} and {n} rows", pluralize(len(result.columns), "column")]
    parts += [pluralize(len(result.pairs), "pair")] if result.pairs else []
    parts += result.design
    parts += [f"{result.n_resamples} permutations", f"family-wise level {result.alpha:.3g}"]
    effects = [column.effect for column in result.columns]
    if any(effect.auc_interval for effect in effects):
        parts.append(f"confidence {100.0 * (1.0 - result.alpha):.4g} % per interval")
    return f"{', '.join(parts)}."


def format_answer(result: TableFindings) -> str:
    """Return the decision, the numbers of columns and pairs, and what was not compared."""
    answer = _format_decision(result)
    medians = [column.effect.medians for column in result.columns if column.kind == "datetime"]
    if any(not 0.0 <= median < DAY for pair in medians if pair for median in pair):
        # Times of a day are in the first day of 1970.
        return f"{answer[:-1]}; the dates themselves were not compared, only weekdays and hours."
    return answer


def _format_decision(result: TableFindings) -> str:
    first, second = result.names
    p = describe_p_with_error(result.pvalue, result.pvalue_error, result.n_resamples)
    if not result.reject:
        return f"No difference between {first} and {second} was found ({p})."
    columns, pairs = len(result.changed_columns()), len(result.changed_pairs)
    changes = []
    if columns:
        verb = "has" if columns == 1 else "have"
        changes.append(f"{pluralize(columns, 'column')} {verb} changed")
    if pairs:
        verb = "has" if pairs == 1 else "have"
        changes.append(f"{pluralize(pairs, 'association')} of two columns {verb} changed")
    if not changes:
        return f"{first} and {second} differ ({p}), but no single column or pair is significant."
    return f"{first} and {second} differ ({p}): {' and '.join(changes)}."


def format_column_p(column: ColumnFindings) -> str:
    """Format the p-value of a column."""
    n_resamples = column.marginals[0].n_resamples if column.marginals else 0
    return describe_p(column.pvalue, n_resamples)


def _format_name(name: str) -> str:
    """Return the name of a column, in quotes if it is blank."""
    return name if name.strip() else repr(name)


def format_column(column: ColumnFindings) -> str:
    """Summarize a column in a sentence."""
    verb = "has changed" if column.reject else "shows no change"
    effects = "; ".join(format_effects(column))
    answer = f"{_format_name(column.name)} ({column.kind}) {verb} ({format_column_p(column)})"
    if column.reject and len(column.marginals) > 1:
        answer += f", most in its {FEATURES.get(column.strongest_feature, 'values')}"
    return f"{answer}{': ' if effects else ''}{effects}."


def missing_proportions(column: ColumnFindings, min_change: float = 0.005) -> list[LevelProportion]:
    """Return the proportion of missing values, if it has changed by ``min_change``."""
    before, after = column.effect.missing
    if abs(after - before) < min_change:
        return []
    return [LevelProportion(MISSING, before, after, column.effect.missing_interval)]


def format_effects(column: ColumnFindings) -> list[str]:
    """Format the effect sizes and regions of a column."""
    effect = column.effect
    parts = [_format_proportion(row) for row in missing_proportions(column)]
    if effect.medians is not None:
        is_date, is_integer = column.kind == "datetime", column.kind == "integer"
        before, after = (
            map(format_date, effect.medians)
            if is_date
            else format_different(*effect.medians, n_digits=15 if is_integer else 4)
        )
        parts.append(f"median {before} → {after}")
    for name, difference, interval in (
        ("mean difference", effect.mean_difference, effect.mean_difference_interval),
        ("Hodges-Lehmann shift", effect.median_difference, effect.median_difference_interval),
    ):
        if difference is not None:
            parts.append(f"{name} {format_number(difference, 3)}")
        if difference is not None and interval is not None:
            low, high = (format_number(value, 3) for value in interval)
            parts[-1] += f" ({low} to {high})"
    if effect.deviations is not None:
        before, after = format_different(*effect.deviations, n_digits=4)
        parts.append(f"standard deviation (from quantiles) {before} → {after}")
    if effect.auc is not None:
        parts.append(f"AUC {effect.auc:.3f}")
        if effect.auc_interval is not None:
            lower, upper = effect.auc_interval
            parts[-1] += f" ({lower:.3f} to {upper:.3f})"
        parts[-1] += (
            f", the probability that a value of {column.names[1]} is larger, ties counting half"
        )
    shares = effect.shares[:MAX_LEVELS]
    if effect.auc is not None:  # of numbers these are tails
        shares = tuple(
            row
            for row in shares[:1]
            if row.interval is None or not row.interval[0] <= 0.0 <= row.interval[1]
        )
    parts += [_format_proportion(row) for row in shares]
    # Regions with equal descriptions but other bandwidths are one for a reader.
    regions: dict[str, str] = {}
    for region in column.regions:
        regions.setdefault(_format_place(region, column), format_region(region, column))
    more = len(regions) - MAX_REGIONS
    parts += list(regions.values())[:MAX_REGIONS]
    return [*parts, *([f"and {pluralize(more, 'more region')}"] if more > 0 else [])]


def _format_proportion(row: LevelProportion) -> str:
    text = f"{row.level}: {row.before:.1%} → {row.after:.1%}"
    if row.interval is None:
        return text
    difference, low, high = (100.0 * value for value in (row.after - row.before, *row.interval))
    return f"{text} (difference {difference:.1f} points, {low:.1f} to {high:.1f})"


def format_number(value: float, n_digits: int) -> str:
    """Format a number with ``n_digits`` significant digits, and all digits of its integer part."""
    if 10.0**n_digits <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{n_digits}g}"


def format_different(first: float, second: float, n_digits: int) -> tuple[str, str]:
    """Format two numbers with at least ``n_digits`` digits, and as many as show a difference."""
    digits = digits_of_difference(first, second, n_digits)
    return format_number(first, digits), format_number(second, digits)


def digits_of_difference(first: float, second: float, n_digits: int) -> int:
    """Return the number of digits, at least ``n_digits``, with which two numbers look different."""
    digits = n_digits
    while first != second and digits < 17:
        if format_number(first, digits) != format_number(second, digits):
            break
        digits += 1
    return digits


def format_region(region: Region, column: ColumnFindings) -> str:
    """Describe a region of a column of numbers in which a table has a higher density."""
    fewer = column.names[region.sign > 0]
    n_resamples = column.marginals[0].n_resamples
    confidence = "simultaneous interval"
    if column.kind == "integer":
        # At a single integer the ratio is not that of its proportions, one of which may be 0.
        confidence = f"density smoothed over integers; {confidence}"
    ratio = format_ratio(region, fewer, n_resamples, confidence)
    return f"{_format_place(region, column)}, {ratio}"


def _format_place(region: Region, column: ColumnFindings, max_scales: float = 4.0) -> str:
    """Name the table with the higher density, and the intervals of a region.

    Args:
        region: region of a column of numbers.
        column: the column; ends of regions of integers are integers.
        max_scales: width of all intervals, in scales of the region, above which the most
            significant point is given.
    """
    answer = f"{column.names[region.sign < 0]} has a higher density"
    peak, intervals = float(region.center[0]), list(region.intervals)
    if column.kind == "integer":
        peak = round(peak)
        rounded = [(math.ceil(low), math.floor(high)) for low, high in intervals]
        intervals = [(low, high) for low, high in rounded if low <= high]
    if not intervals:
        return f"{answer} around {format_number(peak, 4)}"
    digits = max(digits_of_difference(low, high, 4) for low, high in intervals[:MAX_INTERVALS])
    parts = [
        f"{'at' if column.kind == 'integer' else 'around'} {format_number(low, digits)}"
        if low == high
        else f"from {format_number(low, digits)} to {format_number(high, digits)}"
        for low, high in intervals[:MAX_INTERVALS]
    ]
    text = f"{answer} {' and '.join(parts)}{', ...' * (len(intervals) > MAX_INTERVALS)}"
    if max_scales * float(region.bandwidth[0]) >= intervals[-1][1] - intervals[0][0]:
        return text
    return f"{text}, most significant at {format_number(peak, digits)}"


def format_date(seconds: float) -> str:
    """Format seconds since 1970 as date and time (UTC); the date of the first day is left out."""
    try:
        date = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # outside of the calendar
        return f"{seconds:.6g} s after 1970"
    return date.strftime("%H:%M" if 0.0 <= seconds < DAY else "%Y-%m-%d %H:%M")


def date_notes(
    columns: Sequence[Column], n_first: int, names: tuple[str, str], min_overlap: float = 0.5
) -> list[str]:
    """Write notes on dates whose ranges differ, because dates themselves are not compared.

    Args:
        columns: columns of both tables.
        n_first: number of rows of the first table.
        names: names of the tables.
        min_overlap: proportion of dates of a table within the range of the other below which there
            is a note.
    """
    notes = []
    for column in columns:
        if column.kind != "datetime":
            continue
        tables = (column.values[:n_first], column.values[n_first:])
        first, second = (values[~np.isnan(values)] for values in tables)
        if not len(first) or not len(second):
            continue
        ranges = [(values.min(), values.max()) for values in (first, second)]
        overlap = min(
            np.mean((low <= values) & (values <= high))
            for values, (low, high) in zip((first, second), ranges[::-1], strict=True)
        )
        if overlap < min_overlap:
            text = " and ".join(
                f"from {_format_day(low)} to {_format_day(high)} in {name}"
                for name, (low, high) in zip(names, ranges, strict=True)
            )
            notes.append(f"The dates of {column.name!r} are {text}.{_calendar_sentence(*ranges)}")
    return notes


def _calendar_sentence(*ranges: tuple[float, float], min_difference: float = 0.01) -> str:
    """Name the weekday whose proportion of the days in two ranges differs most, if any does."""
    proportions = []
    for first, last in ((low // DAY, high // DAY) for low, high in ranges):
        n_days = last - first + 1
        offsets = (np.arange(7) - first - WEEKDAYS.index("Thursday")) % 7  # from the first day
        proportions.append((n_days // 7 + (offsets < n_days % 7)) / n_days)
    weekday = int(np.argmax(np.abs(proportions[1] - proportions[0])))
    before, after = (values[weekday] for values in proportions)
    if abs(after - before) < min_difference:
        return ""
    return (
        f" By the calendar alone, the proportion of {WEEKDAYS[weekday]}s would change from "
        f"{before:.1%} to {after:.1%}."
    )


def _format_day(seconds: float) -> str:
    return format_date(seconds).removesuffix(" 00:00")


def format_pair(pair: PairComparison, result: TableFindings) -> str:
    """Describe the change of an association in a sentence."""
    first, second = pair.features
    values = ", ".join(
        f"{_format_strength(pair.measure, strength)} in {name}"
        for strength, name in zip(pair.strengths, result.names, strict=True)
    )
    if pair.measure == "difference":
        measure = f"standardized mean difference of the normal scores of {second} for {first}"
    elif pair.measure == "odds ratio":
        measure = f"odds ratio of {first} and {second}"
    else:
        measure = f"correlation of the normal scores of {first} and {second}, corrected for ties"
    p = describe_p(pair.pvalue, result.n_resamples)
    columns = " and ".join(map(_format_name, pair.columns))
    return f"The association of {columns} has changed ({p}): {measure}: {values}."


def _format_strength(measure: str, strength: float) -> str:
    """Format an association, which is not defined if a feature is constant."""
    if math.isnan(strength):
        return "not defined"
    if measure == "difference":
        return f"{strength:+.2f}"
    return f"{strength:.3g}" if measure == "odds ratio" else f"{strength:.2f}"


def format_markdown(result: TableFindings) -> str:
    """Format the answer, a table of all columns, the changed pairs and the notes as Markdown."""
    lines = [f"**{escape_markdown(format_answer(result))}**", ""]
    lines += ["| column | kind | changed | p, adjusted | how |", "| --- | --- | --- | ---: | --- |"]
    for column in result.ordered:
        row = (
            _format_name(column.name),
            column.kind,
            "yes" if column.reject else "not found",
            format_p(column.pvalue, result.n_resamples),
            "; ".join(format_effects(column)),
        )
        lines.append(f"| {' | '.join(map(escape_markdown, row))} |")
    pairs = [format_pair(pair, result) for pair in result.pairs if pair.reject]
    for items in (pairs, result.notes):
        lines += ["", *(f"- {escape_markdown(item)}" for item in items)] if items else []
    lines += ["", escape_markdown(format_method(result))]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Escape the special characters of Markdown, and join lines.

    An empty comment is inserted where a number sign, an at sign or an address would become a link
    and notify somebody.
    """
    text = printable(" ".join(text.split()))
    text = "".join(f"\\{char}" if char in "\\|`*_[]<>$~" else char for char in text)
    return re.sub(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)", "<!-- -->", text)
