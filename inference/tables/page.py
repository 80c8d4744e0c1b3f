"""A comparison of tables as one page: the answer, columns by their evidence, pairs, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from ..comparison.named import Place
from ..core.drawing import Mark, bars, outlines
from ..core.render import render
from ..permutation.permutation import p_alone
from .findings import ColumnFindings, PairComparison, TableFindings
from .histograms import Histogram
from .words import effects_told, holes, made, moment, pair_told, place_told, verdict

#: Levels whose bars are drawn, all weekdays among them, and steps on an axis.
BARS, STEPS = 7, 4


class Row(NamedTuple):
    """What the page shows of a column."""

    name: str
    kind: str
    differ: bool
    pvalue: float
    p: str
    effects: list[str]
    pictures: list[Markup]

    @property
    def text(self) -> str:
        """What a search looks into."""
        changed = "yes changed" if self.differ else "not found"
        return " ".join([self.name, self.kind, changed, *self.effects])


class Told(NamedTuple):
    """What the page shows of a comparison."""

    found: TableFindings
    verdict: str
    p: str
    made: str
    rows: list[Row]
    pairs: list[tuple[PairComparison, str]]


def tables_page(found: TableFindings) -> str:
    """Write the page of one comparison."""
    return render("tables.html", told=[_told(found)], sentence=verdict(found))


def groups_page(
    sentence: str, comparisons: Sequence[TableFindings], notes: Sequence[str] = ()
) -> str:
    """Write the page of several comparisons of groups, with notes about all of them."""
    told = [_told(one) for one in comparisons]
    return render("tables.html", told=told, sentence=sentence, notes=notes)


def _told(found: TableFindings) -> Told:
    columns = found.ordered
    pairs = sorted((one for one in found.pairs if one.differ), key=lambda one: one.pvalue)
    return Told(
        found,
        verdict(found),
        p_alone(found.pvalue, found.permutations),
        f"Compared: {made(found)}",
        [_row(column, found.permutations) for column in columns],
        [(pair, pair_told(pair, found)) for pair in pairs],
    )


def _row(column: ColumnFindings, permutations: int) -> Row:
    return Row(
        column.name,
        column.kind,
        column.differ,
        column.pvalue,
        p_alone(column.pvalue, permutations),
        effects_told(column),
        _pictures(column),
    )


def _pictures(column: ColumnFindings) -> list[Markup]:
    """A histogram of numbers, dates and lengths; bars of levels, weekdays, words and holes."""
    first, second = column.names
    drawn = []
    if column.histogram is not None:
        of = "lengths of texts in " if column.kind == "text" else ""
        marks = [mark for place in column.places for mark in _marks(place, column)]
        title = f"Histograms of {of}{column.name}: {first} filled, {second} outlined"
        if column.kind == "datetime":
            title += "; when they are is not compared, but on which weekdays and at which hours"
        if marks:
            title += f"; {'; '.join(dict.fromkeys(mark.words for mark in marks))}"
        shape = column.histogram
        drawn.append(outlines(shape.edges, shape.shares, _ticks(column, shape), marks, title))
    shown = holes(column)
    if column.kind not in ("number", "integer"):
        shown += column.effect.shares[:BARS]
    if shown:
        drawn.append(bars(shown, f"Shares in {column.name}: {first} above, {second} below"))
    return drawn


def _marks(place: Place, column: ColumnFindings) -> list[Mark]:
    words = place_told(place, column)
    return [Mark(low, high, place.sign > 0, words) for low, high in place.intervals]


def _ticks(column: ColumnFindings, shape: Histogram) -> list[tuple[float, str]]:
    """Positions and labels; of dates the first and the last."""
    low, high = float(shape.edges[0]), float(shape.edges[-1])
    if column.kind == "datetime":
        return [(one, moment(one)[:10]) for one in (low, high)]
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(
        STEPS, steps=[1, 2, 2.5, 5, 10], integer=column.kind in ("integer", "text")
    ).tick_values(low, high)
    inside = _few([float(one) for one in found if low <= one <= high])
    told = [(one, f"{one:.12g}" if abs(one) < 1e6 else f"{one:.3g}") for one in inside]
    if column.kind == "text" and told:  # the last with its unit, which takes the room of two
        at, label = told[-1]
        return [*told[:-2], (at, f"{label} characters")]
    return told


def _few(values: list[float]) -> list[float]:
    """At most so many that their labels have room."""
    every = int(np.ceil(len(values) / (STEPS + 1)))
    return values[::every]
