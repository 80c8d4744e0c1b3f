"""``bke independence``: do two variables depend on each other?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from ...learning import TestKernel
from ..command import command
from ..options.data import FILE_KINDS, columns_option
from ..options.output import optional_folder
from ..options.testing import (
    TEST_FILES,
    TEST_PICTURES,
    IndependenceMethodName,
    TestOptions,
    kernel_option,
    method_option,
)
from ..terminal import Terminal
from ..words import parse_columns

if TYPE_CHECKING:
    from bke.inference import TestResult
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariableOptions:
    """Which columns are which variable."""

    x: Annotated[str, columns_option("--x", "Columns of the one variable.")]
    y: Annotated[str, columns_option("--y", "Columns of the other.")]
    given: Annotated[
        str | None,
        columns_option(
            "--given",
            "Columns to condition on: x and y are each regressed on them, and what is left is "
            'tested. An approximation; needs scikit-learn (pip install "bke[sklearn]").',
        ),
    ] = None

    def columns(self) -> list[list[str]]:
        """Those of x, of y and of what is given.

        Raises:
            BadParameter: one is in two of them.
        """
        asked = [parse_columns(text) or [] for text in (self.x, self.y, self.given)]
        chosen = [name for names in asked for name in names]
        twice = sorted({name for name in chosen if chosen.count(name) > 1})
        if twice:
            raise typer.BadParameter(f"--x, --y and --given share {', '.join(twice)}")
        return asked


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndependenceOptions:
    """Options of the independence test only."""

    kernel: Annotated[
        TestKernel,
        kernel_option("Kernel of each variable, selected from that variable alone."),
    ] = "multiscale"
    method: Annotated[
        IndependenceMethodName,
        method_option("gamma and spectrum; wild-bootstrap and shift for series in order of time"),
    ] = "permutation"


class Variables(NamedTuple):
    """Columns of one table by the part that they play, with their names."""

    x: np.ndarray
    y: np.ndarray
    given: np.ndarray
    names: tuple[tuple[str, ...], ...]


@command("Example: `bke independence ozone.csv --x Temp,Wind --y Ozone`")
def independence(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"Pairs, one a row: {FILE_KINDS}.", show_default=False),
    ],
    *,
    variables: VariableOptions,
    chosen: IndependenceOptions,
    options: TestOptions,
    out: Annotated[Path | None, optional_folder(TEST_PICTURES)] = None,
) -> None:
    """Do two variables depend on each other? HSIC with learned kernels, at an exact level."""
    asked = variables.columns()
    options.check(chosen.method, chosen.kernel)
    from .. import outputs, steps

    table = _read(path, asked)
    X, Y, (first, second, others) = table.x, table.y, table.names
    with outputs.output_folder(out, TEST_FILES, command="independence", read=[path]) as folder:
        test_options = {
            "kernel": chosen.kernel,
            "method": chosen.method.replace("-", " "),
            "estimator": options.estimator,
        }
        with terminal.step("test", "test", spinner=False):
            arguments = {**test_options, **options.arguments()}
            result = _test(table, progress=terminal.progress, **arguments)

        def witness() -> Figure:
            from bke.inference import plot_witness, sample_dependence_witness

            names, seed = [*first, *second], options.level.seed
            drawn = sample_dependence_witness(result, X, Y, seed=seed, columns=names)
            return plot_witness(drawn, P=np.concatenate([X, Y], axis=1))

        told = {
            "command": "independence",
            "source": str(path),
            "rows": len(X),
            "x": list(first),
            "y": list(second),
            "given": list(others),
            "settings": {**test_options, **options.settings()},
        }
        steps.finish_test(result, witness, told, [], folder, terminal)


def _read(path: Path, asked: list[list[str]]) -> Variables:
    """The columns that are asked for, by name where they were given by number."""
    from ...io.samples import read_sample
    from .. import inputs

    table = inputs.checked(read_sample(path, columns=[name for names in asked for name in names]))
    ends = np.cumsum([len(names) for names in asked])[:-1]
    X, Y, Z = np.split(table.values, ends, axis=1)
    return Variables(X, Y, Z, tuple(table.columns[a:b] for a, b in pairwise([0, *ends, None])))


def _test(table: Variables, **options: Any) -> TestResult:
    """Compute the test, with the names of the columns in its conclusions."""
    from bke.inference import conditional_independence_test, independence_test

    first, second, others = table.names
    if others:
        result = conditional_independence_test(table.x, table.y, table.given, **options)
    else:
        result = independence_test(table.x, table.y, **options)
    both = f"{_together(first)} and {_together(second)}"
    known = f" given {', '.join(others)}" if others else ""
    return result.renamed(
        f"{result.test} of {both}{known}",
        (
            f"no evidence that {both} depend on each other{known}",
            f"{both} depend on each other{known}",
        ),
    )


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
