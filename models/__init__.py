"""What is believed: kernels, embeddings and the Bayesian kernel embedding model.

Public names are written once, in the stub beside this file, and imported when first used.
"""

import importlib.metadata
from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("bke")
    return _attribute(name)
