"""The null distribution of a test with the observed value."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import SMALL, panels, plain

#: Characters of a line of the legend's first entry and of the title.
LABEL, TITLE = 34, 70


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
    place.set_xlabel(result.statistic_label)
    place.set_ylabel("draws" if len(null) else "density")
    # Above: the observed value may be anywhere within.
    place.legend(
        fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3
    )
    plain(place)
    title = textwrap.fill(result.test, TITLE)
    place.set_title(title, loc="left", pad=24.0 + SMALL * further, fontsize="medium")
    return figure
