"""Files of one command: written aside, put in place together, by one process at a time.

In the folder of the output there is, until the command ends, a folder :data:`UNFINISHED` that the
files are written to. Once all are there, a list of them is, and they are renamed one by one, the
list last: whatever ends the process before, the older files are whole; whatever ends it in between,
the list tells readers so, and whoever writes next goes on from it.

A folder may come from elsewhere, such as from an archive, with links and lists that lead out of it:
a file replaces a link of its name and is never written through it, links are not recovered, and
paths in a list are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .atomic import folder_to_write, hold, write_text
from .errors import InputError

#: The folder in the output folder to which files are written.
UNFINISHED = "bke-unfinished"
#: By which that folder is known for one of ours.
MARK = ".of-bke"
#: Which files belong to which command, with their sums.
MANIFEST = "bke-files.json"
#: Held by the process that writes to the folder.
LOCK = ".bke.lock"


@contextlib.contextmanager
def draft(
    folder: Path, command: str, check: Callable[[dict[Path, str]], None] = lambda there: None
) -> Iterator[Path]:
    """Yield a folder to write to, whose files are put into ``folder`` when the block succeeds.

    They replace all that the same command has written there before. Files of other commands and of
    the user stay, but for those of the same name; a link of the same name is replaced, and the file
    that it leads to stays as it was. When the block fails the older files are as they
    were, and what was finished stays in ``folder / UNFINISHED``, which the exception's notes name,
    until the next command writes to the folder.

    Args:
        folder: created if need be.
        command: who writes.
        check: called with what :func:`listed` tells, before anything is done and when nobody else
            can write there; refuses what must not be replaced.

    Raises:
        InputError: the folder cannot be written, or another process writes to it.
    """
    if Path(os.path.abspath(folder)).name == UNFINISHED:
        raise InputError(
            f"{folder} has the name that bke gives to what is unfinished: name another"
        )
    with folder_to_write(folder) as made:
        lock = hold(folder / LOCK, f"the folder {folder}")
        try:
            yield from _drafted(folder, command, check)
        except BaseException:
            if made and [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink(missing_ok=True)
            raise
        finally:
            lock.release()


def _drafted(
    folder: Path, command: str, check: Callable[[dict[Path, str]], None]
) -> Iterator[Path]:
    _end_interrupted(folder)
    check(listed(folder))
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
    return folder / path.name if _is_draft(path.parent) else path


def listed(folder: Path) -> dict[Path, str]:
    """The files that commands have written to a folder before, and which command each one."""
    known = _listed(folder) or {}
    return {folder / name: str(one.get("command")) for name, one in known.items()}


def _is_draft(folder: Path) -> bool:
    return folder.name == UNFINISHED and (folder / MARK).is_file()


def check_in_place(path: Path) -> None:
    """Refuse a file of a folder of which some files have been replaced and others have not.

    Raises:
        InputError: it is in one.
    """
    for folder in (path.parent, Path(os.path.realpath(path)).parent):
        aside = folder / UNFINISHED
        if _is_draft(aside) and _listed(aside) is not None:
            raise InputError(
                f"{path} may not belong to the files beside it, which were being replaced when the "
                "command that did so ended or was killed: repeat that command with --out "
                f"{folder}"
            )


def _end_interrupted(folder: Path) -> None:
    """Put in place what a command that was killed had begun to put there."""
    aside = folder / UNFINISHED
    if _is_draft(aside) and not aside.is_symlink() and _listed(aside) is not None:
        _put_in_place(aside, folder)


def _begin(folder: Path) -> Path:
    """Make an empty folder for the draft."""
    aside = folder / UNFINISHED
    empty = aside.is_dir() and not any(aside.iterdir())
    if (empty or _is_draft(aside)) and not aside.is_symlink():
        _remove(aside)
    try:
        aside.mkdir()
    except FileExistsError:
        raise InputError(f"{aside} is in the way, and none of bke's: remove or rename it") from None
    (aside / MARK).touch()
    return aside


def _leave(aside: Path, error: BaseException) -> None:
    """Leave what was finished, if anything."""
    finished = [path for path in aside.glob("*") if not path.name.startswith(".")]
    if finished:
        error.add_note(f"what was finished is in {aside}, until a command writes there again")
    else:
        with contextlib.suppress(OSError):
            _remove(aside)


def _list(aside: Path, folder: Path, command: str) -> None:
    """Write the list of files that will be in the folder, of this command and of others."""
    written = {path.name: path for path in sorted(aside.iterdir()) if path.name != MARK}
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
    """The files that the list in ``folder`` names; ``None`` where there is none of ours.

    Left out are paths, and names that are none of a written file: anyone may have written a list.
    """
    if not _is_regular(folder / MANIFEST):
        return None
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {
            name: dict(known)
            for name, known in files.items()
            if name and Path(name).name == name and name[0] != "." and name != MANIFEST
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _put_in_place(aside: Path, folder: Path) -> None:
    """Rename what is left of the draft, remove what it leaves out, and end with the list."""
    kept = _listed(aside) or {}
    for path in sorted(aside.iterdir()):
        if path.name in kept and _is_regular(path):
            os.replace(path, folder / path.name)
    for name, known in (_listed(folder) or {}).items():
        if name not in kept and _is_as_written(folder, name, known):
            (folder / name).unlink()
    os.replace(aside / MANIFEST, folder / MANIFEST)
    _remove(aside)


def _remove(aside: Path) -> None:
    """Remove a draft, its mark last: one that is killed halfway is still known for ours."""
    for path in aside.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    (aside / MARK).unlink(missing_ok=True)
    aside.rmdir()


def _is_as_written(folder: Path, name: str, known: dict[str, Any]) -> bool:
    """Whether a file is there as it was listed; a list may have been written by anyone."""
    path = folder / name
    return _is_regular(path) and _described(path, "")["sha256"] == known.get("sha256")


def _is_regular(path: Path) -> bool:
    """Whether a path is a file and no link to one."""
    return path.is_file() and not path.is_symlink()
