"""One column and a sum of squared exponentials: BKE (13) from nodes, whatever the lengthscales.

A function as smooth as the shortest component is known at the nodes of panels
(:mod:`.panels`), and so is any longer component, no matter how much longer. With the cardinal
functions L (n, m) of the nodes, R = L R_y L' and mu_hat = L K_y L'1 / n for the kernels at the
nodes, whose number m does not depend on n. For T with T'T = L'L,

    log |R + s I| = log |T R_y T' + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = v' (T R_y T' + s I)^-1 v,  v = T K_y L'1 / n,

and the slope of mu_hat at the points is the interpolant of its values at nodes of narrower panels.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...kernels.base import Kernel
from ...kernels.components import ComponentCovariance, Components, accumulate
from ...linalg.pytrees import register_dataclass
from ...linalg.symmetric import inverse_and_log_determinant
from ...measures import Measure
from .panels import ORDER, Nodes

#: Matrices up to this are inverted directly: smaller ones would take long to compile.
DIRECTLY = 512


class Mixture(NamedTuple):
    """sum_q exp(log_weight_q - precision_q d^2 / 2) in one column, (Q,) each."""

    log_weight: jax.Array
    precision: jax.Array

    @property
    def shortest(self) -> jax.Array:
        """The least of the lengthscales."""
        return jax.lax.rsqrt(jnp.max(self.precision))

    def smoothed(self, measure: Measure) -> Mixture:
        """R, as the matrices have it."""
        components = Components(self.log_weight, self.precision[:, None], None)
        covariance = measure.smooth(components, 1)
        assert isinstance(covariance, ComponentCovariance)
        found = covariance.components
        return Mixture(found.log_weight, found.precision[:, 0])

    def at(self, delta: jax.Array) -> jax.Array:
        """The values at differences."""

        def part(one: Mixture) -> jax.Array:
            return jnp.exp(one.log_weight - 0.5 * one.precision * delta**2)

        total: jax.Array = accumulate(part, self, jnp.zeros(delta.shape))
        return total


def is_mixture(kernel: Kernel) -> bool:
    """Whether it is a sum of Gaussian components in one column."""
    components = jax.eval_shape(lambda: kernel.components(1))
    return components is not None and components.frequency is None


def mixture_of(kernel: Kernel) -> Mixture:
    """The mixture that a kernel is, a sum of Gaussian components in one column."""
    components = kernel.components(1)
    assert components is not None
    return Mixture(components.log_weight, components.precision.reshape(-1))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """What lengthscales need from a shortest one up."""

    shortest: Any  # ()
    gaussian: Nodes
    weights: Any  # (blocks, ORDER), of the same nodes
    roots: Any  # (blocks, ORDER, ORDER)
    slopes: Nodes
    slope_weights: Any  # (more blocks, ORDER)

    def gaussian_term(
        self, mixture: Mixture, noise_variance: jax.Array, measure: Measure, n: Any, *, slopes: bool
    ) -> tuple[jax.Array, Mixture, jax.Array]:
        """Log N(mu_hat; 0, R + noise_variance I) and, if asked for, its slopes in both."""
        apart = self.gaussian.minus(self.gaussian)
        roots, weights = jnp.asarray(self.roots), self.weights.reshape(-1) / n
        transposed = jnp.swapaxes(roots, 1, 2)
        m = len(weights)

        def times(blocks: jax.Array, matrix: jax.Array) -> jax.Array:
            """The product of a block diagonal matrix and another one."""
            return (blocks @ matrix.reshape(len(blocks), ORDER, -1)).reshape(matrix.shape)

        def covariance_at(mixture: Mixture) -> jax.Array:
            return mixture.smoothed(measure).at(apart)

        def embedding_at(mixture: Mixture) -> jax.Array:
            return mixture.at(apart) @ weights

        if not slopes:
            covariance, embedding = covariance_at(mixture), embedding_at(mixture)
        else:
            covariance, pull_covariance = jax.vjp(covariance_at, mixture)
            embedding, pull_embedding = jax.vjp(embedding_at, mixture)
        M = times(roots, times(roots, covariance).T)
        v = times(roots, embedding)
        regular = M + noise_variance * jnp.eye(m)
        if not slopes:
            cholesky = jnp.linalg.cholesky(regular)
            a = jax.scipy.linalg.cho_solve((cholesky, True), v)
            log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
        else:
            inverse, log_determinant = inverse_and_log_determinant(regular, DIRECTLY)
            a = inverse @ v
            a = a + inverse @ (v - regular @ a)  # the explicit inverse loses digits
        log_determinant = log_determinant + (n - m) * jnp.log(noise_variance)
        value = -0.5 * (v @ a + log_determinant + n * math.log(2.0 * math.pi))
        # As by the matrices: no number where the noise is lost to rounding beside tr R.
        value = jnp.where(jnp.trace(M) * jnp.finfo(M.dtype).eps < noise_variance, value, jnp.nan)
        if not slopes:
            return value, mixture, noise_variance
        sensitivity = 0.5 * (jnp.outer(a, a) - inverse)
        of_covariance = times(transposed, times(transposed, sensitivity).T)
        (of_r,), (of_k,) = pull_covariance(of_covariance), pull_embedding(-times(transposed, a))
        of_noise = jnp.trace(sensitivity) - 0.5 * (n - m) / noise_variance
        return value, jax.tree.map(jnp.add, of_r, of_k), of_noise

    def embedding_slopes(self, mixture: Mixture, x: jax.Array, n: Any) -> Slopes:
        """mu_hat' at the nodes for slopes, and of each component at ``x`` (k,)."""
        weights = self.slope_weights.reshape(-1) / n
        apart = self.slopes.minus(self.slopes)
        far = Nodes(x, jnp.zeros_like(x)).minus(self.slopes)

        def slope(one: Mixture, delta: jax.Array) -> jax.Array:
            return -one.precision * delta * jnp.exp(one.log_weight - 0.5 * one.precision * delta**2)

        def part(one: Mixture) -> tuple[jax.Array, jax.Array]:
            each = slope(one, apart)
            sizes = jax.lax.stop_gradient(jnp.abs(each) @ jnp.abs(weights))
            return each @ weights, sizes

        nothing = jnp.zeros(len(weights))
        at_nodes, sizes = accumulate(part, mixture, (nothing, nothing))
        alone = jax.vmap(lambda one: slope(one, far) @ weights)(mixture)
        return Slopes(at_nodes.reshape(-1, ORDER), sizes.reshape(-1, ORDER), alone)


class Slopes(NamedTuple):
    """mu_hat' where it is computed itself."""

    at_nodes: jax.Array  # (blocks, ORDER)
    sizes: jax.Array  # (blocks, ORDER), the sums of the absolute values of their terms
    alone: jax.Array  # (Q, k): of each component at the outliers
