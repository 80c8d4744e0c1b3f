"""One column of a file as weighted points, in passes over its rows that keep few of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from bke.models.likelihood.spectral import (
    MAX_UNBINNED,
    WeightedPoints,
    bin_moments,
    find_bins,
    weighted_points,
)

from ..core.errors import InputError
from ..core.progress import progress_bar
from ..data.units import Units
from .passes import chunk_size, prefetched
from .source import Rows

#: Bins in a standard deviation, or up to twice as many.
FINENESS = 2**11
#: Rows that are kept at most.
MOST_KEPT = 2**23


class Column:
    """Rows of one column in bins: of each its moments, or all its rows.

    A pass goes through the rows in the same chunks however the file is cut, so that sums have the
    same digits.

    Attributes:
        width: of a bin, in the model's units, a power of two.
        kept: (bins,), of which bins that had moments all rows are kept now.
    """

    def __init__(self, rows: Rows, units: Units, deviation: float, *, progress: bool) -> None:
        """Count the rows of all bins and sum their moments, in two passes.

        Args:
            rows: (n, 1), checked.
            units: that bring them to the model's.
            deviation: their standard deviation, in the model's units.
            progress: show progress bars.
        """
        self._rows, self._units, self._progress = rows, units, progress
        self.width = 2.0 ** math.floor(math.log2(deviation / FINENESS))
        bins, counts = self._counted()
        self._bins = bins[counts > MAX_UNBINNED]
        self._moments, self._few = self._summed()
        self._own = self._few[:0]
        self.kept = np.zeros(len(self._bins), dtype=bool)

    @property
    def size(self) -> int:
        """How many points stand for the rows so far."""
        nodes = int(np.sum(~self.kept)) * self._moments.shape[1]
        return nodes + len(self._few) + len(self._own)

    def points(self) -> WeightedPoints:
        """What stands for the rows so far."""
        rows = np.concatenate([self._few, self._own])
        return weighted_points(self._bins, self._moments, self.width, self.kept, rows)

    def keep(self, more: np.ndarray) -> None:
        """Keep all rows of ``more`` (bins,) of the bins, in a pass.

        Raises:
            InputError: for more rows than are ever kept.
        """
        self.kept = self.kept | more
        least = int(self._moments[self.kept, 0].sum())
        if least > MOST_KEPT:
            raise InputError(
                f"{self._rows.path}: the density depends on {least} rows one by one, and at most "
                f"{MOST_KEPT} are kept: read the rows into memory, or leave out outliers, beside "
                "which the others are all alike"
            )
        pieces = []
        for x in self._each("rows, some kept"):
            place, known = self._places(find_bins(x, self.width)[0])
            pieces.append(x[known & self.kept[place]])
        self._own = np.concatenate(pieces)

    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        """The bins that have rows, ascending, and how many."""
        bins, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for x in self._each("rows, counted"):
            some = np.unique(find_bins(x, self.width)[0], return_counts=True)
            bins, place = np.unique(np.concatenate([bins, some[0]]), return_inverse=True)
            counts = np.bincount(place, np.concatenate([counts, some[1]])).astype(np.int64)
        return bins, counts

    def _summed(self) -> tuple[np.ndarray, np.ndarray]:
        """The moments of bins with many rows, and the rows of the others."""
        moments, few = bin_moments(np.empty(0, int), np.empty(0), len(self._bins)), []
        for x in self._each("rows, summed"):
            bins, u = find_bins(x, self.width)
            place, known = self._places(bins)
            moments = moments + bin_moments(place[known], u[known], len(self._bins))
            few.append(x[~known])
        return moments, np.concatenate(few)

    def _places(self, bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where among those with moments the ``bins`` (n,) are, and which are there."""
        if not len(self._bins):
            return np.zeros(len(bins), dtype=np.int64), np.zeros(len(bins), dtype=bool)
        place = np.minimum(np.searchsorted(self._bins, bins), len(self._bins) - 1)
        return place, self._bins[place] == bins

    def _each(self, what: str) -> Iterator[np.ndarray]:
        """Chunks of the column in the model's units, with its dither."""
        rows, units, n = self._rows, self._units, len(self._rows)
        size = chunk_size(1, 1)
        noise = np.random.default_rng(units.dither_seed)
        with progress_bar(what, n, shown=self._progress) as advance:
            for _, block in prefetched(rows, range(-(-n // size)), size):
                if units.dither.any():  # as all rows at once would have it
                    block = block + noise.uniform(-0.5, 0.5, size=block.shape) * units.dither
                yield units.to_model(block)[:, 0]
                advance(len(block))
