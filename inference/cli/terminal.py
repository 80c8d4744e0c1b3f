"""Printing: progress and errors on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
from rich.text import Text

from ..core.errors import InputError, SamplingError
from ..core.names import printable, printable_lines
from .interrupt import report_interruption

#: Beginning of JAX's message if there is not enough memory.
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
#: Exceptions whose message is enough for a user.
EXPECTED = (InputError, SamplingError, ValueError, ArithmeticError, OSError)
#: Smallest width to which lines are wrapped.
MIN_WIDTH = 40
#: Keyword arguments in messages of the library that are options too: ``likelihood='landmark'``.
KEYWORD = re.compile(r"\b(likelihood|method|noise_variance|standardize)='([\w-]+)'")


@contextlib.contextmanager
def exit_codes(debug: bool) -> Iterator[None]:
    """Turn a failure into one sentence on standard error and exit status 1, Ctrl-C into 130.

    SIGTERM into 143, where it interrupts. Warnings become sentences too.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            yield
    except KeyboardInterrupt as error:
        raise typer.Exit(report_interruption(error)) from None
    except (typer.Exit, typer.BadParameter, BrokenPipeError):
        raise  # of a closed pipe typer makes exit status 1, and flushes it no more
    except Exception as error:
        if debug:
            raise
        notes = map(printable, getattr(error, "__notes__", ()))
        typer.echo("; ".join([f"bke: {_format_error(error)}", *notes]), err=True)
        raise typer.Exit(1) from None


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"bke: warning: {_keywords_as_options(printable(str(message)))}", err=True)


def _format_error(error: Exception) -> str:
    """Format a message of bke whole, and the first line of another's."""
    if isinstance(error, InputError) and str(error):
        return _keywords_as_options(printable(str(error)))
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{printable(str(error.filename))}: "
        return f"{where}{error.strerror}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = _keywords_as_options(lines[0]) if lines else type(error).__name__
    if isinstance(error, MemoryError) or text.startswith(OUT_OF_MEMORY):
        return f"there is not enough memory ({text})"
    if isinstance(error, EXPECTED):
        return text
    return f"unexpected failure ({type(error).__name__}: {text}); --debug shows where"


def _keywords_as_options(text: str) -> str:
    """Write keyword arguments in a message as options of the command line."""
    return KEYWORD.sub(lambda match: f"--{match[1].replace('_', '-')} {match[2]}", text)


class Terminal:
    """The terminal of a command: its results, or with ``json`` the summary, on standard output.

    With ``json`` the rest is on standard error, unless ``quiet``.
    """

    def __init__(self, *, json: bool, quiet: bool) -> None:
        if json and sys.stdout is None:
            raise InputError("standard output is closed, and --json would be printed there")
        self.json = json
        self.progress = not quiet
        self.started = time.perf_counter()
        self.timings: dict[str, float] = {}
        self._last: list[Callable[[], None]] = []
        # Looked up at every print, so that redirected streams are respected.
        # With NO_COLOR rich would leave out colors, but not bold and italics.
        styled: Any = {"color_system": None if os.environ.get("NO_COLOR") else "auto"}
        self._errors = Console(stderr=True, highlight=False, **styled)
        self._results = Console(stderr=json, highlight=False, quiet=json and quiet, **styled)

    @contextlib.contextmanager
    def step(self, name: str, doing: str, *, spinner: bool = True) -> Iterator[None]:
        """Time a step as ``name``, and show a text while it lasts."""
        before = time.perf_counter()
        has_spinner = self.progress and spinner and self._errors.is_terminal
        with Progress(
            SpinnerColumn(),
            "{task.description}",
            TimeElapsedColumn(),
            console=self._errors,
            transient=True,
            disable=not has_spinner,
        ) as progress:
            progress.add_task(doing, total=None)
            yield
        self.timings[name] = round(time.perf_counter() - before, 3)

    def end(self) -> None:
        """Print what was queued, once the files are in place."""
        for say in self._last:
            say()

    def queue_json(self, summary: Mapping[str, Any]) -> None:
        """Let :meth:`end` print the summary as JSON if that was asked for."""
        if self.json:
            from ..core.render import to_json

            text = to_json(summary)
            self._last.append(lambda: typer.echo(text))

    def all_timings(self) -> dict[str, float]:
        """Seconds of every step and in total."""
        return {**self.timings, "total": round(time.perf_counter() - self.started, 3)}

    def say(
        self,
        text: str = "",
        style: str = "",
        *,
        wrap: bool = True,
        console: Console | None = None,
    ) -> None:
        """Print lines, on a screen wrapped between words unless they are to be copied."""
        if self._results.is_terminal and wrap:
            text = "\n".join(_wrapped(line, self._results.width) for line in text.split("\n"))
        (console or self._results).print(Text(printable_lines(text), style), soft_wrap=True)

    def lines(self, lines: Sequence[str], *, warning: bool = False) -> None:
        """Print a part of a short report after a blank line; a warning even if quiet."""
        self.say("\n".join(["", *lines]), console=self._errors if self.json and warning else None)

    def notes(self, notes: Sequence[str]) -> None:
        """Print remarks that a reader should not miss."""
        for note in notes:
            self.say(note, "yellow")

    def queue_files(self, files: Mapping[str, str], timings: Mapping[str, float]) -> None:
        """Let :meth:`end` print which files were written, and the seconds of the command."""
        folders: dict[Path, list[str]] = {}
        for path in map(Path, files.values()):
            folders.setdefault(path.parent, []).append(path.name)
        sentences = [f"Files in {folder}: {', '.join(names)}." for folder, names in folders.items()]
        text = " ".join([*sentences, f"Time: {timings['total']:.1f} s."])
        self._last.append(lambda: self.say(text))


def _wrapped(line: str, width: int) -> str:
    """Wrap a line to ``width`` columns; the next lines are indented by two more."""
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        max(width, MIN_WIDTH),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
