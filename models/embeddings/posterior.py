"""The mean embedding of a distribution: empirical, posterior and, for Gaussian mixtures, exact.

Posteriors are given the empirical embedding at all observations, or at landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points, as_samples, check_columns, column_names
from ..likelihood.landmark import LandmarkData, feature_sums, partition_rows
from ..likelihood.noise import SamplingNoise, sampling_covariance
from ..linalg.precision import check_positive, double_precision
from ..measures import Measure, fixed_measure
from .embedding import Embedding


class EmbeddingPosterior(NamedTuple):
    """The Gaussian posterior of an embedding at m points."""

    mean: jax.Array  # (m,)
    covariance: jax.Array  # (m, m)


@double_precision
def empirical_embedding(X: ArrayLike, kernel: Kernel, at: ArrayLike) -> jax.Array:
    """Compute mu_hat(t) = (1/n) sum_j k(x_j, t), BKE (2), (m,) for ``at`` (m, D) or (m,)."""
    points, at = as_samples(X, at, ("X", "at"))
    return jnp.mean(kernel.matrix(at, points), axis=1)


@double_precision
def embedding_posterior(
    X: ArrayLike,
    kernel: Kernel,
    at: ArrayLike,
    *,
    noise: Any = "clt",
    measure: Measure | str = "unit",
) -> EmbeddingPosterior:
    """Compute the posterior of the embedding mu at the points ``at``, BKE (7) and (8).

    ``N(R*' (R + N)^-1 mu_hat, R** - R*' (R + N)^-1 R*)`` with N the noise covariance of mu_hat.

    Args:
        X: data, shape (n, D) or (n,).
        kernel: the kernel; its parameters may be traced.
        at: points of evaluation, shape (m, D) or (m,), in the units of the data.
        noise: ``"clt"``, the full sampling covariance C/n (see
            :func:`~bke.models.likelihood.noise.sampling_covariance`) plus a nugget of 1e-8, with
            which bands have their nominal coverage; or a number, the sigma^2 of the paper.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Raises:
        ValueError: for an invalid argument.
        ArithmeticError: the noise is lost to rounding compared with R; inside a transformation
            the result is NaN instead.
    """
    measure = fixed_measure(measure)
    points, at = as_samples(X, at, ("X", "at"))
    check_columns(points, at, "at")
    prior = kernel.smoothed(measure, points.shape[1]).matrix
    covariance = noise_covariance(noise, len(points), lambda: sampling_covariance(points, kernel))
    mean = jnp.mean(kernel.matrix(points, points), axis=1)
    return condition(mean, covariance, prior, points, at)


def noise_covariance(noise: Any, size: int, sampling: Callable[[], jax.Array]) -> jax.Array:
    """Return the noise covariance of ``size`` values.

    Args:
        noise: ``"clt"`` for ``sampling()`` and a nugget, or a variance.
        size: number of values.
        sampling: computes their sampling covariance.
    """
    if not isinstance(noise, str):
        check_positive(noise, "noise")
        return noise * jnp.eye(size)
    if noise != "clt":
        raise ValueError(f"noise must be 'clt' or a number, got {noise!r}")
    return sampling() + SamplingNoise().nugget * jnp.eye(size)


def condition(
    values: jax.Array,
    noise: jax.Array,
    prior: Callable[[Any, Any], jax.Array],
    points: Any,
    at: Any,
) -> EmbeddingPosterior:
    """Condition a Gaussian process of mean zero at m points on noisy values at n.

    Args:
        values: (n,).
        noise: covariance of their noise, (n, n).
        prior: covariance of the process between two sets of points, a matrix.
        points: the n points of the values, an argument of ``prior``.
        at: the m points, an argument of ``prior``.

    Raises:
        ArithmeticError: the noise is lost to rounding; inside a transformation the result is NaN
            instead.
    """
    root = jnp.linalg.cholesky(prior(points, points) + noise)
    scaled = solve_triangular(root, prior(points, at), lower=True)
    mean = scaled.T @ solve_triangular(root, values, lower=True)
    check_positive_definite(mean)
    return EmbeddingPosterior(mean, prior(at, at) - scaled.T @ scaled)


def check_positive_definite(solution: jax.Array) -> None:
    """Raise ``ArithmeticError`` if the Cholesky factorization of R plus the noise failed."""
    if not isinstance(solution, jax.core.Tracer) and np.isnan(np.asarray(solution)).any():
        raise ArithmeticError(
            "R plus the noise is not positive definite in double precision: raise noise, which is "
            "too small for the diagonal of R (measure='unit' keeps that at 1)"
        )


@double_precision
def gaussian_mixture_embedding(
    weights: ArrayLike,
    means: ArrayLike,
    standard_deviations: ArrayLike,
    lengthscale: Any,
    at: ArrayLike,
) -> jax.Array:
    """Compute the exact embedding of a mixture of isotropic Gaussians.

    The kernel is squared exponential (Muandet et al. 2017, Table 3.3):

    ``sum_c w_c prod_d l_d / sqrt(l_d^2 + s_c^2) exp(-(t_d - m_cd)^2 / (2 (l_d^2 + s_c^2)))``.

    Args:
        weights: shape (C,), summing to 1.
        means: shape (C, D) or (C,).
        standard_deviations: shape (C,).
        lengthscale: lengthscale of the kernel, a number or one per column.
        at: shape (m, D) or (m,).

    Returns:
        Shape (m,).
    """
    at, means = as_points(at, "at"), as_points(means, "means")
    lengthscale = jnp.broadcast_to(jnp.asarray(lengthscale, at.dtype), (at.shape[1],))
    variance = lengthscale**2 + jnp.asarray(standard_deviations, at.dtype)[:, None] ** 2  # (C, D)
    delta = at[:, None, :] - means
    log_terms = jnp.log(lengthscale) - 0.5 * jnp.log(variance) - 0.5 * delta**2 / variance
    return jnp.exp(jnp.sum(log_terms, axis=-1)) @ jnp.asarray(weights, at.dtype)


@double_precision
def posterior_mean_embedding(
    X: ArrayLike,
    kernel: Kernel,
    *,
    noise: Any = "clt",
    measure: Measure | str | None = "unit",
) -> Embedding:
    """Compute the posterior mean BKE (7) as an element of the Hilbert space of k, BKE (9).

    ``sum_i a_i r(x_i, .)`` with ``a = (R + N)^-1 mu_hat``. Its values are the means of
    :func:`embedding_posterior`, which is its purpose: in the norm of H sections of r are far from
    those of k, by a factor that grows exponentially with the columns, so that beyond about one
    column its distance to mu in H is many times that of mu_hat (``benchmarks/shrinkage.py``).

    Args:
        X: data, shape (n, D) or (n,).
        kernel: the kernel; its parameters may be traced.
        noise: as for :func:`embedding_posterior`.
        measure: as for :func:`embedding_posterior`; or ``None`` for a prior whose covariance is k.
            With ``noise`` = n lambda that is the spectral shrinkage estimator of lambda, see
            :func:`~bke.models.spectral_embedding` (BKE section 4.2).

    Raises:
        ValueError, ArithmeticError: as :func:`embedding_posterior`.
    """
    points = as_points(X)
    if measure is not None:
        measure = fixed_measure(measure)
    prior = kernel if measure is None else kernel.smoothed(measure, points.shape[1])
    covariance = noise_covariance(noise, len(points), lambda: sampling_covariance(points, kernel))
    root = jnp.linalg.cholesky(prior.matrix(points, points) + covariance)
    values = jnp.mean(kernel.matrix(points, points), axis=1)
    weights = cho_solve((root, True), values)
    check_positive_definite(weights)
    return Embedding(kernel, points, weights, measure, column_names(X))


@double_precision
def landmark_embedding_posterior(
    X: ArrayLike,
    landmarks: ArrayLike,
    kernel: Kernel,
    at: ArrayLike,
    *,
    noise: Any = "clt",
    measure: Measure | str = "unit",
) -> EmbeddingPosterior:
    """Compute the posterior of the embedding mu at the points ``at``, given mu_hat at m landmarks.

    As :func:`~bke.models.embedding_posterior`, BKE (7) and (8), which conditions on mu_hat at all n
    observations, but at a cost linear in n, with rows in blocks. Where no landmark is within about
    a lengthscale, the posterior is as wide as the prior.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,).
        kernel: the kernel; its parameters may be traced.
        at: points of evaluation, shape (k, D) or (k,).
        noise: ``"clt"``, the sampling covariance of mu_hat at the landmarks, or a variance.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Raises:
        ValueError: for an invalid argument.
        ArithmeticError: the noise is lost to rounding compared with R; inside a transformation
            the result is NaN instead.
    """
    measure = fixed_measure(measure)
    points, at = as_samples(X, at, ("X", "at"))
    centers = as_points(landmarks, "landmarks")
    check_columns(points, centers, "landmarks")
    check_columns(points, at, "at")
    return landmark_posterior(
        partition_rows(points, centers), kernel, at, noise=noise, measure=measure
    )


def landmark_posterior(
    view: LandmarkData, kernel: Kernel, at: jax.Array, *, noise: Any, measure: Measure | str
) -> EmbeddingPosterior:
    """Compute the posterior at the points ``at`` from data prepared with landmarks."""
    landmarks = view.landmarks
    sums = feature_sums(view, kernel, jacobian=False, covariance=isinstance(noise, str))
    prior = kernel.smoothed(measure, landmarks.shape[1]).matrix
    covariance = noise_covariance(
        noise, len(landmarks), lambda: sums.scatter / (sums.n * (sums.n - 1.0))
    )
    return condition(sums.mean, covariance, prior, landmarks, at)
