"""The smoothed kernel r by quadrature, for kernels without a closed form.

Two rules. For a kernel of the distance, in any number of columns, and the Lebesgue measure: an
integral over the distances to the two points, once for every node of a table in their distance.
For any kernel and a Gaussian measure: a weighted sum over fixed nodes, so that r is a product of
two factors and positive semi-definite whatever the error.

Errors over r(x, x), measured against closed forms (tests/models/kernels/test_user_kernels.py): with
the table, whatever the lengthscale, for the squared exponential, Matern and rational quadratic
kernels, 1e-8 in one column and 1e-7 in up to five; for the squared exponential, whose R is singular
to rounding, 1e-13 and 1e-8. With fixed nodes, for the squared exponential with a lengthscale of L
times the measure's scale: to rounding from L = 0.1 on in one column (1e-4 at 0.05) and from L = 0.7
on in two (5e-4 at 0.3); in more columns the nodes are quasi-random, and it is 4e-3 at L = 0.7 and
2e-3 at 1 in three, 3e-2 and 8e-3 in five, and r is meaningless for a much shorter L.

SciPy's ``integrate`` has no rule that JAX can trace or differentiate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, qmc

from ..linalg.pytrees import register_dataclass
from ..measures import Gaussian
from .covariance import (
    Covariance,
    SmoothingError,
    differences,
    per_column,
    positive_sqrt,
    squared_norm,
)

#: k as a function of the distance, elementwise.
Profile: TypeAlias = Callable[[jax.Array], jax.Array]
#: End of a table of r, in half-widths of k. Not tuned.
TABLE_END = 1e4


def _exp_sinh_rule(nodes: int, cutoff: float = 3.8) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of an integral over (0, inf), which decay doubly exponentially."""
    v = np.linspace(-cutoff, cutoff, nodes)
    x = np.exp(0.5 * np.pi * np.sinh(v))
    return x, x * 0.5 * np.pi * np.cosh(v) * (v[1] - v[0])


