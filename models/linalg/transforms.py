"""A function's value and Jacobian in one pass, forward or backward, whichever is cheaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

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


F = TypeVar("F", bound=Callable[..., Any])


def sequential_vmap(function: F) -> F:
    """``function``, a loop under ``vmap`` where values of its arguments are batched.

    For branches: a batch goes through each of them for every entry, at once. Derivatives are
    forward ones. As ``jax.custom_batching.sequential_vmap``, which refuses a batch of tangents at
    one place.
    """
    wrapped = custom_vmap(function)

    @wrapped.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(arguments)
        batched = jax.tree.leaves(in_batched)
        if not any(batched):
            out = function(*arguments)
            return out, jax.tree.map(lambda _: False, out)

        def one(some: list[Any]) -> Any:
            rest = iter(some)
            every = [next(rest) if own else leaf for leaf, own in zip(leaves, batched, strict=True)]
            return wrapped(*jax.tree.unflatten(tree, every))

        own = [leaf for leaf, own in zip(leaves, batched, strict=True) if own]
        out = jax.lax.map(one, own)
        return out, jax.tree.map(lambda _: True, out)

    return wrapped  # type: ignore[return-value]
