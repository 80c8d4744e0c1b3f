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


class Halves(NamedTuple):
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
    def of(cls, n: int, block: Callable[[slice, slice], jax.Array], most: int = WHOLE) -> Halves:
        """The matrix whose ``block`` of some rows and columns can be had, whole up to ``most``."""
        if n <= most:
            return cls(block(slice(0, n), slice(0, n)))
        # No more than half: a larger corner is worse conditioned. In steps, for few blocks at last.
        half = n // 2 // BLOCK * BLOCK or n // 2
        first, second = slice(0, half), slice(half, n)
        return cls(block(first, first), block(second, first), block(second, second))

    @classmethod
    def of_matrix(cls, matrix: jax.Array, most: int = WHOLE) -> Halves:
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

    def plus(self, number: jax.Array) -> Halves:
        """The matrix with a ``number`` added to its diagonal."""

        def of(block: jax.Array) -> jax.Array:
            return block + number * jnp.eye(len(block), dtype=block.dtype)

        if self.rest is None:
            return Halves(of(self.corner))
        return Halves(of(self.corner), self.edge, of(self.rest))

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
