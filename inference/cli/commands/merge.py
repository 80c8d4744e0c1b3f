"""``bke merge``: one sketch of the rows of several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..command import command
from ..options.data import ModuleOption
from ..options.output import OutFile
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Sketch


@command("Example: `bke merge monday.nc tuesday.nc --out week.nc`")
def merge(
    terminal: Terminal,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SKETCHES...", help="Two or more, made like each other.", show_default=False
        ),
    ],
    *,
    module: ModuleOption = None,
    out: OutFile = Path("merged.nc"),
) -> None:
    """One sketch of the rows of several: exactly that of all rows together."""
    if len(files) < 2:
        raise typer.BadParameter("give two sketches or more")
    from ...core.atomic import same_file
    from .. import outputs, steps

    if any(same_file(*two) for two in itertools.combinations(files, 2)):
        raise typer.BadParameter("a sketch is given twice: its rows would count twice")
    with outputs.output_file(out, read=files):
        with terminal.step("merge", "adding"):
            from bke.inference import save_sketch

            merged = _merged(files, module or ())
            save_sketch(merged, out)
        terminal.say(str(merged))
        from ...report.sketches import sketch_summary

        told = {"command": "merge", "sources": list(map(str, files)), **sketch_summary(merged)}
        steps.finish(told, {"sketch": out}, None, [], terminal)


def _merged(files: list[Path], modules: Sequence[str]) -> Sketch:
    from bke.inference import load_sketch

    from ...core.errors import InputError

    merged = load_sketch(files[0], modules=modules)
    for file in files[1:]:
        other = load_sketch(file, modules=modules)  # its errors name the file
        try:
            merged = merged.merged(other)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    return merged
