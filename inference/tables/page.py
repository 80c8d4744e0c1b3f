"""HTML page of comparisons of tables: the answer, columns with pictures, pairs and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from ..core.drawing import Mark, bars, outlines
from ..core.render import render
from ..permutation.null_distribution import format_p
from .effects import Histogram
from .findings import ColumnFindings, TableFindings
from .summary import (
    format_answer,
    format_date,
    format_effects,
    format_method,
    format_pair,
    format_region,
    missing_proportions,
)


class Row(NamedTuple):
    """Row of the page for a column; ``p`` is the formatted p-value."""

    column: ColumnFindings
    p: str
    effects: list[str]
    pictures: list[Markup]

    @property
    def text(self) -> str:
        """Text for the search."""
        changed = "yes changed" if self.column.reject else "not found"
        return " ".join([self.column.name, self.column.kind, changed, *self.effects])


class Comparison(NamedTuple):
    """Section of the page for a comparison."""

    result: TableFindings
    answer: str
    p: str
    method: str
    rows: list[Row]
    pairs: list[str]


def tables_page(result: TableFindings) -> str:
    """Render the page of a comparison."""
    return groups_page(format_answer(result), [result])


def groups_page(sentence: str, results: Sequence[TableFindings], notes: Sequence[str] = ()) -> str:
    """Render the page of several comparisons.

    Args:
        sentence: the answer.
        results: comparisons.
        notes: notes on all comparisons.
    """
    comparisons = [
        Comparison(
            result,
            format_answer(result),
            format_p(result.pvalue, result.n_resamples),
            f"Compared: {format_method(result)}",
            [
                Row(
                    column,
                    format_p(column.pvalue, result.n_resamples),
                    format_effects(column),
                    _pictures(column),
                )
                for column in result.ordered
            ],
            [format_pair(pair, result) for pair in result.changed_pairs],
        )
        for result in results
    ]
    return render("tables.html", comparisons=comparisons, sentence=sentence, notes=notes)


def _pictures(column: ColumnFindings, max_levels: int = 7) -> list[Markup]:
    """Draw a histogram of numbers, dates and lengths, and bars of ``max_levels`` levels.

    Seven levels include all weekdays.
    """
    first, second = column.names
    pictures = []
    if (histogram := column.histogram) is not None:
        marks = [
            Mark(low, high, region.sign > 0, format_region(region, column))
            for region in column.regions
            for low, high in region.intervals
        ]
        variable = f"{'lengths of texts in ' * (column.kind == 'text')}{column.name}"
        title = f"Histograms of {variable}: {first} filled, {second} outlined"
        if column.kind == "datetime":
            title += "; weekdays and hours are compared, but not the dates themselves"
        if marks:
            title += f"; {'; '.join(dict.fromkeys(mark.words for mark in marks))}"
        ticks = _ticks(column, histogram)
        pictures.append(outlines(histogram.edges, histogram.proportions, ticks, marks, title))
    levels = missing_proportions(column)
    if column.kind not in ("number", "integer"):
        levels += column.effect.shares[:max_levels]
    if levels:
        title = f"Proportions in {column.name}: {first} above, {second} below"
        pictures.append(bars([level[:3] for level in levels], title))
    return pictures


def _ticks(
    column: ColumnFindings, histogram: Histogram, max_steps: int = 4
) -> list[tuple[float, str]]:
    """Return positions and labels of ticks; for dates the first and the last."""
    low, high = float(histogram.edges[0]), float(histogram.edges[-1])
    if column.kind == "datetime":
        return [(tick, format_date(tick)[:10]) for tick in (low, high)]
    # Multiples of 1, 2, 2.5 or 5 times a power of ten. To import Matplotlib for its MaxNLocator
    # takes a sixth of the time of a comparison of a thousand rows.
    is_integer = column.kind in ("integer", "text")
    power = math.floor(math.log10((high - low) / max_steps))
    unit = 10.0 ** (max(power, 0) if is_integer else power)
    factors = [
        factor
        for factor in (1.0, 2.0, 2.5, 5.0, 10.0)
        if not is_integer or unit > 1.0 or factor != 2.5
    ]
    steps = (unit * factor for factor in factors if high - low <= max_steps * unit * factor)
    step = next(steps, 10.0 * unit)
    values = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1.0) + 0.0  # no -0
    values = values[(values >= low) & (values <= high)]  # up to rounding they are
    ticks = [(float(tick), f"{tick:.12g}" if abs(tick) < 1e6 else f"{tick:.3g}") for tick in values]
    if column.kind == "text" and ticks:  # the label with the unit replaces two labels
        position, label = ticks[-1]
        return [*ticks[:-2], (position, f"{label} characters")]
    return ticks
