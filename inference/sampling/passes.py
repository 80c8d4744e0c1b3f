"""Passes over the rows of a file, which resume from a checkpoint."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

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

#: Number of partial sums, each over every eighth chunk. Up to as many processes can share a pass,
#: and rounding does not depend on their number.
LANES = 8

_feature_sums = jax.jit(feature_sums)
#: Merges sums with a leading axis over kernels.
_merge = jax.jit(jax.vmap(LandmarkSums.merge))


class Checkpoint:
    """Named arrays of a job, written to a file at intervals, from which a stopped job resumes.

    The file is as confidential as the data: it holds up to 20 000 rows. Without a path nothing is
    written.

    Attributes:
        state: the arrays; at the start those that an earlier run of the same job wrote. A change
            replaces the dictionary, so that an interrupt cannot leave half of it.
        interval: seconds between two writes.
    """

    interval: ClassVar[float] = 30.0

    def __init__(self, path: str | os.PathLike[str] | None, job: Mapping[str, Any]) -> None:
        """Open the checkpoint of a ``job``, which is described by plain data.

        Raises:
            InputError: where the file at ``path`` is not a checkpoint, is damaged or belongs to
                another job, or where another process writes to it.
        """
        self.state: dict[str, np.ndarray] = {}
        self._written = time.monotonic()
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        if process := jax.process_index():  # each process sums other rows
            self._path = self._path.with_name(f"{self._path.name}.{process}")
        processes = {"number of processes": jax.process_count(), "version of bke": version("bke")}
        self._job = json.loads(json.dumps({**job, **processes}))
        self._lock = hold(self._path.with_name(f".{self._path.name}.lock"), str(self._path))
        if not self._path.exists():
            self.write(now=True)  # a path that cannot be written is refused before the work
            return
        recorded, self.state = read_arrays(self._path, "a checkpoint")
        names = {**self._job, **recorded}
        different = [name for name in names if self._job.get(name) != recorded.get(name)]
        if different:
            raise InputError(
                f"{self._path} is the checkpoint of another job, with a different "
                f"{' and '.join(different)}: name another file, or delete it to start again"
            )

    def update(self, **arrays: Any) -> None:
        """Set arrays, all at once."""
        self.state = {**self.state, **{name: np.asarray(array) for name, array in arrays.items()}}

    def drop(self, prefix: str) -> None:
        """Remove the arrays whose names start with ``prefix``."""
        state = self.state.items()
        self.state = {name: array for name, array in state if not name.startswith(prefix)}

    def write(self, *, now: bool = False) -> None:
        """Write the state, if the interval has passed or ``now``."""
        if self._path is not None and (now or time.monotonic() - self._written > self.interval):
            write_arrays(self._path, self._job, self.state)
            self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file of a finished job."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock.release()


def chunk_size(landmarks: int, dimension: int, max_entries: int = 2**24) -> int:
    """Return the number of rows that are read at a time, 4096 to 131072 (not tuned).

    Args:
        landmarks: their number m.
        dimension: D.
        max_entries: entries of the gradients of a chunk, for 128 MiB.
    """
    return int(np.clip(max_entries // (landmarks * dimension), 2**12, 2**17))


def summarize_rows(
    rows: Rows, seed: int, checkpoint: Checkpoint, *, progress: bool, sample_size: int = 20_000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute standard deviations, a random sample and the checksum of all rows, in one pass.

    Args:
        rows: (n, D).
        seed: of the sample.
        checkpoint: stores the result.
        progress: show a progress bar.
        sample_size: rows of the sample, among which landmarks are chosen; not tuned.

    Returns:
        Standard deviations (D,), the sample (k, D) in the order of the rows, and the SHA-256 (32,)
        of the rows as float64.

    Raises:
        InputError: for fewer than two rows, a column that is constant or varies too little, or a
            value that is missing, not finite or beyond 1e150.
    """
    names = ["summary deviation", "summary sample", "summary digest"]
    if names[0] not in checkpoint.state:
        summary = _summarize(rows, seed, sample_size, progress=progress)
        checkpoint.update(**dict(zip(names, summary, strict=True)))
        checkpoint.write(now=True)
    deviation, sample, digest = (checkpoint.state[name] for name in names)
    return deviation, sample, digest


