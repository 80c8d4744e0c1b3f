"""The posterior of the embedding given its values at landmarks."""

from __future__ import annotations

from typing import Any

import jax
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points, check_columns
from ..likelihood.landmark import LandmarkData, LandmarkSums, feature_sums, partition_rows
from ..linalg.precision import double_precision
from ..measures.measure import Measure, fixed_measure
from .posterior import EmbeddingPosterior, condition, noise_covariance


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
    """Posterior of the embedding mu at the points ``at``, given mu_hat at m landmarks.

    As :func:`~bke.models.embedding_posterior`, BKE (7) and (8), which conditions on mu_hat at all n
    observations: here the cost is linear in n, rows are gone through a block at a time, and where
    no landmark is near, within a lengthscale or so, the posterior is as wide as the prior.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,).
        kernel: the kernel; its parameters may be traced.
        at: points of evaluation, shape (k, D) or (k,).
        noise: ``"clt"``, the sampling covariance of mu_hat at the landmarks, or a variance.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Raises:
        ValueError: for an argument that makes no sense, naming it.
        ArithmeticError: where the noise is lost to rounding beside R; inside a transformation the
            result is NaN there.
    """
    measure = fixed_measure(measure)
    points, places = as_points(X), as_points(landmarks, "landmarks")
    where = as_points(at, "at")
    check_columns(points, places, "landmarks")
    check_columns(points, where, "at")
    view = partition_rows(points, places)
    return posterior_of_view(view, kernel, where, noise=noise, measure=measure)


def posterior_of_view(
    view: LandmarkData, kernel: Kernel, at: jax.Array, *, noise: Any, measure: Measure | str
) -> EmbeddingPosterior:
    """The posterior of the embedding at the points ``at``, given data prepared with landmarks."""
    covariance = isinstance(noise, str)
    sums = feature_sums(view, kernel, jacobian=False, covariance=covariance)
    return posterior_of_sums(sums, view.landmarks, kernel, at, noise=noise, measure=measure)


def posterior_of_sums(
    sums: LandmarkSums,
    landmarks: jax.Array,
    kernel: Kernel,
    at: jax.Array,
    *,
    noise: Any,
    measure: Measure | str,
) -> EmbeddingPosterior:
    """The posterior of the embedding given sums over the data.

    Their scatter is a matrix unless ``noise`` is a number.
    """
    smoothed = kernel.smoothed(measure, landmarks.shape[1])
    own = smoothed.matrix(landmarks, landmarks)
    covariance = noise_covariance(
        noise, len(landmarks), lambda: sums.scatter / (sums.n * (sums.n - 1.0))
    )
    across = smoothed.matrix(landmarks, at)
    return condition(sums.mean, own + covariance, across, smoothed.matrix(at, at))
