"""The Gaussian term log N(mu_hat; 0, R + sigma^2 I) of BKE (13): value and sensitivities.

With ``a = (R + sigma^2 I)^-1 mu_hat``,

    d log N = 1/2 a' dR a - 1/2 tr((R + sigma^2 I)^-1 dR) - a' dmu_hat,

so one inverse serves every hyperparameter (BKE A.5). Reverse mode through a Cholesky factor would
cost ten times the value. Where R has a low numerical rank, a pivoted Cholesky factor and the
Woodbury identity replace the n x n factorisation; where it has not, the dense route is taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular

from ..kernels.base import Covariance, Kernel
from ..linalg.pivoted_cholesky import PivotedCholesky, interpolation, pivoted_cholesky
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import (
    BLOCK_ENTRIES,
    PaddedRows,
    as_padded,
    contiguous_columns,
    map_rows,
    reduce_blocks,
)
from ..linalg.symmetric import SymmetricBlocks, invert_blocks
from ..linalg.transforms import value_and_jacobian
from ..measures import Measure
from .base import LikelihoodSolver, LogLikelihoodTerms, Parameters, closed_form
from .jacobian import pushforward
from .noise import (
    Noise,
    SamplingNoise,
    centred_gram,
    check_noise,
    gram_sensitivity,
    sampling_covariance,
    variance_of,
)

#: Trace of the part of R that the low-rank route may drop, over sigma^2. The log-determinant is
#: then right to this number, absolutely.
RELATIVE_TRACE_TOLERANCE = 1e-11
MAX_RANK = 128
#: Below this size the dense factorisation is as fast.
SMALLEST_LOW_RANK_SIZE = 256


class GaussianTerm(NamedTuple):
    """log N and what its derivatives need."""

    value: jax.Array  # ()
    weights: jax.Array  # (n,), a = (R + sigma^2 I)^-1 mu_hat = -d log N / d mu_hat


def low_rank_factor(
    rows: PaddedRows, smoothed: Covariance, noise_variance: jax.Array
) -> tuple[PivotedCholesky, jax.Array]:
    """Pivoted Cholesky factor of R at the points, and whether it reaches the tolerance."""
    n, points = len(rows), rows.points
    tolerance = max(RELATIVE_TRACE_TOLERANCE, 1e-14 * n) * noise_variance
    diagonal = rows.mask(smoothed.diagonal(points))
    factorisation = pivoted_cholesky(
        lambda i: rows.mask(smoothed.matrix(points[i][None], points)[0]),
        diagonal,
        MAX_RANK,
        tolerance,
    )
    # Below the resolution the remainder is rounding error, and its trace says nothing.
    accepted = (factorisation.remainder <= tolerance) & (tolerance >= _resolution(diagonal))
    return factorisation, accepted


def _resolution(diagonal: jax.Array) -> jax.Array:
    """What a trace or an eigenvalue of R can be told from in double precision."""
    return len(diagonal) * jnp.finfo(diagonal.dtype).eps * jnp.max(diagonal)


def _visible(value: jax.Array, diagonal: jax.Array, noise_variance: jax.Array) -> jax.Array:
    """NaN where sigma^2 is lost to rounding beside R: no number would mean anything."""
    return jnp.where(_resolution(diagonal) < noise_variance, value, jnp.nan)


def _term(embedding: jax.Array, weights: jax.Array, log_determinant: jax.Array) -> GaussianTerm:
    n = embedding.shape[0]
    value = -0.5 * (embedding @ weights + log_determinant + n * math.log(2.0 * math.pi))
    return GaussianTerm(value, weights)


def dense_term(embedding: jax.Array, R: jax.Array, noise_variance: jax.Array) -> GaussianTerm:
    """The term from the Cholesky factor of the (n, n) matrix R + sigma^2 I."""
    covariance = R + noise_variance * jnp.eye(R.shape[0], dtype=R.dtype)
    cholesky = jnp.linalg.cholesky(covariance)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    log_determinant = _visible(log_determinant, jnp.diagonal(R), noise_variance)
    return _term(embedding, cho_solve((cholesky, True), embedding), log_determinant)


def dense_with_inverse(
    embedding: jax.Array, R: SymmetricBlocks, noise_variance: jax.Array
) -> tuple[GaussianTerm, SymmetricBlocks]:
    """The term and (R + sigma^2 I)^-1, (n, n), by halves as R is."""
    covariance = R.add_to_diagonal(noise_variance)
    inverse, log_determinant = invert_blocks(covariance)
    weights = inverse.matvec(embedding)
    # One step of refinement: the explicit inverse loses digits that the value needs.
    weights = weights + inverse.matvec(embedding - covariance.matvec(weights))
    # Of R itself nothing is read again, so that it need not be kept beside the covariance.
    diagonal = covariance.diagonal() - noise_variance
    log_determinant = _visible(log_determinant, diagonal, noise_variance)
    return _term(embedding, weights, log_determinant), inverse


def dense_sensitivity(inverse: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """A block of d log N / dR = (a a' - (R + sigma^2 I)^-1) / 2, shape (k, l).

    Args:
        inverse: the block of the inverse, (k, l).
        rows: a of the rows, (k,).
        columns: a of the columns, (l,).
    """
    return 0.5 * (jnp.outer(rows, columns) - inverse)


def low_rank_term(
    embedding: jax.Array, factorisation: PivotedCholesky, noise_variance: jax.Array
) -> tuple[GaussianTerm, jax.Array]:
    """The term and V, shape (max_rank, n), with (R + s I)^-1 = (I - V'V) / s (Woodbury)."""
    factor = factorisation.factor
    max_rank, n = factor.shape
    core = noise_variance * jnp.eye(max_rank, dtype=factor.dtype) + factor @ factor.T
    cholesky = jnp.linalg.cholesky(core)
    V = solve_triangular(cholesky, factor, lower=True)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    log_determinant = log_determinant + (n - max_rank) * jnp.log(noise_variance)
    return _term(embedding, (embedding - (V @ embedding) @ V) / noise_variance, log_determinant), V


def low_rank_sensitivity(
    weights: jax.Array, V: jax.Array, noise_variance: jax.Array, W: jax.Array
) -> jax.Array:
    """S W', shape (max_rank, n), for the sensitivity S = (a a' - (I - V'V) / s) / 2 to R.

    With R = W' R[pivots] the slope <S, dR> needs only the pivots' rows of dR.
    """
    return 0.5 * (jnp.outer(W @ weights, weights) - (W - (W @ V.T) @ V) / noise_variance)


class RowGradients(NamedTuple):
    """mu_hat and log gamma at every row, (n,) each, with their slopes (p, n)."""

    embedding: jax.Array
    log_jacobian: jax.Array
    embedding_gradients: jax.Array
    jacobian_gradients: jax.Array


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

    def pushforward(self) -> RowGradients:
        """mu_hat and log gamma at every row, with their slopes."""

        def of_row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
            def both(theta: jax.Array) -> jax.Array:
                point = self._points(i[None])[0]
                return jnp.stack(pushforward(point, self.rows, self.at(theta).kernel)[:2])

            return value_and_jacobian(both, self.theta)

        rows = self.rows
        found, slopes = map_rows(of_row, jnp.arange(len(rows)), len(rows))
        embedding, log_jacobian = rows.mask(found.T)
        embedding_gradients, jacobian_gradients = rows.mask(jnp.moveaxis(slopes, 0, -1))
        return RowGradients(embedding, log_jacobian, embedding_gradients, jacobian_gradients)

    def by_factor(
        self, embedding: jax.Array, factor: PivotedCholesky
    ) -> tuple[GaussianTerm, jax.Array, jax.Array]:
        """The Gaussian term from a factor of R, its slopes (p,) but for mu_hat's, and in sigma^2.

        R = W' R[pivots] to the tolerance, so dR = W' dR[pivots] + its transpose - W' dR[pivots,
        pivots] W: the slopes need as many rows of dR as R has rank.
        """
        noise_variance = variance_of(self.noise)
        term, V = low_rank_term(embedding, factor, noise_variance)
        W = interpolation(factor)
        SW = low_rank_sensitivity(term.weights, V, noise_variance, W)
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
        term, inverse = dense_with_inverse(embedding, R, variance_of(noise))
        in_noise = 0.5 * (term.weights @ term.weights - jnp.sum(inverse.diagonal()))
        slopes = sum(
            (self._of_block(*entry, term.weights) for entry in inverse.blocks()),
            start=jnp.zeros_like(self.theta),
        )
        if isinstance(noise, SamplingNoise):
            weights, whole = term.weights, inverse.matrix()
            sensitivity = dense_sensitivity(whole, weights, weights)
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
            sensitivity = dense_sensitivity(block, weights[k], weights[j])
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


T = TypeVar("T")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DenseSolver(LikelihoodSolver):
    """Rows for the matrices. Those that are no data have no covariance but the noise, and no value.

    Args:
        rows: the data, padded or not.
        low_rank: whether a factor of R may replace it where that is exact to 1e-11.
    """

    rows: PaddedRows
    low_rank: bool = dataclasses.field(default=True, metadata={"static": True})

    description = "the dense route"

    @property
    def entries(self) -> int:
        """All n^2 of the Gram matrix."""
        return len(self.rows) ** 2

    @property
    def matrix_size(self) -> int:
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
        embedding, log_jacobian = _pushforward(self.rows, parameters.kernel)
        variance = variance_of(parameters.noise_variance)
        value = self._with_low_rank(
            parameters,
            lambda factor: low_rank_term(embedding, factor, variance)[0].value,
            lambda: dense_term(embedding, _covariance(self.rows, parameters), variance).value,
        )
        return LogLikelihoodTerms(value, jnp.sum(log_jacobian))

    def value_and_grad(
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
            LogLikelihoodTerms(value, jnp.sum(found.log_jacobian)),
            LogLikelihoodTerms(
                whole(of_R - found.embedding_gradients @ weights, in_noise),
                whole(jnp.sum(found.jacobian_gradients, axis=1), jnp.zeros_like(in_noise)),
            ),
        )

    def data_jvp(self, change: DenseSolver, parameters: Parameters) -> LogLikelihoodTerms:
        """Derivative of both terms along a change of the data; always by the dense route."""
        if self.rows.count is not None:
            raise NotImplementedError("padded rows have no derivative in the data")
        moved = (self.rows.points,), (change.rows.points,)
        (embedding, _), (embedding_dot, log_jacobian_dot) = jax.jvp(
            lambda points: _pushforward(PaddedRows(points), parameters.kernel), *moved
        )
        R, R_dot = jax.jvp(lambda points: _covariance(PaddedRows(points), parameters), *moved)
        variance = variance_of(parameters.noise_variance)
        term, inverse = dense_with_inverse(embedding, SymmetricBlocks.from_matrix(R), variance)
        weights = term.weights
        sensitivity = dense_sensitivity(inverse.matrix(), weights, weights)
        gaussian = jnp.vdot(sensitivity, R_dot) - weights @ embedding_dot
        return LogLikelihoodTerms(gaussian, jnp.sum(log_jacobian_dot))

    def _with_low_rank(
        self,
        parameters: Parameters,
        low_rank: Callable[[PivotedCholesky], T],
        dense: Callable[[], T],
    ) -> T:
        """``low_rank`` of a factor of R where there is a good one, else ``dense``."""
        rows, noise = self.rows, parameters.noise_variance
        small = len(rows) < SMALLEST_LOW_RANK_SIZE
        if small or not self.low_rank or isinstance(noise, SamplingNoise):
            return dense()
        smoothed = parameters.smoothed(rows.points.shape[1])
        factor, accepted = low_rank_factor(rows, smoothed, noise)
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
    view = DenseSolver(as_padded(points), low_rank)
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
