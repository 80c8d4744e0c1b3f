"""Where the module of a kernel lies that a file names: one beside the file is not run unasked."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError


def check_modules(record: Any, path: str | os.PathLike[str], modules: Sequence[str] = ()) -> None:
    """Import the modules that were asked for, and refuse others that lie beside a file.

    Whoever sends a folder with a run and a module in it would else have that module run. What is
    imported already, installed, or found elsewhere on the path is the user's own.

    Args:
        record: of a kernel, from :func:`~bke.inference.posterior.record.describe_kernel`.
        path: of the file that has it.
        modules: names that the user asks for.

    Raises:
        InputError: naming the module.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # of the module's own code too
            raise InputError(f"the module {module!r} cannot be imported ({error})") from None
    folder = Path(os.path.realpath(path)).parent
    for module in _modules(record):
        if module not in sys.modules and folder in _folders(module.partition(".")[0]):
            raise InputError(
                f"its kernel is of the module {module!r}, which lies beside it in {folder} and "
                f"would be run: where you trust it, ask for it by modules=[{module!r}] or "
                f"--module {module}, or import it before"
            )


def _modules(record: Any) -> Iterator[str]:
    """The modules that a record names, in all its parts."""
    if isinstance(record, dict):
        name = record.get("type")
        if isinstance(name, str) and ":" in name:
            yield name.partition(":")[0]
        for part in record.values():
            yield from _modules(part)


def _folders(name: str) -> set[Path]:
    """Of the path, those in which a module or package that is in no other is."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return set()  # there is no such module: told when it is imported
    if spec is None:
        return set()
    packages = list(spec.submodule_search_locations or ())
    places = packages or ([] if spec.origin is None else [spec.origin])
    return {Path(os.path.realpath(place)).parent for place in places}
