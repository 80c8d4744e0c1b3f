"""Files of one command: written aside, put in place together, by one process at a time.

In the folder of the output there is, until the command ends, a folder ``unfinished`` that the files
are written to. Once all are there, a list of them is, and they are renamed one by one, the list
last: whatever ends the process before, the older files are whole; whatever ends it in between, the
list tells readers so, and whoever writes next goes on from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import InputError
from .atomic import atomic_path, check_output_folder, write_text
from .lock import hold

#: The folder in the output folder to which files are written.
UNFINISHED = "unfinished"
#: Which files belong to which command, with their sums.
MANIFEST = "manifest.json"
#: Held by the process that writes to the folder.
LOCK = ".lock"


@contextlib.contextmanager
def draft(folder: Path, command: str) -> Iterator[Path]:
    """Yield a folder to write to, whose files are put into ``folder`` when the block succeeds.

    They replace all that the same command has written there before. Files of other commands and of
    the user stay, but for those of the same name. When the block fails the older files are as they
    were, and what was finished stays in ``folder / UNFINISHED``, which the exception's notes name,
    until the next command writes to the folder.

    Args:
        folder: created if need be.
        command: who writes.

    Raises:
        InputError: the folder cannot be written, or another process writes to it.
    """
    missing = [step for step in (folder, *folder.parents) if not step.exists()]
    check_output_folder(folder)
    try:
        lock = hold(folder / LOCK, f"the folder {folder}")
        try:
            yield from _drafted(folder, command)
        finally:
            lock.release()
    except BaseException:
        if missing and [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink(missing_ok=True)
        for step in missing:
            with contextlib.suppress(OSError):  # not empty: something was written
                step.rmdir()
        raise


def _drafted(folder: Path, command: str) -> Iterator[Path]:
    aside = _begin(folder)
    try:
        yield aside
        _list(aside, folder, command)
        _put_in_place(aside, folder)
    except BaseException as error:
        _leave(aside, error)
        raise


def in_place(path: Path) -> Path:
    """Where a file of a draft will be; other paths as they are."""
    folder = path.parent.parent
    drafted = path.parent.name == UNFINISHED and (folder / LOCK).exists()
    return folder / path.name if drafted else path


def check_in_place(path: Path) -> None:
    """Refuse a file of a folder of which some files have been replaced and others have not.

    Raises:
        InputError: it is in one.
    """
    if _listed(path.parent / UNFINISHED) is not None:
        raise InputError(
            f"{path} may not belong to the files beside it, which were being replaced when the "
            "command that did so ended or was killed: repeat that command, or any other with --out "
            f"{path.parent}"
        )


def _begin(folder: Path) -> Path:
    """Make an empty folder for the draft, after having ended what was interrupted in the end."""
    aside = folder / UNFINISHED
    if _listed(aside) is not None:
        _put_in_place(aside, folder)
    if aside.is_dir():
        shutil.rmtree(aside)
    try:
        aside.mkdir()
    except FileExistsError:
        raise InputError(f"{aside} is in the way, which is no folder: remove it") from None
    return aside


def _leave(aside: Path, error: BaseException) -> None:
    """Leave what was finished, if anything."""
    for path in aside.glob(".*"):
        path.unlink(missing_ok=True)
    try:
        aside.rmdir()
    except FileNotFoundError:  # all is in place
        pass
    except OSError:
        error.add_note(f"what was finished is in {aside}")


def _list(aside: Path, folder: Path, command: str) -> None:
    """Write the list of files that will be in the folder, of this command and of others."""
    written = {path.name: path for path in sorted(aside.iterdir())}
    files = {
        name: known
        for name, known in (_listed(folder) or {}).items()
        if known.get("command") != command and name not in written
    }
    files.update({name: _described(path, command) for name, path in written.items()})
    told = {"bke": version("bke"), "files": files}
    write_text(aside / MANIFEST, json.dumps(told, indent=1) + "\n")


def _described(path: Path, command: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"command": command, "bytes": path.stat().st_size, "sha256": digest}


def _listed(folder: Path) -> dict[str, dict[str, Any]] | None:
    """The files that the list in ``folder`` names; ``None`` where there is none of ours."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {str(name): dict(known) for name, known in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _put_in_place(aside: Path, folder: Path) -> None:
    """Rename what is left of the draft, remove what it leaves out, and end with the list."""
    kept = _listed(aside) or {}
    for path in sorted(aside.iterdir()):
        if path.name in kept:
            _rename(path, folder / path.name)
    for name in (_listed(folder) or {}).keys() - kept.keys():
        if Path(name).name == name:  # a list may have been written by anyone
            (folder / name).unlink(missing_ok=True)
    os.replace(aside / MANIFEST, folder / MANIFEST)
    aside.rmdir()


def _rename(path: Path, target: Path) -> None:
    """Rename over a file, or over what a symbolic link leads to."""
    try:
        os.replace(path, os.path.realpath(target))
    except OSError:  # the link leads to another file system
        with atomic_path(target) as temporary:
            shutil.copyfile(path, temporary)
        path.unlink()
