"""Symmetric matrices by blocks, and their inverse and log-determinant.

JAX has no counterpart of LAPACK's ``potri``. Splitting the matrix in two and inverting the Schur
complement keeps nearly all work in matrix products, while solving against the identity costs
several times that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

#: Rows of the smallest blocks of an inverse. Smaller ones make more programs, which compile more
#: slowly.
SMALLEST_BLOCK = 150


class SymmetricBlocks(NamedTuple):
    """A symmetric (n, n) matrix as two blocks on the diagonal and the one below it.

    Args:
        first: shape (h, h) with h at most n / 2; or the full matrix.
        below: shape (n - h, h), the block below ``first``; ``None`` where that is the full matrix.
        second: shape (n - h, n - h), or ``None`` with ``below``.
    """

    first: jax.Array
    below: jax.Array | None = None
    second: jax.Array | None = None

    @classmethod
    def from_function(
        cls, n: int, block: Callable[[slice, slice], jax.Array], unsplit: int = 192
    ) -> SymmetricBlocks:
        """Build the matrix from a function that returns the block of some rows and columns.

        A matrix of at most ``unsplit`` rows is not split: blocks would only cost compilation time.
        """
        if n <= unsplit:
            return cls(block(slice(0, n), slice(0, n)))
        # At most half: a larger first block is worse conditioned. A multiple of the smallest block.
        half = n // 2 // SMALLEST_BLOCK * SMALLEST_BLOCK or n // 2
        first, second = slice(0, half), slice(half, n)
        return cls(block(first, first), block(second, first), block(second, second))

    @classmethod
    def from_matrix(cls, matrix: jax.Array, unsplit: int = 192) -> SymmetricBlocks:
        """Split a symmetric ``matrix`` (n, n) of more than ``unsplit`` rows."""
        return cls.from_function(len(matrix), lambda i, j: matrix[i, j], unsplit)

    def blocks(self) -> Iterator[tuple[slice, slice, jax.Array, int]]:
        """Iterate over (rows, columns, block, copies); two copies: the transpose is a block too."""
        half = len(self.first)
        yield slice(0, half), slice(0, half), self.first, 1
        if self.below is not None and self.second is not None:
            rows = slice(half, half + len(self.second))
            yield rows, slice(0, half), self.below, 2
            yield rows, rows, self.second, 1

    def diagonal(self) -> jax.Array:
        """Return the diagonal (n,)."""
        if self.second is None:
            return jnp.diagonal(self.first)
        return jnp.concatenate([jnp.diagonal(self.first), jnp.diagonal(self.second)])

    def add_to_diagonal(self, number: jax.Array) -> SymmetricBlocks:
        """Return the matrix plus a ``number`` times the identity."""

        def add(block: jax.Array) -> jax.Array:
            return block + number * jnp.eye(len(block), dtype=block.dtype)

        second = None if self.second is None else add(self.second)
        return SymmetricBlocks(add(self.first), self.below, second)

    def matvec(self, vector: jax.Array) -> jax.Array:
        """Compute the product (n,) with a ``vector`` (n,)."""
        if self.below is None or self.second is None:
            return self.first @ vector
        x, y = vector[: len(self.first)], vector[len(self.first) :]
        return jnp.concatenate([self.first @ x + y @ self.below, self.below @ x + self.second @ y])

    def matrix(self) -> jax.Array:
        """Return the full matrix (n, n)."""
        if self.below is None or self.second is None:
            return self.first
        half, n = len(self.first), len(self.first) + len(self.second)
        # Set in place: concatenation would copy every number twice.
        full = jnp.zeros((n, n), self.first.dtype).at[:half, :half].set(self.first)
        full = full.at[half:, :half].set(self.below).at[:half, half:].set(self.below.T)
        return full.at[half:, half:].set(self.second)


def inverse_and_log_determinant(
    matrix: jax.Array, unsplit: int = 192
) -> tuple[jax.Array, jax.Array]:
    """Compute inverse (n, n) and log-determinant () of a symmetric positive definite ``matrix``.

    A matrix that is not positive definite gives NaN, as JAX's Cholesky factorization does. One of
    at most ``unsplit`` rows is factorized directly, which loses fewer digits.
    """
    inverse, log_determinant = invert_blocks(SymmetricBlocks.from_matrix(matrix, unsplit))
    return inverse.matrix(), log_determinant


def invert_blocks(matrix: SymmetricBlocks) -> tuple[SymmetricBlocks, jax.Array]:
    """Compute inverse and log-determinant of a positive definite matrix by blocks."""
    first, below, second = matrix
    if below is None or second is None:
        cholesky = jax.lax.linalg.cholesky(first, symmetrize_input=False)
        # The transpose of the factor's inverse.
        root = jax.lax.linalg.triangular_solve(
            cholesky,
            jnp.eye(len(first), dtype=first.dtype),
            left_side=False,
            lower=True,
            transpose_a=True,
        )
        log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
        return SymmetricBlocks(root @ root.T), log_determinant
    first_inverse, log_first = inverse_and_log_determinant(first, SMALLEST_BLOCK)
    # Every product is one of rows with rows, A B': the CPU takes twice as long for A B and A' B.
    # Hence the transposes, and symmetric matrices written as their own transpose.
    weights = below @ first_inverse.T
    schur = second - _symmetric_product(weights, below)
    second_inverse, log_schur = inverse_and_log_determinant(schur, SMALLEST_BLOCK)
    transposed = jax.lax.optimization_barrier(weights.T)
    above = -transposed @ second_inverse.T
    first_inverse = first_inverse - _symmetric_product(transposed, above)
    return SymmetricBlocks(first_inverse, above.T, second_inverse), log_first + log_schur


def _symmetric_product(A: jax.Array, B: jax.Array, unsplit: int = 511) -> jax.Array:
    """Compute A B' (n, n) of (n, k) matrices, where that is symmetric.

    Leaving out the block above the diagonal pays for more than ``unsplit`` rows.
    """
    return SymmetricBlocks.from_function(len(A), lambda i, j: A[i] @ B[j].T, unsplit).matrix()
