"""Parts of a run in a folder: one that was interrupted goes on from there."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from ..core.archive import read_arrays, write_arrays
from ..core.atomic import check_output_folder, write_text
from ..core.errors import InputError
from ..core.lock import hold

SETTINGS, LOCK = "settings.json", ".lock"


class Store:
    """Named parts of one run, each written whole or not at all; nowhere without a folder."""

    def __init__(self, folder: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        """Open the folder of a run with ``settings``, plain data.

        Raises:
            InputError: the folder cannot be written, is that of a run with other settings, or
                another process writes to it.
        """
        self._folder = None if folder is None else check_output_folder(folder)
        if self._folder is None:
            return
        self._lock = hold(self._folder / LOCK, f"the folder {self._folder}")
        own = json.loads(json.dumps({**settings, "version of bke": version("bke")}))
        path = self._folder / SETTINGS
        if not path.exists():
            write_text(path, json.dumps(own, indent=1) + "\n")
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            names = [name for name in {**own, **found} if own.get(name) != found.get(name)]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{path} cannot be read as the settings of a run: {error}") from error
        if names:
            raise InputError(
                f"{self._folder} is the folder of another run, with a different "
                f"{' and '.join(names)}: name another folder, or delete it to begin anew"
            )

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Load a part that was saved; ``None`` where there is none.

        Raises:
            InputError: it is there and broken.
        """
        path = self._path(name)
        if path is None or not path.exists():
            return None
        return read_arrays(path, "a part of a run")[1]

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a part, whole or not at all."""
        path = self._path(name)
        if path is not None:
            write_arrays(path, {}, arrays)

    def _path(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{name}.npz"


def code_of(function: Any) -> str:
    """Name a function, with a digest of what it does for one version of Python.

    Its code, its defaults, what a ``partial`` or an object that can be called holds, and numbers,
    texts and arrays of what it encloses are in it; values of its module are not.
    """
    inner = getattr(function, "function", function)  # of a jax_simulator or a vectorised one
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner))}"
    digest = hashlib.sha256(_of_function(inner).encode()).hexdigest()[:16]
    return f"{type(function).__name__} {name} {digest}"


def _of_function(function: Any) -> str:
    if isinstance(function, functools.partial):
        held = _plain([list(function.args), function.keywords])
        return f"{_of_function(function.func)} {held}"
    code = getattr(function, "__code__", None)
    if code is None:
        call = getattr(type(function).__call__, "__code__", None)
        known = "" if call is None else hashlib.sha256(_content(call)).hexdigest()
        return f"{type(function).__name__} {known} {_plain(getattr(function, '__dict__', {}))}"
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    # What calls may fill, such as a list of them, is no part of what the function does.
    enclosed = [None if isinstance(one, (list, dict, set)) else one for one in cells]
    defaults = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    return f"{hashlib.sha256(_content(code)).hexdigest()} {_plain([defaults, enclosed])}"


def _plain(value: Any) -> str:
    """Write values as a text that is the same in another process; others by their type alone."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_plain(one)}' for key, one in value.items())}}}"
    if callable(value) and not isinstance(value, type):
        return _of_function(value)
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    return type(value).__name__


def _content(code: CodeType) -> bytes:
    constants = b"".join(
        _content(one)
        if isinstance(one, CodeType)
        # A set has no order that would be the same in another process.
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one).encode()
        for one in code.co_consts
    )
    return code.co_code + repr(code.co_names).encode() + constants
