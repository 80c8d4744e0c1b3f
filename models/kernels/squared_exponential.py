"""The squared exponential kernel with one lengthscale, or one per column (BKE (30))."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ..linalg.pytrees import register_dataclass
from ..measures.measure import Gaussian
from .base import (
    Covariance,
    check_columns,
    check_positive,
    differences,
    per_column,
)
from .components import Components
from .parameters import parameter
from .radial import Radial, ValueAndDecay
from .scaled import ScaledCovariance

#: Columns beyond which differences are not taken one by one: a term of the compiled program each.
MANY_COLUMNS = 32
#: Squared distance over the lengthscale from the centre up to which squares may be taken out of a
#: matrix product: with 1e6 they are off by some 1e-10.
LONGEST = 1e6


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SquaredExponential(Radial):
    """k(x, y) = exp(-1/2 sum_d (x_d - y_d)^2 / lengthscale_d^2).

    Args:
        lengthscale: positive, a number or one per column (ARD), in the units of the data.
    """

    lengthscale: Any = parameter(1.0, unit="length")

    characteristic = True

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix; of many columns by one matrix product where that is accurate."""
        if X.shape[1] <= MANY_COLUMNS:
            return super().matrix(X, Y)
        check_columns(X, Y, "Y")
        lengthscale = per_column(self.lengthscale, X.shape[1], "lengthscale").reshape(-1)
        return jnp.exp(-0.5 * _squares(X, Y, lengthscale))

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """The terms as a function of rho^2 (n, m)."""
        one = jnp.ones_like(rho_squared)
        return ValueAndDecay(-0.5 * rho_squared, one, one)

    def log_spectral_density(self, frequencies: jax.Array) -> jax.Array:
        """Log of the integral of k(delta) exp(-i omega' delta), (m,) for ``frequencies`` (m, D)."""
        lengthscale = per_column(self.lengthscale, frequencies.shape[1], "lengthscale").reshape(-1)
        of_columns = jnp.log(math.sqrt(2.0 * math.pi) * lengthscale)
        return jnp.sum(of_columns - 0.5 * (frequencies * lengthscale) ** 2, axis=1)

    def components(self, dimension: int) -> Components:
        """The Gaussian components on R^``dimension``."""
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        precision = jnp.broadcast_to(lengthscale**-2, (dimension,))
        return Components(jnp.zeros(1), precision[None], None)

    def unit_smoothed(self, dimension: int) -> SquaredExponential:
        """exp(-|x - y|^2 / (4 lengthscale^2)), with a lengthscale for every column."""
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return SquaredExponential(math.sqrt(2.0) * lengthscale)

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """BKE (25): pi^(D/2) prod_d lengthscale_d times the unit form."""
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        volume = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        return ScaledCovariance(math.pi ** (dimension / 2) * volume, self.unit_smoothed(dimension))

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> Covariance:
        """BKE A.3, see :class:`GaussianSmoothed`."""
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return GaussianSmoothed(lengthscale, measure)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianSmoothed(Covariance):
    """r of the squared exponential for a Gaussian measure, BKE A.3.

    Per column, with delta = x - y and m = (x + y)/2 - centre,
    ``sqrt(2 pi / (2/l^2 + 1/s^2)) exp(-delta^2/(4 l^2) - m^2 / (2 (l^2/2 + s^2)))``.
    """

    lengthscale: jax.Array
    measure: Gaussian

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        middle = 0.5 * (X.T[:, :, None] + Y.T[:, None, :])
        dimension = delta.shape[0]
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale")
        scale = per_column(self.measure.scale, dimension, "measure scale")
        middle = middle - per_column(self.measure.centre, dimension, "measure centre")
        # l s sqrt(2 pi / (2 s^2 + l^2)), written so that neither parameter is inverted.
        width = lengthscale * scale / jnp.sqrt(2.0 * scale**2 + lengthscale**2)
        log_width = jnp.broadcast_to(jnp.log(width), (dimension, 1, 1)).sum()
        exponent = -0.25 * (delta / lengthscale) ** 2 - 0.5 * middle**2 / (
            0.5 * lengthscale**2 + scale**2
        )
        return jnp.exp(exponent.sum(0) + log_width + 0.5 * dimension * math.log(2.0 * math.pi))


@jax.jit  # an uncompiled condition is compiled anew at every call
def _squares(X: jax.Array, Y: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Scaled squared distances (n, m), by one matrix product where that is accurate."""
    centre = jax.lax.stop_gradient(jnp.mean(Y, axis=0))
    x, y = (X - centre) / lengthscale, (Y - centre) / lengthscale
    longest = jnp.max(jnp.sum(x**2, axis=1)) + jnp.max(jnp.sum(y**2, axis=1))
    # |x|^2 + |y|^2 - 2xy cancels, to within rounding of the longest: not with a row far away,
    # which is far from the centre too.
    squares: jax.Array = jax.lax.cond(
        longest < LONGEST,
        lambda: _squares_by_product(x, y),
        lambda: _squares_by_column(X, Y, lengthscale),
    )
    return squares


def _squares_by_product(x: jax.Array, y: jax.Array) -> jax.Array:
    """|x_i - y_j|^2 (n, m) of (n, D) and (m, D) points near the origin."""
    squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1) - 2.0 * x @ y.T
    # Negative by rounding only: the value is moved to zero, not the derivatives.
    return squares - jax.lax.stop_gradient(jnp.minimum(squares, 0.0))


def _squares_by_column(X: jax.Array, Y: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Scaled squared distances (n, m) with differences taken directly, column by column."""

    @jax.checkpoint
    def add(
        total: jax.Array, column: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, None]:
        x, y, scale = column
        return total + ((x[:, None] - y[None, :]) / scale) ** 2, None

    scales = jnp.broadcast_to(lengthscale, X.shape[1:])
    columns = (X.T, Y.T, scales)
    total: jax.Array = jax.lax.scan(add, jnp.zeros((len(X), len(Y))), columns)[0]
    return total
