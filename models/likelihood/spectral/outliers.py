"""Points that hardly any other is near, for kernels of several lengthscales at once.

A component's slope summed over nodes is right to rounding beside what whole panels contribute; of a
point at the far side of these it is not right at all. There the pairs that count are summed one by
one in log space, as in :mod:`.isolated`, each component by pairs below a lengthscale of the
point's own and by nodes from there on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .isolated import (
    LEAST_PAIRS,
    LEAST_ROWS,
    MOST_ASKED,
    NEGLIGIBLE,
    SLOPE,
    may_be_isolated,
    pairs_within,
    shared_size,
)

#: Lengthscales, over the shortest, at which points are looked for: from a panel's width on, no
#: point in an interpolated panel is far from all that is in it.
LOOKS = (1.0, 2.0, 4.0, 8.0)
#: Steps of the lengthscale up to which a point has its pairs, and the least sum for nodes: k
#: itself underflows not far below.
STEP, LEAST_SUM = 1.1, 1e-250
MOST_EXPONENT = 700.0
#: Pairs beyond which a range is not taken.
MOST_PAIRS = 1_000_000


class Outliers(NamedTuple):
    """Pairs of an isolated point and a neighbour, filled up with pairs of no point."""

    rows: Any  # (k,), which points; n where there is none
    x: Any  # (k,), where they are
    until: Any  # (k,), the lengthscale from which on the nodes will do
    owner: Any  # (pairs,), whose neighbour it is, an index into ``rows``; k: nobody's
    delta: Any  # (pairs,), x - neighbour


def outliers(x: np.ndarray, dense: np.ndarray, shortest: float) -> Outliers:
    """Those of the ascending ``x`` (n,) for all lengthscales from the ``shortest`` on.

    Args:
        x: the points.
        dense: (panels, 3), both ends and the number of points of those that are interpolated.
        shortest: of the lengthscales.

    Raises:
        TooLargeError: where there are more than a million pairs.
    """
    n = len(x)
    asked = min(SLOPE * n, MOST_ASKED)
    one = np.ones(n)
    looks = [may_be_isolated(x, look * shortest, asked, one) for look in LOOKS]
    rows = np.unique(np.concatenate(looks))
    upto, before = (np.searchsorted(x, x[rows], side=side) for side in ("right", "left"))
    until = _until(x, rows, before, upto, dense, shortest)
    some = until > shortest
    rows, until, before, upto = rows[some], until[some], before[some], upto[some]
    beside = np.concatenate([[-np.inf], x, [np.inf]])
    nearest = np.minimum(x[rows] - beside[before], beside[upto + 1] - x[rows])
    # Of t exp(-t^2 / 2), what is further has more of the first factor.
    closer = np.log(np.maximum(1.0, until / nearest))
    reach = np.sqrt(nearest**2 + 2.0 * (math.log(n) + NEGLIGIBLE + closer) * until**2)
    reach += 4.0 * np.finfo(float).eps * (np.abs(x[rows]) + nearest)  # the nearest is among them
    owner, _, delta = pairs_within(x, rows, reach, MOST_PAIRS)
    return Outliers(rows, x[rows], until, owner, delta)


def _until(
    x: np.ndarray,
    rows: np.ndarray,
    before: np.ndarray,
    upto: np.ndarray,
    dense: np.ndarray,
    shortest: float,
) -> np.ndarray:
    """The lengthscale (k,) from which on sums over the nodes will do for the ``rows`` (k,).

    They do where sum |k'| over the points is not below :data:`SLOPE` times what it would be with
    the points of each panel where |k'| is largest on it: rounding is relative to that.
    """
    n = len(x)
    steps = 2 ** np.arange(n.bit_length() + 1) - 1
    right, left = upto[:, None] + steps, before[:, None] - 1 - steps
    sides = [np.minimum(right, n - 1), np.maximum(left, 0)]
    there = [(right < n)[:, :1], (left >= 0)[:, :1]]
    distances = [np.abs(x[side] - x[rows, None]) for side in sides]
    between = [np.abs(np.diff(side, axis=1)) for side in sides]
    low, high = dense[:, 0] - x[rows, None], x[rows, None] - dense[:, 1]
    nearest, farthest = np.maximum(np.maximum(low, high), 0.0), np.maximum(-low, -high)

    def slope(distance: np.ndarray, lengthscale: float) -> np.ndarray:
        t = distance / lengthscale
        return t * np.exp(-0.5 * t**2)

    until = np.full(len(rows), shortest)
    lengthscale = shortest
    while lengthscale < 2.0 * (x[-1] - x[0]):
        least = np.zeros(len(rows))
        for distance, inside, some in zip(distances, between, there, strict=True):
            each = slope(distance, lengthscale)
            each = np.where(some, each, 0.0)
            least += each[:, 0] + np.sum(inside * np.minimum(each[:, :-1], each[:, 1:]), axis=1)
        peak = np.clip(lengthscale, nearest, farthest)
        most = slope(peak, lengthscale) @ dense[:, 2]
        enough = (least >= SLOPE * most) & (least > LEAST_SUM)
        lengthscale *= STEP
        until[~enough] = lengthscale
    return until


def stacked(each: Sequence[Outliers], n: int) -> Outliers:
    """Several ranges' in one, (ranges, k) and (ranges, pairs), of sizes that most data share."""
    k = shared_size(max(len(one.rows) for one in each), LEAST_ROWS)
    pairs = shared_size(max(len(one.owner) for one in each), LEAST_PAIRS)

    def filled(values: np.ndarray, size: int, filler: float) -> np.ndarray:
        return np.pad(values, (0, size - len(values)), constant_values=filler)

    sizes = ((k, n), (k, 0.0), (k, 0.0), (pairs, k), (pairs, 1.0))
    return Outliers(
        *(
            np.stack([filled(one[field], size, filler) for one in each])
            for field, (size, filler) in enumerate(sizes)
        )
    )


