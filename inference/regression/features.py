"""Features of rows, whose means over a group are its empirical mean embedding at landmarks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from bke.models import SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.linalg.seeding import spread_seeds

from ..data.canonical import canonical_order, random_part
from ..learning.distances import pairwise_distances
from .groups import Groups

#: Lengthscales of the default kernel, as shares of the median distance.
SCALES = (0.5, 1.0, 2.0)
#: Rows among which landmarks are chosen, and rows whose features are held at a time.
MOST_ROWS, BLOCK = 4000, 32_768
#: Rows to which fewer are filled up.
FEWEST = 64


class Features(NamedTuple):
    """Kernels at landmarks, of columns over their deviations; and by default the columns.

    Attributes:
        centre: (D,), means of the columns.
        unit: (D,), what they are divided by.
        landmarks: (L, D), in these units.
        kernels: of these units.
        linear: whether the columns themselves are features.
    """

    centre: np.ndarray
    unit: np.ndarray
    landmarks: np.ndarray
    kernels: tuple[Kernel, ...]
    linear: bool

    @classmethod
    def of(cls, groups: Groups, kernel: Kernel | None, landmarks: int, seed: int) -> Features:
        """Choose landmarks, and a kernel's lengthscales where none is given, by all rows.

        What is given is a kernel of the data's own units.
        """
        rows = random_part(groups.rows[canonical_order(groups.rows)], MOST_ROWS, seed)
        centre, unit = rows.mean(axis=0), rows.std(axis=0)
        unit = np.where(unit > 0.0, unit, 1.0)
        if kernel is not None:
            centre, unit = np.zeros_like(centre), np.ones_like(unit)
        scaled = (rows - centre) / unit
        spread = scaled / np.where(scaled.std(axis=0) > 0.0, scaled.std(axis=0), 1.0)
        chosen = spread_seeds(spread, landmarks, np.random.default_rng([seed, 37]))
        if kernel is not None:
            return cls(centre, unit, scaled[chosen], (kernel,), linear=False)
        distances = pairwise_distances(scaled, seed)
        median = float(np.median(distances)) if len(distances) else 1.0
        kernels = tuple(SquaredExponential(share * median) for share in SCALES)
        return cls(centre, unit, scaled[chosen], kernels, linear=True)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The features (n, m) of rows (n, D)."""
        scaled = (rows - self.centre) / self.unit
        # Few different numbers of rows: for each, a kernel's program is compiled.
        size = max(FEWEST, 2 ** math.ceil(math.log2(len(scaled))))
        padded = np.pad(scaled, ((0, size - len(scaled)), (0, 0)))
        parts = [scaled] if self.linear else []
        for kernel in self.kernels:
            parts.append(np.asarray(kernel(padded, self.landmarks))[: len(scaled)])
        return np.concatenate(parts, axis=1)


class Means(NamedTuple):
    """What groups are by their features.

    Attributes:
        values: (G, m), means.
        counts: (G,), of rows.
        variances: (m,), eigenvalues of the covariance of features within groups, pooled.
        directions: (m, m), its eigenvectors, a column each.
        freedom: its degrees of freedom: rows less groups.
    """

    values: np.ndarray
    counts: np.ndarray
    variances: np.ndarray
    directions: np.ndarray
    freedom: int

    def of(self, some: np.ndarray) -> Means:
        """Take some groups, with the covariance within all."""
        return self._replace(values=self.values[some], counts=self.counts[some])


def means_of(groups: Groups, features: Features) -> Means:
    """Mean features of every group, and their covariance within, in blocks of rows."""
    count = features.at(groups.rows[:1]).shape[1]
    values, squares = np.empty((len(groups.counts), count)), np.zeros((count, count))
    for some in _blocks(groups.counts):
        counts = groups.counts[some]
        start = int(groups.counts[: some.start].sum())
        rows = groups.rows[start : start + int(counts.sum())]
        if len(rows) > BLOCK:  # one group
            parts = range(0, len(rows), BLOCK)
            each = [features.at(rows[at : at + BLOCK]).sum(axis=0) for at in parts]
            values[some] = np.sum(each, axis=0) / len(rows)
            for at in parts:
                apart = features.at(rows[at : at + BLOCK]) - values[some]
                squares += apart.T @ apart
            continue
        apart = features.at(rows)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        values[some] = np.add.reduceat(apart, starts, axis=0) / counts[:, np.newaxis]
        apart -= np.repeat(values[some], counts, axis=0)
        squares += apart.T @ apart
    freedom = int(groups.counts.sum() - len(groups.counts))
    return Means(values, groups.counts, *np.linalg.eigh(squares / max(freedom, 1)), freedom)


def _blocks(counts: np.ndarray) -> Iterator[slice]:
    """Groups whose rows are about as many as a block."""
    start, ends = 0, np.cumsum(counts)
    while start < len(counts):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + BLOCK, side="right")), start + 1)
        yield slice(start, end)
        start = end
