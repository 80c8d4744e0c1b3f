"""Volume element of the features phi(x) = [k(x, z_1), ..., k(x, z_m)], without underflow.

Where landmarks, or a row and landmarks, are within about 1e-12 (over the lengthscale) of each other
or of one line, log gamma loses digits, to an error of 0.01, or is -inf, for the differences
themselves are rounded; at 1e-9 the error is at most 2e-8.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.base import Kernel, Radial, differences, per_column, squared_distance


def log_jacobian_at(X: jax.Array, landmarks: jax.Array, kernel: Kernel) -> jax.Array:
    """Compute the log volume element of the feature map at every row of ``X`` (n, D), shape (n,).

    gamma(x) = det[ sum_l grad k(x, z_l) grad k(x, z_l)' ]^(1/2), the volume of the image under phi
    of a unit of volume at x. ``-inf`` where the gradients do not span R^D.
    """

    def by_gradients() -> tuple[jax.Array, jax.Array]:
        terms = kernel.value_and_grad(X, landmarks)
        return jnp.moveaxis(terms.gradient, 1, 0), terms.log_scale

    if not isinstance(kernel, Radial) or X.shape[1] == 1:
        return log_jacobian_of_gradients(*by_gradients())
    value, accurate = _by_moments(X, landmarks, kernel)
    return jax.lax.cond(
        jnp.all(accurate),
        lambda: value,
        lambda: jnp.where(accurate, value, log_jacobian_by_pivoting(*by_gradients())),
    )


def _by_moments(X: jax.Array, landmarks: jax.Array, kernel: Radial) -> tuple[jax.Array, jax.Array]:
    """Compute the log volume element (n,) by moments of the landmarks, and where it is accurate.

    With weights w_l the matrix of gamma is that of sum_l w_l (x - z_l)(x - z_l)' over the squared
    lengthscale, so sum w times the landmarks' covariance and (x - z)(x - z)', z their mean:
    products of matrices in place of D^2 sums for each row.
    """
    dimension = X.shape[1]
    lengthscale = per_column(kernel.lengthscale, dimension, "lengthscale")
    terms = kernel.value_and_decay(squared_distance(differences(X, landmarks), lengthscale))
    center = jnp.mean(landmarks, axis=0)
    x, z = X - center, landmarks - center
    largest = _finite(jnp.max(jax.lax.stop_gradient(terms.log_scale), axis=1))
    weight = (jnp.exp(terms.log_scale - largest[:, None]) * terms.decay) ** 2
    i, j = np.triu_indices(dimension)
    index = np.zeros((dimension, dimension), dtype=int)
    index[i, j] = index[j, i] = np.arange(len(i))
    powers = jnp.concatenate([jnp.ones((len(z), 1)), z, z[:, i] * z[:, j]], axis=1)
    sums = weight @ powers
    total = jnp.where(sums[:, 0] > 0.0, sums[:, 0], 1.0)
    mean, second = jnp.split(sums[:, 1:] / total[:, None], [dimension], axis=1)
    second = second[:, index]
    delta = x - mean
    gram = second - mean[:, :, None] * mean[:, None] + delta[:, :, None] * delta[:, None]
    diagonal, size = (
        jnp.diagonal(jax.lax.stop_gradient(matrix), axis1=1, axis2=2) for matrix in (gram, second)
    )
    # Cancellation loses digits as well.
    lost = jnp.maximum(jnp.sqrt(jnp.max(size / diagonal, axis=1)), 1.0)
    half_log_determinant, accurate = _half_log_determinant(gram, lost)
    log_lengthscales = jnp.sum(jnp.broadcast_to(jnp.log(lengthscale), (dimension, 1, 1)))
    scale = dimension * (largest + 0.5 * jnp.log(total)) - 2.0 * log_lengthscales
    return scale + half_log_determinant, accurate & (sums[:, 0] > 0.0)


def _finite(values: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(values), values, 0.0)


def log_jacobian_of_gradients(gradient: jax.Array, log_weight: jax.Array) -> jax.Array:
    """Compute half the log determinant of sum_l w_l^2 g_l g_l'; weights may differ by e^1000.

    Args:
        gradient: g, shape (n, D, m).
        log_weight: log w, shape (n, m).

    Returns:
        Shape (n,).
    """
    dimension = gradient.shape[1]
    largest = _finite(jnp.max(jax.lax.stop_gradient(log_weight), axis=1))
    weighted = gradient * jnp.exp(log_weight - largest[:, None])[:, None]
    # Gradients grow like lengthscale^-2: their squares would overflow.
    unit = jax.lax.stop_gradient(jnp.max(jnp.abs(weighted), axis=2))
    unit = jnp.where(unit > 0.0, unit, 1.0)
    weighted = weighted / unit[:, :, None]
    scale = dimension * largest + jnp.sum(jnp.log(unit), axis=1)
    if dimension == 1:
        squared = jnp.sum(weighted[:, 0] ** 2, axis=1)
        nonzero = squared > 0.0
        log_length = 0.5 * jnp.log(jnp.where(nonzero, squared, 1.0))
        return jnp.where(nonzero, scale + log_length, -jnp.inf)
    gram = jnp.einsum("nim,njm->nij", weighted, weighted)
    half_log_determinant, accurate = _half_log_determinant(gram)
    value = scale + half_log_determinant
    return jax.lax.cond(
        jnp.all(accurate),
        lambda: value,
        lambda: jnp.where(accurate, value, log_jacobian_by_pivoting(gradient, log_weight)),
    )


def _half_log_determinant(
    gram: jax.Array, lost: jax.Array | float = 1.0, smallest_pivots: float = 1e-3
) -> tuple[jax.Array, jax.Array]:
    """Compute half the log determinant of every matrix (n, D, D), and where it is accurate.

    That is where the product of the pivots of its correlation matrix is more than
    ``smallest_pivots`` times the digits ``lost`` before: at 1e-3 it is right to 1e-9.
    """
    fixed = jax.lax.stop_gradient(gram)
    diagonal = jnp.diagonal(fixed, axis1=1, axis2=2)
    # Each small pivot takes digits from those after it: hence the product. (XLA may take infinity
    # for the smallest of NaN.)
    accurate = jnp.prod(_pivots(fixed) / jnp.sqrt(diagonal), axis=1) > smallest_pivots * lost
    # Elsewhere a matrix that has a derivative.
    gram = jnp.where(accurate[:, None, None], gram, jnp.eye(gram.shape[1]))
    return jnp.sum(jnp.log(_pivots(gram)), axis=1), accurate


def _pivots(gram: jax.Array) -> jax.Array:
    """Compute the diagonal of the Cholesky factor, (n, D)."""
    return jnp.diagonal(jnp.linalg.cholesky(gram), axis1=1, axis2=2)


def log_jacobian_by_pivoting(
    gradient: jax.Array,
    log_weight: jax.Array,
    largest_exponent: float = 700.0,
    resolution: float = 2.0**-44,
) -> jax.Array:
    """Compute what :func:`log_jacobian_of_gradients` does in coordinates with a scale each.

    A sum of squares in the usual coordinates would lose the light gradients next to the heavy ones,
    and with them the determinant. These coordinates are along the heaviest gradient, the heaviest
    of what is orthogonal to that, and so on.

    Args:
        gradient: g, shape (n, D, m).
        log_weight: log w, shape (n, m).
        largest_exponent: exponents are cut there: so much heavier gradients count in derivatives
            only. Near the largest exponent of a double.
        resolution: a remainder of a gradient, over its length, is rounding error up to this.
    """
    dimension, m = gradient.shape[1:]
    rest = gradient
    size = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(gradient) ** 2, axis=1))  # (n, m)
    rows, scales = [], []
    for _ in range(dimension):
        norm = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(rest) ** 2, axis=1))  # (n, m)
        heaviest = jnp.argmax(log_weight + jnp.log(norm), axis=1)[:, None]
        pivot = jnp.take_along_axis(rest, heaviest[:, None], axis=2)[:, :, 0]
        length = jnp.take_along_axis(norm, heaviest, axis=1)
        # Any orthonormal coordinates have this determinant: they need no derivative.
        axis = jax.lax.stop_gradient(pivot / jnp.where(length > 0.0, length, 1.0))
        along = jnp.einsum("nd,ndm->nm", axis, rest)
        scale = jnp.max(jax.lax.stop_gradient(log_weight + jnp.log(jnp.abs(along))), axis=1)
        scale = _finite(scale)
        exponent = jnp.minimum(log_weight - scale[:, None], largest_exponent)
        rows.append(along * jnp.exp(exponent))
        scales.append(scale)
        rest = rest - axis[:, :, None] * along[:, None, :]
        # Nothing is left of the pivot, or of what is along it: not even rounding error, which may
        # be more than all the others.
        left = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(rest) ** 2, axis=1))
        zero = (left <= resolution * size) | (heaviest == jnp.arange(m))
        rest = jnp.where(zero[:, None, :], rest - jax.lax.stop_gradient(rest), rest)
    H = jnp.stack(rows, axis=1)  # (n, D, m)
    gram = jnp.einsum("nim,njm->nij", H, H)
    spanned = jnp.all(jnp.diagonal(gram, axis1=1, axis2=2) > 0.0, axis=1)
    gram = jnp.where(spanned[:, None, None], gram, jnp.eye(dimension))
    total = sum(scales) + jnp.sum(jnp.log(_pivots(gram)), axis=1)
    return jnp.where(spanned, total, -jnp.inf)
