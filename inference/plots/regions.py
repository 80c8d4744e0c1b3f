"""Regions of difference in plots of two samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch
from scipy.ndimage import label

from ..comparison.regions import Region
from ..comparison.summary import format_ratios
from .style import P_COLOUR, P_MORE, Q_MORE, SMALL, figure_of

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
#: Color of the line around the ratio of a region, and of its bandwidth.
BOX = "0.6"


def shade(ax: Axes, signs: np.ndarray, at: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """Shade regions of one column, and return the handles of the legend.

    Args:
        ax: axes whose abscissa is the column.
        signs: (m,), 1 or -1 in regions where the first or second sample has the higher density, and
            0 elsewhere.
        at: (m,), points in ascending order.
        names: names of the samples.
    """
    for sign, colour in ((1, P_MORE), (-1, Q_MORE)):
        inside = signs == sign
        if inside.any():
            ax.fill_between(
                at, 0, 1, where=inside.tolist(), transform=ax.get_xaxis_transform(), color=colour,
                alpha=REGION_ALPHA, linewidth=0, zorder=0,
            )  # fmt: skip
    return legend_handles(signs, names)


def legend_handles(signs: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """Return the handles of a legend for the signs that occur."""
    return [
        Patch(color=colour, alpha=REGION_ALPHA, label=f"higher density in {name}")
        for sign, colour, name in zip((1, -1), (P_MORE, Q_MORE), names, strict=True)
        if (signs == sign).any()
    ]


def select_parts(
    regions: Sequence[Region], signs: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Set signs (k, m) over y and x to 0 in connected parts without the center of a region.

    Such a part is within a wide window, beyond a gap, and is not in the report.
    """
    kept = np.zeros_like(signs)
    for sign in (1, -1):
        parts, _ = label(signs == sign)
        centers = [region.center for region in regions if region.sign == sign]
        nodes = [(np.abs(y - at[1]).argmin(), np.abs(x - at[0]).argmin()) for at in centers]
        with_center = [part for part in (parts[node] for node in nodes) if part]
        kept[np.isin(parts, with_center)] = sign
    return kept


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
                for index, others in enumerate(occupied)
                if all(extent[1] < other[0] or other[1] < extent[0] for other in others)
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
        ax.contour(x, y, signs, levels=[-0.5, 0.5], colors=P_COLOUR, linewidths=1.0)
