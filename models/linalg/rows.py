"""Sums over rows, a block of them at a time."""

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


def reduce_blocks(
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


def contiguous_columns(points: jax.Array) -> jax.Array:
    """The columns of ``points`` (n, D), stored one after the other, (D, n).

    What reads a transpose is compiled into reading every D-th number, which takes several times as
    long as the exponential that follows; compilers do not fold a look-up like that.
    """
    n, dimension = points.shape
    if dimension == 1:
        return points.T
    stored = points.T.reshape(-1).at[jnp.arange(n * dimension)].get(mode="promise_in_bounds")
    return stored.reshape(dimension, n)


#: Sizes in every factor of two, where the work is linear in the rows: 3 % more on average.
SIZES_PER_OCTAVE = 16
#: Of matrices: steps between sizes, and rows beyond which compiling is little beside the work.
DENSE_STEP, MOST_PADDED = 16, 512


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PaddedRows:
    """n points, and further rows that count for nothing."""

    points: Any  # (N, D): the data, then copies of the last row
    count: Any = None  # (), n, of the points' type; None where all rows are data
    #: (N,), where points stand for n rows: for how many each; 0 where they count for nothing.
    weights: Any = None

    def __len__(self) -> int:
        """N."""
        return len(self.points)

    @property
    def number(self) -> Any:
        """n, a number or an array ()."""
        return len(self.points) if self.count is None else self.count

    @property
    def data(self) -> Any:
        """(n, D): the data alone, where n is known."""
        return self.points[: int(self.number)]

    @property
    def known(self) -> jax.Array:
        """(N,), which points count for anything."""
        if self.weights is not None:
            return jnp.asarray(self.weights) != 0.0
        return jnp.arange(len(self.points)) < self.number

    def mask(self, values: jax.Array) -> jax.Array:
        """``values`` (..., N) with nothing, or ``False``, where rows are no data."""
        if self.count is None:
            return values
        return jnp.where(self.known, values, jnp.zeros((), values.dtype))

    def total(self, values: jax.Array) -> jax.Array:
        """The sum of ``values`` (N,) over the rows, ()."""
        weighted = values if self.weights is None else values * self.weights
        return jnp.sum(self.mask(weighted))

    def mask_matrix(self, matrix: jax.Array) -> jax.Array:
        """A ``matrix`` (N, N) likewise."""
        return matrix if self.count is None else self.mask(self.mask(matrix).T).T

    def mask_block(self, block: jax.Array, i: slice | jax.Array, j: slice | jax.Array) -> jax.Array:
        """A ``block`` of rows i and columns j of such a matrix, of finite numbers, likewise."""
        if self.count is None:
            return block
        known = self.mask(jnp.ones(len(self), block.dtype))
        return block * known[i][:, None] * known[j]


def as_padded(points: Any) -> PaddedRows:
    """Points (n, D), all of them data, or what is padded already."""
    return points if isinstance(points, PaddedRows) else PaddedRows(points)


def padded(points: Any, size: int) -> PaddedRows:
    """Known points (n, D), n at most ``size``, filled up to that."""
    points = np.asarray(points)
    return PaddedRows(
        np.pad(points, ((0, size - len(points)), (0, 0)), mode="edge"),
        np.asarray(len(points), points.dtype),
    )


def dense_size(n: int) -> int:
    """To which size ``n`` rows are filled up for matrices, whose work grows like its cube."""
    return n if n > MOST_PADDED else -(-n // DENSE_STEP) * DENSE_STEP


def shared_size(size: int, per_octave: int = SIZES_PER_OCTAVE) -> int:
    """``size``, or the next of those that data share, ``per_octave`` in every factor of two."""
    step = 2 ** max(0, int(math.log2(size)) - int(math.log2(per_octave)))
    return -(-size // step) * step
