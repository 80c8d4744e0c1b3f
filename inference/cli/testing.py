"""The hypothesis tests, ``bke test`` and ``bke independence``."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .terminal import Terminal, exit_codes

if TYPE_CHECKING:
    from bke.inference import TestResult
    from matplotlib.figure import Figure

TEST = "Test"
#: Kernels that are one, as the nulls other than permutations need.
SINGLE = ("bkl", "posterior", "median")
PICTURE, WITNESS, SUMMARY = "test.png", "witness.png", "test.json"


class TestKernelName(enum.StrEnum):
    """Kernels of a two-sample test."""

    fused = "fused"
    multiscale = "multiscale"
    evidence = "evidence"
    bkl = "bkl"
    posterior = "posterior"
    median = "median"


class PairKernelName(enum.StrEnum):
    """Kernels of an independence test."""

    multiscale = "multiscale"
    bkl = "bkl"
    posterior = "posterior"
    median = "median"


class TestNullName(enum.StrEnum):
    """Null distributions of a two-sample test."""

    permutation = "permutation"
    gamma = "gamma"
    spectrum = "spectrum"
    wild_bootstrap = "wild-bootstrap"
    linear = "linear"
    block = "block"


class PairNullName(enum.StrEnum):
    """Null distributions of an independence test."""

    permutation = "permutation"
    gamma = "gamma"
    spectrum = "spectrum"
    wild_bootstrap = "wild-bootstrap"
    shift = "shift"


MemoryOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--memory",
        rich_help_panel=TEST,
        help="Steps over which series forget, for the nulls that are for series.  [default: 20]",
    ),
]
PermutationsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--permutations",
        min=1,
        rich_help_panel=TEST,
        help="Random permutations, or draws of another null.",
    ),
]
AlphaOption: TypeAlias = Annotated[
    float, typer.Option("--alpha", rich_help_panel=TEST, help="Level of the verdict.")
]
BiasedOption: TypeAlias = Annotated[
    bool,
    typer.Option("--biased", rich_help_panel=TEST, help="The biased estimate of MMD or HSIC."),
]
TestScaleOption: TypeAlias = Annotated[
    opt.ScaleName,
    typer.Option(
        "--scale",
        rich_help_panel=TEST,
        help="Divide each column by its standard deviation before distances are taken.",
    ),
]
OutOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        rich_help_panel=opt.OUTPUT,
        help=f"Folder for {PICTURE}, {WITNESS} and {SUMMARY}. Default: no files.",
    ),
]


@app.command(name="test", epilog="Example: `bke test calm.csv windy.csv --columns Ozone`")
def two_sample(
    path_p: Annotated[
        Path,
        typer.Argument(metavar="P", help=f"First sample: {FILE_KINDS}.", show_default=False),
    ],
    path_q: Annotated[Path, typer.Argument(metavar="Q", help="Second sample.", show_default=False)],
    columns: opt.ColumnsOption = None,
    kernel: Annotated[
        TestKernelName,
        typer.Option(
            "--kernel",
            rich_help_panel=TEST,
            help="How the kernel is chosen, always from the pooled sample: multiscale hears many "
            "lengthscales at once, evidence weighs the difference by its sampling error, fused is "
            "both; bkl is the paper's one learned lengthscale, posterior its average over the "
            "posterior, median the median distance.",
        ),
    ] = TestKernelName.fused,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            rich_help_panel=TEST,
            help="Row i of P belongs to row i of Q: permutations swap the two.",
        ),
    ] = False,
    biased: BiasedOption = False,
    null: Annotated[
        TestNullName,
        typer.Option(
            "--null",
            rich_help_panel=TEST,
            help="Where the null distribution comes from. Permutations are exact; the others are "
            "approximations, for the kernels bkl, posterior and median: gamma and spectrum, "
            "wild-bootstrap for series in order of time, linear and block for very many rows.",
        ),
    ] = TestNullName.permutation,
    memory: MemoryOption = None,
    permutations: PermutationsOption = 999,
    alpha: AlphaOption = 0.05,
    scale: TestScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: OutOption = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Do two samples come from one distribution? MMD with a learned kernel, at an exact level."""
    if paired and biased:
        raise typer.BadParameter("--paired has an unbiased estimate of its own: leave --biased out")
    names = words.parse_columns(columns)
    estimator = "paired" if paired else "biased" if biased else None
    if null in (TestNullName.linear, TestNullName.block):
        if estimator is not None:
            raise typer.BadParameter(f"--null {null.value} has an estimate of its own")
        null_name, estimator = "normal", null.value
    else:
        null_name = null.value.replace("-", " ")
    _check_null(null.value, kernel.value, memory)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from . import inputs

        pair = inputs.read_pair(path_p, path_q, names, tested=True)
        with inputs.output_folder(out, [PICTURE, WITNESS, SUMMARY], read=(path_p, path_q)):
            terminal.notes(pair.notes)
            with terminal.step("test", "test", spinner=False):
                from bke.inference import plot_witness, sample_test_witness, two_sample_test

                result = two_sample_test(
                    pair.P,
                    pair.Q,
                    kernel=kernel.value,
                    null=null_name,
                    estimator=estimator,
                    permutations=permutations,
                    memory=memory,
                    alpha=alpha,
                    scale=scale.argument,
                    seed=seed,
                    progress=terminal.progress,
                )
            rows = {"P": len(pair.P), "Q": len(pair.Q)}
            terminal.say(
                f"P: {path_p}, {rows['P']} rows; Q: {path_q}, {rows['Q']} rows; "
                f"{', '.join(pair.columns)}"
            )

            def witness() -> Figure:
                drawn = sample_test_witness(result, pair.P, pair.Q, seed=seed, columns=pair.columns)
                return plot_witness(drawn, P=pair.P, Q=pair.Q)

            _finish(
                result,
                witness,
                {
                    "command": "test",
                    "sources": pair.sources,
                    "rows": rows,
                    "columns": list(pair.columns),
                    "settings": _settings(
                        kernel, null, estimator, permutations, memory, scale, seed
                    ),
                },
                list(pair.notes),
                out,
                terminal,
            )


