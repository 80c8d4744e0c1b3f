"""Pooled rows with their labels dealt out anew: what every statistic of a comparison is made from.

Equal rows are one point with a count, and of very many rows in one or two columns those of a cell
are (:mod:`.pooling`): a statistic needs only how many of each are in the first sample. Very many
rows in more columns are dealt out in bins (:mod:`.bins`): then labels are of bins.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import scipy.sparse

from ..data.canonical import canonical_order

#: Points that are worked on at once, those in bins, and labellings.
BLOCK, BINNED, LABELS = 2**13, 2**12, 64
#: Labels of few points that are worked on at once.
SMALL = 2**20
#: Bytes of labels as floating-point numbers up to which they are kept, for a test asks for them
#: dozens of times.
KEPT_BYTES = 2**26
#: Rows by which errors of a sample's means are more than its own rows tell.
MORE_ROWS = 2.0
#: So many entries for each that is not zero, and a matrix is faster full than sparse.
FULL = 20
#: Scaled values beyond are clipped: the twelfth power, of a third moment of a statistic of fourth
#: powers, is finite. Any outlier so far away is one, however far.
LARGEST_SCALED = 1e20


@dataclasses.dataclass(frozen=True)
class Relabelled:
    """Points that stand for pooled rows, and how many rows of each are in the first sample.

    Attributes:
        points: (C, D), the scaled columns, in canonical order; values beyond
            :data:`LARGEST_SCALED` are clipped.
        counts: (C,), rows at each.
        labels: (C, 1 + B), those of the first sample: as they are, then for every relabelling. Of
            bins, (M, 1 + B), whether their rows are.
        unit: (D,), what the columns were divided by.
        partners: (m, 2), the points of rows that belong together, of which relabellings swap the
            labels; ``None`` where rows are independent.
        bins: (C,), the bin that each point, a row, is dealt out with; ``None`` where each is alone.
        part: indices (k,) of the points that everything is chosen by; ``None`` where all are.
    """

    points: np.ndarray
    counts: np.ndarray
    labels: np.ndarray
    unit: np.ndarray
    partners: np.ndarray | None = None
    bins: np.ndarray | None = None
    part: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Clip values whose powers would overflow."""
        points = self.points
        if points.size and max(points.max(), -points.min()) > LARGEST_SCALED:
            clipped = np.clip(points, -LARGEST_SCALED, LARGEST_SCALED)
            object.__setattr__(self, "points", clipped)

    @functools.cached_property
    def choosing(self) -> Relabelled:
        """The points that everything is chosen by, which does not hang on labels."""
        if self.part is None:
            return self
        points, counts = self.points[self.part], self.counts[self.part]
        return Relabelled(points, counts, np.zeros((len(points), 0), dtype=np.int8), self.unit)

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

    @functools.cached_property
    def evenly(self) -> np.ndarray:
        """What weighs every different point alike, 1 in all and shared by equal ones, (C,).

        By those of them that are neighbours, as all are but in bins.
        """
        cells = equal_rows(self.points)
        return np.asarray(1.0 / ((cells[-1] + 1) * np.bincount(cells)[cells]))

    @property
    def more(self) -> np.ndarray:
        """What ``squares`` of :data:`MORE_ROWS` more rows are, anywhere that rows are, (C, 2).

        Of columns with two values that is half of them each, whichever a sample has: the
        pseudo-observations of Agresti and Caffo (2000, Am. Stat. 54). Where all rows are different
        they are like the others.
        """
        return MORE_ROWS * self.evenly[:, None] * self.worth**-2.0

    @property
    def expected(self) -> np.ndarray:
        """What ``squares`` are on average where P = Q, (C, 2), by the rows of both samples."""
        return np.outer(self.counts / self.rows, 1.0 / self.worth)

    @property
    def measures(self) -> tuple[np.ndarray, np.ndarray]:
        """What rows are counted by: a few columns (C, b), and what combines them to all (b, 7).

        ``counts / rows``, ``weights``, ``squares`` and ``expected``, of which few are independent.
        """
        columns = np.column_stack([self.counts, self.first]).astype(float)
        return columns, self._of_both

    @property
    def _of_both(self) -> np.ndarray:
        """What combines ``counts`` and ``first`` to :attr:`measures`, (2, 7)."""
        (m, n), whole = self.sizes, self.rows
        of_counts = [1.0 / whole, 0.0, 1.0 / n, 0.0, n**-2.0, 1.0 / (whole * m), 1.0 / (whole * n)]
        of_first = [0.0, 1.0 / m, -1.0 / n, m**-2.0, -(n**-2.0), 0.0, 0.0]
        return np.array([of_counts, of_first])

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
        taken = dataclasses.replace(self, points=points, unit=self.unit[list(columns)])
        if len(columns) == 1:
            return taken.merged(np.searchsorted(self.edges(columns[0], most), points[:, 0]))
        order = canonical_order(points)
        cells = np.empty(len(order), dtype=np.int64)
        cells[order] = equal_rows(points[order])
        return taken.merged(cells)

    def edges(self, column: int, most: int) -> np.ndarray:
        """The largest value of each cell of a column but the last, increasing.

        Each value is a cell, or of more than ``most`` values as many rows are in each.
        """
        chosen = self.choosing
        order = np.argsort(chosen.points[:, column])
        values = chosen.points[order, column]
        cells = equal_rows(values[:, None])
        if cells[-1] >= most:
            # Equal values stay together.
            up_to = np.ceil(np.cumsum(chosen.counts[order]) * (most / chosen.rows))
            cells = equal_rows(_last(cells, up_to)[:, None])
        return np.asarray(values[np.flatnonzero(np.diff(cells))])

    def merged(self, cells: np.ndarray) -> Self:
        """Take the points of each cell, whose index (C,) every point has, for their mean."""
        gather = gathering(cells)
        counts = gather @ self.counts
        return dataclasses.replace(
            self,
            bins=None,
            part=None,
            points=(gather @ (self.points * self.counts[:, None])) / counts[:, None],
            counts=counts,
            labels=_of_bins(cells, self.bins, self.labels)
            if self.bins is not None
            else _in_batches(gather, self.labels),
            partners=None if self.partners is None else cells[self.partners],
        )

    def blocks(self) -> Iterator[slice]:
        """Blocks of points, of so many rows that a block of numbers fits in a cache or two."""
        size = BLOCK if self.bins is None else BINNED
        for start in range(0, len(self.points), size):
            yield slice(start, start + size)

    @functools.cached_property
    def in_bins(self) -> Self:
        """Points that are dealt out in bins, one bin after the other; others as they are.

        Sums over bins are fast then; but which bin is where tells the seed.
        """
        if self.bins is None or (np.diff(self.bins) >= 0).all():
            return self
        order = np.argsort(self.bins, kind="stable")
        part = None if self.part is None else np.argsort(order)[self.part]
        points, counts = self.points[order], self.counts[order]
        return dataclasses.replace(
            self, points=points, counts=counts, bins=self.bins[order], part=part
        )

    @functools.cached_property
    def runs(self) -> list[tuple[np.ndarray, scipy.sparse.csr_array]]:
        """Bins of every block, and the matrix (bins, points) that adds up what is in each."""
        assert self.bins is not None
        found = []
        for block in self.blocks():
            bins = self.bins[block]
            starts = np.flatnonzero(np.diff(bins, prepend=-1))
            found.append((bins[starts], gathering(np.cumsum(np.diff(bins, prepend=bins[0]) != 0))))
        return found

    def numbers(self, block: slice) -> np.ndarray:
        """Labels (r, 1 + B) of a block of points as floating-point numbers, for products."""
        few = 8 * self.labels.size <= KEPT_BYTES
        return self._numbers[block] if few else self.labels[block].astype(float)

    @functools.cached_property
    def _numbers(self) -> np.ndarray:
        return self.labels.astype(float)

    def relabelled(self, labels: np.ndarray) -> Self:
        """Other labels (C, k) of points in place of those that there are."""
        return dataclasses.replace(self, labels=labels, bins=None)

    def observed(self) -> Relabelled:
        """The labels as they are alone."""
        return dataclasses.replace(self, labels=self.labels[:, :1])


