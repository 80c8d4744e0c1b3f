"""``bke run``: the whole job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..command import command
from ..options.data import FILE_KINDS, ColumnOptions
from ..options.model import ModelOptions
from ..options.output import OutFolder
from ..options.sampler import SamplerOptions
from ..options.witness import WitnessOptions
from ..terminal import Terminal


@command("Example: `bke run calm.csv windy.csv --columns Temp,InvHt --ard --out ozone`")
def run(
    terminal: Terminal,
    path_p: Annotated[
        Path | None,
        typer.Argument(metavar="[P", help=f"First sample: {FILE_KINDS}.", show_default=False),
    ] = None,
    path_q: Annotated[
        Path | None, typer.Argument(metavar="Q]", help="Second sample.", show_default=False)
    ] = None,
    *,
    columns: ColumnOptions,
    model: ModelOptions,
    sampler: SamplerOptions,
    witness: WitnessOptions,
    out: OutFolder = Path("bke-run"),
) -> None:
    """The whole job: fit, diagnosis, witness, pictures.

    Writes run.nc, witness.nc, summary.json, samples.png, trace.png and rank.png (NUTS only),
    profile.png (one hyperparameter only) and witness.png. Without files it uses the data built into
    the package, a normal and a Laplace mixture (BKE Figure 3), unscaled and sampled by NUTS as in
    the paper.
    """
    if (path_p is None) != (path_q is None):
        raise typer.BadParameter("give both samples, or none for the built-in data")
    names = columns.names
    from .. import inputs, steps

    model.check()
    built_in = path_p is None or path_q is None
    if path_p is None or path_q is None:
        pair, sampler = inputs.built_in_pair(), sampler.for_built_in_data()
    else:
        pair = inputs.read_pair(path_p, path_q, names)
    points = inputs.read_points(witness.places.at, names, pair.columns)
    places = inputs.read_landmarks(model.landmarks, names, pair.columns)
    dimension = len(pair.columns)
    how = {
        **model.arguments(dimension, places, "none" if built_in else "column"),
        **sampler.arguments(model.prior.hyperparameters(dimension)),
    }
    inputs.check_witness(
        pair,
        points,
        witness.band,
        seen=model.likelihood.likelihood == "landmark",
        kernel=how["kernel"],
        measure=how["measure"],
    )
    read = (path_p, path_q, witness.places.at, model.landmarks)
    with inputs.output_folder(out, steps.RUN_FILES, read=read):
        notes = [*pair.notes, *sampler.notes(model.prior.hyperparameters(dimension))]
        terminal.notes(notes)
        samples = (pair.P, pair.Q) if model.share == "joint" else (pair.pooled,)
        result = steps.fit_and_save(samples, pair.columns, how, out / steps.RUN, terminal)
        result, unknown = steps.weigh_and_save(result, out / steps.RUN, terminal)
        diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
        drawn, found = steps.witness_and_save(
            result,
            diagnosis,
            pair,
            points,
            witness,
            weighed=not unknown,
            seed=sampler.seed,
            path=out / steps.WITNESS,
            terminal=terminal,
        )
        files, missing = steps.draw_pictures(
            out,
            lambda: (
                steps.pair_pictures(result, drawn, pair, witness.band.level)
                + steps.run_pictures(result)
            ),
            terminal,
        )
        steps.finish(
            {"command": "run", **summary, **found},
            {"run": out / steps.RUN, "witness": out / steps.WITNESS, **files},
            out / steps.SUMMARY,
            [*notes, *unknown, *rounded, *missing],
            terminal,
        )
