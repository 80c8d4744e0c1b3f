"""The product Laplace kernel (KER-4)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ..linalg.pytrees import register_dataclass
from .base import (
    Covariance,
    Stationary,
    ValueAndGrad,
    check_positive,
    differences,
    per_column,
)
from .parameters import parameter
from .scaled import ScaledCovariance


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Laplace(Stationary):
    """k(x, y) = exp(-sum_d |x_d - y_d| / lengthscale_d), KER-4.

    The derivative in column d is 0 at its kink, x_d = y_d.

    Args:
        lengthscale: positive, a number or one per column, in the units of the data.
    """

    lengthscale: Any = parameter(1.0, unit="length")

    characteristic = True
    allow_fixed_nodes = False

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """The terms as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        log_scale = -jnp.sum(jnp.abs(delta) / lengthscale, axis=0)
        return ValueAndGrad(log_scale, jnp.ones_like(log_scale), -jnp.sign(delta) / lengthscale)

    def unit_smoothed(self, dimension: int) -> LaplaceSmoothed:
        """Per column (1 + |delta| / lengthscale) exp(-|delta| / lengthscale), in closed form."""
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return LaplaceSmoothed(lengthscale)

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """Per column (lengthscale + |delta|) exp(-|delta| / lengthscale)."""
        unit = self.unit_smoothed(dimension)
        return ScaledCovariance(jnp.prod(jnp.broadcast_to(unit.lengthscale, (dimension,))), unit)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LaplaceSmoothed(Covariance):
    """prod_d (1 + |delta_d| / lengthscale_d) exp(-|delta_d| / lengthscale_d)."""

    lengthscale: jax.Array

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        distance = jnp.abs(delta) / per_column(self.lengthscale, delta.shape[0], "lengthscale")
        return jnp.exp((jnp.log1p(distance) - distance).sum(0))
