"""Value and Jacobian of a function with few outputs, and batches one entry after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

F = TypeVar("F", bound=Callable[..., Any])


def value_and_jacobian(
    function: Callable[[jax.Array], jax.Array], theta: jax.Array, smallest_reverse: int = 3
) -> tuple[jax.Array, jax.Array]:
    """Compute ``function`` (k,) of ``theta`` (p,) for a small k, and its Jacobian (k, p).

    Args:
        function: function of one array.
        theta: parameters, shape (p,).
        smallest_reverse: number of parameters from which one backward pass per output is used.
            Forward mode shares every exponential with the value, so it is cheaper for one or two.
    """
    if theta.size < smallest_reverse:

        def derivative(direction: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(function, (theta,), (direction,))

        if theta.size == 1:
            value, tangent = derivative(jnp.ones_like(theta))
            return value, tangent[:, None]
        return jax.vmap(derivative, out_axes=(None, 1))(jnp.eye(theta.size, dtype=theta.dtype))
    value, pull_back = jax.vjp(function, theta)
    (jacobian,) = jax.vmap(pull_back)(jnp.eye(value.size, dtype=value.dtype))
    return value, jacobian


def sequential_vmap(function: F) -> F:
    """Make ``vmap`` of a function a loop over the arguments whose values are batched.

    For functions with branches: ``vmap`` would evaluate every branch for every entry. Derivatives
    are forward ones. ``jax.custom_batching.sequential_vmap`` does the same, but refuses a batch of
    tangents at one point.
    """
    wrapped = custom_vmap(function)

    @wrapped.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(arguments)
        batched = [i for i, is_batched in enumerate(jax.tree.leaves(in_batched)) if is_batched]
        if not batched:
            out = function(*arguments)
            return out, jax.tree.map(lambda _: False, out)

        def evaluate(entries: list[Any]) -> Any:
            entry_leaves = list(leaves)
            for i, entry in zip(batched, entries, strict=True):
                entry_leaves[i] = entry
            return wrapped(*jax.tree.unflatten(tree, entry_leaves))

        out = jax.lax.map(evaluate, [leaves[i] for i in batched])
        return out, jax.tree.map(lambda _: True, out)

    return wrapped  # type: ignore[return-value]
