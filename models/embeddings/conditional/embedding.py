"""The conditional mean embedding: E[l(Y, .) | X = x] as a weighted sample of Y (KME 4.1)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve

from ...kernels.base import Covariance, check_kernel
from ..embedding import Embedding, same_kernel
from .features import Features, as_sample, features, points_like
from .regularisation import CHOICES, choose_regularisation
from .solving import factorised

#: Values of a function below this part of its largest are rounding.
RESOLUTION = 64 * np.finfo(float).eps


@dataclasses.dataclass(frozen=True, repr=False)
class ConditionalEmbedding:
    """The operator C_YX (C_XX + lambda I)^-1 from a sample (CME-1, CME-2).

    At x it is sum_i b_i(x) l(y_i, .) with b(x) = (K + n lambda I)^-1 k_x. The weights may be
    negative and need not sum to one. :func:`conditional_embedding` makes one.

    Attributes:
        features: of X, whose span is what is seen of its Hilbert space.
        Y: (n, E).
        kernel_y: l.
        regularisation: lambda, per row.
    """

    features: Features
    Y: np.ndarray
    kernel_y: Covariance
    regularisation: float

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """The sample of what is conditioned on, (n, D)."""
        return self.features.points

    @property
    def kernel_x(self) -> Covariance:
        """The kernel k of X."""
        return self.features.kernel

    def weights(self, x: ArrayLike) -> np.ndarray:
        """The weights b at each of the points x, (m, n) for shape (m, D), (m,) or one row (D,)."""
        points = points_like(x, self.X, "x")
        return self._weights(self.features(points), np.asarray(self.kernel_x(points, self.X)))

    def weights_of(self, embedding: Embedding) -> np.ndarray:
        """The weights (n,) on Y for an element of X's Hilbert space, such as a prior on X.

        Raises:
            ValueError: it belongs to another kernel, has no points, or only weights of zero.
        """
        coordinates = self.coordinates(embedding)
        values = embedding.weights @ np.asarray(self.kernel_x(embedding.points, self.X))
        return self._weights(coordinates[None], values[None])[0]

    def _weights(self, coordinates: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Weights (m, n) for elements by their coordinates (m, r) and their values at X (m, n).

        What the coordinates leave of the values is at most the root of what the factorisation left,
        which is half the digits; division by n lambda makes it seen.
        """
        weights, Z = self.apply(coordinates), self.features.values
        added = len(self.Y) * self.regularisation
        missed = values - coordinates @ Z.T
        missed[np.abs(missed) <= RESOLUTION * np.abs(values).max(initial=0.0)] = 0.0
        if not (self.features.whole and added and missed.any()):
            return weights
        explained = cho_solve(self._factor, (missed @ Z).T).T @ Z.T
        return np.asarray(weights + (missed - explained) / added)

    def apply(self, coordinates: np.ndarray) -> np.ndarray:
        """Weights (m, n) on Y for elements of X's space by their coordinates alone (m, r)."""
        weights: np.ndarray = cho_solve(self._factor, coordinates.T).T @ self.features.values.T
        return weights

    @functools.cached_property
    def _factor(self) -> tuple[np.ndarray, bool]:
        """The factor of Z'Z + n lambda I: (Z Z' + n lambda I)^-1 Z is Z times its inverse."""
        Z = self.features.values
        added = len(self.Y) * self.regularisation
        what = "the Gram matrix of what is conditioned on"
        return factorised(Z.T @ Z, added, what, "regularisation")

    def __call__(self, x: ArrayLike) -> Embedding:
        """The embedding of Y given X = x, one point.

        Raises:
            ValueError: for more than one point, or one of another number of columns.
        """
        weights = self.weights(x)
        if len(weights) != 1:
            raise ValueError(f"one point is asked for at a time, got {len(weights)}: see weights()")
        return Embedding(self.kernel_y, self.Y, weights[0])

    def expectation(
        self,
        x: ArrayLike,
        function: Callable[[np.ndarray], ArrayLike] | None = None,
        *,
        normalised: bool = True,
    ) -> np.ndarray:
        """E[f(Y) | X = x], sum_i b_i(x) f(y_i) over the sum of the weights.

        Weights may be negative: a probability may come out a little below 0 or above 1, a variance
        below 0. Far from all x_i the sum of :meth:`weights` is near 0, and the result is worthless.

        Args:
            x: shape (m, D), (m,) or one row (D,).
            function: of Y (n, E), with values (n,) or (n, F); Y itself by default.
            normalised: divide by the sum of the weights, so that a constant is its own expectation;
                without, kernel ridge regression of f(Y) on X (CME-2), which shrinks towards zero.

        Returns:
            Shape (m,) or (m, F).

        Raises:
            ArithmeticError: weights that sum to exactly zero, naming the row of x.
        """
        values = self.Y if function is None else np.asarray(function(self.Y), dtype=float)
        if values.ndim == 0 or len(values) != len(self.Y):
            raise ValueError(
                f"the function must return one value or row for each of {len(self.Y)} rows, got "
                f"shape {values.shape}"
            )
        weights = self.weights(x)
        if normalised:
            weights = weights / nonzero_sums(weights, "x")[:, None]
        return weights @ values

    def variance(self, x: ArrayLike) -> np.ndarray:
        """Var[Y | X = x] column by column, (m, E): the conditional mean of squared residuals.

        Of (y_i - m(x_i))^2 / (1 - h_i) with the conditional mean m at the row's own x_i and the
        leverage h_i of the row. E[Y^2 | x] - m(x)^2 would be the difference of two large numbers,
        each with an error of its own. It may still come out negative where rows are few, since
        weights may.

        Args:
            x: shape (m, D), (m,) or one row (D,).
        """
        Z = self.features.values
        across = cho_solve(self._factor, Z.T)
        leverage = np.sum(Z * across.T, axis=1)
        fitted = (Z @ (across @ self.Y)) / (Z @ across.sum(axis=1))[:, None]
        kept = np.maximum(1.0 - leverage, np.finfo(float).eps)
        squares = (self.Y - fitted) ** 2 / kept[:, None]
        return self.expectation(x, lambda _: squares)

    def __repr__(self) -> str:
        return (
            f"ConditionalEmbedding(of {len(self.Y)} pairs, kernel_x={self.kernel_x}, "
            f"kernel_y={self.kernel_y}, regularisation={self.regularisation:.4g})"
        )

    def coordinates(self, embedding: Embedding) -> np.ndarray:
        """Coordinates (r,) of an element of X's Hilbert space, such as a prior on X.

        Raises:
            ValueError: it belongs to another kernel, has no points, or only weights of zero.
        """
        return coordinates_of(embedding, self.features, "the prior")


