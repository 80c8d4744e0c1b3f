"""The samples: files, and columns of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ...core.names import printable
from ..words import find_modules_here, parse_columns
from .panels import DATA

FILE_KINDS = "CSV, TSV or TXT with or without a header, Parquet, or NPY"

RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="A file that bke fit or bke run wrote.")
]
ModuleOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="NAME",
        rich_help_panel=DATA,
        callback=find_modules_here,
        help="A module that a kernel of your own is in, to be imported: a file that was made with "
        "it may come from others, so that bke does not import it by itself. May be given again.",
    ),
]
FirstSample: TypeAlias = Annotated[
    Path, typer.Argument(metavar="P", help=f"First sample: {FILE_KINDS}.", show_default=False)
]
SecondSample: TypeAlias = Annotated[
    Path, typer.Argument(metavar="Q", help="Second sample.", show_default=False)
]
SamplesArgument: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES...", help=f"One or more samples: {FILE_KINDS}.", show_default=False
    ),
]
RowsArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help=f"One row each: {FILE_KINDS}.", show_default=False)
]


def columns_option(name: str, text: str) -> Any:
    """Columns that play one part, such as ``--given``."""
    return typer.Option(
        name, metavar="A,B,...", rich_help_panel=DATA, help=text, show_default=False
    )


def rows_option(text: str) -> Any:
    """``--at``, a file of further rows."""
    return typer.Option("--at", metavar="FILE", rich_help_panel=DATA, help=text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NameOptions:
    """What two samples are called wherever they are told of."""

    called: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--names",
            metavar="P Q",
            rich_help_panel=DATA,
            help="What the samples are called in words and pictures. Default: their files' names "
            "without the ending, or P and Q where these are the same.",
            show_default=False,
        ),
    ] = None

    def of(self, first: Path, second: Path) -> tuple[str, str]:
        """The names of the samples in two files.

        Raises:
            BadParameter: for two equal or empty names.
        """
        if self.called is not None:
            if option := next((name for name in self.called if name.startswith("-")), None):
                raise typer.BadParameter(f"--names takes two names, and {option} is an option")
            if len({name.strip() for name in self.called} - {""}) < 2:
                raise typer.BadParameter("--names are to tell the samples apart")
            return self.called
        stems = (printable(first.name.split(".")[0]), printable(second.name.split(".")[0]))
        return ("P", "Q") if stems[0] == stems[1] or "" in stems else stems


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns of the files are used."""

    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B,...",
            rich_help_panel=DATA,
            help="Columns to use, by name (in double quotes where it has a comma) or by number "
            "counted from 0. Default: all.",
        ),
    ] = None

    @property
    def names(self) -> list[str] | None:
        """One by one; ``None`` for all."""
        return parse_columns(self.columns)