class LabelSums:
    """Sums of features over points with their labels, for every labelling, a block at a time.

    Args:
        rows: the points with their labels, :attr:`Relabelled.in_bins`.
        width: k, how many features there are.
    """

    def __init__(self, rows: Relabelled, width: int) -> None:
        assert rows.in_bins is rows
        self._rows = rows
        units, labellings = rows.labels.shape
        self._sums = np.zeros((width, labellings) if rows.bins is None else (units, width))

    def add(self, block: slice, features: np.ndarray) -> None:
        """Add features (r, k) of one of the blocks of points."""
        rows = self._rows
        if rows.bins is None:
            self._sums += features.T @ rows.numbers(block)
        else:
            # A sparse product is ten times as fast as a sum over runs (`np.add.reduceat`).
            bins, runs = rows.runs[block.start // BINNED]
            self._sums[bins] += runs @ features

    @property
    def of_units(self) -> np.ndarray:
        """The sums (M, k) over each bin, of rows in bins."""
        return self._sums

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


def _of_bins(cells: np.ndarray, bins: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Add up the labels (M, 1 + B) that rows (C,) have by their bins, for every cell."""
    shape = int(cells.max()) + 1, len(labels)
    if np.prod(shape) > FULL * len(cells):
        return _in_batches(gathering(cells) @ gathering(bins).T, labels)
    table = np.bincount(np.ravel_multi_index((cells, bins), shape), minlength=np.prod(shape))
    return labels_of(table.reshape(shape), labels)


def labels_of(table: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Add up the labels (M, 1 + B) of bins, of which rows (C, M) are in every cell."""
    # Whole numbers, which these hold, in a fast product.
    exact = np.float32 if table.sum(dtype=np.int64) < 2**24 else np.float64
    return _in_batches(table.astype(exact), labels).astype(np.int32)


def _in_batches(table: np.ndarray | scipy.sparse.csr_array, labels: np.ndarray) -> np.ndarray:
    """The product with labels (M, 1 + B), some of them at a time."""
    size = max(LABELS, SMALL // len(labels))
    blocks = range(0, labels.shape[1], size)
    return np.concatenate([table @ labels[:, start : start + size] for start in blocks], axis=1)


def _last(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of each run of equal ``groups`` (N,) its last value, at all its places."""
    ends = np.flatnonzero(np.diff(groups, append=-1))
    return np.asarray(values[ends[groups]])
