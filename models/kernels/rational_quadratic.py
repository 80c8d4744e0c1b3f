"""The rational quadratic kernel, a Gamma scale mixture of squared exponentials."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ..linalg.precision import check_positive
from ..linalg.pytrees import register_dataclass
from .base import (
    Covariance,
    Radial,
    SmoothingError,
    ValueAndDecay,
    differences,
    per_column,
    squared_norm,
)
from .components import accumulate
from .covariance import ScaledCovariance, parameter


@register_dataclass
@dataclasses.dataclass(frozen=True)
class RationalQuadratic(Radial):
    """k(x, y) = (1 + rho^2 / (2 alpha))^-alpha.

    The inverse multiquadric (c^2 + rho^2)^-alpha (Muandet et al. 2017, section 2.1) with
    c^2 = 2 alpha, over its value at zero, and
    rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2. Equally E exp(-tau rho^2 / 2) for
    tau ~ Gamma(alpha, rate alpha): the squared exponential is its limit for large alpha.

    Args:
        alpha: positive number; small means heavy tails.
        lengthscale: positive, a number or one per column, in the units of the data.
    """

    alpha: Any = parameter(1.0)
    lengthscale: Any = parameter(1.0, unit="length")

    characteristic = True
    allow_fixed_nodes = False

    def __post_init__(self) -> None:
        check_positive(self.alpha, "alpha")
        check_positive(self.lengthscale, "lengthscale")
        if isinstance(self.alpha, (list, tuple, np.ndarray)) and np.ndim(self.alpha) > 0:
            raise ValueError(f"alpha must be a number, got shape {np.shape(self.alpha)}")

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """Return k and its derivative, see :class:`ValueAndDecay`, for rho^2 (n, m)."""
        alpha = jnp.asarray(self.alpha, dtype=jnp.float64)
        excess = rho_squared / (2.0 * alpha)
        log_scale = -(alpha + 1.0) * jnp.log1p(excess)
        return ValueAndDecay(log_scale, 1.0 + excess, jnp.ones_like(excess))

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return the numerical :class:`ScaleMixture`, times r(0) unless ``relative``.

        r(0) is ``(2 pi alpha)^(D/2) Gamma(2 alpha - D/2) / Gamma(2 alpha) prod_d lengthscale_d``.
        A traced alpha that is too small gives NaN.

        Raises:
            SmoothingError: unless alpha > D/4, where the integral is finite.
        """
        half, least = dimension / 2.0, dimension / 4.0
        alpha = jnp.asarray(self.alpha, dtype=jnp.float64)
        if not isinstance(alpha, jax.core.Tracer) and not float(alpha) > least:
            raise SmoothingError(
                "the integral of RationalQuadratic squared, which measure='unit' and "
                f"measure='lebesgue' need, is finite only if alpha > D/4 = {least:g}, got alpha = "
                f"{float(alpha):g}; for these data take a larger alpha or another kernel"
            )
        alpha = jnp.where(alpha > least, alpha, jnp.nan)
        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        smoothed = ScaleMixture(*scale_mixture(alpha, dimension), lengthscale)
        log_ratio = gammaln(2.0 * alpha - half) - gammaln(2.0 * alpha)
        volume = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        at_zero = (2.0 * math.pi * alpha) ** half * jnp.exp(log_ratio) * volume
        return smoothed if relative else ScaledCovariance(at_zero, smoothed)


def scale_mixture(
    alpha: jax.Array,
    dimension: int,
    *,
    outer_nodes: int = 112,
    inner_nodes: int = 160,
    tail: float = 36.0,
    max_log_range: float = 24.0,
) -> tuple[jax.Array, jax.Array]:
    """Compute r over its value at zero as a sum of exp(-s rho^2 / 2).

    With tau = s (1 + e^v) and tau' = s (1 + e^-v), C = 2 + 2 cosh v, the two scale mixtures
    convolve to ``int ds s^(2 alpha - 1 - D/2) exp(-s rho^2 / 2) int dv C^(alpha - D/2)
    exp(-alpha s C)`` times a constant: the trapezoid rule in log s and v. The mass below the
    smallest s is added to its weight, by the known value at zero.

    Args:
        alpha: parameter of the kernel.
        dimension: D.
        outer_nodes: number of nodes in log s, for the errors of :class:`ScaleMixture`.
        inner_nodes: number of nodes in v, for the same errors.
        tail: tails below exp(-tail) of the peak are left out.
        max_log_range: largest range of log s below its peak. Not tuned.

    Returns:
        Weights (J,), with sum one, and precisions s (J,).
    """
    half = dimension / 2.0
    # The rule is exact for any nodes, up to rounding: their derivative is not needed.
    fixed = jax.lax.stop_gradient(alpha)
    decay = jnp.where(fixed > half, fixed, 2.0 * fixed - half)  # power of s in the lower tail
    below, above = tail / decay, tail / (2.0 * fixed)
    start = -math.log(2.0) - jnp.minimum(below + jnp.sqrt(2.0 * below), max_log_range)
    stop = -math.log(2.0) + jnp.log1p(above + jnp.sqrt(2.0 * above))
    step = (stop - start) / (outer_nodes - 1)
    log_s = start + step * np.arange(outer_nodes)
    s = jnp.exp(log_s)

    excess = jnp.maximum(fixed - half, 0.0)
    largest = jnp.maximum(4.0 * fixed * s, excess) + tail + jnp.sqrt(2.0 * excess * tail)
    v_step = jnp.arccosh(0.5 * largest / (fixed * s) - 1.0) / inner_nodes
    C = 2.0 + 2.0 * jnp.cosh(v_step[:, None] * np.arange(inner_nodes + 1))
    both_signs = np.where(np.arange(inner_nodes + 1) == 0, 1.0, 2.0)
    inner = (alpha - half) * jnp.log(C) - alpha * s[:, None] * C
    log_inner = jax.nn.logsumexp(inner, axis=1, b=both_signs) + jnp.log(v_step)

    log_constant = (2.0 * alpha - half) * jnp.log(alpha) - 2.0 * gammaln(alpha)
    log_constant = log_constant + gammaln(2.0 * alpha) - gammaln(2.0 * alpha - half)
    weights = step * jnp.exp(log_constant + (2.0 * alpha - half) * log_s + log_inner)
    return weights.at[0].add(1.0 - weights.sum()), s


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ScaleMixture(Covariance):
    """sum_j weights_j exp(-precision_j rho^2 / 2), r of the rational quadratic over r(0).

    Numerical: relative error below 1e-10 for rho <= 5, as measured against direct integration in
    D = 1 for alpha from 0.3 to 1000. Further out accuracy is lost slowly: for alpha = 0.3, whose
    tail is heavy, 3e-6 at rho = 1000 and 7 % at 1e5.
    """

    weights: jax.Array  # (J,)
    precision: jax.Array  # (J,)
    lengthscale: jax.Array  # (D,) or (1,)

    numerical: ClassVar[bool] = True  # type: ignore[misc]

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        delta = differences(X, Y)
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        rho_squared = squared_norm(delta / lengthscale)
        return _sum_scales(self.weights, self.precision, rho_squared)


@jax.jit
def _sum_scales(weights: jax.Array, precision: jax.Array, rho_squared: jax.Array) -> jax.Array:
    return accumulate(
        lambda term: term[0] * jnp.exp(-0.5 * term[1] * rho_squared),
        (weights, precision),
        jnp.zeros_like(rho_squared),
    )
