"""A posterior predictive check: the test, and where data and predictions differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import P_COLOUR, Q_COLOUR, SMALL, panels, plain, rug
from .testing import TestOutcome, plot_test


class Check(Protocol):
    """What is read of a :class:`~bke.inference.PredictiveCheck`."""

    @property
    def result(self) -> TestOutcome:
        """The test."""

    @property
    def variable(self) -> str:
        """Name of what was checked."""

    @property
    def points(self) -> np.ndarray:
        """The observations, (n, D)."""

    @property
    def score(self) -> np.ndarray:
        """The witness over its standard error, (n,)."""

    @property
    def reach(self) -> float:
        """What the size of a score stays below."""

    @property
    def predicted(self) -> np.ndarray:
        """Predictions, (R, D)."""


def plot_predictive_check(check: Check, *, axes: Sequence[Axes] | None = None) -> Figure:
    """The null with the observed value; the score of every observation, unusual ones marked.

    With one column the scores are drawn over it, else in order of size.

    Args:
        check: of :func:`~bke.inference.posterior_predictive_check`.
        axes: two of them; by default a new figure.
    """
    figure, places = panels(1, 2, axes, width=10.0, height=3.6)
    plot_test(check.result, axes=places[0])
    ax = places[1]
    order = np.argsort(check.points[:, 0] if check.points.shape[1] == 1 else check.score)
    at = check.points[order, 0] if check.points.shape[1] == 1 else np.arange(len(order))
    score = check.score[order]
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    usual = f"{1.0 - check.result.alpha:.0%} of the model's data sets stay within"
    ax.axhspan(-check.reach, check.reach, color="0.93", label=usual)
    ax.plot(at, score, ".", color=P_COLOUR, markersize=3)
    far = np.abs(score) > check.reach
    ax.plot(at[far], score[far], ".", color="C3", markersize=6, label=f"beyond {check.reach:.1f}")
    if check.points.shape[1] == 1:
        low, high = ax.get_xlim()
        predicted = check.predicted[:, 0]
        rug(ax, predicted[(predicted > low) & (predicted < high)], Q_COLOUR, top=True)
        ax.set_xlabel(f"{check.variable} (ticks above: predicted)")
    else:
        ax.set_xlabel("observations, sorted by score")
    ax.set_ylabel("data - predictions,\nstandard errors")
    # Above, as in the other panel: within it would look like one more point.
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    plain(ax)
    return figure
