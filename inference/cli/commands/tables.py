"""``bke drift`` and ``monitor``: changes between tables, and in streams of rows."""

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
    Fail,
    Html,
    Names,
    PermutationOptions,
    Seed,
    TableOptions,
    argument,
    check_output_file,
    effect_option,
    option,
    optional_folder,
    sample_names,
)
from ..outputs import output_folder
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import GroupsComparison, Monitor, Monitors, TableComparison


#: Number of effect sizes that are printed, the largest ones.
MAX_SIZES = 6
TABLES = "CSV, TSV or JSON lines (also .gz or .zst), Parquet (also a folder), Arrow or Excel"
MONITOR_FILES = ("monitor.png", "monitor.json")


def drift(
    terminal: Terminal,
    *,
    before: Annotated[Path, argument("BEFORE", f"First table: {TABLES}.")],
    after: Annotated[Path | None, argument("AFTER", "Second table, or none with --by.")] = None,
    names: Names = None,
    by: Annotated[str | None, option("COL", "Column of the groups of one table.")] = None,
    against: Annotated[
        str | None, option("VALUE", "Compare with this group, not the first.")
    ] = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Compare each group with all others together.")
    ] = False,
    reading: TableOptions,
    sentinels: Annotated[
        Literal["warn", "missing", "keep"],
        option("NAME", "How -999 and the like are read: warn, missing or keep."),
    ] = "warn",
    identifiers: Annotated[
        bool, typer.Option("--identifiers", help="Compare identifiers too.")
    ] = False,
    clusters: Annotated[
        str | None, option("COL", "Rows with equal values depend on each other.")
    ] = None,
    strata: Annotated[
        str | None, option("COL", "Rows are exchangeable within equal values.")
    ] = None,
    freq_weights: Annotated[
        str | None, option("COL", "Number of equal rows that a row represents.")
    ] = None,
    weights: Annotated[str | None, option("COL", "Weight of a row, as in a survey.")] = None,
    permutations: PermutationOptions,
    fail: Fail = False,
    min_effect: Annotated[
        float | None, effect_option("SHARE", 0.0, "the largest change in a proportion of rows")
    ] = None,
    max_changed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="With --fail: up to N changed columns pass."),
    ] = None,
    markdown: Annotated[
        Path | None, option("FILE", "Write the report as Markdown.", callback=check_output_file)
    ] = None,
    html: Html = None,
) -> bool:
    """What has changed between two tables?

    One test of the joint distributions, then columns and pairs. Columns are numbers, categories,
    dates or text, with missing values. One p-value at an exact level is for a difference of the
    tables; changed columns and pairs are listed only if it is significant. With --min-effect or
    --max-changed only changed columns count for --fail.
    """
    if not fail and (min_effect is not None or max_changed is not None):
        raise typer.BadParameter("--min-effect and --max-changed are for --fail")
    if (after is None) != (by is not None):
        raise typer.BadParameter("give two tables, or one and --by, the column that divides it")
    if by is None and (rest or against is not None):
        raise typer.BadParameter("--against and --rest are about the groups of --by")
    if after is None and names is not None:
        raise typer.BadParameter("--names are those of two tables, and --by has groups")
    options: dict[str, Any] = {
        **reading,
        **permutations,
        "sentinels": sentinels,
        "identifiers": identifiers,
        "clusters": clusters,
        "strata": strata,
        "freq_weights": freq_weights,
        "weights": weights,
        "progress": terminal.progress,
    }
    result: TableComparison | GroupsComparison
    with terminal.step("compare", "comparing the tables", spinner=False):
        from bke.inference import compare_groups, compare_tables

        if after is not None:
            labels = sample_names(names, before, after)
            labels = ("before", "after") if labels == ("P", "Q") and names is None else labels
            result = compare_tables(before, after, names=labels, **options)
        else:
            groups = compare_groups(before, str(by), against=against, rest=rest, **options)
            result = groups if len(groups.comparisons) > 1 else groups.comparisons[0]
    terminal.say(str(result))
    for path, report in ((markdown, result.to_markdown), (html, result.to_html)):
        if path is not None:
            write_text(path, report())
            terminal.say(f"Written: {path}")
    failed = fail and result.reject
    if min_effect is not None or max_changed is not None:
        failed = _has_changed(result, min_effect or 0.0, max_changed or 0, terminal)
    sources = [str(path) for path in (before, after) if path is not None]
    summary = {"command": "drift", "sources": sources, **result.to_dict()}
    if fail:
        summary |= {"failed": failed, "min_effect": min_effect, "max_changed": max_changed}
    terminal.queue_json(summary)
    return failed


