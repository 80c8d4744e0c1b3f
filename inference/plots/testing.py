"""Plots of tests: null distributions, predictive checks, additive noise models, and moments.

The moments are those before and after weighting.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import P_COLOR, P_MORE, Q_COLOR, SMALL, TRUTH, panels, plain, rug

#: Characters of a line of the legend's first entry and of the title.
LABEL, TITLE = 34, 70
#: Moments that are drawn.
MOST = 30
#: Regression of a rejected model.
REJECTED = "#D55E00"


class TestOutcome(Protocol):
    """Attributes of a :class:`~bke.inference.TestResult`."""

    @property
    def test(self) -> str:
        """Name of the test."""

    @property
    def statistic(self) -> float:
        """Observed value."""

    @property
    def statistic_label(self) -> str:
        """Name of the statistic."""

    @property
    def pvalue_text(self) -> str:
        """Formatted p-value."""

    @property
    def alpha(self) -> float:
        """Level of the test."""

    @property
    def null_distribution(self) -> np.ndarray:
        """Draws under the null hypothesis, (B,); may be empty."""

    @property
    def reject(self) -> bool:
        """True if the null hypothesis is rejected."""

    @property
    def method(self) -> str:
        """Source of the null distribution."""

    @property
    def limit(self) -> Any:
        """Null distribution in closed form, if there are no draws."""

    @property
    def critical(self) -> tuple[float, ...]:
        """Critical values of the statistic."""


def plot_test(result: TestOutcome, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Plot null draws as a histogram, critical values dashed and the observed value as a line.

    Args:
        result: result of any test; without draws only the observed value is drawn.
        axes: axes of the plot; by default those of a new figure.
    """
    figure, (ax,) = panels(1, 1, axes, width=6.0, height=3.4)
    null, label = (
        result.null_distribution,
        textwrap.fill(f"null distribution: {result.method}", LABEL),
    )
    if len(null):
        ax.hist(null, bins="auto", color="0.8", label=label)
    elif result.limit is not None:
        low, high = result.limit.ppf([1e-4, 1.0 - 1e-4])
        at = np.linspace(min(low, result.statistic), max(high, result.statistic), 400)
        ax.fill_between(at, result.limit.pdf(at), color="0.8", label=label)
    for index, critical in enumerate(result.critical):
        critical_label = None if index else f"critical at level {result.alpha:g}"
        ax.axvline(critical, color="0.3", linestyle="--", label=critical_label)
    extra_lines = label.count("\n")
    separator = "\n" if extra_lines else " "
    label = f"observed,{separator}{result.pvalue_text}"
    ax.axvline(result.statistic, color="C3", label=label)
    ax.set_xlabel(textwrap.fill(result.statistic_label, TITLE))
    ax.set_ylabel("draws" if len(null) else "density")
    # Above the plot: the observed value may be anywhere within.
    ax.legend(fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    plain(ax)
    title = textwrap.fill(result.test, TITLE)
    ax.set_title(title, loc="left", pad=24.0 + SMALL * extra_lines, fontsize="medium")
    return figure


class Matched(Protocol):
    """Attributes of :class:`~bke.inference.MatchedWeights` that are plotted."""

    @property
    def moments(self) -> tuple[Any, ...]:
        """Differences in moments before and after weighting."""

    @property
    def effective_size(self) -> float:
        """Effective sample size of the weights."""


def plot_matching(weights: Matched, *, ax: Axes | None = None) -> Figure:
    """Plot differences in means and variances before and after weighting: a Love plot.

    Args:
        weights: result of :func:`~bke.inference.match_weights`.
        ax: where to draw; by default a new figure.
    """
    moments = sorted(weights.moments, key=lambda moment: abs(moment.before))[-MOST:]
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=1.6 + 0.25 * len(moments))
    heights = np.arange(len(moments))
    before, after = np.array([(moment.before, moment.after) for moment in moments]).T
    panel.axvline(0.0, color="0.3", linewidth=0.8)
    panel.hlines(heights, before, after, color="0.85")
    panel.plot(before, heights, "o", color="0.6", label="before", markersize=5.0)
    panel.plot(after, heights, "o", color=P_MORE, label="with weights", markersize=5.0)
    panel.set_ylim(-0.6, len(moments) - 0.4)
    panel.set_yticks(heights, [moment.name for moment in moments])
    panel.set_xlabel(
        "source minus target: means in standard deviations of the target,\n"
        "variances as (ratio to the target's variance - 1) / √2"
    )
    panel.legend(
        fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2
    )
    panel.set_title(
        f"effective sample size {weights.effective_size:.4g}", loc="left", fontsize=SMALL
    )
    plain(panel)
    return figure


