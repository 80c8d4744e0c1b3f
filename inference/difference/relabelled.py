"""Pooled rows with their labels dealt out anew: what every statistic of a comparison is made from.

Equal rows are one point with a count, and of very many rows in one or two columns those of a cell
are: a statistic needs only how many of each are in the first sample. What the points are hangs on
the pooled rows alone, so that permutation tests on them are exact, whatever a cell leaves out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
from scipy.stats import norm

from ..data.canonical import canonical_order
from ..testing.pair import Pair

#: Points beyond which rows of one or two columns become cells, and how many these are.
MOST_POINTS = 2**13
#: Columns in which so many cells are small beside what so many rows can tell.
CELL_COLUMNS = 2
#: Labels of single rows that are drawn at once; beyond, those of cells are drawn themselves.
MOST_LABELS = 2**28
#: Quantiles that tell how wide a column is.
TAILS = np.array([0.01, 0.1, 0.25])
#: Points that are worked on at once, and labellings.
BLOCK, LABELS = 2**13, 64


@dataclasses.dataclass(frozen=True)
class Relabelled:
    """Points that stand for pooled rows, and how many rows of each are in the first sample.

    Attributes:
        points: (C, D), the scaled columns, in canonical order.
        counts: (C,), rows at each.
        first: (C, 1 + B), those of the first sample: as they are, then for every relabelling.
        unit: (D,), what the columns were divided by.
        partners: (m, 2), the points of rows that belong together, of which relabellings swap the
            labels; ``None`` where rows are independent.
    """

    points: np.ndarray
    counts: np.ndarray
    first: np.ndarray  # of integers
    unit: np.ndarray
    partners: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """How many rows both samples have."""
        return int(self.counts.sum())

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows each sample has."""
        first = int(self.first[:, 0].sum())
        return first, self.rows - first

    @property
    def share(self) -> float:
        """The share of the first sample in all rows."""
        return self.sizes[0] / self.rows

    def of_columns(self, columns: Sequence[int], most: int) -> Relabelled:
        """Take some columns alone, relabelled alike; one is merged to ``most`` cells at most."""
        points = self.points[:, list(columns)]
        if points.shape[1] == self.points.shape[1]:
            return self
        order = canonical_order(points)
        cells = _equal_rows(points[order])
        if cells[-1] >= most and len(columns) == 1:
            # As many rows in each; equal values stay together.
            below = np.cumsum(self.counts[order]) - 1
            cells = np.unique(_last(cells, below * most // self.rows), return_inverse=True)[1]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        counts = np.add.reduceat(self.counts[order], starts)
        sums = np.add.reduceat(points[order] * self.counts[order, None], starts)
        gather = scipy.sparse.csr_array(
            (np.ones(len(order), dtype=np.int32), (cells, order)), (len(counts), len(order))
        )
        labels = self.first.shape[1]
        parts = [gather @ self.first[:, a : a + LABELS] for a in range(0, labels, LABELS)]
        first = np.concatenate(parts, axis=1)
        partners = None
        if self.partners is not None:
            partners = cells[np.argsort(order)][self.partners]
        own = self.unit[list(columns)]
        return Relabelled(sums / counts[:, None], counts, first, own, partners)

    def blocks(self) -> Iterator[slice]:
        """Slices of the points, of so many rows that a block of numbers fits in a cache or two."""
        for start in range(0, len(self.points), BLOCK):
            yield slice(start, start + BLOCK)

    def observed(self) -> Relabelled:
        """The labels as they are alone."""
        return dataclasses.replace(self, first=self.first[:, :1])


def relabelled(pair: Pair, permutations: int, rng: np.random.Generator) -> Relabelled:
    """Pool two samples, their columns in standard deviations, and relabel them.

    Args:
        pair: the samples.
        permutations: B.
        rng: of the relabellings.
    """
    rows, unit = pair.points, _unit(pair)  # sorted
    of_first = (np.arange(len(rows)) < len(pair.first))[pair.order]
    cells = _equal_rows(rows)
    if cells[-1] >= MOST_POINTS and rows.shape[1] <= CELL_COLUMNS:
        cells = _cells(rows / unit)
    count = int(cells.max()) + 1
    counts = np.bincount(cells, minlength=count)
    sums = [np.bincount(cells, weights=column, minlength=count) for column in (rows / unit).T]
    observed = np.bincount(cells, weights=of_first, minlength=count)
    dealt = _dealt(counts, len(pair.first), permutations, rng)
    first = np.concatenate([observed[:, None].astype(dealt.dtype), dealt], axis=1)
    return Relabelled(np.stack(sums, axis=1) / counts[:, None], counts, first, unit)


def swapped(pair: Pair, permutations: int, rng: np.random.Generator) -> Relabelled:
    """Pool two samples whose rows belong together in pairs, and swap the labels of pairs.

    Args:
        pair: the samples, of one size.
        permutations: B.
        rng: of the swaps.
    """
    pair.check_one_size("paired")
    labelled, unit = pair.swapped(permutations, rng), _unit(pair)
    order = canonical_order(labelled.rows)
    partners = np.argsort(order).reshape(2, -1).T  # rows i and m + i
    points, ones = labelled.rows[order] / unit, np.ones(len(order), dtype=int)
    return Relabelled(points, ones, labelled.labels[order].astype(np.int8), unit, partners)


def _unit(pair: Pair) -> np.ndarray:
    """The standard deviation (D,) of every column of the pooled rows, 1 of one that is constant.

    Of one with outliers or heavy tails that of the normal distribution whose quantiles are as far
    apart, the farthest of three pairs.
    """
    deviation = pair.points.std(axis=0)
    low, high = np.quantile(pair.points, [TAILS, 1.0 - TAILS], axis=0)
    normal = np.max((high - low) / (2.0 * norm.isf(TAILS))[:, None], axis=0)
    unit = np.where(normal > 0.0, np.minimum(deviation, normal), deviation)
    return np.where(unit > 0.0, unit, 1.0)


def _equal_rows(rows: np.ndarray) -> np.ndarray:
    """The index (N,) of every sorted row's point, equal rows having the same."""
    new = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], np.cumsum(new)])


