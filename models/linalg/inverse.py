"""Inverse and log-determinant of a positive definite matrix, by blocks.

JAX has no counterpart of LAPACK's ``potri``. Splitting the matrix in two and inverting the Schur
complement keeps nearly all work in matrix products, while solving against the identity costs
several times that.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .halves import BLOCK, Halves

#: Matrices up to this size are factorised directly, which loses fewer digits.
DIRECTLY = 192
#: Rows from which on the half of a symmetric product is left out.
SMALLEST_HALVED = 512


def inverse_and_log_determinant(
    matrix: jax.Array, directly: int = DIRECTLY
) -> tuple[jax.Array, jax.Array]:
    """Inverse (n, n) and log-determinant () of a symmetric positive definite (n, n) ``matrix``.

    A matrix that is not positive definite gives NaN, as JAX's Cholesky factorisation does. One of
    up to ``directly`` rows is factorised directly.
    """
    inverse, log_determinant = inverse_of_halves(Halves.of_matrix(matrix, directly))
    return inverse.matrix(), log_determinant


def inverse_of_halves(matrix: Halves) -> tuple[Halves, jax.Array]:
    """What :func:`inverse_and_log_determinant` gives, of halves and in halves.

    A matrix that is whole is factorised directly.
    """
    corner, edge, rest = matrix
    if edge is None or rest is None:
        inverse, log_determinant = _directly(corner)
        return Halves(inverse), log_determinant
    corner_inverse, of_corner = inverse_and_log_determinant(corner, BLOCK)
    # Every product is one of rows with rows, A B': the CPU takes twice as long for A B and A' B.
    # Hence the transposes, and symmetric matrices written as their own.
    weights = edge @ corner_inverse.T
    schur = rest - _symmetric_product(weights, edge)
    rest_inverse, of_schur = inverse_and_log_determinant(schur, BLOCK)
    turned = jax.lax.optimization_barrier(weights.T)
    upper = -turned @ rest_inverse.T
    corner_inverse = corner_inverse - _symmetric_product(turned, upper)
    return Halves(corner_inverse, upper.T, rest_inverse), of_corner + of_schur


def _directly(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    n = len(matrix)
    cholesky = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    identity = jnp.eye(n, dtype=matrix.dtype)
    root = jax.lax.linalg.triangular_solve(  # the transpose of the factor's inverse
        cholesky, identity, left_side=False, lower=True, transpose_a=True
    )
    return root @ root.T, 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


def _symmetric_product(A: jax.Array, B: jax.Array) -> jax.Array:
    """A B' (n, n) of (n, k) matrices, where that is symmetric."""
    if len(A) < SMALLEST_HALVED:
        return A @ B.T
    return Halves.of(len(A), lambda rows, columns: A[rows] @ B[columns].T).matrix()
