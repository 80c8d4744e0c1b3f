"""Maximum mean discrepancy of two samples, KME section 3.5."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..embeddings.embedding import mean_embedding
from ..kernels.base import Covariance, as_samples
from ..kernels.embedding_kernels import Polynomial
from ..kernels.scikit_learn import as_kernel
from ..kernels.squared_exponential import SquaredExponential
from ..linalg.precision import concrete, double_precision

ESTIMATORS = ("biased", "unbiased", "paired", "linear", "block")


@double_precision
def embedding_inner_product(
    X: ArrayLike,
    Y: ArrayLike,
    kernel: Covariance,
    *,
    weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
) -> jax.Array:
    """Compute the inner product of two embeddings, sum_ij w_i v_j k(x_i, y_j).

    Muandet et al. (2017, eq. 3.40 and 3.41).

    Args:
        X: shape (n, D) or (n,).
        Y: shape (m, D) or (m,).
        kernel: the kernel.
        weights: w (n,) and v (m,), of any sign; ``None`` for equal weights with sum 1.
    """
    first, second = (mean_embedding(Z, kernel, w) for Z, w in zip((X, Y), weights, strict=True))
    return first.inner_product(second)


@double_precision
def squared_mmd(
    X: ArrayLike,
    Y: ArrayLike,
    kernel: Covariance,
    *,
    estimator: str = "unbiased",
    weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    block_size: int | None = None,
) -> jax.Array:
    """Compute the squared maximum mean discrepancy |mu_P - mu_Q|^2 of two samples.

    Equations are those of Muandet et al. (2017).

    Args:
        X: sample of P, shape (m, D) or (m,).
        Y: sample of Q, shape (n, D) or (n,).
        kernel: the kernel.
        estimator: ``"biased"`` (eq. 3.31), the distance of the two empirical embeddings;
            ``"unbiased"`` (eq. 3.32), which may be negative; for samples of one size ``"paired"``
            (eq. 3.33), which leaves out k(x_i, y_i) and stays unbiased where x_i and y_i are
            dependent; ``"linear"`` and ``"block"``, means of :func:`mmd_terms` at a cost linear in
            m.
        weights: weights of the embeddings (biased only), see :func:`embedding_inner_product`.
        block_size: of ``"block"``; by default the square root of m.

    Raises:
        ValueError: for samples too small or of unequal size where that matters.
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
    if estimator != "block" and block_size is not None:
        raise ValueError("block_size is for estimator='block'")
    if estimator != "biased" and any(w is not None for w in weights):
        raise ValueError("weights are for estimator='biased'")
    if estimator in ("linear", "block"):
        size = 2 if estimator == "linear" else block_size
        return jnp.mean(mmd_terms(X, Y, kernel, block_size=size))
    if estimator == "biased":
        kernel = as_kernel(kernel)
        samples = zip(as_samples(X, Y), weights, strict=True)
        P, Q = (mean_embedding(Z, kernel, w) for Z, w in samples)
        # Not cut off at zero, where that has no derivative.
        return P.inner_product(P) + Q.inner_product(Q) - 2.0 * P.inner_product(Q)
    first, second = as_samples(X, Y)
    if estimator == "paired":
        _check_paired(first, second)
    within = mean_off_diagonal(kernel.matrix(first, first))
    within += mean_off_diagonal(kernel.matrix(second, second))
    between = kernel.matrix(first, second)
    cross = jnp.mean(between) if estimator == "unbiased" else mean_off_diagonal(between)
    return within - 2.0 * cross


def mean_off_diagonal(gram: jax.Array) -> jax.Array:
    """Compute the mean over all pairs of different rows."""
    n = len(gram)
    if n < 2:
        raise ValueError(f"an unbiased estimate needs at least 2 rows in each sample, got {n}")
    return (jnp.sum(gram) - jnp.trace(gram)) / (n * (n - 1))


def _check_paired(X: jax.Array, Y: jax.Array) -> None:
    if len(X) != len(Y):
        raise ValueError(f"this estimator needs samples of one size, got {len(X)} and {len(Y)}")


