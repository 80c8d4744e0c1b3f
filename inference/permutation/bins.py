"""Bins of rows that keep one label in permutations, for very many rows, and cells of close rows.

The rows of each sample, in random order, are divided into bins of equal size, and the labels of the
bins are permuted. Permutations of bins are a subgroup of those of rows, and each subgroup gives an
exact test (Hemerik and Goeman 2018, theorem 2; for samples in bins Domingo-Enrich, Dwivedi and
Mackey 2023).

Still larger samples are divided by a pseudo-random permutation of row numbers that can be computed
for each row alone, so that the rows may be on several machines. The number of a row is its rank in
its sample by hash, which does not depend on the order of the rows. The permutation is a Feistel
network with rounds of splitmix64 (Luby and Rackoff 1988) on numbers with an even number of bits;
numbers beyond the last row are permuted again (Black and Rogaway 2002).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from ..data.canonical import mix_bits

#: Approximate number of bins, and smallest number of bins of the smaller sample.
N_BINS, MIN_BINS = 4096, 100
#: Number of rows beyond which bins are computed for each row alone and everything is chosen from a
#: random subset of the rows, and approximate size of this subset.
LARGE, SUBSET = 2**17, 2**16
#: Rounds of the network; with four its permutation is pseudo-random.
ROUNDS = 6


class Bins(NamedTuple):
    """Rows in bins.

    Attributes:
        of_row: (N,), bin of each row.
        row: (M,), a row of each bin.
        incomplete: (M,), whether a bin has fewer rows than others; such bins keep their label.
    """

    of_row: np.ndarray
    row: np.ndarray
    incomplete: np.ndarray


def bin_size(n_rows: int, n_smaller: int) -> int:
    """Return the number of rows of a bin, for all rows and those of the smaller sample."""
    return int(max(1, min(-(-n_rows // N_BINS), n_smaller // MIN_BINS)))


def divide_into_bins(group: np.ndarray, size: int, shuffled: np.ndarray) -> Bins:
    """Divide the rows of each group into bins.

    Args:
        group: (N,), from 0; rows of different samples are in different groups.
        size: rows of a bin.
        shuffled: (N,), indices of the rows in random order.
    """
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    within = np.arange(len(order)) - starts[group[order]]
    # Each group has one incomplete bin, which may be empty.
    complete = (sizes // size)[group[order]]
    key = np.minimum(within // size, complete) + np.cumsum(sizes // size + 1)[group[order]]
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    of_row = np.empty(len(order), dtype=np.int64)
    of_row[order] = np.cumsum(np.diff(key, prepend=key[:1]) != 0)
    return Bins(of_row, order[firsts], within[firsts] // size >= complete[firsts])


def permuted_indices(indices: np.ndarray, count: int, key: int) -> np.ndarray:
    """Apply a pseudo-random permutation of ``range(count)`` to some indices (k,), int64.

    Args:
        indices: from 0 to ``count - 1``.
        count: number of indices in all.
        key: selects the permutation.
    """
    half = np.uint64(max(1, -(-(count - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = mix_bits(
        mix_bits(np.full(ROUNDS, key, dtype=np.uint64)) + np.arange(ROUNDS, dtype=np.uint64)
    )
    permuted = np.array(indices, dtype=np.uint64)
    remaining = np.arange(len(permuted))
    while len(remaining):
        values = permuted[remaining]
        left, right = values >> half, values & mask
        for round_key in keys:
            left, right = right, left ^ (mix_bits(right + round_key) & mask)
        values = (left << half) | right
        permuted[remaining] = values
        remaining = remaining[values >= np.uint64(count)]
    return permuted.astype(np.int64)


@dataclasses.dataclass(frozen=True)
class BinAssignment:
    """The bin of each row of two samples, as a function of its rank in its sample.

    Attributes:
        sizes: rows of each sample.
        second_first: true if the bins of the second sample have the smaller numbers.
        size: rows of a bin.
        key: selects the permutations of the rows.
    """

    sizes: tuple[int, int]
    second_first: bool
    size: int
    key: int

    def n_bins(self, sample: int) -> int:
        """Return the number of bins of a sample, 0 for the first one."""
        return -(-self.sizes[sample] // self.size)

    def start(self, sample: int) -> int:
        """Return the first bin of a sample."""
        return 0 if bool(sample) == self.second_first else self.n_bins(1 - sample)

    def within(self, sample: int, ranks: np.ndarray) -> np.ndarray:
        """Return the bin (k,) of rows of a sample, counted from :meth:`start`."""
        key = np.array([self.key], dtype=np.uint64) + np.uint64(bool(sample) != self.second_first)
        return permuted_indices(ranks, self.sizes[sample], int(mix_bits(key)[0])) // self.size

    @property
    def bin_sizes(self) -> np.ndarray:
        """Rows of each bin, (M,)."""
        sizes = np.full(self.n_bins(0) + self.n_bins(1), self.size)
        for sample in (0, 1):
            sizes[self.start(sample) + self.n_bins(sample) - 1] -= (
                self.n_bins(sample) * self.size - self.sizes[sample]
            )
        return sizes

    @property
    def is_leading(self) -> np.ndarray:
        """Whether each bin (M,) is of the sample whose bins have the smaller numbers."""
        n_bins = self.n_bins(0), self.n_bins(1)
        return np.arange(sum(n_bins)) < n_bins[int(self.second_first)]


def hash_ranks(hashes: np.ndarray) -> np.ndarray:
    """Return ranks (k,) of rows by their hashes (k, 2); equal rows keep their order."""
    ranks = np.empty(len(hashes), dtype=np.int64)
    ranks[np.lexsort(hashes.T[::-1])] = np.arange(len(hashes))
    return ranks


def random_subset(hashes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Draw :data:`SUBSET` of the rows of both samples; return their indices, increasing.

    The draw does not depend on labels. It depends on the rank too, or equal rows would be drawn
    together.

    Args:
        hashes: (N, 2), of the rows.
        ranks: (N,), in their samples.
    """
    random = mix_bits(hashes[:, 0] ^ mix_bits(np.asarray(ranks, dtype=np.uint64) + np.uint64(1)))
    return np.sort(np.argpartition(random, min(SUBSET, len(random) - 1))[:SUBSET])


