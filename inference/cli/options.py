"""Options and arguments of several commands."""

from __future__ import annotations

import csv
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ..core.errors import InputError
from ..core.names import printable
from ..data.checks import check_positive

#: Exit status where a difference was found and ``--fail`` is set.
DIFFERENT = 3
#: Kernels by their names: classes in bke.models, and the parameters that they are built with.
KERNELS: dict[str, tuple[str, dict[str, float]]] = {
    "se": ("SquaredExponential", {}),
    "matern12": ("Matern", {"nu": 0.5}),
    "matern32": ("Matern", {"nu": 1.5}),
    "matern52": ("Matern", {"nu": 2.5}),
    "laplace": ("Laplace", {}),
    "rq": ("RationalQuadratic", {}),
}
FILE_TYPES = "CSV, TSV, TXT or JSON lines, Parquet, Arrow, Excel or NPY"


class Depends:
    """Replace a parameter of a command by the options of a function, and pass it their result.

    As ``Depends`` of FastAPI: ``columns: Annotated[list[str] | None, Depends(parse_columns)]``
    gives the command the option that is the parameter of ``parse_columns``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters of the function, with those of a dependency in its place."""
        parameters = []
        for parameter, dependency in self._dependencies():
            parameters += dependency.parameters() if dependency else [parameter]
        return parameters

    def __call__(self, options: dict[str, Any]) -> Any:
        """Call the function with its options, and with the results of its dependencies."""
        return self.function(
            **{
                parameter.name: dependency(options) if dependency else options[parameter.name]
                for parameter, dependency in self._dependencies()
            }
        )

    def _dependencies(self) -> Iterator[tuple[inspect.Parameter, Depends | None]]:
        for parameter in inspect.signature(self.function, eval_str=True).parameters.values():
            markers = getattr(parameter.annotation, "__metadata__", ())
            yield parameter, next((m for m in markers if isinstance(m, Depends)), None)


def argument(metavar: str, text: str) -> Any:
    """Return an argument whose help shows no default."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def option(metavar: str, text: str, **settings: Any) -> Any:
    """Return an option with a value."""
    return typer.Option(metavar=metavar, help=text, **settings)


def _refuse_option(path: Path | None) -> Path | None:
    """Refuse an option in place of a name."""
    if path is not None and str(path).startswith("-"):
        raise typer.BadParameter(f"a name is needed, and {path} is an option")
    return path


def check_output_file(path: Path | None) -> Path | None:
    """Refuse an option in place of the name of a file, and a folder that does not exist."""
    path = _refuse_option(path)
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent} for {path.name}")
    return path


def _check_page(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{path} must end in .html to be opened as a page")
    return check_output_file(path)


def _check_names(names: tuple[str, str] | None) -> tuple[str, str] | None:
    if names is not None:
        if option := next((name for name in names if name.startswith("-")), None):
            raise typer.BadParameter(f"--names takes two names, and {option} is an option")
        if len({name.strip() for name in names} - {""}) < 2:
            raise typer.BadParameter("--names must be two different names")
    return names


def number_or_word(text: str, option: str, words: tuple[str, ...]) -> str | float:
    """Parse an option that is a positive number or one of ``words``.

    Raises:
        BadParameter: it is neither.
        InputError: the number is not positive.
    """
    if text.lower() in words:
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        message = f"{text!r} is not {', '.join(map(repr, words))} or a number."
        raise typer.BadParameter(message, param_hint=f"'{option}'") from None
    return check_positive(number, option)


def find_local_modules(name: Any) -> Any:
    """Let Python find a module that an option names in the current folder.

    At the end of the path, so that no file there hides another module; and only for these options,
    so that no file there is executed where no module is named.
    """
    if name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return name


def parse_columns(
    columns: Annotated[
        str | None, option("A,B,...", "Columns, by name or number from 0. Default: all.")
    ] = None,
) -> list[str] | None:
    """Parse ``a,b`` as a list; a name with a comma stands in double quotes, as in a CSV file."""
    if columns is None:
        return None
    return [part.strip() for part in next(csv.reader([columns], skipinitialspace=True), []) or [""]]


def witness_band(
    noise: Annotated[str, option("clt|NUMBER", "Noise of the witness.")] = "clt",
    level: Annotated[float, typer.Option(help="Probability within the band.")] = 0.8,
) -> tuple[str | float, float]:
    """Return the noise of the witness, and the probability of its band."""
    if not 0 < level < 1:  # nor NaN
        raise InputError(f"--level must be between 0 and 1, and is {level}")
    return number_or_word(noise, "--noise", ("clt",)), level


def permutation_options(
    permutations: Annotated[int, typer.Option(min=1, help="Number of permutations.")] = 999,
    alpha: Annotated[float, typer.Option(help="Level of the test.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of every random number.")] = 0,
) -> dict[str, Any]:
    """Return the arguments of a permutation test."""
    return {"n_resamples": permutations, "alpha": alpha, "seed": seed}


def table_options(
    exclude: Annotated[
        list[str] | None, option("COL", "A column to leave out; again for more.")
    ] = None,
    column_type: Annotated[
        list[str] | None, option("COL=TYPE", "Such as age=category; again for more.")
    ] = None,
    na_value: Annotated[
        list[str] | None, option("CELL", "A missing value, as --na-value=-999; again for more.")
    ] = None,
    format: Annotated[  # noqa: A002
        list[str] | None, option("NAME", "Format of ambiguous cells, as 'decimal commas'.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of text files that are not UTF-8.", show_default="UTF-8"),
    ] = None,
) -> dict[str, Any]:
    """Return the arguments of functions that read tables.

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
        "formats": format or (),
        "encoding": encoding,
    }


