"""The command line, ``bke``. Nothing slow is imported before a command has read its input."""

from . import (  # noqa: F401  they add their commands
    causal,
    kernels,
    likelihood_free,
    operators,
    shrinkage,
    sketches,
    testing,
)
from .app import app, main

__all__ = ["app", "main"]
