"""The command line, ``bke``. Nothing slow is imported before a command has read its input."""

from . import kernels  # noqa: F401  adds its commands
from .app import app, main

__all__ = ["app", "main"]
