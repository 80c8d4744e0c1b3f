"""``bke diagnose``: what a run is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..command import command
from ..options.data import RunArgument
from ..options.output import optional_folder
from ..terminal import Terminal


@command("Example: `bke diagnose run.nc --out pictures`")
def diagnose(
    terminal: Terminal,
    run_file: RunArgument,
    out: Annotated[
        Path | None, optional_folder("trace.png, rank.png, profile.png and summary.json")
    ] = None,
) -> None:
    """What a run is worth: R-hat, effective sample sizes, modes and a verdict in words."""
    from .. import inputs, steps

    with inputs.output_folder(out, steps.DIAGNOSE_FILES, read=[run_file]):
        result = steps.load(run_file, terminal)
        _, summary, rounded = steps.diagnose_and_print(result, terminal)
        files, missing = steps.draw_pictures(out, lambda: steps.run_pictures(result), terminal)
        steps.finish(
            {"command": "diagnose", **summary},
            files,
            steps.summary_in(out),
            [*rounded, *missing],
            terminal,
        )
