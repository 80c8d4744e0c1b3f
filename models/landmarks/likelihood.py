"""The log pseudo-likelihood of the landmark model, from sums over observations.

    phi(x_i) | mu ~ N(mu, tau^2 I),  mu ~ N(0, R_zz),

at m landmarks z, so that the n m numbers phi(x_i) have covariance 1 1' (x) R_zz + tau^2 I. Their
density needs one m x m factorisation, and the volume factor of x -> phi(x) makes it one of the
data.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve

from ..likelihood.view import LogLikelihoodTerms, Parameters
from ..linalg.jacobian import value_and_jacobian
from .features import feature_map, log_volume_at
from .sums import LandmarkSums, over_parts, summed
from .view import LandmarkView


def landmark_gaussian(sums: LandmarkSums, R: jax.Array, noise_variance: jax.Array) -> jax.Array:
    """Log N( [phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R + noise_variance I ), a scalar.

    NaN where the noise is lost to rounding beside n R.
    """
    n, m = sums.n, len(R)
    nR = n * R
    cholesky = jnp.linalg.cholesky(nR + noise_variance * jnp.eye(m))
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    value = -0.5 * (
        sums.spread / noise_variance
        + n * sums.mean @ cho_solve((cholesky, True), sums.mean)
        + log_determinant
        + (n - 1.0) * m * jnp.log(noise_variance)
        + n * m * math.log(2.0 * math.pi)
    )
    seen = jnp.max(jnp.diagonal(nR)) * m * jnp.finfo(R.dtype).eps < noise_variance
    return jnp.where(seen, value, jnp.nan)


def _gaussian(sums: LandmarkSums, landmarks: jax.Array, parameters: Parameters) -> jax.Array:
    R = parameters.smoothed(landmarks.shape[1]).matrix(landmarks, landmarks)
    return landmark_gaussian(sums, R, parameters.noise_variance)


def terms(view: LandmarkView, parameters: Parameters) -> LogLikelihoodTerms:
    """The Gaussian term and sum_i log gamma(x_i)."""
    sums = summed(view, parameters.kernel)
    return LogLikelihoodTerms(_gaussian(sums, view.landmarks, parameters), sums.log_volume)


def terms_and_slopes(
    view: LandmarkView, parameters: Parameters
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """Both terms and their slopes (p,): the sums first, then every row against what they are worth.

    No row's slopes are kept, as backward through the sums would, and there is one pass for any
    number of parameters.
    """
    sums = summed(view, parameters.kernel, volume=False)
    value, (of_sums, direct) = jax.value_and_grad(_gaussian, argnums=(0, 2))(
        sums, view.landmarks, parameters
    )
    theta, unravel = ravel_pytree(parameters.kernel)

    def add(given: Any, total: Any, rows: jax.Array, known: jax.Array) -> Any:
        theta, landmarks, mean, of_mean, of_scatter = given
        # Moving the mean does not change the scatter.
        apart = feature_map(rows, landmarks, unravel(theta)) - mean
        worth = (of_mean + 2.0 * of_scatter * apart) * known[:, None]

        def contracted(theta: jax.Array) -> jax.Array:
            phi = feature_map(rows, landmarks, unravel(theta))
            log_gamma = log_volume_at(rows, landmarks, unravel(theta))
            volume = jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))
            return jnp.stack([jnp.vdot(worth, phi), volume])

        return jax.tree.map(jnp.add, total, value_and_jacobian(contracted, theta))

    given = theta, view.landmarks, sums.mean, of_sums.mean / sums.n, of_sums.scatter
    start = jnp.zeros(2), jnp.zeros((2, theta.size))
    of_parts = over_parts(add, given, start, view)
    (_, volume), slopes = jax.tree.map(lambda each: jnp.sum(each, axis=0), of_parts)
    of_direct = ravel_pytree(direct)[0]  # parameters begin with the kernel
    more = len(of_direct) - theta.size
    of_gaussian, of_volume = jnp.pad(slopes, ((0, 0), (0, more)))
    return LogLikelihoodTerms(value, volume), LogLikelihoodTerms(of_gaussian + of_direct, of_volume)
