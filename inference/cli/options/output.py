"""Where a command writes and prints."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from .panels import OUTPUT


def _named(path: Path | None) -> Path | None:
    """Refuse an option in place of a name."""
    if path is not None and str(path).startswith("-"):
        raise typer.BadParameter(f"a name is needed, and {path} is an option")
    return path


def written_file(path: Path | None) -> Path | None:
    """Refuse an option in place of a file's name, and a folder that there is not.

    Raises:
        BadParameter: before anything is computed.
    """
    path = _named(path)
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent} for {path.name}")
    return path


OutFolder: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        callback=_named,
        rich_help_panel=OUTPUT,
        help="Folder of the files; created if need be, files of an earlier run are replaced.",
    ),
]
OutFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=_named,
        rich_help_panel=OUTPUT,
        help="The NetCDF file; its folder is created if need be.",
    ),
]


HtmlOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        callback=written_file,
        rich_help_panel=OUTPUT,
        help="Write the report as one page that needs no network.",
    ),
]


VerboseOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verbose", rich_help_panel=OUTPUT, help="Print the whole comparison and diagnosis."
    ),
]


def check_html(path: Path | None) -> None:
    """Refuse a name that a browser would not open as a page, before anything is computed.

    Raises:
        BadParameter: it does not end in .html or .htm.
    """
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"--html {path} must end in .html to be opened as a page")


#: What a command does that shows a table where it need not write one.
PRINTED = "no files, the first rows are printed"


def optional_folder(files: str, without: str = "no files") -> Any:
    """``--out`` of a command that need not write: which files, and what happens without it."""
    return typer.Option(
        "--out",
        metavar="DIR",
        callback=_named,
        rich_help_panel=OUTPUT,
        help=f"Folder for {files}. Default: {without}.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScreenOptions:
    """What is printed, the same for every command."""

    json: Annotated[
        bool,
        typer.Option(
            "--json",
            rich_help_panel=OUTPUT,
            help="Print the summary as JSON on standard output, everything else on standard error.",
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            rich_help_panel=OUTPUT,
            help="Show no progress (with --json: print nothing but JSON and warnings).",
        ),
    ] = False
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", rich_help_panel=OUTPUT, help="Show the Python traceback of an error."
        ),
    ] = False
