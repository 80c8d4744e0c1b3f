"""The squared exponential kernel with one lengthscale, or one per column (BKE (30))."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.pytrees import register_dataclass
from ..measures import Gaussian, Measure
from .base import (
    Covariance,
    Radial,
    Stationary,
    ValueAndDecay,
    ValueAndGrad,
    check_columns,
    check_positive,
    concrete_values,
    differences,
    per_column,
)
from .components import Components, accumulate, apply, phase_of, quadratic_form, smooth_components
from .covariance import ScaledCovariance, parameter

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


class GaussianFamily(Stationary):
    """A kernel that is a sum of Gaussian components. A subclass writes :meth:`components`."""

    characteristic = True

    @abc.abstractmethod
    def components(self, dimension: int) -> Components:
        """The components on R^``dimension``."""

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """The terms as a function of the differences (D, n, m)."""
        terms: ValueAndGrad = component_terms(self.components(delta.shape[0]), delta)
        return terms

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """R in closed form for every measure, pair by pair of components."""
        return smooth_components(self.components(dimension), measure, dimension)


@jax.jit
def component_terms(components: Components, delta: jax.Array) -> ValueAndGrad:
    """The terms of a sum of components, with the largest envelope factored out."""

    def log_envelope(one: Components) -> jax.Array:
        return one.log_weight - 0.5 * quadratic_form(one.precision, delta)

    def larger(largest: jax.Array, one: Components) -> tuple[jax.Array, None]:
        return jnp.maximum(largest, log_envelope(one)), None

    # A common factor that value and gradient make up for: its own derivative is not needed.
    lowest = jnp.full(delta.shape[1:], -jnp.inf)
    log_scale = jax.lax.scan(larger, lowest, jax.lax.stop_gradient(components))[0]
    log_scale = jax.lax.stop_gradient(log_scale)

    def part(one: Components) -> tuple[jax.Array, jax.Array]:
        envelope = jnp.exp(log_envelope(one) - log_scale)
        pull = apply(one.precision, delta)
        if one.frequency is None:
            return envelope, -envelope * pull
        phase = phase_of(one.frequency, delta)
        wave, slope = envelope * jnp.cos(phase), envelope * jnp.sin(phase)
        return wave, -wave * pull - slope * (2.0 * math.pi * one.frequency[:, None, None])

    start = (jnp.zeros(delta.shape[1:]), jnp.zeros(delta.shape))
    value, gradient = accumulate(part, components, start)
    return ValueAndGrad(log_scale, value, gradient)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FullSquaredExponential(GaussianFamily):
    """k(x, y) = exp(-1/2 (x - y)' covariance^-1 (x - y)), BKE (24).

    Args:
        covariance: symmetric and positive definite (D, D), in the units of the data squared; a
            positive number stands for that number times the identity.
    """

    covariance: Any = parameter(1.0, unit="length^2")

    def __post_init__(self) -> None:
        values = concrete_values(self.covariance)
        if values.size == 0:
            return
        if values.ndim == 0:
            check_positive(self.covariance, "covariance")
        elif values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"covariance must be a number or square, got shape {values.shape}")
        elif not np.all(np.isfinite(values)) or not np.allclose(values, values.T, atol=0.0):
            raise ValueError("covariance must be finite and symmetric")
        elif np.linalg.eigvalsh(values)[0] <= 0.0:
            raise ValueError(
                "covariance must be positive definite, its smallest eigenvalue is "
                f"{np.linalg.eigvalsh(values)[0]:.3g}"
            )

    def components(self, dimension: int) -> Components:
        """The Gaussian components on R^``dimension``."""
        covariance = jnp.asarray(self.covariance, dtype=jnp.float64)
        if covariance.ndim == 0:
            precision = jnp.full((dimension,), 1.0 / covariance)
        elif covariance.shape == (dimension, dimension):
            precision = jnp.linalg.inv(covariance)
            precision = 0.5 * (precision + precision.T)
        else:
            raise ValueError(
                f"covariance must be a number or have shape ({dimension}, {dimension}), "
                f"got {covariance.shape}"
            )
        return Components(jnp.zeros(1), precision[None], None)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianMixture(GaussianFamily):
    """k(x, y) = sum_q weights_q exp(-1/2 sum_d (x_d - y_d)^2 / lengthscale_qd^2), KER-7.

    Args:
        lengthscale: positive, a number, (Q,) or (Q, D), in the units of the data; (Q,) means the
            same in every column.
        weights: positive (Q,), used as they are, so that k(x, x) is their sum; by default equal
            with sum one.
    """

    lengthscale: Any = parameter(1.0, unit="length", per_component=True)
    weights: Any = parameter(None, per_component=True)

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")
        check_positive(self.weights, "weights")

    def components(self, dimension: int) -> Components:
        """The Gaussian components on R^``dimension``."""
        count = mixture_size(self.lengthscale, self.weights)
        lengthscale = per_row(self.lengthscale, count, dimension, "lengthscale")
        return Components(mixture_log_weights(self.weights, count), lengthscale**-2, None)


def mixture_size(*parameters: Any) -> int:
    """The number of components: the first entry of the first shape that has one."""
    shapes = (jnp.asarray(parameter).shape for parameter in parameters if parameter is not None)
    return next((shape[0] for shape in shapes if shape), 1)


def per_component(parameter: Any, count: int, name: str) -> jax.Array:
    """A number or (Q,) parameter as (Q,)."""
    parameter = jnp.asarray(parameter, dtype=jnp.float64)
    if parameter.shape not in ((), (count,)):
        raise ValueError(
            f"{name} must be a number or have one entry per component ({count}), "
            f"got shape {parameter.shape}"
        )
    return jnp.broadcast_to(parameter, (count,))


def per_row(parameter: Any, count: int, dimension: int, name: str) -> jax.Array:
    """A number, (Q,) or (Q, D) parameter as (Q, D)."""
    parameter = jnp.asarray(parameter, dtype=jnp.float64)
    if parameter.shape not in ((), (count,), (count, 1), (count, dimension)):
        raise ValueError(
            f"{name} must be a number or have shape ({count},) or ({count}, {dimension}), one row "
            f"per component, got shape {parameter.shape}"
        )
    if parameter.ndim == 1:
        parameter = parameter[:, None]
    return jnp.broadcast_to(parameter, (count, dimension))


def mixture_log_weights(weights: Any, count: int) -> jax.Array:
    """Log weights (Q,); None stands for equal weights with sum one."""
    if weights is None:
        return jnp.full((count,), -np.log(count))
    return jnp.log(per_component(weights, count, "weights"))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectralMixture(GaussianFamily):
    """Gaussian components that oscillate; the kernel may be negative.

    ``k(x, y) = sum_q weights_q exp(-1/2 sum_d delta_d^2 / lengthscale_qd^2)
    cos(2 pi sum_d frequency_qd delta_d)`` with delta = x - y. By Bochner's theorem (KER-14) its
    spectral density, in cycles per unit, is a mixture of Gaussians at +-frequency_q with standard
    deviations 1 / (2 pi lengthscale_q) (Wilson and Adams 2013).

    Args:
        lengthscale: positive, a number, (Q,) or (Q, D), in the units of the data; (Q,) means the
            same in every column.
        frequency: a number, (Q,) or (Q, D), in cycles per unit of the data. Learned, it needs a
            bounded prior, such as Uniform(0, 1 / range of the data): the volume factor grows with
            it, so that high frequencies, which fit nothing, outweigh the tail of any other.
        weights: positive (Q,), used as they are, so that k(x, x) is their sum; by default equal
            with sum one.
    """

    lengthscale: Any = parameter(1.0, unit="length", per_component=True)
    frequency: Any = parameter(1.0, unit="1/length", per_component=True)
    weights: Any = parameter(None, per_component=True)

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")
        check_positive(self.weights, "weights")
        if not np.all(np.isfinite(concrete_values(self.frequency))):
            raise ValueError(f"frequency must be finite, got {self.frequency}")

    def components(self, dimension: int) -> Components:
        """The Gaussian components on R^``dimension``."""
        count = mixture_size(self.weights, self.lengthscale, self.frequency)
        lengthscale = per_row(self.lengthscale, count, dimension, "lengthscale")
        frequency = per_row(self.frequency, count, dimension, "frequency")
        log_weights = mixture_log_weights(self.weights, count)
        return Components(log_weights, lengthscale**-2, frequency)
