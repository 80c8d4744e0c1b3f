"""``bke compare``, ``independence`` and ``density``: tests and densities of samples of numbers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...core.names import join_names, printable
from ...learning import SampleKernel
from ..inputs import check_sample, read_pair, read_sample
from ..options import (
    FILE_TYPES,
    Columns,
    Fail,
    FirstSample,
    Names,
    PermutationOptions,
    SecondSample,
    Seed,
    argument,
    effect_option,
    option,
    optional_folder,
    parse_columns,
)
from ..outputs import SUMMARY, output_folder
from ..terminal import Terminal
from .posterior import compare_pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...io.samples import Sample

COMPARISON_FILES = ("comparison.png", "compare.json")
TEST_FILES = ("test.png", "witness.png", "independence.json")
DENSITY_FILES = ("density.csv", "picture.png", SUMMARY)
#: Largest typicality of rows that are listed, the least typical first, and their largest number.
MAX_TYPICALITY, MAX_LISTED = 0.05, 5


def compare(
    terminal: Terminal,
    *,
    path_p: FirstSample,
    path_q: SecondSample,
    columns: Columns,
    names: Names = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Rows i of P and Q are a pair: permutations swap them.")
    ] = False,
    permutations: PermutationOptions,
    fail: Fail = False,
    min_effect: Annotated[
        float | None, effect_option("AUC", 0.5, "the cross-validated AUC")
    ] = None,
    out: Annotated[Path | None, optional_folder("comparison.png and compare.json")] = None,
) -> bool:
    """Do two samples differ, where, and by how much?

    One answer, at an exact level, of numbers: tables with text, dates or missing values are for
    "bke drift". Single tests are functions of Python.
    """
    if min_effect is not None and not fail:
        raise typer.BadParameter("--min-effect is for --fail")
    pair = read_pair(path_p, path_q, columns, names, tested=True)
    rows = {"P": len(pair.P), "Q": len(pair.Q)}
    read = (path_p, path_q)
    with output_folder(terminal, out, COMPARISON_FILES, command="compare", read=read) as output:
        output.note(pair.notes)
        samples = [
            f"{name}: {printable(str(path))}, {n} rows; "
            for name, path, n in zip(pair.names, read, rows.values(), strict=True)
        ]
        terminal.say(f"{''.join(samples)}{join_names(pair.columns)}")
        comparison = compare_pair(pair, terminal, verbose=True, paired=paired, **permutations)
        failed = fail and comparison.reject
        if min_effect is not None:
            large = comparison.auc >= min_effect
            failed = failed and large
            terminal.say(
                f"{'Failed' if failed else 'Passed'}: the AUC, {comparison.auc:.3f}, is "
                f"{'at least' if large else 'below'} {min_effect:g}"
                f"{', but no difference was found' if large and not failed else ''}."
            )
        output.draw(lambda: [("comparison", comparison.plot)])
        output.finish(
            {
                "sources": pair.sources,
                "rows": rows,
                "columns": list(pair.columns),
                **({"failed": failed, "min_effect": min_effect} if fail else {}),
                "answer": comparison.to_dict(),
            }
        )
    return failed


def independence(
    terminal: Terminal,
    *,
    path: Annotated[Path, argument("FILE", f"Pairs, one a row: {FILE_TYPES}.")],
    x: Annotated[str, option("A,B,...", "Columns of one variable.", show_default=False)],
    y: Annotated[str, option("A,B,...", "Columns of the other.", show_default=False)],
    given: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Columns to condition on: residuals of regressions on them are tested, "
            "approximately; needs scikit-learn.",
        ),
    ] = None,
    permutations: PermutationOptions,
    fail: Fail = False,
    out: Annotated[
        Path | None, optional_folder("test.png, witness.png and independence.json")
    ] = None,
) -> bool:
    """Do two variables depend on each other?

    A permutation test of the Hilbert-Schmidt independence criterion with learned kernels, at an
    exact level.
    """
    variables = [parse_columns(text) or [] for text in (x, y, given)]
    chosen = [name for names in variables for name in names]
    if repeated := sorted({name for name in chosen if chosen.count(name) > 1}):
        raise typer.BadParameter(f"--x, --y and --given share {', '.join(repeated)}")
    table = check_sample(read_sample(path, columns=chosen))
    ends = np.cumsum([len(names) for names in variables])[:-1]
    X, Y, Z = np.split(table.values, ends, axis=1)
    # By name even where they are chosen by number.
    names_x, names_y, names_z = (table.columns[a:b] for a, b in pairwise([0, *ends, None]))
    with output_folder(terminal, out, TEST_FILES, command="independence", read=[path]) as output:
        with terminal.step("test", "test", spinner=False):
            from bke.inference import conditional_independence_test, independence_test

            options: dict[str, Any] = {**permutations, "progress": terminal.progress}
            if names_z:
                result = conditional_independence_test(X, Y, Z, **options)
            else:
                result = independence_test(X, Y, **options)
        both = " and ".join(
            names[0] if len(names) == 1 else f"({', '.join(names)})" for names in (names_x, names_y)
        )
        condition = f" given {', '.join(names_z)}" if names_z else ""
        result = result.renamed(
            f"{result.test} of {both}{condition}",
            (
                f"no evidence that {both} depend on each other{condition}",
                f"{both} depend on each other{condition}",
            ),
        )

        def draw_witness() -> Figure:
            from bke.inference import plot_witness, sample_dependence_witness

            labels, seed = [*names_x, *names_y], permutations["seed"]
            draws = sample_dependence_witness(result, X, Y, seed=seed, columns=labels)
            return plot_witness(draws, P=np.concatenate([X, Y], axis=1))

        terminal.say(str(result))
        output.notes += result.notes  # printed with the result
        output.draw(lambda: [("test", result.plot), ("witness", draw_witness)])
        output.finish(
            {
                "source": str(path),
                "rows": len(X),
                **{"x": list(names_x), "y": list(names_y), "given": list(names_z)},
                "seed": permutations["seed"],
                **result.to_dict(),
            }
        )
    return fail and result.reject


def density(
    terminal: Terminal,
    *,
    path: Annotated[Path, argument("FILE", f"One row each: {FILE_TYPES}.")],
    columns: Columns,
    at: Annotated[
        Path | None, option("FILE", "Rows to evaluate. Default: the rows of FILE.")
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
    """Density of rows, and the rows that are least typical.

    By the kernel Student-t density. Typicality is the proportion of rows of FILE that are less
    likely given the others than a row of --at is: near 0 for a row that is unlike all of them, at
    least 1/(n + 1). In one or two columns the density is normalized on a box of twice the range of
    the rows and 0 outside, in more it is known up to a constant. Thousands of rows in three columns
    or more take minutes.
    """
    table = check_sample(read_sample(path, columns=columns))
    points = table if at is None else read_sample(at, columns=list(table.columns))
    with output_folder(terminal, out, DENSITY_FILES, command="density", read=[path, at]) as output:
        with terminal.step("learn", "learning the density"):
            from bke.inference import learn_student_t

            from ...learning.kernel_selection import format_kernel

            learned = learn_student_t(
                table.values, kernel=kernel, seed=seed, progress=terminal.progress
            )
        terminal.say(str(learned))
        log_density = learned.log_density(points.values)
        typicality = learned.typicality(None if at is None else points.values)
        terminal.say(_describe_typicality(typicality, points, (at or path).name))
        box = learned.normalizer
        if box is not None and (outside := int(np.sum(~box.contains(points.values)))):
            sides = zip(box.low, box.high, strict=True)
            text = " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in sides)
            output.note([f"{outside} row(s) are outside the box {text}: their density is 0."])
        header = [*points.columns, "log_density", "typicality"]
        values = np.column_stack([points.values, log_density, typicality])
        output.write_table(DENSITY_FILES[0], header, values)
        if len(table.columns) < 3:
            from bke.inference import plot_student_t

            output.draw(lambda: [("picture", lambda: plot_student_t(learned, names=table.columns))])
        fitted = learned.density
        output.finish(
            {
                "source": str(path),
                "rows": len(table.values),
                "columns": list(table.columns),
                "kernel": format_kernel(fitted.kernel),
                **{k: float(getattr(fitted, k)) for k in ("noise_variance", "alpha", "beta")},
                "normalized": box is not None,
                "log_density": log_density.tolist(),
                "typicality": typicality.tolist(),
            }
        )


def _describe_typicality(typicality: np.ndarray, points: Sample, source: str) -> str:
    """List the least typical rows."""
    rows = np.flatnonzero(typicality <= MAX_TYPICALITY)
    lines = [
        f"{len(rows)} of {len(typicality)} rows of {source} have a typicality of at most "
        f"{MAX_TYPICALITY:g}{': the least typical are' if len(rows) else '.'}"
    ]
    for row in rows[np.argsort(typicality[rows], kind="stable")][:MAX_LISTED]:
        numbers = zip(points.columns, points.values[row], strict=True)
        values = ", ".join(f"{name} {value:.6g}" for name, value in numbers)
        lines.append(f"  row {row + 1} ({values}): {typicality[row]:.2g}")
    return "\n".join(lines)
