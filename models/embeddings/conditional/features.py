"""Features of the numerical rank of a Gram matrix, by incomplete Cholesky factorisation (APX-6)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ...kernels.base import Covariance, as_points, check_kernel
from ...linalg.precision import double_precision

#: Rows up to which the whole Gram matrix is formed (200 MiB).
DENSE_ROWS = 5000
#: Rank at most beyond, where none is asked for.
MOST_RANK = 2000


@dataclasses.dataclass(frozen=True, repr=False)
class Features:
    """Coordinates z(x) (r,) with ``k(x, y) = z(x)' z(y)``, up to what the factorisation left.

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
        return f"Features({self.rank} of {len(self.points)} rows, kernel={self.kernel})"

    @property
    def rank(self) -> int:
        """How many there are."""
        return len(self.pivots)

    def __call__(self, X: ArrayLike, name: str = "x") -> np.ndarray:
        """The coordinates z of the points X, (m, r) for shape (m, D), (m,) or one row (D,)."""
        points = points_like(X, self.points, name)
        across = np.asarray(self.kernel(self.pivots, points))
        return np.asarray(solve_triangular(self.root, across, lower=True).T)


def features(
    X: ArrayLike, kernel: Covariance, *, tolerance: float | None = None, rank: int | None = None
) -> Features:
    """The features of a sample, in the order of pivots of incomplete Cholesky factorisation.

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
    points = np.asarray(as_sample(X))
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
    return Features(kernel, points, points[pivots], root, values, remainder, tolerance, rank, whole)


def _of_matrix(gram: np.ndarray, smallest: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """LAPACK's factorisation with pivots: Z (n, r) and the pivots (r,)."""
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
def as_sample(X: Any, name: str = "X") -> jax.Array:
    """``X`` as (n, D) points in NumPy."""
    return as_points(X, name)


def points_like(X: Any, sample: np.ndarray, name: str) -> np.ndarray:
    """``X`` as points with the columns of ``sample``; one row may be given as (D,)."""
    values = np.asanyarray(X)  # a masked array stays one
    if values.ndim == 1 and sample.shape[1] > 1 and values.shape == sample.shape[1:]:
        values = values[None]
    points = np.asarray(as_sample(np.atleast_1d(values), name))
    if points.shape[1] != sample.shape[1]:
        raise ValueError(
            f"{name} has {points.shape[1]} columns, where the sample has {sample.shape[1]}"
        )
    return points


@double_precision
def diagonal_of(kernel: Covariance, points: np.ndarray) -> jax.Array:
    """k(x, x) of every point, (n,)."""
    return kernel.diagonal(jnp.asarray(points))
