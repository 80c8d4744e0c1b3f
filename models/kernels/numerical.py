"""The smoothed kernel r as a covariance, where it is found by quadrature."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp

from ..linalg.pytrees import register_dataclass
from ..measures.measure import Gaussian
from .covariance import (
    Covariance,
    SmoothingError,
    ValueAndGrad,
    differences,
    per_column,
    squared_norm,
)
from .quadrature import RadialTable, autocorrelation, integrable, interpolated, places

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

    By interpolation; :mod:`bke.models.kernels.quadrature` says how accurate it is.
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

    Its rank is at most the number of places, and :mod:`bke.models.kernels.quadrature` says how
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
