"""Plot of a comparison of two samples: the samples, regions of difference and the witness."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch
from scipy.ndimage import label

from ..comparison.comparison import Comparison
from ..comparison.regions import Region
from ..comparison.summary import format_ratios
from ..core.errors import InputError
from ..data.checks import pluralize
from ..data.units import rounding_unit
from .density import bin_edges, scatter
from .style import (
    BAND_ALPHA,
    DIVERGING,
    OVERALL,
    P_COLOR,
    P_MORE,
    Q_MORE,
    SMALL,
    STUCK,
    figure_of,
    log_scale,
    panels,
    plain,
    rug,
    short_names,
)

#: Points of a line, and of a side of a map.
LINE_POINTS, MESH_SIDE = 300, 60
#: Largest number of rows in a scatter plot.
MAX_ROWS = 4000
#: Characters per inch of small text, with a reserve.
LETTERS = 13
#: Width of a figure in inches from which legends have two columns and maps are side by side.
WIDE = 6.0
#: Opacity of regions.
REGION_ALPHA = 0.22
#: Largest number of regions whose ratio is written.
MAX_MARKED = 8
#: Largest ratio that is written.
MAX_RATIO = 1000
#: Characters in a line of a label.
LABEL = 60
#: Half the width in inches of a written ratio, and the height of its row relative to the axis.
MARK_INCHES, ROW_HEIGHT = 0.25, 0.2
#: Legend of ratios and bandwidths.
KEY = "bandwidth and density ratio, larger over smaller"
#: Color of the mean difference of pairs.
PAIRS = "C3"
#: Color of the line around the ratio of a region, and of its bandwidth.
BOX = "0.6"


def plot_comparison(
    comparison: Comparison,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    figsize: tuple[float, float] | None = None,
    title: str | None = None,
    xlabel: str | None = None,
    units: str | Sequence[str] | None = None,
    legend: bool = True,
) -> Figure:
    """Plot both samples with the regions of difference, and the witness with its bands.

    One column: histograms with regions, and the posterior of the witness; for pairs also a
    histogram of their differences. Two columns: the rows with regions, and a map of the witness.
    More: each region with the columns that it uses and its density ratio. Axes end where the rows
    do, because a witness beyond them is extrapolated. The number in a region is the density ratio,
    larger over smaller, at its bandwidth.

    Args:
        comparison: result of :func:`~bke.inference.compare`.
        ax: axes of the first panel alone, or of all panels: two of one or two columns, three of
            pairs of one column, one of more columns. By default a new figure.
        figsize: width and height in inches of a new figure.
        title: by default the decision of the test; ``""`` for none.
        xlabel: label of the horizontal axis, to which ``units`` are added; by default the name of
            the first column.
        units: unit of the columns, or one for each, in the labels of axes.
        legend: draw a legend; without it say in a caption which color is which sample.

    Raises:
        InputError: for a wrong number of axes or of units, or ``figsize`` together with ``ax``.
    """
    if figsize is not None and ax is not None:
        raise InputError("figsize is for a new figure: pass it without ax")
    columns = comparison.columns if xlabel is None else (xlabel, *comparison.columns[1:])
    labels = _axis_labels(columns, units)
    shortened = dataclasses.replace(comparison, names=short_names(comparison.names))
    dimension, paired = len(comparison.columns), comparison.pooled.permutation_type == "samples"
    draw = {1: _line, 2: _plane}.get(dimension, _list)
    count = {1: 3 if paired else 2, 2: 2}.get(dimension, 1)
    height = {1: 6.8 if paired else 5.0, 2: 5.0}.get(
        dimension, 1.6 + 0.32 * max(len(comparison.regions), 2)
    )
    width, height = figsize or (10.0 if dimension == 2 else 7.5, height)
    if isinstance(ax, Axes):
        figure, axes = figure_of(ax), [ax]
    else:
        side_by_side = dimension == 2 and width >= WIDE
        shape = (1, count) if side_by_side else (count, 1)
        figure, axes = panels(*shape, ax, width=width, height=height)
    handles = draw(shortened, axes, labels)
    text = str(comparison).splitlines()[0] if title is None else title
    if ax is None:
        if text:
            figure.suptitle(
                textwrap.fill(text, int(LETTERS * width)), fontsize=SMALL + 1, x=0.01, ha="left"
            )
        if legend:
            figure.legend(
                handles=handles, fontsize=SMALL, frameon=False, loc="outside lower left",
                ncols=2 if width >= WIDE else 1,
            )  # fmt: skip
    else:
        axes[0].set_title(text, fontsize=SMALL + 1, loc="left", wrap=True)
        if legend:
            lowest = min(axes, key=lambda ax: (ax.get_position().y0, ax.get_position().x0))
            lowest.legend(  # below the label of the axis
                handles=handles, fontsize=SMALL, frameon=False, ncols=2, loc="upper left",
                bbox_to_anchor=(0.0, 0.0), borderaxespad=5.0,
            )  # fmt: skip
    return figure


def _axis_labels(columns: Sequence[str], units: str | Sequence[str] | None) -> list[str]:
    """Return the names of columns with their units."""
    if units is None:
        return list(columns)
    units = [units] * len(columns) if isinstance(units, str) else list(units)
    if len(units) != len(columns):
        raise InputError(
            f"units must be one or {pluralize(len(columns), 'unit')}, got {len(units)}"
        )
    return [f"{name} ({unit})" if unit else name for name, unit in zip(columns, units, strict=True)]


def _line(comparison: Comparison, axes: Sequence[Axes], labels: Sequence[str]) -> list[Artist]:
    """Draw histograms, the witness, and the differences of pairs; return the legend's handles."""
    points = comparison.pooled.points[:, 0] * comparison.pooled.scale[0]
    edges = bin_edges(points, int(comparison.pooled.n_rows))
    at, nearest = np.linspace(edges[0], edges[-1], LINE_POINTS), None
    if len(edges) > 1 and (unit := rounding_unit(points)) and np.isclose(edges[1] - edges[0], unit):
        # A bin of a single value has the sign of that value.
        nearest = points.min() + unit * np.round((at - points.min()) / unit)
    signs = comparison.region_sign(at if nearest is None else np.clip(nearest, *_range(points)))
    handles = _histograms(comparison, axes[0], edges)
    handles += shade(axes[0], signs, at, comparison.names)
    axes[0].set_xlim(at[0], at[-1])
    handles += mark_line(axes[0], comparison.regions)
    if len(axes) > 1:
        axes[1].sharex(axes[0])
        axes[0].tick_params(labelbottom=False)
        handles += _witness(comparison, axes[1], at)
    if len(axes) > 2:
        handles += _pair_differences(comparison, axes[2], labels[0])
    for ax in axes:
        plain(ax)
    axes[min(len(axes), 2) - 1].set_xlabel(labels[0])
    return handles


