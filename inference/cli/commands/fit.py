"""``bke fit``: the posterior of the lengthscale, and no more."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ...core.names import Shard
from ..command import command
from ..interrupt import terminable
from ..options.data import ColumnOptions, SamplesArgument
from ..options.model import ModelOptions
from ..options.output import OutFile
from ..options.panels import DISK, PROCESSES
from ..options.sampler import SamplerOptions
from ..terminal import Terminal, exit_codes

CheckpointOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        rich_help_panel=DISK,
        help="Write here, twice a minute and when interrupted, what was found so far: the same "
        "command goes on from it. Some 20 000 rows are in it as they are: keep it where the data "
        "may be. Removed in the end.",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """Which of several processes this is, and what each has of its own."""

    distributed: Annotated[
        bool,
        typer.Option(
            "--distributed",
            rich_help_panel=PROCESSES,
            help="This is one of several processes that give the same command; the first one "
            "prints and writes. Under SLURM, Open MPI or Kubernetes they find each other.",
        ),
    ] = False
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator",
            metavar="HOST:PORT",
            rich_help_panel=PROCESSES,
            help="Where the first process listens, if no launcher tells.",
        ),
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", rich_help_panel=PROCESSES, help="How many there are, likewise."
        ),
    ] = None
    process: Annotated[
        int | None,
        typer.Option(
            "--process", rich_help_panel=PROCESSES, help="Which this is, from 0, likewise."
        ),
    ] = None
    shard: Annotated[
        Shard,
        typer.Option(
            "--shard",
            rich_help_panel=PROCESSES,
            help="Of several processes or devices: rows lets all sum over rows of their own "
            "(--likelihood landmark), chains gives each some of the chains. auto: rows of large "
            "data.",
        ),
    ] = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiskOptions:
    """Rows that stay on disk."""

    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            rich_help_panel=DISK,
            help="Leave the rows on disk, and go through them block by block: one NPY, Parquet or "
            "zarr file, larger than memory if need be. In several columns it needs --likelihood "
            "landmark --method quadrature.",
        ),
    ] = False
    checkpoint: CheckpointOption = None


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
    with leaving(processes.distributed), exit_codes(terminal.debug):
        first = join(processes)
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


def join(options: ProcessOptions) -> bool:
    """Join the other processes, if there are any; whether this one prints and writes.

    Raises:
        BadParameter: for options that do not go together, or say nothing.
        InputError: where the others are not found.
    """
    if not _together(options):
        return True
    from ...core.distributed import is_first, start

    start(options.coordinator, options.processes, options.process)
    return is_first()


def _together(options: ProcessOptions) -> bool:
    """Whether there are others, if what is said of them makes sense."""
    coordinator, processes, process = options.coordinator, options.processes, options.process
    given = [each is not None for each in (coordinator, processes, process)]
    if not options.distributed:
        if any(given):
            raise typer.BadParameter(
                "--coordinator, --processes and --process are for --distributed"
            )
        return False
    if any(given) and not all(given):
        raise typer.BadParameter("give --coordinator, --processes and --process, or none of them")
    if coordinator is not None and not _is_address(coordinator):
        raise typer.BadParameter(
            f"{coordinator!r} is not HOST:PORT such as node1:12345, with a port from 1 to 65535",
            param_hint="--coordinator",
        )
    if processes is not None and processes < 1:
        raise typer.BadParameter(f"{processes} is not 1 or more", param_hint="--processes")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise typer.BadParameter(
            f"{process} is not from 0 to {processes - 1}, one less than --processes",
            param_hint="--process",
        )
    return True


def _is_address(text: str) -> bool:
    """Whether it is HOST:PORT; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    named = re.fullmatch(r"[^\s:/\[\]]+|\[[0-9A-Fa-f:.%]+\]", host)
    return bool(named and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 2**16)


@contextlib.contextmanager
def leaving(distributed: bool) -> Iterator[None]:
    """End at once on failure: at a usual end JAX waits for the other processes, in vain."""
    try:
        yield
    except typer.Exit as ended:
        if distributed and ended.exit_code:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.exit_code)
        raise
