"""Sums, products and positive multiples of kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ..measures.measure import Measure
from .base import OPERATIONS, Covariance, Kernel, SmoothingError, Terms, check_positive
from .components import Components, add, multiply
from .laplace import Laplace
from .scaled import ScaledCovariance
from .smoothed_components import smooth_components


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sum(Kernel):
    """k(x, y) = left(x, y) + right(x, y); nest for more terms."""

    left: Kernel
    right: Kernel

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """True where one of the two is; a sum of kernels that are not may still be."""
        return True if self.left.characteristic or self.right.characteristic else None

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """True where both kernels are functions of x - y."""
        return self.left.translation_invariant and self.right.translation_invariant

    def terms(self, X: jax.Array, Y: jax.Array) -> Terms:
        """Value and derivative in the first argument, see :class:`Terms`."""
        left, right = self.left.terms(X, Y), self.right.terms(X, Y)
        # A common factor that value and gradient make up for: its own derivative is not needed.
        log_scale = jax.lax.stop_gradient(jnp.maximum(left.log_scale, right.log_scale))
        a, b = jnp.exp(left.log_scale - log_scale), jnp.exp(right.log_scale - log_scale)
        return Terms(
            log_scale,
            a * left.value + b * right.value,
            a * left.gradient + b * right.gradient,
        )

    def components(self, dimension: int) -> Components | None:
        """The Gaussian components on R^``dimension``, None where there are none."""
        left, right = self.left.components(dimension), self.right.components(dimension)
        return None if left is None or right is None else add(left, right)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """R in closed form, where both kernels are sums of Gaussian components."""
        components = self.components(dimension)
        if components is None:
            raise _no_form(self, "sum")
        return smooth_components(components, measure, dimension)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Product(Kernel):
    """k(x, y) = left(x, y) right(x, y); nest for more factors."""

    left: Kernel
    right: Kernel

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """True where both are: a convolution of positive spectral densities is positive."""
        return True if self.left.characteristic and self.right.characteristic else None

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """True where both kernels are functions of x - y."""
        return self.left.translation_invariant and self.right.translation_invariant

    def terms(self, X: jax.Array, Y: jax.Array) -> Terms:
        """Value and derivative in the first argument, see :class:`Terms`."""
        left, right = self.left.terms(X, Y), self.right.terms(X, Y)
        return Terms(
            left.log_scale + right.log_scale,
            left.value * right.value,
            left.gradient * right.value + left.value * right.gradient,
        )

    def components(self, dimension: int) -> Components | None:
        """The Gaussian components on R^``dimension``, None where there are none."""
        left, right = self.left.components(dimension), self.right.components(dimension)
        return None if left is None or right is None else multiply(left, right)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """R in closed form, for sums of Gaussian components and for Laplace kernels.

        The product of Laplace kernels is the one with 1 / lengthscale = sum of the parts'.
        """
        components = self.components(dimension)
        if components is not None:
            return smooth_components(components, measure, dimension)
        variance, factors = _factors(self)
        laplaces = [factor for factor in factors if isinstance(factor, Laplace)]
        if len(laplaces) < len(factors):
            raise _no_form(self, "product")
        rate = sum(1.0 / jnp.asarray(part.lengthscale, dtype=jnp.float64) for part in laplaces)
        return Scaled(Laplace(1.0 / rate), variance).smooth(measure, dimension)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled(Kernel):
    """k(x, y) = variance kernel(x, y); also written ``variance * kernel``.

    Args:
        kernel: any kernel.
        variance: positive number.
    """

    kernel: Kernel
    variance: Any = 1.0

    def __post_init__(self) -> None:
        check_positive(self.variance, "variance")

    @property
    def characteristic(self) -> bool | None:  # type: ignore[override]
        """What the kernel itself says: a positive multiple changes nothing."""
        return self.kernel.characteristic

    @property
    def translation_invariant(self) -> bool:  # type: ignore[override]
        """What the kernel itself says: a positive multiple changes nothing."""
        return self.kernel.translation_invariant

    def _log_variance(self) -> jax.Array:
        variance = jnp.asarray(self.variance, dtype=jnp.float64)
        if variance.ndim:
            raise ValueError(f"variance must be a number, got shape {variance.shape}")
        return jnp.log(variance)

    def terms(self, X: jax.Array, Y: jax.Array) -> Terms:
        """Value and derivative in the first argument, see :class:`Terms`."""
        terms = self.kernel.terms(X, Y)
        return terms._replace(log_scale=terms.log_scale + self._log_variance())

    def components(self, dimension: int) -> Components | None:
        """The components of the kernel, each times variance."""
        components = self.kernel.components(dimension)
        if components is None:
            return None
        return components._replace(log_weight=components.log_weight + self._log_variance())

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """variance^2 times that of the kernel; the *unit* form does not change."""
        smoothed = self.kernel.smooth(measure, dimension)
        if measure.relative:
            return smoothed
        return ScaledCovariance(jnp.exp(2.0 * self._log_variance()), smoothed)


def _factors(kernel: Kernel) -> tuple[Any, list[Kernel]]:
    """A nested product as a number and the kernels in it."""
    if isinstance(kernel, Scaled):
        variance, factors = _factors(kernel.kernel)
        return kernel.variance * variance, factors
    if isinstance(kernel, Product):
        (left, a), (right, b) = _factors(kernel.left), _factors(kernel.right)
        return left * right, a + b
    return 1.0, [kernel]


def _no_form(kernel: Sum | Product, what: str) -> SmoothingError:
    names = [type(part).__name__ for part in (kernel.left, kernel.right)]
    return SmoothingError(
        f"no measure ('unit', 'lebesgue' or Gaussian) has an implemented smoothed kernel r for the "
        f"{what} of {names[0]} and {names[1]}. What works with every measure: sums and products of "
        "SquaredExponential, FullSquaredExponential, GaussianMixture and SpectralMixture; with "
        "'unit' and 'lebesgue': products of Laplace kernels, and any single kernel"
    )


OPERATIONS.update(sum=Sum, product=Product, multiple=Scaled)
