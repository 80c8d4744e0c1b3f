"""Pivoted Cholesky factorization of covariance matrices of a low numerical rank.

A smooth kernel's Gram matrix has a numerical rank far below n. Stopping the factorization when the
trace of the remainder is below a tolerance gives a factor with a known error. The matrix itself is
never formed: one row per pivot is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

_State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


class PivotedCholesky(NamedTuple):
    """``matrix = factor.T @ factor + remainder`` with a positive semi-definite remainder."""

    factor: jax.Array  # (max_rank, n), rows beyond ``rank`` are zero
    pivots: jax.Array  # (max_rank,), index of the pivot of each row, 0 beyond ``rank``
    rank: jax.Array  # ()
    remainder: jax.Array  # (), trace of the remainder


def pivoted_cholesky(
    row: Callable[[jax.Array], jax.Array],
    diagonal: jax.Array,
    max_rank: int,
    tolerance: jax.Array | float,
) -> PivotedCholesky:
    """Factorize a positive semi-definite (n, n) matrix until the remaining trace is small.

    Stops at ``tolerance`` (the trace of the remainder, in the matrix's units), at ``max_rank``, or
    halfway there when more than half of the trace still remains.

    Args:
        row: maps an index to that row of the matrix, shape (n,).
        diagonal: shape (n,).
        max_rank: rows of the returned factor.
        tolerance: for the trace of the remainder.
    """
    n = diagonal.shape[0]
    half_trace = 0.5 * jnp.sum(diagonal)

    def unfinished(state: _State) -> jax.Array:
        rank, _, _, remainder = state
        trace = jnp.sum(remainder)
        too_slow = (2 * rank >= max_rank) & (trace > half_trace) & (max_rank < n)
        return (rank < max_rank) & (trace > tolerance) & ~too_slow

    def add_pivot(state: _State) -> _State:
        rank, factor, pivots, remainder = state
        pivot = jnp.argmax(remainder)
        new = (row(pivot) - factor[:, pivot] @ factor) / jnp.sqrt(remainder[pivot])
        # Rounding can leave a small negative remainder; it is zero in exact arithmetic.
        remainder = jnp.maximum(remainder - new**2, 0.0).at[pivot].set(0.0)
        return rank + 1, factor.at[rank].set(new), pivots.at[rank].set(pivot), remainder

    start = (
        jnp.zeros((), dtype=int),
        jnp.zeros((max_rank, n), diagonal.dtype),
        jnp.zeros(max_rank, dtype=int),
        diagonal,
    )
    rank, factor, pivots, remainder = jax.lax.while_loop(unfinished, add_pivot, start)
    return PivotedCholesky(factor, pivots, rank, jnp.sum(remainder))


def interpolation(factorization: PivotedCholesky) -> jax.Array:
    """Compute weights W' (max_rank, n) with ``matrix = W matrix[pivots]``, up to the remainder.

    They are ``matrix[pivots, pivots]^-1 matrix[pivots]``, formed without that ill-conditioned
    inverse; rows beyond the rank are zero.
    """
    factor, pivots, rank, _ = factorization
    used = jnp.arange(len(pivots)) < rank
    corner = jnp.where(used[:, None] & used, factor[:, pivots], 0.0) + jnp.diag(1.0 * ~used)
    return solve_triangular(corner, factor, lower=False)


def dense_pivoted_cholesky(
    matrix: np.ndarray, tolerance: float, max_rank: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Factorize a known positive semi-definite (n, n) matrix as Z Z' by LAPACK's ``dpstrf``.

    Args:
        matrix: shape (n, n), in NumPy.
        tolerance: the largest diagonal entry that the remainder may have.
        max_rank: columns of Z at most; unlimited by default.

    Returns:
        Z, shape (n, r), and the indices of the pivots, shape (r,).
    """
    lower, order, rank, _ = dpstrf(matrix, tol=tolerance, lower=1)
    rank, order = min(rank, max_rank or rank), order - 1
    factor = np.empty((len(matrix), rank))
    factor[order] = np.tril(lower)[:, :rank]
    return factor, order[:rank]


def rowwise_pivoted_cholesky(
    row: Callable[[int], np.ndarray], diagonal: np.ndarray, tolerance: float, max_rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Factorize a positive semi-definite matrix as Z Z' from its rows, one for each pivot.

    In NumPy: memory and work grow with the rank that is reached, not with ``max_rank`` as in
    :func:`pivoted_cholesky`, and ``row`` need not be a function that JAX can trace.

    Args:
        row: maps an index to that row of the matrix, shape (n,).
        diagonal: shape (n,).
        tolerance: the largest diagonal entry that the remainder may have.
        max_rank: columns of Z at most.

    Returns:
        Z, shape (n, r), and the indices of the pivots, shape (r,).
    """
    remainder = diagonal.copy()
    pivots: list[int] = []
    factor = np.empty((max_rank, len(diagonal)))  # only the rows that are written take memory
    for rank in range(max_rank):
        pivot = int(np.argmax(remainder))
        if not remainder[pivot] > tolerance:
            break
        residual = row(pivot) - factor[:rank, pivot] @ factor[:rank]
        factor[rank] = residual / np.sqrt(remainder[pivot])
        factor[rank, pivots] = 0.0  # exactly, in exact arithmetic
        remainder = np.maximum(remainder - factor[rank] ** 2, 0.0)
        remainder[pivot] = 0.0
        pivots.append(pivot)
    return factor[: len(pivots)].T.copy(), np.array(pivots, dtype=int)
