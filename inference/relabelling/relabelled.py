"""Pooled rows with their labels dealt out anew: what every statistic of a comparison is made from.

Equal rows are one point with a count, and of very many rows in one or two columns those of a cell
are (:mod:`.pooling`): a statistic needs only how many of each are in the first sample. Very many
rows in more columns are dealt out in bins (:mod:`.bins`): then labels are of bins.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Self, TypeAlias

import numpy as np
import scipy.sparse

from ..data.canonical import canonical_order

#: Which points are worked on at once.
Block: TypeAlias = slice | np.ndarray
#: Points that are worked on at once, those in bins, and labellings.
BLOCK, BINNED, LABELS = 2**13, 2**11, 64


@dataclasses.dataclass(frozen=True)
class Relabelled:
    """Points that stand for pooled rows, and how many rows of each are in the first sample.

    Attributes:
        points: (C, D), the scaled columns, in canonical order.
        counts: (C,), rows at each.
        labels: (C, 1 + B), those of the first sample: as they are, then for every relabelling. Of
            bins, (M, 1 + B), whether their rows are.
        unit: (D,), what the columns were divided by.
        partners: (m, 2), the points of rows that belong together, of which relabellings swap the
            labels; ``None`` where rows are independent.
        bins: (C,), the bin that each point, a row, is dealt out with; ``None`` where each is alone.
    """

    points: np.ndarray
    counts: np.ndarray
    labels: np.ndarray
    unit: np.ndarray
    partners: np.ndarray | None = None
    bins: np.ndarray | None = None

    @property
    def first(self) -> np.ndarray:
        """How many rows at each point (C,) are in the first sample."""
        return np.asarray(self.of_points(slice(1))[:, 0])

    def of_points(self, labellings: slice) -> np.ndarray:
        """How many rows at each point are in the first sample, by some labellings (C, k)."""
        labels = self.labels[:, labellings]
        return np.asarray(labels if self.bins is None else labels[self.bins])

    @property
    def rows(self) -> float:
        """How many rows both samples have, or what they are worth."""
        return self.counts.sum()

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows each sample has."""
        first = int(self.first.sum())
        return first, int(self.rows) - first

    @property
    def worth(self) -> np.ndarray:
        """How many rows of one weight each sample is worth (Kish 1965), (2,)."""
        return np.array(self.sizes, dtype=float)

    @property
    def share(self) -> float:
        """The share of the first sample in all rows."""
        return float(self.worth[0] / self.worth.sum())

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """The share of the first sample in all rows, by every labelling (1 + B,).

        The same in all where rows are dealt out anew; not that of rows of some kind, such as those
        that have a value.
        """
        sizes = 1.0 if self.bins is None else np.bincount(self.bins)[:, None]
        return np.asarray((self.labels * sizes).sum(axis=0) / self.rows)

    @property
    def weights(self) -> np.ndarray:
        """How much of each sample is at every point, (C, 2), 1 in all."""
        each = np.stack([self.first, self.counts - self.first], axis=1)
        return np.asarray(each / each.sum(axis=0))

    @property
    def squares(self) -> np.ndarray:
        """The sum of squares of what single rows are of ``weights``, (C, 2)."""
        return self.weights / self.worth

    @property
    def expected(self) -> np.ndarray:
        """What ``squares`` are on average where P = Q, (C, 2), by the rows of both samples."""
        return np.outer(self.counts / self.rows, 1.0 / self.worth)

    @property
    def weighted(self) -> bool:
        """Whether rows count for more or less than one."""
        return False

    @property
    def independent(self) -> bool:
        """Whether rows are independent of each other, and each counts for one."""
        return self.partners is None and not self.weighted

    def apart(self, of_labels: np.ndarray, of_counts: np.ndarray) -> np.ndarray:
        """Turn sums over points into the first sample's mean less the second's, (k, 1 + B).

        By a labelling that leaves a sample without rows they do not differ.

        Args:
            of_labels: (k, 1 + B), with ``labels``.
            of_counts: (k,), with ``counts``.
        """
        share = self.shares
        between = self.rows * share * (1.0 - share)
        apart = of_labels - share * of_counts[:, None]
        return np.divide(apart, between, out=np.zeros_like(apart), where=between > 0.0)

    def of_columns(self, columns: Sequence[int], most: int) -> Relabelled:
        """Take some columns alone, relabelled alike; one is merged to ``most`` cells at most."""
        points = self.points[:, list(columns)]
        if points.shape[1] == self.points.shape[1]:
            return self
        order = canonical_order(points)
        cells = equal_rows(points[order])
        if cells[-1] >= most and len(columns) == 1:
            # As many rows in each; equal values stay together.
            up_to = np.ceil(np.cumsum(self.counts[order]) * (most / self.rows))
            cells = np.unique(_last(cells, up_to), return_inverse=True)[1]
        taken = dataclasses.replace(self, points=points, unit=self.unit[list(columns)])
        return taken.merged(cells[np.argsort(order)])

    def merged(self, cells: np.ndarray) -> Self:
        """Take the points of each cell, whose index (C,) every point has, for their mean."""
        gather = gathering(cells)
        counts = gather @ self.counts
        table = gather if self.bins is None else gather @ gathering(self.bins).T
        blocks = range(0, self.labels.shape[1], LABELS)
        labels = [table @ self.labels[:, start : start + LABELS] for start in blocks]
        return dataclasses.replace(
            self,
            bins=None,
            points=(gather @ (self.points * self.counts[:, None])) / counts[:, None],
            counts=counts,
            labels=np.concatenate(labels, axis=1),
            partners=None if self.partners is None else cells[self.partners],
        )

    def blocks(self) -> Iterator[Block]:
        """Blocks of points, of so many rows that a block of numbers fits in a cache or two.

        Those of a bin follow each other.
        """
        if self.bins is None:
            for start in range(0, len(self.points), BLOCK):
                yield slice(start, start + BLOCK)
        else:
            yield from np.split(self._by_bin, range(BINNED, len(self.points), BINNED))

    @functools.cached_property
    def _by_bin(self) -> np.ndarray:
        """Points in the order of their bins."""
        assert self.bins is not None
        return np.argsort(self.bins, kind="stable")

    def relabelled(self, labels: np.ndarray) -> Self:
        """Other labels (C, k) of points in place of those that there are."""
        return dataclasses.replace(self, labels=labels, bins=None)

    def observed(self) -> Relabelled:
        """The labels as they are alone."""
        return dataclasses.replace(self, labels=self.labels[:, :1])


