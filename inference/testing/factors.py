"""Gram matrices of many rows by a factor of their numerical rank, found by pivoted Cholesky.

Which rows are pivots depends on the pooled sample alone, so permutation tests with the matrix
F F' are exact whatever is left of the Gram matrix; and what is left is next to nothing. In NumPy:
compiled, :mod:`bke.models.linalg.pivoted_cholesky` goes through room for the largest rank at every
pivot.
"""

from __future__ import annotations

import itertools
from threading import Event
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import Covariance

from ..core.machine import available_memory, cores, side_by_side

#: Rows from which on a factor is looked for; fewer are done as soon by the matrix itself.
LEAST_ROWS = 2000
#: Rank at most, and over the rows: a product with the matrix takes less time beyond.
MOST_RANK, ROWS_PER_RANK = 1000, 4
#: Share of the free memory that the factor may take.
MEMORY_SHARE = 0.25
#: Trace of what is left over that of the Gram matrix.
TOLERANCE = 1e-12
#: With more than this left at a third of the largest rank one gives up, where there are no more
#: rows than these: the matrix itself can still be taken.
OUT_OF_SIGHT, FEW_ROWS = 1e-3, 10_000
#: Rows of labels worked on at once, as numbers.
BLOCK = 8192


class Factor(NamedTuple):
    """A Gram matrix (N, N) as F F'."""

    transposed: np.ndarray  # (r, N), F'

    def centred(self) -> Factor:
        """The factor H F of the centred matrix, with H = I - 11'/N."""
        return Factor(self.transposed - self.transposed.mean(axis=1, keepdims=True))

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of the matrix, (N,)."""
        return np.einsum("rn,rn->n", self.transposed, self.transposed)

    def sums(self, labels: np.ndarray) -> np.ndarray:
        """Multiply F' by every column z of ``labels`` (N, k) of bool: F' z, (r, k)."""
        return _product(self.transposed, labels)


def factor_of(kernel: Covariance, points: np.ndarray) -> Factor | None:
    """Factorise for (N, D) ``points``; ``None`` where they are few or the rank is not small."""
    N = len(points)
    memory = available_memory()
    room = MOST_RANK if memory is None else int(MEMORY_SHARE * memory / (8 * N))
    most = min(MOST_RANK, N // ROWS_PER_RANK, room)
    if N < LEAST_ROWS or most < 1:
        return None
    left = np.array(_diagonal(kernel, jnp.asarray(points)))
    total = left.sum()
    found = np.empty((most, N))  # of which only what is written to takes memory
    for rank in range(most):
        pivot = int(np.argmax(left))
        row = np.array(kernel(points[pivot : pivot + 1], points), dtype=float)[0]
        row -= found[:rank, pivot] @ found[:rank]
        found[rank] = row / np.sqrt(left[pivot])
        left -= found[rank] ** 2
        left[pivot] = 0.0  # exactly, in exact arithmetic
        np.maximum(left, 0.0, out=left)
        remaining = left.sum()
        if remaining <= TOLERANCE * total:
            return Factor(found[: rank + 1])
        hopeless = 3 * rank > most and remaining > OUT_OF_SIGHT * total
        if hopeless and N <= FEW_ROWS:
            return None
    return None


@jax.jit
def _diagonal(kernel: Covariance, points: jax.Array) -> jax.Array:
    return kernel.diagonal(points)


def _product(transposed: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Multiply by labels, which as numbers would not fit, by blocks of rows."""
    edges = [*range(0, len(labels), BLOCK), len(labels)]
    blocks = [slice(a, b) for a, b in itertools.pairwise(edges)]
    parts = np.array_split(np.arange(len(blocks)), cores())

    def one(part: int) -> np.ndarray:
        total = np.zeros((len(transposed), labels.shape[1]))
        for index in parts[part]:
            rows = blocks[index]
            total += transposed[:, rows] @ labels[rows].astype(float)
        return total

    return np.sum(side_by_side(one, len(parts), Event()), axis=0)
