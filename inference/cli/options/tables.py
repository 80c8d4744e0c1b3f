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
    column_type: Annotated[
        list[str] | None,
        typer.Option(
            "--column-type",
            metavar="COL=TYPE",
            rich_help_panel=DATA,
            help="Type of a column, in place of the inferred one: number, integer, boolean, "
            "category, datetime, text or identifier.",
        ),
    ] = None
    na_value: Annotated[
        list[str] | None,
        typer.Option(
            "--na-value",
            metavar="CELL",
            rich_help_panel=DATA,
            help="A cell that stands for a missing value, as --na-value=-999. Empty cells, NA, NaN "
            "and null always do.",
        ),
    ] = None
    format: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            rich_help_panel=DATA,
            help="Format of numbers or dates where cells fit several, as 'decimal commas' or "
            "'day/month/year'.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            rich_help_panel=DATA,
            help="Of text files that are not UTF-8.",
            show_default="UTF-8",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of functions of tables."""
        return {
            "exclude": self.exclude or (),
            "column_types": self.column_types,
            "na_values": self.na_value or (),
            "formats": self.format or (),
            "encoding": self.encoding,
        }

    @property
    def column_types(self) -> dict[str, str]:
        """Types of columns by name.

        Raises:
            BadParameter: a value is not a column and a type.
        """
        types = {}
        for value in self.column_type or ():
            column, equals, type_ = value.rpartition("=")
            if not equals:
                name, colon, last = value.rpartition(":")
                column, type_ = (name, last) if colon else (value, "category")
                raise typer.BadParameter(
                    f"--column-type {value} names no type: write --column-type {column}={type_}"
                )
            types[column] = type_
        return types


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
    sentinels: Annotated[
        str,
        typer.Option(
            "--sentinels",
            metavar="warn|missing|keep",
            rich_help_panel=DATA,
            help="Numbers that look like sentinels of missing values, as -999 or 9999 far from all "
            "others: compare them with a note, read them as missing, or compare them.",
        ),
    ] = "warn"
    identifiers: Annotated[
        bool,
        typer.Option(
            "--identifiers",
            rich_help_panel=DATA,
            help="Compare identifiers too. Otherwise they are left out.",
        ),
    ] = False
    clusters: Annotated[
        str | None,
        typer.Option(
            "--clusters",
            metavar="COL",
            rich_help_panel=TEST,
            help="Rows of equal values depend on each other, such as those of a user or a day.",
        ),
    ] = None
    strata: Annotated[
        str | None,
        typer.Option(
            "--strata",
            metavar="COL",
            rich_help_panel=TEST,
            help="Rows are exchangeable within equal values alone, such as those of a site.",
        ),
    ] = None

    freq_weights: Annotated[
        str | None,
        typer.Option(
            "--freq-weights",
            metavar="COL",
            rich_help_panel=DATA,
            help="Number of equal rows that each row stands for.",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="COL",
            rich_help_panel=DATA,
            help="Weight of each row, as in a survey.",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Arguments of :func:`~bke.inference.compare_tables`."""
        return {
            **self.reading.arguments(),
            "sentinels": self.sentinels,
            "identifiers": self.identifiers,
            "clusters": self.clusters,
            "strata": self.strata,
            "freq_weights": self.freq_weights,
            "weights": self.weights,
        }
