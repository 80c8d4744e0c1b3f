"""The log pseudo-likelihood of the landmark model, from sums over observations.

    phi(x_i) | mu ~ N(mu, tau^2 I),  mu ~ N(0, R_zz),

at m landmarks z, so that the n m numbers phi(x_i) have covariance 1 1' (x) R_zz + tau^2 I. Their
density needs one m x m factorisation, and the volume factor of x -> phi(x) makes it one of the
data.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike

from ..arrays.jacobian import value_and_jacobian
from ..arrays.precision import concrete, double_precision
from ..kernels.base import Kernel, as_points, check_positive
from ..likelihood.dense import LogLikelihoodTerms, zero_or_array
from ..measures.measure import Measure, as_measure, fixed_measure
from .features import feature_map, log_volume_at
from .sums import LandmarkSums, over_parts, summed
from .view import LandmarkView, landmark_view


class _Shape(NamedTuple):
    """What is differentiated in."""

    kernel: Kernel
    noise_variance: jax.Array
    measure: Measure


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


@double_precision
def landmark_log_likelihood(
    X: ArrayLike,
    landmarks: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Any,
    measure: Measure | str = "unit",
) -> jax.Array:
    """Log pseudo-likelihood of the data seen through m landmarks: the cost is linear in n.

    ``log N([phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R_zz + tau^2 I) + sum_i log gamma(x_i)`` with
    ``phi(x) = [k(x, z_1), .., k(x, z_m)]`` and ``gamma(x) = det[sum_l grad k(x, z_l) grad
    k(x, z_l)']^(1/2)``, the marginal pseudo-likelihood of the slides on Bayesian learning of kernel
    embeddings (Flaxman, Sejdinovic, Cunningham and Filippi, 2016). Rows are gone through a block
    at a time, so memory does not grow with n.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,), m at least D and better many more; off the data, where
            the gradient of k is zero, see :func:`~bke.models.choose_landmarks`. Fixed: there is no
            derivative in them, nor in ``X``.
        kernel: a kernel; its parameters may be traced (jit, grad, vmap).
        noise_variance: tau^2, of one phi(x_i), not of their mean. A positive number that is fixed
            or bounded below: with m > D the value grows without bound as the lengthscale l goes to
            infinity and tau like l^-2 to zero, for phi then fills D of its m dimensions only. A
            small one prefers lengthscales beyond the data, where every k(x, z) is one.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Returns:
        A scalar; ``-inf`` where a gamma(x_i) is exactly zero.

    Raises:
        ValueError: for an argument that makes no sense, naming it; a landmark that is a row of X.
        ArithmeticError: where the noise is lost to rounding beside n R; inside a transformation
            the value is NaN there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    measure = fixed_measure(measure)
    check_positive(noise_variance, "noise_variance")
    view = landmark_view(as_points(X), as_points(landmarks, "landmarks"))
    kernel.smoothed(measure, view.landmarks.shape[1])  # refuses what compiled code could not name
    value = _compiled(view, _Shape(kernel, noise_variance, measure))
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            "n R + noise_variance I is not positive definite in double precision: noise_variance "
            "is too small beside the diagonal of n R"
        )
    return value


def landmark_terms(
    view: LandmarkView, kernel: Kernel, noise_variance: Any, measure: Measure | str
) -> LogLikelihoodTerms:
    """The Gaussian term and sum_i log gamma(x_i)."""
    shape = _Shape(kernel, noise_variance, as_measure(measure))
    shape = jax.tree.map(lambda leaf: jnp.asarray(leaf, view.landmarks.dtype), shape)
    return _terms(view, shape)


@jax.jit
def _compiled(view: LandmarkView, shape: _Shape) -> jax.Array:
    terms = landmark_terms(view, *shape)
    return terms.gaussian + terms.volume


def _gaussian(sums: LandmarkSums, landmarks: jax.Array, shape: _Shape) -> jax.Array:
    R = shape.kernel.smoothed(shape.measure, landmarks.shape[1]).matrix(landmarks, landmarks)
    return landmark_gaussian(sums, R, shape.noise_variance)


@jax.custom_jvp
def _terms(view: LandmarkView, shape: _Shape) -> LogLikelihoodTerms:
    sums = summed(view, shape.kernel)
    return LogLikelihoodTerms(_gaussian(sums, view.landmarks, shape), sums.log_volume)


@partial(_terms.defjvp, symbolic_zeros=True)
def _terms_jvp(
    primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """The sums first, then the slopes of every row against what the sums are worth.

    No row's slopes are kept, as backward through the sums would, and there is one pass for any
    number of parameters.
    """
    view, shape = primals
    of_data = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    if not all(isinstance(dot, SymbolicZero) for dot in of_data):
        raise NotImplementedError("the landmark model has no derivative in the data or landmarks")
    sums = summed(view, shape.kernel, volume=False)
    value, (of_sums, of_shape) = jax.value_and_grad(_gaussian, argnums=(0, 2))(
        sums, view.landmarks, shape
    )
    theta, unravel = ravel_pytree(shape.kernel)

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
    dots = jax.tree.map(zero_or_array, tangents[1])
    of_kernel = slopes @ ravel_pytree(dots.kernel)[0]
    direct = ravel_pytree(of_shape)[0] @ ravel_pytree(dots)[0]
    along = LogLikelihoodTerms(of_kernel[0] + direct, of_kernel[1])
    return LogLikelihoodTerms(value, volume), along
