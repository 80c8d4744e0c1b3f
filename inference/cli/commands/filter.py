"""``bke filter``: hidden states of a series by kernel Bayes' filter."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from ..command import command
from ..options.data import columns_option
from ..options.embeddings import LearnedOptions, TrainingArgument
from ..options.output import PRINTED, optional_folder
from ..tables import write_table
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import LearnedFilter

    from ..steps import Pictures

TABLE, PICTURE, SUMMARY = "states.csv", "picture.png", "summary.json"

SeriesArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="SERIES", help="New observations in order of time.", show_default=False),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeriesOptions:
    """What is hidden, what is seen, and how far ahead to look."""

    states: Annotated[str, columns_option("--states", "Columns of TRAINING that are hidden later.")]
    observations: Annotated[
        str, columns_option("--observations", "Columns that are observed, in both files.")
    ]
    ahead: Annotated[
        int,
        typer.Option(
            "--ahead",
            min=0,
            help="Predict so many steps ahead as well: the row of a step tells the state that much "
            "later.",
        ),
    ] = 0


@command(
    "Example: `bke filter training.csv new.csv --states u,v --observations a,b --out here`",
    name="filter",
)
def filter_states(
    terminal: Terminal,
    training: TrainingArgument,
    series: SeriesArgument,
    *,
    series_of: SeriesOptions,
    options: LearnedOptions,
    out: Annotated[
        Path | None, optional_folder(f"{TABLE}, a picture and {SUMMARY}", PRINTED)
    ] = None,
) -> None:
    """Hidden states of a series by kernel Bayes' filter: no model is written down.

    TRAINING is one series in order of time with states and observations; multiples of the
    lengthscales and the regularisation are chosen by cross-validation in two halves. States are
    filtered (mean and mode of the posterior) and smoothed. Observations that are far from all of
    training are left out, with a note.
    """
    from .. import inputs, outputs, steps

    parts = {"--states": series_of.states, "--observations": series_of.observations}
    x, y = inputs.read_apart(training, parts)
    new = inputs.read_sample(series, columns=list(y.columns))
    with outputs.output_folder(
        out, [TABLE, PICTURE, SUMMARY], command="filter", read=[training, series]
    ) as folder:
        with terminal.step("learn", "learning the filter", spinner=False):
            from bke.inference import learn_filter

            learned = learn_filter(
                x.values, y.values, progress=terminal.progress, **options.of_both()
            )
        terminal.say(str(learned))
        with terminal.step("filter", "filtering"):
            found, skipped = _filtered(learned, new.values, series_of.ahead)
        notes = _notes(skipped)
        terminal.notes(notes)
        header = ["step", *(f"{column}.{name}" for name in found for column in x.columns)]
        numbers = np.arange(1.0, len(new.values) + 1.0)[:, None]
        table = np.hstack([numbers, *found.values()])
        files = write_table(folder, TABLE, header, table, terminal)
        drawn, missing = steps.draw_pictures(folder, lambda: _pictures(found, x.columns), terminal)
        told = {
            "command": "filter",
            "training": str(training),
            "series": str(series),
            "rows": len(x.values),
            "states": list(x.columns),
            "observations": list(y.columns),
            "kernel": options.kernel,
            **_validation(learned, len(x.values)),
            "ahead": series_of.ahead,
            "left_out": [int(row) for row in skipped],
            **{name: values.tolist() for name, values in found.items()},
        }
        notes += missing
        steps.finish(told, {**files, **drawn}, steps.summary_in(folder), notes, terminal)


def _filtered(
    learned: LearnedFilter, new: np.ndarray, ahead: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Estimates (T, D) of the states by their names, and the steps that were left out, from 1."""
    filtered = learned.filter.filter(new, outliers="skip")
    parts = {
        "filtered": filtered.mean(),
        "mode": filtered.mode(),
        "smoothed": learned.filter.smooth(filtered).mean(),
    }
    if ahead:
        parts["ahead"] = learned.filter.predict(filtered, ahead).mean()
    return parts, np.flatnonzero(~np.asarray(filtered.observed)) + 1


def _notes(skipped: np.ndarray) -> list[str]:
    from ...report.embeddings import rows_in_words

    if not len(skipped):
        return []
    return [
        f"{rows_in_words(skipped, 'observation')} far from all of training and left out: the "
        "states there are predictions."
    ]


def _pictures(parts: dict[str, np.ndarray], columns: tuple[str, ...]) -> Pictures:
    from ...plots.operators import plot_states

    shown = {name: parts[name] for name in ("filtered", "smoothed")}
    return [("picture", lambda: plot_states(shown, columns=columns))]


def _validation(learned: LearnedFilter, rows: int) -> dict[str, Any]:
    """What cross-validation chose, and the errors it found."""
    best = learned.trials[0]
    return {
        "factor": best.factor,
        "regularisation": best.regularization / rows,
        "validated_error": best.error**0.5,
        "validated_error_smoothed": learned.smoothed_error**0.5,
    }
