"""Staging of the output files of a command, which replace older files together.

Until the command ends, files are written to a staging folder :data:`UNFINISHED` in the output
folder. Once all files are written, a manifest of them is, and they are renamed one by one, the
manifest last. If the process ends before, the older files are complete; if it ends in between,
readers find the manifest, and the next command finishes the renaming.

A folder may come from elsewhere, such as from an archive, with links and manifests that lead out of
it: a file replaces a link of its name and is never written through it, links are not recovered, and
paths in a manifest are ignored.
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

from .atomic import acquire_lock, folder_to_write, write_text
from .errors import InputError

#: Name of the staging folder in the output folder.
UNFINISHED = "bke-unfinished"
#: Name of an empty file that marks a staging folder.
MARK = ".of-bke"
#: Name of the manifest: the command, size and checksum of each file.
MANIFEST = "bke-files.json"
#: Name of the lock file of the process that writes to the folder.
LOCK = ".bke.lock"


@contextlib.contextmanager
def staging_folder(
    folder: Path, command: str, check: Callable[[dict[Path, str]], None] = lambda commands: None
) -> Iterator[Path]:
    """Yield a folder to write to, whose files are moved to ``folder`` when the block succeeds.

    They replace all files of earlier runs of the same command. Files of other commands and of the
    user are not changed, except those of the same name; a link of the same name is replaced, and
    the file that it leads to is not changed. When the block fails the older files are not changed,
    and finished files stay in ``folder / UNFINISHED``, which the exception's notes name, until the
    next command writes to the folder.

    Args:
        folder: output folder, created if needed.
        command: name of the command.
        check: called with the result of :func:`listed` once the folder is locked and before any
            file is changed; raises an exception if files must not be replaced.

    Raises:
        InputError: the folder cannot be written, or another process writes to it.
    """
    if Path(os.path.abspath(folder)).name == UNFINISHED:
        raise InputError(
            f"{folder} has the name of the folders of unfinished files of bke: name another"
        )
    with folder_to_write(folder) as created:
        lock = acquire_lock(folder / LOCK, f"the folder {folder}")
        try:
            yield from _write_and_move(folder, command, check)
        except BaseException:
            if created and [path.name for path in folder.iterdir()] == [LOCK]:
                (folder / LOCK).unlink(missing_ok=True)
            raise
        finally:
            lock.release()


def _write_and_move(
    folder: Path, command: str, check: Callable[[dict[Path, str]], None]
) -> Iterator[Path]:
    _finish_interrupted(folder)
    check(listed(folder))
    staging = _create(folder)
    try:
        yield staging
        _write_manifest(staging, folder, command)
        _move_to_folder(staging, folder)
    except BaseException as error:
        _keep_finished(staging, error)
        raise


def in_place(path: Path) -> Path:
    """Return the final path of a file in a staging folder; other paths unchanged."""
    folder = path.parent.parent
    return folder / path.name if _is_staging_folder(path.parent) else path


def listed(folder: Path) -> dict[Path, str]:
    """Return the files that commands have written to a folder, with the names of the commands."""
    known = _read_manifest(folder) or {}
    return {folder / name: str(entry.get("command")) for name, entry in known.items()}


def _is_staging_folder(folder: Path) -> bool:
    return folder.name == UNFINISHED and (folder / MARK).is_file()


def check_in_place(path: Path) -> None:
    """Raise an error for a file in a folder of which only some files have been replaced.

    Raises:
        InputError: the command that replaced files was interrupted.
    """
    for folder in (path.parent, Path(os.path.realpath(path)).parent):
        staging = folder / UNFINISHED
        if _is_staging_folder(staging) and _read_manifest(staging) is not None:
            raise InputError(
                f"{path} may not belong to the other files of its folder: the command that was "
                f"replacing them was interrupted; repeat that command with --out {folder}"
            )


def _finish_interrupted(folder: Path) -> None:
    """Finish the renaming of an interrupted command."""
    staging = folder / UNFINISHED
    if (
        _is_staging_folder(staging)
        and not staging.is_symlink()
        and _read_manifest(staging) is not None
    ):
        _move_to_folder(staging, folder)


def _create(folder: Path) -> Path:
    """Create an empty staging folder."""
    staging = folder / UNFINISHED
    empty = staging.is_dir() and not any(staging.iterdir())
    if (empty or _is_staging_folder(staging)) and not staging.is_symlink():
        _remove(staging)
    try:
        staging.mkdir()
    except FileExistsError:
        raise InputError(
            f"{staging} exists and was not created by bke: remove or rename it"
        ) from None
    (staging / MARK).touch()
    return staging


def _keep_finished(staging: Path, error: BaseException) -> None:
    """Keep finished files, and remove a staging folder without any."""
    finished = [path for path in staging.glob("*") if not path.name.startswith(".")]
    if finished:
        error.add_note(
            f"finished files are in {staging} until a command writes to the folder again"
        )
    else:
        with contextlib.suppress(OSError):
            _remove(staging)


def _write_manifest(staging: Path, folder: Path, command: str) -> None:
    """Write the manifest of the final folder, with the files of all commands."""
    paths = {path.name: path for path in sorted(staging.iterdir()) if path.name != MARK}
    files = {
        name: known
        for name, known in (_read_manifest(folder) or {}).items()
        if known.get("command") != command and name not in paths
    }
    files.update({name: _describe(path, command) for name, path in paths.items()})
    manifest = {"bke": version("bke"), "files": files}
    write_text(staging / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _describe(path: Path, command: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"command": command, "bytes": path.stat().st_size, "sha256": digest}


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Return the files in the manifest of ``folder``; ``None`` without a valid manifest.

    Paths, and names that bke never writes, are left out: anybody may have written the manifest.
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


def _move_to_folder(staging: Path, folder: Path) -> None:
    """Rename the staged files, remove older files of the command, and move the manifest."""
    new = _read_manifest(staging) or {}
    for path in sorted(staging.iterdir()):
        if path.name in new and _is_regular(path):
            os.replace(path, folder / path.name)
    for name, known in (_read_manifest(folder) or {}).items():
        if name not in new and _is_unchanged(folder, name, known):
            (folder / name).unlink()
    os.replace(staging / MANIFEST, folder / MANIFEST)
    _remove(staging)


def _remove(staging: Path) -> None:
    """Remove a staging folder, its mark last, so that an interrupted removal can be finished."""
    for path in staging.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    (staging / MARK).unlink(missing_ok=True)
    staging.rmdir()


def _is_unchanged(folder: Path, name: str, known: dict[str, Any]) -> bool:
    """Return True if a file has the checksum of the manifest, which anybody may have written."""
    path = folder / name
    return _is_regular(path) and _describe(path, "")["sha256"] == known.get("sha256")


def _is_regular(path: Path) -> bool:
    """Return True if a path is a regular file and not a link."""
    return path.is_file() and not path.is_symlink()
