"""The command line, ``bke``. Nothing slow is imported before a command has read its input."""

from . import causal, kernels, sketches, testing  # noqa: F401  they add their commands
from .app import app, main

__all__ = ["app", "main"]
