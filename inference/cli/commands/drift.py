"""``bke drift``: what has changed between two tables?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.atomic import write_text
from ...data.checks import pluralize
from ..command import command
from ..options.data import NameOptions
from ..options.output import HtmlOption, check_html, written_file
from ..options.panels import OUTPUT, TEST
from ..options.sampler import SeedOption
from ..options.tables import TableOptions
from ..options.testing import (
    DIFFERENT,
    AlphaOption,
    FailOption,
    PermutationsOption,
    SequentialOption,
    min_effect_option,
)
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import GroupsComparison, TableComparison

#: Effect sizes that are printed, the largest ones.
MOST_SIZES = 6
TABLES = (
    "CSV, TSV or JSON lines (also .gz or .zst), Parquet (a folder or a glob too), Arrow or Excel"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DriftOptions:
    """How the comparison is calibrated, and whether a difference is a failure."""

    permutations: PermutationsOption = 999
    sequential: SequentialOption = True
    alpha: AlphaOption = 0.05
    seed: SeedOption = 0
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            callback=written_file,
            rich_help_panel=OUTPUT,
            help="Write the answer and a table of all columns as GitHub-flavoured Markdown.",
        ),
    ] = None
    html: HtmlOption = None
    fail: FailOption = False
    min_effect: Annotated[
        float | None,
        min_effect_option(
            "PROPORTION",
            0.0,
            "the largest change in a proportion of rows (of numbers up to any value, of categories "
            "in any set of levels, of missing values)",
        ),
    ] = None
    max_changed: Annotated[
        int | None,
        typer.Option(
            "--max-changed",
            metavar="N",
            min=0,
            rich_help_panel=TEST,
            help="With --fail: up to N changed columns pass.  [default: 0]",
        ),
    ] = None

    @property
    def gate(self) -> bool:
        """Whether changed columns are counted, in place of any difference.

        Raises:
            BadParameter: they are, and nothing fails.
        """
        counts = self.min_effect is not None or self.max_changed is not None
        if counts and not self.fail:
            raise typer.BadParameter("--min-effect and --max-changed are for --fail")
        return counts


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

    With --fail any difference is a failure. With --min-effect or --max-changed only changed columns
    count, not changed pairs; of groups, the columns of each comparison.
    """
    gate = options.gate
    if (after is None) != (tables.by is not None):
        raise typer.BadParameter("give two tables, or one and --by, the column that divides it")
    check_html(options.html)
    if tables.by is None and (tables.rest or tables.against is not None):
        raise typer.BadParameter("--against and --rest are about the groups of --by")
    if after is None and called.called is not None:
        raise typer.BadParameter("--names are those of two tables, and --by has groups")
    with terminal.step("compare", "comparing the tables", spinner=False):
        found = _compared(terminal, before, after, tables, called, options)
    terminal.say(str(found))
    for path, made in ((options.markdown, found.to_markdown), (options.html, found.to_html)):
        if path is not None:
            write_text(path, made())
            terminal.say(f"Written: {path}")
    sources = [str(path) for path in (before, after) if path is not None]
    failed = _failed(found, options, terminal) if gate else options.fail and found.reject
    limits = {"min_effect": options.min_effect, "max_changed": options.max_changed}
    verdict = {"failed": failed, **limits} if options.fail else {}
    terminal.finish({"command": "drift", "sources": sources, **found.to_dict(), **verdict})
    if failed:
        raise typer.Exit(DIFFERENT)


def _failed(
    found: TableComparison | GroupsComparison, options: DriftOptions, terminal: Terminal
) -> bool:
    """Print by how much columns changed, and return whether too many did in any comparison."""
    from bke.inference import TableComparison

    least, most = options.min_effect or 0.0, options.max_changed or 0
    failed = False
    for one in (found,) if isinstance(found, TableComparison) else found.comparisons:
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


def _compared(
    terminal: Terminal,
    before: Path,
    after: Path | None,
    tables: TableOptions,
    called: NameOptions,
    options: DriftOptions,
) -> TableComparison | GroupsComparison:
    """Two tables, or the groups of one."""
    from bke.inference import compare_groups, compare_tables

    how: dict[str, Any] = {
        **tables.arguments(),
        "alpha": options.alpha,
        "n_resamples": options.permutations,
        "sequential": options.sequential,
        "seed": options.seed,
        "progress": terminal.progress,
    }
    if after is not None:
        return compare_tables(before, after, names=_names(before, after, called), **how)
    assert tables.by is not None
    found = compare_groups(before, tables.by, against=tables.against, rest=tables.rest, **how)
    return found if len(found.comparisons) > 1 else found.comparisons[0]


def _names(before: Path, after: Path, called: NameOptions) -> tuple[str, str]:
    """What the tables are called: as is asked for, as their files, or before and after."""
    names = called.of(before, after)
    return ("before", "after") if names == ("P", "Q") and called.called is None else names
