"""Points with few neighbors: log gamma as a sum over neighbors in log space.

Sums by waves, grids, panels or cells are accurate compared with their largest terms, and gamma of
an isolated point is far below these. Its slope is summed over its nearest neighbors instead, pair
by pair. So is that of a point whose neighbors nearly balance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.special import lambertw

from ...linalg.rows import PaddedRows
from ..jacobian import log_length
from .base import TooLargeError, log_abs

#: One neighbor contributes at most 0.607 to sum |k'|, in units of 1 / lengthscale, at a distance of
#: one lengthscale: no point needs more than this.
MAX_THRESHOLD = 0.5


class IsolatedPoints(NamedTuple):
    """Pairs of an isolated point and a neighbor; several ranges of lengthscales are stacked.

    Attributes:
        rows: rows that are isolated points, (r,); beyond the data where the array is padded.
        point_of_row: index of each row's point, (r,): equal rows may share one.
        max_lengthscale: lengthscale from which on sums over all points are accurate, (k,).
        point_of_pair: index of the point of each pair, (pairs,); k where the array is padded.
        delta: x - neighbor, (D, pairs).
        weight: number of rows that the neighbor stands for, (pairs,).
    """

    rows: Any
    point_of_row: Any
    max_lengthscale: Any
    point_of_pair: Any
    delta: Any
    weight: Any

    def overwrite(
        self,
        log_jacobian: jax.Array,
        n: Any,
        precision: jax.Array,
        log_weight: Any = 0.0,
        component_derivatives: Any = 0.0,
    ) -> jax.Array:
        """Replace log gamma (N,) of ``n`` points by sums over pairs for the isolated points.

        Args:
            log_jacobian: log gamma, (N,).
            n: number of points.
            precision: 1 / lengthscale^2 of the components of the kernel, (Q,).
            log_weight: their log weights, (Q,).
            component_derivatives: derivatives of the components of mu_hat at the points, (Q, k, D),
                which are used for those with a lengthscale from ``max_lengthscale`` on.
        """
        k = len(self.max_lengthscale)

        def sum_over_pairs(precision: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Return log scale (k,) and slope (k, D)."""
            exponent = -0.5 * precision * jnp.sum(self.delta**2, axis=0)
            largest = _finite(jax.ops.segment_max(exponent, self.point_of_pair, k + 1))
            terms = self.weight * self.delta * jnp.exp(exponent - largest[self.point_of_pair])
            slope = jax.ops.segment_sum(-precision * terms.T / n, self.point_of_pair, k + 1)
            return largest[:k], slope[:k]

        log_scale, slope = jax.vmap(sum_over_pairs)(precision)
        by_pairs = jax.lax.rsqrt(precision)[:, None] < self.max_lengthscale
        log_scale = jnp.where(by_pairs, log_scale + jnp.reshape(log_weight, (-1, 1)), 0.0)
        slope = jnp.where(by_pairs[..., None], slope, component_derivatives)
        largest = _finite(jnp.max(log_scale + jax.vmap(log_length)(slope), axis=0))
        # Bounded, since the scale of a slope of zero may be larger than any.
        factor = jnp.exp(jnp.minimum(log_scale - largest, 700.0))
        value = largest + log_length(jnp.sum(factor[..., None] * slope, axis=0))
        rows = jnp.where(jnp.any(by_pairs, axis=0)[self.point_of_row], self.rows, len(log_jacobian))
        return log_jacobian.at[rows].set(value[self.point_of_row], mode="drop")


def _finite(largest: jax.Array) -> jax.Array:
    """Return the largest exponents without derivative, which cancels, and 0 instead of -inf."""
    largest = jax.lax.stop_gradient(largest)
    return jnp.where(jnp.isfinite(largest), largest, 0.0)


def stack_ranges(
    ranges: Sequence[IsolatedPoints], n: int, min_points: int = 128, min_pairs: int = 1024
) -> IsolatedPoints:
    """Stack the points of several ranges for ``n`` rows, padded to sizes that most data share.

    Sizes are ``min_points`` and ``min_pairs`` times powers of four: each size is compiled anew.
    """

    def size(minimum: int, field: str) -> int:
        length = max(getattr(points, field).shape[-1] for points in ranges)
        return minimum * 4 ** max(0, math.ceil(math.log(max(length, 1) / minimum, 4)))

    def padded(values: np.ndarray, length: int, value: float) -> np.ndarray:
        width = [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])]
        return np.pad(values, width, constant_values=value)

    r, k, pairs = (
        size(min_points, "rows"),
        size(min_points, "max_lengthscale"),
        size(min_pairs, "point_of_pair"),
    )
    padding = ((r, n), (r, 0), (k, 0.0), (pairs, k), (pairs, 1.0), (pairs, 0.0))
    fields = zip(zip(*ranges, strict=True), padding, strict=True)
    return IsolatedPoints(
        *(np.stack([padded(values, *to) for values in field]) for field, to in fields)
    )


