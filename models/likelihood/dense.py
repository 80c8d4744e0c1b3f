"""BKE (13) and its gradient by matrices: dense ones, or a factor where R has a low rank.

The derivative is written out (BKE A.5 and :mod:`bke.models.likelihood.gaussian_term`): the rows of
the Gram matrix give mu_hat and log gamma, the Gaussian term gives the sensitivity to mu_hat and R,
and :mod:`.dense_slopes` pulls these back to the hyperparameters. On the low-rank route no n x n
matrix is ever formed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..kernels.base import Kernel
from ..linalg.pivoted_cholesky import PivotedCholesky
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import PaddedRows, as_padded, contiguous_columns, map_rows
from ..linalg.symmetric import SymmetricBlocks
from ..measures import Measure
from . import gaussian_term
from .dense_slopes import DenseSlopes
from .derivative import closed_form
from .noise import Noise, SamplingNoise, check_noise, sampling_covariance, variance_of
from .view import LikelihoodView, LogLikelihoodTerms, Parameters
from .volume import pushforward

T = TypeVar("T")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DenseView(LikelihoodView):
    """Rows for the matrices. Those that are no data have no covariance but the noise, and no value.

    Args:
        rows: the data, padded or not.
        low_rank: whether a factor of R may replace it where that is exact to 1e-11.
    """

    rows: PaddedRows
    low_rank: bool = dataclasses.field(default=True, metadata={"static": True})

    called = "the dense route"

    @property
    def entries(self) -> int:
        """All n^2 of the Gram matrix."""
        return len(self.rows) ** 2

    @property
    def rows_of_matrices(self) -> int:
        """The number of rows that are data."""
        return int(self.rows.number)

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i).

        All there is to rows that are no data is a normal density at zero each, which is taken out
        again. They have no derivative in the points, and no sampling covariance.
        """
        rows = self.rows
        noise = check_noise(noise_variance)
        parameters = Parameters.of(kernel, noise, measure, rows.points.dtype)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        variance = variance_of(parameters.noise_variance)
        more = len(rows) - rows.number
        nothing = 0.5 * more * (jnp.log(variance) + math.log(2.0 * math.pi))
        return terms._replace(gaussian=terms.gaussian + nothing)

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Both terms, with every row taken for data."""
        embedding, log_volume = _pushforward(self.rows, parameters.kernel)
        variance = variance_of(parameters.noise_variance)
        value = self._with_low_rank(
            parameters,
            lambda factor: gaussian_term.low_rank(embedding, factor, variance)[0].value,
            lambda: (
                gaussian_term.dense(embedding, _covariance(self.rows, parameters), variance).value
            ),
        )
        return LogLikelihoodTerms(value, jnp.sum(log_volume))

    def value_and_slopes(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``."""
        slopes = DenseSlopes(self.rows, parameters)
        found = slopes.pushforward()
        (value, weights), of_R, in_noise = self._with_low_rank(
            parameters,
            lambda factor: slopes.by_factor(found.embedding, factor),
            lambda: slopes.by_matrix(found.embedding, _halves(self.rows, parameters)),
        )
        split = ravel_pytree(parameters.kernel)[0].size  # the noise stands behind the kernel

        def whole(of_shape: jax.Array, of_noise: jax.Array) -> jax.Array:
            return jnp.concatenate([of_shape[:split], of_noise[None], of_shape[split:]])

        return (
            LogLikelihoodTerms(value, jnp.sum(found.log_volume)),
            LogLikelihoodTerms(
                whole(of_R - found.embedding_slopes @ weights, in_noise),
                whole(jnp.sum(found.volume_slopes, axis=1), jnp.zeros_like(in_noise)),
            ),
        )

    def along_data(self, change: DenseView, parameters: Parameters) -> LogLikelihoodTerms:
        """Derivative of both terms along a change of the data; always by the dense route."""
        if self.rows.count is not None:
            raise NotImplementedError("padded rows have no derivative in the data")
        moved = (self.rows.points,), (change.rows.points,)
        (embedding, _), (embedding_dot, log_volume_dot) = jax.jvp(
            lambda points: _pushforward(PaddedRows(points), parameters.kernel), *moved
        )
        R, R_dot = jax.jvp(lambda points: _covariance(PaddedRows(points), parameters), *moved)
        variance = variance_of(parameters.noise_variance)
        term, inverse = gaussian_term.dense_with_inverse(
            embedding, SymmetricBlocks.from_matrix(R), variance
        )
        weights = term.weights
        sensitivity = gaussian_term.dense_sensitivity(inverse.matrix(), weights, weights)
        gaussian = jnp.vdot(sensitivity, R_dot) - weights @ embedding_dot
        return LogLikelihoodTerms(gaussian, jnp.sum(log_volume_dot))

    def _with_low_rank(
        self,
        parameters: Parameters,
        low_rank: Callable[[PivotedCholesky], T],
        dense: Callable[[], T],
    ) -> T:
        """``low_rank`` of a factor of R where there is a good one, else ``dense``."""
        rows, noise = self.rows, parameters.noise_variance
        small = len(rows) < gaussian_term.SMALLEST_LOW_RANK_SIZE
        if small or not self.low_rank or isinstance(noise, SamplingNoise):
            return dense()
        smoothed = parameters.smoothed(rows.points.shape[1])
        factor, accepted = gaussian_term.low_rank_factor(rows, smoothed, noise)
        return cast(T, jax.lax.cond(accepted, lambda: low_rank(factor), dense))


def dense_terms(
    points: jax.Array | PaddedRows,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    *,
    low_rank: bool,
) -> LogLikelihoodTerms:
    """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i) for (n, D) ``points``."""
    view = DenseView(as_padded(points), low_rank)
    return view.likelihood_terms(kernel, noise_variance, measure)


def _covariance(rows: PaddedRows, parameters: Parameters) -> jax.Array:
    """R, and C/n if asked for: the covariance of mu_hat but for what is on the diagonal."""
    points, noise = contiguous_columns(rows.points).T, parameters.noise_variance
    R = rows.mask_matrix(parameters.smoothed(points.shape[1]).matrix(points, points))
    if not isinstance(noise, SamplingNoise):
        return R
    return R + sampling_covariance(points, parameters.kernel, noise.full)


def _halves(rows: PaddedRows, parameters: Parameters) -> SymmetricBlocks:
    """What :func:`_covariance` gives, by halves."""
    points = contiguous_columns(rows.points)
    if isinstance(parameters.noise_variance, SamplingNoise):
        return SymmetricBlocks.from_matrix(_covariance(rows, parameters))
    smoothed = parameters.smoothed(len(points))

    def block(i: slice, j: slice) -> jax.Array:
        return rows.mask_block(smoothed.matrix(points[:, i].T, points[:, j].T), i, j)

    return SymmetricBlocks.from_function(len(rows), block)


def _pushforward(rows: PaddedRows, kernel: Kernel) -> tuple[jax.Array, jax.Array]:
    """mu_hat and log gamma at every point, (n,) each."""
    found = map_rows(lambda x: pushforward(x, rows, kernel)[:2], rows.points, len(rows))
    return cast(tuple[jax.Array, jax.Array], jax.tree.map(rows.mask, found))
