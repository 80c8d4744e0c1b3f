"""Kernels of the distance over the lengthscale."""

from __future__ import annotations

import abc
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .base import Stationary, Terms, per_column, squared_norm


class RadialTerms(NamedTuple):
    """``k = exp(log_scale) * value``, and its pull towards the other point.

    ``dk/dx_d = -exp(log_scale) * pull * (x_d - y_d) / lengthscale_d^2``. All (n, m).
    """

    log_scale: jax.Array
    value: jax.Array
    pull: jax.Array


class Radial(Stationary):
    """A kernel of rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2. A subclass writes :meth:`of`."""

    lengthscale: Any

    @abc.abstractmethod
    def of(self, rho_squared: jax.Array) -> RadialTerms:
        """The terms as a function of rho^2 (n, m)."""

    def at(self, delta: jax.Array) -> Terms:
        """The terms as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        terms = self.of(squared_distance(delta, lengthscale))
        pull = -delta / lengthscale / lengthscale
        return Terms(terms.log_scale, terms.value, terms.pull * pull)


@jax.custom_jvp
def squared_distance(delta: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Rho^2 (n, m) of differences (D, n, m) and a lengthscale (D or 1, 1, 1)."""
    # Divided before squaring: a tiny lengthscale must not overflow 1 / lengthscale^2.
    return squared_norm(delta / lengthscale)


@partial(squared_distance.defjvp, symbolic_zeros=True)
def _squared_distance_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[Any, Any]
) -> tuple[jax.Array, jax.Array]:
    """Along the lengthscale without the D matrices that the differences' own rule would take."""
    delta, lengthscale = primals
    value = squared_distance(delta, lengthscale)
    along = jnp.zeros_like(value)
    if not isinstance(tangents[1], SymbolicZero):
        share = -2.0 * tangents[1] / lengthscale  # (D or 1, 1, 1)
        one = len(share) == 1
        along = value * share[0] if one else jnp.sum((delta / lengthscale) ** 2 * share, axis=0)
    if not isinstance(tangents[0], SymbolicZero):
        moved = (delta / lengthscale) * (tangents[0] / lengthscale)
        along = along + 2.0 * jnp.sum(moved, axis=0)
    return value, along
