"""The evidence that columns go together differently.

How strongly a feature of one column goes with one of another, in each table by its own ranks and
shares (module ``association``), is held against the other table's: a pair is said to go together
differently only where that has changed, not where its columns have. Values that are missing are
left out of it, pair by pair; that they are is a feature of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .association import Measure, measure, natural, strength
from .features import Features
from .labelling import Labelling
from .moments import Layout, Pairwise, Whole

#: Numbers that sums of products over units are kept in.
MOST_PRODUCTS = 50_000_000


class Link(NamedTuple):
    """How two columns go together, by the features for which that has changed most.

    Attributes:
        columns: their indices.
        features: what the features are, in words.
        measure: of how strongly they go together.
        strengths: in the first table and in the second. A difference is that of the second of
            ``features`` with the level that is the first of them, and without it.
    """

    columns: tuple[int, int]
    features: tuple[str, str]
    measure: Measure
    strengths: tuple[float, float]


class Dependence(NamedTuple):
    """How pairs of columns go together.

    Attributes:
        links: of every pair (p,), in the tables as they are.
        statistics: (p, 1 + B), the largest change of a pair's features.
    """

    links: list[Link]
    statistics: np.ndarray


def dependence(columns: list[Features | None], labelling: Labelling) -> Dependence:
    """Hold how features of every two columns go together in one table against the other."""
    used = [(index, column) for index, column in enumerate(columns) if column is not None]
    links: list[Link] = []
    statistics: list[np.ndarray] = []
    if len(used) > 1:
        layout = Layout([column for _, column in used])
        whole = Whole.of(layout, labelling)
        for some in _some(layout.widths, len(labelling.labels)):
            sums = Pairwise(layout, some, whole, labelling)
            for a in some:
                for b in range(a + 1, len(used)):
                    link, statistic = _held(sums, used, a, b)
                    links.append(link)
                    statistics.append(statistic)
    return Dependence(links, np.array(statistics).reshape(-1, labelling.labels.shape[1]))


def _some(widths: np.ndarray, units: int) -> list[range]:
    """Ranges of columns whose products with all features fit into memory, over all units."""
    ends, columns = np.cumsum([0, *widths]), len(widths)
    most = max(1, int(MOST_PRODUCTS // (units * max(ends[-1], 1))))
    found, start = [], 0
    while start < columns - 1:
        stop = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        stop = min(max(stop, start + 1), columns - 1)
        found.append(range(start, stop))
        start = stop
    return found


def _held(
    sums: Pairwise, used: list[tuple[int, Features]], a: int, b: int
) -> tuple[Link, np.ndarray]:
    """How columns ``a`` and ``b`` go together, and their largest change, (1 + B,)."""
    (first, own), (second, other) = used[a], used[b]
    before, after = (strength(sums.of(a, b, table), (own.ends, other.ends)) for table in (0, 1))
    # Where a feature is constant in a table nothing goes with it, and no change of that is seen.
    changes = np.where(
        before.defined & after.defined & _told(own, other)[..., None],
        np.abs(before.value - after.value) / np.sqrt(before.variance + after.variance),
        0.0,
    )
    f, g = np.unravel_index(np.argmax(changes[..., 0]), changes.shape[:2])
    which = measure((own.ends[f], other.ends[g]))
    was, now = (natural(float(one.value[f, g, 0]), which) for one in (before, after))
    names, indices = (own.names[f], other.names[g]), (first, second)
    if which == "difference" and np.isnan(own.ends[f, 0]):
        names = (names[1], names[0])
    return Link(indices, names, which, (was, now)), changes.max(axis=(0, 1))


def _told(own: Features, other: Features) -> np.ndarray:
    """Which features (f, g) are held against each other.

    Not a level and a square: how far out values are with a level moves with its share alone.
    """
    levels = [~np.isnan(of.ends[:, 0]) for of in (own, other)]
    crossed = np.outer(levels[0], other.squares) | np.outer(own.squares, levels[1])
    return np.asarray(~crossed)
