"""The smoothed kernel r by quadrature, for kernels that have none in closed form.

Two rules. For a kernel of the distance, in any number of columns, and the Lebesgue measure:
an integral over the distances to the two points, once for every node of a table in their distance.
For any kernel and a Gaussian measure: a weighted sum over fixed places, of which r is a product
of two factors, so that it is positive semi-definite whatever the error.

Errors over r(x, x), measured against closed forms (tests/models/kernels/test_user_kernels.py): with
the table, whatever the lengthscale, for the squared exponential, Matern and rational quadratic
kernels, 1e-8 in one column and 1e-7 in up to five; for the squared exponential, whose R is singular
to rounding, 1e-13 and 1e-8. With places, for the squared exponential with a lengthscale of L times
the measure's scale: to rounding from L = 0.1 on in one column (1e-4 at 0.05) and from L = 0.7 on in
two (5e-4 at 0.3); in more columns the places are quasi-random, and it is 4e-3 at L = 0.7 and 2e-3
at 1 in three, 3e-2 and 8e-3 in five, and r means nothing for an L that is much shorter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from ..linalg.pytrees import register_dataclass
from ..measures import Gaussian
from .covariance import (
    Covariance,
    SmoothingError,
    ValueAndGrad,
    differences,
    per_column,
    squared_norm,
)

#: Where a table in asinh(distance / half-width) ends.
FARTHEST = 1e4
#: Of the substitutions that make both ends decay like exp(-exp): where they are cut off, in the
#: distance beyond the segment between the points and along it.
ENDS = (3.8, 3.4)
#: Distances at which the half-width is looked for.
DISTANCES = np.geomspace(1e-10, 1e10, 161)
#: Half-widths among which the tail is looked at, to the end of the rule; and those it is held to.
FAR, NEAR = np.geomspace(1e13, 1e15, 512), np.geomspace(1e-2, 1e2, 64)
#: What k^2 distance^D, the share of the integral per unit of log distance, may be at FAR over NEAR.
TAIL = 1e-6
#: Entries of the table that a value is interpolated from.
STENCIL = 10
#: Places of a Gaussian measure, in its standard deviations: in one column and in two, a grid.
REACH, GRIDS = (7.0, 6.2), (281, 41)
#: In more columns, a power of 2.
PLACES = 2048


class Nodes(NamedTuple):
    """How many nodes."""

    table: int
    outward: int
    along: int


ON_LINE, IN_SPACE = Nodes(512, 128, 64), Nodes(256, 96, 48)


class RadialTable(NamedTuple):
    """A function of a distance, known at ``half_width`` sinh(j step)."""

    half_width: jax.Array  # ()
    values: jax.Array  # (nodes,)


def _half_lines(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of an integral over (0, inf)."""
    v = np.linspace(-ENDS[0], ENDS[0], nodes)
    at = np.exp(0.5 * np.pi * np.sinh(v))
    return at, at * 0.5 * np.pi * np.cosh(v) * (v[1] - v[0])