def conditional_embedding(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    regularisation: str | float = "leave-one-out",
    tolerance: float | None = None,
    rank: int | None = None,
) -> ConditionalEmbedding:
    """Learn the conditional mean embedding of Y given X from pairs of rows (CME-2).

    Args:
        X: what is conditioned on, shape (n, D) or (n,).
        Y: row by row with X, shape (n, E) or (n,).
        kernel_x: k.
        kernel_y: l.
        regularisation: lambda, per row: n lambda is added to the Gram matrix of X. 0 takes the
            pseudo-inverse, for kernels with fewer features than there are rows. Or how it is
            chosen: ``"leave-one-out"`` and ``"marginal-likelihood"``, see
            :func:`choose_regularisation`.
        tolerance: of the incomplete Cholesky factorisation of the Gram matrix, see
            :func:`~bke.models.embeddings.conditional.features.features`; rounding by default.
        rank: likewise, its largest rank.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    check_kernel(kernel_x, "kernel_x")
    check_kernel(kernel_y, "kernel_y")
    outputs = np.asarray(as_sample(Y, "Y"))
    inputs = np.asarray(as_sample(X))
    if len(inputs) != len(outputs):
        raise ValueError(
            f"X has {len(inputs)} rows and Y has {len(outputs)}, where pairs are needed"
        )
    of_x = features(inputs, kernel_x, tolerance=tolerance, rank=rank)
    if isinstance(regularisation, str):
        if regularisation not in CHOICES:
            raise ValueError(
                f"regularisation must be a number or one of {CHOICES}, got {regularisation!r}"
            )
        of_y = features(outputs, kernel_y, tolerance=tolerance, rank=rank)
        regularisation = choose_regularisation(of_x.values, of_y.values, regularisation).value
    check_regularisation(regularisation, "regularisation")
    return ConditionalEmbedding(of_x, outputs, kernel_y, float(regularisation))


def nonzero_sums(weights: np.ndarray, name: str) -> np.ndarray:
    """Sums (m,) of the rows of ``weights``.

    Raises:
        ArithmeticError: one is zero.
    """
    sums: np.ndarray = weights.sum(axis=1)
    if np.any(sums == 0.0):
        row = int(np.argmax(sums == 0.0)) + 1
        raise ArithmeticError(
            f"row {row} of {name} is so far from the sample that its weights are zero"
        )
    return sums


def check_regularisation(value: Any, name: str) -> None:
    """Refuse what is no number of at least 0."""
    number = np.ndim(value) == 0 and not isinstance(value, (bool, str)) and value is not None
    if not number or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")


def coordinates_of(embedding: Embedding, features: Features, name: str) -> np.ndarray:
    """Coordinates (r,) of an embedding in ``features``, refused where it is nothing."""
    if not isinstance(embedding, Embedding):
        raise ValueError(
            f"{name} must be an Embedding, got {type(embedding).__name__}: mean_embedding makes "
            "one of a sample"
        )
    if embedding.measure is not None:
        raise ValueError(f"{name} has smoothed sections, where a weighted sample is needed")
    if not same_kernel(embedding.kernel, features.kernel):
        raise ValueError(
            f"{name} is an embedding by {embedding.kernel}, where one by {features.kernel} is "
            "needed"
        )
    points = points_like(embedding.points, features.points, name)
    weights = np.asarray(embedding.weights, dtype=float)
    if len(weights) == 0 or not np.any(weights):
        raise ValueError(f"{name} has no weights that are not zero")
    if not np.all(np.isfinite(weights)):
        raise ValueError(f"{name} has weights that are not finite")
    return weights @ features(points)
