"""The command line, ``bke``. Nothing slow is imported before a command has read its input.

A command is a module of :mod:`.commands` and a name in the list there; options that several have
are in :mod:`.options`. Commands parse, call the library, and print and write what it found.
"""

from .app import app, main

__all__ = ["app", "main"]
