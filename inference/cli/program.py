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
from typing import Annotated, Any

import typer

from .commands import COMMANDS
from .options import DIFFERENT, Debug, Depends, Json, Quiet
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
    """Prepare the standard streams, and run the command that the arguments name."""
    _open_closed_streams()
    codecs.register_error("bke", _replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bke")
    app()


def _open_closed_streams() -> None:
    """Replace closed standard streams, or the next file that is opened would become one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in missing), error.end


def _version(show: bool) -> None:
    if show:
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


def with_terminal(function: Callable[..., bool | None]) -> Callable[..., None]:
    """Add ``--json``, ``--quiet``, ``--debug`` and the options of dependencies to a command.

    Its first parameter becomes a :class:`Terminal`. An exception of the command becomes one
    sentence on standard error and an exit status; a true result, which ``--fail`` causes, another
    exit status.
    """

    @functools.wraps(function)
    def command(*, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
        with exit_codes(debug):
            terminal = Terminal(json=json, quiet=quiet)
            failed = Depends(functools.partial(function, terminal))(options)
            terminal.end()
            if failed:
                raise typer.Exit(DIFFERENT)

    keyword = inspect.Parameter.KEYWORD_ONLY
    _, *parameters = (option.replace(kind=keyword) for option in Depends(function).parameters())
    parameters += [
        inspect.Parameter(name, keyword, default=False, annotation=option)
        for name, option in {"json": Json, "quiet": Quiet, "debug": Debug}.items()
    ]
    command.__annotations__ = {option.name: option.annotation for option in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


for command, example in COMMANDS.items():
    first_line = (command.__doc__ or "").splitlines()[0]
    app.command(epilog=f"Example: {example}", short_help=first_line)(with_terminal(command))
