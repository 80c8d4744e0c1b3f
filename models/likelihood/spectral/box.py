"""Two or three columns of data, prepared for any lengthscale.

What a lengthscale needs depends on it through its ratio to the extent of the data. A first range
takes the long ones, without end; below lie ranges of a factor of 1.2 to 16, each with a
basis, cells and isolated points for its shortest lengthscale, down to where the n x n matrices cost
less or, for many points, where the basis would be larger than anybody waits for.

Points so far from all others that neither k nor r sees them are left out of the basis, and gaps of
a column that neither crosses are shortened: distances matter only between near points.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.squared_exponential import SquaredExponential
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Measure
from ..base import LogLikelihoodTerms
from ..jacobian import log_length
from .far_points import (
    Distinct,
    FarPoints,
    distinct,
    far_points,
    stacked,
    with_far_points,
)
from .nodes import axis_over, weights_at_nodes
from .obstacle import has_one, order_of
from .prepared import MOST_DENSE, SpectralIndex, SpectralParameters, TooLargeError, at_zero
from .tensor_basis import TensorBasis, tensor_basis
from .tensor_cells import Places, TensorCells, multi_indices, tensor_cells

Terms = tuple[jax.Array, jax.Array]

#: Fewer rows than this are as fast by matrices at every lengthscale.
LEAST_ROWS = 1000
#: Extent of the data over the shortest of the long lengthscales: far beyond that a basis loses
#: digits, the more of them the larger it is.
LONG_RATIO = 2.0
#: Of a range of lengthscales: the longest over the shortest. Wide ones while the basis stays small,
#: as where a few points are far from the others; narrow ones as long as one can be had at all.
WIDE_RANGES, NARROW_RANGES = (16.0, 4.0, 2.0), (2.0**0.5, 2.0**0.25)
#: Ranges there are at most, where the data are so far apart that shorter ones need no more.
MOST_RANGES = 12
#: Rows for each function of a basis at least.
ROWS_PER_FUNCTION = 3
#: Taylor coefficients of all cells at most.
MOST_COEFFICIENTS = 25_000_000
#: Lengthscales to the next point, or across a gap, beyond which there is nothing: r is 1e-14.
GAP = 11.5
#: A slope below this, over the largest, is rounding error: it is exactly zero, as where the
#: neighbours of a point balance.
RESOLUTION = 2.0**-46
#: Noise variance over the diagonal of R that the basis is exact enough for: below, what it leaves
#: out would be more than 1e-6 of the Gaussian term. For long lengthscales it leaves out less.
LEAST_NOISE, LEAST_NOISE_LONG = 1e-5, 1e-7
#: Numbers in a product of matrices for one that is computed by itself.
ENTRIES = 16


class Limits(NamedTuple):
    """What a range may need at most."""

    functions: int  # of the basis
    products: int  # that it is made of
    nodes: int  # of the grid


SMALL, LARGE = Limits(320, 1536, 100_000), Limits(1792, 5120, 2_000_000)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """Lengthscales from the ``shortest`` to that of the range before."""

    shortest: Any  # ()
    basis: TensorBasis
    cells: TensorCells
    alone: Any  # (), how many points are not in the basis

    def terms(
        self, kernel: SquaredExponential, noise_variance: jax.Array, measure: Measure, n: int
    ) -> Terms:
        """The Gaussian term of BKE (13), a scalar, and the polynomials of mu_hat in the cells."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        variance = at_zero(kernel, measure, len(self.cells.centres))
        noise = noise_variance / variance
        form, log_determinant = self.basis.terms(lengthscale, noise, n)
        form = form + self.alone / (n**2 * (1.0 + noise))
        log_determinant = log_determinant + self.alone * jnp.log1p(noise)
        constant = n * (jnp.log(variance) + math.log(2.0 * math.pi))
        gaussian = -0.5 * (form / variance + log_determinant + constant)
        basis = self.basis
        return gaussian, self.cells.polynomials(basis.axes, basis.weights, lengthscale, n)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BoxIndex(SpectralIndex):
    """The points, D = 2 or 3, and ranges of lengthscales from the longest down."""

    rows: PaddedRows  # all of them data
    ranges: tuple[Range, ...]
    places: Places  # of all ranges
    far: FarPoints  # of all ranges

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, at a lengthscale of the middle range."""
        basis = self.ranges[len(self.ranges) // 2].basis
        terms = len(multi_indices(self.rows.points.shape[1]))
        return len(self.rows) * terms + basis.size * basis.factor.size // ENTRIES

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""
        return float(self.ranges[-1].shortest)

    def prepared_for(self, kernel: Kernel) -> bool:
        """Whether it is a squared exponential, times a number or not."""
        return order_of(kernel) is None and has_one(kernel)

    def evaluated(self, parameters: SpectralParameters) -> LogLikelihoodTerms:
        """Both terms, by the basis of the range that takes the lengthscale."""
        kernel = cast(SquaredExponential, parameters.kernel)
        given = kernel, parameters.noise_variance, parameters.measure
        which = self.range_of(*given)
        return cast(
            LogLikelihoodTerms,
            jax.lax.cond(
                which < len(self.ranges),
                lambda: self.summed(*self.terms(which, *given)),
                lambda: self.by_matrices(parameters),
            ),
        )

    def range_of(
        self, kernel: SquaredExponential, noise_variance: jax.Array, measure: Measure
    ) -> jax.Array:
        """Which range takes the lengthscale and the noise; how many there are if none does."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        which = sum((lengthscale < each.shortest).astype(int) for each in self.ranges)
        noise = noise_variance / at_zero(kernel, measure, self.rows.points.shape[1])
        known = noise >= jnp.where(which == 0, LEAST_NOISE_LONG, LEAST_NOISE)
        return jnp.where(known, which, len(self.ranges))

    def terms(
        self,
        which: jax.Array,
        kernel: SquaredExponential,
        noise_variance: jax.Array,
        measure: Measure,
    ) -> Terms:
        """The Gaussian term of BKE (13), a scalar, and log gamma at every point, (n,).

        Args:
            which: the range that takes the lengthscale.
            kernel: its lengthscale is a number.
            noise_variance: sigma^2.
            measure: :class:`~bke.models.Unit` or :class:`~bke.models.Lebesgue`.
        """
        n = len(self.rows)
        most = max(each.cells.slots for each in self.ranges) + 1

        def of(each: Range) -> Terms:
            gaussian, polynomials = each.terms(kernel, noise_variance, measure, n)
            return gaussian, jnp.pad(polynomials, ((0, most - len(polynomials)), (0, 0)))

        ranges = [partial(of, each) for each in self.ranges]
        gaussian, polynomials = jax.lax.switch(which, ranges)
        places, far = jax.tree.map(lambda each: each[which], (self.places, self.far))
        log_slopes = log_length(places.slopes(polynomials))
        resolved = log_slopes > jnp.max(log_slopes) + math.log(RESOLUTION)
        log_volume = jnp.where(resolved, log_slopes, -jnp.inf)
        return gaussian, with_far_points(log_volume, far, kernel)


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
    large = LARGE
    if n <= MOST_DENSE:
        large = large._replace(functions=min(LARGE.functions, n // ROWS_PER_FUNCTION))
    shortest, longest = extent / LONG_RATIO, math.inf
    try:
        found = [_range(x, data, shortest, longest, large)]
    except TooLargeError as reason:
        raise ValueError(str(reason)) from None
    while len(found) < MOST_RANGES and (more := _next_range(x, data, found[-1][0], large)):
        found.append(more)
    ranges, places, far = zip(*found, strict=True)
    slots = max(each.cells.slots for each in ranges)
    # Those in no cell are in the last of all, which is empty.
    slot = [
        np.where(own.slot < each.cells.slots, own.slot, slots)
        for each, own in zip(ranges, places, strict=True)
    ]
    places = Places(np.stack(slot), np.stack([each.offset for each in places]))
    return BoxIndex(PaddedRows(points), ranges, places, stacked(far, n))


def _next_range(
    x: np.ndarray, data: Distinct, before: Range, large: Limits
) -> tuple[Range, Places, FarPoints] | None:
    longest = float(before.shortest)
    for factor in (*WIDE_RANGES, *NARROW_RANGES):
        limits = large if factor in NARROW_RANGES else SMALL
        with contextlib.suppress(TooLargeError):
            return _range(x, data, longest / factor, longest, limits)
    return None


def _range(
    x: np.ndarray, data: Distinct, shortest: float, longest: float, limits: Limits
) -> tuple[Range, Places, FarPoints]:
    gap = GAP * longest
    alone = (data.nearest > gap) & (data.counts == 1)
    inside = ~alone[data.which]
    if not inside.any():
        raise TooLargeError("all rows are far from each other")
    near = np.zeros_like(x)
    near[inside] = np.stack([_without_gaps(column, gap) for column in x[inside].T], axis=1)
    axes = tuple(axis_over(0.0, float(column.max()), shortest) for column in near[inside].T)
    if math.prod(len(axis.nodes) for axis in axes) > limits.nodes:
        raise TooLargeError("the data are wide beside so short a lengthscale")
    cells, places = tensor_cells(near, inside, shortest)
    if cells.slots * len(multi_indices(x.shape[1])) > MOST_COEFFICIENTS:
        raise TooLargeError("the data fill too much space beside so short a lengthscale")
    weights = weights_at_nodes(axes, near[inside])
    basis = tensor_basis(axes, weights, shortest, limits.products, limits.functions)
    far = far_points(data, shortest, longest)
    count = np.float64(np.sum(~inside))
    return Range(np.float64(shortest), basis, cells, count), places, far


def _without_gaps(x: np.ndarray, most: float) -> np.ndarray:
    """``x`` (n,) from 0 on with every gap at most ``most``."""
    order = np.argsort(x, kind="stable")
    steps = np.minimum(np.diff(x[order]), most)
    moved = np.empty_like(x)
    moved[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return moved
