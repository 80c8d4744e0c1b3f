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

from ..kernels.base import Kernel
from ..linalg.pivoted_cholesky import PivotedCholesky, interpolation
from ..linalg.rows import BLOCK_ENTRIES, PaddedRows, contiguous_columns, map_rows, reduce_blocks
from ..linalg.symmetric import SymmetricBlocks
from ..linalg.transforms import value_and_jacobian
from ..measures import Measure
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
        self._count, self._columns = rows.count, contiguous_columns(rows.points)
        self.noise = parameters.noise_variance
        self.kernel = parameters.kernel
        self.theta, unravel = ravel_pytree(Shape(parameters.kernel, parameters.measure))
        self.at = cast(Callable[[jax.Array], Shape], unravel)

    @property
    def rows(self) -> PaddedRows:
        """The rows; asked for inside of loops, which then read the columns as they are stored."""
        return PaddedRows(self._columns.T, self._count)

    def pushforward(self) -> Pushforward:
        """mu_hat and log gamma at every row, with their slopes."""

        def of_row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
            def both(theta: jax.Array) -> jax.Array:
                point = self._points(i[None])[0]
                return jnp.stack(pushforward(point, self.rows, self.at(theta).kernel)[:2])

            return value_and_jacobian(both, self.theta)

        rows = self.rows
        found, slopes = map_rows(of_row, jnp.arange(len(rows)), len(rows))
        embedding, log_volume = rows.mask(found.T)
        embedding_slopes, volume_slopes = rows.mask(jnp.moveaxis(slopes, 0, -1))
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
        every = jnp.arange(len(self.rows))
        slopes = jax.vmap(lambda i, row: self._of_smoothed(i[None], every, row[None]))(
            pivots, coefficients
        )
        inverse_trace = (len(self.rows) - jnp.sum(V**2)) / noise_variance
        in_noise = 0.5 * (term.weights @ term.weights - inverse_trace)
        return term, jnp.sum(slopes, axis=0), in_noise

    def by_matrix(
        self, embedding: jax.Array, R: SymmetricBlocks
    ) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        """What :meth:`by_factor` gives, from R, with C/n where that is the noise, (n, n)."""
        rows, noise = self.rows, self.noise
        term, inverse = gaussian_term.dense_with_inverse(embedding, R, variance_of(noise))
        in_noise = 0.5 * (term.weights @ term.weights - jnp.sum(inverse.diagonal()))
        slopes = sum(
            (self._of_block(*entry, term.weights) for entry in inverse.blocks()),
            start=jnp.zeros_like(self.theta),
        )
        if isinstance(noise, SamplingNoise):
            weights, whole = term.weights, inverse.matrix()
            sensitivity = gaussian_term.dense_sensitivity(whole, weights, weights)
            slopes = slopes + self._of_gram(rows.mask_matrix(sensitivity), noise.full)
        return term, slopes, in_noise

    def _of_block(
        self, rows_of: slice, columns_of: slice, inverse: jax.Array, copies: int, weights: jax.Array
    ) -> jax.Array:
        """Slopes (p,) of one block of R, and of what it stands for, from one of the inverse."""
        rows = self.rows
        every = jnp.arange(len(rows))
        i, j = every[rows_of], every[columns_of]

        def add(
            total: jax.Array, block: jax.Array, of_block: jax.Array, own: jax.Array
        ) -> jax.Array:
            k = i[of_block]
            sensitivity = gaussian_term.dense_sensitivity(block, weights[k], weights[j])
            # Weights of rows that are no data are zero, those of the inverse are not.
            sensitivity = rows.mask_block(sensitivity, k, j)
            return total + self._of_smoothed(k, j, own[:, None] * sensitivity)

        most = max(1, BLOCK_ENTRIES // len(j))
        return copies * reduce_blocks(add, jnp.zeros_like(self.theta), inverse, most)

    def _of_gram(self, sensitivity: jax.Array, full: bool) -> jax.Array:
        """Slopes (p,) through C/n, from the ``sensitivity`` (n, n) to that."""
        rows, indices = self.rows, jnp.arange(len(self.rows))
        centred = centred_gram(rows.points, self.kernel)
        of_gram = gram_sensitivity(centred, sensitivity, full)
        slopes = map_rows(
            lambda i: self._of_matrix(
                lambda shape: shape.kernel, i[None], indices, of_gram[i][None]
            ),
            indices,
            len(rows),
        )
        return jnp.sum(slopes, axis=0)

    def _of_smoothed(self, i: jax.Array, j: jax.Array, sensitivity: jax.Array) -> jax.Array:
        """Slopes (p,) of rows i, columns j of R summed against their ``sensitivity``."""
        dimension = self.rows.points.shape[1]
        return self._of_matrix(
            lambda shape: shape.kernel.smoothed(shape.measure, dimension), i, j, sensitivity
        )

    def _of_matrix(
        self,
        covariance: Callable[[Shape], Any],
        i: jax.Array,
        j: jax.Array,
        sensitivity: jax.Array,
    ) -> jax.Array:
        def contracted(theta: jax.Array) -> jax.Array:
            matrix = covariance(self.at(theta)).matrix(self._points(i), self._points(j))
            # By a product with ones: a sum of all entries is taken one after the other on the CPU.
            return jnp.sum((matrix * sensitivity) @ jnp.ones(len(j), matrix.dtype))[None]

        return value_and_jacobian(contracted, self.theta)[1][0]

    def _points(self, i: jax.Array) -> jax.Array:
        """Points (k, D) by their numbers (k,)."""
        return self._columns.at[:, i].get(mode="promise_in_bounds").T
