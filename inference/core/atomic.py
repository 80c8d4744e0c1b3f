"""Output files that are written whole or not at all by one process at a time, and their folders."""

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
    """Whether two paths lead to one file, by whatever spelling or link, be it there or not yet."""
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one is not there
        return False


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it over ``path`` when the block succeeds.

    Whatever ends the block early (an error, Ctrl-C) removes the temporary file and leaves an
    older file at ``path`` as it was. The temporary name keeps the suffix, from which matplotlib
    and xarray infer the format.

    Nothing is written through a link: the file replaces a symbolic or hard link at ``path`` itself,
    as :func:`os.replace`, ``sed -i`` and the package atomicwrites do, and the file that the link
    leads to stays as it was. Links to folders on the way to ``path`` are followed.

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
    """Remove what killed calls of :func:`atomic_path` left of a file, or in a folder.

    Nothing else may be writing to it.
    """
    target = Path(path)
    folder, prefix = (target, PREFIX) if target.is_dir() else (target.parent, _prefix(target))
    for other in folder.glob(f"{prefix}*"):
        other.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    """Beginning of the names of temporary files, of any length of the file's own name."""
    return f"{PREFIX}{zlib.crc32(os.fsencode(target.name)):08x}-"


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8, whole or not at all.

    Args:
        path: as of :func:`atomic_path`.
        text: all of it.

    Raises:
        InputError: as of :func:`atomic_path`.
    """
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_output_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder if need be and make sure that files can be written to it.

    Returns:
        The folder.

    Raises:
        InputError: it cannot; no folder made on the way is left behind.
    """
    folder = Path(path)
    made: list[Path] = []
    try:
        for step in [*reversed(folder.parents), folder]:
            if not step.is_dir():
                step.mkdir(exist_ok=True)  # another process may have been faster
                made.append(step)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"test")
    except (OSError, ValueError) as error:
        for step in reversed(made):
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
    """Create a folder if need be; on failure leave none that was made for it and is empty.

    Yields:
        Whether it was made.

    Raises:
        InputError: as of :func:`check_output_folder`.
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


def hold(path: Path, what: str) -> filelock.BaseFileLock:
    """Acquire the lock of a file, held until it is released, forgotten, or the process ends.

    Whoever holds it in this process may acquire it again: an interrupted call may still be known to
    a notebook when it is repeated.

    Args:
        path: of a file that is made where there is none, and stays.
        what: is written to, for the message.

    Raises:
        InputError: another process holds it, or the path is a link: some versions of filelock empty
            the file that a link leads to.
    """
    import filelock  # takes a while, and most commands need none

    lock = filelock.FileLock(path, timeout=0, is_singleton=True)
    try:
        if path.is_symlink() or (path.exists() and path.stat().st_nlink > 1):
            raise InputError(f"{path} is a link, where bke needs a file of its own: remove it")
        lock.acquire()
    except filelock.Timeout:
        raise InputError(
            f"another process is writing to {what}: wait for it, or name another"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be locked: {error.strerror or error}") from error
    return lock
