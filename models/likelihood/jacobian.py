"""The empirical embedding at a point, and its Jacobian factor gamma of BKE (12), in log space.

``gamma(x_i)`` is a sum of kernel derivatives over the other points. For an isolated point or a
short lengthscale every term underflows, so the largest exponent is taken out first; pairs of
equal points contribute nothing to the gradient of a kernel of x - y, and are masked *before* the
exponential, so gradients stay finite.
"""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..linalg.derivatives import value_and_jacobian
from ..linalg.precision import double_precision
from ..linalg.rows import PaddedRows, as_padded, contiguous_columns, map_rows, maximum


def embedding_and_log_jacobian(
    x: jax.Array, points: jax.Array | PaddedRows, kernel: Kernel
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute mu_hat and log gamma at one point ``x`` (D,) of the (n, D) ``points``.

    Both share one exponential, taken relative to the largest term with another point.

    Returns:
        mu_hat(x), BKE (2); log gamma(x), BKE (12); and |sum| over the sum of |terms| of the
        gradient, 0 where terms cancel exactly; each of shape ().
    """
    rows = as_padded(points)
    log_scale, value, gradient = jax.tree.map(
        lambda terms: terms[..., 0, :], kernel.value_and_grad(x[None], rows.points)
    )
    tied = _equals(x, rows.points) & kernel.translation_invariant
    exponent = jnp.where(rows.mask(~tied), log_scale, -jnp.inf)
    largest = maximum(exponent)
    # Any finite constant may be taken out; without a gradient it cancels exactly.
    largest = jax.lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0.0))
    weight = jnp.exp(exponent - largest)
    # Products with ones are faster than sums on the CPU: many rows at once.
    ones = jnp.ones(len(rows), log_scale.dtype)
    ties = rows.mask(tied).astype(ones.dtype) @ ones * kernel.matrix(x[None], x[None])[0, 0]
    embedding = (ties + jnp.exp(largest) * ((weight * value) @ ones)) / rows.number
    # In this order, in which terms of equal neighbors on both sides cancel exactly.
    total, size = gradient @ weight, jnp.abs(gradient) @ weight
    log_jacobian = largest - jnp.log(rows.number) + log_length(total[None])[0]
    unit = jnp.max(size)
    unit = jnp.where(unit > 0.0, unit, 1.0)
    cancellation = jnp.sqrt(jnp.sum((total / unit) ** 2) / jnp.sum((size / unit) ** 2))
    return embedding, log_jacobian, cancellation


def _equals(x: jax.Array, points: jax.Array, max_unrolled: int = 32) -> jax.Array:
    """Return which of the ``points`` (n, D) equal ``x`` (D,), shape (n,).

    Up to ``max_unrolled`` columns are compared one by one, each an operation of the compiled
    program (not tuned).
    """
    if len(x) > max_unrolled:
        return jnp.all(x == points, axis=1)
    return functools.reduce(operator.and_, [x[d] == points[:, d] for d in range(len(x))])


def embedding_values(
    X: jax.Array, points: jax.Array | PaddedRows, kernel: Kernel
) -> tuple[jax.Array, jax.Array]:
    """Compute mu_hat and log gamma at the rows of ``X`` (k, D), (k,) each."""
    values: tuple[jax.Array, jax.Array] = map_rows(
        lambda x: embedding_and_log_jacobian(x, points, kernel)[:2], X, len(points)
    )
    return values


def embedding_gradients(
    points: jax.Array | PaddedRows, indices: jax.Array, kernel: Kernel
) -> tuple[jax.Array, jax.Array]:
    """Compute mu_hat and log gamma at some rows (2, k), and the gradients of both (k, 2, p).

    In the p numbers of ``kernel``.
    """
    rows = as_padded(points)
    columns = contiguous_columns(rows.points)
    theta, unravel = ravel_pytree(kernel)

    def at_row(i: jax.Array) -> tuple[jax.Array, jax.Array]:
        def both(theta: jax.Array) -> jax.Array:
            # Inside of the loop, which then reads the columns in memory order.
            points = PaddedRows(columns.T, rows.count)
            x = columns.at[:, i].get(mode="promise_in_bounds")
            return jnp.stack(embedding_and_log_jacobian(x, points, unravel(theta))[:2])

        return value_and_jacobian(both, theta)

    values, gradients = map_rows(at_row, indices, len(rows))
    return values.T, gradients


@double_precision
def log_jacobian(X: ArrayLike, kernel: Kernel) -> jax.Array:
    """Compute the log of the Jacobian factor gamma(x_i) = |grad mu_hat(x_i)|, BKE (12).

    Args:
        X: data, shape (n, D) or (n,).
        kernel: the kernel; at a kink its derivative counts as 0.

    Returns:
        Shape (n,). ``-inf`` where the derivative is exactly zero, as happens where equal
        neighbors balance in rounded data; never from underflow of k.
    """
    points = as_points(X)
    return embedding_values(points, points, kernel)[1]


def log_length(vectors: jax.Array) -> jax.Array:
    """Compute the log lengths (k,) of vectors (k, D), without overflow; ``-inf`` for zero.

    Gradients of k grow like lengthscale^-2: their squares would overflow, and far too short a
    lengthscale would have an infinite density.
    """
    unit = jax.lax.stop_gradient(jnp.max(jnp.abs(vectors), axis=1))
    nonzero = unit > 0.0
    unit = jnp.where(nonzero, unit, 1.0)
    squared = jnp.sum((vectors / unit[:, None]) ** 2, axis=1)
    return jnp.where(
        nonzero, jnp.log(unit) + 0.5 * jnp.log(jnp.where(nonzero, squared, 1.0)), -jnp.inf
    )


def log_norm(gradient: jax.Array, underflow: float = -700.0) -> jax.Array:
    """Compute the log of the norm of every row of ``gradient`` (n, D).

    ``underflow`` is the log of a gradient that is zero, relative to the largest term; near the
    smallest exponent of a double.
    """
    return jnp.maximum(log_length(gradient), underflow)
