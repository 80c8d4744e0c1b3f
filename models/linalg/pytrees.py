"""Dataclasses as pytrees whose structures tell their classes apart.

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

    Its fields are children, but those of ``metadata={"static": True}``, which belong to the
    structure; those that ``__init__`` does not take are left to it. Structures of different
    classes differ.

    Args:
        cls: a dataclass, whose constructor takes its fields by name.

    Raises:
        TypeError: for what is no dataclass.
    """
    fields = [field for field in dataclasses.fields(cls) if field.init]
    static = tuple(field.name for field in fields if field.metadata.get("static", False))
    data = tuple(field.name for field in fields if field.name not in static)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in data)

    def values(one: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
        return tuple(getattr(one, name) for name in names)

    def made(structure: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return cls(
            **dict(zip(data, children, strict=True)), **dict(zip(static, structure, strict=True))
        )

    jax.tree_util.register_pytree_with_keys(
        cls,
        lambda one: (tuple(zip(keys, values(one, data), strict=True)), values(one, static)),
        made,
        lambda one: (values(one, data), values(one, static)),
    )
    return cls


def has_ambiguous_structure(one: Any) -> bool:
    """Whether the structure of a dataclass equals that of another class with like fields."""
    shown = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    cls: Any = type(one)
    structures: list[Any] = [jax.tree_util.tree_structure(of) for of in (one, _twin(cls)(**shown))]
    return bool(structures[0] == structures[1])


@functools.cache
def _twin(cls: type) -> type:
    """Another class with the same fields, registered as JAX does."""
    fields = [
        (field.name, Any, dataclasses.field(metadata=dict(field.metadata)))
        for field in dataclasses.fields(cls)
    ]
    twin = dataclasses.make_dataclass(cls.__name__, fields, frozen=True)
    return jax.tree_util.register_dataclass(twin)
