"""What every command has: where it prints, its exit codes, and how it joins the program."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from ..core.errors import nearest
from .declare import flattened
from .options.output import ScreenOptions
from .terminal import Terminal, exit_codes

#: How typer refuses what is none of several words.
OF_CHOICE = re.compile(r"^(?:Value error, )?'(?P<given>.*?)' is not one of (?P<choices>.*)\.$")


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

    def join(self, app: typer.Typer, panel: str) -> None:
        """Make it a command of ``app``, listed under the heading ``panel``."""
        added = app.command(
            name=self.name, cls=_Suggesting, epilog=self.example, rich_help_panel=panel
        )
        added(flattened(self.function))


class _Suggesting(TyperCommand):
    """A command that tells which choice was meant, as typer does for options and commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = OF_CHOICE.sub(_meant, error.message)
            raise


def _meant(message: re.Match[str]) -> str:
    choices = re.findall("'(.*?)'", message["choices"])
    told = nearest(message["given"], choices)
    return f"{message['given']!r} is not one of {message['choices']}{told or '.'}"


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
