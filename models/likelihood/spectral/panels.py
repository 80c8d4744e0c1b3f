"""One column of data in panels: functions that vary over a lengthscale, at Chebyshev nodes.

On a panel a few lengthscales wide, a squared exponential of that lengthscale or any longer one is
its interpolant at 32 Chebyshev nodes. So n points are weights at the nodes, for sums over them, and
a matrix per panel, for products of functions of them; a panel with no more points than nodes is its
points themselves, so that what is far out costs no more than there is of it.

Nodes are a panel's centre, which is exact, and an offset: their differences are as right as those
of the data, however far from 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Nodes of a panel.
ORDER = 32
_ANGLES = np.pi * (np.arange(ORDER) + 0.5) / ORDER
NODES = np.cos(_ANGLES)
#: Chebyshev coefficients (rows) of an interpolant from its values at the nodes (columns).
COEFFICIENTS = 2.0 / ORDER * np.cos(np.arange(ORDER)[:, None] * _ANGLES)
COEFFICIENTS[0] *= 0.5
#: Bits of a panel's width: its multiples are exact.
WIDTH_BITS = 12


class Nodes(NamedTuple):
    """Places of the nodes, in blocks; those behind the last one are nowhere in particular."""

    centre: Any  # (blocks, ORDER)
    offset: Any  # (blocks, ORDER), from the centre

    def minus(self, others: Nodes) -> jax.Array:
        """All differences, (N, M)."""
        (c, o), (d, p) = (
            (each.centre.reshape(-1), each.offset.reshape(-1)) for each in (self, others)
        )
        return (c[:, None] - d) + (o[:, None] - p)


class Places(NamedTuple):
    """Block, node and offset of every point."""

    node: Any  # (n,), which node it is itself; -1: none
    block: Any  # (n,), else its panel's block
    u: Any  # (n,), and where in the panel, from -1 to 1


class Panels(NamedTuple):
    """n points as nodes; first the panels that are interpolated."""

    nodes: Nodes
    weights: np.ndarray  # (blocks, ORDER): a sum over the points is one over these
    dense: np.ndarray  # (panels, 3): both ends and the number of points of those interpolated
    places: Places
    moments: np.ndarray  # (panels, 2 ORDER - 1): sums over their points of T_k(u)
    counts: np.ndarray  # how many points each of the other nodes is

    def roots(self) -> np.ndarray:
        """(blocks, ORDER, ORDER): T with T' T the products of the cardinal functions.

        By T_j T_k = (T_{j+k} + T_{|j-k|}) / 2.
        """
        root = np.zeros((len(self.weights), ORDER, ORDER))
        k = np.arange(ORDER)
        products = 0.5 * (self.moments[:, k + k[:, None]] + self.moments[:, abs(k - k[:, None])])
        values, vectors = np.linalg.eigh(products)
        half = np.sqrt(np.maximum(values, 0.0))[:, :, None] * np.swapaxes(vectors, 1, 2)
        root[: len(self.dense)] = half @ COEFFICIENTS
        few = np.zeros(root.shape[:2])
        few.reshape(-1)[ORDER * len(self.dense) :][: len(self.counts)] = np.sqrt(self.counts)
        return root + few[:, :, None] * np.eye(ORDER)


def rounded(width: float) -> float:
    """A ``width`` of few bits."""
    mantissa, exponent = math.frexp(width)
    return math.ldexp(math.floor(math.ldexp(mantissa, WIDTH_BITS)), exponent - WIDTH_BITS)


def _cut(x: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cell of each ascending point, first points of panels, different points in each, and which
    points are the first of equal ones.
    """
    cell = np.floor(x / width)
    new = np.append(True, np.diff(x) > 0.0)
    starts = np.flatnonzero(np.append(True, np.diff(cell) > 0.0))
    return cell, starts, np.add.reduceat(new.astype(int), starts), new


def blocks_of(x: np.ndarray, width: float) -> int:
    """How many blocks of nodes stand for the ascending ``x`` (n,) in panels of a ``width``."""
    _, _, different, _ = _cut(x, rounded(width))
    few = different <= ORDER
    return int(np.sum(~few)) - int(-np.sum(different[few]) // ORDER)


def panels_over(x: np.ndarray, width: float, blocks: int) -> Panels:
    """The ascending ``x`` (n,) in panels of a ``width``, in as many ``blocks``."""
    width = rounded(width)
    cell, starts, different, new = _cut(x, width)
    panel = np.cumsum(np.append(False, np.diff(cell) > 0.0))
    is_dense = different > ORDER
    dense = is_dense[panel]
    centre = (cell + 0.5) * width
    u = np.clip((x - centre) / (0.5 * width), -1.0, 1.0)
    first = starts[is_dense]
    p = len(first)

    moments = np.empty((2 * ORDER - 1, len(starts)))
    before, last = u, np.ones_like(u)  # T_-1 = T_1
    for k in range(2 * ORDER - 1):
        moments[k] = np.add.reduceat(last, starts)
        before, last = last, 2.0 * u * last - before
    moments = moments.T[is_dense]

    centres, offsets, weights = np.zeros((3, blocks, ORDER))
    centres[:p] = centre[first][:, None]
    offsets[:p] = 0.5 * width * NODES
    weights[:p] = moments[:, :ORDER] @ COEFFICIENTS
    own = np.cumsum(new & ~dense) - 1  # of the other nodes
    counts = np.bincount(own[~dense], minlength=0)
    room = slice(ORDER * p, ORDER * p + len(counts))
    centres.reshape(-1)[room] = x[new & ~dense]
    weights.reshape(-1)[room] = counts
    ends = np.stack([centre[first] - 0.5 * width, centre[first] + 0.5 * width], axis=1)
    size = np.diff(np.append(starts, len(x)))[is_dense]
    places = Places(
        np.where(dense, -1, ORDER * p + own),
        np.where(dense, (np.cumsum(is_dense) - 1)[panel], 0),
        np.where(dense, u, 0.0),
    )
    return Panels(
        Nodes(centres, offsets), weights, np.column_stack([ends, size]), places, moments, counts
    )


def at_places(values: jax.Array, places: Places) -> jax.Array:
    """A function at the points (n,), from its ``values`` (blocks, ORDER) at the nodes.

    The interpolants by Clenshaw's recurrence.
    """
    own = values.reshape(-1).at[jnp.maximum(places.node, 0)].get(mode="promise_in_bounds")
    twice = 2.0 * places.u

    def step(two: tuple[jax.Array, jax.Array], column: jax.Array) -> tuple[Any, None]:
        last, before = two
        here = column.at[places.block].get(mode="promise_in_bounds")
        return (here + twice * last - before, last), None

    nothing = jnp.zeros_like(places.u)
    columns = (values @ COEFFICIENTS.T).T
    (last, before), _ = jax.lax.scan(step, (nothing, nothing), columns[1:], reverse=True)
    first = columns[0].at[places.block].get(mode="promise_in_bounds")
    return jnp.where(places.node >= 0, own, first + places.u * last - before)
