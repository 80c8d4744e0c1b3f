"""Names of columns that are given in place of those that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import InputError
from .unicode import normalize_text


def named_columns(columns: Any, known: Sequence[str]) -> tuple[str, ...]:
    """The names that are given, or those that are known.

    Raises:
        InputError: they are no names, as many as there are columns and all different.
    """
    if columns is None:
        return tuple(map(str, known))
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        raise InputError(f"columns must be {len(known)} names, got {columns!r}")
    names = tuple(normalize_text(str(name)) for name in columns)
    if len(names) != len(known):
        raise InputError(f"there are {len(known)} columns, and {len(names)} names are given")
    if len(set(names)) < len(names):
        raise InputError(f"names of columns must differ, got {', '.join(names)}")
    return names
