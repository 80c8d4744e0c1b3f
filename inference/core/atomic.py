"""Atomic output files, locks and output folders."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    import filelock

#: Beginning of the names of temporary files.
PREFIX = ".bke-"


def same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Return True if two paths lead to the same file, by spelling or link, existing or not."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one of them does not exist
        return False


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, and rename it to ``path`` when the block succeeds.

    Whatever ends the block early (an error, Ctrl-C) removes the temporary file and leaves an
    older file at ``path`` unchanged. The temporary name keeps the suffix, from which matplotlib
    and xarray infer the format.

    Nothing is written through a link: the file replaces a symbolic or hard link at ``path`` itself,
    as :func:`os.replace`, ``sed -i`` and the package atomicwrites do, and the file that the link
    leads to is unchanged. Links to folders on the way to ``path`` are followed.

    Args:
        path: the file to write; its folder must exist.

    Yields:
        A path that does not exist yet. The block must write it.

    Raises:
        InputError: ``path`` is a folder, a device or a pipe, or is in a folder that does not exist.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{path} is a folder, so no file can be written there")
    if not target.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {target.parent}")
    # /dev/stdout is a link, which leads to a regular file where the shell redirects the output.
    if (target.exists() and not target.is_file()) or target.parent.resolve() == Path("/dev"):
        raise InputError(f"{path} is no regular file: name a file to write")
    # Not tempfile.mkstemp: its files are readable by their owner only, and stay so when renamed.
    temporary = target.parent / f"{_prefix(target)}{secrets.token_hex(8)}{target.suffix}"
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())  # or a power cut may leave the new name with no content
        os.replace(temporary, target)
    except OSError as error:
        if error.errno and error.filename in (None, str(temporary)):  # which no user knows
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary_files(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed calls of :func:`atomic_path` left for a file or a folder.

    No other process may be writing there.
    """
    target = Path(path)
    folder, prefix = (target, PREFIX) if target.is_dir() else (target.parent, _prefix(target))
    for other in folder.glob(f"{prefix}*"):
        other.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """Return the beginning of the names of temporary files, of the same length for any name."""
    return f"{PREFIX}{zlib.crc32(os.fsencode(target.name)):08x}-"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8 atomically.

    Args:
        path: see :func:`atomic_path`.
        text: contents of the file.

    Raises:
        InputError: see :func:`atomic_path`.
    """
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_output_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder if needed and make sure that files can be written to it.

    Returns:
        The folder.

    Raises:
        InputError: no file can be written; folders that were created are removed.
    """
    folder = Path(path)
    created: list[Path] = []
    try:
        for step in [*reversed(folder.parents), folder]:
            if not step.is_dir():
                step.mkdir(exist_ok=True)  # another process may have been faster
                created.append(step)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"test")
    except (OSError, ValueError) as error:
        for step in reversed(created):
            with contextlib.suppress(OSError):
                step.rmdir()
        if isinstance(error, FileExistsError):
            reason = f"{error.filename} exists and is not a folder"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the output folder {folder} cannot be written: {reason}") from error
    return folder


@contextlib.contextmanager
def folder_to_write(folder: Path) -> Iterator[bool]:
    """Create a folder if needed; on failure remove created folders that are empty.

    Yields:
        True if the folder was created.

    Raises:
        InputError: see :func:`check_output_folder`.
    """
    missing = [step for step in (folder, *folder.parents) if not step.exists()]
    check_output_folder(folder)
    try:
        yield bool(missing)
    except BaseException:
        for step in missing:
            with contextlib.suppress(OSError):  # not empty: something was written
                step.rmdir()
        raise


def acquire_lock(path: Path, name: str) -> filelock.BaseFileLock:
    """Acquire a file lock until it is released or deleted, or the process ends.

    The same process may acquire it again: a notebook may still refer to an interrupted call when
    the call is repeated.

    Args:
        path: path of the lock file, which is created if needed and is not removed.
        name: name of the file or folder that is written to, for the message.

    Raises:
        InputError: another process has the lock, or the path is a link: some versions of filelock
            empty the file that a link leads to.
    """
    import filelock  # takes a while, and most commands need none

    lock = filelock.FileLock(path, timeout=0, is_singleton=True)
    try:
        if path.is_symlink() or (path.exists() and path.stat().st_nlink > 1):
            raise InputError(
                f"{path} is a link, but bke needs a regular file here: remove the link"
            )
        lock.acquire()
    except filelock.Timeout:
        raise InputError(
            f"another process is writing to {name}: wait for it, or name another"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be locked: {error.strerror or error}") from error
    return lock
