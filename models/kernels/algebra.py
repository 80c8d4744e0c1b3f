"""Sums, products and positive multiples of kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ..linalg.precision import check_positive
from ..linalg.pytrees import register_dataclass
from ..measures import Measure
from .base import OPERATIONS, Covariance, Kernel, ValueAndGrad
from .components import Components
from .covariance import ScaledCovariance, parameter
from .matern import Laplace


@dataclasses.dataclass(frozen=True)
class KernelPair(Kernel):
    """Base class of kernels that combine two kernels, ``left`` and ``right``.

    Without a closed form r is numerical, see :class:`Kernel`.
    """

    left: Kernel
    right: Kernel

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """Whether both kernels are functions of x - y."""
        return self.left.translation_invariant and self.right.translation_invariant

    @property
    def allow_fixed_nodes(self) -> bool:  # type: ignore[override]
        """True if both kernels allow quadrature over fixed nodes."""
        return self.left.allow_fixed_nodes and self.right.allow_fixed_nodes


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Sum(KernelPair):
    """k(x, y) = left(x, y) + right(x, y); nest for more terms."""

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """Whether one of the two kernels is characteristic; ``None`` if unknown."""
        return True if self.left.characteristic or self.right.characteristic else None

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Return value and gradient in the first argument at all pairs."""
        left, right = self.left.value_and_grad(X, Y), self.right.value_and_grad(X, Y)
        # A common factor that value and gradient make up for: its own derivative is not needed.
        log_scale = jax.lax.stop_gradient(jnp.maximum(left.log_scale, right.log_scale))
        a, b = jnp.exp(left.log_scale - log_scale), jnp.exp(right.log_scale - log_scale)
        return ValueAndGrad(
            log_scale,
            a * left.value + b * right.value,
            a * left.gradient + b * right.gradient,
        )

    def components(self, dimension: int) -> Components | None:
        """Return the Gaussian components on R^``dimension``, or None."""
        left, right = self.left.components(dimension), self.right.components(dimension)
        return None if left is None or right is None else left.plus(right)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Product(KernelPair):
    """k(x, y) = left(x, y) right(x, y); nest for more factors."""

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """Whether both kernels are characteristic and functions of x - y; else ``None``, unknown.

        The spectral density is then a convolution of positive ones, so positive (Sriperumbudur et
        al. 2010, theorem 9). Other products need not be characteristic: f(x) k(x, y) f(y) is, where
        k is and f is zero at one point only, but not the product of two with different zeros. Nor
        does the theorem of Szabo and Sriperumbudur (2018) on tensor products apply: its kernels are
        of different variables, these of the same.
        """
        both = self.left.characteristic and self.right.characteristic
        return True if both and self.translation_invariant else None

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Return value and gradient in the first argument at all pairs."""
        left, right = self.left.value_and_grad(X, Y), self.right.value_and_grad(X, Y)
        return ValueAndGrad(
            left.log_scale + right.log_scale,
            left.value * right.value,
            left.gradient * right.value + left.value * right.gradient,
        )

    def components(self, dimension: int) -> Components | None:
        """Return the Gaussian components on R^``dimension``, or None."""
        left, right = self.left.components(dimension), self.right.components(dimension)
        return None if left is None or right is None else left.times(right)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """Return r in closed form also for Laplace kernels.

        Their product is the one with 1 / lengthscale = sum of the factors'.
        """
        variance, factors = _factors(self)
        laplaces = [factor for factor in factors if isinstance(factor, Laplace)]
        if len(laplaces) < len(factors):
            return super().smooth(measure, dimension)
        rate = sum(1.0 / jnp.asarray(factor.lengthscale, dtype=jnp.float64) for factor in laplaces)
        return Scaled(Laplace(1.0 / rate), variance).smooth(measure, dimension)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled(Kernel):
    """k(x, y) = variance kernel(x, y); also written ``variance * kernel``.

    Args:
        kernel: any kernel.
        variance: positive number.
    """

    kernel: Kernel
    variance: Any = parameter(1.0)

    def __post_init__(self) -> None:
        check_positive(self.variance, "variance")

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """Whether ``kernel`` is characteristic; ``None`` if unknown."""
        return self.kernel.characteristic

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """Whether ``kernel`` is a function of x - y."""
        return self.kernel.translation_invariant

    @property
    def allow_fixed_nodes(self) -> bool:  # type: ignore[override]
        """True if ``kernel`` allows quadrature over fixed nodes."""
        return self.kernel.allow_fixed_nodes

    def _log_variance(self) -> jax.Array:
        variance = jnp.asarray(self.variance, dtype=jnp.float64)
        if variance.ndim:
            raise ValueError(f"variance must be a number, got shape {variance.shape}")
        return jnp.log(variance)

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Return value and gradient in the first argument at all pairs."""
        terms = self.kernel.value_and_grad(X, Y)
        return terms._replace(log_scale=terms.log_scale + self._log_variance())

    def components(self, dimension: int) -> Components | None:
        """Return the components of the kernel, each times variance."""
        components = self.kernel.components(dimension)
        return None if components is None else components.scaled(self._log_variance())

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """Return variance^2 times that of the kernel; r / r(0) does not change."""
        smoothed = self.kernel.smooth(measure, dimension)
        if measure.relative:
            return smoothed
        return ScaledCovariance(jnp.exp(2.0 * self._log_variance()), smoothed)


def _factors(kernel: Kernel) -> tuple[Any, list[Kernel]]:
    """Split a nested product into a number and its kernels."""
    if isinstance(kernel, Scaled):
        variance, factors = _factors(kernel.kernel)
        return kernel.variance * variance, factors
    if isinstance(kernel, Product):
        (left, a), (right, b) = _factors(kernel.left), _factors(kernel.right)
        return left * right, a + b
    return 1.0, [kernel]


OPERATIONS.update(sum=Sum, product=Product, multiple=Scaled)
