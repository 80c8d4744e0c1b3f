"""``bke compare``, ``independence`` and ``density``: questions about samples of numbers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...core.names import printable
from ...learning import SampleKernel
from ..inputs import checked, read_pair, read_sample
from ..options import (
    DIFFERENT,
    FILE_KINDS,
    Alpha,
    Columns,
    Fail,
    FirstSample,
    Names,
    Permutations,
    SecondSample,
    Seed,
    min_effect,
    optional_folder,
    parse_columns,
)
from ..outputs import SUMMARY, Pictures, draw_pictures, finish, output_folder, write_table
from ..terminal import Terminal
from .posterior import compare_pair

if TYPE_CHECKING:
    from bke.inference import LearnedStudentT
    from matplotlib.figure import Figure

    from ...io.samples import Sample

COMPARISON_FILES = ("comparison.png", "compare.json")
TEST_FILES = ("test.png", "witness.png", "independence.json")
DENSITY_FILES = ("density.csv", "picture.png", SUMMARY)
#: Largest typicality of rows that are listed, the least typical first, and their largest number.
MAX_TYPICALITY, MAX_LISTED = 0.05, 5


def compare(
    terminal: Terminal,
    path_p: FirstSample,
    path_q: SecondSample,
    columns: Columns = None,
    names: Names = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Rows i of P and Q are a pair: permutations swap them.")
    ] = False,
    permutations: Permutations = 999,
    alpha: Alpha = 0.05,
    seed: Seed = 0,
    fail: Fail = False,
    least: Annotated[
        float | None,
        min_effect("AUC", 0.5, "the cross-validated AUC"),
    ] = None,
    out: Annotated[Path | None, optional_folder("comparison.png and compare.json")] = None,
) -> None:
    """Do two samples differ, where, and by how much?

    One answer, at an exact level, of numbers: tables with text, dates or missing values are for
    "bke drift". Single tests are functions of Python.
    """
    if least is not None and not fail:
        raise typer.BadParameter("--min-effect is for --fail")
    pair = read_pair(path_p, path_q, parse_columns(columns), names, tested=True)
    rows = {"P": len(pair.P), "Q": len(pair.Q)}
    read = (path_p, path_q)
    with output_folder(out, COMPARISON_FILES, command="compare", read=read) as folder:
        terminal.notes(pair.notes)
        first, second = pair.names
        text_P, text_Q = (printable(str(path)) for path in read)
        terminal.say(
            f"{first}: {text_P}, {rows['P']} rows; {second}: {text_Q}, {rows['Q']} rows; "
            f"{', '.join(pair.columns)}"
        )
        answer = compare_pair(
            pair,
            terminal,
            verbose=True,
            paired=paired,
            n_resamples=permutations,
            alpha=alpha,
            seed=seed,
        )
        failed = fail and answer.reject
        if least is not None:
            large = answer.auc >= least
            failed = failed and large
            terminal.say(
                f"{'Failed' if failed else 'Passed'}: the AUC, {answer.auc:.3f}, is "
                f"{'at least' if large else 'below'} {least:g}"
                f"{', but no difference was found' if large and not failed else ''}."
            )
        files, missing = draw_pictures(folder, lambda: [("comparison", answer.plot)], terminal)
        summary: dict[str, Any] = {
            "command": "compare",
            "sources": pair.sources,
            "rows": rows,
            "columns": list(pair.columns),
            **({"failed": failed, "min_effect": least} if fail else {}),
            "answer": answer.to_dict(),
        }
        finish(summary, files, folder, [*pair.notes, *missing], terminal, COMPARISON_FILES[-1])
    if failed:
        raise typer.Exit(DIFFERENT)


def independence(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"Pairs, one a row: {FILE_KINDS}.", show_default=False),
    ],
    x: Annotated[
        str, typer.Option(metavar="A,B,...", help="Columns of one variable.", show_default=False)
    ],
    y: Annotated[
        str, typer.Option(metavar="A,B,...", help="Columns of the other.", show_default=False)
    ],
    given: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Columns to condition on: residuals of regressions on them are tested, "
            "approximately; needs scikit-learn.",
        ),
    ] = None,
    permutations: Permutations = 999,
    alpha: Alpha = 0.05,
    seed: Seed = 0,
    fail: Fail = False,
    out: Annotated[
        Path | None, optional_folder("test.png, witness.png and independence.json")
    ] = None,
) -> None:
    """Do two variables depend on each other?

    A permutation test of the Hilbert-Schmidt independence criterion with learned kernels, at an
    exact level.
    """
    asked = [parse_columns(text) or [] for text in (x, y, given)]
    chosen = [name for part in asked for name in part]
    if twice := sorted({name for name in chosen if chosen.count(name) > 1}):
        raise typer.BadParameter(f"--x, --y and --given share {', '.join(twice)}")
    table = checked(read_sample(path, columns=chosen))
    ends = np.cumsum([len(part) for part in asked])[:-1]
    X, Y, Z = np.split(table.values, ends, axis=1)
    # By name where they were given by number.
    first, second, others = (table.columns[a:b] for a, b in pairwise([0, *ends, None]))
    with output_folder(out, TEST_FILES, command="independence", read=[path]) as folder:
        how: dict[str, Any] = {"n_resamples": permutations, "alpha": alpha, "seed": seed}
        with terminal.step("test", "test", spinner=False):
            from bke.inference import conditional_independence_test, independence_test

            if others:
                result = conditional_independence_test(X, Y, Z, progress=terminal.progress, **how)
            else:
                result = independence_test(X, Y, progress=terminal.progress, **how)
        both, known = f"{_together(first)} and {_together(second)}", ""
        if others:
            known = f" given {', '.join(others)}"
        result = result.renamed(
            f"{result.test} of {both}{known}",
            (
                f"no evidence that {both} depend on each other{known}",
                f"{both} depend on each other{known}",
            ),
        )

        def witness() -> Figure:
            from bke.inference import plot_witness, sample_dependence_witness

            labels = [*first, *second]
            drawn = sample_dependence_witness(result, X, Y, seed=seed, columns=labels)
            return plot_witness(drawn, P=np.concatenate([X, Y], axis=1))

        terminal.say(str(result))
        pictures = [("test", result.plot), ("witness", witness)]
        files, missing = draw_pictures(folder, lambda: pictures, terminal)
        summary = {
            "command": "independence",
            "source": str(path),
            "rows": len(X),
            **{"x": list(first), "y": list(second), "given": list(others)},
            "seed": seed,
            **result.to_dict(),
        }
        finish(summary, files, folder, [*result.notes, *missing], terminal, TEST_FILES[-1])
    if fail and result.reject:
        raise typer.Exit(DIFFERENT)


def _together(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def density(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"One row each: {FILE_KINDS}.", show_default=False),
    ],
    columns: Columns = None,
    at: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows to judge. Default: those of the first file."),
    ] = None,
    kernel: Annotated[
        SampleKernel,
        typer.Option(help="Lengthscale: bkl learns it, median is the median distance."),
    ] = "median",
    seed: Seed = 0,
    out: Annotated[
        Path | None, optional_folder("density.csv, picture.png (one or two columns), summary.json")
    ] = None,
) -> None:
    """How likely are rows, and which are unlike the others?

    By the kernel Student-t density. Typicality is the share of rows of FILE that are less likely
    given the others than a row of --at is: near 0 for what is unlike all of them, at least 1/(n +
    1). In one or two columns the density is normalized on a box of twice the range of the rows and
    0 outside, in more it is known up to a constant. Thousands of rows in three columns or more take
    minutes.
    """
    table = checked(read_sample(path, columns=parse_columns(columns)))
    places = table if at is None else read_sample(at, columns=list(table.columns))
    with output_folder(out, DENSITY_FILES, command="density", read=[path, at]) as folder:
        with terminal.step("learn", "learning the density"):
            from bke.inference import learn_student_t

            learned = learn_student_t(
                table.values, kernel=kernel, seed=seed, progress=terminal.progress
            )
        terminal.say(str(learned))
        log_density = learned.log_density(places.values)
        typicality = learned.typicality(None if at is None else places.values)
        terminal.say(_describe_typicality(typicality, places, (at or path).name))
        notes = _outside(learned, places.values)
        terminal.notes(notes)
        header = [*places.columns, "log_density", "typicality"]
        content = np.column_stack([places.values, log_density, typicality])
        written = write_table(folder, DENSITY_FILES[0], header, content, terminal)
        pictures: Pictures = []
        if len(table.columns) < 3:
            from bke.inference import plot_student_t

            pictures = [("picture", lambda: plot_student_t(learned, names=table.columns))]
        drawn, missing = draw_pictures(folder, lambda: pictures, terminal)
        summary = {
            "command": "density",
            "source": str(path),
            "rows": len(table.values),
            "columns": list(table.columns),
            **_summary(learned),
            "log_density": [None if np.isneginf(one) else float(one) for one in log_density],
            "typicality": typicality.tolist(),
        }
        finish(summary, {**written, **drawn}, folder, [*notes, *missing], terminal)


def _describe_typicality(typicality: np.ndarray, places: Sample, source: str) -> str:
    """List the rows that are unlike the others, the least typical first."""
    unlike = np.flatnonzero(typicality <= MAX_TYPICALITY)
    lines = [
        f"{len(unlike)} of {len(typicality)} rows of {source} have a typicality of at most "
        f"{MAX_TYPICALITY:g}{': the least typical are' if len(unlike) else '.'}"
    ]
    for row in unlike[np.argsort(typicality[unlike], kind="stable")][:MAX_LISTED]:
        cells = zip(places.columns, places.values[row], strict=True)
        values = ", ".join(f"{name} {value:.6g}" for name, value in cells)
        lines.append(f"  row {row + 1} ({values}): {typicality[row]:.2g}")
    return "\n".join(lines)


def _outside(learned: LearnedStudentT, rows: np.ndarray) -> list[str]:
    """Say how many rows have no density."""
    found = learned.normalizer
    outside = 0 if found is None else int(np.sum(~found.contains(rows)))
    if found is None or not outside:
        return []
    ends = zip(found.low, found.high, strict=True)
    box = " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in ends)
    return [f"{outside} row(s) are outside the box {box}: their density is 0."]


def _summary(learned: LearnedStudentT) -> dict[str, Any]:
    """Parameters of a density."""
    from ...learning.kernel_selection import format_kernel

    density = learned.density
    names = ("noise_variance", "alpha", "beta")
    return {
        "kernel": format_kernel(density.kernel),
        **{name: float(getattr(density, name)) for name in names},
        "normalized": learned.normalizer is not None,
    }
