"""A simulator and a prior from a Python file of the user's."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import InputError


def prints_apart() -> contextlib.redirect_stdout[Any]:
    """What the user's file prints goes to standard error: findings may be read by a program."""
    return contextlib.redirect_stdout(sys.stderr)


def check_model(path: Path) -> None:
    """Refuse what is no Python file that can be imported beside the modules that there are."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix != ".py":
        raise InputError(f"{path} is no Python file: its name must end in .py")
    if "." in path.stem:
        raise InputError(f"{path} has a name that no module can have: rename it")
    known = None if path.stem in sys.modules else importlib.util.find_spec(path.stem)
    if path.stem in sys.modules or (known is not None and known.origin != str(path.resolve())):
        raise InputError(f"{path} has the name of another module: rename it")


@contextlib.contextmanager
def imported(path: Path) -> Iterator[tuple[Any, Any]]:
    """``prior`` and ``simulate`` of a Python file, which is a module within the block.

    Raises:
        InputError: it cannot be run, or lacks one of them.
    """
    specification = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Where it finds its neighbours, and where other processes find it by its name. At the end: a
    # file there that is called like a module of Python's would stand for that.
    folder = str(path.resolve().parent)
    sys.path.append(folder)
    sys.modules[path.stem] = module
    try:
        try:
            specification.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"{path} cannot be run: {reason}") from error
        for part in ("prior", "simulate"):
            if not hasattr(module, part):
                raise InputError(f"{path} has no {part}: see bke abc --help for an example")
        try:
            yield module.prior, module.simulate
        except InputError:
            raise
        except Exception as error:
            # What simulate raises has a note that says for which parameters.
            where = "; ".join(getattr(error, "__notes__", ()))
            if not where:
                raise
            raise InputError(
                f"simulate in {path} raised {type(error).__name__}: {error}, {where}"
            ) from error
    finally:
        del sys.modules[path.stem]
        sys.path.remove(folder)
