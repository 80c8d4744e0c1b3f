"""What a comparison names, drawn: nothing else in a picture of two samples is shaded."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, Patch
from scipy.ndimage import label

from ..comparison.regions import Region
from .style import P_COLOUR, P_MORE, Q_MORE, SMALL

#: Of the background where one sample is named to have more.
NAMED_ALPHA = 0.22
#: Regions whose ratio is written.
MOST_MARKED = 8
#: Letters in a line of a label.
LABEL = 60
#: Line around the ratio of a region.
BOX = "0.6"


def shade(ax: Axes, signs: np.ndarray, at: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """Shade the background of a line where a difference is named, and return what a legend needs.

    Args:
        ax: axes whose abscissa is the column.
        signs: (m,), 1 or -1 in the regions of difference, by the sample with more; 0 elsewhere.
        at: (m,), in ascending order.
        names: of the samples.
    """
    for sign, colour in ((1, P_MORE), (-1, Q_MORE)):
        there = signs == sign
        if there.any():
            ax.fill_between(
                at, 0, 1, where=there.tolist(), transform=ax.get_xaxis_transform(), color=colour,
                alpha=NAMED_ALPHA, linewidth=0, zorder=0,
            )  # fmt: skip
    return keys(signs, names)


def keys(signs: np.ndarray, names: tuple[str, str]) -> list[Patch]:
    """What a legend says of the colours of ``signs`` that there are, by the samples' ``names``."""
    return [
        Patch(color=colour, alpha=NAMED_ALPHA, label=f"named: {name} has more")
        for sign, colour, name in zip((1, -1), (P_MORE, Q_MORE), names, strict=True)
        if (signs == sign).any()
    ]


def around(
    regions: Sequence[Region], signs: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Leave out of a map's ``signs`` (k, m), over y and x, parts without the center of a region.

    Such a part is what a wide window also covers, beyond a gap: nothing is said of it in words.
    """
    kept = np.zeros_like(signs)
    for sign in (1, -1):
        parts, _ = label(signs == sign)
        mine = [region.center for region in regions if region.sign == sign]
        nodes = [(np.abs(y - at[1]).argmin(), np.abs(x - at[0]).argmin()) for at in mine]
        held = [part for part in (parts[node] for node in nodes) if part]
        kept[np.isin(parts, held)] = sign
    return kept


def mark(ax: Axes, regions: Sequence[Region], names: tuple[str, str]) -> list[Patch]:
    """Write the ratios of regions at their centers, draw their bandwidths, and return a legend.

    Args:
        ax: axes of one column, whose ratios are written at zero, or of two.
        regions: the most significant ones are marked.
        names: of the samples.
    """
    for region in regions[:MOST_MARKED]:
        x, y = (*region.center, 0.0)[:2]
        width, height = (2.0 * float(one) for one in (*region.bandwidth, 0.0)[:2])
        if len(region.center) == 1:
            ax.hlines(y, x - 0.5 * width, x + 0.5 * width, color=BOX, linewidth=3.0, zorder=2.5)
        else:
            window = Ellipse(
                (float(x), float(y)), width, height, edgecolor=BOX, linewidth=0.8, fill=False
            )
            ax.add_patch(window)
        ax.annotate(
            f"{region.ratio:.2f}", (float(x), float(y)), fontsize=SMALL, ha="center", va="center",
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": BOX},
        )  # fmt: skip
    told = textwrap.fill(f"weight of {names[0]} over that of {names[1]}, and its scale", LABEL)
    return [Patch(facecolor="white", edgecolor=BOX, label=told)] if regions else []


def outline(ax: Axes, signs: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Draw a line around the parts of a map where a difference is named.

    Args:
        ax: axes of the map.
        signs: (k, m), as in :func:`shade`, over y and x.
        x: (m,).
        y: (k,).
    """
    if signs.any():
        ax.contour(x, y, signs, levels=[-0.5, 0.5], colors=P_COLOUR, linewidths=1.0)
