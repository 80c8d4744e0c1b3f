"""Options and arguments that several commands have."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from ..core.errors import nearest
from ..core.names import printable
from ..data.checks import Standardize
from ..sampling.samplers import MethodName, Nuts

#: Exit status where a difference was found and ``--fail`` asked to be told.
DIFFERENT = 3
#: Names of sampling covariances.
NOISES = ("clt", "heteroscedastic")
#: Kernels by their names: classes in bke.models, and the parameters that they are built with.
KERNELS: dict[str, tuple[str, dict[str, float]]] = {
    "se": ("SquaredExponential", {}),
    "matern12": ("Matern", {"nu": 0.5}),
    "matern32": ("Matern", {"nu": 1.5}),
    "matern52": ("Matern", {"nu": 2.5}),
    "laplace": ("Laplace", {}),
    "rq": ("RationalQuadratic", {}),
}
FILE_KINDS = "CSV, TSV or TXT with or without a header, Parquet, or NPY"


def _not_an_option(path: Path | None) -> Path | None:
    """Refuse an option in place of a name."""
    if path is not None and str(path).startswith("-"):
        raise typer.BadParameter(f"a name is needed, and {path} is an option")
    return path


def check_written_file(path: Path | None) -> Path | None:
    """Refuse an option in place of a file's name, and a folder that there is not.

    Raises:
        BadParameter: before anything is computed.
    """
    path = _not_an_option(path)
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent} for {path.name}")
    return path


def _check_page(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{path} must end in .html to be opened as a page")
    return check_written_file(path)


def _check_names(names: tuple[str, str] | None) -> tuple[str, str] | None:
    if names is not None:
        if option := next((name for name in names if name.startswith("-")), None):
            raise typer.BadParameter(f"--names takes two names, and {option} is an option")
        if len({name.strip() for name in names} - {""}) < 2:
            raise typer.BadParameter("--names are to tell the samples apart")
    return names


def _check_kernel(name: str) -> str:
    if name not in KERNELS and ":" not in name:
        raise typer.BadParameter(
            f"{name!r} is not one of {', '.join(map(repr, KERNELS))} or MODULE:CLASS"
            f"{nearest(name, KERNELS) or '.'}"
        )
    return name


def number_or_word(text: str, words: tuple[str, ...]) -> str | float:
    """A number, or one of some words.

    Raises:
        BadParameter: it is neither.
    """
    if text.lower() in words:
        return text.lower()
    try:
        return float(text)
    except ValueError:
        choices = ", ".join(map(repr, words))
        raise typer.BadParameter(f"{text!r} is not {choices} or a number.") from None


def _checked(words: tuple[str, ...]) -> Callable[[str], str]:
    """A check that an option is a number, or one of some words."""

    def check(text: str) -> str:
        number_or_word(text, words)
        return text

    return check


def find_modules_here(named: Any) -> Any:
    """Let a module that an option names be found in the current folder.

    At the end of the path, so that no file there hides another module; and only for these options,
    so that no file there is run where no module is named.
    """
    if named and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return named


# What is read.
FirstSample: TypeAlias = Annotated[
    Path, typer.Argument(metavar="P", help=f"First sample: {FILE_KINDS}.", show_default=False)
]
SecondSample: TypeAlias = Annotated[
    Path, typer.Argument(metavar="Q", help="Second sample.", show_default=False)
]
RunFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="File of bke run or bke fit.")
]
Columns: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Columns, by name or number from 0. Default: all."),
]
Names: TypeAlias = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="P Q",
        callback=_check_names,
        help="Names of the samples. Default: their files'.",
        show_default=False,
    ),
]
Modules: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="NAME",
        callback=find_modules_here,
        help="Module of a kernel of your own, to be imported.",
    ),
]
Parameters: TypeAlias = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Parameters to look at. Default: all.")
]

# The model and how it is sampled.
KernelName: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=_check_kernel,
        help="se, matern12, matern32, matern52, laplace, rq, or MODULE:CLASS of your own.",
    ),
]
Ard: TypeAlias = Annotated[bool, typer.Option("--ard", help="One lengthscale per column.")]
PriorShape: TypeAlias = Annotated[float, typer.Option(help="Shape of the Gamma prior.")]
PriorRate: TypeAlias = Annotated[float, typer.Option(help="Rate of the Gamma prior.")]
NoiseVariance: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NUMBER|clt",
        callback=_checked(NOISES),
        help="Noise of the embedding, or clt.",
    ),
]
Likelihood: TypeAlias = Annotated[
    Literal["auto", "dense", "spectral", "landmark"],
    typer.Option(metavar="NAME", help="auto, dense, spectral or landmark."),
]
Landmarks: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COUNT|FILE", help="Of landmark. Default: 64, or a quarter of the rows."),
]
StandardizeName: TypeAlias = Literal[Standardize, "none"]
Unit: TypeAlias = Annotated[
    StandardizeName | None,
    typer.Option(
        "--standardize",
        metavar="NAME",
        help="Unit of the prior: column, pooled or none.",
    ),
]
Method: TypeAlias = Annotated[
    MethodName | None,
    typer.Option(metavar="NAME", help="auto, nuts, quadrature or smc."),
]
Chains: TypeAlias = Annotated[
    int | None,
    typer.Option(help=f"Chains of nuts, or repeats of smc. Default: {Nuts.num_chains}."),
]
Warmup: TypeAlias = Annotated[
    int | None,
    typer.Option(help=f"Warmup of a chain. Default: {Nuts.num_warmup}."),
]
Draws: TypeAlias = Annotated[
    int | None,
    typer.Option(help=f"Draws of a chain. Default: {Nuts.num_samples}."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of every random number.")]

# The witness.
Noise: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="clt|NUMBER",
        callback=_checked(("clt",)),
        help="Noise of the witness.",
    ),
]
Level: TypeAlias = Annotated[float, typer.Option(help="Probability within the band.")]
Points: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Points of evaluation. Default: a grid or the data."),
]

# Tests.
Permutations: TypeAlias = Annotated[int, typer.Option(min=1, help="Number of permutations.")]
Alpha: TypeAlias = Annotated[float, typer.Option(help="Level of the test.")]
Fail: TypeAlias = Annotated[
    bool, typer.Option("--fail", help=f"Exit status {DIFFERENT} if a difference is found.")
]


def min_effect(metavar: str, least: float, what: str) -> Any:
    """``--min-effect``, in the command's measure, which is from ``least`` to 1."""

    def check(value: float | None) -> float | None:
        if value is not None and not least <= value <= 1.0:
            raise typer.BadParameter(f"it is {what}, between {least:g} and 1, and {value:g} is not")
        return value

    text = f"With --fail, smaller ones pass: {what}."
    return typer.Option("--min-effect", metavar=metavar, callback=check, help=text)


