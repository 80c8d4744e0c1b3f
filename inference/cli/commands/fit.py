"""``bke fit``: the posterior of the lengthscale, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ...core.names import Shard
from .. import cluster
from ..command import command
from ..interrupt import terminable
from ..options.data import ColumnOptions, SamplesArgument
from ..options.model import ModelOptions
from ..options.output import OutFile
from ..options.processes import DiskOptions, ProcessOptions
from ..options.sampler import SamplerOptions
from ..terminal import Terminal, exit_codes


@command("Example: `bke fit calm.csv windy.csv --columns Ozone --out run.nc`")
def fit(
    terminal: Terminal,
    files: SamplesArgument,
    *,
    columns: ColumnOptions,
    model: ModelOptions,
    sampler: SamplerOptions,
    processes: ProcessOptions,
    disk: DiskOptions,
    out: OutFile = Path("run.nc"),
) -> None:
    """Posterior draws of the lengthscale, with their diagnosis.

    Writes one NetCDF file, which `bke diagnose`, `bke witness` and ArviZ read.
    """
    if disk.checkpoint is not None and not disk.stream:
        raise typer.BadParameter("--checkpoint is for --stream")
    # A process that fails must not wait for the others.
    with cluster.leaving(processes.distributed), exit_codes(terminal.debug):
        first = cluster.join(processes)
        if not first:
            terminal = Terminal(json=True, quiet=True)  # says nothing
        how = (model, sampler, disk, processes.shard)
        _fit(terminal, files, columns.names, *how, out if first else None)


def _fit(
    terminal: Terminal,
    files: list[Path],
    names: list[str] | None,
    model: ModelOptions,
    sampler: SamplerOptions,
    disk: DiskOptions,
    shard: Shard,
    out: Path | None,
) -> None:
    """Read, fit, say and save; without ``out`` another process does the last two."""
    from .. import inputs, outputs, steps

    model.check()
    samples: Any
    if disk.stream:
        samples, headings, remarks = inputs.open_sample(files, names)
    else:
        samples, headings, remarks = inputs.read_samples(files, names, model.samples)
    places = inputs.read_landmarks(model.landmarks, names, headings)
    how = {
        **model.arguments(len(headings), places),
        **sampler.arguments(),
        "shard": shard,
        "checkpoint": disk.checkpoint,
    }
    terminal.notes(remarks)
    written = outputs.output_file(out, read=[*files, model.landmarks], checkpoint=disk.checkpoint)
    with written, terminable(disk.checkpoint is not None):
        result = steps.fit_and_save(samples, headings, how, out, terminal)
        result, unknown = steps.weigh_and_save(result, out, terminal)
        if out is None:
            return
        _, summary, rounded = steps.diagnose_and_print(result, terminal)
        notes = [*remarks, *unknown, *rounded]
        steps.finish({"command": "fit", **summary}, {"run": out}, None, notes, terminal)
