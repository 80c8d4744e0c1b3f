"""Symmetric matrices by halves: what is above the diagonal is neither worked out nor stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

#: Rows of the blocks that halving ends at. Of larger ones OpenBLAS wakes its threads, which wait
#: for more at full load then, and the products between take half as long again.
BLOCK = 31
#: Matrices up to this size are kept whole: halves would only cost compilation time.
WHOLE = 192


class Part(NamedTuple):
    """One block of a symmetric matrix."""

    rows: slice
    columns: slice
    block: jax.Array
    copies: int  # 2 where it stands for its transpose as well


class SymmetricBlocks(NamedTuple):
    """A symmetric (n, n) matrix as two blocks on the diagonal and the one below it.

    Args:
        corner: (h, h), where h is at most n / 2; or all of the matrix.
        edge: (n - h, h), the block below it; ``None`` where the corner is all.
        rest: (n - h, n - h), likewise.
    """

    corner: jax.Array
    edge: jax.Array | None = None
    rest: jax.Array | None = None

    @classmethod
    def of(
        cls, n: int, block: Callable[[slice, slice], jax.Array], most: int = WHOLE
    ) -> SymmetricBlocks:
        """The matrix whose ``block`` of some rows and columns can be had, whole up to ``most``."""
        if n <= most:
            return cls(block(slice(0, n), slice(0, n)))
        # No more than half: a larger corner is worse conditioned. In steps, for few blocks at last.
        half = n // 2 // BLOCK * BLOCK or n // 2
        first, second = slice(0, half), slice(half, n)
        return cls(block(first, first), block(second, first), block(second, second))

    @classmethod
    def of_matrix(cls, matrix: jax.Array, most: int = WHOLE) -> SymmetricBlocks:
        """The halves of a symmetric ``matrix`` (n, n), whole up to ``most``."""
        return cls.of(len(matrix), lambda rows, columns: matrix[rows, columns], most)

    def parts(self) -> Iterator[Part]:
        """The blocks and where they stand."""
        half = len(self.corner)
        yield Part(slice(0, half), slice(0, half), self.corner, 1)
        if self.edge is not None and self.rest is not None:
            n = half + len(self.rest)
            yield Part(slice(half, n), slice(0, half), self.edge, 2)
            yield Part(slice(half, n), slice(half, n), self.rest, 1)

    def diagonal(self) -> jax.Array:
        """The diagonal (n,)."""
        if self.rest is None:
            return jnp.diagonal(self.corner)
        return jnp.concatenate([jnp.diagonal(self.corner), jnp.diagonal(self.rest)])

    def plus(self, number: jax.Array) -> SymmetricBlocks:
        """The matrix with a ``number`` added to its diagonal."""

        def of(block: jax.Array) -> jax.Array:
            return block + number * jnp.eye(len(block), dtype=block.dtype)

        if self.rest is None:
            return SymmetricBlocks(of(self.corner))
        return SymmetricBlocks(of(self.corner), self.edge, of(self.rest))

    def times(self, vector: jax.Array) -> jax.Array:
        """The product (n,) with a ``vector`` (n,)."""
        if self.edge is None or self.rest is None:
            return self.corner @ vector
        first, second = vector[: len(self.corner)], vector[len(self.corner) :]
        return jnp.concatenate(
            [self.corner @ first + second @ self.edge, self.edge @ first + self.rest @ second]
        )

    def matrix(self) -> jax.Array:
        """All of it, (n, n)."""
        if self.edge is None or self.rest is None:
            return self.corner
        half, n = len(self.corner), len(self.corner) + len(self.rest)
        # Put in place: concatenated, every number would be copied twice.
        whole = jnp.zeros((n, n), self.corner.dtype).at[:half, :half].set(self.corner)
        whole = whole.at[half:, :half].set(self.edge).at[:half, half:].set(self.edge.T)
        return whole.at[half:, half:].set(self.rest)


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
    inverse, log_determinant = invert_blocks(SymmetricBlocks.of_matrix(matrix, directly))
    return inverse.matrix(), log_determinant


def invert_blocks(matrix: SymmetricBlocks) -> tuple[SymmetricBlocks, jax.Array]:
    """What :func:`inverse_and_log_determinant` gives, of halves and in halves.

    A matrix that is whole is factorised directly.
    """
    corner, edge, rest = matrix
    if edge is None or rest is None:
        inverse, log_determinant = _directly(corner)
        return SymmetricBlocks(inverse), log_determinant
    corner_inverse, of_corner = inverse_and_log_determinant(corner, BLOCK)
    # Every product is one of rows with rows, A B': the CPU takes twice as long for A B and A' B.
    # Hence the transposes, and symmetric matrices written as their own.
    weights = edge @ corner_inverse.T
    schur = rest - _symmetric_product(weights, edge)
    rest_inverse, of_schur = inverse_and_log_determinant(schur, BLOCK)
    turned = jax.lax.optimization_barrier(weights.T)
    upper = -turned @ rest_inverse.T
    corner_inverse = corner_inverse - _symmetric_product(turned, upper)
    return SymmetricBlocks(corner_inverse, upper.T, rest_inverse), of_corner + of_schur


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
    return SymmetricBlocks.of(len(A), lambda rows, columns: A[rows] @ B[columns].T).matrix()
