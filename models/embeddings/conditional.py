"""Conditional mean embeddings in low-rank features of the sample (KME 4.1, APX-6)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.optimize import minimize_scalar

from ..kernels.base import Covariance, as_points, check_kernel
from ..linalg.precision import double_precision
from .embedding import Embedding, same_kernel

#: Rows up to which the whole Gram matrix is formed (200 MiB).
DENSE_ROWS = 5000
#: Rank at most beyond, where none is asked for.
MOST_RANK = 2000


@dataclasses.dataclass(frozen=True, repr=False)
class LowRankFeatures:
    """Coordinates z(x) (r,) with ``k(x, y) = z(x)' z(y)``, up to what the factorization left.

    They are those of the orthonormal basis of the sections at the pivots that Gram and Schmidt
    make, so that for any x z(x) is the projection of k(x, .) onto their span.

    Attributes:
        kernel: k.
        points: (n, D), the sample.
        pivots: rows of the sample whose sections span them, (r, D).
        root: (r, r), the lower Cholesky factor of the Gram matrix of the pivots.
        values: (n, r), z of the sample.
        remainder: trace of what is left of the Gram matrix over its trace.
        tolerance: as it was asked for.
        limit: of the rank, likewise.
        whole: whether what is left is rounding, and nothing that was asked to be left.
    """

    kernel: Covariance
    points: np.ndarray
    pivots: np.ndarray
    root: np.ndarray
    values: np.ndarray
    remainder: float
    tolerance: float | None = None
    limit: int | None = None
    whole: bool = False

    def __repr__(self) -> str:
        return f"LowRankFeatures({self.rank} of {len(self.points)} rows, kernel={self.kernel})"

    @property
    def rank(self) -> int:
        """How many there are."""
        return len(self.pivots)

    def __call__(self, X: ArrayLike, name: str = "x") -> np.ndarray:
        """The coordinates z of the points X, (m, r) for shape (m, D), (m,) or one row (D,)."""
        points = matching_points(X, self.points, name)
        across = np.asarray(self.kernel(self.pivots, points))
        return np.asarray(solve_triangular(self.root, across, lower=True).T)


def low_rank_features(
    X: ArrayLike, kernel: Covariance, *, tolerance: float | None = None, rank: int | None = None
) -> LowRankFeatures:
    """The features of a sample, in the order of pivots of incomplete Cholesky factorization.

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        tolerance: the largest diagonal entry of what may be left, over the largest of the Gram
            matrix; n times the precision of numbers by default, which is rounding.
        rank: at most so many; the number of rows by default, 2000 beyond 5000 rows.

    Raises:
        ValueError: for arguments that make no sense, or a kernel that is zero at every row.
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
    allowed = n * np.finfo(float).eps if tolerance is None else tolerance
    most = min(n, rank if rank is not None else n if n <= DENSE_ROWS else MOST_RANK)
    diagonal = np.asarray(diagonal_of(kernel, points))
    if not diagonal.max() > 0.0:
        raise ValueError("the kernel is zero at every row")
    if n <= DENSE_ROWS and most > n // 8:
        values, pivots = _of_matrix(np.asarray(kernel(points)), allowed * diagonal.max(), most)
    else:
        values, pivots = _by_rows(kernel, points, diagonal, allowed * diagonal.max(), most)
    left = max(0.0, float(diagonal.sum() - np.sum(values**2)))
    root = np.tril(values[pivots])
    remainder = left / float(diagonal.sum())
    whole = tolerance is None and (len(pivots) < most or most == n)
    return LowRankFeatures(
        kernel, points, points[pivots], root, values, remainder, tolerance, rank, whole
    )


