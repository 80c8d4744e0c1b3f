"""Options of large jobs: several processes, data on disk."""

from __future__ import annotations

import contextlib
import enum
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

PROCESSES = "Several processes"
DISK = "Data on disk"


class ShardName(enum.StrEnum):
    """What processes and devices have of their own."""

    auto = "auto"
    rows = "rows"
    chains = "chains"


DistributedOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--distributed",
        rich_help_panel=PROCESSES,
        help="This is one of several processes that give the same command; the first one prints "
        "and writes. Under SLURM, Open MPI or Kubernetes they find each other.",
    ),
]
CoordinatorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        rich_help_panel=PROCESSES,
        help="Where the first process listens, if no launcher tells.",
    ),
]
ProcessesOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--processes", rich_help_panel=PROCESSES, help="How many there are, likewise."),
]
ProcessOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--process", rich_help_panel=PROCESSES, help="Which this is, from 0, likewise."),
]
ShardOption: TypeAlias = Annotated[
    ShardName,
    typer.Option(
        "--shard",
        rich_help_panel=PROCESSES,
        help="Of several processes or devices: rows lets all sum over rows of their own "
        "(--likelihood landmark), chains gives each some of the chains. auto: rows of large data.",
    ),
]
StreamOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--stream",
        rich_help_panel=DISK,
        help="Leave the rows on disk, and go through them block by block: one NPY, Parquet or zarr "
        "file, larger than memory if need be; needs --likelihood landmark --method quadrature.",
    ),
]
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


def join(
    distributed: bool, coordinator: str | None, processes: int | None, process: int | None
) -> bool:
    """Join the other processes, if there are any; whether this one prints and writes.

    Raises:
        BadParameter: for options that do not go together, or say nothing.
        InputError: where the others are not found.
    """
    given = [each is not None for each in (coordinator, processes, process)]
    if not distributed:
        if any(given):
            raise typer.BadParameter(
                "--coordinator, --processes and --process are for --distributed"
            )
        return True
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
    from ..runtime.distributed import is_first, start

    start(coordinator, processes, process)
    return is_first()


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
