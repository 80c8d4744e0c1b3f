"""``bke graph``: causal discovery."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ...learning import TestKernel
from ...testing import Whitening
from ..command import command
from ..options.data import ColumnOptions, RowsArgument
from ..options.output import optional_folder
from ..options.panels import TEST
from ..options.testing import LevelOptions, PermutationsOption, kernel_option
from ..terminal import Terminal

PICTURE, SUMMARY = "graph.png", "graph.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLevelOptions(LevelOptions):
    """Level and permutations of many tests, each with fewer of them."""

    permutations: PermutationsOption = 499


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """The tests that the graph hangs on."""

    kernel: Annotated[TestKernel, kernel_option("Kernel of each variable or its residuals.")] = (
        "bkl"
    )
    whiten: Annotated[
        Whitening,
        typer.Option(
            "--whiten",
            rich_help_panel=TEST,
            help="For rows in order of time, at even steps: go on with what a smooth regression of "
            "each column on time leaves (residuals), or with each value less its prediction from "
            "those before (innovations).",
        ),
    ] = "none"
    most_given: Annotated[
        int | None,
        typer.Option(
            "--most-given",
            min=0,
            rich_help_panel=TEST,
            help="Condition on no more columns than that. Default: no limit.",
        ),
    ] = None
    level: GraphLevelOptions


@command("Example: `bke graph ozone.csv --whiten innovations --out graph`")
def graph(
    terminal: Terminal,
    path: RowsArgument,
    *,
    columns: ColumnOptions,
    options: GraphOptions,
    out: Annotated[Path | None, optional_folder(f"{PICTURE} and {SUMMARY}")] = None,
) -> None:
    """Which columns cause which? The PC algorithm over kernel tests; needs causal-learn.

    Sound if no cause of two columns is missing, no effect is its own cause, and no test errs: look
    at the p-values in the JSON before you believe an edge.
    """
    names = columns.names
    from ...io.samples import read_sample
    from .. import inputs, outputs, steps

    table = inputs.checked(read_sample(path, columns=names))
    level = options.level
    with outputs.output_folder(out, [PICTURE, SUMMARY], command="graph", read=[path]) as folder:
        with terminal.step("graph", "tests", spinner=False):
            from bke.inference import causal_graph

            from ...testing.residuals import whiten

            found = causal_graph(
                whiten(table.values, options.whiten, seed=level.seed),
                columns=tuple(table.columns),
                kernel=options.kernel,
                most_given=options.most_given,
                progress=terminal.progress,
                **level.arguments(),
            )
        terminal.say(str(found))
        files, missing = steps.draw_pictures(folder, lambda: [("graph", found.plot)], terminal)
        from ...report.tests import graph_summary

        told = {
            "command": "graph",
            "source": str(path),
            "rows": len(table.values),
            **dataclasses.asdict(level),
            "kernel": options.kernel,
            "whiten": options.whiten,
            "most_given": options.most_given,
            **graph_summary(found),
        }
        steps.finish(told, files, steps.summary_in(folder, SUMMARY), missing, terminal)