class MedianPartition(NamedTuple):
    """A partition of the space into cells, by repeated division at medians.

    Attributes:
        column: (K,), column of each division.
        threshold: (K,); values from this one on are in the upper half.
        children: (K, 2), division of each half; a cell is -1 less its index.
        n_parts: number of cells.
    """

    column: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    n_parts: int

    @classmethod
    def of(cls, points: np.ndarray, max_parts: int) -> MedianPartition:
        """Divide rows (N, D) at the median of the widest column of each cell.

        Args:
            points: the rows.
            max_parts: cells are divided while they are fewer.
        """
        divisions: list[tuple[int, float]] = []
        children: list[list[int]] = []
        # The rows of each cell, and the division and the half that it comes from.
        parts: list[tuple[np.ndarray, int, int]] = [(np.arange(len(points)), -1, 0)]
        while len(parts) < max_parts:
            refined = []
            for rows, parent, side in parts:
                if (division := _median_division(points[rows])) is None:
                    refined.append((rows, parent, side))
                    continue
                if parent >= 0:
                    children[parent][side] = len(divisions)
                upper = points[rows, division[0]] >= division[1]
                refined += [(rows[~upper], len(divisions), 0), (rows[upper], len(divisions), 1)]
                divisions.append(division)
                children.append([0, 0])
            if len(refined) == len(parts):
                break
            parts = refined
        for index, (_, parent, side) in enumerate(parts):
            if parent >= 0:
                children[parent][side] = -1 - index
        columns, thresholds = zip(*divisions, strict=True) if divisions else ((), ())
        return cls(
            np.array(columns, dtype=int),
            np.array(thresholds),
            np.array(children, dtype=int).reshape(-1, 2),
            len(parts),
        )

    def assign(self, points: np.ndarray) -> np.ndarray:
        """Return the cell (N,) of each row (N, D)."""
        at = np.full(len(points), 0 if len(self.column) else -1)
        remaining = np.arange(len(points)) if len(self.column) else np.empty(0, dtype=int)
        while len(remaining):
            division = at[remaining]
            upper = points[remaining, self.column[division]] >= self.threshold[division]
            at[remaining] = self.children[division, upper.astype(int)]
            remaining = remaining[at[remaining] >= 0]
        return -1 - at

    def means(self, points: np.ndarray) -> np.ndarray:
        """Return the mean (C, D) of the points (N, D) in each cell; no cell may be empty."""
        return cell_means(self.assign(points), points, self.n_parts)


def cell_means(parts: np.ndarray, points: np.ndarray, n_parts: int) -> np.ndarray:
    """Return the mean (n_parts, D) of the points (N, D) of each part (N,)."""
    sums = [np.bincount(parts, weights=column, minlength=n_parts) for column in points.T]
    return np.asarray(np.stack(sums, axis=1) / np.bincount(parts, minlength=n_parts)[:, None])


def _median_division(points: np.ndarray) -> tuple[int, float] | None:
    """Return the widest column and a value near its median, or ``None`` if all rows are equal.

    Equal rows are not divided.
    """
    column = int(np.argmax(np.ptp(points, axis=0)))
    values = points[:, column]
    middle = np.median(values)
    larger = values[values > middle]
    if len(larger):
        return column, float(larger.min())
    return (column, float(middle)) if (values < middle).any() else None
