"""``bke diagnose``: what a run is worth."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from ..command import command
from ..options.data import ModuleOption, RunArgument
from ..options.output import HtmlOption, check_html, optional_folder
from ..terminal import Terminal


@command("Example: `bke diagnose run.nc --out pictures`")
def diagnose(
    terminal: Terminal,
    run_file: RunArgument,
    module: ModuleOption = None,
    out: Annotated[
        Path | None, optional_folder("trace.png, rank.png, profile.png and diagnosis.json")
    ] = None,
    html: HtmlOption = None,
) -> None:
    """What a run is worth: R-hat, effective sample sizes, modes and a verdict in words."""
    from .. import outputs, steps

    check_html(html)
    with outputs.output_folder(
        out, steps.DIAGNOSE_FILES, command="diagnose", read=[run_file]
    ) as folder:
        result = steps.load(run_file, module, terminal)
        diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
        with tempfile.TemporaryDirectory() as elsewhere:
            # The page needs pictures where no folder asks for them.
            drawn = Path(elsewhere) if folder is None and html is not None else folder
            files, missing = steps.draw_pictures(
                drawn, lambda: steps.run_pictures(result), terminal
            )
            notes = [*rounded, *missing]
            title = f"Diagnosis of {run_file.name}"
            page = steps.write_page(
                html, summary, diagnosis, files, terminal, title=title, notes=notes
            )
        files = page if folder is None else {**files, **page}
        told = {"command": "diagnose", **summary}
        steps.finish(told, files, steps.summary_in(folder, steps.DIAGNOSIS), notes, terminal)
