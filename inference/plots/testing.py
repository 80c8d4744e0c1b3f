"""Plots of tests: null distributions, predictive checks, and moments before and after weighting."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import P_COLOUR, P_MORE, Q_COLOUR, SMALL, panels, plain, rug

#: Characters of a line of the legend's first entry and of the title.
LABEL, TITLE = 34, 70
#: Moments that are drawn.
MOST = 30


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
    def method(self) -> str:
        """Source of the null distribution."""

    @property
    def limit(self) -> Any:
        """Null distribution in closed form, if there are no draws."""

    @property
    def critical(self) -> tuple[float, ...]:
        """Critical values of the statistic."""


def plot_test(result: TestOutcome, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Null draws as a histogram, critical values dashed and the observed one as a line.

    Args:
        result: of any test; without draws only the observed value is drawn.
        axes: where to draw, one; by default a new figure.
    """
    figure, (place,) = panels(1, 1, axes, width=6.0, height=3.4)
    null, label = (
        result.null_distribution,
        textwrap.fill(f"null distribution: {result.method}", LABEL),
    )
    if len(null):
        place.hist(null, bins="auto", color="0.8", label=label)
    elif result.limit is not None:
        low, high = result.limit.ppf([1e-4, 1.0 - 1e-4])
        at = np.linspace(min(low, result.statistic), max(high, result.statistic), 400)
        place.fill_between(at, result.limit.pdf(at), color="0.8", label=label)
    for index, critical in enumerate(result.critical):
        named = None if index else f"critical at level {result.alpha:g}"
        place.axvline(critical, color="0.3", linestyle="--", label=named)
    further = label.count("\n")
    apart = "\n" if further else " "
    label = f"observed,{apart}{result.pvalue_text}"
    place.axvline(result.statistic, color="C3", label=label)
    place.set_xlabel(textwrap.fill(result.statistic_label, TITLE))
    place.set_ylabel("draws" if len(null) else "density")
    # Above: the observed value may be anywhere within.
    place.legend(
        fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3
    )
    plain(place)
    title = textwrap.fill(result.test, TITLE)
    place.set_title(title, loc="left", pad=24.0 + SMALL * further, fontsize="medium")
    return figure


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
