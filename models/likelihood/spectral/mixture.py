"""One column and a sum of squared exponentials, of any lengthscales.

On a panel a few lengthscales wide, a squared exponential of that lengthscale or any longer one is
its interpolant at 32 Chebyshev nodes. So n points are weights at the nodes, for sums over them, and
a matrix per panel, for products of functions of them; a panel with no more points than nodes is its
points themselves. A function as smooth as the shortest component is known at the nodes. With their
cardinal functions L (n, m), R = L R_y L' and mu_hat = L K_y L'1 / n for the kernels at the nodes,
whose number m does not depend on n. For T with T'T = L'L,

    log |R + s I| = log |T R_y T' + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = v' (T R_y T' + s I)^-1 v,  v = T K_y L'1 / n,

and the slope of mu_hat at the points is the interpolant of its values at nodes of narrower panels.

The tables depend on the shortest lengthscale only, in ranges that begin where a number of nodes is
enough; below the last range n x n matrices are used.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.components import Components, accumulate
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Unit
from .base import (
    SpectralIndex,
    Sums,
    TooLargeError,
    chebyshev,
    chebyshev_polynomials,
    column_rows,
    log_abs,
    matern_nu,
    pad_rows,
    quadratic_and_log_determinant,
    sorted_column,
)
from .pairs import IsolatedPoints, isolated_in_column, stack_ranges

#: Nodes of a panel.
ORDER = 32
NODES, COEFFICIENTS = chebyshev(ORDER)
#: Width of the panels in lengthscales, for the Gaussian term, where k has an error of 2e-10 of its
#: height and r of rounding; and for the derivatives, where k' has one of rounding.
GAUSSIAN_WIDTH, SLOPE_WIDTH = 8.0, 4.75
#: Blocks of nodes for derivatives over those of the Gaussian term.
SLOPE_BLOCKS = 1.75


class Nodes(NamedTuple):
    """Positions of nodes, in blocks (blocks, ORDER): a center, which is exact, and an offset.

    So their differences are as accurate as those of the data, however far from 0. Nodes beyond the
    last one have no meaning.
    """

    center: Any
    offset: Any

    def minus(self, other: Nodes) -> jax.Array:
        """Return all differences, (N, M)."""
        (c, o), (d, p) = (
            (nodes.center.reshape(-1), nodes.offset.reshape(-1)) for nodes in (self, other)
        )
        return (c[:, None] - d) + (o[:, None] - p)


class Locations(NamedTuple):
    """Positions of the points in panels.

    Attributes:
        node: the node that a point is itself, (n,); -1 for none.
        block: else the block of its panel, (n,).
        u: and its position in the panel, from -1 to 1, (n,).
    """

    node: Any
    block: Any
    u: Any

    def interpolate(self, values: jax.Array) -> jax.Array:
        """Return a function at the points (n,), from its ``values`` (blocks, ORDER) at the nodes.

        By Clenshaw's recurrence.
        """
        at_node = values.reshape(-1).at[jnp.maximum(self.node, 0)].get(mode="promise_in_bounds")

        def step(pair: tuple[jax.Array, jax.Array], column: jax.Array) -> tuple[Any, None]:
            last, before = pair
            coefficient = column.at[self.block].get(mode="promise_in_bounds")
            return (coefficient + 2.0 * self.u * last - before, last), None

        zeros = jnp.zeros_like(self.u)
        columns = (values @ COEFFICIENTS.T).T
        (last, before), _ = jax.lax.scan(step, (zeros, zeros), columns[1:], reverse=True)
        first = columns[0].at[self.block].get(mode="promise_in_bounds")
        return jnp.where(self.node >= 0, at_node, first + self.u * last - before)


class Panels(NamedTuple):
    """n points as nodes; the panels that are interpolated come first.

    Attributes:
        nodes: the nodes.
        weights: (blocks, ORDER): a sum over the points is one over the nodes with these.
        locations: positions of the points.
        moments: sums over the points of T_k(u) in each interpolated panel, (panels, 2 ORDER - 1).
        counts: number of points at each of the other nodes.
    """

    nodes: Nodes
    weights: np.ndarray
    locations: Locations
    moments: np.ndarray
    counts: np.ndarray

    def roots(self) -> np.ndarray:
        """Return T (blocks, ORDER, ORDER) with T' T the products of the cardinal functions.

        By T_j T_k = (T_{j+k} + T_{|j-k|}) / 2.
        """
        k = np.arange(ORDER)
        products = 0.5 * (self.moments[:, k + k[:, None]] + self.moments[:, abs(k - k[:, None])])
        values, vectors = np.linalg.eigh(products)
        half = np.sqrt(np.maximum(values, 0.0))[:, :, None] * np.swapaxes(vectors, 1, 2)
        diagonal = np.zeros(self.weights.shape)
        begin = ORDER * len(products)
        diagonal.reshape(-1)[begin : begin + len(self.counts)] = np.sqrt(self.counts)
        root = diagonal[:, :, None] * np.eye(ORDER)
        root[: len(products)] = half @ COEFFICIENTS
        return root


def _divide(
    x: np.ndarray, width: float, bits: int = 12
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Divide ascending ``x`` (n,) into panels; ``width`` has few ``bits``: multiples are exact.

    Returns:
        Width, panel of each point counted from 0, first points of the panels with points, number of
        different points in each, and a mask of the points that differ from the one before.
    """
    mantissa, exponent = math.frexp(width)
    width = math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
    panel = np.floor(x / width)
    new = np.append(True, np.diff(x) > 0.0)
    starts = np.flatnonzero(np.append(True, np.diff(panel) > 0.0))
    return width, panel, starts, np.add.reduceat(new.astype(int), starts), new


