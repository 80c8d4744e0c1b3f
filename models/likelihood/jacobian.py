"""The volume factor gamma of BKE (12), in log space, and the empirical embedding beside it.

``gamma(x_i)`` is a sum of kernel derivatives over the other points. For an isolated point or a
short lengthscale every term underflows, so the largest exponent is taken out first; pairs of
equal points contribute nothing to the slope of a kernel of x - y, and are masked *before* the
exponential, so gradients stay finite.
"""

from __future__ import annotations

import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..linalg.precision import double_precision
from ..linalg.rows import PaddedRows, as_padded, map_rows, maximum

#: Columns beyond which they are not compared one by one, a term of the compiled program each.
MANY_COLUMNS = 32


class Pushforward(NamedTuple):
    """The map x -> mu_hat(x) at one point: its value and the log of its volume element."""

    embedding: jax.Array  # (), BKE (2)
    log_jacobian: jax.Array  # (), log of BKE (12)
    cancellation: jax.Array  # (), |sum| over sum of |terms|: 0 where terms cancel exactly


def pushforward(x: jax.Array, points: jax.Array | PaddedRows, kernel: Kernel) -> Pushforward:
    """mu_hat and log gamma at one point ``x`` (D,) of the (n, D) ``points``.

    Both share one exponential, taken relative to the largest term with another point.
    """
    rows = as_padded(points)
    log_scale, value, gradient = jax.tree.map(
        lambda terms: terms[..., 0, :], kernel.value_and_grad(x[None], rows.points)
    )
    tied = _equal(x, rows.points) & kernel.translation_invariant
    exponent = jnp.where(rows.mask(~tied), log_scale, -jnp.inf)
    largest = maximum(exponent)
    # Any finite constant may be taken out; without a gradient of its own it cancels exactly.
    largest = jax.lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
    weight = jnp.exp(exponent - largest)
    # Sums by products with ones: the CPU makes these of whole rows at once.
    ones = jnp.ones(len(rows), log_scale.dtype)
    ties = rows.mask(tied).astype(ones.dtype) @ ones * kernel.matrix(x[None], x[None])[0, 0]
    embedding = (ties + jnp.exp(largest) * ((weight * value) @ ones)) / rows.number
    # In this order, in which terms of equal neighbours on both sides cancel exactly.
    slope = gradient @ weight
    # Slopes grow like lengthscale^-2: their squares would overflow, and far too short a
    # lengthscale would have an infinite density.
    unit = jax.lax.stop_gradient(jnp.max(jnp.abs(slope)))
    nonzero = unit > 0.0
    unit = jnp.where(nonzero, unit, 1.0)
    squared = jnp.sum((slope / unit) ** 2)
    log_length = jnp.log(unit) + 0.5 * jnp.log(jnp.where(nonzero, squared, 1.0))
    log_jacobian = jnp.where(nonzero, largest - jnp.log(rows.number) + log_length, -jnp.inf)
    return Pushforward(embedding, log_jacobian, _remainder(slope, jnp.abs(gradient) @ weight))


def _equal(x: jax.Array, points: jax.Array) -> jax.Array:
    """Which of the ``points`` (n, D) are ``x`` (D,), shape (n,)."""
    if len(x) > MANY_COLUMNS:
        return jnp.all(x == points, axis=1)
    return functools.reduce(operator.and_, [x[d] == points[:, d] for d in range(len(x))])


def _remainder(sums: jax.Array, sizes: jax.Array) -> jax.Array:
    """|sums| / |sizes|, (), of two vectors (D,), the second one the larger."""
    unit = jnp.max(sizes)
    unit = jnp.where(unit > 0.0, unit, 1.0)
    return jnp.sqrt(jnp.sum((sums / unit) ** 2) / jnp.sum((sizes / unit) ** 2))


@double_precision
def log_jacobian(X: ArrayLike, kernel: Kernel) -> jax.Array:
    """Log of the volume factor gamma(x_i) = |grad mu_hat(x_i)|, BKE (12).

    Args:
        X: data, shape (n, D) or (n,).
        kernel: the kernel; at a kink its derivative counts as 0.

    Returns:
        Shape (n,). ``-inf`` where the derivative is exactly zero, as happens where equal
        neighbours balance in rounded data; never from underflow of k.
    """
    points = as_points(X)
    return map_rows(lambda x: pushforward(x, points, kernel).log_jacobian, points, len(points))


def log_length(vectors: jax.Array) -> jax.Array:
    """Log lengths (k,) of vectors (k, D), without overflow; ``-inf`` for zero."""
    unit = jax.lax.stop_gradient(jnp.max(jnp.abs(vectors), axis=1))
    nonzero = unit > 0.0
    unit = jnp.where(nonzero, unit, 1.0)
    squared = jnp.sum((vectors / unit[:, None]) ** 2, axis=1)
    return jnp.where(
        nonzero, jnp.log(unit) + 0.5 * jnp.log(jnp.where(nonzero, squared, 1.0)), -jnp.inf
    )
