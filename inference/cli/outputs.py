"""Output files of a command: checked before it computes, moved to their folder in the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.atomic import atomic_path, folder_to_write, same_file, write_text
from ..core.errors import InputError
from ..core.staging import LOCK, MANIFEST, UNFINISHED, in_place, listed, staging_folder
from .inputs import count_or_file
from .terminal import Terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "summary.json"
#: Dots per inch of pictures, and the end of their keys among the files of a summary.
DPI, PICTURE = 150, "_picture"
#: Rows of a table that are printed where there is no folder.
MAX_PRINTED_ROWS = 20
Pictures: TypeAlias = "Sequence[tuple[str, Callable[[], Figure]]]"
#: Commands that read a run, and replace in its folder only files that were made from it.
COMMANDS_ON_RUNS = frozenset({"diagnose", "witness"})


class Output:
    """Files and notes of a command, which its summary lists.

    Attributes:
        folder: where the files are written; ``None``: the command has no ``--out``.
        files: the files that were written, by their key in the summary.
        notes: remarks that a reader should not miss.
    """

    def __init__(
        self, command: str, terminal: Terminal, folder: Path | None = None, name: str = SUMMARY
    ) -> None:
        self.command = command
        self.terminal = terminal
        self.folder = folder
        self.files: dict[str, Path] = {}
        self.notes: list[str] = []
        self._name = name

    def add(self, key: str, name: str) -> Path:
        """List a file of the folder in the summary, and return its path."""
        assert self.folder is not None
        return self.files.setdefault(key, self.folder / name)

    def note(self, notes: Iterable[str]) -> None:
        """Print notes, and list them in the summary."""
        notes = list(notes)
        self.terminal.notes(notes)
        self.notes += notes

    def draw(self, pictures: Callable[[], Pictures], folder: Path | None = None) -> dict[str, Path]:
        """Save pictures as PNG in the folder of the command, or in another; note what is missing.

        Returns:
            The files, which are listed if they are in the folder of the command.
        """
        files: dict[str, Path] = {}
        to = folder or self.folder
        if to is None:
            return files
        with self.terminal.step("pictures", "drawing the pictures"):
            import matplotlib

            matplotlib.use("Agg")
            from matplotlib import pyplot as plt

            missing = []
            for name, draw in pictures():
                path = to / f"{name}.png"
                try:
                    figure = draw()
                except InputError as error:  # the function has no picture of such data
                    missing.append(f"{path.name} was not drawn: {error}.")
                    continue
                try:
                    with atomic_path(path) as temporary:
                        figure.savefig(temporary, dpi=DPI)
                finally:
                    plt.close(figure)
                files[f"{name}{PICTURE}"] = path
        self.note(missing)
        if folder is None:
            self.files |= files
        return files

    def write_table(self, name: str, header: list[str], table: np.ndarray) -> None:
        """Write a table as CSV, or print it if there is no folder."""
        import pandas as pd

        frame = pd.DataFrame(table, columns=header)
        if self.folder is not None:
            with atomic_path(self.add("table", name)) as temporary:
                frame.to_csv(temporary, index=False)
            return
        self.terminal.say(frame.head(MAX_PRINTED_ROWS).to_string(index=False))
        if len(frame) > MAX_PRINTED_ROWS:
            self.terminal.say(f"and {len(frame) - MAX_PRINTED_ROWS} more rows, which --out writes")

    def write_summary(self, results: dict[str, Any]) -> dict[str, Any]:
        """Write the summary to the folder, if any; print the names of the files; return it."""
        paths = dict(self.files)
        if self.folder is not None:
            paths["summary"] = self.folder / self._name
        files = {key: str(in_place(path)) for key, path in paths.items()}
        timings = self.terminal.all_timings()
        notes = [*results.pop("notes", ()), *self.notes]
        lists = {"notes": notes, "files": files, "timings": timings}
        summary = {"command": self.command, **results, **lists}
        if self.folder is not None:
            from ..core.render import to_json

            write_text(paths["summary"], to_json(summary) + "\n")
        self.terminal.queue_files(files, timings)
        return summary

    def finish(self, results: dict[str, Any]) -> None:
        """Write the summary to the folder, if any, and print it with ``--json``."""
        self.terminal.queue_json(self.write_summary(results))


@contextlib.contextmanager
def output_folder(
    terminal: Terminal,
    folder: Path | None,
    files: Sequence[str],
    *,
    command: str,
    read: Iterable[Path | str | None],
    checkpoint: Path | None = None,
) -> Iterator[Output]:
    """Yield the output of a command, whose files are moved to ``folder`` when the block succeeds.

    Args:
        terminal: the terminal of the command.
        folder: the folder of the files; ``None``: there are none.
        files: names of all files that the command may write, the summary last.
        command: its name.
        read: files that the command reads, and must not write over; a text is ``--landmarks``.
        checkpoint: another file that is written.

    Raises:
        InputError: a file cannot be written, or is read, or belongs to the files of another command
            that are not read, or another process writes to the folder.
    """
    outputs: list[Path] = [] if folder is None else [folder / name for name in files]
    commands = {} if folder is None else listed(folder)
    replaced = [path for path, other in commands.items() if other == command]
    inputs = _input_files(read)
    _check_not_read(inputs, [*outputs, *replaced], checkpoint)
    if folder is None:
        yield Output(command, terminal)
        return
    _check_finished(inputs, folder / UNFINISHED)
    _check_no_folders([*outputs, folder / MANIFEST, folder / LOCK])
    with staging_folder(
        folder, command, lambda commands: _check_owners(inputs, outputs, commands, command)
    ) as draft_folder:
        yield Output(command, terminal, draft_folder, files[-1])


@contextlib.contextmanager
def output_file(
    path: Path, *, read: Iterable[Path | str | None], checkpoint: Path | None = None
) -> Iterator[None]:
    """Make sure that a file can be written; on failure leave no empty folder that was made here.

    Raises:
        InputError: it cannot be written, or is read.
    """
    _check_not_read(_input_files(read), [path], checkpoint)
    with folder_to_write(path.parent):
        _check_no_folders([path])
        _check_owner(path, listed(path.parent))
        yield


def _input_files(read: Iterable[Path | str | None]) -> list[Path]:
    values = [count_or_file(value) if isinstance(value, str) else value for value in read]
    return [value for value in values if isinstance(value, Path)]


def _check_finished(inputs: Sequence[Path], draft_folder: Path) -> None:
    """Refuse to read files of an interrupted command, which the next command removes."""
    for path in inputs:
        if Path(os.path.realpath(draft_folder)) in Path(os.path.realpath(path)).parents:
            raise InputError(
                f"{path} is what an interrupted command has left, and would be removed with "
                f"{draft_folder}: move it, or choose another place for --out"
            )


def _check_owners(
    inputs: Sequence[Path], outputs: Sequence[Path], commands: dict[Path, str], command: str
) -> None:
    """Refuse to replace a part of the files of another command.

    Allowed are files made from a run in the folder, and all files to the command that wrote the run
    from which others were made.
    """
    owners = set(commands.values())
    is_owner = command in owners and command not in COMMANDS_ON_RUNS
    reads_output = any(same_file(a, b) for a in inputs for b in commands)
    if not (is_owner or owners <= {command} or reads_output):
        for path in filter(Path.exists, outputs):
            _check_owner(path, commands)


def _check_owner(path: Path, commands: dict[Path, str]) -> None:
    if path in commands:
        raise InputError(
            f"--out would write over {path}, which belongs to what bke {commands[path]} has "
            "written there: choose another place"
        )


def _check_no_folders(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path} is a folder, so no file can be written there")


def _check_not_read(
    inputs: Sequence[Path], outputs: Sequence[Path], checkpoint: Path | None
) -> None:
    """Refuse to write over a file that is read, under whatever spelling or link."""
    options = [("--out", path) for path in outputs]
    if checkpoint is not None:
        options.append(("--checkpoint", checkpoint))
    for option, path in options:
        for source in inputs:
            # An array of zarr is a folder, which a file that is written into it would damage.
            parents = Path(os.path.realpath(path)).parents if source.suffix == ".zarr" else ()
            if any(same_file(target, source) for target in (path, *parents)):
                raise InputError(
                    f"{option} would write {path} over {source}, which is read: choose another "
                    "place"
                )
    if checkpoint is not None and any(same_file(checkpoint, path) for path in outputs):
        raise InputError(f"--out and --checkpoint are both {checkpoint}: choose another place")
