"""Nystrom features: the projection of k and r onto their values at m landmarks."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from ..kernels.base import Covariance, Kernel
from ..linalg.clustering import column_scale, kmeans_centers
from ..linalg.pytrees import register_dataclass
from .jacobian import log_norm


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NystromBasis:
    """R ~ R_xz R_zz^-1 R_zx and mu_hat ~ K_xz K_zz^-1 mean_j k(z, x_j), for m landmarks z.

    Williams and Seeger (2001). The remainder of R is positive semi-definite, whatever is added to
    the diagonal of R_zz. Mu_hat is the orthogonal projection of the empirical embedding onto the
    span of the k(., z), so that its gradient is one of the same functions: where no landmark is
    near, it falls off like the exact one.

    Args:
        landmarks: z, shape (m, D).
    """

    landmarks: jax.Array

    @property
    def size(self) -> int:
        """Number of landmarks m."""
        return len(self.landmarks)

    def whitening(self, smoothed: Covariance) -> jax.Array:
        """Compute H (m, m) with H' H = R_zz^-1."""
        cholesky = _cholesky(smoothed.matrix(self.landmarks, self.landmarks))
        return solve_triangular(cholesky, jnp.eye(self.size), lower=True)

    def smoothed_features(
        self, X: jax.Array, kernel: Kernel, smoothed: Covariance, whitening: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Compute Psi = R_xz H' and the diagonal of R - Psi Psi'."""
        psi = smoothed.matrix(X, self.landmarks) @ whitening.T
        # Rounding can leave a small negative remainder; it is zero in exact arithmetic.
        return psi, jnp.maximum(smoothed.diagonal(X) - jnp.sum(psi**2, axis=1), 0.0)

    def embedding_features(self, X: jax.Array, kernel: Kernel) -> jax.Array:
        """Compute K_xz."""
        return kernel.matrix(X, self.landmarks)

    def weights(self, mean: jax.Array, kernel: Kernel) -> jax.Array:
        """Compute K_zz^-1 ``mean``, the weights of k(., z) in mu_hat."""
        cholesky = _cholesky(kernel.matrix(self.landmarks, self.landmarks))
        weights: jax.Array = cho_solve((cholesky, True), mean)
        return weights

    def embedding(
        self, X: jax.Array, kernel: Kernel, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Compute mu_hat and log gamma, without the gradient of k at a landmark that is the row."""
        terms = kernel.value_and_grad(X, self.landmarks)
        tied = jnp.all(X[:, None] == self.landmarks, axis=2) & kernel.translation_invariant
        largest = jnp.max(jnp.where(tied, -jnp.inf, terms.log_scale), axis=1)
        largest = jax.lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
        value = (jnp.exp(terms.log_scale) * terms.value) @ weights
        exponent = jnp.where(tied, 0.0, terms.log_scale - largest[:, None])
        coefficients = jnp.where(tied, 0.0, jnp.exp(exponent)) * weights
        gradient = jnp.einsum("dnm,nm->nd", terms.gradient, coefficients)
        return value, largest + log_norm(gradient)


def _cholesky(gram: jax.Array, relative_jitter: float = 2.0**-51) -> jax.Array:
    """Compute the Cholesky factor of a Gram matrix (m, m) of landmarks.

    ``relative_jitter``, times m^2 and the largest entry, is added to the diagonal: a factor then
    exists, and what it subtracts from R is far below any sigma^2.
    """
    m = len(gram)
    jitter = relative_jitter * m**2 * jnp.max(jnp.diagonal(gram))
    return jnp.linalg.cholesky(gram + jax.lax.stop_gradient(jitter) * jnp.eye(m))


def cluster_centers(
    points: np.ndarray,
    count: int,
    rng: np.random.Generator,
    max_rows: int = 20_000,
    iterations: int = 5,
) -> np.ndarray:
    """Compute ``count`` centers (count, D) of clusters of (n, D) ``points``, in any order.

    A few steps of k-means from k-means++ seeds (Arthur and Vassilvitskii, 2007), every column over
    its standard deviation; where there are not more distinct rows than ``count``, those. On samples
    of 2000 rows in 10 columns the trace of the remainder of R is three quarters of that of random
    rows, for 300 landmarks; pivots of a Cholesky factorization, drawn with the remainders as
    probabilities, are in between, and greedy ones no better than random rows. Zhang, Tsang and Kwok
    (2008) bound the error of the Nystrom approximation by that of the clustering.

    Args:
        points: the data.
        count: number of centers.
        rng: random numbers.
        max_rows: rows, drawn at random, that are clustered (not tuned).
        iterations: steps of k-means (not tuned).
    """
    distinct = np.unique(points, axis=0)  # sorted
    if count >= len(distinct):
        return distinct
    scale = column_scale(points)
    rows = distinct / scale
    if len(rows) > max_rows:
        rows = rows[np.sort(rng.choice(len(rows), max_rows, replace=False))]
    return kmeans_centers(rows, count, rng, iterations=iterations) * scale
