"""The Matern kernel with nu = 1/2, 3/2 or 5/2 (KER-6)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ..linalg.pytrees import register_dataclass
from .base import (
    Covariance,
    check_positive,
    differences,
    per_column,
    squared_norm,
)
from .bessel import power_bessel
from .parameters import parameter
from .radial import Radial, ValueAndDecay
from .scaled import ScaledCovariance


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Matern(Radial):
    """k(x, y) = 2^(1 - nu) / Gamma(nu) t^nu K_nu(t) with t = sqrt(2 nu) rho, KER-6.

    rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2. That is exp(-t) for nu = 1/2, (1 + t) exp(-t) for
    3/2 and (1 + t + t^2 / 3) exp(-t) for 5/2. For nu = 1/2 the derivative is 0 at the kink, x = y.

    Args:
        nu: the smoothness, 0.5, 1.5 or 2.5; fixed, not a parameter to learn.
        lengthscale: positive, a number or one per column, in the units of the data.
    """

    nu: float = parameter(static=True)
    lengthscale: Any = parameter(1.0, unit="length")

    characteristic = True
    allow_fixed_nodes = False

    def __post_init__(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu}")
        check_positive(self.lengthscale, "lengthscale")

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """The terms as a function of rho^2 (n, m)."""
        # sqrt has no derivative at 0: coincident points must not pass through it.
        apart = rho_squared > 0.0
        rho = jnp.where(apart, jnp.sqrt(jnp.where(apart, rho_squared, 1.0)), 0.0)
        t = math.sqrt(2.0 * self.nu) * rho
        if self.nu == 0.5:
            slope = jnp.where(apart, 1.0 / jnp.where(apart, rho, 1.0), 0.0)
            return ValueAndDecay(-t, jnp.ones_like(t), slope)
        if self.nu == 1.5:
            return ValueAndDecay(-t, 1.0 + t, jnp.full_like(t, 3.0))
        return ValueAndDecay(-t, 1.0 + t + t**2 / 3.0, 5.0 / 3.0 * (1.0 + t))

    def unit_smoothed(self, dimension: int) -> MaternSmoothed:
        """Matern of order 2 nu + D/2 in the same t, since the spectral density is squared (KER-6).

        Elementary in odd D, numerical to 5e-14 relative in even D.
        """
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return MaternSmoothed(
            math.sqrt(2.0 * self.nu) / lengthscale,
            round(4.0 * self.nu) + dimension,
            numerical=dimension % 2 == 0,
        )

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """The unit form times its value at zero.

        That is ``(2 sqrt(pi))^D Gamma(nu + D/2)^2 Gamma(2 nu + D/2) / (Gamma(nu)^2 Gamma(2 nu + D))
        prod_d lengthscale_d / sqrt(2 nu)``.
        """
        unit, nu, half = self.unit_smoothed(dimension), self.nu, dimension / 2.0
        log_constant = (
            dimension * math.log(2.0 * math.sqrt(math.pi))
            + 2.0 * (math.lgamma(nu + half) - math.lgamma(nu))
            + math.lgamma(2.0 * nu + half)
            - math.lgamma(2.0 * nu + dimension)
        )
        volume = jnp.prod(jnp.broadcast_to(1.0 / unit.rate, (dimension,)))
        return ScaledCovariance(math.exp(log_constant) * volume, unit)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MaternSmoothed(Covariance):
    """2^(1 - v) / Gamma(v) t^v K_v(t), t^2 = sum_d (rate_d delta_d)^2, v = ``twice_order`` / 2.

    Elementary for half-integer v; for integer v numerical, see :func:`power_bessel`.
    """

    rate: jax.Array
    twice_order: int = dataclasses.field(metadata={"static": True})
    numerical: bool = dataclasses.field(default=False, metadata={"static": True})

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        t_squared = squared_norm(delta * per_column(self.rate, delta.shape[0], "rate"))
        order = self.twice_order / 2.0
        at_zero = math.exp((order - 1.0) * math.log(2.0) + math.lgamma(order))
        return power_bessel(self.twice_order, t_squared) / at_zero
