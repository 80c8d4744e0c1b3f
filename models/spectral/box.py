"""Two or three columns of data, prepared for any lengthscale.

What a lengthscale needs depends on it through its ratio to the extent of the data. A first range
takes the long ones, without end; below lie ranges of a factor of sqrt(2), each with a basis, cells
and isolated points for its shortest lengthscale, down to where the n x n matrices cost less or,
for many points, where the basis would be larger than anybody waits for.

Points so far from all others that neither k nor r sees them are left out of the basis, and gaps of
a column that neither crosses are shortened: distances matter only between near points.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels import SquaredExponential
from .far_points import Distinct, FarPoints, TooManyPairs, distinct, far_points
from .far_points import log_length, with_far_points
from .nodes import axis_over, weights_at_nodes
from .prepared import MOST_DENSE, SpectralIndex
from .tensor_basis import TensorBasis, TooMany, tensor_basis
from .tensor_cells import TensorCells, tensor_cells

Terms = tuple[jax.Array, jax.Array]

COLUMNS = (2, 3)
#: Fewer rows than this are as fast by matrices at every lengthscale.
LEAST_ROWS = 1000
#: Extent of the data over the shortest of the long lengthscales.
LONG_RATIO = 4.0
#: Of a range of lengthscales: the longest over the shortest.
RANGE_FACTOR = math.sqrt(2.0)
#: Ranges there are at most, where the data are so far apart that shorter ones need no more.
MOST_RANGES = 24
#: Functions of a basis at most: rows for each, and in all; and products it is made of.
ROWS_PER_FUNCTION, MOST_FUNCTIONS, MOST_PRODUCTS = 3, 1536, 4096
#: Nodes of the grid, and Taylor coefficients of all cells, at most.
MOST_NODES, MOST_COEFFICIENTS = 2_000_000, 25_000_000
#: Lengthscales to the next point, or across a gap, beyond which there is nothing: r is 1e-14.
GAP = 11.5
#: A slope below this, over the largest, is rounding error: it is exactly zero, as where the
#: neighbours of a point balance.
RESOLUTION = 2.0**-46
#: Noise variance over the diagonal of R that the basis is exact enough for: below, what it leaves
#: out would be more than 1e-6 of the Gaussian term. For long lengthscales it leaves out less.
LEAST_NOISE, LEAST_NOISE_LONG = 1e-6, 1e-8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """Lengthscales from the ``shortest`` to that of the range before."""

    shortest: Any  # ()
    basis: TensorBasis
    cells: TensorCells
    far: FarPoints
    alone: Any  # (), how many points are not in the basis

    def terms(self, kernel: SquaredExponential, noise_variance: jax.Array, measure: str) -> Terms:
        """The Gaussian term of BKE (13), a scalar, and log gamma at every point, (n,).

        Args:
            kernel: its lengthscale is a number.
            noise_variance: sigma^2.
            measure: ``"unit"`` or ``"lebesgue"``.
        """
        lengthscale = jnp.asarray(kernel.lengthscale)
        n, dimension = self.cells.offset.shape
        variance = diagonal(kernel, measure, dimension)
        noise = noise_variance / variance
        form, log_determinant = self.basis.terms(lengthscale, noise, n)
        form = form + self.alone / (n**2 * (1.0 + noise))
        log_determinant = log_determinant + self.alone * jnp.log1p(noise)
        constant = n * (jnp.log(variance) + math.log(2.0 * math.pi))
        gaussian = -0.5 * (form / variance + log_determinant + constant)
        slopes = self.cells.slopes(self.basis.axes, self.basis.weights, lengthscale, n)
        log_slopes = log_length(slopes)
        resolved = log_slopes > jnp.max(log_slopes) + math.log(RESOLUTION)
        log_volume = jnp.where(resolved, log_slopes, -jnp.inf)
        return gaussian, with_far_points(log_volume, self.far, kernel)


def diagonal(kernel: SquaredExponential, measure: str, dimension: int) -> jax.Array:
    """r(x, x)."""
    origin = jnp.zeros((1, dimension))
    return kernel.smoothed(measure, dimension).matrix(origin, origin)[0, 0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BoxIndex(SpectralIndex):
    """The (n, D) points, D = 2 or 3, and ranges of lengthscales from the longest down."""

    points: Any
    ranges: tuple[Range, ...]

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, at a lengthscale of the middle range."""
        middle = self.ranges[len(self.ranges) // 2]
        coefficients = middle.cells.coefficients
        return len(self.points) * coefficients + middle.basis.size * middle.basis.factor.size // 16

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""
        return float(self.ranges[-1].shortest)

    def range_of(
        self, kernel: SquaredExponential, noise_variance: jax.Array, measure: str
    ) -> jax.Array:
        """Which range takes the lengthscale and the noise; how many there are if none does."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        which = sum((lengthscale < each.shortest).astype(int) for each in self.ranges)
        noise = noise_variance / diagonal(kernel, measure, self.points.shape[1])
        known = noise >= jnp.where(which == 0, LEAST_NOISE_LONG, LEAST_NOISE)
        return jnp.where(known, which, len(self.ranges))


def box_index(X: np.ndarray) -> BoxIndex:
    """Prepare (n, D) data, D = 2 or 3.

    Raises:
        ValueError: for fewer than 1000 rows, all equal ones, or more than can be prepared that are
            far nearer each other than the data are wide.
    """
    points = np.asarray(X, dtype=float)
    points = points[np.lexsort(points.T)]
    x = points - points.min(axis=0)
    extent = float(x.max())
    if not extent > 0.0:
        raise ValueError("all rows are equal")
    if len(x) < LEAST_ROWS:
        raise ValueError(f"{len(x)} rows are too few")
    data = distinct(x)
    n = len(x)
    most = min(MOST_FUNCTIONS, n // ROWS_PER_FUNCTION) if n <= MOST_DENSE else MOST_FUNCTIONS
    shortest, longest = extent / LONG_RATIO, math.inf
    ranges: list[Range] = []
    while len(ranges) < MOST_RANGES:
        try:
            ranges.append(_range(x, data, shortest, longest, most))
        except (TooMany, TooManyPairs) as reason:
            if not ranges:
                raise ValueError(str(reason)) from None
            break
        shortest, longest = shortest / RANGE_FACTOR, shortest
    return BoxIndex(points, tuple(ranges))


def _range(x: np.ndarray, data: Distinct, shortest: float, longest: float, most: int) -> Range:
    gap = GAP * longest
    alone = (data.nearest > gap) & (data.counts == 1)
    inside = ~alone[data.which]
    if not inside.any():
        raise TooMany("all points are far from each other")
    far = far_points(data, shortest, longest)
    near = np.zeros_like(x)
    near[inside] = np.stack([_without_gaps(column, gap) for column in x[inside].T], axis=1)
    axes = tuple(axis_over(0.0, float(column.max()), shortest) for column in near[inside].T)
    if math.prod(len(axis.nodes) for axis in axes) > MOST_NODES:
        raise TooMany("nodes")
    cells = tensor_cells(near, inside, shortest)
    if cells.slabs.size * cells.coefficients > MOST_COEFFICIENTS:
        raise TooMany("cells")
    weights = weights_at_nodes(axes, near[inside])
    basis = tensor_basis(axes, weights, shortest, MOST_PRODUCTS, most)
    count = np.float64(np.sum(~inside))
    return Range(np.float64(shortest), basis, cells, far, count)


def _without_gaps(x: np.ndarray, most: float) -> np.ndarray:
    """``x`` (n,) from 0 on with every gap at most ``most``."""
    order = np.argsort(x, kind="stable")
    steps = np.minimum(np.diff(x[order]), most)
    moved = np.empty_like(x)
    moved[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return moved
