"""Pictures of tests of draws: where a sampler leaves its density, and which chains agree."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..permutation.null_distribution import describe_p
from .style import P_MORE, SMALL, mode_colour, panels, plain
from .testing import TestOutcome

#: Columns that are drawn, and parts of equal numbers of draws whose mean is drawn in each.
MOST_COLUMNS, PARTS = 3, 20
#: Characters of a line of the title, for each panel, and of a name below it.
TITLE, LABEL = 44, 36


class SteinOutcome(TestOutcome, Protocol):
    """What is read of a :class:`~bke.inference.SteinResult`."""

    @property
    def hypotheses(self) -> tuple[str, str]:
        """What is said where the null is retained, and where it is rejected."""

    @property
    def reject(self) -> bool:
        """Whether it is rejected."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""

    @property
    def columns(self) -> tuple[Any, ...]:
        """How each of them does not fit; maybe none."""

    @property
    def least_fitting(self) -> tuple[int, ...]:
        """Their places, those that fit least first."""

    @property
    def points(self) -> np.ndarray:
        """Rows, (N, D)."""

    @property
    def witness(self) -> np.ndarray:
        """How many too many draws there are at each row, (N,)."""


def plot_stein(result: SteinOutcome, *, axes: Any = None) -> Figure:
    """Where draws are too many or too few for their density, by a Stein test.

    Of the columns that fit least (or the first ones, where the test does not reject) the witness of
    every draw, and its mean over parts of the draws: above zero there are too many of them, below
    too few; in grey, and without these words, where the test does not reject: chance may give that.

    Args:
        result: of :func:`~bke.inference.stein_test`.
        axes: one for each column that is drawn; by default a new figure.
    """
    order = _least_fitting(result)
    figure, places = panels(1, len(order), axes, width=1.0 + 3.4 * len(order), height=3.4)
    low, high = np.quantile(result.witness, [0.005, 0.995])
    for place, column in zip(places, order, strict=True):
        _along(place, result, column)
        margin = 0.1 * (high - low or 1.0)
        place.set_ylim(min(low, 0.0) - margin, max(high, 0.0) + margin)
        plain(place)
    verdict = result.hypotheses[int(result.reject)]
    title = textwrap.fill(f"Stein test, {result.pvalue_text}: {verdict}", TITLE * len(order))
    figure.suptitle(title, fontsize="medium")
    return figure


def _least_fitting(result: SteinOutcome) -> list[int]:
    count = min(len(result.names), MOST_COLUMNS)
    if not result.columns:
        return list(range(count))
    named = max(1, sum(one.differs for one in result.columns))
    return list(result.least_fitting[: min(named, count)])


