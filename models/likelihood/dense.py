"""BKE (13) and its gradient by dense matrices, or by a factor where R has a low rank.

With ``a = (R + sigma^2 I)^-1 mu_hat``,

    d log N = 1/2 a' dR a - 1/2 tr((R + sigma^2 I)^-1 dR) - a' dmu_hat,

so one inverse serves every hyperparameter (BKE A.5); reverse mode through a Cholesky factor would
cost ten times the value. One pass over the rows of the Gram matrix gives mu_hat, log gamma and
their gradients; a second one contracts the derivative of R with that of log N in R, so that no
n x n matrix of derivatives is formed. Where R has a low numerical rank, a pivoted Cholesky factor
and the Woodbury identity replace the factorization, and no n x n matrix is formed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular

from ..kernels.base import Covariance, Kernel
from ..linalg.derivatives import value_and_jacobian
from ..linalg.pivoted_cholesky import PivotedCholesky, interpolation, pivoted_cholesky
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import (
    BLOCK_ENTRIES,
    PaddedRows,
    as_padded,
    contiguous_columns,
    dense_size,
    map_rows,
    padded,
    reduce_blocks,
)
from ..linalg.symmetric import SymmetricBlocks, invert_blocks
from ..measures import Measure
from .base import Likelihood, LikelihoodSolver, LogLikelihoodTerms, Parameters, closed_form
from .jacobian import embedding_gradients, embedding_values
from .noise import (
    Noise,
    SamplingNoise,
    centered_gram,
    check_noise,
    diagonal_variance,
    gram_sensitivity,
    sampling_covariance,
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DenseSolver(LikelihoodSolver):
    """Rows for the n x n matrices. Padding has no covariance but the noise, and value zero.

    Args:
        rows: the data, padded or not.
        low_rank: whether a factor of R may replace it where that is exact to 1e-11.
    """

    rows: PaddedRows
    low_rank: bool = dataclasses.field(default=True, metadata={"static": True})

    min_low_rank_size: ClassVar[int] = 256
    """Number of rows below which the dense factorization is as fast as the low-rank factor."""

    description = "the dense method"

    @property
    def entries(self) -> int:
        """Number of entries of the Gram matrix."""
        return len(self.rows) ** 2

    @property
    def sequential(self) -> bool:
        """True for matrices from :attr:`min_low_rank_size` on."""
        return len(self.rows) >= self.min_low_rank_size

    @property
    def matrix_size(self) -> int:
        """Number of rows that are data."""
        return int(self.rows.number)

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Compute log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i).

        Each padding row adds a normal density at zero, which is subtracted again. Padded rows have
        no derivative in the points, and no sampling covariance.
        """
        parameters = Parameters.of(kernel, noise_variance, measure)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        variance = diagonal_variance(parameters.noise_variance)
        padding = 0.5 * (len(self.rows) - self.rows.number)
        padding = padding * (jnp.log(variance) + math.log(2.0 * math.pi))
        return terms._replace(gaussian=terms.gaussian + padding)

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Compute both terms as if every row was data."""
        values = embedding_values(self.rows.points, self.rows, parameters.kernel)
        embedding, log_jacobian = jax.tree.map(self.rows.mask, values)
        variance = diagonal_variance(parameters.noise_variance)
        gaussian = self._with_low_rank(
            parameters,
            lambda factor: low_rank_term(embedding, factor, variance)[0],
            lambda: dense_term(embedding, _covariance(self.rows, parameters).matrix(), variance)[0],
        )
        return LogLikelihoodTerms(gaussian, jnp.sum(log_jacobian))

    def value_and_grad(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Compute both terms and their gradients (p,) in the p numbers of ``parameters``."""
        kernel, gradient = parameters.kernel, _Gradient(self.rows, parameters)
        values, gradients = embedding_gradients(self.rows, jnp.arange(len(self.rows)), kernel)
        embedding, log_jacobian = self.rows.mask(values)
        in_embedding, in_jacobian = self.rows.mask(jnp.moveaxis(gradients, 0, -1))
        gaussian, weights, in_covariance, in_noise = self._with_low_rank(
            parameters,
            lambda factor: gradient.low_rank(embedding, factor),
            lambda: gradient.dense(embedding, _covariance(self.rows, parameters)),
        )
        # The noise is between the p numbers of the kernel and those of the measure.
        p = len(in_embedding)
        in_gaussian = in_covariance.at[:p].add(-in_embedding @ weights)
        return LogLikelihoodTerms(gaussian, jnp.sum(log_jacobian)), LogLikelihoodTerms(
            jnp.insert(in_gaussian, p, in_noise),
            jnp.pad(jnp.sum(in_jacobian, axis=1), (0, len(in_gaussian) + 1 - p)),
        )

    def data_jvp(self, change: DenseSolver, parameters: Parameters) -> LogLikelihoodTerms:
        """Compute the derivative of both terms along a change of the data, by dense matrices."""
        if self.rows.count is not None:
            raise NotImplementedError("padded rows have no derivative in the data")

        def at(points: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            rows = PaddedRows(points)
            embedding, log_jacobian = embedding_values(points, rows, parameters.kernel)
            return embedding, log_jacobian, _covariance(rows, parameters).matrix()

        (embedding, _, R), (embedding_dot, log_jacobian_dot, R_dot) = jax.jvp(
            at, (self.rows.points,), (change.rows.points,)
        )
        R, variance = SymmetricBlocks.from_matrix(R), diagonal_variance(parameters.noise_variance)
        _, weights, inverse = dense_with_inverse(embedding, R, variance)
        in_covariance = dense_sensitivity(inverse.matrix(), weights, weights)
        gaussian = jnp.vdot(in_covariance, R_dot) - weights @ embedding_dot
        return LogLikelihoodTerms(gaussian, jnp.sum(log_jacobian_dot))

    def _with_low_rank(
        self,
        parameters: Parameters,
        low_rank: Callable[[PivotedCholesky], Any],
        dense: Callable[[], Any],
    ) -> Any:
        """Evaluate ``low_rank`` at a factor of R if there is an accurate one, else ``dense``."""
        rows, noise = self.rows, parameters.noise_variance
        small = len(rows) < self.min_low_rank_size
        if small or not self.low_rank or isinstance(noise, SamplingNoise):
            return dense()
        smoothed = parameters.smoothed(rows.points.shape[1])
        factor, accepted = low_rank_factor(rows, smoothed, noise)
        return jax.lax.cond(accepted, lambda: low_rank(factor), dense)


@dataclasses.dataclass(frozen=True)
class Dense(Likelihood):
    """The n x n matrices."""

    name = "dense"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> DenseSolver:
        """Prepare (n, D) ``points``, padded where that saves compilations."""
        return dense_solver(points, noise_variance, low_rank=False)


def dense_solver(points: Any, noise_variance: Noise, *, low_rank: bool) -> DenseSolver:
    """Prepare (n, D) ``points``, padded unless they are traced or have a sampling covariance."""
    size = dense_size(len(points))
    traced = isinstance(points, jax.core.Tracer)
    sampling = isinstance(check_noise(noise_variance), SamplingNoise)
    if traced or sampling or size == len(points):
        return DenseSolver(PaddedRows(points), low_rank)
    return DenseSolver(jax.tree.map(jnp.asarray, padded(points, size)), low_rank)


def dense_terms(
    points: jax.Array | PaddedRows,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    *,
    low_rank: bool,
) -> LogLikelihoodTerms:
    """Compute log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i) for (n, D) ``points``."""
    solver = DenseSolver(as_padded(points), low_rank)
    return solver.likelihood_terms(kernel, noise_variance, measure)


def _covariance(rows: PaddedRows, parameters: Parameters) -> SymmetricBlocks:
    """Compute R, plus C/n under a sampling covariance, without the diagonal noise."""
    points, noise = contiguous_columns(rows.points), parameters.noise_variance
    smoothed = parameters.smoothed(len(points))

    def block(i: slice, j: slice) -> jax.Array:
        return rows.mask_block(smoothed.matrix(points[:, i].T, points[:, j].T), i, j)

    R = SymmetricBlocks.from_function(len(rows), block)
    if not isinstance(noise, SamplingNoise):
        return R
    sampling = sampling_covariance(points.T, parameters.kernel, noise.full)
    return SymmetricBlocks.from_matrix(R.matrix() + sampling)


class _Gradient:
    """Gradients of the dense value in the p numbers of kernel and measure, row by row."""

    def __init__(self, rows: PaddedRows, parameters: Parameters) -> None:
        self._count, self._columns = rows.count, contiguous_columns(rows.points)
        self._noise, self._kernel = parameters.noise_variance, parameters.kernel
        self._theta, self._unravel = ravel_pytree((parameters.kernel, parameters.measure))

    @property
    def _rows(self) -> PaddedRows:
        """The rows, read by loops from columns in memory order."""
        return PaddedRows(self._columns.T, self._count)

    def low_rank(self, embedding: jax.Array, factor: PivotedCholesky) -> tuple[jax.Array, ...]:
        """Compute the Gaussian term, a, and the gradients (p,) through R and () in sigma^2.

        R = W' R[pivots] to the tolerance, so dR = W' dR[pivots] + its transpose - W' dR[pivots,
        pivots] W: the gradient needs as many rows of dR as R has rank.
        """
        variance = diagonal_variance(self._noise)
        value, weights, V = low_rank_term(embedding, factor, variance)
        W = interpolation(factor)
        SW = low_rank_sensitivity(weights, V, variance, W)
        coefficients = (2.0 * SW).at[:, factor.pivots].add(-SW @ W.T)
        n = len(self._rows)
        gradients = jax.vmap(lambda i, row: self._contract(i[None], jnp.arange(n), row[None]))(
            factor.pivots, coefficients
        )
        in_noise = 0.5 * (weights @ weights - (n - jnp.sum(V**2)) / variance)
        return value, weights, jnp.sum(gradients, axis=0), in_noise

    def dense(self, embedding: jax.Array, R: SymmetricBlocks) -> tuple[jax.Array, ...]:
        """Compute the results of :meth:`low_rank` from R, plus C/n under a sampling covariance."""
        noise, rows = self._noise, self._rows
        value, weights, inverse = dense_with_inverse(embedding, R, diagonal_variance(noise))
        in_noise = 0.5 * (weights @ weights - jnp.sum(inverse.diagonal()))
        gradient = jnp.zeros_like(self._theta)
        for block in inverse.blocks():
            gradient = gradient + self._through_block(*block, weights)
        if isinstance(noise, SamplingNoise):
            in_covariance = rows.mask_matrix(dense_sensitivity(inverse.matrix(), weights, weights))
            centered = centered_gram(rows.points, self._kernel)
            in_gram = gram_sensitivity(centered, in_covariance, noise.full)
            indices = jnp.arange(len(rows))
            by_row = map_rows(
                lambda i: self._contract(i[None], indices, in_gram[i][None], smoothed=False),
                indices,
                len(rows),
            )
            gradient = gradient + jnp.sum(by_row, axis=0)
        return value, weights, gradient, in_noise

    def _through_block(
        self, rows: slice, columns: slice, inverse: jax.Array, copies: int, weights: jax.Array
    ) -> jax.Array:
        """Compute the gradient (p,) through a block of R and its mirror image."""
        indices = jnp.arange(len(self._rows))
        i, j = indices[rows], indices[columns]

        def add(
            total: jax.Array, block: jax.Array, block_rows: jax.Array, known: jax.Array
        ) -> jax.Array:
            k = i[block_rows]
            in_covariance = dense_sensitivity(block, weights[k], weights[j])
            # Weights of padding are zero, entries of the inverse are not.
            in_covariance = self._rows.mask_block(in_covariance, k, j)
            return total + self._contract(k, j, known[:, None] * in_covariance)

        max_rows = max(1, BLOCK_ENTRIES // len(j))
        return copies * reduce_blocks(add, jnp.zeros_like(self._theta), inverse, max_rows)

    def _contract(
        self, i: jax.Array, j: jax.Array, in_matrix: jax.Array, *, smoothed: bool = True
    ) -> jax.Array:
        """Compute the gradient (p,) through rows i, columns j of R or of the Gram matrix."""

        def contracted(theta: jax.Array) -> jax.Array:
            kernel, measure = self._unravel(theta)
            covariance = kernel.smoothed(measure, len(self._columns)) if smoothed else kernel
            matrix = covariance.matrix(self._points(i), self._points(j))
            # A product with ones: a sum of all entries is sequential on the CPU.
            return jnp.sum((matrix * in_matrix) @ jnp.ones(len(j), matrix.dtype))[None]

        return value_and_jacobian(contracted, self._theta)[1][0]

    def _points(self, i: jax.Array) -> jax.Array:
        """Return points (k, D) by their indices (k,)."""
        return self._columns.at[:, i].get(mode="promise_in_bounds").T


def low_rank_factor(
    rows: PaddedRows,
    smoothed: Covariance,
    noise_variance: jax.Array,
    relative_tolerance: float = 1e-11,
    max_rank: int = 128,
) -> tuple[PivotedCholesky, jax.Array]:
    """Compute a pivoted Cholesky factor of R, and whether it reaches the tolerance.

    Args:
        rows: the points.
        smoothed: the smoothed kernel r.
        noise_variance: sigma^2.
        relative_tolerance: largest trace of the remainder of R, over sigma^2; log |R + sigma^2 I|
            is then right to this number, absolutely.
        max_rank: largest rank of the factor (not tuned).
    """
    n, points = len(rows), rows.points
    tolerance = max(relative_tolerance, 1e-14 * n) * noise_variance
    diagonal = rows.mask(smoothed.diagonal(points))
    factor = pivoted_cholesky(
        lambda i: rows.mask(smoothed.matrix(points[i][None], points)[0]),
        diagonal,
        max_rank,
        tolerance,
    )
    # Below the resolution the remainder is rounding error, and its trace says nothing.
    return factor, (factor.remainder <= tolerance) & (tolerance >= resolution(diagonal))


def resolution(diagonal: jax.Array) -> jax.Array:
    """Return the rounding error of a trace or an eigenvalue of R, from its diagonal."""
    return len(diagonal) * jnp.finfo(diagonal.dtype).eps * jnp.max(diagonal)


def _log_normal(embedding: jax.Array, weights: jax.Array, log_determinant: jax.Array) -> jax.Array:
    n = len(embedding)
    return -0.5 * (embedding @ weights + log_determinant + n * math.log(2.0 * math.pi))


def dense_term(
    embedding: jax.Array, R: jax.Array, noise_variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Compute log N(mu_hat; 0, R + sigma^2 I) and a (n,), by the Cholesky factor of R + sigma^2 I.

    NaN where sigma^2 is lost to rounding next to R, here and in :func:`dense_with_inverse`.
    """
    cholesky = jnp.linalg.cholesky(R + noise_variance * jnp.eye(len(R), dtype=R.dtype))
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    resolved = resolution(jnp.diagonal(R)) < noise_variance
    weights = cho_solve((cholesky, True), embedding)
    return _log_normal(embedding, weights, jnp.where(resolved, log_determinant, jnp.nan)), weights


def dense_with_inverse(
    embedding: jax.Array, R: SymmetricBlocks, noise_variance: jax.Array
) -> tuple[jax.Array, jax.Array, SymmetricBlocks]:
    """Compute log N, a (n,), and (R + sigma^2 I)^-1 in blocks as R."""
    covariance = R.add_to_diagonal(noise_variance)
    inverse, log_determinant = invert_blocks(covariance)
    weights = inverse.matvec(embedding)
    # One step of refinement: the explicit inverse loses digits that the value needs.
    weights = weights + inverse.matvec(embedding - covariance.matvec(weights))
    # R is not read again, so that it need not be stored with the covariance.
    resolved = resolution(covariance.diagonal() - noise_variance) < noise_variance
    log_determinant = jnp.where(resolved, log_determinant, jnp.nan)
    return _log_normal(embedding, weights, log_determinant), weights, inverse


def dense_sensitivity(inverse: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Compute a block (k, l) of d log N / dR = (a a' - (R + sigma^2 I)^-1) / 2.

    Args:
        inverse: the block of the inverse, (k, l).
        rows: a of the rows, (k,).
        columns: a of the columns, (l,).
    """
    return 0.5 * (jnp.outer(rows, columns) - inverse)


def low_rank_term(
    embedding: jax.Array, factorization: PivotedCholesky, noise_variance: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute log N, a (n,), and V (max_rank, n) with (R + s I)^-1 = (I - V'V) / s (Woodbury)."""
    factor = factorization.factor
    max_rank, n = factor.shape
    core = noise_variance * jnp.eye(max_rank, dtype=factor.dtype) + factor @ factor.T
    cholesky = jnp.linalg.cholesky(core)
    V = solve_triangular(cholesky, factor, lower=True)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    log_determinant = log_determinant + (n - max_rank) * jnp.log(noise_variance)
    weights = (embedding - (V @ embedding) @ V) / noise_variance
    return _log_normal(embedding, weights, log_determinant), weights, V


def low_rank_sensitivity(
    weights: jax.Array, V: jax.Array, noise_variance: jax.Array, W: jax.Array
) -> jax.Array:
    """Compute S W' (max_rank, n) for the derivative S = (a a' - (I - V'V) / s) / 2 in R.

    With R = W' R[pivots] the derivative <S, dR> needs only the pivots' rows of dR.
    """
    return 0.5 * (jnp.outer(W @ weights, weights) - (W - (W @ V.T) @ V) / noise_variance)
