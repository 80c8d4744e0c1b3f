"""Squared exponential kernels (BKE (30), (24)), their mixtures and the spectral mixture."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.precision import check_positive, concrete_values
from ..linalg.pytrees import register_dataclass
from ..measures import Measure
from .base import (
    Covariance,
    Radial,
    Stationary,
    ValueAndDecay,
    ValueAndGrad,
    check_columns,
    per_column,
)
from .components import (
    Components,
    accumulate,
    matvec,
    phase,
    quadratic_form,
)
from .covariance import ScaledCovariance, parameter

#: Number of columns beyond which differences are not taken one by one: each is a term of the
#: compiled program. Not tuned.
MAX_UNROLLED_COLUMNS = 32


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
        """Return the Gram matrix; for many columns by one matrix product if that is accurate."""
        if X.shape[1] <= MAX_UNROLLED_COLUMNS:
            return super().matrix(X, Y)
        check_columns(X, Y, "Y")
        return jnp.exp(-0.5 * _scaled_squared_distances(X, Y, self._lengthscales(X.shape[1])))

    def _lengthscales(self, dimension: int) -> jax.Array:
        return per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """Return k and its derivative, see :class:`ValueAndDecay`, for rho^2 (n, m)."""
        ones = jnp.ones_like(rho_squared)
        return ValueAndDecay(-0.5 * rho_squared, ones, ones)

    def log_spectral_density(self, frequencies: jax.Array) -> jax.Array:
        """Return the log of the integral of k(delta) exp(-i omega' delta), (m,).

        Args:
            frequencies: omega, (m, D).
        """
        lengthscale = self._lengthscales(frequencies.shape[1])
        log_constants = jnp.log(math.sqrt(2.0 * math.pi) * lengthscale)
        return jnp.sum(log_constants - 0.5 * (frequencies * lengthscale) ** 2, axis=1)

    def components(self, dimension: int) -> Components:
        """Return the Gaussian components on R^``dimension``."""
        precision = jnp.broadcast_to(self._lengthscales(dimension) ** -2, (dimension,))
        return Components(jnp.zeros(1), precision[None], None)

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return BKE (25), pi^(D/2) prod_d lengthscale_d exp(-|x - y|^2 / (4 lengthscale^2)).

        The factor before the exponential is left out if ``relative``.
        """
        lengthscale = self._lengthscales(dimension)
        smoothed = SquaredExponential(math.sqrt(2.0) * lengthscale)
        volume = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        at_zero = math.pi ** (dimension / 2) * volume
        return smoothed if relative else ScaledCovariance(at_zero, smoothed)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """Return BKE A.3 for a Gaussian measure, else a squared exponential, times a number."""
        if measure.translation_invariant:
            return measure.smooth(self, dimension)
        return super().smooth(measure, dimension)


@jax.jit  # an uncompiled condition is compiled anew at every call
def _scaled_squared_distances(
    X: jax.Array, Y: jax.Array, lengthscale: jax.Array, max_norm: float = 1e6
) -> jax.Array:
    """Return |x_i - y_j|^2 over the lengthscale (n, m), by a matrix product where it is accurate.

    ``max_norm`` bounds the squared distance from the center: with 1e6 squares are off by some
    1e-10.
    """
    center = jax.lax.stop_gradient(jnp.mean(Y, axis=0))
    x, y = (X - center) / lengthscale, (Y - center) / lengthscale
    x_norms, y_norms = jnp.sum(x**2, axis=1), jnp.sum(y**2, axis=1)

    def by_product() -> jax.Array:
        squares = x_norms[:, None] + y_norms - 2.0 * x @ y.T
        # Negative by rounding only: the value is moved to zero, not the derivatives.
        return squares - jax.lax.stop_gradient(jnp.minimum(squares, 0.0))

    def by_column() -> jax.Array:
        columns = (X.T, Y.T, jnp.broadcast_to(lengthscale, X.shape[1:]))
        return accumulate(
            lambda column: ((column[0][:, None] - column[1]) / column[2]) ** 2,
            columns,
            jnp.zeros((len(X), len(Y))),
        )

    # |x|^2 + |y|^2 - 2xy cancels, to within rounding of the largest norm: not with a distant row,
    # which is also far from the center.
    is_accurate = jnp.max(x_norms) + jnp.max(y_norms) < max_norm
    return jax.lax.cond(is_accurate, by_product, by_column)


class GaussianFamily(Stationary):
    """A kernel that is a sum of Gaussian components. A subclass defines :meth:`components`."""

    characteristic = True

    @abc.abstractmethod
    def components(self, dimension: int) -> Components:
        """Return the components on R^``dimension``."""

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """Return value and gradient as a function of the differences (D, n, m)."""
        return component_value_and_grad(self.components(delta.shape[0]), delta)


@jax.jit
def component_value_and_grad(components: Components, delta: jax.Array) -> ValueAndGrad:
    """Compute value and gradient of a sum of components, with the largest envelope factored out."""

    def log_envelope(component: Components) -> jax.Array:
        return component.log_weight - 0.5 * quadratic_form(component.precision, delta)

    def maximum(largest: jax.Array, component: Components) -> tuple[jax.Array, None]:
        return jnp.maximum(largest, log_envelope(component)), None

    # A common factor that value and gradient make up for: its own derivative is not needed.
    lowest = jnp.full(delta.shape[1:], -jnp.inf)
    log_scale = jax.lax.scan(maximum, lowest, jax.lax.stop_gradient(components))[0]
    log_scale = jax.lax.stop_gradient(log_scale)

    def value_and_gradient(component: Components) -> tuple[jax.Array, jax.Array]:
        envelope = jnp.exp(log_envelope(component) - log_scale)
        decay = matvec(component.precision, delta)
        if component.frequency is None:
            return envelope, -envelope * decay
        angle = phase(component.frequency, delta)
        cosine, sine = envelope * jnp.cos(angle), envelope * jnp.sin(angle)
        angular_frequency = 2.0 * math.pi * component.frequency[:, None, None]
        return cosine, -cosine * decay - sine * angular_frequency

    start = (jnp.zeros(delta.shape[1:]), jnp.zeros(delta.shape))
    return ValueAndGrad(log_scale, *accumulate(value_and_gradient, components, start))


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
        if values.size <= 1:
            check_positive(self.covariance, "covariance")
        elif values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"covariance must be a number or square, got shape {values.shape}")
        elif not np.all(np.isfinite(values)) or not np.allclose(values, values.T, atol=0.0):
            raise ValueError("covariance must be finite and symmetric")
        elif np.linalg.eigvalsh(values)[0] <= 0.0:
            raise ValueError("covariance must be positive definite")

    def components(self, dimension: int) -> Components:
        """Return the Gaussian components on R^``dimension``."""
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
    """k(x, y) = sum_q weights_q exp(-1/2 sum_d (x_d - y_d)^2 / lengthscale_qd^2).

    Args:
        lengthscale: positive, a number, (Q,) or (Q, D), in the units of the data; (Q,) means the
            same in every column.
        weights: positive (Q,), not normalized: k(x, x) is their sum; by default equal
            with sum one.
    """

    lengthscale: Any = parameter(1.0, unit="length", per_component=True)
    weights: Any = parameter(None, per_component=True)

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")
        check_positive(self.weights, "weights")

    def components(self, dimension: int) -> Components:
        """Return the Gaussian components on R^``dimension``."""
        count = mixture_size(self.lengthscale, self.weights)
        lengthscale = _per_component_and_column(self.lengthscale, count, dimension, "lengthscale")
        return Components(_mixture_log_weights(self.weights, count), lengthscale**-2, None)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectralMixture(GaussianFamily):
    """Gaussian components that oscillate; the kernel may be negative.

    ``k(x, y) = sum_q weights_q exp(-1/2 sum_d delta_d^2 / lengthscale_qd^2)
    cos(2 pi sum_d frequency_qd delta_d)`` with delta = x - y. By Bochner's theorem its
    spectral density, in cycles per unit, is a mixture of Gaussians at +-frequency_q with standard
    deviations 1 / (2 pi lengthscale_q) (Wilson and Adams 2013).

    Args:
        lengthscale: positive, a number, (Q,) or (Q, D), in the units of the data; (Q,) means the
            same in every column.
        frequency: a number, (Q,) or (Q, D), in cycles per unit of the data. To learn it needs a
            bounded prior, such as Uniform(0, 1 / range of the data): the Jacobian factor grows with
            it, so that high frequencies, which fit nothing, outweigh the tail of any other.
        weights: positive (Q,), not normalized: k(x, x) is their sum; by default equal
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
        """Return the Gaussian components on R^``dimension``."""
        count = mixture_size(self.weights, self.lengthscale, self.frequency)
        lengthscale = _per_component_and_column(self.lengthscale, count, dimension, "lengthscale")
        frequency = _per_component_and_column(self.frequency, count, dimension, "frequency")
        log_weights = _mixture_log_weights(self.weights, count)
        return Components(log_weights, lengthscale**-2, frequency)


def mixture_size(*parameters: Any) -> int:
    """Return the number of components: the first entry of the first shape that has one."""
    shapes = (jnp.asarray(parameter).shape for parameter in parameters if parameter is not None)
    return next((shape[0] for shape in shapes if shape), 1)


def _per_component_and_column(parameter: Any, count: int, dimension: int, name: str) -> jax.Array:
    """Return a number, (Q,) or (Q, D) parameter as (Q, D)."""
    values = jnp.asarray(parameter, dtype=jnp.float64)
    if values.shape not in ((), (count,), (count, 1), (count, dimension)):
        raise ValueError(
            f"{name} must be a number or have one entry per component, of shape ({count},) or "
            f"({count}, {dimension}), got shape {values.shape}"
        )
    return jnp.broadcast_to(values[:, None] if values.ndim == 1 else values, (count, dimension))


def _mixture_log_weights(weights: Any, count: int) -> jax.Array:
    """Return log weights (Q,); None stands for equal weights with sum one."""
    if weights is None:
        return jnp.full((count,), -np.log(count))
    return jnp.log(_per_component_and_column(weights, count, 1, "weights")[:, 0])
