"""What one process at a time may write to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    import filelock


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
