"""Noise of the empirical embedding: one variance, or the sampling covariance."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.base import Kernel
from ..linalg.precision import check_positive, concrete
from ..linalg.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SamplingNoise:
    """The covariance of mu_hat by the central limit theorem in place of sigma^2 I in BKE (5).

    C/n + nugget I with C(x, y) = Cov[k(X, x), k(X, y)] (KME-14), estimated from the data under the
    same hyperparameters, so it changes with them. BKE section 3.2 names it as an extension.

    Args:
        full: all of C, or its diagonal only, each point with its own variance and no correlation.
            ``"clt"`` stands for ``SamplingNoise(True, 1e-8)``, ``"heteroscedastic"`` for
            ``SamplingNoise(False, 1e-3)``.
        nugget: positive number, added to the diagonal; it matters. C/n and R are numerically
            singular, and each direction that they do not reach adds -log(nugget)/2. From 1e-10 to
            1e-6 its effect on the coverage of credible bands of the witness is small; 1e-4 widens
            the tails. The diagonal alone falls like lengthscale^-4, and the marginal likelihood
            grows with the lengthscale until the nugget stops it: with 1e-3 its modes are those of
            the paper's noise, with 1e-5 the longest has twice the lengthscale (BKE Figure 3 data).
    """

    full: bool = dataclasses.field(default=True, metadata={"static": True})
    nugget: Any = 1e-8

    def __post_init__(self) -> None:
        if not isinstance(self.full, bool):
            raise ValueError(f"SamplingNoise: full must be True or False, got {self.full!r}")
        value = concrete(self.nugget)
        if isinstance(value, (int, float, np.ndarray, np.number)) and np.ndim(value) == 0:
            check_positive(value, "nugget")
        elif value is None or isinstance(value, (str, list, tuple, np.ndarray)):
            raise ValueError(f"SamplingNoise: nugget must be one number, got {self.nugget!r}")


SAMPLING_NOISES = {"clt": SamplingNoise(True, 1e-8), "heteroscedastic": SamplingNoise(False, 1e-3)}

#: sigma^2, traced or not; or the sampling covariance.
Noise: TypeAlias = Any


def check_noise(noise_variance: Noise) -> Noise:
    """Return ``noise_variance`` with names resolved.

    Raises:
        ValueError: for anything but one positive number or a sampling covariance.
    """
    if isinstance(noise_variance, str) and noise_variance in SAMPLING_NOISES:
        return SAMPLING_NOISES[noise_variance]
    if isinstance(noise_variance, SamplingNoise):
        return noise_variance
    value = concrete(noise_variance)
    if isinstance(value, jax.core.Tracer):
        return noise_variance
    if isinstance(value, (bool, str, type)) or value is None or np.ndim(value) != 0:
        raise ValueError(
            "noise_variance must be a positive number, "
            f"{', '.join(map(repr, SAMPLING_NOISES))} or a SamplingNoise, got {noise_variance!r}"
        )
    check_positive(value, "noise_variance")
    return noise_variance


def diagonal_variance(noise_variance: Noise) -> Any:
    """Return what the noise adds to the diagonal at every point: sigma^2, or the nugget."""
    return noise_variance.nugget if isinstance(noise_variance, SamplingNoise) else noise_variance


def sampling_covariance(points: jax.Array, kernel: Kernel, full: bool = True) -> jax.Array:
    """Compute the covariance C/n (n, n) of mu_hat at the (n, D) ``points``.

    C(x, y) = Cov[k(X, x), k(X, y)] (KME-14), estimated without bias from the same points. In full:
    bands from the diagonal alone have far too little coverage.
    """
    centered = centered_gram(points, kernel)
    count = len(points) * (len(points) - 1)
    if full:
        return centered.T @ centered / count
    return jnp.diag(jnp.sum(centered**2, axis=0) / count)


def centered_gram(points: jax.Array, kernel: Kernel) -> jax.Array:
    """Compute k(x_j, x_i) less its mean over the rows j, (n, n)."""
    features = kernel.matrix(points, points)
    return features - jnp.mean(features, axis=0)


def gram_sensitivity(centered: jax.Array, sensitivity: jax.Array, full: bool) -> jax.Array:
    """Compute the derivative (n, n) in the Gram matrix, through C/n.

    With C/n = F'F / (n (n - 1)) and F the centered Gram matrix, <S, d(C/n)> = <2 F S / (n (n - 1)),
    dK>; the diagonal form has only the diagonal of S.

    Args:
        centered: F, from :func:`centered_gram`.
        sensitivity: S, symmetric, the derivative in the covariance of mu_hat.
        full: as in :class:`SamplingNoise`.
    """
    n = len(centered)
    product = centered @ sensitivity if full else centered * jnp.diagonal(sensitivity)
    return 2.0 / (n * (n - 1)) * product
