"""Arrays of rows: padding to shared sizes, and evaluation in blocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .pytrees import register_dataclass

T = TypeVar("T")

#: Entries of one block: a handful of such arrays fit in a core's second-level cache.
BLOCK_ENTRIES = 2**15


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PaddedRows:
    """n data points, and further rows that are ignored.

    Similar data are padded to sizes that they share, so that they share compiled programs.

    Attributes:
        points: shape (N, D), the data, then copies of the last row.
        count: n, of the points' type; ``None`` where all rows are data.
        weights: shape (N,), the number of rows represented by each point, 0 for ignored points;
            ``None`` for 1.
    """

    points: Any
    count: Any = None
    weights: Any = None

    def __len__(self) -> int:
        """Return N."""
        return len(self.points)

    @property
    def number(self) -> Any:
        """n, a number or an array ()."""
        return len(self.points) if self.count is None else self.count

    @property
    def data(self) -> Any:
        """The data (n, D), where n is known."""
        return self.points[: int(self.number)]

    @property
    def known(self) -> jax.Array:
        """Mask (N,) of the points that are data."""
        if self.weights is not None:
            return jnp.asarray(self.weights) != 0.0
        return jnp.arange(len(self.points)) < self.number

    def mask(self, values: jax.Array) -> jax.Array:
        """Set ``values`` (..., N) to zero, or ``False``, where rows are padding."""
        if self.count is None:
            return values
        return jnp.where(self.known, values, jnp.zeros((), values.dtype))

    def total(self, values: jax.Array) -> jax.Array:
        """Compute the weighted sum of ``values`` (N,) over the data, ()."""
        return jnp.sum(self.mask(values if self.weights is None else values * self.weights))

    def mask_matrix(self, matrix: jax.Array) -> jax.Array:
        """Set a ``matrix`` (N, N) to zero where its row or column is padding."""
        return matrix if self.count is None else self.mask(self.mask(matrix).T).T

    def mask_block(self, block: jax.Array, i: slice | jax.Array, j: slice | jax.Array) -> jax.Array:
        """Mask a ``block`` of rows i and columns j of such a matrix, of finite numbers."""
        if self.count is None:
            return block
        known = self.mask(jnp.ones(len(self), block.dtype))
        return block * known[i][:, None] * known[j]


def as_padded(points: Any) -> PaddedRows:
    """Return points (n, D) as padded rows without padding; padded rows unchanged."""
    return points if isinstance(points, PaddedRows) else PaddedRows(points)


def padded(points: Any, size: int) -> PaddedRows:
    """Pad known points (n, D) to ``size`` rows, at least n."""
    points = np.asarray(points)
    return PaddedRows(
        np.pad(points, ((0, size - len(points)), (0, 0)), mode="edge"),
        np.asarray(len(points), points.dtype),
    )


def dense_size(n: int, step: int = 16, max_padded: int = 512) -> int:
    """Return the number of rows to which ``n`` rows are padded for work that grows like its cube.

    Args:
        n: number of rows.
        step: distance between sizes.
        max_padded: more rows are not padded: compiling takes little time compared with the work.
    """
    return n if n > max_padded else -(-n // step) * step


def shared_size(size: int, per_octave: int = 16) -> int:
    """Return the size to which ``size`` rows are padded for work that is linear in the rows.

    There are ``per_octave`` sizes in every factor of two: 16 cost 3 % more work on average.
    """
    step = 2 ** max(0, int(math.log2(size)) - int(math.log2(per_octave)))
    return -(-size // step) * step


def reduce_blocks(
    add: Callable[[T, jax.Array, jax.Array, jax.Array], T], start: T, X: jax.Array, max_rows: int
) -> T:
    """Fold a function over blocks of the rows of ``X``, at most ``max_rows`` at a time.

    Args:
        add: function of the total so far, rows (b, D), their indices (b,), and 1 for each, or 0 for
            those that only pad the last block: blocks have one size, so one program serves all.
        start: total of no rows.
        X: shape (n, D).
        max_rows: rows of a block at most.
    """
    n = len(X)
    blocks = -(-n // max_rows)
    size = -(-n // blocks)

    def step(total: T, block: jax.Array) -> tuple[T, None]:
        index = block * size + jnp.arange(size)
        known = (index < n).astype(X.dtype)
        rows = jnp.minimum(index, n - 1)
        return add(total, X[rows], rows, known), None

    total, _ = jax.lax.scan(step, start, jnp.arange(blocks))
    return total


def map_rows(function: Callable[[Any], Any], rows: Any, columns: int) -> Any:
    """Stack ``function`` of every row of the arrays in ``rows``, a block of rows at a time.

    Work on an n x n array then stays in the processor's cache. ``columns`` is the width of what
    ``function`` builds for one row; it sets the block size.
    """
    n = jax.tree.leaves(rows)[0].shape[0]
    blocks = min(n, -(-n * max(1, columns) // BLOCK_ENTRIES))
    size = -(-n // blocks)
    # Equal blocks, the last padded with the last row: another shape would compile twice.
    index = jnp.minimum(jnp.arange(blocks * size), n - 1).reshape(blocks, size)
    stacked = jax.lax.map(lambda i: jax.vmap(function)(jax.tree.map(lambda a: a[i], rows)), index)
    return jax.tree.map(lambda a: a.reshape(blocks * size, *a.shape[2:])[:n], stacked)


def maximum(values: jax.Array, lanes: int = 32) -> jax.Array:
    """Compute the largest of ``values`` (n,), a scalar.

    By ``lanes`` side by side first: the CPU otherwise compares one number after the other.
    """
    end = len(values) // lanes * lanes
    if end == 0:
        return jnp.max(values)
    largest = jnp.max(values[:end].reshape(-1, lanes), axis=0)
    return jnp.maximum(jnp.max(largest), jnp.max(values[end:], initial=-jnp.inf))


def contiguous_columns(points: jax.Array) -> jax.Array:
    """Return the columns of ``points`` (n, D), stored one after the other, (D, n).

    XLA compiles reads of a transpose into reads of every D-th number, which take several times as
    long as the exponential that follows; it does not fold an indexed read like this one.
    """
    n, dimension = points.shape
    if dimension == 1:
        return points.T
    stored = points.T.reshape(-1).at[jnp.arange(n * dimension)].get(mode="promise_in_bounds")
    return stored.reshape(dimension, n)
