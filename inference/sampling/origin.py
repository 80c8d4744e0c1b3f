"""Where the module of a kernel lies that a file names: one beside the file is not run unasked."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InputError

#: Folders that packages are installed in, which may be within that of a project.
INSTALLED = frozenset({"site-packages", "dist-packages"})


def check_modules(record: Any, path: str | os.PathLike[str], modules: Sequence[str] = ()) -> None:
    """Import the modules that were asked for, and refuse others that lie beside a file.

    Whoever sends a folder with a run and a module in it would else have that module run. What is
    imported already, installed, or found elsewhere on the path is the user's own.

    Args:
        record: of a kernel, from :func:`~bke.inference.sampling.record.describe_kernel`.
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
    folders = {Path(os.path.abspath(path)).parent, Path(os.path.realpath(path)).parent}
    for module in _modules(record):
        if module in sys.modules:
            continue
        for place, folder in itertools.product(_places(module), folders):
            if _is_beside(place, folder):
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


def _places(module: str) -> list[Path]:
    """Where a module may be, found without importing the packages that it is in."""
    name, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []  # there is no such module: told when it is imported
    if spec is None:
        return []
    packages = list(spec.submodule_search_locations or ())
    if not packages:
        return [] if spec.origin is None else [Path(spec.origin)]
    # A package may be of many folders; that it is in is as good as the module itself.
    return [Path(place, *steps) for place in packages for steps in ((), inner)]


def _is_beside(place: Path, folder: Path) -> bool:
    """Whether a place is in a folder, other than where packages are installed."""
    for own in (Path(os.path.abspath(place)), Path(os.path.realpath(place))):
        if own.is_relative_to(folder) and not INSTALLED & set(own.relative_to(folder).parts):
            return True
    return False
