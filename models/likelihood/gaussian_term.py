"""The Gaussian term log N(mu_hat; 0, R + sigma^2 I) of BKE (13): value and sensitivities.

With ``a = (R + sigma^2 I)^-1 mu_hat``,

    d log N = 1/2 a' dR a - 1/2 tr((R + sigma^2 I)^-1 dR) - a' dmu_hat,

so one inverse serves every hyperparameter (BKE A.5). Reverse mode through a Cholesky factor would
cost ten times the value. Where R has a low numerical rank, a pivoted Cholesky factor and the
Woodbury identity replace the n x n factorisation; where it has not, the dense route is taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from ..kernels.base import Covariance
from ..linalg.pivoted_cholesky import PivotedCholesky, pivoted_cholesky
from ..linalg.rows import PaddedRows
from ..linalg.symmetric import SymmetricBlocks, invert_blocks

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


def dense(embedding: jax.Array, R: jax.Array, noise_variance: jax.Array) -> GaussianTerm:
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


def low_rank(
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