def _last(groups: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Of each run of equal ``groups`` (N,) its last value, at all its places."""
    ends = np.flatnonzero(np.diff(groups, append=-1))
    return np.asarray(values[ends[groups]])


def _cells(points: np.ndarray) -> np.ndarray:
    """The cell (N,) of every row: halves at the median of the widest column, and their halves."""
    cells = np.zeros(len(points), dtype=int)
    parts, count = [np.arange(len(points))], 1
    while count < MOST_POINTS:
        halves = []
        for part in parts:
            values = points[part]
            column = int(np.argmax(np.ptp(values, axis=0)))
            # By value, so that equal rows stay together whatever their order.
            upper = values[:, column] > np.median(values[:, column])
            if not upper.any():
                upper = values[:, column] >= np.median(values[:, column])
            halves += [part[~upper], part[upper]] if upper.any() and not upper.all() else [part]
        if len(halves) == count:
            break
        parts, count = halves, len(halves)
    for index, part in enumerate(parts):
        cells[part] = index
    return cells


def _dealt(
    counts: np.ndarray, size: int, permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """How many rows at each point are in the first sample, for every relabelling, (C, B).

    Exactly so distributed, whether single labels are dealt out or their numbers at each point.
    """
    if counts.sum() * permutations > MOST_LABELS and len(counts) < counts.sum():
        drawn = rng.multivariate_hypergeometric(counts, size, permutations, method="marginals")
        return np.asarray(drawn.T)
    labels = np.zeros((permutations, counts.sum()), dtype=np.int8)
    labels[:, :size] = 1
    rng.permuted(labels, axis=1, out=labels)
    if len(counts) == counts.sum():
        return labels.T
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(labels, starts, axis=1, dtype=np.int32).T