def _of_matrix(gram: np.ndarray, smallest: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """LAPACK's factorization with pivots: Z (n, r) and the pivots (r,)."""
    lower, order, rank, _ = dpstrf(gram, tol=smallest, lower=1)
    rank, order = min(rank, most), order - 1
    values = np.empty((len(gram), rank))
    values[order] = np.tril(lower)[:, :rank]
    return values, order[:rank]


def _by_rows(
    kernel: Covariance, points: np.ndarray, diagonal: np.ndarray, smallest: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The features of a factor that asks for one row of the Gram matrix per pivot."""
    left = diagonal.copy()
    pivots: list[int] = []
    found = np.empty((most, len(points)))  # of which only what is written to takes memory
    for rank in range(most):
        pivot = int(np.argmax(left))
        if not left[pivot] > smallest:
            break
        row = np.array(kernel(points[pivot : pivot + 1], points), dtype=float)[0]
        row -= found[:rank, pivot] @ found[:rank]
        found[rank] = row / np.sqrt(left[pivot])
        found[rank, pivots] = 0.0  # exactly, in exact arithmetic
        left = np.maximum(left - found[rank] ** 2, 0.0)
        left[pivot] = 0.0
        pivots.append(pivot)
    return found[: len(pivots)].T.copy(), np.array(pivots)


@double_precision
def as_numpy_points(X: Any, name: str = "X") -> jax.Array:
    """``X`` as (n, D) points in NumPy."""
    return as_points(X, name)


def matching_points(X: Any, sample: np.ndarray, name: str) -> np.ndarray:
    """``X`` as points with the columns of ``sample``; one row may be given as (D,)."""
    values = np.asarray(X)
    if values.ndim == 1 and sample.shape[1] > 1 and values.shape == sample.shape[1:]:
        values = values[None]
    points = np.asarray(as_numpy_points(np.atleast_1d(values), name))
    if points.shape[1] != sample.shape[1]:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, where the sample has {sample.shape[1]}"
        )
    return points


@double_precision
def diagonal_of(kernel: Covariance, points: np.ndarray) -> jax.Array:
    """k(x, x) of every point, (n,)."""
    return kernel.diagonal(jnp.asarray(points))


#: Squared ratio of the smallest to the largest diagonal entry of a Cholesky factor below which
#: solutions are rounding.
SINGULAR = 1e-13


def factorized(matrix: np.ndarray, added: float, what: str, name: str) -> tuple[np.ndarray, bool]:
    """The Cholesky factor of ``matrix + added I``, for SciPy's ``cho_solve``.

    Args:
        matrix: (r, r), symmetric and at least 0 but for rounding.
        added: regularization.
        what: is singular, for the message.
        name: of the argument to raise.

    Raises:
        ArithmeticError: the matrix is singular to rounding.
    """
    regularized = matrix + added * np.eye(len(matrix))
    try:
        factor: tuple[np.ndarray, bool] = cho_factor(regularized)
        pivots = np.abs(np.diagonal(factor[0]))
        singular = not (pivots.min() / pivots.max()) ** 2 > SINGULAR
    except LinAlgError:
        singular = True
    if singular:
        raise ArithmeticError(f"{what} is singular to rounding: raise {name}, which is too small")
    return factor


CHOICES = ("leave-one-out", "marginal-likelihood")
#: Range of n lambda over the trace of K that is searched, and points of a first look; then the best
#: of them is refined. Below, the system would be singular to rounding.
LOWEST, HIGHEST, TRIED = 1e-12, 10.0, 53


class Regularization(NamedTuple):
    """The lambda that is best, see :func:`choose_regularization`."""

    value: float
    score: float
    at_bound: bool


class Spectrum(NamedTuple):
    """What both scores of all lambdas hang on: Z_X = U S V' and the features of Y along U."""

    squares: np.ndarray  # (r,), S^2
    left: np.ndarray  # (n, r), U
    outputs: np.ndarray  # (n, q), Z_Y
    along: np.ndarray  # (r, q), U' Z_Y


def spectrum(features_x: np.ndarray, features_y: np.ndarray) -> Spectrum:
    """The spectrum of K_X with what Y has along it, from features Z_X (n, r) and Z_Y (n, q)."""
    left, singular, _ = np.linalg.svd(features_x, full_matrices=False)
    return Spectrum(singular**2, left, features_y, left.T @ features_y)


def leave_one_out(of: Spectrum, added: float) -> float:
    """Mean squared distance of l(y_j, .) to its prediction from the other rows (CME-5).

    (1/n) sum_j (W L W)_jj / W_jj^2 with W = (K + n lambda I)^-1, n lambda = ``added`` as it is with
    all rows: the residuals of ridge regression over one less their leverage.
    """
    shrinkage = of.squares / (of.squares + added)
    kept = 1.0 - of.left**2 @ shrinkage
    residuals = of.outputs - of.left @ (shrinkage[:, None] * of.along)
    return float(np.mean(np.sum(residuals**2, axis=1) / kept**2))


def negative_log_marginal_likelihood(of: Spectrum, added: float) -> float:
    """-2/q log of the marginal likelihood of q outputs, up to a constant: n log tr(W L) - log|W|.

    The features of Y as independent Gaussian processes of x with covariance a (K + n lambda I), a
    at its maximum. Their number q only multiplies the logarithm, so it need not be known.
    """
    n = len(of.outputs)
    total = np.sum(of.outputs**2) - np.sum(
        (of.squares / (of.squares + added))[:, None] * of.along**2
    )
    determinant = np.sum(np.log1p(of.squares / added))
    # n log(tr(W L)) with tr(W L) = total / added, and log|K + added I| = determinant + n log added.
    return float(n * np.log(max(total, np.finfo(float).tiny)) + determinant)


SCORES = {
    "leave-one-out": leave_one_out,
    "marginal-likelihood": negative_log_marginal_likelihood,
}


def choose_regularization(
    features_x: np.ndarray, features_y: np.ndarray, choice: str
) -> Regularization:
    """The lambda with the lowest score.

    Args:
        features_x: Z_X, (n, r) with Z_X Z_X' the Gram matrix of X.
        features_y: Z_Y, (n, q).
        choice: ``"leave-one-out"``, the error of :func:`leave_one_out`, or
            ``"marginal-likelihood"``, see :func:`negative_log_marginal_likelihood`.

    Returns:
        The value of lambda per row, its score, and whether it is at an end of the range searched,
        n lambda from 1e-12 to 10 times the trace of K.
    """
    of, n = spectrum(features_x, features_y), len(features_x)
    unit = float(np.sum(features_x**2))
    score = SCORES[choice]
    tried = np.log(unit) + np.linspace(np.log(LOWEST), np.log(HIGHEST), TRIED)
    scores = [score(of, np.exp(value)) for value in tried]
    best = int(np.argmin(scores))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, TRIED - 1)]
    refined = minimize_scalar(
        lambda value: score(of, np.exp(value)), bounds=(low, high), method="bounded"
    )
    value, found = (
        (float(refined.x), float(refined.fun))
        if refined.fun < scores[best]
        else (float(tried[best]), float(scores[best]))
    )
    at_bound = best in (0, TRIED - 1)
    return Regularization(float(np.exp(value)) / n, found, at_bound)


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
        regularization: lambda, per row.
    """

    features: LowRankFeatures
    Y: np.ndarray
    kernel_y: Covariance
    regularization: float

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
        points = matching_points(x, self.X, "x")
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

        What the coordinates leave of the values is at most the root of what the factorization left,
        which is half the digits; division by n lambda makes it seen.
        """
        weights, Z = self.apply(coordinates), self.features.values
        added = len(self.Y) * self.regularization
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
        added = len(self.Y) * self.regularization
        what = "the Gram matrix of what is conditioned on"
        return factorized(Z.T @ Z, added, what, "regularization")

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
        normalized: bool = True,
    ) -> np.ndarray:
        """E[f(Y) | X = x], sum_i b_i(x) f(y_i) over the sum of the weights.

        Weights may be negative: a probability may come out a little below 0 or above 1, a variance
        below 0. Far from all x_i the sum of :meth:`weights` is near 0, and the result is worthless.

        Args:
            x: shape (m, D), (m,) or one row (D,).
            function: of Y (n, E), with values (n,) or (n, F); Y itself by default.
            normalized: divide by the sum of the weights, so that a constant is its own expectation;
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
        if normalized:
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
            f"kernel_y={self.kernel_y}, regularization={self.regularization:.4g})"
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
    regularization: str | float = "leave-one-out",
    tolerance: float | None = None,
    rank: int | None = None,
) -> ConditionalEmbedding:
    """Learn the conditional mean embedding of Y given X from pairs of rows (CME-2).

    Args:
        X: what is conditioned on, shape (n, D) or (n,).
        Y: row by row with X, shape (n, E) or (n,).
        kernel_x: k.
        kernel_y: l.
        regularization: lambda, per row: n lambda is added to the Gram matrix of X. 0 takes the
            pseudo-inverse, for kernels with fewer features than there are rows. Or how it is
            chosen: ``"leave-one-out"`` and ``"marginal-likelihood"``, see
            :func:`choose_regularization`.
        tolerance: of the incomplete Cholesky factorization of the Gram matrix, see
            :func:`~bke.models.embeddings.conditional.low_rank_features`; rounding by default.
        rank: likewise, its largest rank.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    check_kernel(kernel_x, "kernel_x")
    check_kernel(kernel_y, "kernel_y")
    outputs = np.asarray(as_numpy_points(Y, "Y"))
    inputs = np.asarray(as_numpy_points(X))
    if len(inputs) != len(outputs):
        raise ValueError(
            f"X has {len(inputs)} rows and Y has {len(outputs)}, where pairs are needed"
        )
    of_x = low_rank_features(inputs, kernel_x, tolerance=tolerance, rank=rank)
    if isinstance(regularization, str):
        if regularization not in CHOICES:
            raise ValueError(
                f"regularization must be a number or one of {CHOICES}, got {regularization!r}"
            )
        of_y = low_rank_features(outputs, kernel_y, tolerance=tolerance, rank=rank)
        regularization = choose_regularization(of_x.values, of_y.values, regularization).value
    check_regularization(regularization, "regularization")
    return ConditionalEmbedding(of_x, outputs, kernel_y, float(regularization))


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


def check_regularization(value: Any, name: str) -> None:
    """Refuse what is no number of at least 0."""
    number = np.ndim(value) == 0 and not isinstance(value, (bool, str)) and value is not None
    if not number or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")


def coordinates_of(embedding: Embedding, features: LowRankFeatures, name: str) -> np.ndarray:
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
    points = matching_points(embedding.points, features.points, name)
    weights = np.asarray(embedding.weights, dtype=float)
    if len(weights) == 0 or not np.any(weights):
        raise ValueError(f"{name} has no weights that are not zero")
    if not np.all(np.isfinite(weights)):
        raise ValueError(f"{name} has weights that are not finite")
    return weights @ features(points)
