"""Work on an n x n array a few rows at a time, so that it stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

#: Entries of one block: a handful of such arrays fit in a core's second-level cache.
BLOCK_ENTRIES = 2**15

#: Numbers of which the largest is taken side by side.
LANES = 32


def map_rows(function: Callable[[Any], Any], rows: Any, columns: int) -> Any:
    """Stack ``function`` of every row of the arrays in ``rows``, several rows at a time.

    ``columns`` is the width of what ``function`` builds for one row; it sets the block size.
    """
    n = jax.tree.leaves(rows)[0].shape[0]
    blocks = min(n, -(-n * max(1, columns) // BLOCK_ENTRIES))
    size = -(-n // blocks)
    # Equal blocks, the last filled up with the last row: another shape would compile twice.
    index = jnp.minimum(jnp.arange(blocks * size), n - 1).reshape(blocks, size)
    stacked = jax.lax.map(lambda i: jax.vmap(function)(jax.tree.map(lambda a: a[i], rows)), index)
    return jax.tree.map(lambda a: a.reshape(blocks * size, *a.shape[2:])[:n], stacked)


def maximum(values: jax.Array) -> jax.Array:
    """The largest of ``values`` (n,), a scalar.

    By lanes first: the CPU takes the numbers of one row one after the other otherwise.
    """
    whole = len(values) // LANES * LANES
    if whole == 0:
        return jnp.max(values)
    lanes = jnp.max(values[:whole].reshape(-1, LANES), axis=0)
    return jnp.maximum(jnp.max(lanes), jnp.max(values[whole:], initial=-jnp.inf))


def columns_of(points: jax.Array) -> jax.Array:
    """The columns of ``points`` (n, D), stored one after the other, (D, n).

    What reads a transpose is compiled into reading every D-th number, which takes several times as
    long as the exponential that follows; compilers do not fold a look-up like that.
    """
    n, dimension = points.shape
    if dimension == 1:
        return points.T
    stored = points.T.reshape(-1).at[jnp.arange(n * dimension)].get(mode="promise_in_bounds")
    return stored.reshape(dimension, n)
