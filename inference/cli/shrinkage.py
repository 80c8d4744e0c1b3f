"""Estimates of a mean embedding, ``bke shrink``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .operators import (
    PICTURE,
    SUMMARY,
    ChoiceOption,
    KernelChoice,
    ScaleOption,
    out_option,
    write_table,
)
from .terminal import Terminal, exit_codes


@app.command(epilog="Example: `bke shrink small.csv --columns Ozone --out result`")
def shrink(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"One row each: {FILE_KINDS}.", show_default=False),
    ],
    columns: opt.ColumnsOption = None,
    kernel: ChoiceOption = KernelChoice.bkl,
    scale: ScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None, out_option("weights.csv, a picture (of one column) and summary.json")
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """The mean embedding of a sample, shrunk as much as the data ask for.

    Few rows in many columns: the empirical embedding is then far from the true one, and shrinkage
    estimators are closer on average. Their weights on the rows are written with --out.
    """
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        table = inputs.checked(read_sample(path, columns=names))
        with inputs.output_folder(out, ["weights.csv", PICTURE, SUMMARY], read=[path]):
            with terminal.step("shrink", "learning the kernel and the amounts"):
                from bke.inference.learning.multiples import described
                from bke.inference.learning.named_kernels import kernel_of
                from bke.models import mean_embedding, shrunk_embedding, spectral_embedding
                from bke.models.embeddings.shrinkage import AMOUNTS

                chosen = kernel_of(
                    table.values,
                    kernel.value,
                    scale=scale.argument,
                    seed=seed,
                )
                found = {"empirical": mean_embedding(table.values, chosen)}
                found |= {
                    amount: shrunk_embedding(table.values, chosen, amount=amount)
                    for amount in AMOUNTS
                }
                found["spectral"] = spectral_embedding(table.values, chosen)
            empirical = found["empirical"]
            rows = len(table.values)
            terminal.say(f"{rows} rows, kernel {described(chosen)}")
            estimates = [
                {
                    "estimator": name,
                    "sum_of_weights": float(np.sum(one.weights)),
                    "norm": float(one.norm()),
                    "from_empirical": float(one.distance(empirical)),
                }
                for name, one in found.items()
            ]
            terminal.say("estimator      sum of weights     norm    from empirical")
            for line in estimates:
                terminal.say(
                    f"{line['estimator']:14} {line['sum_of_weights']:14.4f} {line['norm']:8.4f} "
                    f"{line['from_empirical']:17.4f}"
                )
            files = {}
            if out is not None:
                weights = np.stack([np.asarray(one.weights) for one in found.values()], axis=1)
                header = [*table.columns, *found]
                content = np.hstack([table.values, weights])
                files = write_table(out, "weights.csv", header, content, terminal)

            def pictures() -> steps.Pictures:
                if len(table.columns) != 1:
                    return []
                from ..plots.operators import plot_embeddings

                low, high = table.values.min(), table.values.max()
                at = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low), 400)
                lines = {
                    name: np.asarray(found[name](at))
                    for name in ("empirical", "leave-one-out", "spectral")
                }
                return [("picture", lambda: plot_embeddings(at, lines, name=table.columns[0]))]

            drawn, missing = steps.draw_pictures(out, pictures, terminal)
            told = {
                "command": "shrink",
                "source": str(path),
                "rows": rows,
                "columns": list(table.columns),
                "kernel": described(chosen),
                "estimates": estimates,
            }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, {**files, **drawn}, summary, missing, terminal)
