"""Scores of kernel Student-t densities by which hyperparameters are chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points
from ..linalg.precision import double_precision
from ..linalg.rows import as_padded, shared_size
from .density import KernelStudentT, kernel_student_t, log_volume_element
from .quadrature import Bounds, log_integral


def leave_one_out_log_densities(
    density: KernelStudentT,
    bounds: Bounds | None = None,
    *,
    rows: ArrayLike | None = None,
    tolerance: float = 1e-3,
) -> np.ndarray:
    """Compute the normalized log density of rows, each given all the others.

    s of x_n without row n is 1 / (A^-1)_nn, and s of any x without row n is s with it plus
    (A^-1 a(x))_n^2 / (A^-1)_nn: one factor and one adaptive quadrature serve all rows.

    Args:
        density: on R or R^2, of at least 2 rows.
        bounds: see :func:`~bke.models.log_normalizer`.
        rows: indices of the rows, (m,) from 0; all by default.
        tolerance: relative tolerance of each integral.

    Returns:
        Shape (m,).

    Raises:
        ValueError: see :func:`~bke.models.log_normalizer`.
        ArithmeticError: see :func:`~bke.models.log_normalizer`.
    """
    indices = np.arange(len(density.rows.data)) if rows is None else np.asarray(rows)
    inverse = double_precision(density.inverse)()

    def without_rows(at: np.ndarray) -> jax.Array:
        padding = shared_size(len(at), per_octave=2) - len(at)
        points = np.pad(at, ((0, padding), (0, 0)), mode="edge")
        return _log_densities_without_rows(density, inverse, points, indices)[: len(at)]

    log_normalizers = log_integral(density, without_rows, bounds, tolerance)[0]
    return np.asarray(density.leave_one_out_log_density(1))[indices] - log_normalizers


@double_precision
@jax.jit
def _log_densities_without_rows(
    density: KernelStudentT, inverse: jax.Array, at: jax.Array, rows: jax.Array
) -> jax.Array:
    """Compute log q of points (k, D) given all rows but one of ``rows`` (m,), shape (k, m)."""
    covariance = density.cross_covariance(at)
    weights = covariance @ inverse
    variance = density.prior_variance(at) - jnp.sum(covariance * weights, axis=1)
    without = variance[:, None] + weights[:, rows] ** 2 / jnp.diagonal(inverse)[rows]
    ratio = jnp.maximum(without / density.noise_variance, 1.0)
    value = -(density.exponent - 0.5) * jnp.log(ratio)
    return value + density.log_volume_element(at)[:, None]


@double_precision
def hyvarinen_scores(
    density: KernelStudentT, at: ArrayLike | None = None, *, rows: ArrayLike | None = None
) -> jax.Array:
    """Compute the Laplacian of log q plus half its squared gradient, at rows given the others.

    The mean is the objective of score matching (Hyvarinen, *Estimation of non-normalized
    statistical models by score matching*, JMLR 2005), which needs no normalizer: smaller is better,
    in any number of columns, at a cost of N^2 D for each row. The kernel must be twice
    differentiable. The edge of a box that the density is restricted to plays no role. Rows of very
    different density have scores of very different size, and those of the narrowest mode decide:
    for data of several scales score matching chooses the smallest.

    Args:
        density: a density of at least 2 rows.
        at: other points, (m, D) or (m,), instead of its rows; they are given all of these.
        rows: indices of its rows, (m,) from 0; all by default.

    Returns:
        Shape (m,).

    Raises:
        ValueError: the features of the kernel have no derivative.
    """
    log_volume_element(density.rows.data[:1], density.kernel)  # raises without derivatives
    if at is not None:
        return _hyvarinen_scores_at(density, density.check_points(at))
    indices = jnp.arange(int(density.rows.number)) if rows is None else jnp.asarray(rows)
    return _leave_one_out_hyvarinen_scores(density, indices)


@jax.jit
def _leave_one_out_hyvarinen_scores(density: KernelStudentT, rows: jax.Array) -> jax.Array:
    inverse = density.inverse()

    def score(row: jax.Array) -> jax.Array:
        def log_density(x: jax.Array) -> jax.Array:
            a = density.cross_covariance(x[None])[0].at[row].set(0.0)
            explained = a @ inverse @ a - (inverse[:, row] @ a) ** 2 / inverse[row, row]
            variance = density.prior_variance(x[None])[0] - explained
            value = -(density.exponent - 0.5) * jnp.log(variance)
            return value + density.log_volume_element(x[None])[0]

        return _hyvarinen_score(log_density, jnp.asarray(density.rows.points)[row])

    return jax.lax.map(score, rows, batch_size=16)


@jax.jit
def _hyvarinen_scores_at(density: KernelStudentT, at: jax.Array) -> jax.Array:
    score = functools.partial(_hyvarinen_score, lambda x: density.log_density(x[None])[0])
    return jax.lax.map(score, at, batch_size=16)


def _hyvarinen_score(log_density: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    gradient, hessian_product = jax.linearize(jax.grad(log_density), x)
    laplacian = jnp.trace(jax.vmap(hessian_product)(jnp.eye(len(x))))
    return laplacian + 0.5 * jnp.sum(gradient**2)


@double_precision
def log_sequential_likelihood(
    X: ArrayLike,
    kernel: Covariance,
    nodes: ArrayLike,
    log_weights: ArrayLike,
    *,
    noise_variance: Any = 1.0,
    alpha: Any = 1.0,
    beta: Any = 0.01,
) -> jax.Array:
    """Compute the log of the product of normalized densities of each row given those before it.

    This is the joint density of rows of which each is drawn from the predictive density of those
    before it, as the fantasy data of KST section 4. It depends on the order of rows, because the
    normalizers do. One Cholesky factor L of A gives all terms: s of x_n given the rows before is
    the square of its n-th diagonal entry, and the n-th row reduces s of a node by the square of
    (L^-1 a)_n.

    Args:
        X: rows in their order, shape (N, D) or (N,).
        kernel: k; its parameters and the other hyperparameters may be traced.
        nodes: nodes (G, D) of a quadrature rule on the box of the density.
        log_weights: logarithms of the weights of the rule, (G,).
        noise_variance: sigma_0^2, see :func:`~bke.models.kernel_student_t`.
        alpha: see :func:`~bke.models.kernel_student_t`.
        beta: see :func:`~bke.models.kernel_student_t`.

    Returns:
        A number.
    """
    at = as_points(nodes, "nodes")
    rows = as_padded(as_points(X))
    density = kernel_student_t(rows, kernel, noise_variance=noise_variance, alpha=alpha, beta=beta)
    factor, points = density.cholesky_factor, jnp.asarray(density.rows.points)
    explained = solve_triangular(factor, density.cross_covariance(at).T, lower=True) ** 2
    before = jnp.cumsum(explained, axis=0) - explained  # by the rows before each, (N, G)
    variance = jnp.maximum(density.prior_variance(at) - before, noise_variance)
    exponents = 0.5 * (jnp.arange(1, len(points) + 1) + alpha)
    at_rows = density.log_volume_element(points) - 2.0 * exponents * jnp.log(jnp.diagonal(factor))
    at_nodes = density.log_volume_element(at) - exponents[:, None] * jnp.log(variance)
    return jnp.sum(at_rows - jax.nn.logsumexp(at_nodes + jnp.asarray(log_weights), axis=1))
