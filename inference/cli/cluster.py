"""Several processes at work on one command: how they meet, and how they part."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

import typer

from .options.processes import ProcessOptions


def join(options: ProcessOptions) -> bool:
    """Join the other processes, if there are any; whether this one prints and writes.

    Raises:
        BadParameter: for options that do not go together, or say nothing.
        InputError: where the others are not found.
    """
    if not _together(options):
        return True
    from ..core.distributed import is_first, start

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
