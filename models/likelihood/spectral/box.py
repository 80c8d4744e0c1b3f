"""Two or three columns and a single squared exponential, at any lengthscale.

The tables that a lengthscale needs depend on it through its ratio to the extent of the data. A
first range takes the long ones, without end; below are ranges of a factor of 1.2 to 16, each with a
basis, cells (:mod:`.tensor`) and isolated points for its shortest lengthscale, down to where the
n x n matrices cost less or, for many points, the basis would take too long.

Points so far from all others that both k and r vanish are left out of the basis, and gaps of a
column across which both vanish are shortened: distances matter only between near points.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ..jacobian import log_length
from . import tensor
from .base import MAX_DENSE, SpectralIndex, Sums, TooLargeError
from .pairs import DistinctPoints, IsolatedPoints, stack_ranges

#: Ranges of lengthscales after the first, the longest over the shortest of each in the order in
#: which they are tried: wide ones while the basis is small, as where a few points are far from the
#: others; narrow ones as long as there can be one at all.
WIDE_RANGES, NARROW_RANGES = (16.0, 4.0, 2.0), (2.0**0.5, 2.0**0.25)
#: The most functions of the basis, products that it is made of, and nodes, of wide and narrow ones.
SMALL, LARGE = (320, 1536, 100_000), (1792, 5120, 2_000_000)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """Tables for lengthscales from the ``shortest`` to that of the range before.

    Attributes:
        shortest: ().
        basis: basis of the Gaussian term.
        grid: cells for the gradients.
        omitted: number of points that are not in the basis, ().
    """

    shortest: Any
    basis: tensor.TensorBasis
    grid: tensor.TensorGrid
    omitted: Any

    def terms(
        self, lengthscale: jax.Array, noise: jax.Array, n: int, slots: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Compute quadratic form and log-determinant of BKE (13), and the cells' polynomials.

        These are padded to a number of ``slots``.
        """
        basis = self.basis
        quadratic, log_determinant = basis.terms(lengthscale, noise, n)
        quadratic = quadratic + self.omitted / (n**2 * (1.0 + noise))
        log_determinant = log_determinant + self.omitted * jnp.log1p(noise)
        polynomials = self.grid.polynomials(basis.axes, basis.weights, lengthscale, n)
        padding = ((0, slots - len(polynomials)), (0, 0))
        return quadratic, log_determinant, jnp.pad(polynomials, padding)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BoxIndex(SpectralIndex):
    """The points of two or three columns, prepared for a squared exponential.

    Attributes:
        rows: the points, without padding.
        ranges: of lengthscales, from the longest down.
        offsets: positions of the points in the cells of all ranges.
        isolated: isolated points of all ranges.
    """

    rows: PaddedRows
    ranges: tuple[Range, ...]
    offsets: tensor.CellOffsets
    isolated: IsolatedPoints

    @property
    def entries(self) -> int:
        """The number of array entries that one value takes, in the middle range.

        Sixteen numbers in a product of matrices take as long as one computed by itself.
        """
        basis = self.ranges[len(self.ranges) // 2].basis
        terms = len(tensor.multi_indices(self.rows.points.shape[1]))
        return len(self.rows) * terms + basis.size * basis.factor.size // 16

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""
        return float(self.ranges[-1].shortest)

    def range_of(self, lengthscale: jax.Array) -> jax.Array:
        """Return the range of the ``lengthscale``; their number if there is none."""
        return sum((lengthscale < r.shortest).astype(int) for r in self.ranges)

    def is_accurate(
        self,
        kernel: Any,
        noise_variance: jax.Array,
        min_noise: float = 1e-5,
        min_noise_long: float = 1e-7,
    ) -> jax.Array:
        """Return whether the lengthscale is in a range and the noise at least ``min_noise``.

        Below, what the basis leaves out would be more than 1e-6 of the Gaussian term. For the long
        lengthscales of the first range it leaves out less.
        """
        index = self.range_of(kernel.lengthscale)
        sufficient = noise_variance >= jnp.where(index == 0, min_noise_long, min_noise)
        return sufficient & (index < len(self.ranges))

    def sums(self, kernel: Any, noise_variance: jax.Array) -> Sums:
        """Compute the parts of BKE (13) by the basis of a range."""
        n, lengthscale = len(self.rows), kernel.lengthscale
        index = self.range_of(lengthscale)
        slots = max(r.grid.slots for r in self.ranges) + 1

        terms = [partial(r.terms, lengthscale, noise_variance, n, slots) for r in self.ranges]
        quadratic, log_determinant, polynomials = jax.lax.switch(index, terms)
        offsets, isolated = jax.tree.map(lambda leaf: leaf[index], (self.offsets, self.isolated))
        log_lengths = log_length(offsets.gradients(polynomials))
        # Less than this of the largest is rounding error of a zero, where neighbors balance.
        resolved = log_lengths > jnp.max(log_lengths) - 46.0 * math.log(2.0)
        log_jacobian = jnp.where(resolved, log_lengths, -jnp.inf)
        log_jacobian = isolated.overwrite(log_jacobian, n, jnp.reshape(lengthscale**-2, 1))
        return Sums(quadratic, log_determinant, log_jacobian)


def box_index(
    X: np.ndarray,
    min_rows: int = 1000,
    long_ratio: float = 2.0,
    max_ranges: int = 12,
    rows_per_function: int = 3,
) -> BoxIndex:
    """Prepare (n, D) data, D = 2 or 3.

    Args:
        X: data.
        min_rows: fewer rows are as fast by matrices at every lengthscale.
        long_ratio: extent of the data over the shortest of the long lengthscales: a basis loses
            digits at much longer ones, the more, the larger it is.
        max_ranges: for data so far from each other that shorter lengthscales need no more.
        rows_per_function: rows for each function of a basis, where there are matrices.

    Raises:
        ValueError: for too few rows, all equal ones, or too many that are far nearer each other
            than the data are wide.
    """
    points = np.asarray(X, dtype=float)
    points = points[np.lexsort(points.T)]
    x = points - points.min(axis=0)
    n, extent = len(x), float(x.max())
    if not extent > 0.0:
        raise ValueError("all rows are equal")
    if n < min_rows:
        raise ValueError(f"{n} rows are too few")
    data = DistinctPoints(x)
    functions = min(LARGE[0], n // rows_per_function) if n <= MAX_DENSE else LARGE[0]
    large = (functions, *LARGE[1:])
    prepared = [_range(x, data, extent / long_ratio, math.inf, large)]
    while len(prepared) < max_ranges:
        longest = float(prepared[-1][0].shortest)
        for factor in (*WIDE_RANGES, *NARROW_RANGES):
            limits = SMALL if factor in WIDE_RANGES else large
            with contextlib.suppress(TooLargeError):
                prepared.append(_range(x, data, longest / factor, longest, limits))
                break
        else:
            break
    ranges, offsets, isolated = zip(*prepared, strict=True)
    # Points in no cell are in the last of all, which is empty.
    last = max(r.grid.slots for r in ranges)
    slots = [
        np.where(o.slot < r.grid.slots, o.slot, last) for r, o in zip(ranges, offsets, strict=True)
    ]
    stacked = tensor.CellOffsets(np.stack(slots), np.stack([o.offset for o in offsets]))
    return BoxIndex(PaddedRows(points), ranges, stacked, stack_ranges(isolated, n))


def _range(
    x: np.ndarray,
    data: DistinctPoints,
    shortest: float,
    longest: float,
    limits: tuple[int, int, int],
    max_gap: float = 11.5,
    max_coefficients: int = 25_000_000,
) -> tuple[Range, tensor.CellOffsets, IsolatedPoints]:
    """Prepare a range of lengthscales.

    Args:
        x: the points, (n, D).
        data: the different ones.
        shortest: lengthscale.
        longest: lengthscale.
        limits: most functions, products and nodes.
        max_gap: lengthscales to the next point, or across a gap, beyond which k and r vanish: r is
            1e-14.
        max_coefficients: most Taylor coefficients of all cells.

    Raises:
        TooLargeError: for a range that is beyond a limit.
    """
    gap = max_gap * longest
    omitted = (data.nearest > gap) & (data.counts == 1)
    inside = ~omitted[data.which]
    if not inside.any():
        raise TooLargeError("all rows are far from each other")
    near, order = np.zeros_like(x), np.argsort(x[inside], axis=0, kind="stable")
    steps = np.minimum(np.diff(np.take_along_axis(x[inside], order, 0), axis=0, prepend=0.0), gap)
    steps[0] = 0.0
    shortened = np.empty_like(steps)
    np.put_along_axis(shortened, order, np.cumsum(steps, axis=0), 0)
    near[inside] = shortened
    axes = tuple(tensor.nodes_over(float(column.max()), shortest) for column in shortened.T)
    max_functions, max_products, max_nodes = limits
    if math.prod(map(len, axes)) > max_nodes:
        raise TooLargeError(tensor.WIDE)
    grid, offsets = tensor.tensor_grid(near, inside, shortest)
    if grid.slots * len(tensor.multi_indices(x.shape[1])) > max_coefficients:
        raise TooLargeError("the data fill too much space for so short a lengthscale")
    weights = tensor.weights_at_nodes(axes, shortened)
    basis = tensor.tensor_basis(axes, weights, shortest, max_products, max_functions)
    isolated = data.isolated(shortest, longest)
    return Range(np.float64(shortest), basis, grid, np.float64(np.sum(~inside))), offsets, isolated
