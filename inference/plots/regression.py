"""What a distribution regression predicts of each group, beside what was to be predicted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from .style import STUCK, panels, plain

#: Groups whose intervals are drawn; of more they hide each other.
MOST = 400
#: Deviations of a 90 % interval.
HALF = 1.645


class Predicted(Protocol):
    """What is read of a :class:`~bke.inference.RegressionSummary`."""

    @property
    def y(self) -> np.ndarray:
        """What was to be predicted, (G,)."""

    @property
    def predicted(self) -> np.ndarray:
        """By groups of other folds, (G,)."""

    @property
    def predicted_std(self) -> np.ndarray:
        """The deviation of the error as it is expected, (G,)."""

    @property
    def counts(self) -> np.ndarray:
        """Rows of each group, (G,)."""

    @property
    def r2(self) -> float:
        """R^2."""

    @property
    def coverage(self) -> float:
        """How many groups their interval holds."""


def plot_regression(found: Predicted, *, ax: Axes | None = None) -> Figure:
    """Draw every group's y against what groups of other folds predict, with 90 % intervals.

    Args:
        found: the ``summary_`` of a fitted :class:`~bke.inference.DistributionRegressor`.
        ax: where to draw; by default a new figure.
    """
    figure, (place,) = panels(1, 1, ax, width=6.4, height=4.6)
    ends = [min(found.y.min(), found.predicted.min()), max(found.y.max(), found.predicted.max())]
    place.plot(ends, ends, color=STUCK, linewidth=1.0)
    if len(found.y) <= MOST:
        place.errorbar(
            found.predicted,
            found.y,
            xerr=HALF * found.predicted_std,
            fmt="none",
            ecolor="0.85",
            linewidth=0.8,
            zorder=0,
        )
    low, high = int(found.counts.min()), int(found.counts.max())
    points = place.scatter(
        found.predicted,
        found.y,
        c=found.counts,
        s=14.0,
        cmap="viridis_r",
        norm=LogNorm(low, max(high, low + 1)),
    )
    bar = figure.colorbar(points, ax=place, label="rows of the group")
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    place.set_xlabel("predicted by groups of other folds, 90 % interval")
    place.set_ylabel("y")
    place.set_title(
        f"R^2 {found.r2:.2f}, {found.coverage:.0%} of intervals contain y",
        loc="left",
        fontsize="medium",
    )
    plain(place)
    return figure
