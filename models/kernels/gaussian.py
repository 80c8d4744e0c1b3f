"""Gaussian kernels with a full covariance (BKE (24)) and with several scales (KER-7)."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.pytrees import register_dataclass
from ..measures.measure import Measure
from .base import Covariance, Stationary, ValueAndGrad, check_positive, concrete_values
from .components import Components, accumulate, apply, phase_of, quadratic_form
from .parameters import parameter
from .smoothed_components import smooth_components


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
