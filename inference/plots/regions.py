"""Regions of difference in plots of two samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, Patch
from scipy.ndimage import label

from ..comparison.regions import Region
from ..comparison.summary import format_ratios
from .style import P_COLOUR, P_MORE, Q_MORE, SMALL

#: Opacity of regions.
REGION_ALPHA = 0.22
#: Largest number of regions whose ratio is written.
MAX_MARKED = 8
#: Largest ratio that is written.
MAX_RATIO = 1000
#: Characters in a line of a label.
LABEL = 60
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


def mark(ax: Axes, regions: Sequence[Region]) -> list[Patch]:
    """Write density ratios, larger over smaller, at the centers of regions, and draw bandwidths.

    Args:
        ax: axes of one column, whose ratios are written at zero, or of two.
        regions: the most significant ones are marked.

    Returns:
        Handles of the legend.
    """
    for region in regions[:MAX_MARKED]:
        x, y = (*region.center, 0.0)[:2]
        width, height = (2.0 * float(bandwidth) for bandwidth in (*region.bandwidth, 0.0)[:2])
        ratio = region.ratio if region.sign > 0 else 1.0 / max(region.ratio, 1e-300)
        if len(region.center) == 1:
            ax.hlines(y, x - 0.5 * width, x + 0.5 * width, color=BOX, linewidth=3.0, zorder=2.5)
        else:
            window = Ellipse(
                (float(x), float(y)), width, height, edgecolor=BOX, linewidth=0.8, fill=False
            )
            ax.add_patch(window)
        text = format_ratios(ratio)[0] if ratio < MAX_RATIO else f"> {MAX_RATIO}"
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": BOX}
        at = float(x), float(y)
        ax.annotate(text, at, fontsize=SMALL, ha="center", va="center", bbox=box)
    label = "density ratio, larger over smaller, and bandwidth"
    return [Patch(facecolor="white", edgecolor=BOX, label=label)] if regions else []


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
