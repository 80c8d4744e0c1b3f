"""How much weight each sample has around a point, at any scale."""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from scipy.spatial import cKDTree

from ..permutation.pooled_sample import BLOCK, PooledSample
from ..statistics.kernels import squared_exponential as kernel


@dataclasses.dataclass(frozen=True)
class Weighing:
    """Rows of two samples that weigh by how near they are.

    Attributes:
        points: (C, D), in the units of the data.
        each: (C, 2), how much of each sample is at every point, 1 in all.
        worth: (2,), how many rows of one weight each sample is worth.
        independent: whether rows are independent of each other, as errors of means assume.
    """

    points: np.ndarray
    each: np.ndarray
    worth: np.ndarray
    independent: bool = True

    @classmethod
    def of(cls, rows: PooledSample) -> Self:
        """That of pooled rows, with the labels as they are."""
        return cls(
            rows.points * rows.scale,
            rows.weights,
            rows.effective_sizes,
            rows.permutation_type != "samples",
        )

    @property
    def range(self) -> np.ndarray:
        """The smallest and the largest value of every column, (2, D)."""
        return np.stack([self.points.min(axis=0), self.points.max(axis=0)])

    def spans(self, points: np.ndarray) -> np.ndarray:
        """Which of ``points`` (m, D) are within the range of the rows in every column."""
        low, high = self.range
        return np.asarray(((points >= low) & (points <= high)).all(axis=1))

    def nearest(self, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """How far from ``points`` (m, D) the nearest row is, (m,), in scales (D,)."""
        return np.asarray(cKDTree(self.points / scale).query(points / scale)[0])

    def at(self, points: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weigh both samples' rows around points (m, D), at a scale (D,).

        Returns:
            mean weights (m, 2), and by how many standard errors (m,) the first one's is larger, as
            if rows were independent; 0 where no row is near.
        """
        means, squares = np.zeros((2, len(points), 2))
        for start in range(0, len(self.points), BLOCK):
            here = slice(start, start + BLOCK)
            near = kernel(points / scale, self.points[here] / scale, 1.0)
            means += near @ self.each[here]
            squares += np.square(near) @ self.each[here]
        errors = np.sqrt(np.maximum(squares - means**2, 0.0) @ (1.0 / self.worth))
        apart = means[:, 0] - means[:, 1]
        return means, np.divide(apart, errors, out=np.zeros_like(apart), where=errors > 0.0)
