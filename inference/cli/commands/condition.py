"""``bke condition``: what to expect of some columns given others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..command import command
from ..options.data import columns_option, rows_option
from ..options.embeddings import LearnedOptions, RegularisationOption, TrainingArgument
from ..options.output import PRINTED, optional_folder
from ..tables import write_table
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.models import ConditionalEmbedding

    from ...io.samples import Sample
    from ..steps import Pictures

TABLE, PICTURE, SUMMARY = "conditional.csv", "picture.png", "summary.json"


@command("Example: `bke condition ozone.csv --given Temp --of Ozone --out result`")
def condition(
    terminal: Terminal,
    training: TrainingArgument,
    *,
    given: Annotated[str, columns_option("--given", "Columns that are conditioned on.")],
    of: Annotated[str, columns_option("--of", "Columns whose mean is asked for.")],
    at: Annotated[
        Path | None,
        rows_option("Where, a file with the columns of --given. Default: the rows of TRAINING."),
    ] = None,
    options: LearnedOptions,
    regularisation: RegularisationOption = "leave-one-out",
    out: Annotated[
        Path | None,
        optional_folder(
            f"{TABLE}, a picture (of one column given one) and {SUMMARY}",
            PRINTED,
        ),
    ] = None,
) -> None:
    """What to expect of some columns given others: the conditional mean embedding.

    Mean and standard deviation at each row, by weights on the rows of TRAINING. Their sum is 1
    where these say enough, and falls to 0 far from all of them, where the cells stay empty; so do
    standard deviations where the variance comes out negative, as some weights are.
    """
    from .. import inputs, outputs, steps

    x, y = inputs.read_apart(training, {"--given": given, "--of": of})
    places = x if at is None else inputs.read_sample(at, columns=list(x.columns))
    with outputs.output_folder(
        out, [TABLE, PICTURE, SUMMARY], command="condition", read=[training, at]
    ) as folder:
        with terminal.step("learn", "learning the conditional embedding"):
            from bke.inference import learn_conditional

            from ...filtering import moments
            from ...report.embeddings import far_rows_notes, listed, rows_in_words

            learned = learn_conditional(
                x.values, y.values, regularization=regularisation, **options.of_both()
            )
        mean, deviation, negative_variance, total = moments(learned, places.values)
        terminal.say(_in_words(learned, x, y))
        notes = far_rows_notes(total, "row")
        imaginary = np.flatnonzero(negative_variance) + 1
        if len(imaginary):
            row = rows_in_words(imaginary, "row")
            notes.append(f"{row} without a standard deviation: see --help.")
        terminal.notes(notes)
        table = np.hstack([places.values, mean, deviation, total[:, None]])
        files = _write(folder, x, y, table, terminal)
        drawn, missing = steps.draw_pictures(
            folder, lambda: _pictures(x, y, places, mean, deviation), terminal
        )
        told = {
            "command": "condition",
            "training": str(training),
            **_summary(learned, x, y),
            "mean": listed(mean),
            "sd": listed(deviation),
            "sum_of_weights": total.tolist(),
            "kernel": options.kernel,
            "choice": regularisation,
        }
        notes += missing
        steps.finish(told, {**files, **drawn}, steps.summary_in(folder), notes, terminal)


def _in_words(learned: ConditionalEmbedding, x: Sample, y: Sample) -> str:
    from ...learning.kernel_selection import format_kernel

    return (
        f"{', '.join(y.columns)} given {', '.join(x.columns)}: {len(x.values)} pairs, n lambda "
        f"{len(x.values) * learned.regularization:.3g}, {learned.features.rank} features; kernels "
        f"{format_kernel(learned.kernel_x)} and {format_kernel(learned.kernel_y)}"
    )


def _write(
    out: Path | None, x: Sample, y: Sample, table: np.ndarray, terminal: Terminal
) -> dict[str, Path]:
    header = [
        *x.columns,
        *(f"{column}.mean" for column in y.columns),
        *(f"{column}.sd" for column in y.columns),
        "sum_of_weights",
    ]
    return write_table(out, TABLE, header, table, terminal)


def _pictures(
    x: Sample, y: Sample, places: Sample, mean: np.ndarray, deviation: np.ndarray
) -> Pictures:
    """Of one column given one."""
    if (len(x.columns), len(y.columns)) != (1, 1):
        return []
    from ...plots.operators import plot_conditional

    parts = (x.values, y.values, places.values, mean, deviation)
    line = [part[:, 0] for part in parts]
    names = (x.columns[0], y.columns[0])
    return [("picture", lambda: plot_conditional(*line, names=names))]


def _summary(learned: ConditionalEmbedding, x: Sample, y: Sample) -> dict[str, Any]:
    from ...learning.kernel_selection import format_kernel

    return {
        "rows": len(x.values),
        "given": list(x.columns),
        "of": list(y.columns),
        "kernel_x": format_kernel(learned.kernel_x),
        "kernel_y": format_kernel(learned.kernel_y),
        "regularisation": learned.regularization,
        "rank": learned.features.rank,
    }
