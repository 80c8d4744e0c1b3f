"""Two tables, column by column: how each is spread in both, and where that differs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ..core.errors import InputError, nearest
from ..permutation.null_distribution import describe_p
from ..tables.effects import LevelProportion
from ..tables.findings import ColumnFindings, TableFindings
from ..tables.summary import format_answer, format_pair, missing_proportions
from .names import short_names
from .regions import LABEL, shade
from .style import P_COLOUR, Q_COLOUR, SMALL, STUCK, panels, plain

#: Columns that are drawn unless they are asked for, panels side by side, and bars of a panel.
MOST, ACROSS, BARS = 9, 3, 7
#: Sentences of the title.
MOST_LINES = 3
#: Points at which regions are evaluated; letters of a bar's label.
POINTS, LEVEL = 600, 16
#: Steps on an axis; inches of the smallest figure, and letters of its title for each.
STEPS, NARROWEST, LETTERS = 4, 5.0, 14
#: How the first table is filled.
FILLED = 0.25


def plot_tables(
    found: TableFindings,
    *,
    columns: Sequence[str] | str | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw how columns are spread in two tables, those first that have changed.

    Numbers and lengths of texts are histograms, the first table's filled and the second's outlined,
    shaded where one has more; categories, and weekdays and hours of dates, are bars of shares, the
    most conspicuous change on top. What a histogram does not show, such as holes and words, is told
    above it. Columns that have not changed are grey.

    Args:
        found: from :func:`~bke.inference.compare_tables`.
        columns: names, or one; by default those that have changed, at most nine; where none has
            those of the pairs that go together differently, which the title names, and where there
            are none those with the smallest p-values.
        axes: one for each column that is drawn; by default a new figure.

    Raises:
        InputError: for a column that there is not, or a wrong number of ``axes``.
    """
    shown = _shown(found, columns)
    across = min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    shape = (down, across) if axes is None else (1, len(shown))
    width = max(NARROWEST, 3.3 * across)
    figure, panel_axes = panels(*shape, axes, width=width, height=0.8 + 2.2 * down)
    names = short_names(found.names)
    keys: dict[str, Patch] = {}
    for ax, column in zip(panel_axes, shown, strict=False):
        handles_of_regions = _column(ax, column, found.n_resamples, names)
        keys |= {str(key.get_label()): key for key in handles_of_regions}
    for ax in panel_axes[len(shown) :]:
        ax.set_axis_off()
    loud = any(column.reject for column in shown)
    handles = [*_tables(found, names, Q_COLOUR if loud else STUCK), *keys.values()]
    if axes is None:
        figure.legend(
            handles=handles, fontsize=SMALL, frameon=False, loc="outside lower left", ncols=2
        )
        lines = [textwrap.fill(line, int(LETTERS * width)) for line in _title(found, shown)]
        figure.suptitle("\n".join(lines), fontsize=SMALL + 1, x=0.01, ha="left")
    else:
        panel_axes[0].legend(  # no wider than a panel, or it would take room of the next one
            handles=handles, fontsize=SMALL, frameon=False,
            loc="lower left", bbox_to_anchor=(0.0, 1.08),
        )  # fmt: skip
    return figure


def _title(found: TableFindings, shown: Sequence[ColumnFindings]) -> list[str]:
    """The answer, and of columns that differ in no way but together which do."""
    pairs = [] if any(column.reject for column in shown) else found.pairs
    return [format_answer(found), *(format_pair(one, found) for one in pairs if one.reject)][
        :MOST_LINES
    ]


def _shown(found: TableFindings, columns: Sequence[str] | str | None) -> list[ColumnFindings]:
    """The columns that are drawn, in order."""
    if columns is None:
        in_pairs = {name for pair in found.pairs if pair.reject for name in pair.columns}
        changed = [one for one in found.ordered if one.reject]
        together = [one for one in found.ordered if one.name in in_pairs]
        return (changed or together or found.ordered)[:MOST]
    columns = [columns] if isinstance(columns, str) else columns
    known = {one.name: one for one in found.columns}
    for name in columns:
        if name not in known:
            raise InputError(f"no column {name!r} was compared{nearest(name, list(known))}")
    if not columns:
        raise InputError("columns names none")
    return [known[name] for name in columns]


def _tables(found: TableFindings, names: tuple[str, str], colour: str) -> list[Patch]:
    """What tells the two tables in a legend."""
    first, second = (f"{name} ({size} rows)" for name, size in zip(names, found.sizes, strict=True))
    return [
        Patch(facecolor=P_COLOUR, alpha=FILLED, label=first),
        Patch(fill=False, edgecolor=colour, linewidth=1.4, label=second),
    ]


def _column(
    ax: Axes, column: ColumnFindings, n_resamples: int, names: tuple[str, str]
) -> list[Patch]:
    """Draw one column, and return the legend handles of its regions."""
    plain(ax)
    of = "length of " if column.kind == "text" else ""
    name = textwrap.shorten(f"{of}{column.name}", LABEL // 2, placeholder="…")
    title = f"{name}: {describe_p(column.pvalue, n_resamples)}"
    missing = missing_proportions(column)
    shares = [*missing, *column.effect.shares]
    bars = column.histogram is None or column.kind == "datetime"  # when it is is not compared
    told = [] if bars else missing or shares[: column.reject and not column.regions]
    for one in told:  # what the histogram does not show
        title += f"\n{one.level}: {one.before:.1%} → {one.after:.1%}"
    ax.set_title(title, fontsize=SMALL + 1, loc="left", color="black" if column.reject else STUCK)
    if bars:
        _bars(ax, shares[:BARS], reject=column.reject)
        return []
    return _histogram(ax, column, names)


def _histogram(ax: Axes, column: ColumnFindings, names: tuple[str, str]) -> list[Patch]:
    assert column.histogram is not None
    edges, (first, second) = column.histogram
    colour = Q_COLOUR if column.reject else STUCK
    ax.stairs(first, edges, fill=True, color=P_COLOUR, alpha=FILLED)
    ax.stairs(second, edges, color=colour, linewidth=1.4)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(bottom=0.0)
    ax.set_yticks([])
    ax.xaxis.set_major_locator(MaxNLocator(STEPS, integer=column.kind in ("integer", "text")))
    at = np.linspace(edges[0], edges[-1], POINTS)
    signs = np.zeros(POINTS)
    for region in reversed(column.regions):  # the most significant last
        for low, high in region.intervals:
            if column.kind == "integer":  # whole bins
                low, high = np.ceil(low) - 0.5, np.floor(high) + 0.5
            signs[(at >= low) & (at <= high)] = region.sign
    return shade(ax, signs, at, names)


def _bars(ax: Axes, shares: Sequence[LevelProportion], *, reject: bool) -> None:
    """Shares in both tables, one bar on the other."""
    if not shares:
        ax.set_axis_off()
        ax.text(0.0, 0.5, "as it was", transform=ax.transAxes, fontsize=SMALL, color=STUCK)
        return
    heights = -np.arange(len(shares), dtype=float)
    before, after = ([getattr(one, when) for one in shares] for when in ("before", "after"))
    colour = Q_COLOUR if reject else STUCK
    ax.barh(heights, before, color=P_COLOUR, alpha=FILLED, height=0.8)
    ax.barh(heights, after, facecolor="none", edgecolor=colour, linewidth=1.4, height=0.8)
    labels = [textwrap.shorten(one.level, LEVEL, placeholder="…") or "(empty)" for one in shares]
    ax.set_yticks(heights, labels)
    ax.xaxis.set_major_locator(MaxNLocator(STEPS))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
