"""The command line, ``bke``. Nothing slow is imported before a command has read its input.

A command is a function in :mod:`.commands` and a name in the list there; options that several have
are in :mod:`.options`. Commands parse, call the library, print the result and write its files.
"""

from typing import Any

__all__ = ["app", "main"]


def main() -> None:
    """Run the console script."""
    from .interrupt import run_interruptible

    run_interruptible(_program)


def _program() -> None:
    from .program import start  # slow, so that Ctrl-C is handled from before it

    start()


def __getattr__(name: str) -> Any:
    if name == "app":
        from .program import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
