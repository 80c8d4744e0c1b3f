"""``bke learn``: one kernel instead of a posterior."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ...learning import Objective
from ..command import command
from ..options.data import ColumnOptions, SamplesArgument
from ..options.model import ModelOptions
from ..options.panels import MODEL
from ..options.sampler import SeedOptions
from ..terminal import Terminal, number


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnOptions(ModelOptions):
    """The model, and what of it is maximised."""

    objective: Annotated[
        Objective,
        typer.Option(
            "--objective",
            rich_help_panel=MODEL,
            help="Maximise the marginal likelihood, or the posterior density.",
        ),
    ] = "ml"


@command("Example: `bke learn calm.csv windy.csv --columns Ozone`")
def learn(
    terminal: Terminal,
    files: SamplesArgument,
    *,
    columns: ColumnOptions,
    model: LearnOptions,
    seeds: SeedOptions,
) -> None:
    """The kernel that maximises the marginal likelihood, and the best of every other mode.

    Prints the lengthscales in the units of the data, and scikit-learn's gamma where there is one.
    """
    names = columns.names
    from .. import inputs

    model.check()
    samples, headings, remarks = inputs.read_samples(files, names, model.samples)
    places = inputs.read_landmarks(model.landmarks, names, headings)
    arguments = model.arguments(len(headings), places)
    with terminal.step("learn", "learn", spinner=False):
        from bke.inference import learn_kernel

        learned = learn_kernel(
            samples if len(samples) > 1 else samples[0],
            objective=model.objective,
            columns=headings,
            seed=seeds.seed,
            progress=terminal.progress,
            **arguments,
        )
    from ...report.learned import learned_summary, model_summary
    from ...report.words import notes_on_units

    notes = [*remarks, *notes_on_units(learned.units)]
    terminal.notes(notes)
    terminal.say(str(learned))
    summary = {**learned_summary(learned, headings), "notes": notes}
    if "gamma" in summary["peaks"][0]:
        terminal.say(f"scikit-learn: gamma = {number(summary['peaks'][0]['gamma'])}")
    told = {"command": "learn", "settings": model_summary(arguments, seeds.seed), **summary}
    terminal.finish({**told, "timings": terminal.all_timings()})