# Inputs.
FirstSample: TypeAlias = Annotated[Path, argument("P", f"First sample: {FILE_TYPES}.")]
SecondSample: TypeAlias = Annotated[Path, argument("Q", "Second sample.")]
RunFile: TypeAlias = Annotated[Path, argument("RUN", "File of bke run or bke fit.")]
Columns: TypeAlias = Annotated[list[str] | None, Depends(parse_columns)]
Names: TypeAlias = Annotated[
    tuple[str, str] | None,
    option("P Q", "Names of the samples. Default: their files'.", callback=_check_names),
]
Modules: TypeAlias = Annotated[
    list[str] | None,
    option("NAME", "Module of a kernel of your own, to be imported.", callback=find_local_modules),
]
Parameters: TypeAlias = Annotated[
    str | None, option("A,B,...", "Parameters to look at. Default: all.")
]
TableOptions: TypeAlias = Annotated[dict[str, Any], Depends(table_options)]

# Computations.
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of every random number.")]
Band: TypeAlias = Annotated[tuple[str | float, float], Depends(witness_band)]
Points: TypeAlias = Annotated[
    Path | None, option("FILE", "Points of evaluation. Default: a grid or the data.")
]
PermutationOptions: TypeAlias = Annotated[dict[str, Any], Depends(permutation_options)]
Fail: TypeAlias = Annotated[
    bool, typer.Option("--fail", help=f"Exit status {DIFFERENT} if a difference is found.")
]


def effect_option(metavar: str, minimum: float, measure: str) -> Any:
    """Return the option ``--min-effect``, in a measure from ``minimum`` to 1."""

    def check(value: float | None) -> float | None:
        if value is not None and not minimum <= value <= 1.0:
            raise typer.BadParameter(
                f"it is {measure}, between {minimum:g} and 1, and {value:g} is not"
            )
        return value

    return option(metavar, f"With --fail, smaller differences pass: {measure}.", callback=check)


# Outputs.
OutFolder: TypeAlias = Annotated[
    Path, option("DIR", "Folder of the files.", callback=_refuse_option)
]
OutFile: TypeAlias = Annotated[Path, option("FILE", "The NetCDF file.", callback=_refuse_option)]
Html: TypeAlias = Annotated[
    Path | None, option("FILE", "Write the report as a page.", callback=_check_page)
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Print the whole report.")]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, and text on standard error.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Debug: TypeAlias = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def optional_folder(files: str) -> Any:
    """``--out`` of a command that need not write, with the files that it writes there."""
    return option("DIR", f"Folder of {files}.", callback=_refuse_option)


def sample_names(names: tuple[str, str] | None, first: Path, second: Path) -> tuple[str, str]:
    """Return the names of two samples: as given, or those of their files, or P and Q."""
    if names is not None:
        return names
    stems = (printable(first.name.split(".")[0]), printable(second.name.split(".")[0]))
    return ("P", "Q") if stems[0] == stems[1] or "" in stems else stems
