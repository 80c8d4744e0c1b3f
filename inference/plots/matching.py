"""Differences of a source and a target before and after weighting."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import P_MORE, SMALL, panels, plain

#: Moments that are drawn.
MOST = 30


class Matched(Protocol):
    """What is read of :class:`~bke.inference.MatchedWeights`."""

    @property
    def moments(self) -> tuple[Any, ...]:
        """Differences before and after."""

    @property
    def effective_size(self) -> float:
        """How many rows the weights are worth."""


def plot_matching(found: Matched, *, ax: Axes | None = None) -> Figure:
    """Every column's difference in means and variances, before and after: a Love plot.

    Args:
        found: of :func:`~bke.inference.match_weights`.
        ax: where to draw; by default a new figure.
    """
    shown = sorted(found.moments, key=lambda one: abs(one.before))[-MOST:]
    figure, (place,) = panels(1, 1, ax, width=6.0, height=1.6 + 0.25 * len(shown))
    heights = np.arange(len(shown))
    before, after = ([getattr(one, when) for one in shown] for when in ("before", "after"))
    place.axvline(0.0, color="0.3", linewidth=0.8)
    place.hlines(heights, before, after, color="0.85")
    place.plot(before, heights, "o", color="0.6", label="before", markersize=5.0)
    place.plot(after, heights, "o", color=P_MORE, label="with weights", markersize=5.0)
    place.set_ylim(-0.6, len(shown) - 0.4)
    place.set_yticks(heights, [one.name for one in shown])
    place.set_xlabel("source less target, standard deviations of the target")
    place.legend(
        fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2
    )
    place.set_title(f"worth {found.effective_size:.4g} rows", loc="left", fontsize=SMALL)
    plain(place)
    return figure
