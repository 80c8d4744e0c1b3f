"""Two samples whose rows count for more or less than one, and errors with their signs turned.

Let w be the weights of each sample, 1 in all. The difference of means ``sum_P w e(z) - sum_Q w
e(z)`` has the variance ``sum w^2 (e(z) - mean e)^2`` over both samples where P = Q. Labels dealt
out anew would need rows with their weights to be exchangeable, and get the variance wrong of few
rows with unequal weights beside many with equal ones. Instead errors of that variance are made of
the pooled rows with signs turned at random (the wild bootstrap: Wu 1986): each as often as a sample
should have it by the rows of both, with the squares of such weights as its own nearest rows have. A
sample with large weights in a tail may happen to have no row there; its own rows would then tell of
no error. The level of a test by signs is approximate (``benchmarks/results/weights.md``).
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from scipy.spatial import cKDTree

from ..core.errors import InputError
from ..data.weighted import weighted_quantiles
from .pair import Pair
from .pooling import TAILS, cells_of, width
from .relabelled import Relabelled, gathering

#: What a sample must be worth, in rows of one weight.
LEAST_WORTH = 2.0
#: Signs of all rows that are drawn at once.
SIGNS = 16
#: Nearest rows that tell which weights a sample has somewhere.
NEAREST = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weighted(Relabelled):
    """Points that stand for weighted rows.

    ``labels`` are by how much the first sample has more, 0 in all: as the samples are, then as
    errors with random signs are. ``counts`` are what the rows are worth: 1 / sum w^2 a sample.

    Attributes:
        of_samples: (C, 2), weights of both samples.
        of_squares: (C, 2), their squares' sums.
        of_both: (C, 2), what they are expected to be by the rows of both.
        lengths: how many rows each sample has.
    """

    of_samples: np.ndarray
    of_squares: np.ndarray
    of_both: np.ndarray
    lengths: tuple[int, int]

    @property
    def worth(self) -> np.ndarray:
        """How many rows of one weight each sample is worth (Kish 1965), (2,)."""
        return np.asarray(1.0 / self.of_squares.sum(axis=0))

    @property
    def first(self) -> np.ndarray:
        """What the first sample's rows at each point (C,) are worth."""
        return np.asarray(self.worth[0] * self.of_samples[:, 0])

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows each sample has."""
        return self.lengths

    @property
    def weights(self) -> np.ndarray:
        """How much of each sample is at every point, (C, 2), 1 in all."""
        return self.of_samples

    @property
    def squares(self) -> np.ndarray:
        """The sum of squares of what single rows are of ``weights``, (C, 2)."""
        return self.of_squares

    @property
    def expected(self) -> np.ndarray:
        """What ``squares`` are on average where P = Q, (C, 2), by the rows of both samples."""
        return self.of_both

    @property
    def measures(self) -> tuple[np.ndarray, np.ndarray]:
        """What rows are counted by (C, 7): nothing follows from the rest."""
        parts = [self.counts / self.rows, self.weights, self.squares, self.expected]
        return np.column_stack(parts), np.eye(7)

    @property
    def weighted(self) -> bool:
        """Whether rows count for more or less than one."""
        return True

    def apart(self, of_labels: np.ndarray, of_counts: np.ndarray) -> np.ndarray:
        """Turn sums over points into the first sample's mean less the second's: they are that."""
        return of_labels

    def relabelled(self, labels: np.ndarray) -> Self:
        """Other labels (C, k), none of which are those of the samples as they are."""
        return dataclasses.replace(self, labels=labels, of_squares=self.of_both)

    def merged(self, cells: np.ndarray) -> Self:
        """Take the points of each cell, whose index (C,) every point has, for their mean."""
        gather = gathering(cells)
        return dataclasses.replace(
            super().merged(cells),
            of_samples=gather @ self.of_samples,
            of_squares=gather @ self.of_squares,
            of_both=gather @ self.of_both,
        )


def weighted(
    pair: Pair, weights: tuple[np.ndarray, np.ndarray], count: int, rng: np.random.Generator
) -> Weighted:
    """Pool two samples with weights, and turn the signs of their rows' errors ``count`` times.

    Args:
        pair: the samples.
        weights: of their rows, (m,) and (n,), not negative.
        count: B.
        rng: of the signs.

    Raises:
        InputError: for a sample that is worth fewer than two rows.
    """
    own = _shares(weights)[pair.order]
    worth = 1.0 / np.square(own).sum(axis=0)
    for name, one in zip("PQ", worth, strict=True):
        if one < LEAST_WORTH:
            raise InputError(f"the rows of {name} with their weights are worth {one:.2g}, not two")
    unit = _unit(pair.points, own @ worth)
    cells, points = cells_of(pair.points, unit)
    gather = gathering(cells)
    each, squares = gather @ own, gather @ np.square(own)
    expected = _expected(points, each, squares)
    counts, rows_at = each @ worth, gather @ np.ones(len(own), dtype=int)
    # Turned, so that it makes no difference which sample is the first.
    sizes = (-1.0 if pair.turned else 1.0) * np.sqrt(expected.sum(axis=1) / rows_at)
    parts = [
        sizes[:, None] * _signs(rows_at, min(SIGNS, count - start), rng)
        for start in range(0, count, SIGNS)
    ]
    # Features are centred over all rows, so that the samples as they are have no place of their
    # own among those with other signs.
    parts = [part - np.outer(counts / counts.sum(), part.sum(axis=0)) for part in parts]
    return Weighted(
        points=points,
        counts=counts,
        labels=np.concatenate([each[:, :1] - each[:, 1:], *parts], axis=1),
        unit=unit,
        of_samples=each,
        of_squares=squares,
        of_both=expected,
        lengths=pair.sizes,
    )


def _shares(weights: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The weight (m + n, 2) of every row in each of the samples, 1 in all."""
    m, n = map(len, weights)
    found = np.zeros((m + n, 2))
    for rows, (sample, one) in zip((slice(m), slice(m, None)), enumerate(weights), strict=True):
        found[rows, sample] = one / one.sum()
    return found


def _signs(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of as many random signs as there are rows at each point (C,), (C, count)."""
    return 2.0 * rng.binomial(rows[:, None], 0.5, size=(len(rows), count)) - rows[:, None]


def _expected(points: np.ndarray, each: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """What squares of weights are on average where P = Q, (C, 2), as large in all as they are.

    As much weight as the rows of both samples have at a point, in rows of such weights as the
    nearest rows of the sample have.
    """
    worth = 1.0 / squares.sum(axis=0)
    share = each @ worth / worth.sum()
    found = np.zeros_like(each)
    for sample in (0, 1):
        mine = np.flatnonzero(each[:, sample] > 0.0)
        near = cKDTree(points[mine]).query(points, min(NEAREST, len(mine)))[1]
        near = mine[near.reshape(len(points), -1)]
        size = squares[near, sample].sum(axis=1) / each[near, sample].sum(axis=1)
        found[:, sample] = share * size
    return found / (found.sum(axis=0) * worth)


def _unit(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The width (D,) of every column of weighted rows."""
    mean = counts @ points / counts.sum()
    deviation = np.sqrt(counts @ np.square(points - mean) / counts.sum())
    low, high = (weighted_quantiles(points, counts, list(tails)) for tails in (TAILS, 1.0 - TAILS))
    return width(deviation, np.stack([low, high]))
