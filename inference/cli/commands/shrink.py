"""``bke shrink``: estimates of a mean embedding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ..command import command
from ..options.data import ColumnOptions, RowsArgument
from ..options.embeddings import LearnedOptions
from ..options.output import PRINTED, optional_folder
from ..tables import write_table
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.models.embeddings.embedding import Embedding

    from ...io.samples import Sample
    from ..steps import Pictures

TABLE, PICTURE, SUMMARY = "weights.csv", "picture.png", "summary.json"
#: Estimates that are drawn.
DRAWN = ("empirical", "leave-one-out", "spectral")


@command("Example: `bke shrink small.csv --columns Ozone --out result`")
def shrink(
    terminal: Terminal,
    path: RowsArgument,
    *,
    columns: ColumnOptions,
    options: LearnedOptions,
    out: Annotated[
        Path | None,
        optional_folder(f"{TABLE}, a picture (of one column) and {SUMMARY}", PRINTED),
    ] = None,
) -> None:
    """The mean embedding of a sample, shrunk as much as the data ask for.

    Few rows in many columns: the empirical embedding is then far from the true one, and shrinkage
    estimators are closer on average. Their weights on the rows are written with --out.
    """
    names = columns.names
    from .. import inputs, outputs, steps

    table = inputs.checked(inputs.read_sample(path, columns=names))
    with outputs.output_folder(
        out, [TABLE, PICTURE, SUMMARY], command="shrink", read=[path]
    ) as folder:
        with terminal.step("shrink", "learning the kernel and the amounts"):
            from bke.models import mean_embedding, shrunk_embedding, spectral_embedding
            from bke.models.embeddings.embedding import SHRINKAGE_RULES

            from ...learning.kernel_selection import format_kernel, select_kernel
            from ...report.embeddings import estimates_summary, estimates_text

            told = options.arguments()
            kernel = select_kernel(table.values, told.pop("kernel"), **told)
            X = table.values
            found = {
                "empirical": mean_embedding(X, kernel),
                **{
                    amount: shrunk_embedding(X, kernel, amount=amount) for amount in SHRINKAGE_RULES
                },
                "spectral": spectral_embedding(X, kernel),
            }
        terminal.say(f"{len(table.values)} rows, kernel {format_kernel(kernel)}")
        estimates = estimates_summary(found)
        terminal.say(estimates_text(estimates))
        files = {} if folder is None else _write(folder, table, found, terminal)
        drawn, missing = steps.draw_pictures(folder, lambda: _pictures(table, found), terminal)
        summary = {
            "command": "shrink",
            "source": str(path),
            "rows": len(table.values),
            "columns": list(table.columns),
            "kernel": format_kernel(kernel),
            "estimates": estimates,
        }
        steps.finish(summary, {**files, **drawn}, steps.summary_in(folder), missing, terminal)


def _write(
    out: Path, table: Sample, found: dict[str, Embedding], terminal: Terminal
) -> dict[str, Path]:
    weights = np.stack([np.asarray(one.weights) for one in found.values()], axis=1)
    header = [*table.columns, *found]
    return write_table(out, TABLE, header, np.hstack([table.values, weights]), terminal)


def _pictures(table: Sample, found: dict[str, Embedding]) -> Pictures:
    """Of one column, from a little below to a little above the rows."""
    if len(table.columns) != 1:
        return []
    from ...plots.operators import plot_embeddings

    low, high = table.values.min(), table.values.max()
    at = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low), 400)
    lines = {name: np.asarray(found[name](at)) for name in DRAWN}
    return [("picture", lambda: plot_embeddings(at, lines, name=table.columns[0]))]
