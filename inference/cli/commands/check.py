"""``bke check``: whether this machine gives what it should."""

from __future__ import annotations

import typer

from ..command import command
from ..terminal import Terminal


@command("Example: `bke check`")
def check(terminal: Terminal) -> None:
    """Is this machine right? Calibration, levels and agreement of methods, in about a minute.

    Of use on a new machine, GPU or BLAS. Exit status 1 where something does not agree.
    """
    with terminal.step("check", "checking", spinner=False):
        from bke.inference import self_check

        found = self_check(progress=terminal.progress)
    terminal.say(str(found))
    terminal.finish({"command": "check", **found.to_dict(), "timings": terminal.all_timings()})
    if not found.passed:
        raise typer.Exit(1)