def _tanh_sinh_rule(nodes: int, cutoff: float = 3.4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes x of an integral over (0, 1), 1 - x without cancellation, and weights."""
    v = np.linspace(-cutoff, cutoff, nodes)
    u = np.pi * np.sinh(v)
    x, complement = 1.0 / (1.0 + np.exp(-u)), 1.0 / (1.0 + np.exp(u))
    return x, complement, x * complement * np.pi * np.cosh(v) * (v[1] - v[0])


def _half_width(profile: Profile) -> jax.Array:
    """Return the largest distance at which k is half its value at zero; has no derivative."""
    distances = np.geomspace(1e-10, 1e10, 161)
    values = jnp.abs(profile(jnp.asarray(distances)))
    high = values >= 0.5 * values[0]
    return jax.lax.stop_gradient(jnp.max(jnp.where(high, distances, distances[0])))


def is_integrable(profile: Profile, dimension: int, tolerance: float = 1e-6) -> jax.Array:
    """Return whether the square of k has an integral over R^``dimension`` that the rule resolves.

    k^2 distance^D, the integral per unit of log distance, must have fallen by ``tolerance`` (not
    tuned) at the end of the rule: it has not for a kernel that tends to a constant or repeats
    itself, nor where k falls no faster than distance^(-D/2), and for distance^(-D/2 - e) only from
    about e = 1/4 on.
    """
    half_width = _half_width(profile)

    def log_largest(multiples: np.ndarray) -> jax.Array:
        distance = half_width * multiples
        logs = jnp.log(jnp.abs(profile(distance)))
        return jax.lax.stop_gradient(jnp.max(2.0 * logs + dimension * jnp.log(distance)))

    tail, bulk = np.geomspace(1e13, 1e15, 512), np.geomspace(1e-2, 1e2, 64)
    return log_largest(tail) < log_largest(bulk) + math.log(tolerance)


def autocorrelation(
    profile: Profile, dimension: int, *, relative: bool
) -> tuple[jax.Array, jax.Array]:
    """Integrate k(|u - x|) k(|u - y|) over u in R^``dimension``, for a table of |x - y|.

    Args:
        profile: k as a function of the distance, elementwise.
        dimension: D.
        relative: divide by the value at zero.

    Returns:
        The half-width of k, and the values at distances half-width sinh(j step), j = 0, 1, ...
    """
    half_width = _half_width(profile)
    # Table, outside of and along the segment between the points; chosen for the errors above.
    count, outer_nodes, inner_nodes = (512, 128, 64) if dimension == 1 else (256, 96, 48)
    table = half_width * np.sinh(np.linspace(0.0, math.asinh(TABLE_END), count))
    distance = table[:, None, None]
    outer, outer_weights = _exp_sinh_rule(outer_nodes)
    x, complement, inner_weights = _tanh_sinh_rule(inner_nodes)
    if dimension == 1:
        outside = profile(half_width * outer) * profile(half_width * outer + distance)
        inside = profile(distance * x) * profile(distance * complement)
        total = 2.0 * half_width * outside @ outer_weights
        values = (total + distance[..., 0] * (inside @ inner_weights))[:, 0]
    else:
        # In distances a, b to the points: q = (a + b - |x - y|) / 2 and t = (a - b) / |x - y|.
        q = half_width * outer[:, None]
        a, b = q + distance * x, q + distance * complement
        power = 0.5 * (dimension - 3)
        # The height over the segment to the power D - 3: 4 x (1 - x) is 1 - t^2, and dt is 2 dx.
        height = (q * (q + distance)) ** power * (4.0 * x * complement) ** power
        product = profile(a) * profile(b) * a * b * height
        sphere = 2.0 * math.pi ** (0.5 * (dimension - 1)) / math.gamma(0.5 * (dimension - 1))
        total = jnp.einsum("jqt,q,t->j", product, outer_weights, inner_weights)
        values = 2.0 * sphere * half_width * total
    return half_width, values / values[0] if relative else values


def tabulate_smoothed(
    kernel: Any,
    profile: Profile,
    dimension: int,
    lengthscale: jax.Array,
    *,
    relative: bool,
    end_ratio: float = 0.02,
) -> TabulatedCovariance:
    """Return the Lebesgue r of ``kernel`` as a table in the distance.

    It is NaN if it has no integral but the kernel's parameters are traced, and if r is not small
    at the table's end, as for a sum of kernels whose lengths differ by a factor of thousands.

    Args:
        kernel: the kernel that is integrated.
        profile: its value as a function of the distance over the lengthscale.
        dimension: D.
        lengthscale: (D,) or (1,).
        relative: divide r by its value at zero.
        end_ratio: largest r at the end of the table, beyond which it is constant, over its value
            at zero. Not tuned.

    Raises:
        SmoothingError: if it has no integral and the parameters are known.
    """
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(kernel))
    # Known parameters are checked even while a program is being compiled.
    with contextlib.nullcontext() if traced else jax.ensure_compile_time_eval():
        finite = is_integrable(profile, dimension)
    if not isinstance(finite, jax.core.Tracer) and not finite:
        alternative = (
            "measure=Gaussian(scale, center) or another kernel"
            if kernel.allow_fixed_nodes
            else "another kernel or parameters for which it falls faster"
        )
        raise SmoothingError(
            "the integral of k(x, u) k(u, y) du over all of space, which measure='unit' and "
            f"measure='lebesgue' need, does not exist for this {type(kernel).__name__} in "
            f"{dimension} column(s), or its tail is too long to be summed up: k must fall faster "
            f"than |x - u|^(-{dimension}/2), so it can neither repeat itself nor tend to a "
            f"constant; take {alternative}"
        )
    half_width, values = autocorrelation(profile, dimension, relative=relative)
    has_decayed = jnp.abs(values[-1]) < end_ratio * jnp.abs(values[0])
    values = jnp.where(finite & has_decayed, values, jnp.nan)
    if not relative:
        values = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,))) * values
    return TabulatedCovariance(half_width, values, lengthscale)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TabulatedCovariance(Covariance):
    """A function of rho, rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2, interpolated in a table.

    :mod:`bke.models.kernels.smoothing` states its accuracy.
    """

    half_width: jax.Array  # ()
    values: jax.Array  # at half_width sinh(j step)
    lengthscale: jax.Array  # (D,) or (1,)

    numerical: ClassVar[bool] = True  # type: ignore[misc]
    translation_invariant: ClassVar[bool] = True  # type: ignore[misc]

    def matrix(self, X: jax.Array, Y: jax.Array, stencil: int = 10) -> jax.Array:
        """Return r(x_i, y_j) by polynomials through ``stencil`` nodes in asinh of the distance."""
        delta = differences(X, Y)
        lengthscale = per_column(self.lengthscale, len(delta), "lengthscale")
        distance = positive_sqrt(squared_norm(delta / lengthscale))
        last = len(self.values) - 1
        position = jnp.arcsinh(distance / self.half_width) * (last / math.asinh(TABLE_END))
        position = jnp.minimum(position, last)
        first = jnp.clip(jnp.floor(position) - (stencil // 2 - 1), 0, last + 1 - stencil)
        first = jax.lax.stop_gradient(first)
        offset = position - first
        total = jnp.zeros_like(distance)
        for i in range(stencil):
            nodes = [j for j in range(stencil) if j != i]
            basis = functools.reduce(jnp.multiply, [offset - j for j in nodes])
            scale = math.prod(i - j for j in nodes)
            total = total + self.values[first.astype(int) + i] * basis / scale
        return total


@functools.cache
def gaussian_nodes(
    dimension: int,
    grids: tuple[tuple[float, int], ...] = ((7.0, 281), (6.2, 41)),
    sobol_points: int = 2048,
) -> tuple[np.ndarray, np.ndarray]:
    """Return fixed nodes (Q, D) and weights (Q,) of the integral against exp(-|z|^2 / 2).

    Args:
        dimension: D.
        grids: half-width and number of nodes per axis of the grids for D = 1 and 2; chosen for
            the errors of the module's docstring.
        sobol_points: number of quasi-random nodes in more columns, a power of 2. Not tuned.
    """
    if dimension > len(grids):
        uniform = qmc.Sobol(dimension, seed=0).random(sobol_points)
        weight = (2.0 * math.pi) ** (0.5 * dimension) / sobol_points
        return np.asarray(norm.ppf(uniform)), np.full(sobol_points, weight)
    half_width, count = grids[dimension - 1]
    axis = np.linspace(-half_width, half_width, count)
    nodes = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    nodes = nodes.reshape(-1, dimension)
    return nodes, np.exp(-0.5 * np.sum(nodes**2, axis=1)) * (axis[1] - axis[0]) ** dimension


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NodesCovariance(Covariance):
    """sum_q w_q k(x, u_q) k(u_q, y), with nodes and weights of a Gaussian measure.

    Its rank is at most the number of nodes; :mod:`bke.models.kernels.smoothing` states its
    accuracy.
    """

    kernel: Covariance
    measure: Gaussian

    numerical: ClassVar[bool] = True  # type: ignore[misc]

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        dimension = X.shape[1]
        nodes, weights = gaussian_nodes(dimension)
        scale = per_column(self.measure.scale, dimension, "measure scale").reshape(-1)
        center = per_column(self.measure.center, dimension, "measure center").reshape(-1)
        U = center + scale * nodes
        volume = jnp.prod(jnp.broadcast_to(scale, (dimension,)))
        left, right = self.kernel.matrix(X, U), self.kernel.matrix(Y, U)
        return (left * (volume * weights)) @ right.T