def isolated_in_column(
    x: np.ndarray,
    lengthscales: Sequence[float],
    longest: float = math.inf,
    weights: np.ndarray | None = None,
    min_slope: float = 1e-8,
    max_pairs: int = 250_000,
) -> IsolatedPoints:
    """Find the isolated points of one column, and their neighbors.

    Args:
        x: ascending points, (n,).
        lengthscales: at which points are searched, the shortest first.
        longest: up to which neighbors are needed.
        weights: number of rows that each point stands for, (n,).
        min_slope: a point is isolated where sum |k'| over the others, in units of 1 / lengthscale,
            may be below this times n. The rounding error of sums over n points is some 1e-16 n.
        max_pairs: with more pairs, the matrices take less memory.

    Raises:
        TooLargeError: for more than ``max_pairs`` pairs.
    """
    weights = np.ones(len(x)) if weights is None else weights
    n = np.sum(weights)
    threshold = min(min_slope * n, MAX_THRESHOLD)
    candidates = [_sparse_rows(x, length, threshold, weights) for length in lengthscales]
    rows = np.unique(np.concatenate(candidates))
    max_lengthscale = np.minimum(_sufficient_lengthscale(x, rows, threshold), longest)
    rows, max_lengthscale = (
        rows[max_lengthscale > lengthscales[0]],
        max_lengthscale[max_lengthscale > lengthscales[0]],
    )
    before, after = (np.searchsorted(x, x[rows], side=side) for side in ("left", "right"))
    bounded = np.concatenate([[-np.inf], x, [np.inf]])
    nearest = np.minimum(x[rows] - bounded[before], bounded[after + 1] - x[rows])
    reach = _reach(nearest, max_lengthscale, n)
    reach += 4.0 * np.finfo(float).eps * (np.abs(x[rows]) + nearest)  # includes the nearest
    begin = np.searchsorted(x, x[rows] - reach)
    count = np.searchsorted(x, x[rows] + reach, side="right") - begin
    _check_pairs(count, max_pairs)
    point_of_pair = np.repeat(np.arange(len(rows)), count)
    neighbor = np.arange(len(point_of_pair)) + np.repeat(begin - np.cumsum(count) + count, count)
    delta = x[rows[point_of_pair]] - x[neighbor]
    other = delta != 0.0
    point = np.arange(len(rows))
    return IsolatedPoints(
        rows,
        point,
        max_lengthscale,
        point_of_pair[other],
        delta[None, other],
        weights[neighbor[other]],
    )


def _reach(nearest: np.ndarray, lengthscale: Any, n: float) -> np.ndarray:
    """Return the distance beyond which ``n`` neighbors are negligible compared with the nearest.

    In t exp(-t^2 / 2), the first factor is larger for points farther away. Together they contribute
    less than exp(-25) of the nearest.
    """
    excess = math.log(n) + 25.0 + np.log(np.maximum(1.0, lengthscale / nearest))
    return np.asarray(np.sqrt(nearest**2 + 2.0 * excess * lengthscale**2))


def _check_pairs(count: np.ndarray, max_pairs: int) -> None:
    if np.sum(count) > max_pairs:
        raise TooLargeError("too many rows are far nearer each other than the data are wide")


def _slope(t: np.ndarray) -> np.ndarray:
    """Return |k'| at a distance of t lengthscales, which rises up to t = 1, then falls."""
    return t * np.exp(-0.5 * t**2)