# Tables.
Exclude: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="COL", help="A column to leave out; again for more.")
]
ColumnType: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="COL=TYPE", help="Such as age=category; again for more."),
]
NaValue: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="CELL", help="A missing value, as --na-value=-999; again for more."),
]
Format: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Of ambiguous cells, as 'decimal commas'."),
]
Encoding: TypeAlias = Annotated[
    str | None, typer.Option(help="Of text files that are not UTF-8.", show_default="UTF-8")
]


def reading_arguments(
    exclude: list[str] | None,
    column_type: list[str] | None,
    na_value: list[str] | None,
    format_: list[str] | None,
    encoding: str | None,
) -> dict[str, Any]:
    """Arguments of functions of tables.

    Raises:
        BadParameter: a type of a column is not a column and a type.
    """
    types = {}
    for value in column_type or ():
        column, equals, type_ = value.rpartition("=")
        if not equals:
            name, colon, last = value.rpartition(":")
            column, type_ = (name, last) if colon else (value, "category")
            raise typer.BadParameter(
                f"--column-type {value} names no type: write --column-type {column}={type_}"
            )
        types[column] = type_
    return {
        "exclude": exclude or (),
        "column_types": types,
        "na_values": na_value or (),
        "formats": format_ or (),
        "encoding": encoding,
    }


# What is written.
OutFolder: TypeAlias = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", callback=_not_an_option, help="Folder of the files."),
]
OutFile: TypeAlias = Annotated[
    Path,
    typer.Option("--out", metavar="FILE", callback=_not_an_option, help="The NetCDF file."),
]
Html: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", callback=_check_page, help="Write the report as a page."),
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Print the whole report.")]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, and text on standard error.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Debug: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def optional_folder(files: str) -> Any:
    """``--out`` of a command that need not write, with the files that it writes there."""
    return typer.Option("--out", metavar="DIR", callback=_not_an_option, help=f"Folder of {files}.")


def parse_columns(text: str | None) -> list[str] | None:
    """``a,b`` as a list; a name with a comma stands in double quotes, as in a CSV file."""
    if text is None:
        return None
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), []) or [""]]


def sample_names(names: tuple[str, str] | None, first: Path, second: Path) -> tuple[str, str]:
    """The names of two samples: as asked for, or those of their files, or P and Q."""
    if names is not None:
        return names
    stems = (printable(first.name.split(".")[0]), printable(second.name.split(".")[0]))
    return ("P", "Q") if stems[0] == stems[1] or "" in stems else stems
