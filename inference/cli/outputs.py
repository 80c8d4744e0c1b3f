"""Output files of a command: checked before it computes, moved to their folder in the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ..core.atomic import atomic_path, folder_to_write, same_file, write_text
from ..core.drafts import LOCK, MANIFEST, UNFINISHED, draft, in_place, listed
from ..core.errors import InputError
from .inputs import count_or_file
from .terminal import Terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "summary.json"
#: Dots per inch of pictures, and how their files are called among all.
DPI, PICTURE = 150, "_picture"
#: Rows of a table that are printed where there is no folder.
MOST_PRINTED = 20
Pictures: TypeAlias = "Sequence[tuple[str, Callable[[], Figure]]]"
Folder = TypeVar("Folder", Path, Path | None)
#: Commands that make something of a run, and write to its folder only what is of that run.
OF_RUNS = frozenset({"diagnose", "witness"})


@contextlib.contextmanager
def output_folder(
    folder: Folder,
    files: Sequence[str],
    *,
    command: str,
    read: Iterable[Path | str | None],
    checkpoint: Path | None = None,
) -> Iterator[Folder]:
    """Yield where to write ``files``, which come to their folder together when the block succeeds.

    Args:
        folder: where they will be; ``None``: there are none.
        files: their names, of all that the command may write.
        command: which one.
        read: what the command reads, which none of them may be; a text is what ``--landmarks``
            says.
        checkpoint: one more that is written.

    Raises:
        InputError: they cannot be written, one of them is read, one of them belongs to what another
            command has written and that is not read, or another process writes there.
    """
    written: list[Path] = [] if folder is None else [folder / name for name in files]
    commands_of: dict[Path, str] = {} if folder is None else listed(folder)
    replaced: list[Path] = [path for path, other in commands_of.items() if other == command]
    _check_kept(read, [*written, *replaced], checkpoint)
    if folder is None:
        yield folder
        return
    _check_finished(read, folder / UNFINISHED)
    _check_no_folders([*written, folder / MANIFEST, folder / LOCK])
    sources = _files(read)
    with draft(
        folder, command, lambda commands_of: _check_others(sources, written, commands_of, command)
    ) as to:
        yield to


@contextlib.contextmanager
def output_file(
    path: Path | None, *, read: Iterable[Path | str | None], checkpoint: Path | None = None
) -> Iterator[None]:
    """Make sure that a file can be written; on failure leave no empty folder that was made here.

    Args:
        path: of the file; ``None``: there is none.
        read: as of :func:`output_folder`.
        checkpoint: likewise.

    Raises:
        InputError: it cannot, or is read.
    """
    written = [] if path is None else [path]
    _check_kept(read, written, checkpoint)
    if path is None:
        yield
        return
    with folder_to_write(path.parent):
        _check_no_folders(written)
        _check_owner(path, listed(path.parent))
        yield


def _files(read: Iterable[Path | str | None]) -> list[Path]:
    told = [count_or_file(each) if isinstance(each, str) else each for each in read]
    return [each for each in told if isinstance(each, Path)]


def _check_finished(read: Iterable[Path | str | None], aside: Path) -> None:
    """Refuse to read what an interrupted command has left where the next one begins."""
    for source in _files(read):
        if Path(os.path.realpath(aside)) in Path(os.path.realpath(source)).parents:
            raise InputError(
                f"{source} is what an interrupted command has left, and would be removed with "
                f"{aside}: move it, or choose another place for --out"
            )


def _check_others(
    sources: Sequence[Path], written: Sequence[Path], commands_of: dict[Path, str], command: str
) -> None:
    """Refuse to replace a part of what another command wrote.

    But for what is made of a run in the folder, and for the command whose folder it is, from whose
    run others have made something.
    """
    others = set(commands_of.values())
    is_own = command in others and command not in OF_RUNS
    if is_own or others <= {command} or any(same_file(a, b) for a in sources for b in commands_of):
        return
    for path in written:
        if path.exists():
            _check_owner(path, commands_of)


def _check_owner(path: Path, commands_of: dict[Path, str]) -> None:
    if path in commands_of:
        raise InputError(
            f"--out would write over {path}, which belongs to what bke {commands_of[path]} has "
            "written there: choose another place"
        )


def _check_no_folders(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir():
            raise InputError(f"{path} is a folder, so no file can be written there")


def _check_kept(
    read: Iterable[Path | str | None], written: Sequence[Path], checkpoint: Path | None
) -> None:
    """Refuse to write over what is read, under whatever spelling or link."""
    sources = _files(read)
    outputs = [("--out", path) for path in written]
    if checkpoint is not None:
        outputs.append(("--checkpoint", checkpoint))
    for option, path in outputs:
        for source in sources:
            # An array of zarr is a folder, and is spoilt by what is written into it.
            inside = Path(os.path.realpath(path)).parents if source.suffix == ".zarr" else ()
            if any(same_file(each, source) for each in (path, *inside)):
                raise InputError(
                    f"{option} would write {path} over {source}, which is read: choose another "
                    "place"
                )
    if checkpoint is not None and any(same_file(checkpoint, path) for path in written):
        raise InputError(f"--out and --checkpoint are both {checkpoint}: choose another place")


def draw_pictures(
    folder: Path | None,
    pictures: Callable[[], Pictures],
    terminal: Terminal,
) -> tuple[dict[str, Path], list[str]]:
    """Save pictures as PNG, if there is a folder for them.

    Returns the files and a note for each that cannot be drawn.
    """
    files: dict[str, Path] = {}
    notes: list[str] = []
    if folder is None:
        return files, notes
    with terminal.step("pictures", "drawing the pictures"):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        for name, draw in pictures():
            path = folder / f"{name}.png"
            try:
                figure = draw()
            except InputError as error:  # the function says for which data it is not meant
                notes.append(f"{path.name} was not drawn: {error}.")
                path.unlink(missing_ok=True)  # of an earlier run
                continue
            try:
                with atomic_path(path) as temporary:
                    figure.savefig(temporary, dpi=DPI)
            finally:
                plt.close(figure)
            files[f"{name}{PICTURE}"] = path
    terminal.notes(notes)
    return files, notes


def finish(
    summary: dict[str, Any],
    files: Mapping[str, Path],
    folder: Path | None,
    notes: Sequence[str],
    terminal: Terminal,
    name: str = SUMMARY,
) -> None:
    """Write the summary to a file of the folder, if any, and print what was done."""
    terminal.finish(write_summary(summary, files, folder, notes, terminal, name))


def write_summary(
    summary: dict[str, Any],
    files: Mapping[str, Path],
    folder: Path | None,
    notes: Sequence[str],
    terminal: Terminal,
    name: str = SUMMARY,
) -> dict[str, Any]:
    """Write the summary to a file of the folder, if any; print the names of files; return it."""
    paths = {**files, **({} if folder is None else {"summary": folder / name})}
    written = {key: str(in_place(path)) for key, path in paths.items()}
    timings = terminal.all_timings()
    summary = {**summary, "notes": list(notes), "files": written, "timings": timings}
    if folder is not None:
        from ..core.render import to_json

        write_text(folder / name, to_json(summary) + "\n")
    terminal.files(written, timings)
    return summary


def write_table(
    folder: Path | None, name: str, header: list[str], table: np.ndarray, terminal: Terminal
) -> dict[str, Path]:
    """The table as CSV in ``folder``, or printed."""
    import pandas as pd

    frame = pd.DataFrame(table, columns=header)
    if folder is None:
        terminal.say(frame.head(MOST_PRINTED).to_string(index=False))
        if len(frame) > MOST_PRINTED:
            terminal.say(f"and {len(frame) - MOST_PRINTED} more rows, which --out writes")
        return {}
    path = folder / name
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False)
    return {"table": path}
