"""Sums over rows, a block of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def over_blocks(
    add: Callable[[T, jax.Array, jax.Array, jax.Array], T], start: T, X: jax.Array, most: int
) -> T:
    """``add`` every block of the rows of ``X``, ``most`` at a time, to what ``start`` begins.

    ``add`` gets the sum so far, the rows (b, D), their numbers (b,), and 1 for each, or 0 for those
    that only fill up the last block: blocks are of one size, so that one program does.
    """
    n = len(X)
    blocks = -(-n // most)
    size = -(-n // blocks)

    def one(total: T, block: jax.Array) -> tuple[T, None]:
        index = block * size + jnp.arange(size)
        known = (index < n).astype(X.dtype)
        rows = jnp.minimum(index, n - 1)
        return add(total, X[rows], rows, known), None

    total, _ = jax.lax.scan(one, start, jnp.arange(blocks))
    return total
