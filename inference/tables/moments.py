"""Sums over rows that have both of two columns, in both tables and for every labelling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .association import Sums
from .features import Features
from .labelling import Labelling


class Layout:
    """Features of columns side by side, and which rows have them.

    Attributes:
        columns: their features.
        ends: (K + 1,), where the features of each column are.
        holes: (F,), which of the holes says what rows have a feature, from 1; 0 if all have it.
        hole_ends: (K + 1,), where the holes of each column are.
    """

    def __init__(self, columns: list[Features]) -> None:
        self.columns = columns
        self.ends = np.cumsum([0, *(len(column.weights) for column in columns)])
        self.hole_ends = np.cumsum([0, *(len(column.holed) for column in columns)])
        self.holes = np.concatenate(
            [
                np.where(column.holes > 0, column.holes + start, 0)
                for column, start in zip(columns, self.hole_ends, strict=False)
            ]
        )

    @property
    def widths(self) -> np.ndarray:
        """How wide the products of every column are, (K,): by its features, squares and holes."""
        return np.diff(self.ends) + 2 * np.diff(self.hole_ends)

    def features(self, rows: np.ndarray, some: range | None = None) -> np.ndarray:
        """The features (r, F) of rows (r,) in some columns."""
        return np.concatenate([self.columns[at].at(rows) for at in self._of(some)], axis=1)

    def known(self, rows: np.ndarray, some: range | None = None) -> np.ndarray:
        """Whether rows (r,) have what the holes of some columns are in, (r, H)."""
        return np.concatenate([self.columns[at].known(rows) for at in self._of(some)], axis=1)

    def _of(self, some: range | None) -> range:
        return range(len(self.columns)) if some is None else some


class Whole(NamedTuple):
    """Sums over all rows, in both tables.

    Attributes:
        features: (2, F, 1 + B).
        squares: (2, F, 1 + B), of features.
        rows: (2, 1 + H, 1 + B), how many there are, and have what each hole is in.
    """

    features: np.ndarray
    squares: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, layout: Layout, labelling: Labelling) -> Whole:
        """Evaluate them for every labelling."""

        def all_of_them(rows: np.ndarray) -> np.ndarray:
            found = layout.features(rows)
            every = np.ones((len(rows), 1))
            return np.concatenate([found, found**2, every, layout.known(rows)], axis=1)

        sums, count = _in_both(labelling.totals(all_of_them), labelling), layout.ends[-1]
        return cls(sums[:, :count], sums[:, count : 2 * count], sums[:, 2 * count :])


class Pairwise:
    """Sums of products of some columns with all, for every labelling.

    Those over rows that have one column's values, or both columns', are products with indicators of
    what is there; where nothing is missing they are sums over all rows.

    Args:
        layout: of the columns.
        some: which of them are the first of a pair.
        whole: sums over all rows.
        labelling: of the rows.
    """

    def __init__(self, layout: Layout, some: range, whole: Whole, labelling: Labelling) -> None:
        def made(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            own, every = layout.features(rows, some), layout.features(rows)
            there, all_there = layout.known(rows, some), layout.known(rows)
            left = np.concatenate([own, own**2, there], axis=1)
            return [(own, every), (left, all_there), (there, np.hstack([every, every**2]))]

        ends, holes = ((of[some.start], of[some.stop]) for of in (layout.ends, layout.hole_ends))
        own, there = slice(*ends), slice(1 + holes[0], 1 + holes[1])
        found = (_in_both(totals, labelling) for totals in labelling.products(made))
        self.products, left, right = found
        count = own.stop - own.start
        one, squared, both = np.split(left, [count, 2 * count], axis=1)
        # Before those over rows that have something, those over all rows.
        self.one, self.one_squared = (
            np.concatenate([first[:, own, None], part], axis=2)
            for first, part in ((whole.features, one), (whole.squares, squared))
        )
        self.other, self.other_squared = (
            np.concatenate([first[:, None], part], axis=1)
            for first, part in zip(whole[:2], np.split(right, 2, axis=2), strict=True)
        )
        both = np.concatenate([whole.rows[:, there, None], both], axis=2)
        self.rows = np.concatenate([whole.rows[:, None], both], axis=1)
        self.layout, self.start, self.holes_start = layout, own.start, holes[0]

    def of(self, a: int, b: int, table: int) -> Sums:
        """The sums of two columns in a table, (f, g, 1 + B) each."""
        ends, holes = self.layout.ends, self.layout.holes
        own, other = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
        here = slice(own.start - self.start, own.stop - self.start)
        mine, theirs = holes[own], holes[other]
        mine = np.where(mine > 0, mine - self.holes_start, 0)
        return Sums(
            rows=self.rows[table][np.ix_(mine, theirs)],
            one=self.one[table, here][:, theirs],
            one_squared=self.one_squared[table, here][:, theirs],
            other=self.other[table][mine][:, other],
            other_squared=self.other_squared[table][mine][:, other],
            product=self.products[table, here, other],
        )


def _in_both(totals: np.ndarray, labelling: Labelling) -> np.ndarray:
    """Sums over both tables' rows, (2, ..., 1 + B), by those over units (M, ...)."""
    flat = totals.reshape(len(totals), -1)
    first = labelling.sums(flat)
    found = np.stack([first, flat.sum(axis=0)[:, None] - first])
    return found.reshape(2, *totals.shape[1:], first.shape[1])
