"""``bke examples``: small data sets, and commands to try on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.drafts import listed
from ...core.errors import InputError
from ..outputs import output_folder
from ..terminal import Terminal

READ_ME, SCRIPT = "README.md", "commands.txt"
FILES = (
    READ_ME,
    SCRIPT,
    *("ozone.csv", "calm.csv", "windy.csv", "last_month.csv", "this_month.csv", "old.csv"),
    *("new.csv", "posterior.nc", "model.py", "counts.csv"),
)


def examples(
    terminal: Terminal,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the files; created if need be.")
    ] = Path("bke-examples"),
) -> None:
    """Write small data sets, and show commands to try.

    One data set was measured, the ozone of Los Angeles; the others are simulated, and README.md in
    the folder says how. The commands are in commands.txt too, and run as they stand in the folder.
    """
    from ..examples import tour

    own_files = [path for path, command in listed(folder).items() if command == "examples"]
    for name in FILES:
        if (path := folder / name).exists() and path not in own_files:
            raise InputError(
                f"{path} exists and was not written by bke examples: choose another folder"
            )
    with output_folder(folder, FILES, command="examples", read=()) as draft:
        tour.write_tables(draft)
        (draft / READ_ME).write_text(tour.READ_ME, encoding="utf-8")
        (draft / SCRIPT).write_text(tour.as_script(), encoding="utf-8")
    terminal.say(f"{len(FILES)} files are in {folder}, where {READ_ME} says what they hold. Try:")
    terminal.say(f"\n    cd {folder}", whole=True)
    for text, style in tour.as_text():
        terminal.say(text, style, whole=style == tour.TYPED)
    summary = {
        "command": "examples",
        "folder": str(folder),
        "files": [str(folder / name) for name in FILES],
    }
    terminal.finish({**summary, "commands": tour.commands()})
