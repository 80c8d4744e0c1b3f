"""Points in several columns that no other is near: sums over few pairs, as in :mod:`.isolated`.

What the cells give is right to rounding error beside the slopes of all points together, and gamma
of an isolated point lies far below these. What its neighbours contribute is summed pair by pair, in
log space. Equal points are one, with a weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree

from ...kernels.squared_exponential import SquaredExponential
from ..jacobian import log_length
from .isolated import LEAST_PAIRS, LEAST_ROWS, MOST_ASKED, NEGLIGIBLE, shared_size
from .prepared import TooLargeError

#: A point is isolated where sum |k'| over the others, in units of 1 / lengthscale, may be below
#: this times n. The cells' error is some 1e-15 n; the slopes of the others may balance in part.
SLOPE = 3e-8
#: Points by which most others are known not to be isolated; nearest ones that are looked at.
SAMPLE, NEAREST = 64, (16, 128)
#: Pairs beyond which a range is not taken.
MOST_PAIRS = 1_000_000
#: Distances of one block.
BLOCK_ENTRIES = 2**22


class FarPoints(NamedTuple):
    """Pairs of an isolated point and a neighbour; of several ranges, filled up with no pairs."""

    rows: Any  # (k,), which points; n where there is none
    place: Any  # (k,), which of the places: equal points share one
    owner: Any  # (pairs,), the place whose neighbour it is; k: of none
    delta: Any  # (D, pairs), x - neighbour
    log_weight: Any  # (pairs,), of how many equal neighbours


class Distinct(NamedTuple):
    """The different points among (n, D), and how to look for neighbours."""

    points: np.ndarray  # (u, D)
    which: np.ndarray  # (n,), of these
    counts: np.ndarray  # (u,)
    tree: Any
    nearest: np.ndarray  # (u,), distance of the nearest other one


def distinct(x: np.ndarray) -> Distinct:
    """The different points among (n, D), with their numbers and nearest neighbours."""
    points, which, counts = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    tree = cKDTree(points)
    nearest = np.asarray(tree.query(points, k=2)[0])[:, 1]
    return Distinct(points, which.ravel(), counts, tree, nearest)


def far_points(data: Distinct, shortest: float, longest: float) -> FarPoints:
    """The isolated points for lengthscales from ``shortest`` to ``longest``, and their pairs.

    Raises:
        TooLargeError: where there are more than a million.
    """
    n, dimension = len(data.which), data.points.shape[1]
    # Beyond the extent of the data all slopes, and the cells' error, shrink alike.
    far = longest if math.isfinite(longest) else shortest
    alone = _isolated(data, shortest, far, min(SLOPE * n, MOST_ASKED))
    reach = np.full(len(alone), math.inf)
    if math.isfinite(longest):
        nearest = data.nearest[alone]
        with np.errstate(divide="ignore"):
            closer = np.maximum(0.0, np.log(longest / nearest))
        reach = np.sqrt(nearest**2 + 2.0 * (math.log(n) + NEGLIGIBLE + closer) * longest**2)
        reach *= 1.0 + 1e-12  # the nearest is among them
    places = data.points[alone]
    count = data.tree.query_ball_point(places, reach, return_length=True)
    if np.sum(count) > MOST_PAIRS:
        raise TooLargeError("too many rows are far nearer each other than the data are wide")
    lists = data.tree.query_ball_point(places, reach)
    owner = np.repeat(np.arange(len(alone)), count)
    neighbour = np.concatenate([np.asarray(each, dtype=int) for each in lists] or [owner])
    others = neighbour != alone[owner]
    owner, neighbour = owner[others], neighbour[others]
    delta = places[owner] - data.points[neighbour]
    log_weight = np.log(data.counts[neighbour])
    place = np.full(len(data.points), -1)
    place[alone] = np.arange(len(alone))
    of_rows = place[data.which]
    rows = np.flatnonzero(of_rows >= 0)
    return FarPoints(rows, of_rows[rows], owner, delta.T.reshape(dimension, -1), log_weight)


def stacked(each: Sequence[FarPoints], n: int) -> FarPoints:
    """Several ranges' in one, of sizes that most data share."""
    k = shared_size(max(len(one.rows) for one in each), LEAST_ROWS)
    pairs = shared_size(max(len(one.owner) for one in each), LEAST_PAIRS)

    def filled(values: np.ndarray, size: int, filler: float) -> np.ndarray:
        width = [(0, 0)] * (values.ndim - 1) + [(0, size - values.shape[-1])]
        return np.pad(values, width, constant_values=filler)

    fillers = ((k, n), (k, 0), (pairs, k), (pairs, 1.0), (pairs, 0.0))
    return FarPoints(
        *(
            np.stack([filled(one[field], size, filler) for one in each])
            for field, (size, filler) in enumerate(fillers)
        )
    )


def _isolated(data: Distinct, shortest: float, longest: float, asked: float) -> np.ndarray:
    """Which of the different points may have less than ``asked``, by lower bounds for few others.

    t exp(-t^2 / 2) rises and then falls, so over a range of lengthscales it is least at an end.
    """

    def least(distances: np.ndarray) -> np.ndarray:
        ends = [distances / lengthscale for lengthscale in (shortest, longest)]
        return np.minimum(*(t * np.exp(-0.5 * t**2) for t in ends)).sum(axis=1)

    u = len(data.points)
    some = data.points[:: max(1, u // SAMPLE)]
    rows = np.arange(u)
    blocks = np.array_split(rows, max(1, u * len(some) // BLOCK_ENTRIES))
    bound = [least(np.linalg.norm(data.points[block][:, None] - some, axis=2)) for block in blocks]
    rows = rows[np.concatenate(bound) < asked]
    for nearest in NEAREST:
        if len(rows):
            distances = data.tree.query(data.points[rows], k=min(nearest, u))[0]
            rows = rows[least(distances) < asked]
    return rows


def with_far_points(log_volume: jax.Array, far: FarPoints, kernel: SquaredExponential) -> jax.Array:
    """``log_volume`` (n,) with the isolated points' sums over pairs in their places."""
    k, n = len(far.rows), len(log_volume)
    terms = kernel.value_and_grad_at(far.delta[:, None])
    log_scale, gradient = terms.log_scale[0] + far.log_weight, terms.gradient[:, 0]
    largest = jax.lax.stop_gradient(jax.ops.segment_max(log_scale, far.owner, k + 1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weighted = gradient * jnp.exp(log_scale - largest[far.owner])
    slopes = jax.ops.segment_sum(weighted.T, far.owner, k + 1)[:k]
    alone = largest[:k] + log_length(slopes) - math.log(n)
    return log_volume.at[far.rows].set(alone[far.place], mode="drop")
