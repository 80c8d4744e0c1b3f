"""The program ``bke``: its help, its version, and the commands that have joined it."""

from __future__ import annotations

import codecs
import importlib.metadata
import io
import os
import sys
from typing import Annotated

import typer

from .commands import PANELS

#: What stands for characters that reports have and an old encoding may lack.
PLAIN = {"≤": "<=", "≥": ">=", "±": "+-", "→": "->"}

app = typer.Typer(
    name="bke",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def in_plain_characters() -> None:
    """Let standard output and error print what their encoding lacks in other characters."""
    codecs.register_error("bke", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bke")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(one, "?") for one in lacking), error.end


def start() -> None:
    """Run the command that the arguments name."""
    _open_closed_streams()
    in_plain_characters()
    app()


def _open_closed_streams() -> None:
    """Let nothing else be opened as standard input, output or error where one was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"bke {importlib.metadata.version('bke')}")
        raise typer.Exit


@app.callback(epilog="Example: `bke run calm.csv windy.csv --columns Ozone --out ozone`")
def bke(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Where do two samples differ? Bayesian learning of kernel embeddings.

    Begin with `bke examples`: it writes small data sets, and shows a command to try for each
    purpose.

    Learns the lengthscale of a kernel from the pooled samples, says in words whether the chains of
    the sampler agree, and shows the witness function between the samples with its bands.

    Exit status: 0 finished, whatever was found; 3 a difference, or an alarm, with --fail; 1 bad
    input or failure, with one sentence on standard error; 2 wrong usage; 130 interrupted, 143
    terminated.
    """


for panel, commands in PANELS.items():
    for command in commands:
        command.join(app, panel)
