"""phi(x) = [k(x, z_1), ..., k(x, z_m)] and its volume element, without underflow far away.

Where landmarks, or a row and landmarks, are within some 1e-12 (over the lengthscale) of each other
or of one line, log gamma loses digits, to an error of 0.01, or is -inf, for the differences
themselves are rounded; at 1e-9 the error is at most 2e-8.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.base import Kernel, differences, per_column
from ..kernels.radial import Radial, squared_distance

#: Exponents beyond are cut: rows so much heavier than others count in derivatives only.
LARGEST_EXPONENT = 700.0
#: What is left of a gradient, over its length, is rounding error up to this.
RESOLUTION = 2.0**-44
#: Smallest product of the pivots of a correlation matrix whose determinant is taken from its
#: Cholesky factor: its logarithm is then right to 1e-9.
SMALLEST_PIVOTS = 1e-3


def feature_map(X: jax.Array, landmarks: jax.Array, kernel: Kernel) -> jax.Array:
    """Phi at every row of ``X`` (n, D), shape (n, m)."""
    terms = kernel.terms(X, landmarks)
    return jnp.exp(terms.log_scale) * terms.value


def log_jacobian_at(X: jax.Array, landmarks: jax.Array, kernel: Kernel) -> jax.Array:
    """Log gamma at every row of ``X`` (n, D), shape (n,).

    gamma(x) = det[ sum_l grad k(x, z_l) grad k(x, z_l)' ]^(1/2), the volume that phi gives to a
    unit of space at x. ``-inf`` where the gradients do not span it.
    """
    if isinstance(kernel, Radial) and X.shape[1] > 1:
        usual, known = _by_moments(X, landmarks, kernel)
    else:
        terms = kernel.terms(X, landmarks)
        return log_jacobian_of_gradients(jnp.moveaxis(terms.gradient, 1, 0), terms.log_scale)

    def by_gradients() -> jax.Array:
        terms = kernel.terms(X, landmarks)
        exact = log_jacobian_by_pivoting(jnp.moveaxis(terms.gradient, 1, 0), terms.log_scale)
        return jnp.where(known, usual, exact)

    return jax.lax.cond(jnp.all(known), lambda: usual, by_gradients)


def _by_moments(X: jax.Array, landmarks: jax.Array, kernel: Radial) -> tuple[jax.Array, jax.Array]:
    """Log gamma (n,) by moments of the landmarks around x, and where that will do.

    With weights w_l the matrix of gamma is that of sum_l w_l (x - z_l)(x - z_l)' over the squared
    lengthscale, so sum w times the landmarks' covariance and (x - z)(x - z)', z their mean:
    products of matrices in place of D^2 sums for each row.
    """
    dimension = X.shape[1]
    lengthscale = per_column(kernel.lengthscale, dimension, "lengthscale")
    terms = kernel.of(squared_distance(differences(X, landmarks), lengthscale))
    centre = jnp.mean(landmarks, axis=0)
    x, z = X - centre, landmarks - centre
    largest = jax.lax.stop_gradient(jnp.max(terms.log_scale, axis=1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weight = (jnp.exp(terms.log_scale - largest[:, None]) * terms.pull) ** 2
    rows, columns = np.triu_indices(dimension)
    place = np.zeros((dimension, dimension), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    powers = jnp.concatenate([jnp.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)
    sums = weight @ powers
    total = jnp.where(sums[:, 0] > 0.0, sums[:, 0], 1.0)
    mean, second = jnp.split(sums[:, 1:] / total[:, None], [dimension], axis=1)
    second = second[:, place]
    apart = x - mean
    gram = second - mean[:, :, None] * mean[:, None] + apart[:, :, None] * apart[:, None]
    diagonal, size = (
        jnp.diagonal(jax.lax.stop_gradient(each), axis1=1, axis2=2) for each in (gram, second)
    )
    # What cancels takes digits as well.
    lost = jnp.maximum(jnp.sqrt(jnp.max(size / diagonal, axis=1)), 1.0)
    of_gram, known = _half_log_determinant(gram, SMALLEST_PIVOTS * lost)
    known &= sums[:, 0] > 0.0
    of_units = jnp.sum(jnp.broadcast_to(jnp.log(lengthscale), (dimension, 1, 1)))
    scale = dimension * (largest + 0.5 * jnp.log(total)) - 2.0 * of_units
    return scale + of_gram, known


def log_jacobian_of_gradients(gradient: jax.Array, log_weight: jax.Array) -> jax.Array:
    """Half the log determinant of sum_l w_l^2 g_l g_l', for weights that may differ by e^1000.

    Args:
        gradient: g, (n, D, m).
        log_weight: log w, (n, m).
    """
    usual, known = _usual(gradient, log_weight)
    if gradient.shape[1] == 1:
        return usual
    return jax.lax.cond(
        jnp.all(known),
        lambda: usual,
        lambda: jnp.where(known, usual, log_jacobian_by_pivoting(gradient, log_weight)),
    )


def _usual(gradient: jax.Array, log_weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log volumes by the sum itself, and where that will do."""
    dimension = gradient.shape[1]
    largest = jax.lax.stop_gradient(jnp.max(log_weight, axis=1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weighted = gradient * jnp.exp(log_weight - largest[:, None])[:, None]
    # Slopes grow like lengthscale^-2: their squares would overflow.
    unit = jax.lax.stop_gradient(jnp.max(jnp.abs(weighted), axis=2))
    unit = jnp.where(unit > 0.0, unit, 1.0)
    weighted = weighted / unit[:, :, None]
    scale = dimension * largest + jnp.sum(jnp.log(unit), axis=1)
    if dimension == 1:
        squared = jnp.sum(weighted[:, 0] ** 2, axis=1)
        nonzero = squared > 0.0
        log_length = 0.5 * jnp.log(jnp.where(nonzero, squared, 1.0))
        return jnp.where(nonzero, scale + log_length, -jnp.inf), nonzero
    gram = jnp.einsum("nim,njm->nij", weighted, weighted)
    of_gram, known = _half_log_determinant(gram, SMALLEST_PIVOTS)
    return scale + of_gram, known


def _half_log_determinant(
    gram: jax.Array, smallest: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Half the log determinant of every matrix (n, D, D), and where it may be trusted.

    That is where the product of its pivots is not below the ``smallest``.
    """
    fixed = jax.lax.stop_gradient(gram)
    diagonal = jnp.diagonal(fixed, axis1=1, axis2=2)
    # Each small pivot takes digits from those after it. (Of NaN, XLA may take the smallest for
    # infinity: not by that.)
    known = jnp.prod(_pivots(fixed) / jnp.sqrt(diagonal), axis=1) > smallest
    # Where it will not do, a matrix that has a derivative.
    gram = jnp.where(known[:, None, None], gram, jnp.eye(gram.shape[1]))
    return jnp.sum(jnp.log(_pivots(gram)), axis=1), known


def _pivots(gram: jax.Array) -> jax.Array:
    """Diagonal of the Cholesky factor, (n, D)."""
    return jnp.diagonal(jnp.linalg.cholesky(gram), axis1=1, axis2=2)


def log_jacobian_by_pivoting(gradient: jax.Array, log_weight: jax.Array) -> jax.Array:
    """Log volume elements by coordinates with a scale of each.

    A sum of squares in the usual coordinates would lose the light gradients beside the heavy ones,
    and with them the determinant. These are along the heaviest gradient, the heaviest of what is
    orthogonal to that, and so on.
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
        scale = jnp.where(jnp.isfinite(scale), scale, 0.0)
        exponent = jnp.minimum(log_weight - scale[:, None], LARGEST_EXPONENT)
        rows.append(along * jnp.exp(exponent))
        scales.append(scale)
        rest = rest - axis[:, :, None] * along[:, None, :]
        # Nothing is left of the pivot, or of what is along it: not even rounding error, which may
        # be more than all the others.
        left = jnp.sqrt(jnp.sum(jax.lax.stop_gradient(rest) ** 2, axis=1))
        gone = (left <= RESOLUTION * size) | (heaviest == jnp.arange(m))
        rest = jnp.where(gone[:, None, :], rest - jax.lax.stop_gradient(rest), rest)
    H = jnp.stack(rows, axis=1)  # (n, D, m)
    gram = jnp.einsum("nim,njm->nij", H, H)
    spanned = jnp.all(jnp.diagonal(gram, axis1=1, axis2=2) > 0.0, axis=1)
    gram = jnp.where(spanned[:, None, None], gram, jnp.eye(dimension))
    total = sum(scales) + jnp.sum(jnp.log(_pivots(gram)), axis=1)
    return jnp.where(spanned, total, -jnp.inf)
