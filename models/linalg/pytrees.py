"""Dataclasses as pytrees whose structures differ between classes.

Structures of nodes that ``jax.tree_util.register_dataclass`` made are equal, with JAX up to 0.10
at least, whatever their classes, as long as their fields are alike; their hashes are not. A cache
of compiled functions compares structures only where a few bits of hashes agree: about once in a
hundred processes that use two such classes it takes the program of the one for the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, TypeVar

import jax

Class = TypeVar("Class", bound=type)


def register_dataclass(cls: Class) -> Class:
    """Register a dataclass as a pytree, as ``jax.tree_util.register_dataclass`` does.

    Its fields are children, except those with ``metadata={"static": True}``, which belong to the
    structure, and those that ``__init__`` does not take. Structures of different classes differ.

    Args:
        cls: a dataclass, whose constructor takes its fields by name.

    Raises:
        TypeError: for a class that is not a dataclass.
    """
    fields = [field for field in dataclasses.fields(cls) if field.init]
    static = tuple(field.name for field in fields if field.metadata.get("static", False))
    data = tuple(field.name for field in fields if field.name not in static)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in data)

    def flatten(instance: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        structure = tuple(getattr(instance, name) for name in static)
        return tuple(getattr(instance, name) for name in data), structure

    def flatten_with_keys(instance: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, structure = flatten(instance)
        return tuple(zip(keys, children, strict=True)), structure

    def build(structure: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return cls(**dict(zip(data + static, (*children, *structure), strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, build, flatten)
    return cls


def has_ambiguous_structure(instance: Any) -> bool:
    """Return whether another class with the same fields would have an equal pytree structure."""
    values = {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
    cls: Any = type(instance)
    structure: Any = jax.tree_util.tree_structure(instance)
    return bool(structure == jax.tree_util.tree_structure(_twin(cls)(**values)))


@functools.cache
def _twin(cls: type) -> type:
    """Return another class with the same fields, registered by JAX."""
    fields = [
        (field.name, Any, dataclasses.field(metadata=dict(field.metadata)))
        for field in dataclasses.fields(cls)
    ]
    twin = dataclasses.make_dataclass(cls.__name__, fields, frozen=True)
    return jax.tree_util.register_dataclass(twin)
