"""``bke drift`` and ``monitor``: what has changed between tables, and in streams of rows."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...core.atomic import same_file, write_text
from ...core.errors import InputError
from ...data.checks import check_file, pluralize
from ..options import (
    DIFFERENT,
    Alpha,
    ColumnType,
    Encoding,
    Exclude,
    Fail,
    Format,
    Html,
    Names,
    NaValue,
    Permutations,
    Seed,
    check_written_file,
    min_effect,
    optional_folder,
    reading_arguments,
    sample_names,
)
from ..outputs import draw_pictures, output_folder, write_summary
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import GroupsComparison, Monitor, Monitors, TableComparison


#: Effect sizes that are printed, the largest ones.
MOST_SIZES = 6
TABLES = "CSV, TSV or JSON lines (also .gz or .zst), Parquet (also a folder), Arrow or Excel"
MONITOR_FILES = ("monitor.png", "monitor.json")


def drift(
    terminal: Terminal,
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help=f"First table: {TABLES}.", show_default=False)
    ],
    after: Annotated[
        Path | None,
        typer.Argument(
            metavar="AFTER", help="Second table, or none with --by.", show_default=False
        ),
    ] = None,
    names: Names = None,
    by: Annotated[
        str | None, typer.Option(metavar="COL", help="Of one table: the column of the groups.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Compare with this group, not the first.")
    ] = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Compare each group with all others together.")
    ] = False,
    exclude: Exclude = None,
    column_type: ColumnType = None,
    na_value: NaValue = None,
    format: Format = None,  # noqa: A002
    encoding: Encoding = None,
    sentinels: Annotated[
        Literal["warn", "missing", "keep"],
        typer.Option(metavar="NAME", help="Of -999 and the like: warn, missing or keep."),
    ] = "warn",
    identifiers: Annotated[
        bool, typer.Option("--identifiers", help="Compare identifiers too.")
    ] = False,
    clusters: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Rows with equal values depend on each other."),
    ] = None,
    strata: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Rows are exchangeable within equal values."),
    ] = None,
    freq_weights: Annotated[
        str | None, typer.Option(metavar="COL", help="How many equal rows a row stands for.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="COL", help="Weight of a row, as in a survey.")
    ] = None,
    permutations: Permutations = 999,
    alpha: Alpha = 0.05,
    seed: Seed = 0,
    fail: Fail = False,
    least: Annotated[float | None, min_effect("SHARE", 0.0, "change of a share of rows")] = None,
    max_changed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="With --fail: up to N changed columns pass."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=check_written_file, help="Write the report as Markdown."
        ),
    ] = None,
    html: Html = None,
) -> None:
    """What has changed between two tables?

    One test of both as wholes, then columns and pairs. Columns are numbers, categories, dates or
    text, with missing values. One p-value at an exact level tells whether the tables differ; only
    then are changed columns and pairs named. With --min-effect or --max-changed only changed
    columns count for --fail.
    """
    if not fail and (least is not None or max_changed is not None):
        raise typer.BadParameter("--min-effect and --max-changed are for --fail")
    if (after is None) != (by is not None):
        raise typer.BadParameter("give two tables, or one and --by, the column that divides it")
    if by is None and (rest or against is not None):
        raise typer.BadParameter("--against and --rest are about the groups of --by")
    if after is None and names is not None:
        raise typer.BadParameter("--names are those of two tables, and --by has groups")
    how: dict[str, Any] = {
        **reading_arguments(exclude, column_type, na_value, format, encoding),
        "sentinels": sentinels,
        "identifiers": identifiers,
        "clusters": clusters,
        "strata": strata,
        "freq_weights": freq_weights,
        "weights": weights,
        "alpha": alpha,
        "n_resamples": permutations,
        "seed": seed,
        "progress": terminal.progress,
    }
    result: TableComparison | GroupsComparison
    with terminal.step("compare", "comparing the tables", spinner=False):
        from bke.inference import compare_groups, compare_tables

        if after is not None:
            called = sample_names(names, before, after)
            called = ("before", "after") if called == ("P", "Q") and names is None else called
            result = compare_tables(before, after, names=called, **how)
        else:
            groups = compare_groups(before, str(by), against=against, rest=rest, **how)
            result = groups if len(groups.comparisons) > 1 else groups.comparisons[0]
    terminal.say(str(result))
    for path, made in ((markdown, result.to_markdown), (html, result.to_html)):
        if path is not None:
            write_text(path, made())
            terminal.say(f"Written: {path}")
    if least is not None or max_changed is not None:
        failed = _failed(result, least or 0.0, max_changed or 0, terminal)
    else:
        failed = fail and result.reject
    summary: dict[str, Any] = {
        "command": "drift",
        "sources": [str(path) for path in (before, after) if path is not None],
        **result.to_dict(),
    }
    if fail:
        summary |= {"failed": failed, "min_effect": least, "max_changed": max_changed}
    terminal.finish(summary)
    if failed:
        raise typer.Exit(DIFFERENT)


def _failed(
    result: TableComparison | GroupsComparison, least: float, most: int, terminal: Terminal
) -> bool:
    """Print by how much columns changed, and return whether too many did in any comparison."""
    from bke.inference import TableComparison

    failed = False
    for one in (result,) if isinstance(result, TableComparison) else result.comparisons:
        changed, large = one.changed_columns(), len(one.changed_columns(least))
        failed |= large > most
        largest = sorted(changed, key=lambda column: -column.effect.size)
        sizes = [f"{column.name} {column.effect.size:.3g}" for column in largest[:MOST_SIZES]]
        sizes += ["..."] * (len(largest) > MOST_SIZES)
        pairs = sum(pair.reject for pair in one.pairs)
        not_counted = (
            f" {pluralize(pairs, 'changed pair')} of columns not counted." if pairs else ""
        )
        listed = f" Effect sizes: {', '.join(sizes)}." if sizes else ""
        terminal.say(
            f"{'Failed' if large > most else 'Passed'}: {' and '.join(one.names)} have {large} of "
            f"{pluralize(len(changed), 'changed column')} with an effect size of at least "
            f"{least:g}, and at most {most} are allowed."
            f"{listed}{not_counted}"
        )
    return failed


def monitor(
    terminal: Terminal,
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="CSV or JSON lines; - is standard input."),
    ] = "-",
    reference: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Rows as they should be: {TABLES}.", show_default=False),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=check_written_file,
            help="Kept after every batch, to go on from after a restart.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Rows that come again, by this column, are left out."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COL", help="When rows came about; late rows are counted.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COL", help="Many streams, told apart by a column.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Rows of a line of output; changes no result.")
    ] = 1000,
    alpha: Annotated[
        float, typer.Option(help="Chance of an alarm, ever, where nothing changes.")
    ] = 0.05,
    seed: Seed = 0,
    exclude: Exclude = None,
    column_type: ColumnType = None,
    na_value: NaValue = None,
    format: Format = None,  # noqa: A002
    encoding: Encoding = None,
    fail: Annotated[
        bool, typer.Option("--fail", help=f"End with status {DIFFERENT} at the first alarm.")
    ] = False,
    out: Annotated[Path | None, optional_folder("monitor.png and monitor.json")] = None,
) -> None:
    """Has a stream of rows changed, and since when?

    A file is read to its end; a stream as it comes: tail -n +1 -f new.csv | bke monitor ... One
    line a batch, with --json one object. Were there no change, an alarm at any row, however long
    the stream, would have a chance of at most --alpha.
    """
    if reference is None and not (state is not None and state.exists()):
        raise typer.BadParameter("name rows as they should be with --reference")
    if by is not None and state is not None:
        raise typer.BadParameter("--state keeps one stream, and --by has many")
    if reference and state and same_file(state, reference):
        raise typer.BadParameter("--state would replace the reference")
    reading = reading_arguments(exclude, column_type, na_value, format, encoding)
    settings: dict[str, Any] = {"alpha": alpha, "key": key, "time": time, "seed": seed}
    read = [reference, state, None if stream == "-" else stream]
    with (
        output_folder(out, MONITOR_FILES, command="monitor", read=read) as folder,
        _only_process(state),
    ):
        from bke.inference import Monitor, Monitors

        watched: Monitor | Monitors
        if state is not None and state.exists():
            watched = _go_on(state, reference, settings, reading, terminal)
        else:
            with terminal.step("reference", "reading the reference"):
                if by is not None:
                    watched = Monitors(reference, by, **settings, **reading)
                else:
                    watched = Monitor(reference, **settings, **reading)
        notes = _follow(watched, stream, batch, state, fail, terminal)
        if folder is not None:
            files, missing = draw_pictures(folder, lambda: [("monitor", watched.plot)], terminal)
            summary = {"command": "monitor", "stream": stream, **watched.to_dict()}
            notes = [*summary.pop("notes"), *notes, *missing]
            write_summary(summary, files, folder, notes, terminal, MONITOR_FILES[1])
    if fail and watched.alarm:
        raise typer.Exit(DIFFERENT)


def _follow(
    watched: Monitor | Monitors,
    stream: str,
    batch: int,
    state: Path | None,
    fail: bool,
    terminal: Terminal,
) -> list[str]:
    """Update monitors with rows as they arrive; save the state, and print a line for each batch.

    Args:
        watched: the monitors.
        stream: a file, or ``-``.
        batch: number of rows of a batch.
        state: file of the state, if any.
        fail: whether to end at the first alarm.
        terminal: the terminal.

    Returns:
        Notes on lines of the stream.
    """
    from bke.inference import Monitor

    from ...io.stream import RowStream

    noted: set[str] = set()  # notes
    printed: set[str] = set()  # lines of the last batch

    def conclude() -> None:
        rest = [line for line in str(watched).splitlines() if line not in printed]
        if rest := [*rest, *incoming.notes]:
            terminal.say("\n".join(["", *rest]))

    with _opened(stream) as bytes_:
        incoming = RowStream(
            bytes_, watched.all_columns, watched.required_columns, watched.numeric_columns
        )
        try:
            for table in incoming.batches(batch):
                watched.update(table)
                if isinstance(watched, Monitor) and state is not None:
                    watched.to_file(state)  # before it is printed: a killed command repeats no row
                new = [note for note in (*incoming.notes, *watched.notes) if note not in noted]
                noted.update(new)
                if terminal.json:
                    typer.echo(json.dumps(watched.to_dict() | {"notes": new}))
                else:
                    terminal.notes(new)
                    terminal.say(watched.summary_line)
                    printed = {watched.summary_line, *watched.notes}
                if fail and watched.alarm:
                    break
        except KeyboardInterrupt:
            conclude()
            raise
    conclude()
    return incoming.notes


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


def _go_on(
    state: Path,
    reference: Path | None,
    settings: dict[str, Any],
    reading: dict[str, Any],
    terminal: Terminal,
) -> Monitor:
    """The monitor of a state.

    Raises:
        BadParameter: it was begun otherwise than is asked for now.
    """
    from bke.inference import Monitor

    watched = Monitor.from_file(state)
    defaults = {"alpha": 0.05, "key": None, "time": None, "seed": 0}
    for name, value in watched.settings.items():
        if settings[name] not in (value, defaults[name]):
            raise typer.BadParameter(
                f"{state} was begun with --{name} {value}, not {settings[name]}: name another file "
                "to begin anew"
            )
    if reference is not None:
        with terminal.step("reference", "reading the reference"):
            same = Monitor(reference, **{**watched.settings, **reading})
        if not same.has_same_reference(watched):
            raise typer.BadParameter(
                f"{state} was begun with another reference than {reference}, or other columns of "
                "it: name another file to begin anew"
            )
    terminal.notes(
        [
            f"Going on after {pluralize(watched.state.rows, 'row')} from {state}, with the "
            "reference that it was begun with."
        ]
    )
    return watched


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
