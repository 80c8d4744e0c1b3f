"""Plot of predictions of a distribution regression against the targets of groups."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from .style import STUCK, panels, plain

#: Most groups whose intervals are drawn; more of them overlap.
MOST = 400
#: Half-width of a 90 % interval in standard deviations.
HALF = 1.645


class RegressionPredictions(Protocol):
    """Attributes of a :class:`~bke.inference.RegressionSummary` that are plotted."""

    @property
    def y(self) -> np.ndarray:
        """Targets, (G,)."""

    @property
    def predicted(self) -> np.ndarray:
        """Predictions by groups of other folds, (G,)."""

    @property
    def predicted_std(self) -> np.ndarray:
        """Predicted standard deviations of the errors, (G,)."""

    @property
    def counts(self) -> np.ndarray:
        """Number of rows of each group, (G,)."""

    @property
    def r2(self) -> float:
        """R^2 of the predictions."""

    @property
    def coverage(self) -> float:
        """Proportion of groups whose interval contains their target."""


def plot_regression(summary: RegressionPredictions, *, ax: Axes | None = None) -> Figure:
    """Plot y of every group against its prediction by other folds, with 90 % intervals.

    Args:
        summary: ``summary_`` of a fitted :class:`~bke.inference.DistributionRegressor`.
        ax: where to draw; by default a new figure.
    """
    figure, (panel,) = panels(1, 1, ax, width=6.4, height=4.6)
    ends = [
        min(summary.y.min(), summary.predicted.min()),
        max(summary.y.max(), summary.predicted.max()),
    ]
    panel.plot(ends, ends, color=STUCK, linewidth=1.0)
    if len(summary.y) <= MOST:
        panel.errorbar(
            summary.predicted,
            summary.y,
            xerr=HALF * summary.predicted_std,
            fmt="none",
            ecolor="0.85",
            linewidth=0.8,
            zorder=0,
        )
    low, high = int(summary.counts.min()), int(summary.counts.max())
    points = panel.scatter(
        summary.predicted,
        summary.y,
        c=summary.counts,
        s=14.0,
        cmap="viridis_r",
        norm=LogNorm(low, max(high, low + 1)),
    )
    bar = figure.colorbar(points, ax=panel, label="rows of the group")
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("predicted by groups of other folds, 90 % interval")
    panel.set_ylabel("y")
    panel.set_title(
        f"R^2 {summary.r2:.2f}, {summary.coverage:.0%} of intervals contain y",
        loc="left",
        fontsize="medium",
    )
    plain(panel)
    return figure
