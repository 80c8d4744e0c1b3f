"""Plots of tests of draws: deviations from the target density, and differences between chains."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..permutation.null_distribution import describe_p
from .style import P_MORE, SMALL, mode_color, panels, plain
from .testing import TestOutcome

#: Most columns that are drawn, and most parts of equal numbers of draws whose means are drawn.
MOST_COLUMNS, PARTS = 3, 20
#: Characters of a line of the title, for each panel, and of a label below it.
TITLE, LABEL = 44, 36


class SteinOutcome(TestOutcome, Protocol):
    """Attributes of a :class:`~bke.inference.SteinResult` that are plotted."""

    @property
    def hypotheses(self) -> tuple[str, str]:
        """The conclusion if the null hypothesis is retained, and if it is rejected."""

    @property
    def reject(self) -> bool:
        """True if the null hypothesis is rejected."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """The deviation of each column from the density; may be empty."""

    @property
    def least_fitting(self) -> tuple[int, ...]:
        """Indices of the columns, in order of increasing fit."""

    @property
    def points(self) -> np.ndarray:
        """Rows, (N, D)."""

    @property
    def witness(self) -> np.ndarray:
        """Witness of the test at each row, (N,); positive for too many draws."""


def plot_stein(result: SteinOutcome, *, axes: Any = None) -> Figure:
    """Plot where draws are too many or too few for their density, by a Stein test.

    Panels show the columns that fit least, or the first ones if the test does not reject: the
    witness of every draw, and its mean over parts of the draws. It is positive where there are too
    many draws and negative where there are too few. If the test does not reject, the mean is gray
    and has no such label, because chance may explain it.

    Args:
        result: result of :func:`~bke.inference.stein_test`.
        axes: axes for each column that is drawn; by default those of a new figure.
    """
    order = _least_fitting(result)
    figure, panel_axes = panels(1, len(order), axes, width=1.0 + 3.4 * len(order), height=3.4)
    low, high = np.quantile(result.witness, [0.005, 0.995])
    for ax, column in zip(panel_axes, order, strict=True):
        _stein_panel(ax, result, column)
        margin = 0.1 * (high - low or 1.0)
        ax.set_ylim(min(low, 0.0) - margin, max(high, 0.0) + margin)
        plain(ax)
    verdict = result.hypotheses[int(result.reject)]
    title = textwrap.fill(f"Stein test, {result.pvalue_text}: {verdict}", TITLE * len(order))
    figure.suptitle(title, fontsize="medium")
    return figure


def _least_fitting(result: SteinOutcome) -> list[int]:
    count = min(len(result.names), MOST_COLUMNS)
    if not result.columns:
        return list(range(count))
    differing = max(1, sum(fit.differs for fit in result.columns))
    return list(result.least_fitting[: min(differing, count)])


def _stein_panel(ax: Axes, result: SteinOutcome, column: int) -> None:
    values = result.points[:, column]
    order = np.argsort(values, kind="stable")
    ax.plot(values, result.witness, ".", color="0.75", markersize=2.0, rasterized=True)
    parts = np.array_split(order, min(PARTS, max(1, len(order) // 10)))
    means = [(values[part].mean(), result.witness[part].mean()) for part in parts]
    color = P_MORE if result.reject else "0.45"
    ax.plot(*np.transpose(means), "o-", color=color, markersize=3.0, label="mean of draws")
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.set_xlabel(result.names[column])
    ax.set_ylabel("Stein witness")
    name, n_resamples = result.names[column], len(result.null_distribution)
    pvalues = [fit.pvalue for fit in result.columns if fit.name == name]
    title = f"adjusted {describe_p(pvalues[0], n_resamples)}" if pvalues else ""
    ax.set_title(title, loc="left", fontsize=SMALL)
    notes = ("too many draws", "too few") if result.reject else ("within chance", "")
    for note, y, side in zip(notes, (1.0, 0.0), ("top", "bottom"), strict=True):
        ax.annotate(note, (1.0, y), xycoords="axes fraction", ha="right", va=side, fontsize=SMALL)


class ChainsOutcome(Protocol):
    """Attributes of a :class:`~bke.inference.ChainComparison` that are plotted."""

    @property
    def draws(self) -> np.ndarray:
        """The draws, (C, n, D)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """Differences between chains in each parameter."""

    def format_pvalue(self, pvalue: float) -> str:
        """Format one of the p-values."""

    @property
    def pairs(self) -> tuple[Any, ...]:
        """Differences between chains in correlations of two parameters."""

    @property
    def verdict(self) -> str:
        """The result of the test in a few words."""

    @property
    def clusters(self) -> tuple[tuple[Any, ...], ...]:
        """Labels of chains without significant differences."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """Labels of the chains."""

    @property
    def drifting(self) -> tuple[Any, ...]:
        """Labels of chains whose halves differ."""

    @property
    def agree(self) -> bool:
        """True if no difference is significant."""

    @property
    def pvalue(self) -> float:
        """The p-value of all chains."""


def plot_chains(check: ChainsOutcome, *, axes: Any = None) -> Figure:
    """Plot the median and the central 50 and 90 % of each chain for what differs most.

    Panels show parameters, and standardized products of two parameters whose correlation differs.
    Chains of one cluster have one color. A drifting chain has two intervals, one for each half.

    Args:
        check: result of :func:`~bke.inference.compare_chains`.
        axes: one per parameter or pair; by default those of a new figure.
    """
    selected = _most_different(check)
    chains = len(check.draws)
    height = 1.8 + 0.22 * chains
    figure, panel_axes = panels(
        1, len(selected), axes, width=1.0 + 3.0 * len(selected), height=height
    )
    colors = {
        chain: mode_color(index)
        for index, cluster in enumerate(check.clusters)
        for chain in cluster
    }
    for ax, quantity in zip(panel_axes, selected, strict=True):
        for chain, values in enumerate(quantity.values):
            half = len(values) // 2
            drifts = check.labels[chain] in check.drifting
            parts = [(values[:half], -0.15), (values[half:], 0.15)] if drifts else [(values, 0.0)]
            for part, offset in parts:
                _interval(ax, part, chain + offset, colors[check.labels[chain]])
        ax.set_yticks(range(chains), [str(label) for label in check.labels])
        ax.set_ylim(chains - 0.5, -0.5)
        ax.set_xlabel(textwrap.fill(quantity.name, LABEL))
        ax.set_title(f"adjusted {check.format_pvalue(quantity.pvalue)}", loc="left", fontsize=SMALL)
        plain(ax)
    halves = "\nof both halves" if check.drifting else ""
    panel_axes[0].set_ylabel(f"chain: median,\ncentral 50 and 90 %{halves}")
    title = f"{check.format_pvalue(check.pvalue)}: {check.verdict}"
    differing = sum(difference.differs for difference in (*check.columns, *check.pairs))
    if differing > len(selected):
        title += f" ({len(selected)} of {differing} that differ)"
    elif not differing and len(check.names) > len(selected):
        title += f" ({len(selected)} of {len(check.names)} parameters, the likeliest to differ)"
    figure.suptitle(textwrap.fill(title, TITLE * len(selected)), fontsize="medium")
    return figure


class _Quantity(NamedTuple):
    """The quantity of a panel: its name, its values (C, n) and its p-value."""

    name: str
    values: np.ndarray
    pvalue: float


def _most_different(check: ChainsOutcome) -> list[_Quantity]:
    """Return parameters, then pairs, in which chains differ; else those with least p-values."""
    columns = [
        _Quantity(name, check.draws[:, :, at], check.columns[at].pvalue)
        for at, name in enumerate(check.names)
    ]
    by_p = sorted(range(len(columns)), key=lambda at: columns[at].pvalue)
    selected = [columns[at] for at in by_p if check.columns[at].differs]
    pvalues = {pair.name: pair.pvalue for pair in check.pairs if pair.differs}
    combinations = itertools.combinations(range(len(columns)), 2) if pvalues else ()
    pairs = [
        _Quantity(
            f"{columns[a].name} times {columns[b].name}",
            _product(check.draws, a, b),
            pvalues[name],
        )
        for a, b in combinations
        if (name := f"{columns[a].name} and {columns[b].name}") in pvalues
    ]
    selected += sorted(pairs, key=lambda pair: pair.pvalue)
    return (selected or [columns[at] for at in by_p])[:MOST_COLUMNS]


def _product(draws: np.ndarray, first: int, second: int) -> np.ndarray:
    """Return the products of two standardized parameters, (C, n)."""
    both = draws[:, :, [first, second]]
    both = (both - both.mean(axis=(0, 1))) / both.std(axis=(0, 1))
    return np.asarray(both.prod(axis=2))


def _interval(ax: Axes, values: np.ndarray, height: float, color: str) -> None:
    low, lower, middle, upper, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    ax.plot([low, high], [height, height], "-", color=color, linewidth=1.0)
    ax.plot([lower, upper], [height, height], "-", color=color, linewidth=3.0)
    ax.plot(middle, height, "o", color=color, markersize=4.0)
