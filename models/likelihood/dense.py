"""BKE (13) and its gradient by matrices: dense ones, or a factor where R has a low rank.

The derivative is written out (BKE A.5 and :mod:`bke.models.likelihood.gaussian_term`): one pass
over the rows
of the Gram matrix gives mu_hat and log gamma, the Gaussian term gives the sensitivity to mu_hat and
R, and a second pass pulls these back to the hyperparameters, a block of rows at a time. On the
low-rank route no n x n matrix is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from ..arrays.jacobian import value_and_jacobian
from ..arrays.padding import PaddedRows, as_padded
from ..arrays.pivoted_cholesky import PivotedCholesky, interpolation
from ..arrays.rows import map_rows
from ..kernels.base import Covariance, Kernel
from ..measures.measure import Measure, as_measure
from . import gaussian_term
from .gaussian_term import GaussianTerm
from .noise import (
    Noise,
    SamplingNoise,
    centred_gram,
    check_noise,
    gram_sensitivity,
    sampling_covariance,
)
from .volume import pushforward

T = TypeVar("T")


class LogLikelihoodTerms(NamedTuple):
    """The two terms of BKE (13), each a scalar."""

    gaussian: jax.Array
    volume: jax.Array


class _Shape(NamedTuple):
    """What R and mu_hat are differentiated in beside the points."""

    kernel: Kernel
    measure: Measure


class _Options(NamedTuple):
    """What is fixed at compilation."""

    low_rank: bool  # whether R may be replaced by a factor where that is exact
    sampling: str | None = None  # "full" or "diagonal": C/n besides noise_variance I


def dense_terms(
    points: jax.Array | PaddedRows,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    *,
    low_rank: bool,
) -> LogLikelihoodTerms:
    """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i) for (n, D) ``points``.

    ``low_rank``: whether a factor of R may replace it where that is exact to 1e-11.

    Rows that are no data have no covariance but the noise, and no value. So all there is to them
    is a normal density at zero each, which is taken out again. They have no derivative in the
    points, and no sampling covariance.
    """
    rows = as_padded(points)
    sampling = None
    noise_variance = check_noise(noise_variance)
    if isinstance(noise_variance, SamplingNoise):
        sampling = "full" if noise_variance.full else "diagonal"
        noise_variance = noise_variance.nugget
    options = _Options(low_rank, sampling)
    dtype = rows.points.dtype
    noise_variance = jnp.asarray(noise_variance, dtype)
    shape = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), _Shape(kernel, as_measure(measure)))
    terms: LogLikelihoodTerms = _terms(rows, shape, noise_variance, options)
    more = len(rows) - rows.number
    nothing = 0.5 * more * (jnp.log(noise_variance) + math.log(2.0 * math.pi))
    return terms._replace(gaussian=terms.gaussian + nothing)


def _smoothed(shape: _Shape, dimension: int) -> Covariance:
    return shape.kernel.smoothed(shape.measure, dimension)


def _covariance(rows: PaddedRows, shape: _Shape, options: _Options) -> jax.Array:
    """R, and C/n if asked for: the covariance of mu_hat but for what is on the diagonal."""
    points = rows.points
    R = rows.of_pairs(_smoothed(shape, points.shape[1]).matrix(points, points))
    if options.sampling is None:
        return R
    return R + sampling_covariance(points, shape.kernel, options.sampling == "full")


def _pushforward(rows: PaddedRows, kernel: Kernel) -> tuple[jax.Array, jax.Array]:
    """mu_hat and log gamma at every point, (n,) each."""
    found = map_rows(lambda x: pushforward(x, rows, kernel)[:2], rows.points, len(rows))
    return cast(tuple[jax.Array, jax.Array], jax.tree.map(rows.of_data, found))


def _with_low_rank(
    rows: PaddedRows,
    shape: _Shape,
    noise_variance: jax.Array,
    options: _Options,
    low_rank: Callable[[PivotedCholesky], T],
    dense: Callable[[jax.Array], T],
) -> T:
    """``low_rank`` of a factor of R where there is a good one, else ``dense`` of R itself."""

    def from_matrix() -> T:
        return dense(_covariance(rows, shape, options))

    small = len(rows) < gaussian_term.SMALLEST_LOW_RANK_SIZE
    if small or not options.low_rank or options.sampling is not None:
        return from_matrix()
    smoothed = _smoothed(shape, rows.points.shape[1])
    factor, accepted = gaussian_term.low_rank_factor(rows, smoothed, noise_variance)
    return cast(T, jax.lax.cond(accepted, lambda: low_rank(factor), from_matrix))


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _terms(
    rows: PaddedRows, shape: _Shape, noise_variance: jax.Array, options: _Options
) -> LogLikelihoodTerms:
    embedding, log_volume = _pushforward(rows, shape.kernel)
    value = _with_low_rank(
        rows,
        shape,
        noise_variance,
        options,
        lambda factor: gaussian_term.low_rank(embedding, factor, noise_variance)[0].value,
        lambda R: gaussian_term.dense(embedding, R, noise_variance).value,
    )
    return LogLikelihoodTerms(value, jnp.sum(log_volume))


@partial(_terms.defjvp, symbolic_zeros=True)
def _terms_jvp(
    options: _Options, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    rows, shape, noise_variance = primals
    rows_dot, shape_dot, noise_dot = jax.tree.map(zero_or_array, tangents)
    terms, slopes, noise_slope = _terms_and_slopes(rows, shape, noise_variance, options)
    direction = ravel_pytree(shape_dot)[0]
    gaussian = slopes.gaussian @ direction + noise_slope * noise_dot
    volume = slopes.volume @ direction
    if not isinstance(tangents[0].points, SymbolicZero):
        in_points = _along_points(rows, rows_dot.points, shape, noise_variance, options)
        gaussian, volume = gaussian + in_points.gaussian, volume + in_points.volume
    return terms, LogLikelihoodTerms(gaussian, volume)


def zero_or_array(tangent: Any) -> jax.Array:
    """A tangent, written out where it is zero symbolically."""
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros(tangent.shape, tangent.dtype)
    return cast(jax.Array, tangent)


def _terms_and_slopes(
    rows: PaddedRows, shape: _Shape, noise_variance: jax.Array, options: _Options
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms, jax.Array]:
    """Both terms, their slopes (p,) in the p entries of ``shape``, and the slope in sigma^2."""
    points = rows.points
    n, dimension = points.shape
    indices = jnp.arange(n)
    theta, unravel = ravel_pytree(shape)

    def pushforward_row(theta: jax.Array, i: jax.Array) -> jax.Array:
        return jnp.stack(pushforward(points[i], rows, unravel(theta).kernel)[:2])

    def smoothed_slopes(i: jax.Array, sensitivity: jax.Array) -> jax.Array:
        """Slopes (p,) of row i of R summed against its ``sensitivity`` (n,)."""

        def contracted(theta: jax.Array) -> jax.Array:
            covariance = _smoothed(unravel(theta), dimension)
            return covariance.matrix(points[i][None], points) @ sensitivity

        return value_and_jacobian(contracted, theta)[1][0]

    def gram_slopes(i: jax.Array, sensitivity: jax.Array) -> jax.Array:
        """Likewise for row i of the Gram matrix."""

        def contracted(theta: jax.Array) -> jax.Array:
            return unravel(theta).kernel.matrix(points[i][None], points) @ sensitivity

        return value_and_jacobian(contracted, theta)[1][0]

    found, row_slopes = map_rows(
        lambda i: value_and_jacobian(lambda theta: pushforward_row(theta, i), theta), indices, n
    )
    embedding, log_volume = rows.of_data(found.T)
    embedding_slopes, volume_slopes = rows.of_data(jnp.moveaxis(row_slopes, 0, -1))

    def low_rank(factor: PivotedCholesky) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        term, V = gaussian_term.low_rank(embedding, factor, noise_variance)
        W = interpolation(factor)
        SW = gaussian_term.low_rank_sensitivity(term.weights, V, noise_variance, W)
        pivots = factor.pivots
        # R = W' R[pivots] to the tolerance, so dR = W' dR[pivots] + its transpose - W' dR[pivots,
        # pivots] W: the slopes need as many rows of dR as R has rank.
        coefficients = (2.0 * SW).at[:, pivots].add(-SW @ W.T)
        slopes = jax.vmap(smoothed_slopes)(pivots, coefficients)
        inverse_trace = (n - jnp.sum(V**2)) / noise_variance
        return term, jnp.sum(slopes, axis=0), 0.5 * (term.weights @ term.weights - inverse_trace)

    def dense(R: jax.Array) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        term, sensitivity = gaussian_term.dense_with_sensitivity(embedding, R, noise_variance)
        noise_slope, sensitivity = jnp.trace(sensitivity), rows.of_pairs(sensitivity)
        slopes = map_rows(lambda i: smoothed_slopes(i, sensitivity[i]), indices, n)
        if options.sampling is not None:
            centred = centred_gram(points, shape.kernel)
            of_gram = gram_sensitivity(centred, sensitivity, options.sampling == "full")
            slopes = slopes + map_rows(lambda i: gram_slopes(i, of_gram[i]), indices, n)
        return term, jnp.sum(slopes, axis=0), noise_slope

    (value, weights), slopes, noise_slope = _with_low_rank(
        rows, shape, noise_variance, options, low_rank, dense
    )
    return (
        LogLikelihoodTerms(value, jnp.sum(log_volume)),
        LogLikelihoodTerms(slopes - embedding_slopes @ weights, jnp.sum(volume_slopes, axis=1)),
        noise_slope,
    )


def _along_points(
    rows: PaddedRows,
    points_dot: jax.Array,
    shape: _Shape,
    noise_variance: jax.Array,
    options: _Options,
) -> LogLikelihoodTerms:
    """Derivative of both terms along a change of the data; always by the dense route."""
    if rows.count is not None:
        raise NotImplementedError("padded rows have no derivative in the data")
    points = rows.points
    (embedding, _), (embedding_dot, log_volume_dot) = jax.jvp(
        lambda points: _pushforward(PaddedRows(points), shape.kernel), (points,), (points_dot,)
    )
    R, R_dot = jax.jvp(
        lambda points: _covariance(PaddedRows(points), shape, options), (points,), (points_dot,)
    )
    term, sensitivity = gaussian_term.dense_with_sensitivity(embedding, R, noise_variance)
    gaussian = jnp.vdot(sensitivity, R_dot) - term.weights @ embedding_dot
    return LogLikelihoodTerms(gaussian, jnp.sum(log_volume_dot))