def _summarize(
    rows: Rows, seed: int, sample_size: int, *, progress: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, dimension = rows.shape
    if n < 2:
        raise InputError(f"{rows.path} needs at least two rows, and has {n}")
    rng = np.random.default_rng((seed, 7))
    drawn = np.sort(rng.choice(n, min(n, sample_size), replace=False))
    size = chunk_size(1, dimension)
    digest, sample = hashlib.sha256(), []
    count, mean, scatter = 0, np.zeros(dimension), np.zeros(dimension)
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    with progress_bar("rows", n, shown=progress) as advance:
        for chunk, block in rows.chunks(size):
            digest.update(block.tobytes())
            in_chunk = drawn[(drawn >= chunk * size) & (drawn < chunk * size + len(block))]
            sample.append(block[in_chunk - chunk * size])
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            # Chan, Golub and LeVeque (1983)
            block_mean = block.mean(axis=0)
            difference, total = block_mean - mean, count + len(block)
            scatter += ((block - block_mean) ** 2).sum(axis=0)
            scatter += difference**2 * count * len(block) / total
            mean += difference * len(block) / total
            count = total
            advance(len(block))
    check_spread(low, high, str(rows.path), lambda index: f"column {rows.columns[index]!r}")
    checksum = np.frombuffer(digest.digest(), dtype=np.uint8)
    return np.sqrt(scatter / n), np.concatenate(sample), checksum


def sums_over_rows(
    rows: Rows,
    scale: np.ndarray,
    landmarks: np.ndarray,
    kernels: Sequence[Kernel],
    *,
    checkpoint: Checkpoint,
    progress: bool,
) -> LandmarkSums:
    """Sum the features of the landmark model over rows, for several kernels in one pass.

    Several processes each read some of the chunks, and all return the sums of all.

    Args:
        rows: (n, D).
        scale: (D,), by which the rows are divided.
        landmarks: (m, D), divided by the scale.
        kernels: for rows divided by the scale, of one class.
        checkpoint: stores the sums after every chunk, and is written at intervals and when
            interrupted; the pass continues from the sums in its state.
        progress: show a progress bar.

    Returns:
        Sums with a leading axis over kernels.

    Raises:
        InputError: for a row at a landmark, or a value that is not finite.
    """
    size = chunk_size(*landmarks.shape)
    first = int(checkpoint.state.get("sums chunk", 0))
    process, processes = jax.process_index(), jax.process_count()
    indices = range(-(-len(rows) // size))
    chunks = [chunk for chunk in indices if chunk % LANES % processes == process]
    remaining = [chunk for chunk in chunks if chunk >= first]
    lanes = _restore_lanes(checkpoint, len(kernels), len(landmarks))
    label = "kernels x chunks, from the checkpoint on" if first else "kernels x chunks"
    with (
        progress_bar(label, len(chunks) * len(kernels), shown=progress) as advance,
        ThreadPoolExecutor(cores()) as pool,
    ):
        advance((len(chunks) - len(remaining)) * len(kernels))
        try:
            for chunk, block in rows.chunks(size, remaining):
                points = block / scale
                with input_errors():
                    check_landmarks(points, landmarks, first=chunk * size + 1, name=str(rows.path))
                data = partition_rows(points, landmarks, min(size, len(rows)))

                def sum_features(kernel: Kernel, data: object = data) -> LandmarkSums:
                    with jax.enable_x64(True):  # the setting belongs to the thread
                        sums = jax.tree.map(np.asarray, _feature_sums(data, kernel))
                    advance(1)
                    return sums

                # One kernel compiles the program before the threads would each do so.
                alone = 1 if chunk == remaining[0] else 0
                sums = [*map(sum_features, kernels[:alone])]
                sums += pool.map(sum_features, kernels[alone:])
                lanes = _add_to_lane(lanes, chunk % LANES, sums)
                by_name = {f"sums {name}": leaf for name, leaf in lanes._asdict().items()}
                checkpoint.update(**by_name, **{"sums chunk": chunk + 1})
                checkpoint.write()
        except KeyboardInterrupt:
            checkpoint.write(now=True)
            raise
    checkpoint.drop("sums ")
    if processes > 1:  # take every lane from the process that summed it
        gathered = multihost_utils.process_allgather(lanes)
        lane = np.arange(LANES)
        lanes = LandmarkSums(*(leaf[lane % processes, lane] for leaf in gathered))
    each_lane = (LandmarkSums(*(leaf[lane] for leaf in lanes)) for lane in range(LANES))
    return jax.tree.map(np.asarray, functools.reduce(_merge, each_lane))


def _restore_lanes(checkpoint: Checkpoint, kernels: int, landmarks: int) -> LandmarkSums:
    """Return the partial sums of an interrupted pass, (lane, kernel, ...), or zeros."""
    if "sums chunk" in checkpoint.state:
        return LandmarkSums(*(checkpoint.state[f"sums {name}"] for name in LandmarkSums._fields))  # type: ignore[arg-type]
    shape = LANES, kernels
    return LandmarkSums(*map(np.zeros, (shape, (*shape, landmarks), shape, shape)))  # type: ignore[arg-type]


def _add_to_lane(lanes: LandmarkSums, lane: int, sums: list[LandmarkSums]) -> LandmarkSums:
    """Return the partial sums with those of a chunk, one for each kernel, added to a lane."""
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *sums)
    merged = _merge(jax.tree.map(lambda leaf: leaf[lane], lanes), stacked)

    def replace(leaf: np.ndarray, row: Any) -> np.ndarray:
        copy = leaf.copy()
        copy[lane] = row
        return copy

    return jax.tree.map(replace, lanes, merged)