def blocks_of(x: np.ndarray, width: float) -> int:
    """Return the number of blocks for the ascending ``x`` (n,) in panels of a ``width``."""
    *_, different, _ = _divide(x, width)
    sparse = different <= ORDER
    return int(np.sum(~sparse)) - int(-np.sum(different[sparse]) // ORDER)


def panels_over(x: np.ndarray, width: float, blocks: int) -> Panels:
    """Return ascending points ``x`` (n,) in panels of a ``width``, padded to ``blocks``."""
    width, panel, starts, different, new = _divide(x, width)
    is_dense = different > ORDER
    sizes = np.diff(np.append(starts, len(x)))
    dense = np.repeat(is_dense, sizes)
    center = (panel + 0.5) * width
    u = np.clip((x - center) / (0.5 * width), -1.0, 1.0)

    polynomials = chebyshev_polynomials(u, 2 * ORDER - 1)
    moments = np.stack([np.add.reduceat(p, starts) for p in polynomials], axis=1)[is_dense]

    p = len(moments)
    centers, offsets, weights = np.zeros((3, blocks, ORDER))
    centers[:p] = center[starts[is_dense], None]
    offsets[:p] = 0.5 * width * NODES
    weights[:p] = moments[:, :ORDER] @ COEFFICIENTS
    index = np.cumsum(new & ~dense) - 1  # among the nodes that are points
    counts = np.bincount(index[~dense])
    points = slice(ORDER * p, ORDER * p + len(counts))
    centers.reshape(-1)[points] = x[new & ~dense]
    weights.reshape(-1)[points] = counts
    locations = Locations(
        np.where(dense, -1, ORDER * p + index),
        np.where(dense, np.repeat(np.cumsum(is_dense) - 1, sizes), 0),
        np.where(dense, u, 0.0),
    )
    return Panels(Nodes(centers, offsets), weights, locations, moments, counts)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """Nodes for lengthscales from the ``shortest`` up.

    Attributes:
        shortest: ().
        nodes: nodes of the Gaussian term.
        weights: weights of the points at these, (blocks, ORDER).
        roots: T, (blocks, ORDER, ORDER).
        slope_nodes: for derivatives.
        slope_weights: weights of the points at these, (more blocks, ORDER).
    """

    shortest: Any
    nodes: Nodes
    weights: Any
    roots: Any
    slope_nodes: Nodes
    slope_weights: Any

    def gaussian(
        self, kernel: Kernel, noise_variance: jax.Array, n: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Compute quadratic form and log-determinant of BKE (13)."""
        m = self.weights.size
        difference = self.nodes.minus(self.nodes).reshape(-1, 1)
        origin = jnp.zeros((1, 1))

        def times_roots(matrix: jax.Array) -> jax.Array:
            blocks = jnp.asarray(self.roots) @ matrix.reshape(len(self.roots), ORDER, -1)
            return blocks.reshape(matrix.shape)

        r = kernel.smoothed(Unit(), 1).matrix(difference, origin).reshape(m, m)
        k = kernel.matrix(difference, origin).reshape(m, m)
        quadratic, log_determinant = quadratic_and_log_determinant(
            times_roots(times_roots(r).T),
            times_roots(k @ self.weights.reshape(-1) / n),
            noise_variance,
        )
        return quadratic, log_determinant + (n - m) * jnp.log(noise_variance)

    def derivatives(self, components: Components, x: jax.Array, n: Any) -> tuple[jax.Array, ...]:
        """Compute the slope of mu_hat at nodes, with the sizes of its terms, and at ``x`` (k,).

        Returns:
            Arrays (blocks, ORDER), the same, and for each component (Q, k).
        """
        weights = self.slope_weights.reshape(-1) / n

        def slope(component: Components, delta: jax.Array) -> jax.Array:
            (precision,) = component.precision
            return -precision * delta * jnp.exp(component.log_weight - 0.5 * precision * delta**2)

        between_nodes = self.slope_nodes.minus(self.slope_nodes)
        to_points = Nodes(x, jnp.zeros_like(x)).minus(self.slope_nodes)

        def at_nodes(component: Components) -> tuple[jax.Array, jax.Array]:
            terms = slope(component, between_nodes)
            sizes = jax.lax.stop_gradient(jnp.abs(terms) @ jnp.abs(weights))
            return terms @ weights, sizes

        zeros = jnp.zeros(len(weights))
        derivatives, sizes = accumulate(at_nodes, components, (zeros, zeros))
        at_points = jax.vmap(lambda component: slope(component, to_points) @ weights)(components)
        return derivatives.reshape(-1, ORDER), sizes.reshape(-1, ORDER), at_points


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MixtureIndex(SpectralIndex):
    """The points of one column, ascending, prepared for sums of squared exponentials.

    Attributes:
        rows: the points.
        ranges: from the longest lengthscales down.
        locations: positions of the points in the panels for derivatives, of all ranges.
        isolated: isolated points of all ranges.
    """

    rows: PaddedRows
    ranges: tuple[Range, ...]
    locations: Locations
    isolated: IsolatedPoints

    #: Nodes are few and points many: backward through the sums.
    smallest_reverse = 1

    @property
    def entries(self) -> int:
        """The number of array entries that one value takes, in the middle range."""
        return len(self.rows) * ORDER + self.ranges[len(self.ranges) // 2].slope_weights.size ** 2

    @property
    def shortest(self) -> float:
        """The lengthscale of the shortest component from which on no matrices are needed."""
        return float(self.ranges[-1].shortest)

    def shortest_of(self, kernel: Kernel) -> Any:
        """Return the lengthscale of the shortest component of the ``kernel``."""
        components = kernel.components(1)
        assert components is not None
        return jax.lax.rsqrt(jnp.max(components.precision))

    def range_of(self, kernel: Kernel) -> jax.Array:
        """Return the range of a kernel; their number if there is none."""
        shortest = self.shortest_of(kernel)
        return sum((shortest < r.shortest).astype(int) for r in self.ranges)

    def supports(self, kernel: Kernel) -> bool:
        """Return whether the kernel is a sum of squared exponentials."""
        return matern_nu(kernel) is None

    def is_accurate(self, kernel: Any, noise_variance: jax.Array) -> jax.Array:
        """Return whether the shortest lengthscale is in a range."""
        return self.range_of(kernel) < len(self.ranges)

    def sums(self, kernel: Any, noise_variance: jax.Array) -> Sums:
        """Compute the parts of BKE (13) by the nodes of a range."""
        index, components, n = self.range_of(kernel), kernel.components(1), self.rows.number
        locations, isolated = jax.tree.map(
            lambda leaf: leaf[index], (self.locations, self.isolated)
        )
        x = self.rows.points[:, 0].at[isolated.rows].get(mode="clip")
        max_blocks = max(len(r.slope_weights) for r in self.ranges)

        def of_range(r: Range) -> tuple[jax.Array, ...]:
            derivatives, sizes, at_points = r.derivatives(components, x, n)
            padding = ((0, max_blocks - len(derivatives)), (0, 0))
            gaussian = r.gaussian(kernel, noise_variance, n)
            return *gaussian, jnp.pad(derivatives, padding), jnp.pad(sizes, padding), at_points

        quadratic, log_determinant, derivatives, sizes, at_points = jax.lax.switch(
            index, [partial(of_range, r) for r in self.ranges]
        )
        node = locations.node
        sizes = jnp.where(
            node >= 0,
            sizes.reshape(-1)[jnp.maximum(node, 0)],
            jnp.max(sizes, axis=1)[locations.block],
        )
        log_jacobian = log_abs(locations.interpolate(derivatives), sizes, resolution=2.0**-48)
        log_jacobian = isolated.overwrite(
            log_jacobian, n, components.precision[:, 0], components.log_weight, at_points[..., None]
        )
        return Sums(quadratic, log_determinant, self.rows.mask(log_jacobian))


def mixture_index(
    X: np.ndarray, blocks: tuple[int, ...] = (4, 12, 32), rows_per_node: float = 1.8
) -> MixtureIndex:
    """Prepare (n, 1) data.

    Args:
        X: data.
        blocks: blocks of nodes of the Gaussian term in each range of lengthscales.
        rows_per_node: minimum, so that the matrices of all rows do not take less time.

    Raises:
        ValueError: for fewer than 250 rows, all equal ones, or too many that are far nearer each
            other than the data are wide.
    """
    x = sorted_column(X)
    rows, shortest = column_rows(x), float(x[-1] - x[0])
    prepared: list[tuple[Range, Locations, IsolatedPoints]] = []
    for count in blocks:
        if prepared and count * ORDER * rows_per_node > len(x):
            break
        shortest = _shortest(x, count, shortest)
        try:
            prepared.append(_range(x, count, shortest))
        except TooLargeError:
            if not prepared:
                raise
            break
    ranges, locations, isolated = zip(*prepared, strict=True)
    fields = zip(*locations, strict=True)
    stacked = Locations(*(pad_rows(np.stack(field, axis=1), len(rows)).T for field in fields))
    return MixtureIndex(rows, ranges, stacked, stack_ranges(isolated, len(rows)))


def _shortest(x: np.ndarray, blocks: int, longest: float, finest: float = 2.0**0.125) -> float:
    """Return the shortest lengthscale for which a number of ``blocks`` is sufficient.

    Searched from the ``longest`` down by factors from 4 to ``finest``, to 2^-30 of the extent.
    """

    def sufficient(lengthscale: float) -> bool:
        fits = blocks_of(x, GAUSSIAN_WIDTH * lengthscale) <= blocks
        return fits and blocks_of(x, SLOPE_WIDTH * lengthscale) <= SLOPE_BLOCKS * blocks

    factor = 4.0
    while factor >= finest:
        while longest / factor >= 2.0**-30 * (x[-1] - x[0]) and sufficient(longest / factor):
            longest /= factor
        factor **= 0.5
    return longest


def _range(x: np.ndarray, blocks: int, shortest: float) -> tuple[Range, Locations, IsolatedPoints]:
    gaussian = panels_over(x, GAUSSIAN_WIDTH * shortest, blocks)
    derivatives = panels_over(x, SLOPE_WIDTH * shortest, int(SLOPE_BLOCKS * blocks))
    nodes = Range(
        np.float64(shortest),
        gaussian.nodes,
        gaussian.weights,
        gaussian.roots(),
        derivatives.nodes,
        derivatives.weights,
    )
    # From a panel's width on, no point of an interpolated panel is far from all others in it.
    searched = [factor * shortest for factor in (1.0, 2.0, 4.0, 8.0)]
    return nodes, derivatives.locations, isolated_in_column(x, searched, max_pairs=1_000_000)