def _has_changed(
    result: TableComparison | GroupsComparison,
    min_effect: float,
    max_changed: int,
    terminal: Terminal,
) -> bool:
    """Print by how much columns changed, and return whether too many did in any comparison."""
    from bke.inference import TableComparison

    failed = False
    comparisons = (result,) if isinstance(result, TableComparison) else result.comparisons
    for comparison in comparisons:
        changed, large = comparison.changed_columns(), len(comparison.changed_columns(min_effect))
        failed |= large > max_changed
        largest = sorted(changed, key=lambda column: -column.effect.size)
        sizes = [f"{column.name} {column.effect.size:.3g}" for column in largest[:MAX_SIZES]]
        sizes += ["..."] * (len(largest) > MAX_SIZES)
        names = " and ".join(comparison.names)
        sentences = [
            f"{'Failed' if large > max_changed else 'Passed'}: {names} have {large} of "
            f"{pluralize(len(changed), 'changed column')} with an effect size of at least "
            f"{min_effect:g}, and at most {max_changed} are allowed."
        ]
        if sizes:
            sentences.append(f"Effect sizes: {', '.join(sizes)}.")
        if pairs := sum(pair.reject for pair in comparison.pairs):
            sentences.append(f"{pluralize(pairs, 'changed pair')} of columns not counted.")
        terminal.say(" ".join(sentences))
    return failed


def monitor(
    terminal: Terminal,
    *,
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="CSV or JSON lines; - is standard input.")
    ] = "-",
    reference: Annotated[
        Path | None, option("FILE", f"Rows as they should be: {TABLES}.", show_default=False)
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=check_output_file,
            help="Written after every batch, to continue after a restart.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None, option("COL", "Column by which repeated rows are recognized and dropped.")
    ] = None,
    time: Annotated[
        str | None, option("COL", "Column of the time of a row; late rows are counted.")
    ] = None,
    by: Annotated[str | None, option("COL", "Column of the names of several streams.")] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Rows of a line of output; changes no result.")
    ] = 1000,
    alpha: Annotated[float, typer.Option(help="Probability of a false alarm, ever.")] = 0.05,
    seed: Seed = 0,
    reading: TableOptions,
    fail: Annotated[
        bool, typer.Option("--fail", help=f"End with status {DIFFERENT} at the first alarm.")
    ] = False,
    out: Annotated[Path | None, optional_folder("monitor.png and monitor.json")] = None,
) -> bool:
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
    settings: dict[str, Any] = {"alpha": alpha, "key": key, "time": time, "seed": seed}
    read = [reference, state, None if stream == "-" else Path(stream)]
    with (
        output_folder(terminal, out, MONITOR_FILES, command="monitor", read=read) as output,
        _locked(state),
    ):
        from bke.inference import Monitor, Monitors

        monitors: Monitor | Monitors
        if state is not None and state.exists():
            monitors = _resume(state, reference, settings, reading, terminal)
            if stream != "-" and key is None:
                terminal.notes(
                    [
                        f"All rows of {stream} are read as new rows, also those that were read "
                        "before; --key names a column by which these are recognized."
                    ]
                )
        else:
            with terminal.step("reference", "reading the reference"):
                if by is not None:
                    monitors = Monitors(reference, by, **settings, **reading)
                else:
                    monitors = Monitor(reference, **settings, **reading)
        notes = _follow(monitors, stream, batch, state, fail, terminal)
        if out is not None:
            output.notes += notes  # printed already
            output.draw(lambda: [("monitor", monitors.plot)])
            output.write_summary({"stream": stream, **monitors.to_dict()})
    return fail and monitors.alarm


