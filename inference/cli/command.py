"""What every command has: where it prints, its exit codes, and how it joins the program."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from .declare import flattened
from .options.output import ScreenOptions
from .terminal import Terminal, exit_codes


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that :data:`~bke.inference.cli.commands.COMMANDS` can list.

    Attributes:
        name: on the command line.
        example: the last line of its help.
        function: of groups of options and of options, as typer is to see them.
    """

    name: str
    example: str
    function: Callable[..., None]

    def join(self, app: typer.Typer) -> None:
        """Make it a command of ``app``."""
        app.command(name=self.name, epilog=self.example)(flattened(self.function))


def command(example: str, *, name: str | None = None) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function whose first parameter is the terminal it prints on.

    The function imports what is slow when it runs, reads its files by ``inputs``, tells its steps
    and findings to the terminal, and ends with ``steps.finish``, or ``terminal.finish`` where no
    file is written: the summary that ``--json`` prints. The options of the terminal come last in
    its help. What it raises becomes one sentence on standard error and an exit status.
    """

    def decorated(function: Callable[..., None]) -> Command:
        return Command(name or function.__name__, example, _on_a_terminal(function))

    return decorated


def _on_a_terminal(function: Callable[..., None]) -> Callable[..., None]:
    """The function with options where its first parameter was a terminal."""

    def called(*, screen: ScreenOptions, **options: Any) -> None:
        terminal = Terminal(json=screen.json, quiet=screen.quiet, debug=screen.debug)
        with exit_codes(screen.debug), terminal.ending():
            function(terminal, **options)

    hints = get_type_hints(function, include_extras=True)
    _, *given = inspect.signature(function).parameters.values()
    screen = inspect.Parameter("screen", inspect.Parameter.KEYWORD_ONLY, annotation=ScreenOptions)
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in given]
    called.__name__, called.__doc__ = function.__name__, function.__doc__
    called.__annotations__ = {one.name: hints[one.name] for one in given} | {
        "screen": ScreenOptions
    }
    called.__signature__ = inspect.Signature([*keyword, screen])  # type: ignore[attr-defined]
    return called
