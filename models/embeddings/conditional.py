"""Conditional mean embeddings: E[l(Y, .) | X = x] as a weighted sample of Y.

Muandet et al. (2017, section 4.1).

A Gram matrix is Z Z' with features Z (n, r) of its numerical rank, by incomplete Cholesky
factorization, so that an operator on the Hilbert space is an r x r matrix: exact up to
rounding at full rank, an approximation of known error below. Evaluated eagerly, in NumPy.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from ..kernels.base import (
    Covariance,
    as_points,
    check_kernel,
    check_same_columns,
    column_names,
)
from ..kernels.covariance import as_numbers, as_pairs, column_order
from ..linalg.pivoted_cholesky import dense_pivoted_cholesky, rowwise_pivoted_cholesky
from ..linalg.precision import double_precision
from .embedding import Embedding, function_values, same_kernel


@dataclasses.dataclass(frozen=True, repr=False)
class LowRankFeatures:
    """Coordinates z(x) (r,) with ``k(x, y) = z(x)' z(y)``, up to the factorization's remainder.

    The basis is the orthonormal one that Gram and Schmidt make of the sections at the pivots, so
    that z(x) is the projection of k(x, .) onto their span for every x.

    Attributes:
        kernel: k.
        points: the sample, (n, D).
        pivots: rows of the sample whose sections span the features, (r, D).
        root: the lower Cholesky factor of the Gram matrix of the pivots, (r, r).
        values: z of the sample, (n, r).
        tolerance: the tolerance that was requested.
        max_rank: the largest rank that was requested.
        exact: ``True`` if the remainder is rounding error only.
        columns: names of the D columns, by which those of data frames are matched; ``None`` if
            they have none.
    """

    kernel: Covariance
    points: np.ndarray
    pivots: np.ndarray
    root: np.ndarray
    values: np.ndarray
    tolerance: float | None = None
    max_rank: int | None = None
    exact: bool = False
    columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"LowRankFeatures({self.rank} of {len(self.points)} rows, kernel={self.kernel})"

    @property
    def rank(self) -> int:
        """The number of features, r."""
        return len(self.pivots)

    def __call__(self, X: ArrayLike, name: str = "x") -> np.ndarray:
        """Return the coordinates z of X, (m, r) for shape (m, D), (m,) or one row (D,)."""
        points = matching_points(X, self.points, name, self.columns)
        gram = np.asarray(self.kernel(self.pivots, points))
        return np.asarray(solve_triangular(self.root, gram, lower=True).T)

    def coordinates(self, embedding: Embedding, name: str = "the prior") -> np.ndarray:
        """Return the coordinates (r,) of an element of the Hilbert space, such as a prior.

        Raises:
            ValueError: it has another kernel, smoothed sections, or no finite nonzero weights.
        """
        if not isinstance(embedding, Embedding) or embedding.measure is not None:
            raise ValueError(
                f"{name} must be an Embedding of a weighted sample (mean_embedding makes one), "
                f"without smoothed sections, got {embedding!r}"
            )
        if not same_kernel(embedding.kernel, self.kernel):
            raise ValueError(
                f"{name} is an embedding by {embedding.kernel}, where one by {self.kernel} is "
                "needed"
            )
        check_same_columns(self.columns, embedding.columns, "the sample", name)
        weights = np.asarray(embedding.weights, dtype=float)
        if not (np.any(weights) and np.all(np.isfinite(weights))):
            raise ValueError(
                f"{name} has no weights that are not zero, or some that are not finite"
            )
        return weights @ self(embedding.points, name)


def low_rank_features(
    X: ArrayLike,
    kernel: Covariance,
    *,
    tolerance: float | None = None,
    rank: int | None = None,
    dense_rows: int = 5000,
    max_rank: int = 2000,
) -> LowRankFeatures:
    """Compute the features of a sample, in the order of the pivots of the factorization.

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        tolerance: the largest diagonal entry of the remainder, over the largest of the Gram
            matrix; n times the machine epsilon by default, which is rounding error.
        rank: the largest rank; by default the number of rows, ``max_rank`` beyond ``dense_rows``.
        dense_rows: number of rows up to which the Gram matrix may be formed (200 MiB at 5000).
        max_rank: see ``rank``; not tuned.

    Raises:
        ValueError: for an invalid argument, or a kernel that is zero at every row.
    """
    check_kernel(kernel, "kernel")
    points = np.asarray(as_numpy_points(X))
    n = len(points)
    if n == 0:
        raise ValueError("features need at least 1 row")
    if rank is not None and (isinstance(rank, bool) or int(rank) != rank or rank < 1):
        raise ValueError(f"rank must be a whole number of at least 1, got {rank!r}")
    if tolerance is not None and not 0.0 <= tolerance < 1.0:
        raise ValueError(f"tolerance must be at least 0 and below 1, got {tolerance!r}")
    largest_rank = min(n, rank if rank is not None else n if n <= dense_rows else max_rank)
    diagonal = np.asarray(double_precision(kernel.diagonal)(points))  # type: ignore[arg-type]
    if not diagonal.max() > 0.0:
        raise ValueError("the kernel is zero at every row")
    threshold = (n * np.finfo(float).eps if tolerance is None else tolerance) * diagonal.max()
    if n <= dense_rows and largest_rank > n // 8:
        gram = np.asarray(kernel(points))
        values, pivots = dense_pivoted_cholesky(gram, threshold, largest_rank)
    else:
        values, pivots = rowwise_pivoted_cholesky(
            lambda i: np.asarray(kernel(points[i : i + 1], points))[0],
            diagonal,
            threshold,
            largest_rank,
        )
    exact = tolerance is None and (len(pivots) < largest_rank or largest_rank == n)
    root = np.tril(values[pivots])
    return LowRankFeatures(
        kernel, points, points[pivots], root, values, tolerance, rank, exact, column_names(X)
    )


#: :func:`~bke.models.kernels.base.as_points` in NumPy, whatever the precision of JAX.
as_numpy_points: Callable[..., Any] = double_precision(as_points)
#: :func:`~bke.models.kernels.covariance.as_pairs` in NumPy, whatever the precision of JAX.
as_numpy_pairs: Callable[..., Any] = double_precision(as_pairs)


def matching_points(
    X: Any, sample: np.ndarray, name: str, columns: tuple[str, ...] | None = None
) -> np.ndarray:
    """Return X in NumPy with the columns of ``sample``; one row may have shape (D,).

    Args:
        X: shape (m, D), (m,) or (D,), a row of which pandas has the columns' names as labels.
        sample: shape (n, D).
        name: name of X in messages.
        columns: names of the columns of ``sample``, or ``None``.

    Raises:
        ValueError: the number or the names of the columns differ.
    """
    values, names = as_numbers(X, name), column_names(X)
    if values.shape == sample.shape[1:] and sample.shape[1] > 1:
        values, labels = values[None], getattr(X, "index", None)
        names = None if labels is None or callable(labels) else tuple(map(str, labels))
    order = column_order(names, columns, name, "the sample")
    values = values if order is None else values[:, order]
    points = np.asarray(as_numpy_points(np.atleast_1d(values), name))
    if points.shape[1] != sample.shape[1]:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, where the sample has {sample.shape[1]}"
        )
    return points


def regularized_cholesky(
    matrix: np.ndarray, added: float, description: str, name: str, singular: float = 1e-13
) -> tuple[np.ndarray, bool]:
    """Compute the Cholesky factor of ``matrix + added I``, for SciPy's ``cho_solve``.

    Args:
        matrix: shape (r, r), symmetric and positive semi-definite up to rounding.
        added: regularization.
        description: name of the matrix in the error message.
        name: argument to increase, for the error message.
        singular: squared ratio of the smallest to the largest diagonal entry of the factor below
            which solutions are rounding error.

    Raises:
        ArithmeticError: the matrix is singular to rounding.
    """
    try:
        factor: tuple[np.ndarray, bool] = cho_factor(matrix + added * np.eye(len(matrix)))
        pivots = np.abs(np.diagonal(factor[0]))
        if (pivots.min() / pivots.max()) ** 2 > singular:
            return factor
    except LinAlgError:
        pass
    raise ArithmeticError(
        f"{description} is singular to rounding: raise {name}, which is too small"
    )


class RidgeSpectrum:
    """Leave-one-out error and marginal likelihood of kernel ridge regression, for any lambda.

    The regression is of features of Y on features of X.

    With Z_X = U S V' every score costs O(n (r + q)), whatever the regularization.

    Args:
        features_x: Z_X, (n, r), with Z_X Z_X' the Gram matrix K of X.
        features_y: Z_Y, (n, q), with Z_Y Z_Y' the Gram matrix L of Y.
    """

    def __init__(self, features_x: np.ndarray, features_y: np.ndarray) -> None:
        self.left, singular_values, _ = np.linalg.svd(features_x, full_matrices=False)
        self.eigenvalues = singular_values**2
        self.outputs = features_y
        self.projected = self.left.T @ features_y

    def leave_one_out(self, added: float) -> float:
        """Compute the mean squared distance of l(y_j, .) to its leave-one-out prediction.

        Muandet et al. (2017, section 4.2): (1/n) sum_j (W L W)_jj / W_jj^2 with W = (K + n lambda
        I)^-1 and n lambda = ``added`` as with all rows: the residuals of ridge regression over one
        minus their leverage.
        """
        shrinkage = self.eigenvalues / (self.eigenvalues + added)
        residuals = self.outputs - self.left @ (shrinkage[:, None] * self.projected)
        scale = 1.0 - self.left**2 @ shrinkage
        return float(np.mean(np.sum(residuals**2, axis=1) / scale**2))

    def negative_log_marginal_likelihood(self, added: float) -> float:
        """Compute -2/q times the log marginal likelihood of q outputs, up to a constant.

        n log tr(W L) - log|W|: the features of Y as independent Gaussian processes of x with
        covariance a (K + n lambda I), a at its maximum. Their number q only multiplies the
        logarithm, so it need not be known.
        """
        shrinkage = self.eigenvalues / (self.eigenvalues + added)
        total = np.sum(self.outputs**2) - np.sum(shrinkage[:, None] * self.projected**2)
        # tr(W L) = total / added, and log|K + added I| = log_determinant + n log added.
        log_determinant = np.sum(np.log1p(self.eigenvalues / added))
        n = len(self.outputs)
        return float(n * np.log(max(total, np.finfo(float).tiny)) + log_determinant)


REGULARIZATION_SCORES = {
    "leave-one-out": RidgeSpectrum.leave_one_out,
    "marginal-likelihood": RidgeSpectrum.negative_log_marginal_likelihood,
}


def choose_regularization(
    features_x: np.ndarray,
    features_y: np.ndarray,
    choice: str,
    *,
    bounds: tuple[float, float] = (1e-12, 10.0),
    grid_size: int = 53,
) -> tuple[float, float]:
    """Find the regularization lambda with the lowest score.

    Args:
        features_x: Z_X, (n, r) with Z_X Z_X' the Gram matrix of X.
        features_y: Z_Y, (n, q).
        choice: ``"leave-one-out"`` or ``"marginal-likelihood"``, see :class:`RidgeSpectrum`.
        bounds: of n lambda over the trace of K; below, the system would be singular to rounding.
        grid_size: values on a logarithmic grid, the best of which is refined; not tuned.

    Returns:
        lambda, per row, and its score.
    """
    spectrum = RidgeSpectrum(features_x, features_y)
    low, high = np.log(bounds) + np.log(np.sum(features_x**2))
    grid = np.linspace(low, high, grid_size)

    def score(log_added: float) -> float:
        return REGULARIZATION_SCORES[choice](spectrum, float(np.exp(log_added)))

    scores = [score(log_added) for log_added in grid]
    best = int(np.argmin(scores))
    neighbors = (grid[max(best - 1, 0)], grid[min(best + 1, grid_size - 1)])
    refined = minimize_scalar(score, bounds=neighbors, method="bounded")
    candidates = [(float(grid[best]), scores[best]), (float(refined.x), float(refined.fun))]
    log_added, lowest = min(candidates, key=lambda candidate: candidate[1])
    return float(np.exp(log_added)) / len(features_x), lowest


@dataclasses.dataclass(frozen=True, repr=False)
class ConditionalEmbedding:
    """The operator C_YX (C_XX + lambda I)^-1 from a sample.

    Muandet et al. (2017, eq. 4.7 and 4.8). At x it is sum_i b_i(x) l(y_i, .) with b(x) = (K + n
    lambda I)^-1 k_x. The weights may be negative and need not sum to one.
    :func:`conditional_embedding` makes one.

    Attributes:
        features: of X.
        Y: (n, E).
        kernel_y: l.
        regularization: lambda, per row.
        columns_y: names of the columns of Y; ``None`` without names. The features have the names
            of the columns of X.
    """

    features: LowRankFeatures
    Y: np.ndarray
    kernel_y: Covariance
    regularization: float
    columns_y: tuple[str, ...] | None = None

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """The sample of the conditioning variable, (n, D)."""
        return self.features.points

    @property
    def kernel_x(self) -> Covariance:
        """The kernel k of X."""
        return self.features.kernel

    def weights(self, x: ArrayLike) -> np.ndarray:
        """Return the weights b at the points x, (m, n) for shape (m, D), (m,) or one row (D,)."""
        points = self._points(x)
        return self._weights(self.features(points), np.asarray(self.kernel_x(points, self.X)))

    def _points(self, x: ArrayLike) -> np.ndarray:
        return matching_points(x, self.X, "x", self.features.columns)

    def weights_of(self, embedding: Embedding) -> np.ndarray:
        """Return the weights (n,) on Y for an element of X's Hilbert space, such as a prior on X.

        Raises:
            ValueError: it has another kernel, smoothed sections, or no finite nonzero weights.
            ArithmeticError: it is a distribution so far from the sample that the weights vanish.
        """
        coordinates = self.features.coordinates(embedding)
        values = embedding.weights @ np.asarray(self.kernel_x(embedding.points, self.X))
        weights = self._weights(coordinates[None], values[None])[0]
        if np.all(np.asarray(embedding.weights) >= 0.0):
            typical = float(np.sum(embedding.weights)) * self._typical_sum
            check_weight_sums(weights[None], typical, embedding.points, self.X, "the prior")
        return weights

    @functools.cached_property
    def _typical_sum(self) -> float:
        """The median over the sample's rows of the sums of the weights there, often near 1."""
        Z = self.features.values
        return float(np.median(Z @ cho_solve(self._factor, Z.sum(axis=0))))

    def _weights(self, coordinates: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Compute weights (m, n) from coordinates (m, r) and values at X (m, n).

        The part of the values that the coordinates miss is at most the root of the factorization's
        remainder, which is half the digits; division by n lambda makes it matter.
        """
        weights, Z = self.apply(coordinates), self.features.values
        added = len(self.Y) * self.regularization
        missed = values - coordinates @ Z.T
        resolution = 64 * np.finfo(float).eps  # values below, over the largest, are rounding error
        missed[np.abs(missed) <= resolution * np.abs(values).max(initial=0.0)] = 0.0
        if not (self.features.exact and added and missed.any()):
            return weights
        explained = cho_solve(self._factor, (missed @ Z).T).T @ Z.T
        return np.asarray(weights + (missed - explained) / added)

    def apply(self, coordinates: np.ndarray) -> np.ndarray:
        """Return weights (m, n) on Y for elements of X's space by their coordinates (m, r)."""
        return cho_solve(self._factor, coordinates.T).T @ self.features.values.T

    @functools.cached_property
    def _factor(self) -> tuple[np.ndarray, bool]:
        """The factor of Z'Z + n lambda I: (Z Z' + n lambda I)^-1 Z is Z times its inverse."""
        Z, added = self.features.values, len(self.Y) * self.regularization
        description = "the Gram matrix of the conditioning variable"
        return regularized_cholesky(Z.T @ Z, added, description, "regularization")

    def __call__(self, x: ArrayLike) -> Embedding:
        """Return the embedding of Y given X = x, one point.

        Raises:
            ValueError: for more than one point, or other columns.
            ArithmeticError: the point is so far from the sample that the weights vanish.
        """
        points = self._points(x)
        if len(points) != 1:
            raise ValueError(f"x must be one point, got {len(points)}: use weights() for several")
        weights = self.weights(x)
        check_weight_sums(weights, self._typical_sum, points, self.X, "x")
        return Embedding(self.kernel_y, self.Y, weights[0], columns=self.columns_y)

    def expectation(
        self,
        x: ArrayLike,
        function: Callable[[np.ndarray], ArrayLike] | None = None,
        *,
        normalized: bool = True,
    ) -> np.ndarray:
        """Estimate E[f(Y) | X = x] by sum_i b_i(x) f(y_i) over the sum of the weights.

        Weights may be negative: a probability may come out a little below 0 or above 1, a variance
        below 0. Far from all x_i the sum of :meth:`weights` falls to 0, and the result is that of
        the nearest rows.

        Args:
            x: shape (m, D), (m,) or one row (D,).
            function: of Y (n, E), with values (n,) or (n, F); Y itself by default.
            normalized: divide by the sum of the weights, so that a constant is its own expectation;
                without, kernel ridge regression of f(Y) on X, which shrinks towards zero.

        Returns:
            Shape (m,) or (m, F).

        Raises:
            ArithmeticError: a row is so far from the sample that its weights sum to a millionth of
                their sum at the sample's own rows, or less: some five lengthscales.
        """
        values = self.Y if function is None else np.asarray(function_values(function, self.Y))
        weights = self.weights(x)
        if normalized:
            check_weight_sums(weights, self._typical_sum, self._points(x), self.X, "x")
            weights = weights / weights.sum(axis=1, keepdims=True)
        return weights @ values

    def variance(self, x: ArrayLike) -> np.ndarray:
        """Estimate Var[Y | X = x] by column, (m, E): the conditional mean of squared residuals.

        The residuals are (y_i - m(x_i))^2 / (1 - h_i) with the conditional mean m at the row's own
        x_i and the leverage h_i. E[Y^2 | x] - m(x)^2 would be the difference of two large numbers
        with errors. A variance may come out negative where rows are few, since
        weights may.

        Args:
            x: shape (m, D), (m,) or one row (D,).
        """
        Z = self.features.values
        smoother = cho_solve(self._factor, Z.T)
        leverage = np.sum(Z * smoother.T, axis=1)
        fitted = (Z @ (smoother @ self.Y)) / (Z @ smoother.sum(axis=1))[:, None]
        scale = np.maximum(1.0 - leverage, np.finfo(float).eps)
        squares = (self.Y - fitted) ** 2 / scale[:, None]
        return self.expectation(x, lambda _: squares)

    def __repr__(self) -> str:
        return (
            f"ConditionalEmbedding(of {len(self.Y)} pairs, kernel_x={self.kernel_x}, "
            f"kernel_y={self.kernel_y}, regularization={self.regularization:.4g})"
        )


def conditional_embedding(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    regularization: str | float = "leave-one-out",
    tolerance: float | None = None,
    rank: int | None = None,
) -> ConditionalEmbedding:
    """Learn the conditional mean embedding of Y given X from pairs of rows.

    Muandet et al. (2017, eq. 4.8).

    Args:
        X: the conditioning variable, shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: k.
        kernel_y: l.
        regularization: lambda, per row: n lambda is added to the Gram matrix of X. 0 takes the
            pseudo-inverse, for kernels with fewer features than there are rows. Or a criterion to
            choose it by: ``"leave-one-out"`` or ``"marginal-likelihood"``, see
            :func:`choose_regularization`.
        tolerance: for the incomplete Cholesky factorization of the Gram matrix, see
            :func:`~bke.models.embeddings.conditional.low_rank_features`; rounding error by default.
        rank: largest rank of the factorization.

    Raises:
        ValueError: for an invalid argument.
    """
    check_kernel(kernel_x, "kernel_x")
    check_kernel(kernel_y, "kernel_y")
    _, outputs = as_numpy_pairs(X, Y)
    features_x = low_rank_features(X, kernel_x, tolerance=tolerance, rank=rank)
    if isinstance(regularization, str):
        if regularization not in REGULARIZATION_SCORES:
            raise ValueError(
                f"regularization must be a number or one of {tuple(REGULARIZATION_SCORES)}, got "
                f"{regularization!r}"
            )
        features_y = low_rank_features(outputs, kernel_y, tolerance=tolerance, rank=rank)
        regularization, _ = choose_regularization(
            features_x.values, features_y.values, regularization
        )
    value = check_regularization(regularization, "regularization")
    return ConditionalEmbedding(features_x, outputs, kernel_y, value, column_names(Y))


def check_weight_sums(
    weights: np.ndarray, typical: float, points: Any, sample: np.ndarray, name: str
) -> None:
    """Refuse points so far from the sample that their weights sum to nearly zero.

    Args:
        weights: weights at the points, (m, n).
        typical: sum of the weights at a row of the sample.
        points: (m, D); more than m for a single row of weights.
        sample: (n, D).
        name: name of the points in messages.

    Raises:
        ArithmeticError: a sum is at most 1e-6 of the typical sum, or 1e-9 of the sum of the
            absolute weights.
    """
    totals = weights.sum(axis=1)
    smallest = np.maximum(1e-6 * abs(typical), 1e-9 * np.abs(weights).sum(axis=1))
    vanishing = ~(totals > smallest)
    if not vanishing.any():
        return
    row = int(np.argmax(vanishing))
    points = np.asarray(points)
    subject = f"row {row + 1} of {name}" if len(points) == len(weights) > 1 else name
    distances = cdist(points[row : row + 1] if len(points) == len(weights) else points, sample)
    raise ArithmeticError(
        f"{subject} is too far from the sample: the weights sum to {totals[row]:.2g}, against "
        f"{typical:.2g} at the sample's rows, and the nearest of these is at a distance of "
        f"{distances.min():.3g}; leave it out, or widen the kernel"
    )


def check_regularization(value: Any, name: str) -> float:
    """Return a number of at least 0 as a float.

    Raises:
        ValueError: for anything else.
    """
    number = np.ndim(value) == 0 and not isinstance(value, (bool, str)) and value is not None
    if not number or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")
    return float(value)
