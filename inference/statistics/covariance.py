"""Differences of covariances: their distance, and the difference of their effective dimensions.

Two statistics of the covariance matrices S_P and S_Q of scaled columns. The distance
``|S_P - S_Q|^2`` (Frobenius) detects a correlation, or a column that has become wider. The
difference of effective dimensions

    d_g(S_P) - d_g(S_Q),    d_g(S) = tr S (S + g v)^-1,    v = tr S of all rows,

detects small differences in very many directions: whitened by the covariance of each sample, they
add up (as kernel likelihood ratios do: Santoro, Waghmare and Panaretos 2025).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
import scipy.linalg

from ..permutation.null_distribution import in_batches, without_rounding
from ..permutation.pooled_sample import FeatureSums, PooledSample, Request
from .base import Evaluation, NullOptions, Statistic

#: g, the size of negligible eigenvalues of a covariance relative to its trace.
RIDGES = np.array([1e-3, 3e-2, 1.0])
#: Number of columns up to which all are used; otherwise as many leading principal components.
MAX_COLUMNS = 64
#: Number of rows up to which all of more columns are used, by matrices of rows.
MAX_GRAM_ROWS = 400


def _principal_components(rows: np.ndarray) -> np.ndarray:
    """Return the leading right singular vectors (D, r) of centered rows (k, D)."""
    k, dimension = rows.shape
    if k < dimension:  # the matrix of columns would take a time cubic in their number
        return np.asarray(scipy.linalg.svd(rows, full_matrices=False)[2][:MAX_COLUMNS].T)
    leading = dimension - MAX_COLUMNS, dimension - 1
    return np.asarray(scipy.linalg.eigh(rows.T @ rows, subset_by_index=leading)[1])


@dataclasses.dataclass(frozen=True)
class ColumnProducts:
    """Columns and their products, as features, after projection on principal components.

    Attributes:
        center: (D,), subtracted from the columns.
        projection: (D, r); ``None`` to use all columns.
    """

    center: np.ndarray
    projection: np.ndarray | None

    @property
    def rank(self) -> int:
        """Number r of the columns, or of their principal components."""
        return len(self.center) if self.projection is None else self.projection.shape[1]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate columns and products (k, r + r (r + 1) / 2) of rows (k, D)."""
        centered = points - self.center
        columns = centered if self.projection is None else centered @ self.projection
        first, second = np.triu_indices(columns.shape[1])
        return np.concatenate([columns, columns[:, first] * columns[:, second]], axis=1)


@dataclasses.dataclass(frozen=True)
class Covariances(Statistic):
    """The distance of the covariances, and the differences of their effective dimensions.

    Attributes:
        products: features whose sums give the covariances.
        variance: v, the total variance of all rows.
        magnitude: largest effective dimension.
    """

    products: ColumnProducts
    variance: float
    magnitude: float
    component_weights: ClassVar = (
        ("in the distance of covariances", 0.5),
        ("in the dimensions of covariances", 0.5),
    )

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Compute the principal components of the pooled rows."""
        chosen = sample.selection
        center = chosen.counts @ chosen.points / chosen.n_rows
        points, projection = chosen.points - center, None
        if points.shape[1] > MAX_COLUMNS:
            projection = _principal_components(np.sqrt(chosen.counts)[:, None] * points)
        variance = float(chosen.counts @ np.square(points).sum(axis=1)) / chosen.n_rows
        return cls(ColumnProducts(center, projection), variance, float(min(points.shape)))

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the distance and the differences of dimensions, (1 + G, 1 + B)."""
        dimension = sample.points.shape[1]
        if dimension > MAX_COLUMNS and sample.n_rows <= MAX_GRAM_ROWS and sample.is_independent:
            return Evaluation(self._without_rounding(self._by_rows(sample)))
        return super().evaluate(sample)

    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Request the sums of columns and their products."""
        rank = self.products.rank

        def finish(sums: FeatureSums) -> np.ndarray:
            return self._without_rounding(self._by_columns(rank, sample, sums))

        return [Request(self.products, rank + rank * (rank + 1) // 2, finish)]

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Return the distance, and the largest standardized difference of dimensions."""
        differences = null.standardize(values[1:], zero_mean=null.is_balanced)
        return [values[0], np.abs(differences).max(axis=0)]

    def _without_rounding(self, values: np.ndarray) -> np.ndarray:
        magnitudes = [self.variance**2, *[self.magnitude] * len(RIDGES)]
        return np.array(
            [without_rounding(row, size) for row, size in zip(values, magnitudes, strict=True)]
        )

    def _effective_dimensions(self, eigenvalues: np.ndarray) -> np.ndarray:
        """Compute the effective dimensions (G, b) of matrices with eigenvalues (b, r)."""
        eigenvalues = np.maximum(eigenvalues, 0.0)
        ridges = RIDGES * self.variance
        return np.asarray([(eigenvalues / (eigenvalues + ridge)).sum(axis=-1) for ridge in ridges])

    def _by_columns(self, rank: int, sample: PooledSample, sums: FeatureSums) -> np.ndarray:
        """Compute both statistics, (1 + G, 1 + B), by matrices of columns."""
        n_columns, upper = sample.labels.shape[1], np.triu_indices(rank)
        differences = sample.mean_differences(sums.first, sums.total)
        pooled, fraction = sums.total / sample.n_rows, sample.first_fractions

        def matrices(entries: np.ndarray) -> np.ndarray:
            symmetric = np.empty((entries.shape[1], rank, rank))
            symmetric[:, upper[0], upper[1]] = symmetric[:, upper[1], upper[0]] = entries.T
            return symmetric

        def work(columns: slice) -> np.ndarray:
            covariances = []
            for part in (1.0 - fraction[columns], -fraction[columns]):
                moments = pooled[:, None] + part * differences[:, columns]
                mean = moments[:rank].T
                covariances.append(matrices(moments[rank:]) - mean[:, :, None] * mean[:, None, :])
            distance = np.square(covariances[0] - covariances[1]).sum(axis=(1, 2))
            first, second = (
                self._effective_dimensions(np.linalg.eigvalsh(matrix)) for matrix in covariances
            )
            return np.concatenate([distance[None], first - second])

        return in_batches(work, n_columns, 64 * rank**2)

    def _by_rows(self, sample: PooledSample) -> np.ndarray:
        """Compute both statistics, (1 + G, 1 + B), of fewer rows than columns by Gram matrices."""
        points, index = sample.points - self.products.center, np.arange(len(sample.points))
        gram = points @ points.T

        def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            """Return the products (b, n, m) of rows (b, n) with others (b, m), both centered."""
            matrices = gram[first[:, :, None], second[:, None, :]]
            matrices -= matrices.mean(axis=1, keepdims=True)
            matrices -= matrices.mean(axis=2, keepdims=True)
            return np.asarray(matrices / np.sqrt(first.shape[1] * second.shape[1]))

        def work(columns: slice) -> np.ndarray:
            labels = sample.labels[:, columns].T
            P, Q = (
                np.array([np.repeat(index, counts) for counts in rows])
                for rows in (labels, sample.counts - labels)
            )
            first, second = (np.linalg.eigvalsh(products(rows, rows)) for rows in (P, Q))
            squares = np.square(first).sum(axis=1) + np.square(second).sum(axis=1)
            distance = squares - 2.0 * np.square(products(P, Q)).sum(axis=(1, 2))
            dimensions = self._effective_dimensions(first) - self._effective_dimensions(second)
            return np.concatenate([distance[None], dimensions])

        return in_batches(work, sample.labels.shape[1], 32 * int(sample.n_rows) ** 2)
