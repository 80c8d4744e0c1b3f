"""Rows filled up to sizes that similar data share, so that these share compiled programs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .pytrees import register_dataclass

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

    def of_data(self, values: jax.Array) -> jax.Array:
        """``values`` (..., N) with nothing, or ``False``, where rows are no data."""
        if self.count is None:
            return values
        return jnp.where(self.known, values, jnp.zeros((), values.dtype))

    def total(self, values: jax.Array) -> jax.Array:
        """The sum of ``values`` (N,) over the rows, ()."""
        weighted = values if self.weights is None else values * self.weights
        return jnp.sum(self.of_data(weighted))

    def of_pairs(self, matrix: jax.Array) -> jax.Array:
        """A ``matrix`` (N, N) likewise."""
        return matrix if self.count is None else self.of_data(self.of_data(matrix).T).T

    def of_block(self, block: jax.Array, i: slice | jax.Array, j: slice | jax.Array) -> jax.Array:
        """A ``block`` of rows i and columns j of such a matrix, of finite numbers, likewise."""
        if self.count is None:
            return block
        known = self.of_data(jnp.ones(len(self), block.dtype))
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
