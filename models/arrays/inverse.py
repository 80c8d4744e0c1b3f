"""Inverse and log-determinant of a positive definite matrix, by blocks.

JAX has no counterpart of LAPACK's ``potri``. Splitting the matrix in two and inverting the Schur
complement keeps nearly all work in matrix products and costs about as much as ``potri`` does, while
solving against the identity costs several times that.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

#: Blocks up to this size are factorised directly; smaller ones only cost compilation time.
BLOCK = 192


def inverse_and_log_determinant(
    matrix: jax.Array, block: int = BLOCK
) -> tuple[jax.Array, jax.Array]:
    """Inverse (n, n) and log-determinant () of a symmetric positive definite (n, n) ``matrix``.

    A matrix that is not positive definite gives NaN, as JAX's Cholesky factorisation does. One of
    up to ``block`` rows is factorised directly.
    """
    n = matrix.shape[0]
    if n <= block:
        cholesky = jnp.linalg.cholesky(matrix)
        root = solve_triangular(cholesky, jnp.eye(n, dtype=matrix.dtype), lower=True)
        return root.T @ root, 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    half = n // 2
    corner, edge, rest = matrix[:half, :half], matrix[half:, :half], matrix[half:, half:]
    corner_inverse, corner_log_determinant = inverse_and_log_determinant(corner, block)
    weights = edge @ corner_inverse
    schur = rest - weights @ edge.T
    schur_inverse, schur_log_determinant = inverse_and_log_determinant(schur, block)
    lower = -schur_inverse @ weights
    inverse = jnp.block(
        [[corner_inverse - weights.T @ lower, lower.T], [lower, schur_inverse]],
    )
    return inverse, corner_log_determinant + schur_log_determinant
