"""Batches evaluated one entry after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax.custom_batching import custom_vmap

F = TypeVar("F", bound=Callable[..., Any])


def one_by_one(function: F) -> F:
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