def _follow(
    monitors: Monitor | Monitors,
    stream: str,
    batch: int,
    state: Path | None,
    fail: bool,
    terminal: Terminal,
) -> list[str]:
    """Update monitors with rows as they arrive; save the state, and print a line for each batch.

    Args:
        monitors: the monitors.
        stream: a file, or ``-``.
        batch: number of rows of a batch.
        state: the file of the state, if any.
        fail: end at the first alarm.
        terminal: the terminal of the command.

    Returns:
        Notes on lines of the stream.
    """
    from bke.inference import Monitor

    from ...io.stream import RowStream

    noted: set[str] = set()
    last_lines: set[str] = set()

    def conclude() -> None:
        lines = [line for line in str(monitors).splitlines() if line not in last_lines]
        if lines := [*lines, *rows.notes]:
            terminal.say("\n".join(["", *lines]))

    with _open_stream(stream) as file:
        rows = RowStream(
            file, monitors.all_columns, monitors.required_columns, monitors.numeric_columns
        )
        try:
            for table in rows.batches(batch):
                monitors.update(table)
                if isinstance(monitors, Monitor) and state is not None:
                    monitors.to_file(state)  # before it is printed: a killed command repeats no row
                new = [note for note in (*rows.notes, *monitors.notes) if note not in noted]
                noted.update(new)
                if terminal.json:
                    typer.echo(json.dumps(monitors.to_dict() | {"notes": new}))
                else:
                    terminal.notes(new)
                    terminal.say(monitors.summary_line)
                    last_lines = {monitors.summary_line, *monitors.notes}
                if fail and monitors.alarm:
                    break
        except KeyboardInterrupt:
            conclude()
            raise
    conclude()
    return rows.notes


@contextlib.contextmanager
def _locked(state: Path | None) -> Iterator[None]:
    """Hold the lock of a state from before it is read until it is written for the last time.

    Raises:
        InputError: another process holds it.
    """
    if state is None:
        yield
        return
    from ...core.atomic import acquire_lock, remove_temporary_files

    lock = acquire_lock(state.with_name(f".{state.name}.lock"), str(state))
    try:
        remove_temporary_files(state)
        yield
    finally:
        lock.release()


def _resume(
    state: Path,
    reference: Path | None,
    settings: dict[str, Any],
    reading: dict[str, Any],
    terminal: Terminal,
) -> Monitor:
    """Return the monitor of a state.

    Raises:
        BadParameter: it was started with other options or another reference.
    """
    from bke.inference import Monitor

    monitors = Monitor.from_file(state)
    defaults = {"alpha": 0.05, "key": None, "time": None, "seed": 0}
    for name, value in monitors.settings.items():
        if settings[name] not in (value, defaults[name]):
            raise typer.BadParameter(
                f"{state} was started with --{name} {value}, not {settings[name]}: name another "
                "file to start again"
            )
    if reference is not None:
        with terminal.step("reference", "reading the reference"):
            same = Monitor(reference, **{**monitors.settings, **reading})
        if not same.has_same_reference(monitors):
            raise typer.BadParameter(
                f"{state} was started with another reference than {reference}, or other columns of "
                "it: name another file to start again"
            )
    terminal.notes(
        [
            f"Going on after {pluralize(monitors.state.rows, 'row')} from {state}, with the "
            "reference that it was started with."
        ]
    )
    return monitors


@contextlib.contextmanager
def _open_stream(stream: str) -> Iterator[IO[bytes]]:
    """Open a file, or standard input, for bytes."""
    if stream == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file, or pipe rows into the command")
        # A copy that is never closed: a thread may wait for a line when the command ends, and
        # Python aborts if that thread holds ``sys.stdin``.
        try:
            yield open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115
        except io.UnsupportedOperation:  # as in tests, where it has no descriptor
            yield sys.stdin.buffer
        return
    check_file(Path(stream))
    with open(stream, "rb") as file:
        yield file
