"""Large jobs: several processes, data on disk."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ...core.names import Shard
from .panels import DISK, PROCESSES

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