class Check(Protocol):
    """Attributes of a :class:`~bke.inference.PredictiveCheck` that are plotted."""

    @property
    def result(self) -> TestOutcome:
        """The test."""

    @property
    def variable(self) -> str:
        """Name of the variable that was checked."""

    @property
    def points(self) -> np.ndarray:
        """The observations, (n, D)."""

    @property
    def score(self) -> np.ndarray:
        """The witness over its standard error, (n,)."""

    @property
    def reach(self) -> float:
        """Simultaneous bound of the absolute scores under the model."""

    @property
    def predicted(self) -> np.ndarray:
        """Predictions, (R, D)."""


def plot_predictive_check(check: Check, *, axes: Sequence[Axes] | None = None) -> Figure:
    """Plot the null distribution, and the score of every observation with unusual ones marked.

    With one column the scores are drawn over it, else in order of size.

    Args:
        check: result of :func:`~bke.inference.posterior_predictive_check`.
        axes: two axes; by default those of a new figure.
    """
    figure, (null_ax, ax) = panels(1, 2, axes, width=10.0, height=3.6)
    plot_test(check.result, axes=null_ax)
    order = np.argsort(check.points[:, 0] if check.points.shape[1] == 1 else check.score)
    at = check.points[order, 0] if check.points.shape[1] == 1 else np.arange(len(order))
    score = check.score[order]
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    usual = f"{1.0 - check.result.alpha:.0%} of replicated data sets lie within"
    ax.axhspan(-check.reach, check.reach, color="0.93", label=usual)
    ax.plot(at, score, ".", color=P_COLOR, markersize=3)
    out = np.abs(score) > check.reach
    ax.plot(at[out], score[out], ".", color="C3", markersize=6, label=f"beyond {check.reach:.1f}")
    if check.points.shape[1] == 1:
        low, high = ax.get_xlim()
        predicted = check.predicted[:, 0]
        rug(ax, predicted[(predicted > low) & (predicted < high)], Q_COLOR, top=True)
        ax.set_xlabel(f"{check.variable} (ticks above: predicted)")
    else:
        ax.set_xlabel("observations, sorted by score")
    ax.set_ylabel("data - predictions,\nstandard errors")
    # Above the plot: within it the legend would look like one more point.
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    plain(ax)
    return figure


class NoiseModel(Protocol):
    """Attributes of an additive noise model of :func:`~bke.inference.causal_direction`."""

    @property
    def cause(self) -> str:
        """Name of the cause."""

    @property
    def effect(self) -> str:
        """Name of the effect."""

    @property
    def values(self) -> np.ndarray:
        """Values of the cause, (m,)."""

    @property
    def predicted(self) -> np.ndarray:
        """Predictions of the effect, (m,)."""

    @property
    def observed(self) -> np.ndarray:
        """Values of the effect, (m,)."""

    @property
    def residuals(self) -> np.ndarray:
        """Observed less predicted values, (m,)."""

    @property
    def test(self) -> TestOutcome:
        """Test of independence of the cause and the residuals."""


class Direction(Protocol):
    """Attributes of a :class:`~bke.inference.CausalDirection` that are plotted."""

    @property
    def forward(self) -> NoiseModel:
        """Model with x as the cause."""

    @property
    def backward(self) -> NoiseModel:
        """Model with y as the cause."""


def plot_direction(direction: Direction, *, axes: Sequence[Axes] | None = None) -> Figure:
    """Plot the rows with the predictions of both models, and the residuals below.

    Args:
        direction: result of :func:`~bke.inference.causal_direction`.
        axes: four axes, row by row; by default those of a new figure.
    """
    figure, grid = panels(2, 2, axes, width=8.0, height=5.6)
    for model, top, below in zip(
        (direction.forward, direction.backward), grid[:2], grid[2:], strict=True
    ):
        color = REJECTED if model.test.reject else TRUTH
        top.plot(model.values, model.observed, ".", color=P_COLOR, markersize=3)
        # Points, because the regression of each fold is another curve.
        top.plot(model.values, model.predicted, ".", color=color, markersize=3)
        outcome = "rejected" if model.test.reject else "not rejected"
        title = f"{model.cause} -> {model.effect}: {outcome}, {model.test.pvalue_text}"
        top.set_title(title, loc="left", fontsize="medium")
        top.set_ylabel(model.effect)
        below.axhline(0.0, color=color)
        below.plot(model.values, model.residuals, ".", color=P_COLOR, markersize=3)
        below.set(xlabel=model.cause, ylabel=f"residuals of {model.effect}")
        plain(top)
        plain(below)
    return figure
