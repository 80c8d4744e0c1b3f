"""How far a joint embedding is from the product of its marginals: HSIC, KME section 3.6."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..embeddings.posterior import EmbeddingPosterior, condition, noise_covariance
from ..kernels.base import Covariance, Kernel, as_points
from ..linalg.precision import double_precision
from ..measures.measure import Measure, fixed_measure

ESTIMATORS = ("biased", "unbiased")


@double_precision
def hsic(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    estimator: str = "unbiased",
) -> jax.Array:
    """Hilbert-Schmidt independence criterion of paired samples, KME (3.37).

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        estimator: ``"biased"``, tr(HKHL) / n^2 (DEP-2; KME calls it unbiased, and others divide by
            (n - 1)^2), the squared MMD between the joint and the product sample; or ``"unbiased"``
            (DEP-3), for n >= 4, which may be negative.

    Raises:
        ValueError: for samples of unequal length, or too short.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
    K, L = _grams(X, Y, kernel_x, kernel_y)
    n = len(K)
    if estimator == "biased":
        return jnp.sum(centred(K) * L) / n**2
    if n < 4:
        raise ValueError(f"unbiased HSIC needs at least 4 rows, got {n}")
    # It does not change under k(x, y) + f(x) + f(y): what is large and common would cancel.
    K, L = (gram - jnp.diag(jnp.diagonal(gram)) for gram in map(centred, (K, L)))
    sums_k, sums_l = jnp.sum(K, axis=0), jnp.sum(L, axis=0)
    total = jnp.sum(K * L) + jnp.sum(sums_k) * jnp.sum(sums_l) / ((n - 1) * (n - 2))
    return (total - 2.0 / (n - 2) * sums_k @ sums_l) / (n * (n - 3))


def _as_pairs(X: ArrayLike, Y: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Two samples as points, in pairs, row by row."""
    first, second = as_points(X), as_points(Y, "Y")
    if len(first) != len(second):
        raise ValueError(f"X has {len(first)} rows but Y has {len(second)}: they must be pairs")
    return first, second


def _grams(
    X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance
) -> tuple[jax.Array, jax.Array]:
    first, second = _as_pairs(X, Y)
    return kernel_x.matrix(first, first), kernel_y.matrix(second, second)


def centred(gram: jax.Array) -> jax.Array:
    """H K H with H = I - 11'/n: the Gram matrix of features less their mean."""
    columns = jnp.mean(gram, axis=0)
    return gram - columns - jnp.mean(gram, axis=1)[:, None] + jnp.mean(columns)


@double_precision
def alignment(X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance) -> jax.Array:
    """Biased HSIC over the root of HSIC(X, X) HSIC(Y, Y), from 0 to 1: centred kernel alignment."""
    K, L = map(centred, _grams(X, Y, kernel_x, kernel_y))
    return jnp.sum(K * L) / jnp.sqrt(jnp.sum(K**2) * jnp.sum(L**2))


@double_precision
def normalized_hsic(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    regularisation: ArrayLike,
) -> jax.Array:
    """Squared Hilbert-Schmidt norm of the normalised cross-covariance operator, tr(R_x R_y).

    R = Kc (Kc + n e I)^-1 (KME-12); at most min(tr R_x, tr R_y).

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,).
        kernel_x: of X.
        kernel_y: of Y.
        regularisation: e > 0.
    """
    K, L = map(centred, _grams(X, Y, kernel_x, kernel_y))
    ridge = len(K) * regularisation * jnp.eye(len(K))
    first, second = (jnp.linalg.solve(gram + ridge, gram) for gram in (K, L))
    return jnp.sum(first * second.T)


@double_precision
def constrained_covariance(
    X: ArrayLike, Y: ArrayLike, kernel_x: Covariance, kernel_y: Covariance
) -> jax.Array:
    """COCO, the largest covariance of unit functions of X and Y (DEP-16).

    (1/n) sqrt(largest eigenvalue of Kc Lc), the operator norm of the centred cross-covariance.
    """
    K, L = map(centred, _grams(X, Y, kernel_x, kernel_y))
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
    """The joint embedding less the product of the marginals', at pairs of points, (m,).

    (1/n) sum_i (k(x_i, x) - mean_j k(x_j, x)) (l(y_i, y) - mean_j l(y_j, y)): the witness of MMD
    between the joint and the product of the marginals (KME section 3.6). Positive where pairs are
    more frequent than under independence. Its mean over the joint sample less that over the product
    sample is the biased HSIC.

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        at: places of x, shape (m, D) or (m,), and of y, (m, E) or (m,).
    """
    return jnp.mean(_products(X, Y, kernel_x, kernel_y, _pairs_at(at)), axis=0)


def _pairs_at(at: tuple[ArrayLike, ArrayLike]) -> tuple[jax.Array, jax.Array]:
    first, second = as_points(at[0], "at"), as_points(at[1], "at")
    if len(first) != len(second):
        raise ValueError(f"at has {len(first)} places of x but {len(second)} of y")
    return first, second


def _products(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    at: tuple[jax.Array, jax.Array],
) -> jax.Array:
    """Products of centred features of every pair at every place, (n, m)."""
    first, second = _as_pairs(X, Y)
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
    """Posterior of the dependence witness, by the model of BKE (7) and (8) for the pairs.

    The prior is a Gaussian process with covariance r_x(x, x') r_y(y, y'), that of the embedding
    with the kernel k(x, x') l(y, y').

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: of X.
        kernel_y: of Y.
        at: places of x, shape (m, D) or (m,), and of y, (m, E) or (m,).
        noise: ``"clt"``, the sampling covariance of the empirical witness to first order: that of
            the products of centred features over n, plus a nugget of 1e-8; or a number.
        measure: as for :func:`~bke.models.embedding_posterior`.

    Raises:
        ValueError: for an argument that makes no sense, naming it.
        ArithmeticError: where the noise is lost to rounding.
    """
    measure = fixed_measure(measure)
    first, second = as_points(X), as_points(Y, "Y")
    places = _pairs_at(at)
    products = _products(first, second, kernel_x, kernel_y, (first, second))
    n = len(first)

    def sampling() -> jax.Array:
        spread = products - jnp.mean(products, axis=0)
        return spread.T @ spread / (n * (n - 1))

    covariance = noise_covariance(noise, n, sampling)
    r_x = kernel_x.smoothed(measure, first.shape[1])
    r_y = kernel_y.smoothed(measure, second.shape[1])

    def prior(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> jax.Array:
        return r_x.matrix(one[0], other[0]) * r_y.matrix(one[1], other[1])

    data = first, second
    return condition(
        jnp.mean(products, axis=0),
        prior(data, data) + covariance,
        prior(data, places),
        prior(places, places),
    )
