"""``bke witness``: the witness between two samples, from a run made earlier."""

from __future__ import annotations

from pathlib import Path

from ..command import command
from ..options.data import (
    ColumnOptions,
    FirstSample,
    ModuleOption,
    NameOptions,
    RunArgument,
    SecondSample,
)
from ..options.output import OutFolder
from ..options.sampler import SeedOptions
from ..options.witness import LandmarkWitnessOptions
from ..terminal import Terminal


@command("Example: `bke witness run.nc calm.csv windy.csv --columns Ozone --out ozone`")
def witness(
    terminal: Terminal,
    run_file: RunArgument,
    path_p: FirstSample,
    path_q: SecondSample,
    *,
    columns: ColumnOptions,
    called: NameOptions,
    witness: LandmarkWitnessOptions,
    seeds: SeedOptions,
    module: ModuleOption = None,
    out: OutFolder = Path("bke-run"),
) -> None:
    """The posterior witness between two samples, for a run that was fitted to both.

    Writes witness.nc, samples.png, witness.png and summary.json.
    """
    names = columns.names
    from ...sampling.run import target_of
    from .. import inputs, outputs, steps

    pair = inputs.read_pair(path_p, path_q, names, called)
    points = inputs.read_points(witness.places.at, names, pair.columns)
    places = inputs.read_landmarks(witness.landmarks, names, pair.columns)
    read = (run_file, path_p, path_q, witness.places.at, witness.landmarks)
    with outputs.output_folder(out, steps.WITNESS_FILES, command="witness", read=read) as folder:
        result = steps.load(run_file, module, terminal)
        target, _ = target_of(result)
        inputs.check_witness(
            pair,
            points,
            witness.band,
            seen=places is not None or target.landmarks is not None,
            kernel=target.kernel,
            measure=target.measure,
        )
        inputs.check_samples(result, pair)
        notes = list(pair.notes)
        result, unknown = steps.weigh_and_save(result, None, terminal)
        terminal.notes(notes)
        diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
        found, files, missing = steps.witness_and_save(
            result,
            diagnosis,
            pair,
            points,
            witness,
            weighed=not unknown,
            landmarks=places,
            seed=seeds.seed,
            folder=folder,
            terminal=terminal,
        )
        told = {"command": "witness", **summary, **found}
        notes += [*unknown, *rounded, *missing]
        steps.finish(told, files, folder / steps.SUMMARY, notes, terminal)