class LabelSums:
    """Sums of features over points with their labels, for every labelling, a block at a time.

    Args:
        rows: the points with their labels.
        width: k, how many features there are.
    """

    def __init__(self, rows: Relabelled, width: int) -> None:
        self._rows = rows
        units, labellings = rows.labels.shape
        self._sums = np.zeros((width, labellings) if rows.bins is None else (units, width))

    def add(self, block: Block, features: np.ndarray) -> None:
        """Add features (r, k) of a block of points."""
        rows = self._rows
        if rows.bins is None:
            self._sums += features.T @ rows.labels[block].astype(float)
        else:
            bins = rows.bins[block]
            new = np.diff(bins, prepend=-1) != 0
            # A sparse product is ten times as fast as a sum over runs (`np.add.reduceat`).
            self._sums[bins[new]] += gathering(np.cumsum(new) - 1) @ features

    def found(self) -> np.ndarray:
        """The sums (k, 1 + B)."""
        if self._rows.bins is None:
            return self._sums
        labels = self._rows.labels
        found = np.zeros((self._sums.shape[1], labels.shape[1]))
        for start in range(0, len(labels), BLOCK):
            part = slice(start, start + BLOCK)
            found += self._sums[part].T @ labels[part].astype(float)
        return found


def equal_rows(rows: np.ndarray) -> np.ndarray:
    """The index (N,) of every sorted row's point, equal rows having the same."""
    new = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], np.cumsum(new)])


def gathering(cells: np.ndarray) -> scipy.sparse.csr_array:
    """The matrix (cells, C) that adds up what points (C,) of equal ``cells`` have."""
    shape = (int(cells.max()) + 1, len(cells))
    ones = np.ones(len(cells), dtype=np.int32)
    return scipy.sparse.csr_array((ones, (cells, np.arange(len(cells)))), shape)


def _last(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of each run of equal ``groups`` (N,) its last value, at all its places."""
    ends = np.flatnonzero(np.diff(groups, append=-1))
    return np.asarray(values[ends[groups]])
