"""The witness at points of many columns: sorted by its mean, with an interval each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ..diagnostics.modes import format_values
from ..witness.bands import CredibleBand
from .style import SMALL, plain
from .views import Samples, View
from .witness_line import shared_limit

#: Points are named up to this many, by their place where that is no more numbers than this.
MOST_NAMED, MOST_COLUMNS = 40, 4


def draw_points(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """One panel per view, side by side; the ``bands`` of the modes set the width."""
    every = np.ones(len(at), dtype=bool)
    limit = shared_limit(bands, every)
    position = np.arange(len(at))
    for ax, view in zip(axes, views, strict=True):
        order = np.argsort(view.band.mean, kind="stable")
        ax.hlines(
            position, view.band.lower[order], view.band.upper[order], colors=view.colour,
            linewidths=0.8, alpha=0.6,
        )  # fmt: skip
        ax.plot(view.band.mean[order], position, ".", color=view.colour, markersize=4)
        ax.axvline(0.0, color="0.4", linewidth=0.8)
        ax.set_xlim(-limit, limit)
        ax.set_ylim(-0.7, len(at) - 0.3)
        title = f"{view.heading(chr(10))}:\npointwise {view.band.level:.0%} intervals"
        ax.set_title(title, fontsize=SMALL + 1)
        ax.set_xlabel(view.quantity)
        plain(ax)
        if len(at) <= MOST_NAMED:
            ax.set_yticks(position, [_name(row, at[row]) for row in order])
            ax.tick_params(axis="y", labelleft=True)
    short = len(columns) <= MOST_COLUMNS
    names = f"({', '.join(columns)})" if short else f"({columns[0]}, ..., {columns[-1]})"
    what = "points" if short or len(at) > MOST_NAMED else "points by their number, from 0"
    axes[0].set_ylabel(f"{what} {names}, sorted by mean")


def _name(row: int, place: np.ndarray) -> str:
    return format_values(place) if len(place) <= MOST_COLUMNS else str(row)
