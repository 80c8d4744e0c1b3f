"""How well rows are predicted by the others: what hyperparameters are chosen by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points
from ..linalg.padding import as_padded, shared_size
from ..linalg.precision import double_precision
from .density import KernelStudentT, kernel_student_t, log_volume_element
from .quadrature import Bounds, box_of, integrate, lengths_of


def leave_one_out_log_densities(
    density: KernelStudentT,
    bounds: Bounds | None = None,
    *,
    rows: ArrayLike | None = None,
    tolerance: float = 1e-3,
) -> np.ndarray:
    """Log of the normalised density of rows, each given all the others, (N,); N is at least 2.

    s of x_n without row n is 1 / (A^-1)_nn, and s of any x without it that with it plus
    (A^-1 a(x))_n^2 / (A^-1)_nn: all rows' integrals are found at once, from one factor.

    Args:
        density: on R or R^2.
        bounds: see :func:`~bke.models.log_normalizer`.
        rows: which rows, whole numbers (m,) from 0; all by default.
        tolerance: of each integral, relative.

    Raises:
        ValueError: see :func:`~bke.models.log_normalizer`.
        ArithmeticError: likewise.
    """
    low, high = box_of(density, bounds)
    data = np.asarray(density.rows.data)
    of = np.arange(len(data)) if rows is None else np.asarray(rows)
    values = np.asarray(density.leave_one_out_log_density(1))[of]
    offset = float(np.max(density.log_density(data)))
    inverse = _inverse(density)
    found = integrate(
        lambda at: np.exp(_without_each(density, inverse, at, of) - offset),
        data,
        low,
        high,
        tolerance,
        lengths_of(density),
    )
    return np.asarray(values) - offset - np.log(found.estimate)


@double_precision
def _inverse(density: KernelStudentT) -> jax.Array:
    return density.inverse()


@double_precision
def _without_each(
    density: KernelStudentT, inverse: jax.Array, at: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Log q of points (m, D) given all rows but one, (m, number of those)."""
    filled = np.pad(at, ((0, shared_size(len(at), per_octave=2) - len(at)), (0, 0)), mode="edge")
    found = _log_densities_without_each(density, inverse, jnp.asarray(filled), jnp.asarray(rows))
    return np.asarray(found)[: len(at)]


@jax.jit
def _log_densities_without_each(
    density: KernelStudentT, inverse: jax.Array, at: jax.Array, rows: jax.Array
) -> jax.Array:
    sections = density.cross_covariance(at)
    weights = sections @ inverse
    left = density.prior_variance(at) - jnp.sum(sections * weights, axis=1)
    without = left[:, None] + weights[:, rows] ** 2 / jnp.diagonal(inverse)[rows]
    ratio = jnp.maximum(without / density.noise_variance, 1.0)
    value = -(density.exponent - 0.5) * jnp.log(ratio)
    if density.kernel.translation_invariant:
        return value
    return value + log_volume_element(at, density.kernel)[:, None]


@double_precision
def hyvarinen_scores(
    density: KernelStudentT, at: ArrayLike | None = None, *, rows: ArrayLike | None = None
) -> jax.Array:
    """Laplacian of log q plus half its squared gradient, at rows given all the others.

    Their mean is the objective of score matching (Hyvarinen, *Estimation of non-normalized
    statistical models by score matching*, JMLR 2005), which needs no normalizer: smaller is better,
    in any number of columns, at a cost of N^2 D for each. For a kernel that is twice
    differentiable; the edge of a box that the density is restricted to plays no role in it. Rows of
    very different density have scores of very different size, and those of the narrowest mode
    decide: of data of several scales it chooses for the smallest.

    Args:
        density: of at least 2 rows.
        at: other points, (m, D) or (m,), instead of its rows; they are given all of these.
        rows: which of its rows, whole numbers (m,) from 0; all by default.

    Returns:
        Shape (m,).

    Raises:
        ValueError: the kernel is not known to be twice differentiable.
    """
    log_volume_element(density.rows.data[:1], density.kernel)  # raises without derivatives
    if at is not None:
        return _hyvarinen_scores_at(density, density.check_points(at))
    of = jnp.arange(int(density.rows.number)) if rows is None else jnp.asarray(rows)
    return _hyvarinen_scores(density, of)


@jax.jit
def _hyvarinen_scores(density: KernelStudentT, rows: jax.Array) -> jax.Array:
    inverse = density.inverse()
    points = jnp.asarray(density.rows.points)
    numbers = jnp.arange(len(points))

    def one(row: jax.Array) -> jax.Array:
        column = inverse[:, row]

        def log_density(x: jax.Array) -> jax.Array:
            a = jnp.where(numbers != row, density.cross_covariance(x[None])[0], 0.0)
            explained = a @ inverse @ a - (column @ a) ** 2 / inverse[row, row]
            left = density.prior_variance(x[None])[0] - explained
            value = -(density.exponent - 0.5) * jnp.log(left)
            if density.kernel.translation_invariant:
                return value
            return value + log_volume_element(x[None], density.kernel)[0]

        return _hyvarinen_score(log_density, points[row])

    return jax.lax.map(one, rows, batch_size=16)


@jax.jit
def _hyvarinen_scores_at(density: KernelStudentT, at: jax.Array) -> jax.Array:
    def one(x: jax.Array) -> jax.Array:
        return _hyvarinen_score(lambda x: density.log_density(x[None])[0], x)

    return jax.lax.map(one, at, batch_size=16)


def _hyvarinen_score(log_density: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    gradient, along = jax.linearize(jax.grad(log_density), x)
    laplacian = jnp.trace(jax.vmap(along)(jnp.eye(len(x))))
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
    """Log of the product of the normalised densities of each row given those before it.

    The rows' joint density where each is drawn from the predictive of the last ones, as the fantasy
    data of KST section 4 are. It hangs on the order of rows, because the normalizers do. One
    Cholesky factor gives all: s of x_n given the rows before is the square of its n-th diagonal
    entry, and s of a node goes down by the square of (L^-1 a)_n with the n-th row.

    Args:
        X: rows in their order, shape (N, D) or (N,).
        kernel: k; its parameters and the other hyperparameters may be traced.
        nodes: of a quadrature rule for the set that the density is on, (G, D).
        log_weights: logarithms of its weights, (G,).
        noise_variance: sigma_0^2, see :func:`~bke.models.kernel_student_t`.
        alpha: likewise.
        beta: likewise.
    """
    at = as_points(nodes, "nodes")
    rows = as_padded(as_points(X))
    density = kernel_student_t(rows, kernel, noise_variance=noise_variance, alpha=alpha, beta=beta)
    points = jnp.asarray(density.rows.points)
    size = len(points)
    explained = (
        solve_triangular(density.cholesky_factor, density.cross_covariance(at).T, lower=True) ** 2
    )
    before = jnp.cumsum(explained, axis=0) - explained  # of the rows before each, (N, G)
    left = jnp.maximum(density.prior_variance(at) - before, noise_variance)
    exponents = 0.5 * (jnp.arange(1, size + 1) + alpha)
    own = -2.0 * exponents * jnp.log(jnp.diagonal(density.cholesky_factor))
    everywhere = -exponents[:, None] * jnp.log(left) + jnp.asarray(log_weights)
    if not kernel.translation_invariant:
        own += log_volume_element(points, kernel)
        everywhere += log_volume_element(at, kernel)
    return jnp.sum(own - jax.nn.logsumexp(everywhere, axis=1))
