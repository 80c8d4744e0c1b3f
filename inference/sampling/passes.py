"""What a job has done so far, in a file: one that was killed goes on from there."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from bke.models.kernels.base import Kernel
from bke.models.likelihood.landmark import (
    LandmarkSums,
    check_landmarks,
    feature_sums,
    partition_rows,
)
from jax.experimental import multihost_utils

from ..core.archive import read_arrays, write_arrays
from ..core.errors import InputError, input_errors
from ..core.lock import hold
from ..core.machine import cores
from ..core.progress import progress_bar
from ..data.checks import check_spread
from ..streams.rows import Rows

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


#: Entries of the gradients of the rows that are read at a time, and the fewest and most rows.
CHUNK_ENTRIES, FEWEST, MOST = 2**24, 2**12, 2**17
#: Chunks are summed in so many sums, each of every so many-th chunk: up to as many processes can
#: share them, and rounding does not depend on how many do.
LANES = 8
#: Rows that stand for all where landmarks are chosen.
SAMPLE = 20_000

_feature_sums = jax.jit(feature_sums)
#: Sums with a leading axis, of kernels.
_merge = jax.jit(jax.vmap(LandmarkSums.merge))


def chunk_size(landmarks: int, dimension: int) -> int:
    """How many rows are read at a time."""
    return int(np.clip(CHUNK_ENTRIES // (landmarks * dimension), FEWEST, MOST))


def prefetched(rows: Rows, chunks: Sequence[int], size: int) -> Iterator[tuple[int, np.ndarray]]:
    """Read chunks of ``size`` rows with their numbers, the next while one is worked on."""

    def read(chunk: int) -> np.ndarray:
        return rows.block(chunk * size, min((chunk + 1) * size, len(rows)))

    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(read, chunks[0]) if chunks else None
        for index, chunk in enumerate(chunks):
            assert waiting is not None
            block = waiting.result()
            if index + 1 < len(chunks):
                waiting = reader.submit(read, chunks[index + 1])
            yield chunk, block


def sums_over_rows(
    rows: Rows,
    unit: np.ndarray,
    landmarks: np.ndarray,
    kernels: Sequence[Kernel],
    *,
    checkpoint: Checkpoint,
    progress: bool,
) -> LandmarkSums:
    """Sum what the landmark model needs of rows over ``unit``, for several kernels in one pass.

    Several processes each go through some of the chunks, and have the sums of all.

    Args:
        rows: (n, D).
        unit: (D,), that the rows are divided by.
        landmarks: (m, D), over the unit.
        kernels: over the unit, of one kind.
        checkpoint: told after every chunk, and written when interrupted; its state has what an
            earlier pass did of the same.
        progress: show a progress bar.

    Raises:
        InputError: for a row at a landmark, or a value that is not finite.
    """
    size = chunk_size(*landmarks.shape)
    lanes = _restored(checkpoint, len(kernels), len(landmarks))
    begin = int(checkpoint.state.get("chunk", 0))
    process, processes = jax.process_index(), jax.process_count()
    mine = [c for c in range(-(-len(rows) // size)) if c % LANES % processes == process]
    left = [chunk for chunk in mine if chunk >= begin]
    what = "kernels x chunks" if begin == 0 else "kernels x chunks, from the checkpoint on"
    with (
        progress_bar(what, len(mine) * len(kernels), shown=progress) as advance,
        ThreadPoolExecutor(cores()) as pool,
        checkpoint.held(),
    ):
        advance((len(mine) - len(left)) * len(kernels))
        for chunk, block in prefetched(rows, left, size):
            points = block / unit
            with input_errors():
                check_landmarks(points, landmarks, first=chunk * size + 1, name=str(rows.path))
            view = partition_rows(points, landmarks, min(size, len(rows)))

            def one(kernel: Kernel, view: object = view) -> LandmarkSums:
                with jax.enable_x64(True):  # the setting belongs to the thread
                    found = _feature_sums(view, kernel)
                    found = jax.tree.map(np.asarray, found)
                advance(1)
                return found

            # The first of all compiles, before the threads would each do it.
            alone = 1 if chunk == left[0] else 0
            each = [*map(one, kernels[:alone]), *pool.map(one, kernels[alone:])]
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
            lane = chunk % LANES
            own = jax.tree.map(lambda leaf, lane=lane: leaf[lane], lanes)
            merged = jax.tree.map(np.asarray, _merge(own, stacked))
            with checkpoint.changing():
                for whole, part in zip(lanes, merged, strict=True):
                    whole[lane] = part
                so_far = {f"sums {i}": np.asarray(leaf) for i, leaf in enumerate(lanes)}
                checkpoint.state.update({"chunk": np.asarray(chunk + 1), **so_far})
            checkpoint.write()
    for name in ("chunk", *(f"sums {i}" for i in range(len(lanes)))):
        checkpoint.state.pop(name, None)
    each_lane = (jax.tree.map(lambda leaf, i=i: leaf[i], _gathered(lanes)) for i in range(LANES))
    return jax.tree.map(np.asarray, functools.reduce(_merge, each_lane))


def _restored(checkpoint: Checkpoint, kernels: int, landmarks: int) -> LandmarkSums:
    """Restore the sums of every lane so far, (lane, kernel, ...)."""
    if "chunk" in checkpoint.state:
        return LandmarkSums(*(checkpoint.state[f"sums {i}"] for i in range(4)))  # type: ignore[arg-type]
    first = LANES, kernels
    shapes = first, (*first, landmarks), first, first
    return LandmarkSums(*(np.zeros(shape) for shape in shapes))  # type: ignore[arg-type]


def _gathered(lanes: LandmarkSums) -> LandmarkSums:
    """Gather every lane from the process that had it."""
    processes = jax.process_count()
    if processes == 1:
        return lanes
    every = multihost_utils.process_allgather(lanes)
    lane = np.arange(LANES)
    return LandmarkSums(*(leaf[lane % processes, lane] for leaf in every))


class Survey(NamedTuple):
    """What a first pass over rows finds."""

    mean: np.ndarray  # (D,)
    deviation: np.ndarray  # (D,), standard deviation
    sample: np.ndarray  # (k, D), rows drawn at random, in their order
    digest: np.ndarray  # (32,), SHA-256 of the rows as float64


def survey(rows: Rows, seed: int, checkpoint: Checkpoint, *, progress: bool) -> Survey:
    """Find mean, deviation, a sample and the digest of all rows, in one pass.

    The checkpoint gets them all, the rows of the sample as they are.

    Raises:
        InputError: for fewer than two rows, a column that is constant or varies too little, or a
            value that is missing, not finite or beyond 1e150.
    """
    if "survey mean" in checkpoint.state:
        return Survey(*(checkpoint.state[f"survey {name}"] for name in Survey._fields))
    n, dimension = rows.shape
    if n < 2:
        raise InputError(f"{rows.path} needs at least two rows, and has {n}")
    rng = np.random.default_rng((seed, 7))
    drawn = np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
    size = chunk_size(1, dimension)
    digest, pieces = hashlib.sha256(), []
    count, mean, scatter = 0, np.zeros(dimension), np.zeros(dimension)
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    with progress_bar("rows", n, shown=progress) as advance:
        for chunk, block in prefetched(rows, range(-(-n // size)), size):
            digest.update(block.tobytes())
            inside = drawn[(drawn >= chunk * size) & (drawn < chunk * size + len(block))]
            pieces.append(block[inside - chunk * size])
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            own = block.mean(axis=0)
            apart, total = own - mean, count + len(block)
            scatter += ((block - own) ** 2).sum(axis=0) + apart**2 * count * len(block) / total
            mean += apart * len(block) / total
            count = total
            advance(len(block))
    check_spread(low, high, str(rows.path), lambda at: f"column {rows.columns[at]!r}")
    deviation = np.sqrt(scatter / n)
    found = Survey(
        mean, deviation, np.concatenate(pieces), np.frombuffer(digest.digest(), dtype=np.uint8)
    )
    checkpoint.state.update({f"survey {k}": v for k, v in found._asdict().items()})
    checkpoint.write(now=True)
    return found
