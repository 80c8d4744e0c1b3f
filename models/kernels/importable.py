"""Kernels by the path they are imported from, ``module:name``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

from .base import Kernel
from .covariance import Covariance
from .function import kernel_from_function

#: Names with dots between them; none is one of Python's own, such as ``__globals__``.
NAMES = r"(?!__)[^\W\d]\w*(\.(?!__)[^\W\d]\w*)*"
PATH = re.compile(f"{NAMES}:{NAMES}")


def object_path(thing: Any) -> str | None:
    """``module:name`` of a class or function; None where that does not import this very object.

    So it is for what was defined in a function, as a lambda, in a notebook or in the script that
    runs, and for a class whose module has been loaded again since.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if module in (None, "__main__") or name is None:
        return None
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return f"{module}:{name}" if found is thing else None


def import_object(path: str) -> Any:
    """What ``module:name`` is.

    Raises:
        ValueError: where it cannot be imported, naming the module.
    """
    if not PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not of the form module:name")
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        for step in name.split("."):
            found = getattr(found, step)
    except ImportError as error:
        raise ValueError(
            f"the module {module!r} cannot be imported ({error}): it must be installed, or lie in "
            "the current folder or on PYTHONPATH"
        ) from None
    except AttributeError:
        raise ValueError(f"the module {module!r} has no {name!r}") from None
    except Exception as error:  # of the module's own code
        raise ValueError(
            f"the module {module!r} cannot be imported ({type(error).__name__}: {error})"
        ) from error
    return found


def kernel_from_path(path: str) -> Kernel | type[Kernel]:
    """The kernel at ``module:name``: a kernel, a class, or a function of two points.

    A function becomes a kernel by :func:`~bke.models.kernel_from_function`, its parameters being
    its keyword-only arguments with their defaults.

    Raises:
        ValueError: where it cannot be imported, naming the module, or is none of these.
    """
    found = import_object(path)
    if isinstance(found, Kernel) or (inspect.isclass(found) and issubclass(found, Kernel)):
        kernel: Kernel | type[Kernel] = found
        return kernel
    if isinstance(found, Covariance) or inspect.isclass(found) or not callable(found):
        raise ValueError(
            f"{path} is no kernel, no class of kernels and no function of two points, but {found!r}"
        )
    return kernel_from_function(found)
