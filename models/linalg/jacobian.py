"""A function's value and Jacobian in one pass, forward or backward, whichever is cheaper."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

#: From this many parameters on, one backward pass per output is cheaper. Forward mode shares every
#: exponential with the value, so it wins for one or two.
SMALLEST_REVERSE = 3


def value_and_jacobian(
    function: Callable[[jax.Array], jax.Array],
    theta: jax.Array,
    smallest_reverse: int = SMALLEST_REVERSE,
) -> tuple[jax.Array, jax.Array]:
    """``function`` (k,) of ``theta`` (p,) for a small k, and its Jacobian (k, p).

    Backward from ``smallest_reverse`` parameters on.
    """
    if theta.size == 1:
        value, slope = jax.jvp(function, (theta,), (jnp.ones_like(theta),))
        return value, slope[:, None]
    if theta.size < smallest_reverse:

        def along(step: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(function, (theta,), (step,))

        return jax.vmap(along, out_axes=(None, 1))(jnp.eye(theta.size, dtype=theta.dtype))
    value, pull_back = jax.vjp(function, theta)
    (jacobian,) = jax.vmap(pull_back)(jnp.eye(value.size, dtype=value.dtype))
    return value, jacobian
