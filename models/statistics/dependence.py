"""Dependence of pairs: HSIC and relatives, KME section 3.6."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..embeddings.posterior import EmbeddingPosterior, condition, noise_covariance
from ..kernels.base import Covariance, Kernel
from ..kernels.covariance import as_pairs, check_row_labels, column_names, in_order_of
from ..linalg.precision import double_precision
from ..measures import Measure, fixed_measure


@double_precision
def hsic(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    estimator: str = "unbiased",
) -> jax.Array:
    """Compute the Hilbert-Schmidt independence criterion of paired samples, KME (3.37).

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        estimator: ``"biased"``, tr(HKHL) / n^2 (KME (3.38) calls it unbiased, others divide by
            (n - 1)^2), the squared MMD between the joint and the product sample; or ``"unbiased"``
            (Song et al. 2007), for n >= 4, which may be negative.

    Raises:
        ValueError: for samples of unequal length, or too short.
    """
    if estimator not in ("biased", "unbiased"):
        raise ValueError(f"estimator must be one of 'biased', 'unbiased', got {estimator!r}")
    # HSIC is the same for k(x, y) + f(x) + f(y): without centring large common terms would cancel.
    K, L = _centered_grams(X, Y, kernel_x, kernel_y)
    n = len(K)
    if estimator == "biased":
        return jnp.sum(K * L) / n**2
    if n < 4:
        raise ValueError(f"unbiased HSIC needs at least 4 rows, got {n}")
    K, L = (gram - jnp.diag(jnp.diagonal(gram)) for gram in (K, L))
    sums_k, sums_l = jnp.sum(K, axis=0), jnp.sum(L, axis=0)
    total = jnp.sum(K * L) + jnp.sum(sums_k) * jnp.sum(sums_l) / ((n - 1) * (n - 2))
    return (total - 2.0 / (n - 2) * sums_k @ sums_l) / (n * (n - 3))


def _centered_grams(
    X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance
) -> tuple[jax.Array, jax.Array]:
    """Compute H K H and H L H with H = I - 11'/n, the Gram matrices of centered features."""

    def center(gram: jax.Array) -> jax.Array:
        columns = jnp.mean(gram, axis=0)
        return gram - columns - jnp.mean(gram, axis=1)[:, None] + jnp.mean(columns)

    x, y = as_pairs(X, Y)
    return center(kernel_x.matrix(x, x)), center(kernel_y.matrix(y, y))


@double_precision
def alignment(X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance) -> jax.Array:
    """Compute the centered kernel alignment, biased HSIC over sqrt(HSIC(X, X) HSIC(Y, Y))."""
    K, L = _centered_grams(X, Y, kernel_x, kernel_y)
    return jnp.sum(K * L) / jnp.sqrt(jnp.sum(K**2) * jnp.sum(L**2))


@double_precision
def normalized_hsic(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    regularization: ArrayLike,
) -> jax.Array:
    """Compute the squared Hilbert-Schmidt norm of the normalized cross-covariance operator.

    tr(R_x R_y) with R = Kc (Kc + n e I)^-1, see KME (3.18); at most min(tr R_x, tr R_y).

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,).
        kernel_x: of X.
        kernel_y: of Y.
        regularization: e > 0.
    """
    K, L = _centered_grams(X, Y, kernel_x, kernel_y)
    ridge = len(K) * regularization * jnp.eye(len(K))
    first, second = (jnp.linalg.solve(gram + ridge, gram) for gram in (K, L))
    return jnp.sum(first * second.T)


@double_precision
def constrained_covariance(
    X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance
) -> jax.Array:
    """Compute COCO, the largest covariance of unit functions of X and Y.

    Gretton et al., *Kernel Constrained Covariance for Dependence Measurement* (2005):
    (1/n) sqrt(largest eigenvalue of Kc Lc), the operator norm of the centered cross-covariance.
    """
    K, L = _centered_grams(X, Y, kernel_x, kernel_y)
    values, vectors = jnp.linalg.eigh(K)
    root = vectors * jnp.sqrt(jnp.clip(values, 0.0))
    largest = jnp.linalg.eigvalsh(root.T @ L @ root)[-1]
    return jnp.sqrt(jnp.clip(largest, 0.0)) / len(K)


@double_precision
def dependence_witness(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    at: tuple[ArrayLike, ArrayLike],
) -> jax.Array:
    """Compute the joint embedding minus the product of the marginal ones, at pairs of points, (m,).

    (1/n) sum_i (k(x_i, x) - mean_j k(x_j, x)) (l(y_i, y) - mean_j l(y_j, y)): the witness of MMD
    between the joint and the product of the marginals (KME section 3.6). Positive where pairs are
    more frequent than under independence. Its mean over the joint sample minus that over the
    product sample is the biased HSIC.

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        at: points x, shape (m, D) or (m,), and y, shape (m, E) or (m,).
    """
    return jnp.mean(_products(X, Y, kernel_x, kernel_y, _pairs_at(X, Y, at)), axis=0)


def _pairs_at(
    X: ArrayLike, Y: ArrayLike, at: tuple[ArrayLike, ArrayLike]
) -> tuple[jax.Array, jax.Array]:
    """Return pairs of points, columns of data frames in the order of those of X and Y."""
    check_row_labels(*at, ("at[0]", "at[1]"))
    x, y = (
        in_order_of(points, column_names(sample), f"at[{index}]", "XY"[index])
        for index, (points, sample) in enumerate(zip(at, (X, Y), strict=True))
    )
    return as_pairs(x, y, ("at[0]", "at[1]"))


def _products(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    at: tuple[jax.Array, jax.Array],
) -> jax.Array:
    """Compute products of centered features of every pair at every point, (n, m)."""
    first, second = as_pairs(X, Y)
    K, L = kernel_x.matrix(first, at[0]), kernel_y.matrix(second, at[1])
    return (K - jnp.mean(K, axis=0)) * (L - jnp.mean(L, axis=0))


@double_precision
def dependence_posterior(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Kernel,
    kernel_y: Kernel,
    at: tuple[ArrayLike, ArrayLike],
    *,
    noise: Any = "clt",
    measure: Measure | str = "unit",
) -> EmbeddingPosterior:
    """Compute the posterior of the dependence witness, BKE (7) and (8) for pairs.

    The prior is a Gaussian process with covariance r_x(x, x') r_y(y, y'), that of the embedding
    with the kernel k(x, x') l(y, y').

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        at: points x, shape (m, D) or (m,), and y, shape (m, E) or (m,).
        noise: ``"clt"``, the sampling covariance of the empirical witness to first order: that of
            the products of centered features over n, plus a nugget of 1e-8; or a number.
        measure: as for :func:`~bke.models.embedding_posterior`.

    Raises:
        ValueError: for an invalid argument, naming it.
        ArithmeticError: where the noise is lost to rounding.
    """
    measure = fixed_measure(measure)
    first, second = as_pairs(X, Y)
    points = _pairs_at(X, Y, at)
    products = _products(first, second, kernel_x, kernel_y, (first, second))
    n = len(first)

    def sampling_covariance() -> jax.Array:
        deviations = products - jnp.mean(products, axis=0)
        return deviations.T @ deviations / (n * (n - 1))

    covariance = noise_covariance(noise, n, sampling_covariance)
    r_x = kernel_x.smoothed(measure, first.shape[1])
    r_y = kernel_y.smoothed(measure, second.shape[1])

    def prior(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> jax.Array:
        return r_x.matrix(left[0], right[0]) * r_y.matrix(left[1], right[1])

    return condition(jnp.mean(products, axis=0), covariance, prior, (first, second), points)
