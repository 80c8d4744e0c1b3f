"""What is compared between batches of draws: moments of normal scores, correlations, kernels.

Columns are brought to normal scores of all draws, so that neither units nor heavy tails matter.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..learning.bandwidths import pairwise_distances
from .batches import Batches
from .normal_scores import normal_scores

#: Scales of the kernel, over the median distance of the scores.
SCALES = (0.25, 0.5, 1.0, 2.0)
#: Columns of which all pairs are looked at, and rows that the kernel compares with each other.
MOST_PAIRED, MOST_ROWS = 100, 4000
#: Batches of half a chain, below which correlations are those of each batch.
FEWEST_OF_HALF = 6
#: Seed of the rows that the median distance is of.
CHOOSING = 0
#: Entries of a block of the kernel's matrix.
ENTRIES = 2**22
#: What of one column is compared: Hermite polynomials of its scores, orthonormal for a normal.
ORDERS = ("location", "spread", "skewness", "tails")


class Features(NamedTuple):
    """Means over batches of what is compared.

    Attributes:
        columns: (orders, q, D), of every column's Hermite polynomials.
        pairs: (q, k), of the products of two columns' scores, taken from their mean and over their
            deviation in each half of each chain, or in each batch where these are few; k = 0 of one
            column, or of too many.
        grams: (scales, q, q), mean kernels of the rows of two batches.
    """

    columns: np.ndarray
    pairs: np.ndarray
    grams: np.ndarray


def features_of(rows: np.ndarray, cut: Batches) -> Features:
    """Average over batches what is compared.

    Args:
        rows: draws (N, D), batch after batch, no column of which is constant.
        cut: which of them are a batch.
    """
    scores = normal_scores(rows)
    polynomials = np.stack(
        [
            scores,
            (scores**2 - 1.0) / math.sqrt(2.0),
            (scores**3 - 3.0 * scores) / math.sqrt(6.0),
            (scores**4 - 6.0 * scores**2 + 3.0) / math.sqrt(24.0),
        ]
    )
    columns = polynomials.reshape(len(ORDERS), cut.count, cut.length, -1).mean(axis=2)
    return Features(columns, _pairs(_within_parts(scores, cut), cut), _grams(scores, cut))


def pairs_of(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second column of every pair that is looked at."""
    if not 2 <= columns <= MOST_PAIRED:
        return np.empty(0, dtype=int), np.empty(0, dtype=int)
    first, second = np.triu_indices(columns, 1)
    return first, second


def _within_parts(scores: np.ndarray, cut: Batches) -> np.ndarray:
    """Scores from their mean in each part of each chain, over their deviation there.

    Their products are correlations then, which other means and spreads leave as they are. Parts are
    halves, of many batches, or batches: two of a half would have in common how far their means are
    apart, and batches that are dealt out must not know of each other.
    """
    found = np.empty_like(scores)
    chains = scores.reshape(cut.chains, cut.each, cut.length, -1)
    second = cut.each - cut.each // 2
    edges = (0, second, cut.each) if second >= FEWEST_OF_HALF else tuple(range(cut.each + 1))
    for chain, own in enumerate(chains):
        for part in map(slice, edges[:-1], edges[1:]):
            rows = own[part].reshape(-1, scores.shape[1])
            deviation = rows.std(axis=0)
            moved = (rows - rows.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0)
            into = found.reshape(chains.shape)[chain, part]
            into[...] = moved.reshape(into.shape)
    return found


def _pairs(scores: np.ndarray, cut: Batches) -> np.ndarray:
    first, second = pairs_of(scores.shape[1])
    found = np.empty((cut.count, len(first)))
    for index, batch in enumerate(scores.reshape(cut.count, cut.length, -1)):
        products = batch.T @ batch / cut.length
        found[index] = products[first, second]
    return found


def _grams(scores: np.ndarray, cut: Batches) -> np.ndarray:
    """Mean squared exponentials of all pairs of rows of two batches, at every scale."""
    kept, thinner = cut.thinned(MOST_ROWS)
    points = scores[kept]
    median = float(np.median(pairwise_distances(points, CHOOSING)))
    x, lengths = jnp.asarray(points), jnp.asarray(median * np.array(SCALES))
    found = np.empty((len(SCALES), cut.count, cut.count))
    for some, rows in thinner.blocks(ENTRIES):
        found[:, some] = _block(x[rows], x, lengths, thinner.length)
    return found


@functools.partial(jax.jit, static_argnames="length")
def _block(x: Any, y: Any, lengths: Any, length: int) -> jax.Array:
    squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1) - 2.0 * x @ y.T
    squares = jnp.maximum(squares, 0.0)

    def at(one: jax.Array) -> jax.Array:
        matrix = jnp.exp(-0.5 * squares / one**2)
        rows, columns = matrix.shape
        return matrix.reshape(rows // length, length, columns // length, length).mean((1, 3))

    found: jax.Array = jax.lax.map(at, lengths)
    return found
