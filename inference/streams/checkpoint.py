"""What a job has done so far, in a file: one that was killed goes on from there."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..core.archive import read_arrays, write_arrays
from ..core.errors import InputError
from ..core.lock import hold

#: Seconds between two writings.
EVERY = 30.0


class Checkpoint:
    """Named arrays of one job, written now and then; nowhere without a path.

    The file is as confidential as the data: some 20 000 rows are in it as they are.

    Attributes:
        state: the arrays, those of an earlier start of the same job to begin with.
    """

    def __init__(self, path: str | os.PathLike[str] | None, job: Mapping[str, Any]) -> None:
        """Open the checkpoint of a ``job``, which is described by plain data.

        Raises:
            InputError: where there is something at ``path`` that is no checkpoint, one that is
                broken, or that of another job, or where another process writes to it.
        """
        self._path = None if path is None else _own(Path(path))
        # How rows are cut, and who goes through which, belongs to what a state means.
        of_all = {"number of processes": jax.process_count(), "version of bke": version("bke")}
        self._job = json.loads(json.dumps({**job, **of_all}))
        self._written = time.monotonic()
        self._whole = True
        self.state: dict[str, np.ndarray] = {}
        if self._path is None:
            return
        beside = self._path.with_name(f".{self._path.name}.lock")
        self._lock = hold(beside, str(self._path))
        if self._path.exists():
            self.state = _read(self._path, self._job)
        else:
            self.write(now=True)  # that it can be is known at once

    def write(self, *, now: bool = False) -> None:
        """Write the state as it is, if it is time or ``now``."""
        if self._path is None or not (now or time.monotonic() - self._written > EVERY):
            return
        write_arrays(self._path, self._job, self.state)
        self._written = time.monotonic()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Write the state if the block is interrupted, but for in the middle of a change."""
        try:
            yield
        except KeyboardInterrupt:
            if self._whole:
                self.write(now=True)
            raise

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold writing back until the block ends: before, arrays do not belong together."""
        self._whole = False
        yield
        self._whole = True

    def remove(self) -> None:
        """Remove the file of a job that is done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock.release()


def _own(path: Path) -> Path:
    """Name the file of this process: each process of a job has rows of its own."""
    process = jax.process_index()
    return path.with_name(f"{path.name}.{process}") if process else path


def _read(path: Path, job: Mapping[str, Any]) -> dict[str, np.ndarray]:
    found, state = read_arrays(path, "a checkpoint")
    different = [name for name in {**job, **found} if job.get(name) != found.get(name)]
    if different:
        raise InputError(
            f"{path} is the checkpoint of another job, with a different {' and '.join(different)}: "
            "name another file, or delete it to begin anew"
        )
    return state
