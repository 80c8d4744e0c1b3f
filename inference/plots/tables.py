"""Plot of a comparison of two tables: distributions by column, and changed associations."""

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
from ..tables.findings import ColumnFindings, PairComparison, TableFindings
from ..tables.summary import format_answer, format_pair, missing_proportions
from .comparison import LABEL, shade
from .style import P_MORE, Q_COLOR, SMALL, STUCK, panels, plain, short_names

#: Most columns that are drawn by default, panels side by side, and bars of a panel.
MOST, ACROSS, BARS = 9, 3, 7
#: Most sentences of the title.
MOST_LINES = 3
#: Points at which regions are evaluated; letters of a bar's label.
POINTS, LEVEL = 600, 16
#: Steps on an axis; inches of the narrowest default figure and of the narrowest panel; letters of
#: a title per inch.
STEPS, NARROWEST, NARROWEST_PANEL, LETTERS = 4, 5.0, 2.5, 13
#: Opacity of the first table.
FILLED = 0.4


def plot_tables(
    comparison: TableFindings,
    *,
    columns: Sequence[str] | str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
    figsize: tuple[float, float] | None = None,
    title: str | None = None,
    legend: bool = True,
) -> Figure:
    """Plot columns of two tables, those first that have changed, and changed associations.

    Numbers and lengths of texts are histograms, the first table filled and the second outlined,
    shaded where one has a higher density. Categories, and weekdays and hours of dates, are bars of
    proportions, the most significant change on top. Changes that a histogram does not show, such as
    those of missing values and words, are written above it. Columns that have not changed are gray.
    The last panel of a new figure has the measures of association of changed pairs in both tables.

    Args:
        comparison: result of :func:`~bke.inference.compare_tables`.
        columns: names, or one name; by default at most nine columns that have changed; if there is
            none, those of the changed pairs, which the title names; otherwise those with the
            smallest p-values.
        ax: axes for each column; by default a new figure.
        figsize: width and height in inches of a new figure.
        title: by default the decision of the test; ``""`` for none.
        legend: draw a legend.

    Raises:
        InputError: for an unknown column, a wrong number of axes, or ``figsize`` with ``ax``.
    """
    if figsize is not None and ax is not None:
        raise InputError("figsize is for a new figure: pass it without ax")
    selected = _select_columns(comparison, columns)
    pairs = comparison.changed_pairs if columns is None and ax is None else []
    count = len(selected) + bool(pairs)
    most = ACROSS if figsize is None else max(1, int(figsize[0] / NARROWEST_PANEL))
    across = min(most, count)
    down = -(-count // across)
    width, height = figsize or (max(NARROWEST, 3.3 * across), 0.8 + 2.2 * down)
    shape = (down, across) if ax is None else (1, count)
    figure, axes = panels(*shape, ax, width=width, height=height)
    names = short_names(comparison.names)
    keys: dict[str, Patch] = {}
    for panel, column in zip(axes, selected, strict=False):
        patches = _column(panel, column, comparison.n_resamples, names)
        keys |= {str(patch.get_label()): patch for patch in patches}
    if pairs:
        _associations(axes[len(selected)], pairs)
    for panel in axes[count:]:
        panel.set_axis_off()
    has_changes = bool(pairs) or any(column.reject for column in selected)
    color = Q_COLOR if has_changes else STUCK
    handles = [*_table_handles(comparison, names, color), *keys.values()]
    if legend and ax is None:
        figure.legend(
            handles=handles, fontsize=SMALL, frameon=False, loc="outside lower left",
            ncols=2 if across > 1 else 1,
        )  # fmt: skip
    elif legend:
        axes[0].legend(  # no wider than a panel, or it would overlap the next panel
            handles=handles, fontsize=SMALL, frameon=False,
            loc="lower left", bbox_to_anchor=(0.0, 1.08),
        )  # fmt: skip
    lines = _title(comparison, selected) if title is None else [title] if title else []
    if lines and (ax is None or title):
        lines = [textwrap.fill(line, int(LETTERS * width)) for line in lines]
        figure.suptitle("\n".join(lines), fontsize=SMALL + 1, x=0.01, ha="left")
    return figure


def _associations(ax: Axes, pairs: Sequence[PairComparison]) -> None:
    """Draw the measures of the most significant changed pairs in both tables."""
    measure = pairs[0].measure
    drawn = [pair for pair in pairs if pair.measure == measure][:BARS]
    rows = -np.arange(len(drawn), dtype=float)
    before, after = np.array([pair.strengths for pair in drawn]).T
    ax.hlines(rows, before, after, color=STUCK, linewidth=1.0)
    ax.plot(before, rows, "o", color=P_MORE, alpha=0.5)
    ax.plot(after, rows, "o", markerfacecolor="none", markeredgecolor=Q_COLOR, markeredgewidth=1.4)
    names = (" and ".join(pair.columns) for pair in drawn)
    ax.set_yticks(rows, [textwrap.fill(name, LEVEL) for name in names])
    ax.set_ylim(rows[-1] - 0.5, 0.5)
    ax.axvline(1.0 if measure == "odds ratio" else 0.0, color="0.4", linewidth=0.8)
    ax.set_title(f"{measure} of changed pairs", fontsize=SMALL + 1, loc="left")
    plain(ax)


def _title(comparison: TableFindings, selected: Sequence[ColumnFindings]) -> list[str]:
    """Return the decision of the test, and changed pairs if no selected column has changed."""
    pairs = [] if any(column.reject for column in selected) else comparison.pairs
    changed = [format_pair(pair, comparison) for pair in pairs if pair.reject]
    return [format_answer(comparison), *changed][:MOST_LINES]


def _select_columns(
    comparison: TableFindings, columns: Sequence[str] | str | None
) -> list[ColumnFindings]:
    """Return the columns that are drawn, in order."""
    if columns is None:
        in_pairs = {name for pair in comparison.pairs if pair.reject for name in pair.columns}
        changed = [column for column in comparison.ordered if column.reject]
        associated = [column for column in comparison.ordered if column.name in in_pairs]
        return (changed or associated or comparison.ordered)[:MOST]
    columns = [columns] if isinstance(columns, str) else columns
    known = {column.name: column for column in comparison.columns}
    for name in columns:
        if name not in known:
            raise InputError(f"no column {name!r} was compared{nearest(name, list(known))}")
    if not columns:
        raise InputError("columns names none")
    return [known[name] for name in columns]


def _table_handles(comparison: TableFindings, names: tuple[str, str], color: str) -> list[Patch]:
    """Return the legend handles of the two tables."""
    first, second = (
        f"{name} ({size} rows)" for name, size in zip(names, comparison.sizes, strict=True)
    )
    return [
        Patch(facecolor=P_MORE, alpha=FILLED, label=first),
        Patch(fill=False, edgecolor=color, linewidth=1.4, label=second),
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
    proportions = [*missing, *column.effect.shares]
    bars = column.histogram is None or column.kind == "datetime"  # dates are not compared as such
    not_in_histogram = missing or proportions[: column.reject and not column.regions]
    for level in [] if bars else not_in_histogram:
        title += f"\n{level.level}: {level.before:.1%} → {level.after:.1%}"
    ax.set_title(title, fontsize=SMALL + 1, loc="left", color="black" if column.reject else STUCK)
    if bars:
        _bars(ax, proportions[:BARS], reject=column.reject)
        return []
    return _histogram(ax, column, names)


def _histogram(ax: Axes, column: ColumnFindings, names: tuple[str, str]) -> list[Patch]:
    assert column.histogram is not None
    edges, (first, second) = column.histogram
    color = Q_COLOR if column.reject else STUCK
    ax.stairs(first, edges, fill=True, color=P_MORE, alpha=FILLED)
    ax.stairs(second, edges, color=color, linewidth=1.4)
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


def _bars(ax: Axes, proportions: Sequence[LevelProportion], *, reject: bool) -> None:
    """Draw proportions in both tables, one bar on the other."""
    if not proportions:
        ax.set_axis_off()
        ax.text(0.0, 0.5, "as it was", transform=ax.transAxes, fontsize=SMALL, color=STUCK)
        return
    heights = -np.arange(len(proportions), dtype=float)
    before, after = np.array([(level.before, level.after) for level in proportions]).T
    color = Q_COLOR if reject else STUCK
    ax.barh(heights, before, color=P_MORE, alpha=FILLED, height=0.8)
    ax.barh(heights, after, facecolor="none", edgecolor=color, linewidth=1.4, height=0.8)
    labels = [
        textwrap.shorten(level.level, LEVEL, placeholder="…") or "(empty)" for level in proportions
    ]
    ax.set_yticks(heights, labels)
    ax.xaxis.set_major_locator(MaxNLocator(STEPS))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