def with_outliers(
    log_volume: jax.Array,
    outliers: Outliers,
    by_nodes: jax.Array,
    log_weight: jax.Array,
    precision: jax.Array,
    n: jax.Array,
) -> jax.Array:
    """``log_volume`` (N,) with the sums of every component in the outliers' places.

    Args:
        log_volume: of the points.
        outliers: (k,) of these.
        by_nodes: (Q, k), the components' slopes summed over the nodes, over n.
        log_weight: (Q,) of the components.
        precision: (Q,), 1 / lengthscale^2.
        n: how many of the points are data.
    """
    k = len(outliers.rows)

    def of_pairs(log_weight: jax.Array, precision: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log scale and sum (k,)."""
        delta, owner = outliers.delta, outliers.owner
        log_scale = -0.5 * precision * delta**2
        largest = jax.lax.stop_gradient(jax.ops.segment_max(log_scale, owner, k + 1))
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        terms = -precision * delta * jnp.exp(log_scale - largest[owner])
        return largest[:k] + log_weight, jax.ops.segment_sum(terms, owner, k + 1)[:k] / n

    log_scale, slope = jax.vmap(of_pairs)(log_weight, precision)
    alone = jax.lax.rsqrt(precision)[:, None] < outliers.until
    log_scale, slope = jnp.where(alone, log_scale, 0.0), jnp.where(alone, slope, by_nodes)
    size = jnp.where(slope == 0.0, -jnp.inf, log_scale + jnp.log(jnp.abs(slope)))
    largest = jax.lax.stop_gradient(jnp.max(size, axis=0))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    # A common factor that the sizes of the sums make up for.
    exponent = jnp.minimum(log_scale - largest, MOST_EXPONENT)  # of a sum that is zero
    total = jnp.abs(jnp.sum(jnp.exp(exponent) * slope, axis=0))
    nonzero = total > 0.0
    total = jnp.where(nonzero, jnp.log(jnp.where(nonzero, total, 1.0)), -jnp.inf)
    return log_volume.at[outliers.rows].set(largest + total, mode="drop")
