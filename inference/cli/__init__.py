"""The command line, ``bke``. Nothing slow is imported before a command has read its input."""

from .app import app, main

__all__ = ["app", "main"]
