"""What of a row is watched: a few dozen numbers, each of which a change may make larger or smaller.

They are chosen by some rows of the reference, which are not ranked later, so that ranks of all
other rows are as exact as if they had been chosen before any row was seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtri

from ..data.equality import positive_distances
from .columns import Columns

#: Knots of a column's normal scores.
KNOTS = 256
#: Normal scores end here, beyond the rows by which they are chosen.
FARTHEST = 3.5
#: Pairs of columns whose products are watched, those of the largest correlations where there are
#: more; directions of least and of most variance, of each; places.
PAIRS, DIRECTIONS, PLACES = 21, 2, 8
#: Lengthscales of places, as shares of the median distance between rows.
NEAR = (0.25, 0.6)
#: Rows whose distances give the median.
ROWS = 500
#: What a family of scores has of the alarm's level where all are there; what is learned from the
#: stream has the rest.
SHARES = {"columns": 0.4, "pairs": 0.15, "directions": 0.1, "distance": 0.05, "places": 0.1}
LEARNED = 1.0 - sum(SHARES.values())


class Scores(NamedTuple):
    """How scores are made of rows.

    Attributes:
        columns: what the values of rows are.
        knots: (C, KNOTS) ascending, of numbers the quantiles whose normal scores are ``heights``.
        heights: (C, KNOTS).
        pairs: (P, 2) of numbers.
        directions: (C, d), of unit variance.
        precision: (C, C), by which distances from the centre are measured.
        places: (L, C).
        scale: the median distance between rows.
    """

    columns: Columns
    knots: np.ndarray
    heights: np.ndarray
    pairs: np.ndarray
    directions: np.ndarray
    precision: np.ndarray
    places: np.ndarray
    scale: float

    @classmethod
    def of(cls, columns: Columns, values: np.ndarray, seed: int) -> Scores:
        """Choose scores by rows: values (n, C) as ``columns`` says what they are."""
        count = int(columns.numbers.sum())
        knots, heights = np.empty((count, KNOTS)), np.empty((count, KNOTS))
        probability = (np.arange(KNOTS) + 0.5) / KNOTS
        for at, column in enumerate(values[:, columns.numbers].T):
            known = column[~np.isnan(column)]
            knots[at] = np.quantile(known, probability) if len(known) else 0.0
            knots[at, [0, -1]] = [known.min(), known.max()] if len(known) else 0.0
            heights[at] = _middle(knots[at], ndtri(probability))
        none = np.empty((0, count))
        bare = cls(
            *(columns, knots, heights, np.empty((0, 2), dtype=int)),
            *(none.T, np.eye(count), none, 1.0),
        )
        return bare._joint(bare.normal(values), seed) if count else bare

    def _joint(self, normal: np.ndarray, seed: int) -> Scores:
        """Choose what hangs on how columns go together, by normal scores (n, C) of rows."""
        count = normal.shape[1]
        covariance = np.cov(normal.T).reshape(count, count) + 1e-3 * np.eye(count)
        pairs = np.stack(np.triu_indices(count, k=1), axis=1)
        if len(pairs) > PAIRS:
            strength = np.abs(covariance[pairs[:, 0], pairs[:, 1]])
            pairs = pairs[np.sort(np.argsort(-strength, kind="stable")[:PAIRS])]
        values, vectors = np.linalg.eigh(covariance)
        ends = sorted({*range(count)[:DIRECTIONS], *range(count)[-DIRECTIONS:]})
        directions = vectors[:, ends] / np.sqrt(values[ends])
        rng = np.random.default_rng(seed)
        distances = positive_distances(pdist(normal[:ROWS]), normal)
        return self._replace(
            pairs=pairs,
            directions=directions if count > 1 else directions[:, :0],
            precision=np.linalg.inv(covariance),
            places=normal[kmeans_plusplus(normal, PLACES, rng)],
            scale=float(np.median(distances)) if len(distances) else 1.0,
        )

    def normal(self, values: np.ndarray) -> np.ndarray:
        """Normal scores (n, C) of the numbers among values (n, C'), 0 where there is none."""
        numbers = values[:, self.columns.numbers]
        found = np.empty(numbers.shape)
        for at, (knots, heights) in enumerate(zip(self.knots, self.heights, strict=True)):
            found[:, at] = np.interp(numbers[:, at], knots, heights, -FARTHEST, FARTHEST)
        return np.nan_to_num(found, copy=False)

    def at(self, values: np.ndarray) -> np.ndarray:
        """The scores (n, J) of rows with values (n, C), in single precision, which makes ties."""
        normal = self.normal(values)
        holes = np.isnan(values).sum(axis=1, keepdims=True)
        alone = [normal, self.columns.indicators(values), holes]
        return np.concatenate([*alone, *self._of_pairs(normal)], axis=1, dtype=np.float32)

    def _of_pairs(self, normal: np.ndarray) -> list[np.ndarray]:
        """Scores (n, j) of how the numbers of rows go together, by their normal scores (n, C)."""
        found = [normal[:, self.pairs[:, 0]] * normal[:, self.pairs[:, 1]]]
        if self.directions.shape[1]:
            found += [row_sums(normal * one)[:, np.newaxis] for one in self.directions.T]
            squares = np.zeros(len(normal))
            for column, one in zip(normal.T, self.precision, strict=True):
                squares += column * row_sums(normal * one)
            found.append(squares[:, np.newaxis])
        if len(self.places):
            apart = cdist(normal, self.places, "sqeuclidean")
            found += [np.exp(-0.5 * apart / (near * self.scale) ** 2) for near in NEAR]
        return found

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Where rows (n, C) are, (n, d), each column of unit variance or so."""
        normal, indicators = self.normal(values), self.columns.indicators(values)
        return np.concatenate([normal, indicators], axis=1)

    @property
    def families(self) -> list[str]:
        """What each score (J,) is of."""
        alone = int(self.columns.numbers.sum()) + len(self.columns.indicated) + 1
        directions = self.directions.shape[1]
        counts = {
            "columns": alone,
            "pairs": len(self.pairs),
            "directions": directions,
            "distance": int(directions > 0),
            "places": len(NEAR) * len(self.places),
        }
        return [family for family, count in counts.items() for _ in range(count)]

    @property
    def shares(self) -> np.ndarray:
        """What each score (J,) has of the alarm's level, 1 - LEARNED in all."""
        families = self.families
        each = np.array([SHARES[family] / families.count(family) for family in families])
        return each * (1.0 - LEARNED) / each.sum()


def row_sums(terms: np.ndarray) -> np.ndarray:
    """The sum (n,) of every row of ``terms`` (n, C), each as if there were no other.

    BLAS rounds products of one row otherwise than those of many. Where the true sum is the same for
    all rows, as of a column and its complement, ranks would tell how many rows came at a time.
    """
    return np.asarray(np.ascontiguousarray(terms).sum(axis=1))


def _middle(quantiles: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Heights, at quantiles that are equal the mean of theirs."""
    _, index, counts = np.unique(quantiles, return_inverse=True, return_counts=True)
    return np.asarray((np.bincount(index, weights=heights) / counts)[index])