@double_precision
def mmd_terms(
    X: ArrayLike, Y: ArrayLike, kernel: Covariance, *, block_size: int | None = None
) -> jax.Array:
    """Compute independent unbiased estimates of the squared MMD from consecutive blocks of rows.

    Their mean over their standard error is standard normal under P = Q, approximately; rows are
    taken in their order, and those that do not fill a block are left out.

    Args:
        X: shape (n, D) or (n,).
        Y: same shape as X.
        kernel: the kernel.
        block_size: rows of each sample in a block; 2 gives the linear-time statistic (Gretton et
            al. 2012), the default, the square root of n, the B-test (Zaremba et al. 2013).

    Returns:
        The paired estimate in each block, shape (n // block_size,).
    """
    first, second = as_samples(X, Y)
    _check_paired(first, second)
    size = max(2, round(len(first) ** 0.5)) if block_size is None else block_size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 2:
        raise ValueError(f"block_size must be a whole number of at least 2, got {block_size!r}")
    if size > len(first):
        raise ValueError(f"block_size is {size}, and there are {len(first)} rows")
    count = len(first) // size

    def estimate(block: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, y = block
        within = kernel.matrix(x, x) + kernel.matrix(y, y)
        between = kernel.matrix(x, y)
        return mean_off_diagonal(within - between - between.T)

    blocks = tuple(Z[: count * size].reshape(count, size, -1) for Z in (first, second))
    # As many blocks at once as have 2^22 entries in their Gram matrices (not tuned).
    batch_size = max(1, min(256, 2**22 // size**2))
    return jax.lax.map(estimate, blocks, batch_size=batch_size)


@double_precision
def squared_mmd_variance(X: ArrayLike, Y: ArrayLike, kernel: Covariance) -> jax.Array:
    """Compute the asymptotic variance of the unbiased squared MMD where P and Q differ.

    4 Var[h_P(X)] / m + 4 Var[h_Q(Y)] / n with h_P(x) = E k(x, X') - E k(x, Y') and h_Q = -h_P,
    estimated by plugging in; for m = n that is s^2 / m of Theorem 3.6 in KME, corrected. Under
    P = Q it is zero in the limit, and of no use.
    """
    first, second = as_samples(X, Y)
    m, n = len(first), len(second)
    if min(m, n) < 3:
        raise ValueError("the variance of MMD needs at least 3 rows in each sample")
    between = kernel.matrix(first, second)
    total = jnp.zeros(())
    for Z, cross in ((first, between), (second, between.T)):
        within = kernel.matrix(Z, Z)
        mean_within = (jnp.sum(within, axis=1) - jnp.diagonal(within)) / (len(Z) - 1)
        total += 4.0 * jnp.var(mean_within - jnp.mean(cross, axis=1), ddof=1) / len(Z)
    return total


@double_precision
def normalized_mmd(X: ArrayLike, Y: ArrayLike, kernel: Covariance) -> jax.Array:
    """Compute the biased squared MMD over |mu_P|^2 + |mu_Q|^2, 0 for equal embeddings, at most 1.

    It is 1 for orthogonal embeddings. For kernels that are nowhere negative; a factor of the kernel
    does not change it.
    """
    first, second = (embedding_inner_product(Z, Z, kernel) for Z in (X, Y))
    return 1.0 - 2.0 * embedding_inner_product(X, Y, kernel) / (first + second)


@double_precision
def gaussian_inner_product(
    P: tuple[ArrayLike, ArrayLike], Q: tuple[ArrayLike, ArrayLike], kernel: Covariance
) -> jax.Array:
    """Compute the inner product of the exact embeddings of two Gaussian distributions.

    Muandet et al. (2017, Table 3.3, where degree 3 has factors in the wrong order).

    Args:
        P: mean (D,) and covariance (D, D).
        Q: mean (D,) and covariance (D, D).
        kernel: squared exponential, or polynomial of degree 1 to 3.

    Raises:
        ValueError: for another kernel, or arguments whose shapes do not fit.
    """
    (mean_p, cov_p), (mean_q, cov_q) = _gaussian(P), _gaussian(Q)
    if mean_p.shape != mean_q.shape:
        raise ValueError(f"P has {len(mean_p)} columns but Q has {len(mean_q)}")
    if isinstance(kernel, SquaredExponential):
        # |I + S/l^2|^(-1/2) exp(-d' (S + l^2)^-1 d / 2) with d and S of the difference of the two.
        lengthscale = jnp.broadcast_to(jnp.asarray(kernel.lengthscale, jnp.float64), mean_p.shape)
        scaled = (cov_p + cov_q) / jnp.outer(lengthscale, lengthscale) + jnp.eye(len(mean_p))
        delta = (mean_p - mean_q) / lengthscale
        _, log_determinant = jnp.linalg.slogdet(scaled)
        return jnp.exp(-0.5 * (log_determinant + delta @ jnp.linalg.solve(scaled, delta)))
    if isinstance(kernel, Polynomial) and kernel.degree <= 3:
        dot = mean_p @ mean_q + kernel.constant
        if kernel.degree == 1:
            return dot
        variance = jnp.sum(cov_p * cov_q) + mean_p @ cov_q @ mean_p + mean_q @ cov_p @ mean_q
        if kernel.degree == 2:
            return dot**2 + variance
        return dot**3 + 6.0 * mean_p @ cov_q @ cov_p @ mean_q + 3.0 * dot * variance
    raise ValueError(
        "there is a closed form for SquaredExponential and for Polynomial up to degree 3, got "
        f"{type(kernel).__name__}"
    )


def _gaussian(parameters: tuple[ArrayLike, ArrayLike]) -> tuple[jax.Array, jax.Array]:
    mean = jnp.atleast_1d(jnp.asarray(parameters[0], dtype=jnp.float64))
    covariance = jnp.atleast_2d(jnp.asarray(parameters[1], dtype=jnp.float64))
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)):
        raise ValueError(
            f"a Gaussian is a mean (D,) and a covariance (D, D), got {mean.shape} and "
            f"{covariance.shape}"
        )
    value = concrete(covariance)
    if isinstance(value, np.ndarray) and np.linalg.eigvalsh(value)[0] < -1e-12 * np.trace(value):
        raise ValueError(f"a covariance has no negative eigenvalues, got {value.tolist()}")
    return mean, covariance
