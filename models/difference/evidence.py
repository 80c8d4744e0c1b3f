"""The evidence that two samples differ at a scale and size: labels as values of a Gaussian process.

Let f be the density of the pooled rows z_i, p = f (1 + (1 - pi) h) and q = f (1 - pi h), with pi
the share of P's rows. Given the rows, a row is of P with probability ``pi + pi (1 - pi) h(z)``,
so the standardised label ``y_i = (1[i of P] - pi) / sqrt(pi (1 - pi))`` is ``sqrt(pi (1 - pi))
h(z_i)`` and noise of variance 1, to first order in h. With ``sqrt(pi (1 - pi)) h ~ GP(0, s^2
k)``, centred over the rows, y is N(0, I + s^2 H K H), and N(0, I) where P = Q. The ratio of the
two densities is a Bayes factor for a kernel and a size; only labels given rows are modelled, so
there is no volume factor.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points
from ..linalg.inverse import inverse_and_log_determinant
from ..linalg.precision import double_precision


def standardised_labels(m: int, n: int) -> jax.Array:
    """Labels (m + n,) of m rows of P and n of Q, whose mean is 0 and mean square 1."""
    share = m / (m + n)
    labels = jnp.concatenate([jnp.full(m, 1.0 - share), jnp.full(n, -share)])
    return labels / (share * (1.0 - share)) ** 0.5


@jax.custom_jvp
def _log_ratio(covariance: jax.Array, labels: jax.Array) -> jax.Array:
    """Evaluate log N(labels; 0, covariance) - log N(labels; 0, I)."""
    return _with_inverse(covariance, labels)[0]


def _with_inverse(covariance: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    inverse, log_determinant = inverse_and_log_determinant(covariance)
    quadratic = labels @ labels - labels @ inverse @ labels
    return 0.5 * (quadratic - log_determinant), inverse


@_log_ratio.defjvp
def _log_ratio_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Both from one inverse: reverse mode through a Cholesky factor costs ten times the value."""
    covariance, labels = primals
    value, inverse = _with_inverse(covariance, labels)
    weights = inverse @ labels
    slope = 0.5 * jnp.sum((jnp.outer(weights, weights) - inverse) * tangents[0])
    return value, slope + (labels - weights) @ tangents[1]


@double_precision
def log_difference_evidence(
    P: ArrayLike, Q: ArrayLike, kernel: Covariance, size: ArrayLike
) -> jax.Array:
    """Evaluate the log Bayes factor of a difference of P and Q at one kernel and size, nats.

    Args:
        P: rows (m, D) or (m,).
        Q: rows (n, D) or (n,).
        kernel: k, of the difference.
        size: s, the standard deviation of the labels' mean where k(x, x) = 1; positive.

    Returns:
        A number; differentiable in the parameters of ``kernel`` and in ``size``.

    Raises:
        ValueError: for rows of different columns.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    first, second = as_points(P), as_points(Q)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"P has {first.shape[1]} columns and Q has {second.shape[1]}")
    points = jnp.concatenate([first, second])
    gram = kernel(points, points)
    centred = gram - jnp.mean(gram, axis=0)
    centred = centred - jnp.mean(centred, axis=1)[:, None]
    covariance = jnp.eye(len(points)) + jnp.square(size) * centred
    return _log_ratio(covariance, standardised_labels(len(first), len(second)))
