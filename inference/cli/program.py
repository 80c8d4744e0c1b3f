"""The program ``bke``: its commands, its help and its version."""

from __future__ import annotations

import codecs
import functools
import importlib.metadata
import inspect
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from .commands import COMMANDS
from .options import Debug, Json, Quiet
from .terminal import Terminal, exit_codes

#: Replacements of characters of reports that an old encoding may lack.
PLAIN = {"≤": "<=", "≥": ">=", "±": "+-", "→": "->"}

app = typer.Typer(
    name="bke",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def start() -> None:
    """Run the command that the arguments name."""
    _open_closed_streams()
    codecs.register_error("bke", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bke")
    app()


def _open_closed_streams() -> None:
    """Let nothing else be opened as standard input, output or error where one was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(one, "?") for one in lacking), error.end


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"bke {importlib.metadata.version('bke')}")
        raise typer.Exit


@app.callback(epilog="Example: bke run calm.csv windy.csv --columns Ozone --out ozone")
def bke(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian learning of kernel embeddings: where do two samples differ?

    Begin with "bke examples": it writes small data sets, and shows commands to try.

    Exit status: 0 finished, whatever was found; 3 a difference, or an alarm, with --fail; 1 bad
    input or failure, with one sentence on standard error; 2 wrong usage; 130 interrupted, 143
    terminated.
    """


def on_a_terminal(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its first parameter, the terminal that it prints on.

    What the command raises becomes one sentence on standard error and an exit status.
    """

    @functools.wraps(function)
    def called(*, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
        with exit_codes(debug):
            terminal = Terminal(json=json, quiet=quiet)
            with terminal.ending():
                function(terminal, **options)

    hints = get_type_hints(function, include_extras=True)
    _, *given = inspect.signature(function).parameters.values()
    shared = {"json": Json, "quiet": Quiet, "debug": Debug}
    called.__annotations__ = {one.name: hints[one.name] for one in given} | shared
    keyword = inspect.Parameter.KEYWORD_ONLY
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=keyword, annotation=hints[one.name]) for one in given]
        + [inspect.Parameter(k, keyword, default=False, annotation=v) for k, v in shared.items()]
    )
    return called


for command, example in COMMANDS.items():
    first_line = (command.__doc__ or "").splitlines()[0]
    app.command(epilog=f"Example: {example}", short_help=first_line)(on_a_terminal(command))
