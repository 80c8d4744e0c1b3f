"""``bke drift``: what has changed between two tables?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ...runtime.atomic import atomic_path
from ..command import command
from ..options.data import NameOptions
from ..options.panels import OUTPUT, TEST
from ..options.sampler import SeedOption
from ..options.tables import TableOptions
from ..options.testing import AlphaOption, PermutationsOption
from ..terminal import Terminal

#: Exit status where a difference was found and ``--fail`` asked to be told.
DIFFERENT = 3
TABLES = (
    "CSV, TSV or JSON lines (also .gz or .zst), Parquet (a folder or a glob too), Arrow or Excel"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftOptions:
    """How the comparison is calibrated, and whether a difference is a failure."""

    permutations: PermutationsOption = 999
    alpha: AlphaOption = 0.05
    seed: SeedOption = 0
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Write the answer and a table of all columns as GitHub-flavoured Markdown.",
        ),
    ] = None
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            rich_help_panel=TEST,
            help=f"Exit with status {DIFFERENT} where the tables differ, for pipelines.",
        ),
    ] = False


@command("Example: `bke drift last_month.csv this_month.csv --exclude customer --fail`")
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
    *,
    tables: TableOptions,
    called: NameOptions,
    options: DriftOptions,
) -> None:
    """What has changed between two tables: one test of both as wholes, then columns and pairs.

    Columns are numbers, categories, dates or text, with holes; a hole is a state. One p-value at an
    exact level tells whether the tables differ. Only then are columns named that have changed, and
    pairs that go together otherwise, with p-values adjusted for all of them.
    """
    if (after is None) != (tables.by is not None):
        raise typer.BadParameter("give two tables, or one and --by, the column that divides it")
    kinds = tables.kinds
    with terminal.step("compare", "comparing the tables", spinner=False):
        from bke.inference import compare_tables

        found = compare_tables(
            before,
            after,
            by=tables.by,
            exclude=tables.exclude or (),
            kinds=kinds,
            missing=tables.missing or (),
            units=tables.units,
            blocks=tables.blocks,
            alpha=options.alpha,
            permutations=options.permutations,
            names=_names(before, after, called),
            encoding=tables.encoding,
            seed=options.seed,
            progress=terminal.progress,
        )
    terminal.notes(found.notes)
    terminal.say(str(found))
    if options.markdown is not None:
        with atomic_path(options.markdown) as path:
            path.write_text(found.to_markdown(), encoding="utf-8")
        terminal.say(f"Written: {options.markdown}")
    sources = [str(path) for path in (before, after) if path is not None]
    terminal.finish({"command": "drift", "sources": sources, **found.to_dict()})
    if options.fail and found.differ:
        raise typer.Exit(DIFFERENT)


def _names(before: Path, after: Path | None, called: NameOptions) -> tuple[str, str]:
    """What the tables are called: as is asked for, as their files, or before and after."""
    if after is None:
        return ("before", "after")
    names = called.of(before, after)
    return ("before", "after") if names == ("P", "Q") and called.called is None else names
