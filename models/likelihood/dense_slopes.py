"""Slopes of the dense value of BKE (13) in the numbers of kernel and measure, row by row.

One pass over the rows of the Gram matrix gives mu_hat, log gamma and their slopes; a second one
pulls the Gaussian term's sensitivity to R back to the numbers, so that no n x n matrix of slopes is
ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..arrays.jacobian import value_and_jacobian
from ..arrays.padding import PaddedRows
from ..arrays.pivoted_cholesky import PivotedCholesky, interpolation
from ..arrays.rows import map_rows
from ..kernels.base import Kernel
from ..measures.measure import Measure
from . import gaussian_term
from .gaussian_term import GaussianTerm
from .noise import SamplingNoise, centred_gram, gram_sensitivity, variance_of
from .view import Parameters
from .volume import pushforward


class Pushforward(NamedTuple):
    """mu_hat and log gamma at every row, (n,) each, with their slopes (p, n)."""

    embedding: jax.Array
    log_volume: jax.Array
    embedding_slopes: jax.Array
    volume_slopes: jax.Array


class Shape(NamedTuple):
    """What R and mu_hat hang on beside the points, p numbers."""

    kernel: Kernel
    measure: Measure


class DenseSlopes:
    """Slopes at some parameters, of all rows."""

    def __init__(self, rows: PaddedRows, parameters: Parameters) -> None:
        self.rows, self.noise = rows, parameters.noise_variance
        self.kernel = parameters.kernel
        self.theta, unravel = ravel_pytree(Shape(parameters.kernel, parameters.measure))
        self.at = cast(Callable[[jax.Array], Shape], unravel)

    def pushforward(self) -> Pushforward:
        """mu_hat and log gamma at every row, with their slopes."""
        rows, points = self.rows, self.rows.points

        def of_row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
            def both(theta: jax.Array) -> jax.Array:
                return jnp.stack(pushforward(points[i], rows, self.at(theta).kernel)[:2])

            return value_and_jacobian(both, self.theta)

        found, slopes = map_rows(of_row, jnp.arange(len(rows)), len(rows))
        embedding, log_volume = rows.of_data(found.T)
        embedding_slopes, volume_slopes = rows.of_data(jnp.moveaxis(slopes, 0, -1))
        return Pushforward(embedding, log_volume, embedding_slopes, volume_slopes)

    def by_factor(
        self, embedding: jax.Array, factor: PivotedCholesky
    ) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        """The Gaussian term from a factor of R, its slopes (p,) but for mu_hat's, and in sigma^2.

        R = W' R[pivots] to the tolerance, so dR = W' dR[pivots] + its transpose - W' dR[pivots,
        pivots] W: the slopes need as many rows of dR as R has rank.
        """
        noise_variance = variance_of(self.noise)
        term, V = gaussian_term.low_rank(embedding, factor, noise_variance)
        W = interpolation(factor)
        SW = gaussian_term.low_rank_sensitivity(term.weights, V, noise_variance, W)
        pivots = factor.pivots
        coefficients = (2.0 * SW).at[:, pivots].add(-SW @ W.T)
        slopes = jax.vmap(self._of_smoothed)(pivots, coefficients)
        inverse_trace = (len(self.rows) - jnp.sum(V**2)) / noise_variance
        in_noise = 0.5 * (term.weights @ term.weights - inverse_trace)
        return term, jnp.sum(slopes, axis=0), in_noise

    def by_matrix(
        self, embedding: jax.Array, R: jax.Array
    ) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        """What :meth:`by_factor` gives, from R, with C/n where that is the noise, (n, n)."""
        rows, noise, indices = self.rows, self.noise, jnp.arange(len(self.rows))
        term, sensitivity = gaussian_term.dense_with_sensitivity(embedding, R, variance_of(noise))
        in_noise, sensitivity = jnp.trace(sensitivity), rows.of_pairs(sensitivity)
        slopes = map_rows(lambda i: self._of_smoothed(i, sensitivity[i]), indices, len(rows))
        if isinstance(noise, SamplingNoise):
            centred = centred_gram(rows.points, self.kernel)
            of_gram = gram_sensitivity(centred, sensitivity, noise.full)
            of_rows = map_rows(lambda i: self._of_gram(i, of_gram[i]), indices, len(rows))
            slopes = slopes + of_rows
        return term, jnp.sum(slopes, axis=0), in_noise

    def _of_smoothed(self, i: jax.Array, sensitivity: jax.Array) -> jax.Array:
        """Slopes (p,) of row i of R summed against its ``sensitivity`` (n,)."""
        dimension = self.rows.points.shape[1]
        return self._of_matrix(
            lambda shape: shape.kernel.smoothed(shape.measure, dimension), i, sensitivity
        )

    def _of_gram(self, i: jax.Array, sensitivity: jax.Array) -> jax.Array:
        """Slopes (p,) of row i of the Gram matrix summed against its ``sensitivity`` (n,)."""
        return self._of_matrix(lambda shape: shape.kernel, i, sensitivity)

    def _of_matrix(
        self, covariance: Callable[[Shape], Any], i: jax.Array, sensitivity: jax.Array
    ) -> jax.Array:
        points = self.rows.points

        def contracted(theta: jax.Array) -> jax.Array:
            matrix = covariance(self.at(theta)).matrix(points[i][None], points)
            return cast(jax.Array, matrix @ sensitivity)

        return value_and_jacobian(contracted, self.theta)[1][0]
