"""Kernels of the distance over the lengthscale."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .base import Covariance, Stationary, ValueAndGrad, per_column, squared_norm
from .numerical import TabulatedCovariance, tabulated
from .pairwise import APART, as_number
from .quadrature import RadialTable


class ValueAndDecay(NamedTuple):
    """``k = exp(log_scale) * value``, and its decay with the distance.

    ``dk/dx_d = -exp(log_scale) * decay * (x_d - y_d) / lengthscale_d^2``. All (n, m).
    """

    log_scale: jax.Array
    value: jax.Array
    decay: jax.Array


class Radial(Stationary):
    """A kernel of rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2.

    A subclass has a field ``lengthscale`` and writes :meth:`evaluate_distance` or
    :meth:`value_and_decay`.
    """

    lengthscale: Any

    def evaluate_distance(self, rho: jax.Array) -> Any:
        """The value at one rho, a number."""
        raise NotImplementedError(f"{type(self).__name__} does not write evaluate_distance(rho)")

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """The terms as a function of rho^2, of any shape."""
        apart = rho_squared > 0.0
        rho = jnp.sqrt(jnp.where(apart, rho_squared, APART**2))
        one = jax.value_and_grad(lambda rho: as_number(self.evaluate_distance(rho)))
        value, slope = (found.reshape(rho.shape) for found in jax.vmap(one)(rho.reshape(-1)))
        return ValueAndDecay(jnp.zeros_like(rho), value, jnp.where(apart, -slope / rho, 0.0))

    def unit_smoothed(self, dimension: int) -> Covariance:
        """The Lebesgue r over its value at zero, by quadrature."""
        return TabulatedCovariance(*self._tabulated(dimension, relative=True))

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """The integral over all of space, by quadrature."""
        table, lengthscale = self._tabulated(dimension, relative=False)
        volume = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        return TabulatedCovariance(table._replace(values=volume * table.values), lengthscale)

    def _tabulated(self, dimension: int, *, relative: bool) -> tuple[RadialTable, jax.Array]:
        """The table as a function of rho, and the lengthscale."""

        def of_distance(rho: jax.Array) -> jax.Array:
            terms = self.value_and_decay(rho**2)
            return jnp.exp(terms.log_scale) * terms.value

        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return tabulated(self, of_distance, dimension, relative=relative), lengthscale

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """The terms as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        terms = self.value_and_decay(squared_distance(delta, lengthscale))
        inverse = 1.0 / lengthscale
        pull = -delta * inverse * inverse
        return ValueAndGrad(terms.log_scale, terms.value, terms.decay * pull)


@jax.custom_jvp
def squared_distance(delta: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Rho^2 (n, m) of differences (D, n, m) and a lengthscale (D or 1, 1, 1)."""
    # Scaled before squaring: a tiny lengthscale must not overflow 1 / lengthscale^2. By a product:
    # a division of every difference would take longer than the exponential.
    return squared_norm(delta * (1.0 / lengthscale))


@partial(squared_distance.defjvp, symbolic_zeros=True)
def _squared_distance_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[Any, Any]
) -> tuple[jax.Array, jax.Array]:
    """Along the lengthscale without the D matrices that the differences' own rule would take."""
    delta, lengthscale = primals
    value, inverse = squared_distance(delta, lengthscale), 1.0 / lengthscale
    along = jnp.zeros_like(value)
    if not isinstance(tangents[1], SymbolicZero):
        share = -2.0 * tangents[1] / lengthscale  # (D or 1, 1, 1)
        one = len(share) == 1
        along = value * share[0] if one else jnp.sum((delta * inverse) ** 2 * share, axis=0)
    if not isinstance(tangents[0], SymbolicZero):
        moved = (delta * inverse) * (tangents[0] * inverse)
        along = along + 2.0 * jnp.sum(moved, axis=0)
    return value, along