@app.command(epilog="Example: `bke independence ozone.csv --x Temp,Wind --y Ozone`")
def independence(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"Pairs, one a row: {FILE_KINDS}.", show_default=False),
    ],
    x: Annotated[
        str,
        typer.Option(
            "--x", metavar="A,B,...", rich_help_panel=opt.DATA, help="Columns of the one variable."
        ),
    ],
    y: Annotated[
        str,
        typer.Option(
            "--y", metavar="A,B,...", rich_help_panel=opt.DATA, help="Columns of the other."
        ),
    ],
    kernel: Annotated[
        PairKernelName,
        typer.Option(
            "--kernel",
            rich_help_panel=TEST,
            help="How the kernel of each variable is chosen, from that variable alone: multiscale "
            "hears several lengthscales at once, bkl is one learned lengthscale, posterior its "
            "average over the posterior, median the median distance.",
        ),
    ] = PairKernelName.multiscale,
    given: Annotated[
        str | None,
        typer.Option(
            "--given",
            metavar="A,B,...",
            rich_help_panel=opt.DATA,
            help="Columns to condition on: x and y are each regressed on them, and what is left is "
            'tested. An approximation; needs scikit-learn (pip install "bke[sklearn]").',
        ),
    ] = None,
    biased: BiasedOption = False,
    null: Annotated[
        PairNullName,
        typer.Option(
            "--null",
            rich_help_panel=TEST,
            help="Where the null distribution comes from. Permutations are exact; the others are "
            "approximations, for the kernels bkl, posterior and median: gamma and spectrum, and "
            "for series in order of time wild-bootstrap and shift.",
        ),
    ] = PairNullName.permutation,
    memory: MemoryOption = None,
    permutations: PermutationsOption = 999,
    alpha: AlphaOption = 0.05,
    scale: TestScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: OutOption = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Do two variables depend on each other? HSIC with learned kernels, at an exact level."""
    asked = [words.parse_columns(text) or [] for text in (x, y, given)]
    chosen = [name for names in asked for name in names]
    _check_null(null.value, kernel.value, memory)
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise typer.BadParameter(f"--x, --y and --given share {', '.join(twice)}")
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs

        table = inputs.checked(read_sample(path, columns=chosen))
        ends = np.cumsum([len(names) for names in asked])[:-1]
        X, Y, Z = np.split(table.values, ends, axis=1)
        # By name, where they were given by number.
        first, second, others = (table.columns[a:b] for a, b in pairwise([0, *ends, None]))
        with inputs.output_folder(out, [PICTURE, WITNESS, SUMMARY], read=[path]):
            with terminal.step("test", "test", spinner=False):
                from bke.inference import (
                    conditional_independence_test,
                    independence_test,
                    plot_witness,
                    sample_dependence_witness,
                )

                options: dict[str, Any] = {
                    "kernel": kernel.value,
                    "null": null.value.replace("-", " "),
                    "estimator": "biased" if biased else None,
                    "permutations": permutations,
                    "memory": memory,
                    "alpha": alpha,
                    "scale": scale.argument,
                    "seed": seed,
                    "progress": terminal.progress,
                }
                if others:
                    result = conditional_independence_test(X, Y, Z, **options)
                else:
                    result = independence_test(X, Y, **options)
            told = {"x": list(first), "y": list(second), "given": list(others)}
            both = f"{_together(first)} and {_together(second)}"
            known = f" given {', '.join(others)}" if others else ""
            result = result.renamed(
                f"{result.test} of {both}{known}",
                (
                    f"no evidence that {both} depend on each other{known}",
                    f"{both} depend on each other{known}",
                ),
            )

            def witness() -> Figure:
                drawn = sample_dependence_witness(
                    result, X, Y, seed=seed, columns=[*first, *second]
                )
                return plot_witness(drawn, P=np.concatenate([X, Y], axis=1))

            _finish(
                result,
                witness,
                {
                    "command": "independence",
                    "source": str(path),
                    "rows": len(X),
                    **told,
                    "settings": _settings(
                        kernel, null, options["estimator"], permutations, memory, scale, seed
                    ),
                },
                [],
                out,
                terminal,
            )


def _check_null(null: str, kernel: str, memory: float | None) -> None:
    """Refuse options that do not go together, by the names they have here."""
    if null != "permutation" and kernel not in SINGLE:
        raise typer.BadParameter(f"--null {null} is for --kernel {', '.join(SINGLE)}")
    if memory is not None and null not in ("wild-bootstrap", "shift"):
        raise typer.BadParameter("--memory is for the nulls of series, such as wild-bootstrap")


def _settings(
    kernel: enum.StrEnum,
    null: enum.StrEnum,
    estimator: str | None,
    permutations: int,
    memory: float | None,
    scale: opt.ScaleName,
    seed: int,
) -> dict[str, Any]:
    """What a test was asked for, by the names it has on the command line."""
    return {
        "kernel": kernel.value,
        "null": null.value,
        "estimator": estimator,
        "permutations": permutations,
        "memory": memory,
        "scale": scale.value,
        "seed": seed,
    }


def _finish(
    result: TestResult,
    witness: Callable[[], Figure],
    told: dict[str, Any],
    notes: list[str],
    out: Path | None,
    terminal: Terminal,
) -> None:
    """Print, draw, write."""
    from . import steps

    terminal.say(str(result))
    files, missing = steps.draw_pictures(
        out, lambda: [("test", result.plot), ("witness", witness)], terminal
    )
    steps.finish(
        {**told, **as_plain(result)},
        files,
        None if out is None else out / SUMMARY,
        [*notes, *result.notes, *missing],
        terminal,
    )


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def as_plain(result: TestResult) -> dict[str, Any]:
    """A result as plain data, without the null draws."""
    return {
        "test": result.test,
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "rejected": result.rejected,
        "alpha": result.alpha,
        "null": result.how,
        "exact": result.exact,
        "kernel": _kernel(result.kernel),
        "squared_mmd": result.estimate,
        "interval_of_squared_mmd": result.interval,
        "e_value": result.e_value,
        "parts": [
            {"name": part.name, "statistic": part.statistic, "pvalue": part.pvalue}
            for part in result.parts
        ],
        "quantiles_of_null": {
            f"{level:g}": float(np.quantile(result.null, level)) for level in (0.5, 0.9, 0.95, 0.99)
        }
        if len(result.null)
        else None,
    }


def _kernel(kernel: Any) -> Any:
    from ..posterior.record import describe_kernel

    if isinstance(kernel, tuple):
        return [_kernel(one) for one in kernel]
    return None if kernel is None else describe_kernel(kernel)
