"""Tables: how their columns are read, and which rows go together."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from .panels import DATA, TEST


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Which columns of tables are looked at, and how they are read."""

    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="COL",
            rich_help_panel=DATA,
            help="A column that is left out. May be given again.",
        ),
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="COL=KIND",
            rich_help_panel=DATA,
            help="What a column is, where its cells do not tell: number, integer, boolean, "
            "category, datetime, text or identifier.",
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            metavar="CELL",
            rich_help_panel=DATA,
            help="A cell that stands for a missing value, as --missing=-999. Empty cells, NA, NaN "
            "and null do anyway.",
        ),
    ] = None
    written: Annotated[
        list[str] | None,
        typer.Option(
            "--written",
            metavar="HOW",
            rich_help_panel=DATA,
            help="How numbers or dates are written where cells can be read in several ways, as "
            "'decimal commas' or 'day/month/year'.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            rich_help_panel=DATA,
            help="Of text files.",
            show_default="UTF-8",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What of this functions of tables take."""
        return {
            "exclude": self.exclude or (),
            "kinds": self.kinds,
            "missing": self.missing or (),
            "written": self.written or (),
            "encoding": self.encoding,
        }

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds that are asked for, by column.

        Raises:
            BadParameter: for what is not a column and a kind.
        """
        found = {}
        for one in self.kind or ():
            column, equals, kind = one.rpartition("=")
            if not equals:
                raise typer.BadParameter(f"--kind {one} names no kind: write --kind {one}=category")
            found[column] = kind
        return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What is compared of two tables, and how it is read."""

    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COL",
            rich_help_panel=DATA,
            help="Of one table: the column whose values make the groups that are compared, each "
            "with the first.",
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="VALUE",
            rich_help_panel=DATA,
            help="Of --by: the group that others are compared with.",
            show_default="the first",
        ),
    ] = None
    rest: Annotated[
        bool,
        typer.Option(
            "--rest",
            rich_help_panel=DATA,
            help="Compare each group of --by with all others together.",
        ),
    ] = False
    reading: ReadingOptions
    coded: Annotated[
        bool,
        typer.Option(
            "--coded",
            rich_help_panel=DATA,
            help="Take numbers that look like codes, as -999 or 9999 far from all others, for "
            "missing values. Otherwise a note tells of them.",
        ),
    ] = False
    identifiers: Annotated[
        bool,
        typer.Option(
            "--identifiers",
            rich_help_panel=DATA,
            help="Compare columns that tell rows apart too. Otherwise they are left out.",
        ),
    ] = False
    units: Annotated[
        str | None,
        typer.Option(
            "--units",
            metavar="COL",
            rich_help_panel=TEST,
            help="Rows of equal values go together, such as those of a user or a day.",
        ),
    ] = None
    blocks: Annotated[
        str | None,
        typer.Option(
            "--blocks",
            metavar="COL",
            rich_help_panel=TEST,
            help="Rows are exchangeable within equal values alone, such as those of a site.",
        ),
    ] = None

    counts: Annotated[
        str | None,
        typer.Option(
            "--counts",
            metavar="COL",
            rich_help_panel=DATA,
            help="How many equal rows each row stands for.",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COL",
            rich_help_panel=DATA,
            help="What each row counts for, as survey weights.",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What of this :func:`~bke.inference.compare_tables` takes."""
        return {
            **self.reading.arguments(),
            "coded": self.coded,
            "identifiers": self.identifiers,
            "units": self.units,
            "blocks": self.blocks,
            "counts": self.counts,
            "weights": self.weights,
        }
