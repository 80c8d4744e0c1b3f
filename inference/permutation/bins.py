"""Bins of rows that are dealt out as one, for very many rows.

Each sample's rows, in a random order, are cut into bins of one size, and these are dealt out anew;
of still more rows as :mod:`.deal` does.
Permutations of bins are some of those of rows, and any group of them makes an exact test (Hemerik
and Goeman 2018, theorem 2; for samples in bins Domingo-Enrich, Dwivedi and Mackey 2023).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Bins in all, about, and of the smaller sample at least.
BINS, LEAST_BINS = 4096, 100


class Bins(NamedTuple):
    """Rows in bins.

    Attributes:
        of_row: (N,), the bin of every row.
        row: (M,), a row of every bin.
        rest: (M,), whether a bin holds what is left over of a group, fewer rows than others: it
            keeps its label.
    """

    of_row: np.ndarray
    row: np.ndarray
    rest: np.ndarray


def bin_size(total: int, fewest: int) -> int:
    """How many rows a bin has, of so many in all and in the smaller sample."""
    return int(max(1, min(-(-total // BINS), fewest // LEAST_BINS)))


def cut(group: np.ndarray, size: int, shuffled: np.ndarray) -> Bins:
    """Cut the rows of every group into bins.

    Args:
        group: (N,), from 0; rows of different samples are of different groups.
        size: of a bin.
        shuffled: (N,), indices of the rows in a random order.
    """
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    within = np.arange(len(order)) - starts[group[order]]
    # One more bin than is full, though nobody may be left for it.
    whole = (sizes // size)[group[order]]
    key = np.minimum(within // size, whole) + np.cumsum(sizes // size + 1)[group[order]]
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    of_row = np.empty(len(order), dtype=np.int64)
    of_row[order] = np.cumsum(np.diff(key, prepend=key[:1]) != 0)
    return Bins(of_row, order[firsts], within[firsts] // size >= whole[firsts])