def _sparse_rows(
    x: np.ndarray, lengthscale: float, threshold: float, weights: np.ndarray
) -> np.ndarray:
    """Return the entries of the ascending ``x`` (n,) whose sum |k'| may be below ``threshold``.

    A lower bound: neighbors in a ring contribute at least the value at one of its edges.
    """
    cumulative = np.append(0.0, np.cumsum(weights))

    def bound(rows: np.ndarray, edges: np.ndarray) -> np.ndarray:
        least = np.minimum(_slope(edges[:-1]), _slope(edges[1:]))
        distances = lengthscale * edges[:, None]
        after, before = (np.searchsorted(x, x[rows], side=side) for side in ("right", "left"))
        right = np.maximum(np.searchsorted(x, x[rows] + distances), after)
        left = np.minimum(np.searchsorted(x, x[rows] - distances, side="right"), before)
        rings = np.diff(cumulative[right], axis=0) - np.diff(cumulative[left], axis=0)
        return least @ rings

    rows = np.arange(len(x))
    # Most points have enough neighbors at half a lengthscale.
    rows = rows[bound(rows, np.array([0.5, 1.0])) < threshold]
    return rows[bound(rows, 2.0 ** np.arange(-26.0, 3.1, 0.5)) < threshold]


def _sufficient_lengthscale(x: np.ndarray, rows: np.ndarray, threshold: float) -> np.ndarray:
    """Return the lengthscale from which on one neighbor or another contributes the ``threshold``.

    A neighbor at distance d does while ``t exp(-t^2 / 2)`` is at least that for t = d /
    lengthscale.
    """
    steps = 2 ** np.arange(len(x).bit_length() + 1)
    neighbors = np.clip(rows[:, None] + np.concatenate([-steps, steps]), 0, len(x) - 1)
    distances = np.sort(np.abs(x[neighbors] - x[rows, None]), axis=1)[:, ::-1]
    low, high = (math.sqrt(-lambertw(-(threshold**2), branch).real) for branch in (0, -1))
    # From the farthest inward, while the ranges of their lengthscales overlap.
    closer = np.pad(distances[:, 1:], ((0, 0), (0, 1)))
    last = np.argmax(closer / low < distances / high, axis=1)
    return np.asarray(distances[np.arange(len(rows)), last] / high)


