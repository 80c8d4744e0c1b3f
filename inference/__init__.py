"""How it is learned, checked and shown.

Public names are written once, in the stub beside this file, and imported when first used: ``bke
--help`` need not wait for JAX.
"""

from typing import Any

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        import importlib.metadata  # takes longer than all else here

        return importlib.metadata.version("bke")
    return _attribute(name)
