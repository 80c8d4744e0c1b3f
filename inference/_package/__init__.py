"""Bayesian learning of kernel embeddings.

All names of :mod:`bke.inference` and :mod:`bke.models` are names of ``bke`` too, imported when
first used: ``import bke`` takes milliseconds.
"""

import importlib
from typing import Any

PACKAGES = ("bke.inference", "bke.models")


def __getattr__(name: str) -> Any:
    packages = [importlib.import_module(package) for package in PACKAGES]
    for package in packages:
        if name == "__version__" or name in package.__all__:
            return getattr(package, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    packages = (importlib.import_module(package) for package in PACKAGES)
    return sorted({"__version__", *(name for package in packages for name in package.__all__)})