class DistinctPoints:
    """The different points among data (n, D) of several columns, and their nearest neighbors."""

    def __init__(self, x: np.ndarray) -> None:
        self.points, which, self.counts = np.unique(
            x, axis=0, return_inverse=True, return_counts=True
        )
        self.which = which.ravel()
        self.tree = cKDTree(self.points)
        self.nearest = np.asarray(self.tree.query(self.points, k=2)[0])[:, 1]

    def isolated(
        self,
        shortest: float,
        longest: float,
        min_slope: float = 3e-8,
        max_pairs: int = 1_000_000,
    ) -> IsolatedPoints:
        """Find the isolated points for lengthscales from ``shortest`` to ``longest``.

        The error of sums over cells is some 1e-15 n, and derivatives of the other points may partly
        balance: hence ``min_slope``, see :func:`isolated_in_column`.

        Raises:
            TooLargeError: for more than ``max_pairs`` pairs.
        """
        n = len(self.which)
        # Beyond the extent of the data all derivatives, and the error, shrink alike.
        ends = shortest, longest if math.isfinite(longest) else shortest
        isolated = self._sparse_rows(ends, min(min_slope * n, MAX_THRESHOLD))
        reach = np.full(len(isolated), math.inf)
        if math.isfinite(longest):
            reach = _reach(self.nearest[isolated], longest, n) * (1.0 + 1e-12)
        points = self.points[isolated]
        count = self.tree.query_ball_point(points, reach, return_length=True)
        _check_pairs(count, max_pairs)
        neighbors = self.tree.query_ball_point(points, reach)
        point_of_pair = np.repeat(np.arange(len(isolated)), count)
        neighbor = np.concatenate([np.zeros(0), *neighbors]).astype(int)
        other = neighbor != isolated[point_of_pair]
        point_of_pair, neighbor = point_of_pair[other], neighbor[other]
        index = np.full(len(self.points), -1)
        index[isolated] = np.arange(len(isolated))
        point = index[self.which]
        rows = np.flatnonzero(point >= 0)
        delta = (points[point_of_pair] - self.points[neighbor]).T
        weight = self.counts[neighbor].astype(float)
        max_lengthscale = np.full(len(isolated), math.inf)
        return IsolatedPoints(rows, point[rows], max_lengthscale, point_of_pair, delta, weight)

    def _sparse_rows(
        self,
        lengthscales: tuple[float, float],
        threshold: float,
        num_sample: int = 64,
        num_nearest: tuple[int, ...] = (16, 128),
        block_entries: int = 2**22,
    ) -> np.ndarray:
        """Return the points whose sum |k'| may be below ``threshold`` between two lengthscales.

        By lower bounds: first for ``num_sample`` points, ``block_entries`` distances at a time,
        then for the nearest ones; not tuned.
        """

        def bound(distances: np.ndarray) -> np.ndarray:
            ends = [_slope(distances / lengthscale) for lengthscale in lengthscales]
            return np.minimum(*ends).sum(axis=1)

        u = len(self.points)
        sample = self.points[:: max(1, u // num_sample)]
        blocks = np.array_split(np.arange(u), max(1, u * len(sample) // block_entries))
        rows = np.concatenate(
            [rows[bound(cdist(self.points[rows], sample)) < threshold] for rows in blocks]
        )
        for k in num_nearest:
            if len(rows):
                distances, _ = self.tree.query(self.points[rows], k=min(k + 1, u))
                rows = rows[bound(np.asarray(distances)[:, 1:]) < threshold]
        return rows


def recompute_balanced(
    log_jacobian: jax.Array,
    derivatives: jax.Array,
    sizes: jax.Array,
    x: jax.Array,
    rows: PaddedRows,
    isolated: IsolatedPoints,
    lengthscale: jax.Array,
    max_ratio: float = 1e-9,
    max_points: int = 32,
    num_neighbors: int = 128,
    reach: float = 14.0,
) -> jax.Array:
    """Replace log gamma (N,) of points whose neighbors nearly balance by sums over these.

    Args:
        log_jacobian: log |slope|, (N,).
        derivatives: of mu_hat, (N,).
        sizes: sizes of their terms, (N,).
        x: ascending points, (N,).
        rows: which of these are data, and the number of rows that each stands for.
        isolated: points that are left out.
        lengthscale: lengthscale of the kernel.
        max_ratio: derivatives below this, over their sizes, may have fewer than six correct digits.
        max_points: number of points that are replaced at most.
        num_neighbors: on either side of a point.
        reach: lengthscales within which all neighbors must be among these.
    """
    # XLA would compute every slope again for each use.
    derivatives, log_jacobian = jax.lax.optimization_barrier(
        (jax.lax.stop_gradient(derivatives), log_jacobian)
    )
    doubtful = rows.known & (jnp.abs(derivatives) < max_ratio * jax.lax.stop_gradient(sizes))
    isolated_rows = jnp.where(
        lengthscale < isolated.max_lengthscale[isolated.point_of_row], isolated.rows, len(x)
    )
    doubtful = doubtful.at[isolated_rows].set(False, mode="drop")

    def replaced() -> jax.Array:
        (points,) = jnp.nonzero(doubtful, size=max_points, fill_value=len(x))
        steps = np.concatenate([np.arange(-num_neighbors, 0), np.arange(1, num_neighbors + 1)])
        index = points[:, None] + steps
        neighbors = jnp.clip(index, 0, len(x) - 1)
        weights = jnp.ones_like(x) if rows.weights is None else jnp.asarray(rows.weights)
        weights = jnp.where((index == neighbors) & rows.known[neighbors], weights[neighbors], 0.0)
        delta = (x[points, None] - x[neighbors]) / lengthscale
        _, log_slope = neighbor_sums(delta, weights)
        ends = np.array([0, -1])
        complete = jnp.all((jnp.abs(delta[:, ends]) > reach) | (weights[:, ends] == 0.0), axis=1)
        points = jnp.where(complete, points, len(x))
        value = log_slope - jnp.log(rows.number * lengthscale)
        return log_jacobian.at[points].set(value, mode="drop")

    return jax.lax.cond(jnp.any(doubtful), replaced, lambda: log_jacobian)


def neighbor_sums(delta: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sum a squared exponential over the neighbors of points.

    Args:
        delta: differences in lengthscales, (m, w).
        weights: rows that a neighbor stands for, (m, w); 0 for none.

    Returns:
        Sum of k (m,), and log |sum of k'| (m,) for a lengthscale of 1.
    """
    other = (weights != 0.0) & (delta != 0.0)
    exponent = jnp.where(other, -0.5 * delta**2, -jnp.inf)
    largest = _finite(jnp.max(exponent, axis=1))
    exponent = jnp.where(other, -0.5 * delta**2 - largest[:, None], 0.0)
    terms = jnp.where(other, weights * jnp.exp(exponent), 0.0)
    ties = jnp.sum(jnp.where(delta == 0.0, weights, 0.0), axis=1)
    value = ties + jnp.exp(largest) * jnp.sum(terms, axis=1)
    sizes = jnp.sum(jnp.abs(delta * terms), axis=1)
    return value, largest + log_abs(jnp.sum(delta * terms, axis=1), sizes)
