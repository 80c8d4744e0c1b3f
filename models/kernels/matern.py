"""Matern kernels with nu = 1/2, 3/2 or 5/2, and the product Laplace kernel."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.precision import check_positive
from ..linalg.pytrees import register_dataclass
from .base import (
    Covariance,
    Radial,
    Stationary,
    ValueAndDecay,
    ValueAndGrad,
    differences,
    per_column,
    squared_norm,
)
from .covariance import ScaledCovariance, parameter, positive_sqrt


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Matern(Radial):
    """k(x, y) = 2^(1 - nu) / Gamma(nu) t^nu K_nu(t) with t = sqrt(2 nu) rho.

    Muandet et al. (2017, eq. 2.13, where the power of t is missing), with
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
        """Return k and its derivative, see :class:`ValueAndDecay`, for rho^2 (n, m)."""
        rho = positive_sqrt(rho_squared)
        t = math.sqrt(2.0 * self.nu) * rho
        if self.nu == 0.5:
            distinct = rho_squared > 0.0
            decay = jnp.where(distinct, 1.0 / jnp.where(distinct, rho, 1.0), 0.0)
            return ValueAndDecay(-t, jnp.ones_like(t), decay)
        if self.nu == 1.5:
            return ValueAndDecay(-t, 1.0 + t, jnp.full_like(t, 3.0))
        return ValueAndDecay(-t, 1.0 + t + t**2 / 3.0, 5.0 / 3.0 * (1.0 + t))

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return the Matern of order 2 nu + D/2 in the same t, times r(0) unless ``relative``.

        The spectral density is squared. Elementary in odd D, numerical to 5e-14 relative in even D.
        r(0) is ``(2 sqrt(pi))^D Gamma(nu + D/2)^2 Gamma(2 nu + D/2) / (Gamma(nu)^2
        Gamma(2 nu + D)) prod_d lengthscale_d / sqrt(2 nu)``.
        """
        nu, half = self.nu, dimension / 2.0
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        rate = math.sqrt(2.0 * nu) / lengthscale
        order = round(4.0 * nu) + dimension
        smoothed = MaternSmoothed(rate, order, numerical=dimension % 2 == 0)
        if relative:
            return smoothed
        log_constant = (
            dimension * math.log(2.0 * math.sqrt(math.pi))
            + 2.0 * (math.lgamma(nu + half) - math.lgamma(nu))
            + math.lgamma(2.0 * nu + half)
            - math.lgamma(2.0 * nu + dimension)
        )
        volume = jnp.prod(jnp.broadcast_to(1.0 / rate, (dimension,)))
        return ScaledCovariance(math.exp(log_constant) * volume, smoothed)


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
        """Return the matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        t_squared = squared_norm(delta * per_column(self.rate, delta.shape[0], "rate"))
        order = self.twice_order / 2.0
        at_zero = math.exp((order - 1.0) * math.log(2.0) + math.lgamma(order))
        return power_bessel(self.twice_order, t_squared) / at_zero


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
@functools.partial(jax.jit, static_argnums=0)
def power_bessel(twice_order: int, q: jax.Array) -> jax.Array:
    """Return t^v K_v(t) with v = ``twice_order`` / 2 as a function of q = t^2 >= 0.

    Half-integer orders are elementary. Integer orders are numerical, to 5e-14 relative (for
    0 <= v <= 10): upward recurrence from v = 0 and 1, with the power series for t <= 2 and the
    trapezoid rule in ``K_v(t) = int_0^inf exp(-t cosh s) cosh(v s) ds`` beyond, after the
    substitution w = sqrt(2 t) sinh(s / 2). Derivatives follow ``d/dq t^v K_v = -t^(v-1) K_(v-1)/2``
    and never pass through the rule. At q = 0 a singular value (v <= 0) is cut off at a finite one.
    ``jax.scipy.special`` has no K_v.
    """
    # K_v(t) underflows long before t = 1e4; the upper limit keeps 0 * inf out of the recurrence.
    q = jnp.clip(q, 1e-200, 1e8)
    if twice_order < 0:  # K_-v = K_v
        return q ** (0.5 * twice_order) * power_bessel(-twice_order, q)
    t = jnp.sqrt(q)
    if twice_order % 2:
        low = math.sqrt(0.5 * math.pi) * jnp.exp(-t)
        high, order = low * (1.0 + t), 0.5
    else:
        (low, high), order = _bessel_k0_and_t_k1(t, q), 0.0
    # t^(v+1) K_(v+1) = t^2 (t^(v-1) K_(v-1)) + 2 v (t^v K_v): every term is positive.
    while 2.0 * order < twice_order:
        order += 1.0
        low, high = high, q * low + 2.0 * order * high
    return low


