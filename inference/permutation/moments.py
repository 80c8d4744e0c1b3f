"""Moments of features over two samples: the difference of their means and its covariance.

With z = N sqrt(f (1 - f)) (mean_P e - mean_Q e), for N rows, the fraction f of the first sample and
features e, and a difference with coefficients c along centered features, the mean of z is ``Q c``,
where Q is the sum of products of centered features. For independent rows with equal weights the
covariance of z under P = Q is Q as well, up to N / (N - 1). For pairs and for weighted rows it is
another matrix T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Moments of k features.

    Attributes:
        differences: z, (k, 1 + B), for the observed and the permuted labels.
        mean: (k,), over all rows.
        products: Q, (k, k).
        n_rows: N, or the effective number of weighted rows.
        error_covariance: T, (k, k); ``None`` if it is proportional to Q.
        observed_excess: (k, k), excess of the covariance of the observed z over T, for
            weighted rows; ``None`` if it does not.
        n_known: number of independent rows or pairs from which T is estimated.
    """

    differences: np.ndarray
    mean: np.ndarray
    products: np.ndarray
    n_rows: float
    error_covariance: np.ndarray | None = None
    observed_excess: np.ndarray | None = None
    n_known: float = 0.0

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (k, k) of z under P = Q."""
        if self.error_covariance is not None:
            return self.error_covariance
        return self.products * (self.n_rows / (self.n_rows - 1.0))

    @classmethod
    def of_rows(
        cls,
        differences: np.ndarray,
        total: np.ndarray,
        products: np.ndarray,
        n_rows: float,
        first_fraction: float | np.ndarray,
    ) -> Moments:
        """Return the moments of independent rows with equal weights.

        Args:
            differences: differences of means, (k, 1 + B).
            total: sum of features, (k,).
            products: sum of products of features, not centered, (k, k).
            n_rows: N.
            first_fraction: f; for each permutation, (1 + B,), if it varies.
        """
        unit = n_rows * np.sqrt(first_fraction * (1.0 - first_fraction))
        centered = products - np.outer(total, total) / n_rows
        return cls(unit * differences, total / n_rows, centered, n_rows)

    @classmethod
    def of_pairs(cls, first: np.ndarray, second: np.ndarray, signs: np.ndarray) -> Moments:
        """Return the moments of pairs of rows.

        Args:
            first: features (m, k) of the rows of the first sample.
            second: features of their partners.
            signs: (m, 1 + B), -1 for exchanged pairs.
        """
        sums = PairSums(first.shape[1], signs.shape[1])
        sums.add(first, second, signs)
        return sums.moments()


class PairSums:
    """Sums of features over pairs, which are added in blocks.

    The covariance of ``sum_i s_i (e(x_i) - e(y_i))``, with signs s, is the sum of products of the
    differences; exchanges do not change it.

    Args:
        width: k, number of features.
        n_columns: 1 + B.
    """

    def __init__(self, width: int, n_columns: int) -> None:
        self._pairs, self._total = 0, np.zeros(width)
        self._products, self._covariance = np.zeros((2, width, width))
        self._differences = np.zeros((width, n_columns))

    def add(self, first: np.ndarray, second: np.ndarray, signs: np.ndarray) -> None:
        """Add features (r, k) of rows and of their partners, with signs (r, 1 + B)."""
        difference = first - second
        self._pairs += len(first)
        self._total += first.sum(axis=0) + second.sum(axis=0)
        self._products += first.T @ first + second.T @ second
        self._covariance += difference.T @ difference
        self._differences += difference.T @ signs

    def moments(self) -> Moments:
        """Return the moments."""
        mean = self._total / (2 * self._pairs)
        products = self._products - 2 * self._pairs * np.outer(mean, mean)
        return Moments(
            self._differences,
            mean,
            products,
            2.0 * self._pairs,
            self._covariance,
            n_known=self._pairs,
        )


class WeightedSums(NamedTuple):
    """Sums of features over the rows of two samples with weights.

    Attributes:
        means: (2, k), means of features.
        squares: (2, k, k), sums of products of features times the squared weights of their rows.
        sums: (2, k), sums of features times squared weights.
        totals: (2,), sums of squared weights.
    """

    means: np.ndarray
    squares: np.ndarray
    sums: np.ndarray
    totals: np.ndarray

    @classmethod
    def empty(cls, width: int) -> WeightedSums:
        """Return the sums over no rows."""
        zeros = np.zeros((2, width))
        return cls(zeros, np.zeros((2, width, width)), zeros, np.zeros(2))

    def plus(self, features: np.ndarray, weights: np.ndarray, squares: np.ndarray) -> WeightedSums:
        """Add rows with features (r, k), weights (r, 2) and squared weights (r, 2)."""
        products = [sum_of_products(features, column) for column in squares.T]
        return WeightedSums(
            self.means + weights.T @ features,
            self.squares + np.array(products),
            self.sums + squares.T @ features,
            self.totals + squares.sum(axis=0),
        )

    @property
    def effective_sizes(self) -> np.ndarray:
        """Effective number of rows of each sample, (2,)."""
        return np.asarray(1.0 / self.totals)

    def covariance(self) -> np.ndarray:
        """Return the covariance (k, k) of the difference of means under P = Q.

        It is that about the mean of all rows, as for flipped signs. About the means of the samples
        it would be too small.
        """
        sizes = self.effective_sizes
        mean = sizes @ self.means / sizes.sum()
        cross = np.outer(mean, self.sums.sum(axis=0))
        return np.asarray(
            self.squares.sum(axis=0) - cross - cross.T + self.totals.sum() * np.outer(mean, mean)
        )

    def moments(
        self,
        differences: np.ndarray,
        total: np.ndarray,
        products: np.ndarray,
        observed: WeightedSums | None = None,
    ) -> Moments:
        """Return the moments of weighted rows, as many as the effective number.

        Args:
            differences: differences of means, (k, 1 + B).
            total: sum of features, with effective counts, (k,).
            products: sum of products of features, not centered, with effective counts, (k, k).
            observed: sums by the rows of each sample, if these are by the rows of both.
        """
        m, n = self.effective_sizes
        n_rows, unit = m + n, np.sqrt(m * n)
        covariance = unit**2 * self.covariance()
        excess = None if observed is None else unit**2 * observed.covariance() - covariance
        centered = products - np.outer(total, total) / n_rows
        return Moments(
            unit * differences, total / n_rows, centered, n_rows, covariance, excess, min(m, n)
        )


def sum_of_products(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum the products (k, k) of features (r, k) over rows with weights (r,) of at least 0.

    The product of a matrix with its own transpose takes half the time of another one.
    """
    scaled = features * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)
