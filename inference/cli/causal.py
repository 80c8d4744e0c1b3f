"""Causal discovery, ``bke graph``."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .terminal import Terminal, exit_codes
from .testing import TEST, AlphaOption, PairKernelName, PermutationsOption, TestScaleOption

PICTURE, SUMMARY = "graph.png", "graph.json"


class WhitenName(enum.StrEnum):
    """What is done about rows in order of time."""

    none = "none"
    residuals = "residuals"
    innovations = "innovations"


@app.command(epilog="Example: `bke graph ozone.csv --whiten innovations --out graph`")
def graph(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"One row each: {FILE_KINDS}.", show_default=False),
    ],
    columns: opt.ColumnsOption = None,
    kernel: Annotated[
        PairKernelName,
        typer.Option("--kernel", rich_help_panel=TEST, help="As for `bke independence`."),
    ] = PairKernelName.bkl,
    whiten: Annotated[
        WhitenName,
        typer.Option(
            "--whiten",
            rich_help_panel=TEST,
            help="For rows in order of time, at even steps: go on with what a smooth regression of "
            "each column on time leaves (residuals), or with each value less its prediction from "
            "those before (innovations).",
        ),
    ] = WhitenName.none,
    most_given: Annotated[
        int | None,
        typer.Option(
            "--most-given",
            min=0,
            rich_help_panel=TEST,
            help="Condition on no more columns than that. Default: no limit.",
        ),
    ] = None,
    permutations: PermutationsOption = 499,
    alpha: AlphaOption = 0.05,
    scale: TestScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=opt.OUTPUT,
            help=f"Folder for {PICTURE} and {SUMMARY}. Default: no files.",
        ),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Which columns cause which? The PC algorithm over kernel tests; needs causal-learn.

    Sound if no cause of two columns is missing, no effect is its own cause, and no test errs: look
    at the p-values in the JSON before you believe an edge.
    """
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        table = inputs.checked(read_sample(path, columns=names))
        with inputs.output_folder(out, [PICTURE, SUMMARY], read=[path]):
            with terminal.step("graph", "tests", spinner=False):
                from bke.inference import causal_graph, regress_out

                values = table.values
                if whiten is not WhitenName.none:
                    rough = whiten is WhitenName.innovations
                    values = regress_out(
                        values,
                        np.arange(len(values), dtype=float),
                        smoothness=0.5 if rough else np.inf,
                        innovations=rough,
                        seed=seed,
                    )
                found = causal_graph(
                    values,
                    columns=tuple(table.columns),
                    kernel=kernel.value,
                    alpha=alpha,
                    permutations=permutations,
                    most_given=most_given,
                    scale=scale.argument,
                    seed=seed,
                    progress=terminal.progress,
                )
            terminal.say(str(found))
            files, missing = steps.draw_pictures(out, lambda: [("graph", found.plot)], terminal)
            told = {
                "command": "graph",
                "source": str(path),
                "rows": len(values),
                "columns": list(found.columns),
                "kernel": kernel.value,
                "whiten": whiten.value,
                "alpha": alpha,
                "permutations": permutations,
                "most_given": most_given,
                "scale": scale.value,
                "seed": seed,
                "edges": [str(edge) for edge in found.edges],
                "tests": [
                    {
                        "first": test.first,
                        "second": test.second,
                        "given": list(test.given),
                        "pvalue": test.pvalue,
                    }
                    for test in found.tests
                ],
            }
            steps.finish(told, files, None if out is None else out / SUMMARY, missing, terminal)