@power_bessel.defjvp
def _power_bessel_jvp(
    twice_order: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, Any]:
    (q,), (q_dot,) = primals, tangents
    value = power_bessel(twice_order, q)
    return value, -0.5 * power_bessel(twice_order - 2, q) * q_dot


def _bessel_k0_and_t_k1(
    t: jax.Array, q: jax.Array, series_terms: int = 14, step: float = 0.35, num_nodes: int = 18
) -> tuple[jax.Array, jax.Array]:
    """Return K_0(t) and t K_1(t).

    Args:
        t: argument.
        q: its square.
        series_terms: number of terms of the power series for t <= 2.
        step: step of the trapezoid rule for t > 2. The nearest singularity in w is at
            sqrt(2 t) >= 2, so that the error is exp(-2 pi 2 / step), below 1e-15.
        num_nodes: of that rule; exp(-6^2) beyond is negligible.
    """
    u = jnp.minimum(q, 4.0) / 4.0
    log = jnp.log(jnp.minimum(t, 2.0) / 2.0)
    k0, k1 = jnp.zeros_like(q), jnp.zeros_like(q)
    for k in reversed(range(series_terms)):  # Horner
        harmonic = sum(1.0 / i for i in range(1, k + 1)) - float(np.euler_gamma)
        scale = 1.0 / (math.factorial(k) * math.factorial(k + 1))
        k0 = k0 * u + (harmonic - log) * (1.0 / math.factorial(k) ** 2)
        k1 = k1 * u + (log - harmonic - 0.5 / (k + 1)) * scale
    k1 = 1.0 + 2.0 * u * k1

    large = jnp.maximum(t, 2.0)
    sum0, sum1 = jnp.zeros_like(q), jnp.zeros_like(q)
    for i, node in enumerate(step * np.arange(num_nodes)):
        weight = step * math.exp(-(node**2)) * (0.5 if i == 0 else 1.0)
        term = weight * jax.lax.rsqrt(1.0 + 0.5 * node**2 / large)
        sum0, sum1 = sum0 + term, sum1 + term * (1.0 + node**2 / large)
    factor = jnp.exp(-large) * jnp.sqrt(2.0 / large)
    return (
        jnp.where(t <= 2.0, k0, factor * sum0),
        jnp.where(t <= 2.0, k1, factor * large * sum1),
    )


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Laplace(Stationary):
    """k(x, y) = exp(-sum_d |x_d - y_d| / lengthscale_d) (Muandet et al. 2017, eq. 2.7).

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
        """Return value and gradient as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        log_scale = -jnp.sum(jnp.abs(delta) / lengthscale, axis=0)
        return ValueAndGrad(log_scale, jnp.ones_like(log_scale), -jnp.sign(delta) / lengthscale)

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return the product of (lengthscale + |delta|) exp(-|delta| / lengthscale).

        If ``relative``, over the product of the lengthscales.
        """
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        smoothed = LaplaceSmoothed(lengthscale)
        at_zero = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        return smoothed if relative else ScaledCovariance(at_zero, smoothed)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LaplaceSmoothed(Covariance):
    """prod_d (1 + |delta_d| / lengthscale_d) exp(-|delta_d| / lengthscale_d)."""

    lengthscale: jax.Array

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        distance = jnp.abs(delta) / per_column(self.lengthscale, delta.shape[0], "lengthscale")
        return jnp.exp((jnp.log1p(distance) - distance).sum(0))
