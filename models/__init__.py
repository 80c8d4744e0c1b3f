"""Kernels, embeddings and the Bayesian kernel embedding model.

Public names are listed in the stub of this module, and imported when first used.
"""

import importlib.metadata
from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("bke")
    return _attribute(name)