def _range(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _histograms(comparison: Comparison, ax: Axes, edges: np.ndarray) -> list[Artist]:
    points = comparison.pooled.points[:, 0] * comparison.pooled.scale[0]
    handles: list[Artist] = []
    samples = zip(
        comparison.names, comparison.sizes, comparison.pooled.weights.T, (P_MORE, Q_MORE),
        ("-", "--"), ("below", "above"), strict=True,
    )  # fmt: skip
    for name, size, weights, color, dashes, ticks in samples:
        heights = np.histogram(points, edges, weights=weights, density=True)[0]
        handles.append(
            ax.stairs(
                heights, edges, color=color, linestyle=dashes, linewidth=1.4,
                label=f"{name} ({size} rows; ticks {ticks})",
            )
        )  # fmt: skip
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("density")
    return handles


def _witness(comparison: Comparison, ax: Axes, at: np.ndarray) -> list[Artist]:
    bands = comparison.witness(at)
    kind = "" if bands.posterior else " of sampling errors"
    simultaneous = ax.fill_between(
        at, bands.wide_lower, bands.wide_upper, facecolor=to_rgba(OVERALL, 0.4 * BAND_ALPHA),
        edgecolor=OVERALL, linewidth=0.8, linestyle=":",
        label=f"simultaneous band{kind}, {bands.wide_level:.0%}",
    )  # fmt: skip
    pointwise = ax.fill_between(
        at, bands.lower, bands.upper, color=OVERALL, alpha=BAND_ALPHA, linewidth=0,
        label=f"pointwise band{kind}, {bands.level:.0%}",
    )  # fmt: skip
    (mean,) = ax.plot(
        at, bands.mean, color=OVERALL, linewidth=1.5,
        label=f"witness, lengthscale {comparison.lengthscale[0]:.2g}",
    )  # fmt: skip
    ax.axhline(0.0, color="0.4", linewidth=0.8)
    of_p, of_q = comparison.pooled.weights.T > 0.0
    points = comparison.pooled.points[:, 0] * comparison.pooled.scale[0]
    rug(ax, points[of_p], P_MORE)
    rug(ax, points[of_q], Q_MORE, top=True)
    P, Q = comparison.names
    ax.set_ylabel(f"witness\n{P} - {Q}")
    return [mean, simultaneous, pointwise]


def _pair_differences(comparison: Comparison, ax: Axes, label: str) -> list[Artist]:
    """Draw a histogram of the differences of pairs, and their mean with its interval."""
    first, second = (sample[:, 0] for sample in comparison.samples)
    differences = second - first
    edges = bin_edges(differences, len(differences))
    heights = np.histogram(differences, edges, density=True)[0]
    ax.stairs(heights, edges, fill=True, color=STUCK, alpha=0.5)
    (mean,), ((low,), (high,)) = comparison.mean_difference, comparison.mean_difference_interval
    interval = ax.axvspan(
        low, high, color=PAIRS, alpha=BAND_ALPHA, linewidth=0,
        label=f"mean difference of pairs, {1.0 - comparison.alpha:.0%} interval",
    )  # fmt: skip
    ax.axvline(mean, color=PAIRS, linewidth=1.5)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("density")
    ax.set_xlabel(f"{comparison.names[1]} - {comparison.names[0]}: {label}")
    return [interval]


def _plane(comparison: Comparison, axes: Sequence[Axes], labels: Sequence[str]) -> list[Artist]:
    """Draw the rows with regions, and a map of the witness; return the legend's handles."""
    points, regions = comparison.pooled.points * comparison.pooled.scale, comparison.regions
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = (np.linspace(a, b, MESH_SIDE) for a, b in zip(low, high, strict=True))
    at = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    signs = comparison.region_sign(at).reshape(MESH_SIDE, MESH_SIDE)
    signs = parts_with_centers(regions, signs, x, y)
    shades = ListedColormap([Q_MORE, "white", P_MORE])
    rows = axes[0]
    rows.pcolormesh(x, y, signs, cmap=shades, vmin=-1, vmax=1, alpha=REGION_ALPHA, zorder=0)
    scatter(rows, *_rows_to_draw(comparison, points), comparison.names, (P_MORE, Q_MORE))
    handles: list[Artist] = list(rows.get_legend_handles_labels()[0])
    for markers in handles:  # not cut at the outermost rows, where the axes end
        markers.set_clip_on(False)
    handles += legend_handles(signs, comparison.names)
    outline(rows, signs, x, y)
    handles += mark_map(axes[-1], regions)
    if len(axes) > 1:
        _witness_map(comparison, axes[1], x, y, at)
    for ax in axes:
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(y[0], y[-1])
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        plain(ax)
    return handles


def _witness_map(
    comparison: Comparison, ax: Axes, x: np.ndarray, y: np.ndarray, at: np.ndarray
) -> None:
    bands = comparison.witness(at)
    mean = bands.mean.reshape(len(y), len(x))
    # Up to the width of the band, so that a witness within its errors is pale.
    reach = 0.5 * float((bands.wide_upper - bands.wide_lower).max())
    norm = CenteredNorm(0.0, max(float(np.abs(mean).max()), reach) or 1.0)
    image = ax.pcolormesh(x, y, mean, norm=norm, cmap=DIVERGING, shading="nearest")
    figure = figure_of(ax)
    bar = figure.colorbar(image, ax=ax)
    kind = "posterior mean" if bands.posterior else "of the samples"
    label = f"witness ({kind}), positive for a higher density in {comparison.names[0]}"
    height = figure.get_size_inches()[1] * ax.get_position().height
    bar.set_label(textwrap.fill(label, max(int(0.8 * LETTERS * height), 20)), size=SMALL)
    bar.ax.tick_params(labelsize=SMALL)


def _rows_to_draw(comparison: Comparison, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of both samples, (m, D) and (n, D); if there are many, every few rows."""
    pooled = comparison.pooled
    step = max(1, -(-int(pooled.n_rows) // MAX_ROWS))
    if pooled.permutation_type == "signs":
        P, Q = (points[weights > 0.0] for weights in pooled.weights.T)
        return P[::step], Q[::step]
    first = pooled.first_counts
    P = np.repeat(points, first, axis=0)[::step]
    return P, np.repeat(points, pooled.counts - first, axis=0)[::step]


def _list(comparison: Comparison, axes: Sequence[Axes], labels: Sequence[str]) -> list[Artist]:
    """Draw the ratio of each region with its interval; return the handles of the legend."""
    regions, (ax,) = comparison.regions[: 3 * MAX_MARKED], axes
    ax.axvline(1.0, color="0.4", linewidth=0.8)
    finite = [end for region in regions for end in (*region.ratio_interval, region.ratio)]
    finite = [end for end in finite if 0.0 < end < np.inf]
    low, high = (min(finite, default=0.5) / 1.3, max(finite, default=2.0) * 1.3)
    for row, region in enumerate(regions):
        color = P_MORE if region.sign > 0 else Q_MORE
        ends = np.clip(region.ratio_interval, low, high)
        ax.hlines(row, *ends, color=color, linewidth=2.0)
        ax.plot(np.clip(region.ratio, low, high), row, "o", color=color, markersize=5)
    names = [
        ", ".join(f"{labels[c]} = {region.center[c]:.3g}" for c in region.columns[:3])
        + (", ..." if len(region.columns) > 3 else "")
        for region in regions
    ]
    letters = int(0.4 * LETTERS * figure_of(ax).get_size_inches()[0])
    ax.set_yticks(range(len(regions)), [textwrap.fill(name, letters) for name in names])
    ax.set_ylim(max(len(regions), 1) - 0.5, -0.5)
    log_scale(ax, "x", np.array([low, high]), wider_than=1.0)
    ax.set_xlim(low, high)
    P, Q = comparison.names
    ax.set_xlabel(f"density ratio, {P} over {Q}", fontsize=SMALL + 1)
    if not regions:
        ax.text(
            0.5, 0.5, "no regions of difference", transform=ax.transAxes, ha="center", color=STUCK
        )
    plain(ax)
    return [
        Patch(color=color, label=f"higher density in {name}, with simultaneous interval")
        for color, name in zip((P_MORE, Q_MORE), comparison.names, strict=True)
    ]


def shade(ax: Axes, signs: np.ndarray, at: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """Shade regions of one column, and return the handles of the legend.

    Args:
        ax: axes whose abscissa is the column.
        signs: (m,), 1 or -1 in regions where the first or second sample has the higher density, and
            0 elsewhere.
        at: (m,), points in ascending order.
        names: names of the samples.
    """
    for sign, color in ((1, P_MORE), (-1, Q_MORE)):
        inside = signs == sign
        if inside.any():
            ax.fill_between(
                at, 0, 1, where=inside.tolist(), transform=ax.get_xaxis_transform(), color=color,
                alpha=REGION_ALPHA, linewidth=0, zorder=0,
            )  # fmt: skip
    return legend_handles(signs, names)


def legend_handles(signs: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """Return the handles of a legend for the signs that occur."""
    return [
        Patch(color=color, alpha=REGION_ALPHA, label=f"higher density in {name}")
        for sign, color, name in zip((1, -1), (P_MORE, Q_MORE), names, strict=True)
        if (signs == sign).any()
    ]


def parts_with_centers(
    regions: Sequence[Region], signs: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Set signs (k, m) over y and x to 0 in connected parts without the center of a region.

    Such a part is within a wide window, beyond a gap, and is not in the report.
    """
    selected = np.zeros_like(signs)
    for sign in (1, -1):
        parts, _ = label(signs == sign)
        centers = [region.center for region in regions if region.sign == sign]
        nodes = [(np.abs(y - at[1]).argmin(), np.abs(x - at[0]).argmin()) for at in centers]
        with_center = [part for part in (parts[node] for node in nodes) if part]
        selected[np.isin(parts, with_center)] = sign
    return selected


def mark_line(ax: Axes, regions: Sequence[Region]) -> list[Artist]:
    """Draw the bandwidth of each region of one column above the curves, with its ratio on top.

    Args:
        ax: axes of the column, whose lower limit is zero.
        regions: the most significant ones are marked.

    Returns:
        Handles of the legend.
    """
    top, (low, high) = ax.get_ylim()[1], ax.get_xlim()
    margin = MARK_INCHES / figure_of(ax).get_size_inches()[0] * (high - low)
    occupied: list[list[tuple[float, float]]] = []
    for region in regions[:MAX_MARKED]:
        center, bandwidth = float(region.center[0]), float(region.bandwidth[0])
        start, stop = max(center - bandwidth, low), min(center + bandwidth, high)
        at = min(max(center, low + margin), high - margin)
        extent = min(start, at - margin), max(stop, at + margin)
        row = next(
            (
                index
                for index, extents in enumerate(occupied)
                if all(extent[1] < other[0] or other[1] < extent[0] for other in extents)
            ),
            len(occupied),
        )
        occupied += [[]] if row == len(occupied) else []
        occupied[row].append(extent)
        y = top * (1.0 + ROW_HEIGHT * (row + 0.2))
        ax.hlines(y, start, stop, color=BOX, linewidth=3.0)
        ax.annotate(
            _format_ratio(region), (at, y), (0.0, 2.0), textcoords="offset points",
            fontsize=SMALL, ha="center",
        )  # fmt: skip
    ax.set_ylim(top=top * (1.0 + ROW_HEIGHT * len(occupied)))
    return [Line2D([], [], color=BOX, linewidth=3.0, label=KEY)] if regions else []


def mark_map(ax: Axes, regions: Sequence[Region]) -> list[Artist]:
    """Write the ratio of each region of two columns at its center, within its bandwidth.

    Args:
        ax: axes of the columns.
        regions: the most significant ones are marked.

    Returns:
        Handles of the legend.
    """
    for region in regions[:MAX_MARKED]:
        (x, y), (width, height) = map(float, region.center), 2.0 * region.bandwidth
        window = Ellipse((x, y), width, height, edgecolor=BOX, linewidth=0.8, fill=False, zorder=3)
        ax.add_patch(window)
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": BOX}
        text = _format_ratio(region)
        ax.annotate(text, (x, y), fontsize=SMALL, ha="center", va="center", bbox=box)
    circle = Line2D([], [], linestyle="", marker="o", fillstyle="none", color=BOX, label=KEY)
    return [circle] if regions else []


def _format_ratio(region: Region) -> str:
    """Format the larger density over the smaller one."""
    ratio = region.ratio if region.sign > 0 else 1.0 / max(region.ratio, 1e-300)
    return format_ratios(ratio)[0] if ratio < MAX_RATIO else f"> {MAX_RATIO}"


def outline(ax: Axes, signs: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Draw a line around the regions of a map.

    Args:
        ax: axes of the map.
        signs: (k, m), as in :func:`shade`, over y and x.
        x: (m,).
        y: (k,).
    """
    if signs.any():
        ax.contour(x, y, signs, levels=[-0.5, 0.5], colors=P_COLOR, linewidths=1.0)
