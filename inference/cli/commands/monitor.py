"""``bke monitor``: has a stream of rows changed, since when, and where?"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from ...core.atomic import same_file, write_text
from ...core.errors import InputError
from ...data.checks import check_file, pluralize
from ..command import command
from ..options.output import optional_folder, written_file
from ..options.panels import DATA, OUTPUT, TEST
from ..options.sampler import SeedOption
from ..options.tables import ReadingOptions
from ..options.testing import DIFFERENT, FailOption
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Monitor, Monitors

    from ...io.stream import RowStream

PICTURE, SUMMARY = "monitor.png", "monitor.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """What the stream is watched against, and how."""

    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            rich_help_panel=DATA,
            help="A table of rows as they should be: CSV, Parquet, Arrow, JSON lines or Excel.",
            show_default=False,
        ),
    ] = None
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            callback=written_file,
            rich_help_panel=OUTPUT,
            help="Where what is known is kept after every batch, to go on from after a restart; "
            "begun with --reference where there is none yet.",
            show_default=False,
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="COL",
            rich_help_panel=DATA,
            help="Tells rows apart: those that come again are left out.",
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="COL",
            rich_help_panel=DATA,
            help="When rows came about: changes are told in it, and late rows counted.",
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COL",
            rich_help_panel=DATA,
            help="Many streams, told apart by a column: of those that are told to have changed a "
            "share of at most --alpha has not, on average.",
        ),
    ] = None
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            min=1,
            rich_help_panel=OUTPUT,
            help="Rows of a line of output, or fewer when none has come for half a second. What is "
            "found does not hang on it.",
        ),
    ] = 1000
    alpha: Annotated[
        float,
        typer.Option(
            "--alpha",
            rich_help_panel=TEST,
            help="The chance of ever raising an alarm where nothing changes.",
        ),
    ] = 0.05
    seed: SeedOption = 0
    fail: FailOption = False


@command("Example: `bke monitor new.csv --reference old.csv --exclude id --out watched`")
def monitor(
    terminal: Terminal,
    stream: Annotated[
        str,
        typer.Argument(
            metavar="STREAM",
            help="CSV or JSON lines, with the reference's columns; - is standard input.",
        ),
    ] = "-",
    *,
    options: MonitorOptions,
    reading: ReadingOptions,
    out: Annotated[Path | None, optional_folder(f"{PICTURE} and {SUMMARY}")] = None,
) -> None:
    """Has a stream of rows changed against a reference? Since when, and what of them?

    A file is read to its end; a stream as it comes: `tail -n +1 -f new.csv | bke monitor ...`. One
    line a batch, with --json one object. Were there no change, an alarm at any row, however long
    the stream, would have a chance of at most --alpha. With --fail the first alarm ends the
    command.
    """
    from ...io.stream import RowStream
    from .. import outputs, steps

    read = [options.reference, options.state, None if stream == "-" else stream]
    _check_places(options)
    with (
        outputs.output_folder(out, [PICTURE, SUMMARY], command="monitor", read=read) as folder,
        _only_process(options.state),
    ):
        watched = _begun(terminal, options, reading)
        said: set[str] = set()
        with _opened(stream) as bytes_:
            incoming = RowStream(
                bytes_, watched.all_columns, watched.required_columns, watched.numeric_columns
            )
            try:
                _follow(terminal, incoming, watched, options, said)
            except KeyboardInterrupt:
                _conclude(terminal, incoming, watched, said)
                raise
        _conclude(terminal, incoming, watched, said)
        if folder is not None:
            files, missing = steps.draw_pictures(
                folder, lambda: [("monitor", watched.plot)], terminal
            )
            told = {"command": "monitor", "stream": stream, **watched.to_dict()}
            told["notes"] += [*incoming.notes, *missing]
            _write(folder / SUMMARY, told, files, terminal)
    if options.fail and watched.alarm:
        raise typer.Exit(DIFFERENT)


def _check_places(options: MonitorOptions) -> None:
    """Refuse to begin with nothing, and a state that would replace the reference."""
    there = options.state is not None and options.state.exists()
    if options.reference is None and not there:
        raise typer.BadParameter("name rows as they should be with --reference")
    if options.by is not None and options.state is not None:
        raise typer.BadParameter("--state keeps one stream, and --by has many")
    if options.reference and options.state and same_file(options.state, options.reference):
        raise typer.BadParameter("--state would replace the reference")


@contextlib.contextmanager
def _only_process(state: Path | None) -> Iterator[None]:
    """Hold the lock of a state from before it is read until it is written for the last time.

    Raises:
        InputError: another process holds it.
    """
    if state is None:
        yield
        return
    from ...core.atomic import hold, remove_temporary_files

    lock = hold(state.with_name(f".{state.name}.lock"), str(state))
    try:
        remove_temporary_files(state)
        yield
    finally:
        lock.release()


def _begun(
    terminal: Terminal, options: MonitorOptions, reading: ReadingOptions
) -> Monitor | Monitors:
    """Go on from a state, or begin with a reference."""
    from bke.inference import Monitor, Monitors

    how = {name: getattr(options, name) for name in ("alpha", "key", "time", "seed")}
    if options.state is not None and options.state.exists():
        watched = Monitor.from_file(options.state)
        _check_same(terminal, watched, options, reading, how)
        terminal.notes(
            [
                f"Going on after {pluralize(watched.state.rows, 'row')} from {options.state}, with "
                "the reference that it was begun with."
            ]
        )
        return watched
    how |= reading.arguments()
    with terminal.step("reference", "reading the reference"):
        if options.by is not None:
            return Monitors(options.reference, options.by, **how)
        return Monitor(options.reference, **how)


def _conclude(
    terminal: Terminal, incoming: RowStream, watched: Monitor | Monitors, said: set[str]
) -> None:
    """Tell what is known at the end, but for what has been said, and lines that were no rows."""
    rest = [one for one in str(watched).splitlines() if one not in said]
    if rest := [*rest, *incoming.notes]:
        terminal.say("\n".join(["", *rest]))


def _check_same(
    terminal: Terminal,
    watched: Monitor,
    options: MonitorOptions,
    reading: ReadingOptions,
    how: dict[str, Any],
) -> None:
    """Refuse to go on from a state that was begun otherwise than is asked for now."""
    from bke.inference import Monitor

    for name, value in watched.settings.items():
        if how[name] != value and how[name] != getattr(MonitorOptions, name):
            raise typer.BadParameter(
                f"{options.state} was begun with --{name} {value}, not {how[name]}: name another "
                "file to begin anew"
            )
    if options.reference is None:
        return
    with terminal.step("reference", "reading the reference"):
        same = Monitor(options.reference, **{**watched.settings, **reading.arguments()})
    if not same.has_same_reference(watched):
        raise typer.BadParameter(
            f"{options.state} was begun with another reference than {options.reference}, or other "
            "columns of it: name another file to begin anew"
        )


def _follow(
    terminal: Terminal,
    incoming: RowStream,
    watched: Monitor | Monitors,
    options: MonitorOptions,
    said: set[str],
) -> None:
    """See rows as they come, tell of each batch, and keep the state.

    Args:
        terminal: to tell it.
        incoming: the rows.
        watched: what sees them.
        options: of the command.
        said: is filled with what has been told of it: its last line, and its notes.
    """
    from bke.inference import Monitor

    told: set[str] = set()
    for table in incoming.batches(options.batch):
        watched.update(table)
        if isinstance(watched, Monitor) and options.state is not None:
            watched.to_file(options.state)  # before it is told: a killed command repeats no row
        new = [one for one in (*incoming.notes, *watched.notes) if one not in told]
        told.update(new)
        if terminal.json:
            typer.echo(json.dumps(watched.to_dict() | {"notes": new}))
        else:
            terminal.notes(new)
            terminal.say(watched.summary_line)
            said.clear()
            said.update([watched.summary_line, *watched.notes])
        if options.fail and watched.alarm:
            break


@contextlib.contextmanager
def _opened(stream: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, or of standard input."""
    if stream == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file, or pipe rows into the command")
        # A file of its own, never closed: a thread may wait for a line when the command ends, and
        # Python aborts where one holds ``sys.stdin`` then.
        try:
            yield open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115
        except io.UnsupportedOperation:  # of a program that hands over bytes
            yield sys.stdin.buffer
        return
    check_file(Path(stream))
    with open(stream, "rb") as file:
        yield file


def _write(path: Path, told: dict[str, Any], files: dict[str, Path], terminal: Terminal) -> None:
    """Write the summary, which lines of JSON have told already."""
    from ...core.drafts import in_place
    from ...core.render import to_json

    written = {name: str(in_place(file)) for name, file in {**files, "summary": path}.items()}
    timings = terminal.all_timings()
    write_text(path, to_json({**told, "files": written, "timings": timings}) + "\n")
    terminal.files(written, timings)