def _along(place: Axes, result: SteinOutcome, column: int) -> None:
    values = result.points[:, column]
    order = np.argsort(values, kind="stable")
    place.plot(values, result.witness, ".", color="0.75", markersize=2.0, rasterized=True)
    parts = np.array_split(order, min(PARTS, max(1, len(order) // 10)))
    means = [(values[part].mean(), result.witness[part].mean()) for part in parts]
    colour = P_MORE if result.reject else "0.45"
    place.plot(*np.transpose(means), "o-", color=colour, markersize=3.0, label="mean of draws")
    place.axhline(0.0, color="0.3", linewidth=0.8)
    place.set_xlabel(result.names[column])
    place.set_ylabel("Stein witness")
    told = [one for one in result.columns if one.name == result.names[column]]
    title = f"adjusted {describe_p(told[0].pvalue, len(result.null_distribution))}" if told else ""
    place.set_title(title, loc="left", fontsize=SMALL)
    words = ("too many draws", "too few") if result.reject else ("within chance", "")
    for word, y, side in zip(words, (1.0, 0.0), ("top", "bottom"), strict=True):
        place.annotate(
            word, (1.0, y), xycoords="axes fraction", ha="right", va=side, fontsize=SMALL
        )


class ChainsOutcome(Protocol):
    """Attributes of a :class:`~bke.inference.ChainComparison` that are plotted."""

    @property
    def draws(self) -> np.ndarray:
        """The draws, (C, n, D)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""

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
    Chains of one cluster have one color. Both halves of a drifting chain are shown.

    Args:
        check: result of :func:`~bke.inference.compare_chains`.
        axes: one per parameter or pair; by default those of a new figure.
    """
    shown = _most_different(check)
    chains = len(check.draws)
    height = 1.8 + 0.22 * chains
    figure, places = panels(1, len(shown), axes, width=1.0 + 3.0 * len(shown), height=height)
    colours = {
        chain: mode_colour(cluster) for cluster, some in enumerate(check.clusters) for chain in some
    }
    for place, one in zip(places, shown, strict=True):
        for chain, values in enumerate(one.values):
            half = len(values) // 2
            drifts = check.labels[chain] in check.drifting
            parts = [(values[:half], -0.15), (values[half:], 0.15)] if drifts else [(values, 0.0)]
            for some, moved in parts:
                _interval(place, some, chain + moved, colours[check.labels[chain]])
        place.set_yticks(range(chains), [str(label) for label in check.labels])
        place.set_ylim(chains - 0.5, -0.5)
        place.set_xlabel(textwrap.fill(one.name, LABEL))
        place.set_title(f"adjusted {check.format_pvalue(one.pvalue)}", loc="left", fontsize=SMALL)
        plain(place)
    places[0].set_ylabel("chain: median,\ncentral 50 and 90 %")
    title = f"{check.format_pvalue(check.pvalue)}: {check.verdict}"
    found = sum(one.differs for one in (*check.columns, *check.pairs))
    if found > len(shown):
        title += f" ({len(shown)} of {found} that differ)"
    elif not found and len(check.names) > len(shown):
        title += f" ({len(shown)} of {len(check.names)} parameters, the likeliest to differ)"
    figure.suptitle(textwrap.fill(title, TITLE * len(shown)), fontsize="medium")
    return figure


class _Shown(NamedTuple):
    """What a panel is of: its name, its values (C, n), and how likely chance is."""

    name: str
    values: np.ndarray
    pvalue: float


def _most_different(check: ChainsOutcome) -> list[_Shown]:
    """Parameters and pairs in which chains differ, those first, else the likeliest to."""
    columns = [
        _Shown(name, check.draws[:, :, at], check.columns[at].pvalue)
        for at, name in enumerate(check.names)
    ]
    by_p = sorted(range(len(columns)), key=lambda at: columns[at].pvalue)
    found = [columns[at] for at in by_p if check.columns[at].differs]
    differing = {pair.name: pair.pvalue for pair in check.pairs if pair.differs}
    places = itertools.combinations(range(len(columns)), 2) if differing else ()
    pairs = [
        _Shown(
            f"{columns[a].name} times {columns[b].name}",
            _product(check.draws, a, b),
            differing[name],
        )
        for a, b in places
        if (name := f"{columns[a].name} and {columns[b].name}") in differing
    ]
    found += sorted(pairs, key=lambda one: one.pvalue)
    return (found or [columns[at] for at in by_p])[:MOST_COLUMNS]


def _product(draws: np.ndarray, first: int, second: int) -> np.ndarray:
    """Of two parameters, each less its mean and over its deviation, (C, n)."""
    both = draws[:, :, [first, second]]
    both = (both - both.mean(axis=(0, 1))) / both.std(axis=(0, 1))
    return np.asarray(both.prod(axis=2))


def _interval(place: Axes, values: np.ndarray, height: float, colour: str) -> None:
    low, lower, middle, upper, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    place.plot([low, high], [height, height], "-", color=colour, linewidth=1.0)
    place.plot([lower, upper], [height, height], "-", color=colour, linewidth=3.0)
    place.plot(middle, height, "o", color=colour, markersize=4.0)
