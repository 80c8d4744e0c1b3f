"""The evidence that columns go together differently.

How strongly a feature of one column goes with one of another, in each table by its own ranks and
shares (module ``association``), is held against the other table's: a pair is said to go together
differently only where that has changed, not where its columns have. Squares of scores are held
against each other in the test of the tables alone, as they move where values become tied or skew.
Values that are missing are left out of it, pair by pair; that they are is a feature of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .association import NEARLY_NONE, Measure, measure, natural, strength
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
            ``features`` with the level that is the first of them, and with the level that is the
            most frequent otherwise; NaN where one of both is constant.
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
        whole, origin = Whole.of(layout, labelling), _origin(used[0][1].rows, labelling)
        for some in _some(layout.widths, len(labelling.labels)):
            sums = Pairwise(layout, some, whole, labelling)
            for a in some:
                for b in range(a + 1, len(used)):
                    link, statistic = _held(sums, used, a, b, origin)
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


def _origin(rows: int, labelling: Labelling) -> np.ndarray:
    """The share of the first table's own rows in both tables, (2, 1 + B)."""
    own = labelling.totals(lambda row: np.stack([row < rows, row >= 0], axis=1).astype(float))
    first = labelling.sums(own)
    both = np.stack([first, own.sum(axis=0)[:, None] - first])
    return np.asarray(both[:, 0] / np.maximum(both[:, 1], NEARLY_NONE))


def _held(
    sums: Pairwise, used: list[tuple[int, Features]], a: int, b: int, origin: np.ndarray
) -> tuple[Link, np.ndarray]:
    """How columns ``a`` and ``b`` go together, and their largest change, (1 + B,)."""
    (first, own), (second, other) = used[a], used[b]
    before, after = (
        strength(
            sums.of(a, b, table),
            own.side,
            other.side,
            (_ties(own, origin[table]), _ties(other, origin[table])),
        )
        for table in (0, 1)
    )
    # Where a feature is constant in a table nothing goes with it, and no change of that is seen.
    changes = np.where(
        before.defined & after.defined & _told(own, other)[..., None],
        np.abs(before.value - after.value) / np.sqrt(before.variance + after.variance),
        0.0,
    )
    changes = _by_both(changes, own, other.side.levels)
    changes = np.swapaxes(_by_both(np.swapaxes(changes, 0, 1), other, own.side.levels), 0, 1)
    f, g = np.unravel_index(np.argmax(changes[..., 0]), changes.shape[:2])
    levels = bool(own.side.levels[f]), bool(other.side.levels[g])
    which = measure(levels)
    was, now = (
        natural(float(one.value[f, g, 0]), which) if one.defined[f, g, 0] else float("nan")
        for one in (before, after)
    )
    names, indices = (own.names[f], other.names[g]), (first, second)
    if levels == (False, True):
        names = (names[1], names[0])
    return Link(indices, names, which, (was, now)), changes.max(axis=(0, 1))


def _ties(column: Features, origin: np.ndarray) -> np.ndarray:
    """What ties make of scores (f, 1 + B) of rows of which a share is of the first table."""
    each = 1.0 / column.ties**2
    return np.asarray(1.0 / np.sqrt(np.outer(each[0], origin) + np.outer(each[1], 1.0 - origin)))


def _by_both(changes: np.ndarray, own: Features, levels: np.ndarray) -> np.ndarray:
    """Changes (f, g, ...) by scores only as far as the numbers themselves have changed so too.

    Ranks in a table of which a level holds fewer rows are others, and numbers on another scale are
    others; that a number and a level (g,) go together differently shows in both.
    """
    changes = changes.copy()
    for index in np.flatnonzero(own.beside >= 0):
        scores = changes[own.beside[index]]
        scores[levels] = np.minimum(scores, changes[index])[levels]
        changes[index] = 0.0
    return changes


def _told(own: Features, other: Features) -> np.ndarray:
    """Which features (f, g) are held against each other.

    Not a level and a square: how far out values are with a level moves with its share alone. And
    numbers as they are, beside their scores, with levels alone.
    """
    levels = [of.side.levels for of in (own, other)]
    crossed = np.outer(levels[0], other.squares) | np.outer(own.squares, levels[1])
    plain = np.outer(own.beside >= 0, ~levels[1]) | np.outer(~levels[0], other.beside >= 0)
    return np.asarray(~crossed & ~plain)
