"""Which rows are of the first table, by every relabelling, and sums over them.

What a statistic needs of very many rows is a sum over each unit that is dealt out as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.sparse

#: Cells of a table of units beyond which it is no longer sparse.
SPARSE = 500_000
#: Rows of which sums are made at a time: their features stay in the processor's cache.
BLOCK = 2**10


@dataclasses.dataclass(frozen=True)
class Labelling:
    """Which rows are of the first table: as they are, and in every relabelling.

    A unit is made of entries, each of which is a row, so many times.

    Attributes:
        labels: (M, 1 + B) of int8, whether each unit is of the first table.
        unit: (E,), the unit of every entry.
        row: (E,), the row that it is: a row that counts twice has two entries.
        times: (E,), how much it counts; ``None`` where every entry is one row.
        marks: (N,), by which rows have an order of their own.
    """

    labels: np.ndarray
    unit: np.ndarray
    row: np.ndarray
    times: np.ndarray | None
    marks: np.ndarray

    @property
    def rows(self) -> int:
        """How many rows both tables have."""
        return len(self.marks)

    @property
    def sizes(self) -> np.ndarray:
        """How many rows the first table has, (1 + B,)."""
        each = np.bincount(self.unit, weights=self.times, minlength=len(self.labels))
        return np.asarray(each @ self.labels)

    @property
    def weights(self) -> np.ndarray:
        """How many rows each row counts for, (N,)."""
        return np.bincount(self.row, weights=self.times, minlength=self.rows)

    def each(self, codes: np.ndarray, size: int) -> scipy.sparse.csr_array:
        """Count the rows of each code in every unit, (size, M).

        Args:
            codes: (N,), below ``size``; negative of rows that are not counted.
            size: how many codes there are.
        """
        of_entry = codes[self.row]
        there = np.flatnonzero(of_entry >= 0)
        times = np.ones(len(there)) if self.times is None else self.times[there]
        places = (of_entry[there], self.unit[there])
        return scipy.sparse.coo_array((times, places), (size, len(self.labels))).tocsr()

    def labelled(self, each: scipy.sparse.csr_array) -> np.ndarray:
        """Count those of the first table, (size, 1 + B), by how many there are in every unit."""
        if self.times is not None:
            return np.asarray(each @ self.labels.astype(float))
        if each.nnz <= SPARSE:
            return np.asarray(each.astype(np.int64) @ self.labels)
        found = each.toarray() @ self.labels.astype(float)
        return np.asarray(np.rint(found).astype(np.int64))

    def totals(self, made: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Sums over units (M, F) of features (r, F) that are made for rows (r,)."""
        order = np.argsort(self.unit, kind="stable")
        found: np.ndarray | None = None
        for start in range(0, len(order), BLOCK):
            entries = order[start : start + BLOCK]
            units, features = self.unit[entries], made(self.row[entries])
            if self.times is not None:
                features = features * self.times[entries, None]
            firsts = np.flatnonzero(np.diff(units, prepend=-1))
            if found is None:
                found = np.zeros((len(self.labels), features.shape[1]))
            found[units[firsts]] += np.add.reduceat(features, firsts, axis=0)
        assert found is not None
        return found

    def products(
        self, made: Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]
    ) -> list[np.ndarray]:
        """Sums over units of products of features with others, (M, s, F) each.

        Args:
            made: features (r, s) and (r, F) of rows (r,), any number of both.
        """
        order = np.argsort(self.unit, kind="stable")
        sizes = np.bincount(self.unit, minlength=len(self.labels))
        starts = np.cumsum(sizes) - sizes
        found: list[np.ndarray] = []
        for units in _alike(sizes):
            place = np.arange(sizes[units].max())
            there = place < sizes[units, None]
            entries = order[np.where(there, starts[units, None] + place, 0)]
            times = there if self.times is None else there * self.times[entries]
            for index, pair in enumerate(made(self.row[entries.ravel()])):
                left, right = (part.reshape(*entries.shape, -1) for part in pair)
                if len(found) == index:
                    found.append(np.zeros((len(sizes), left.shape[2], right.shape[2])))
                found[index][units] = (left * times[..., None]).transpose(0, 2, 1) @ right
        return found

    def sums(self, totals: np.ndarray) -> np.ndarray:
        """Sums (F, 1 + B) over the first table's rows, by sums over units (M, F)."""
        return np.asarray(totals.T @ self.labels.astype(float))


def _alike(sizes: np.ndarray) -> list[np.ndarray]:
    """Units in groups of a block of rows, the largest of each at most twice the smallest."""
    order = np.argsort(sizes, kind="stable")
    ordered, found, start = sizes[order], [], int(np.count_nonzero(sizes == 0))
    while start < len(order):
        last = np.searchsorted(ordered, 2 * ordered[start], side="right")
        stop = min(int(last), start + max(1, BLOCK // int(ordered[start])))
        found.append(order[start:stop])
        start = stop
    return found
