"""Sums over rows, a block of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")

#: Entries of the gradients of one block of rows, and the fewest rows: products of matrices with
#: fewer take as long for each row.
BLOCK_ENTRIES, FEWEST_ROWS = 2**19, 64


def over_blocks(
    add: Callable[[T, jax.Array, jax.Array, jax.Array], T], start: T, X: jax.Array, columns: int
) -> T:
    """``add`` every block of the rows of ``X`` to what ``start`` begins.

    ``add`` gets the sum so far, the rows (b, D), their numbers (b,), and 1 for each, or 0 for those
    that only fill up the last block. ``columns`` is what stands beside D in a block.
    """
    n, dimension = X.shape
    size = min(n, max(FEWEST_ROWS, BLOCK_ENTRIES // (columns * dimension)))
    blocks = -(-n // size)
    size = -(-n // blocks)

    def one(total: T, block: jax.Array) -> tuple[T, None]:
        index = block * size + jnp.arange(size)
        known = (index < n).astype(X.dtype)
        rows = jnp.minimum(index, n - 1)
        return add(total, X[rows], rows, known), None

    total, _ = jax.lax.scan(one, start, jnp.arange(blocks))
    return total