def _segments(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of an integral over (0, 1): nodes, one minus these without cancellation, and weights."""
    v = np.linspace(-ENDS[1], ENDS[1], nodes)
    u = np.pi * np.sinh(v)
    at, rest = 1.0 / (1.0 + np.exp(-u)), 1.0 / (1.0 + np.exp(u))
    return at, rest, at * rest * np.pi * np.cosh(v) * (v[1] - v[0])


def half_width(of_distance: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The largest distance at which a kernel is half its value at zero; has no derivative."""
    values = jnp.abs(of_distance(jnp.asarray(DISTANCES)))
    high = values >= 0.5 * values[0]
    return jax.lax.stop_gradient(jnp.max(jnp.where(high, DISTANCES, DISTANCES[0])))


def integrable(of_distance: Callable[[jax.Array], jax.Array], dimension: int) -> jax.Array:
    """Whether the square of k has an integral over R^``dimension`` that the rule can find.

    k^2 distance^(D - 1) must have fallen where the rule ends: it has not for a kernel that tends to
    a constant or repeats itself, nor where k falls no faster than distance^(-D/2), and for
    distance^(-D/2 - e) only from about e = 1/4 on.
    """
    unit = half_width(of_distance)

    def share(multiples: np.ndarray) -> jax.Array:
        distance = unit * multiples
        logs = jnp.log(jnp.abs(of_distance(distance)))
        return jax.lax.stop_gradient(jnp.max(2.0 * logs + dimension * jnp.log(distance)))

    found: jax.Array = share(FAR) < share(NEAR) + math.log(TAIL)
    return found


def autocorrelation(
    of_distance: Callable[[jax.Array], jax.Array], dimension: int, *, relative: bool
) -> RadialTable:
    """The integral of k(|u - x|) k(|u - y|) over R^``dimension`` as a function of |x - y|.

    Args:
        of_distance: k, elementwise.
        dimension: D.
        relative: over the value at zero.
    """
    unit = half_width(of_distance)
    count = (ON_LINE if dimension == 1 else IN_SPACE).table
    apart = unit * np.sinh(np.linspace(0.0, math.asinh(FARTHEST), count))
    integrate = _on_line if dimension == 1 else functools.partial(_in_space, dimension)
    values = integrate(of_distance, apart[:, None, None], unit)
    return RadialTable(unit, values / values[0] if relative else values)


def _on_line(
    of_distance: Callable[[jax.Array], jax.Array], apart: jax.Array, unit: jax.Array
) -> jax.Array:
    """Outside the segment between the points, twice, and on it."""
    beyond, weight = _half_lines(ON_LINE.outward)
    outside = of_distance(unit * beyond) * of_distance(unit * beyond + apart)
    near, far, share = _segments(ON_LINE.along)
    inside = of_distance(apart * near) * of_distance(apart * far)
    total: jax.Array = 2.0 * unit * outside @ weight + apart[..., 0] * (inside @ share)
    return total[:, 0]


def _in_space(
    dimension: int,
    of_distance: Callable[[jax.Array], jax.Array],
    apart: jax.Array,
    unit: jax.Array,
) -> jax.Array:
    """In distances a, b to the points: with q = (a + b - |x - y|) / 2 and (a - b) / |x - y|."""
    beyond, weight = _half_lines(IN_SPACE.outward)
    near, far, share = _segments(IN_SPACE.along)
    q = unit * beyond[:, None]
    a, b = q + apart * near, q + apart * far
    power = 0.5 * (dimension - 3)
    # The height over the segment to the power D - 3, with the weights of both rules: 4 near far is
    # 1 - t^2 for t in (-1, 1), and dt is 2 d near.
    height = (q * (q + apart)) ** power * (4.0 * near * far) ** power
    product = of_distance(a) * of_distance(b) * a * b * height
    sphere = 2.0 * math.pi ** (0.5 * (dimension - 1)) / math.gamma(0.5 * (dimension - 1))
    return 2.0 * sphere * unit * jnp.einsum("jqt,q,t->j", product, weight, share)


def interpolated(table: RadialTable, distance: jax.Array) -> jax.Array:
    """The function at any distances, by polynomials of degree 9 in asinh of the distance."""
    last = len(table.values) - 1
    place = jnp.arcsinh(distance / table.half_width) * (last / math.asinh(FARTHEST))
    place = jnp.minimum(place, last)
    first = jnp.clip(jnp.floor(place) - (STENCIL // 2 - 1), 0, last + 1 - STENCIL)
    first = jax.lax.stop_gradient(first)
    offset = place - first
    total = jnp.zeros_like(distance)
    for i in range(STENCIL):
        others = [j for j in range(STENCIL) if j != i]
        weight = math.prod(i - j for j in others)
        share = functools.reduce(jnp.multiply, [offset - j for j in others])
        total = total + table.values[first.astype(int) + i] * share / weight
    return total


@functools.cache
def places(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Fixed places (Q, D) and weights (Q,) of the integral against exp(-|z|^2 / 2)."""
    if dimension > 2:
        drawn = qmc.Sobol(dimension, seed=0).random(PLACES)
        weight = (2.0 * math.pi) ** (0.5 * dimension) / PLACES
        return np.asarray(norm.ppf(drawn)), np.full(PLACES, weight)
    count = GRIDS[dimension - 1]
    line = np.linspace(-REACH[dimension - 1], REACH[dimension - 1], count)
    grid = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1)
    at = grid.reshape(-1, dimension)
    return at, np.exp(-0.5 * np.sum(at**2, axis=1)) * (line[1] - line[0]) ** dimension


#: What r may be at the end of a table over its value at zero: it is constant from there on.
FALLEN = 0.02


class Differentiable(Protocol):
    """A kernel that knows its terms."""

    allow_fixed_nodes: bool

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Value and derivative in the first argument at all pairs."""


def tabulated(
    kernel: Any,
    of_distance: Callable[[jax.Array], jax.Array],
    dimension: int,
    *,
    relative: bool,
) -> RadialTable:
    """The Lebesgue r of ``kernel``, which is ``of_distance``, as a function of the distance.

    NaN where that has no integral but the kernel's parameters are traced, and where r is not small
    at the table's end, as of a sum of kernels whose lengths differ by a factor of thousands.

    Raises:
        SmoothingError: where it has none and they are known.
    """
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(kernel))
    # Known parameters are looked at even while a program is being compiled.
    now = contextlib.nullcontext() if traced else jax.ensure_compile_time_eval()
    with now:
        finite = integrable(of_distance, dimension)
    if not isinstance(finite, jax.core.Tracer) and not finite:
        raise _no_integral(kernel, dimension)
    table = autocorrelation(of_distance, dimension, relative=relative)
    # A sum of kernels of lengths far apart may still be large where the table ends.
    fallen = jnp.abs(table.values[-1]) < FALLEN * jnp.abs(table.values[0])
    return table._replace(values=jnp.where(finite & fallen, table.values, jnp.nan))


def _no_integral(kernel: Differentiable, dimension: int) -> SmoothingError:
    instead = "measure=Gaussian(scale, centre) or another kernel"
    return SmoothingError(
        "the integral of k(x, u) k(u, y) du over all of space, which measure='unit' and "
        f"measure='lebesgue' need, does not exist for this {type(kernel).__name__} in {dimension} "
        "column(s), or its tail is too long to be summed up: k must fall faster than "
        f"|x - u|^(-{dimension}/2), so it can neither repeat itself nor tend to a constant; take "
        + (
            instead
            if kernel.allow_fixed_nodes
            else "another kernel or parameters for which it falls faster"
        )
    )


def of_distance_on_line(kernel: Differentiable, *, relative: bool) -> TabulatedCovariance:
    """The Lebesgue r of a kernel of x - y in one column, ``relative`` to its value at zero."""

    def of_distance(distance: jax.Array) -> jax.Array:
        terms = kernel.value_and_grad(distance.reshape(-1, 1), jnp.zeros((1, 1)))
        return (jnp.exp(terms.log_scale) * terms.value).reshape(distance.shape)

    table = tabulated(kernel, of_distance, 1, relative=relative)
    return TabulatedCovariance(table, jnp.ones(1))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TabulatedCovariance(Covariance):
    """The smoothed kernel of a kernel of rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2.

    By interpolation; :mod:`bke.models.kernels.smoothing` says how accurate it is.
    """

    table: RadialTable
    lengthscale: jax.Array  # (D,) or (1,)

    numerical: ClassVar[bool] = True  # type: ignore[misc]
    translation_invariant: ClassVar[bool] = True  # type: ignore[misc]

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        squared = squared_norm(delta / per_column(self.lengthscale, len(delta), "lengthscale"))
        apart = squared > 0.0
        rho = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
        return interpolated(self.table, rho)


def at_places(kernel: Any, measure: Gaussian) -> NodesCovariance:
    """The smoothed kernel of any kernel, for a Gaussian measure."""
    return NodesCovariance(kernel, measure)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NodesCovariance(Covariance):
    """sum_q w_q k(x, u_q) k(u_q, y), places and weights those of a Gaussian measure.

    Its rank is at most the number of places, and :mod:`bke.models.kernels.smoothing` says how
    accurate it is.
    """

    kernel: Covariance
    measure: Gaussian

    numerical: ClassVar[bool] = True  # type: ignore[misc]

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        dimension = X.shape[1]
        at, weights = places(dimension)
        scale = per_column(self.measure.scale, dimension, "measure scale").reshape(-1)
        centre = per_column(self.measure.centre, dimension, "measure centre").reshape(-1)
        U = centre + scale * at
        volume = jnp.prod(jnp.broadcast_to(scale, (dimension,)))
        left, right = self.kernel.matrix(X, U), self.kernel.matrix(Y, U)
        matrix: jax.Array = (left * (volume * weights)) @ right.T
        return matrix
