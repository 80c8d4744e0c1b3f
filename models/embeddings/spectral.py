"""Spectral kernel mean shrinkage: every eigendirection of the Gram matrix by an amount of its own.

KME (3.25); Muandet, Sriperumbudur and Schölkopf, *Kernel mean estimation via spectral filtering*
(2014). With the smoothed kernel r in place of k it is the posterior mean of BKE (7), section 4.2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points, check_positive
from ..linalg.precision import double_precision
from .embedding import Embedding

#: Regularisations that are tried: n lambda over the mean of the diagonal of K, from LOWEST to the
#: number of rows, beyond which everything is shrunk away.
LOWEST, TRIED = 1e-8, 120


@double_precision
def spectral_embedding(
    X: ArrayLike, kernel: Covariance, *, regularisation: str | float = "leave-one-out"
) -> Embedding:
    """Spectral shrinkage with Tikhonov's filter, weights (K + n lambda I)^-1 K 1/n (SHR-6).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        regularisation: lambda, positive; or ``"leave-one-out"``, the one of
            :func:`leave_one_out_scores` that predicts left out features best, among 120 of them.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    points = as_points(X)
    if isinstance(regularisation, str):
        if regularisation != "leave-one-out":
            raise ValueError(
                f"regularisation must be a number or 'leave-one-out', got {regularisation!r}"
            )
        n = len(points)
        unit = jnp.mean(kernel.diagonal(points)) / n
        tried = unit * jnp.geomspace(LOWEST, n, TRIED)
        chosen: ArrayLike = tried[jnp.argmin(jnp.asarray(leave_one_out_scores(X, kernel, tried)))]
    else:
        check_positive(regularisation, "regularisation")
        chosen = regularisation
    K = kernel.matrix(points, points)
    return Embedding(kernel, points, _weights(K, len(K) * jnp.asarray(chosen)))


@jax.jit
def _weights(K: jax.Array, added: jax.Array) -> jax.Array:
    root = jax.scipy.linalg.cho_factor(K + added * jnp.eye(len(K)))
    weights: jax.Array = jax.scipy.linalg.cho_solve(root, jnp.mean(K, axis=1))
    return weights


@double_precision
def leave_one_out_scores(X: ArrayLike, kernel: Covariance, regularisation: ArrayLike) -> jax.Array:
    """Mean squared distance of left out features to the spectral estimate of the others (SHR-7).

    (1/n) sum_i |mu^(-i) - k(x_i, .)|^2, with lambda per row: mu^(-i) is of n - 1 rows. One
    eigendecomposition, and then a cost of n^2 for every lambda.

    Args:
        X: shape (n, D) or (n,), at least 2 rows.
        kernel: the kernel.
        regularisation: values of lambda, positive, (l,) or a number.

    Returns:
        Shape (l,).
    """
    points = as_points(X)
    if len(points) < 2:
        raise ValueError(f"leaving one out needs at least 2 rows, got {len(points)}")
    values = jnp.atleast_1d(jnp.asarray(regularisation, dtype=jnp.float64))
    if not isinstance(values, jax.core.Tracer) and not np.all(np.asarray(values) > 0.0):
        raise ValueError("regularisation must be positive")
    return _scores(kernel.matrix(points, points), values)


@jax.jit
def _scores(K: jax.Array, regularisation: jax.Array) -> jax.Array:
    """The scores, from the eigendecomposition of K.

    With lp = (n - 1) lambda, R = (K + lp I)^-1 and S = K R the weights of mu^(-i) are
    c_i = u + A e_i + t_i B e_i with A = -S / (n - 1), B = -lp R, u = S 1 / (n - 1) and
    t_i = (K R m_i)_i / (1 - (R K)_ii), m_i = (1 - e_i) / (n - 1): functions of K but for t, so that
    every term is a diagonal of one, sum_k Q_ik^2 f(lambda_k).
    """
    n = len(K)
    eigenvalues, Q = jnp.linalg.eigh(K)
    eigenvalues = jnp.maximum(eigenvalues, 0.0)
    squares, ones = Q**2, jnp.sum(Q, axis=0)

    def score(lam: jax.Array) -> jax.Array:
        lp = (n - 1) * lam
        resolvent = 1.0 / (eigenvalues + lp)
        smoother = eigenvalues * resolvent
        a, b = -smoother / (n - 1), -lp * resolvent
        u = Q @ (smoother * ones) / (n - 1)
        t = (u - squares @ smoother / (n - 1)) / (1.0 - squares @ smoother)
        Ku = Q @ (eigenvalues * smoother * ones) / (n - 1)
        KAu, KBu = (Q @ (f * eigenvalues * smoother * ones) / (n - 1) for f in (a, b))
        diagonal = [squares @ (eigenvalues * f) for f in (a, b, a * a, a * b, b * b)]
        KA, KB, KAA, KAB, KBB = diagonal
        own = jnp.sum(ones**2 * eigenvalues * smoother**2) / (n - 1) ** 2
        norms = own + 2.0 * (KAu + t * KBu) + KAA + 2.0 * t * KAB + t**2 * KBB
        return jnp.mean(norms - 2.0 * (Ku + KA + t * KB) + jnp.diagonal(K))

    scores: jax.Array = jax.lax.map(score, regularisation)
    return scores
