"""Posterior given the rows of a file too large for memory.

Passes over the rows resume from a checkpoint. Several processes can share those of the landmark
model.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import Landmark
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Parameters
from bke.models.likelihood.landmark import (
    LandmarkSums,
    check_landmarks,
    feature_sums,
    landmark_gaussian,
    partition_rows,
)
from bke.models.likelihood.marginal import Auto, Spectral
from bke.models.likelihood.spectral.base import is_single, matern_nu, unsupported_reason
from jax.experimental import multihost_utils

from ..core.archive import read_arrays, write_arrays
from ..core.atomic import acquire_lock, remove_temporary_files
from ..core.compilation import jit
from ..core.distributed import check_same_inputs, check_shard
from ..core.errors import InputError, input_errors
from ..core.machine import cores
from ..core.progress import progress_bar
from ..data.checks import check_ranges
from ..data.units import Units, scale_from_deviations, with_dither
from ..streams.rows import Rows
from . import densities
from .binned_column import BinnedColumn, ColumnDensity, evaluate_new
from .run import Unread
from .samplers import MOST_EVALUATIONS, Quadrature, Sampler
from .target import Target, Task, flatten, unflatten

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
        self._write_time = time.monotonic()
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        if process := jax.process_index():  # each process sums other rows
            self._path = self._path.with_name(f"{self._path.name}.{process}")
        processes = {"number of processes": jax.process_count(), "version of bke": version("bke")}
        self._job = json.loads(json.dumps({**job, **processes}))
        self._lock = acquire_lock(self._path.with_name(f".{self._path.name}.lock"), str(self._path))
        remove_temporary_files(self._path)
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
        if self._path is not None and (now or time.monotonic() - self._write_time > self.interval):
            write_arrays(self._path, self._job, self.state)
            self._write_time = time.monotonic()

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
) -> dict[str, np.ndarray]:
    """Compute standard deviations, a random sample and the checksum of all rows, in one pass.

    Args:
        rows: (n, D).
        seed: seed of the sample.
        checkpoint: stores the result.
        progress: show a progress bar.
        sample_size: rows of the sample, among which landmarks are chosen; not tuned.

    Returns:
        The state of the checkpoint, with ``deviation`` (D,), the ``sample`` (k, D) in the order of
        the rows, and ``digest`` (32,), the SHA-256 of the rows as float64.

    Raises:
        InputError: for fewer than two rows, a column that is constant or varies too little, or a
            value that is missing, not finite or beyond 1e150.
    """
    if "digest" in checkpoint.state:
        return checkpoint.state
    n, dimension = rows.shape
    if n < 2:
        raise InputError(f"{rows.path} needs at least two rows, and has {n}")
    rng = np.random.default_rng((seed, 7))
    drawn = np.sort(rng.choice(n, min(n, sample_size), replace=False))
    size = chunk_size(1, dimension)
    checksum, pieces = hashlib.sha256(), []
    count, mean, scatter = 0, np.zeros(dimension), np.zeros(dimension)
    low, high = np.full(dimension, np.inf), np.full(dimension, -np.inf)
    with progress_bar("rows", n, show=progress) as advance:
        for chunk, block in rows.chunks(size):
            checksum.update(block.tobytes())
            in_chunk = drawn[(drawn >= chunk * size) & (drawn < chunk * size + len(block))]
            pieces.append(block[in_chunk - chunk * size])
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            # Chan, Golub and LeVeque (1983)
            block_mean = block.mean(axis=0)
            difference, total = block_mean - mean, count + len(block)
            scatter += ((block - block_mean) ** 2).sum(axis=0)
            scatter += difference**2 * count * len(block) / total
            mean += difference * len(block) / total
            count = total
            advance(len(block))
    check_ranges(low, high, str(rows.path), lambda index: f"column {rows.columns[index]!r}")
    digest = np.frombuffer(checksum.digest(), dtype=np.uint8)
    checkpoint.update(deviation=np.sqrt(scatter / n), sample=np.concatenate(pieces), digest=digest)
    checkpoint.write(now=True)
    return checkpoint.state


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
    k = len(kernels)
    shapes: dict[str, Any] = {"n": k, "mean": (k, len(landmarks)), "scatter": k, "log_jacobian": k}
    get: Any = checkpoint.state.get
    lanes = [
        LandmarkSums(**{at: get(f"sums {lane} {at}", np.zeros(shapes[at])) for at in shapes})
        for lane in range(LANES)
    ]
    label = "kernels x chunks, from the checkpoint on" if first else "kernels x chunks"
    with (
        progress_bar(label, len(chunks) * k, show=progress) as advance,
        ThreadPoolExecutor(cores()) as pool,
    ):
        advance((len(chunks) - len(remaining)) * k)
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

                # The first kernel compiles the program, so that not every thread does.
                num_serial = 1 if chunk == remaining[0] else 0
                sums = [*map(sum_features, kernels[:num_serial])]
                sums += pool.map(sum_features, kernels[num_serial:])
                stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *sums)
                lane = chunk % LANES
                lanes[lane] = jax.tree.map(np.asarray, _merge(lanes[lane], stacked))
                by_name = {f"sums {lane} {name}": x for name, x in lanes[lane]._asdict().items()}
                checkpoint.update(**by_name, **{"sums chunk": chunk + 1})
                checkpoint.write()
        except KeyboardInterrupt:
            checkpoint.write(now=True)
            raise
    checkpoint.drop("sums ")
    if processes > 1:  # take every lane from the process that summed it
        of_processes = multihost_utils.process_allgather(lanes)
        lanes = [
            jax.tree.map(lambda leaf, process=lane % processes: leaf[process], of_processes[lane])
            for lane in range(LANES)
        ]
    return jax.tree.map(np.asarray, functools.reduce(_merge, lanes))


#: Up to as many rows are read into memory, as in each chunk of a pass.
MAX_ROWS_IN_MEMORY = 2**17


def is_needed(rows: Rows, model: Target) -> bool:
    """Return whether rows are not read into memory as a whole."""
    return isinstance(model.likelihood, Landmark) or len(rows) > MAX_ROWS_IN_MEMORY


def prepare_rows(
    rows: Rows,
    model: Target,
    sampler: Sampler,
    seed: int,
    *,
    standardize: str | None,
    dither: Any,
    samples: str,
    columns: Sequence[str] | None,
    shard: str,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
) -> tuple[Task, Units, Unread, dict[str, Any], Checkpoint]:
    """Return the task of a sampler, after a first pass over the rows.

    The landmark model reads all rows again for every batch of points. One column is reduced to
    weighted points in a few passes. Arguments are those of :func:`~bke.inference.fit`.

    Returns:
        The task, the units, number and digest of the rows, settings of the run to be recorded, and
        the checkpoint, to be removed once there is a run.

    Raises:
        InputError: the data or an argument are invalid.
    """
    landmarks = isinstance(model.likelihood, Landmark)
    job: dict[str, Any] = {"file": rows.fingerprint(), "model": model.describe()}
    if landmarks:
        if not isinstance(sampler, Quadrature):
            raise InputError(
                "rows of a file are read again for every batch of lengthscales: set "
                "likelihood='landmark' and method='quadrature'"
            )
        job["landmarks"] = np.asarray(cast(Landmark, model.likelihood).landmarks).tolist()
    else:
        _check_column(rows, model)
    check_shard(shard)
    if samples != "pooled" or columns is not None:
        raise InputError("samples and columns are for data in memory")
    if landmarks and dither not in ("auto", None):
        raise InputError("landmarks differ from the rows, which need no dither")
    job |= {"standardize": standardize, "seed": seed}
    check_same_inputs({"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}})
    stored = Checkpoint(checkpoint, job)
    summary = summarize_rows(rows, seed, stored, progress=progress)
    deviation, sample = summary["deviation"], summary["sample"]
    scale = scale_from_deviations(deviation, standardize)
    units = Units(scale, np.zeros_like(scale), 0, rows.columns)
    target = model.in_model_units(units, sample, seed)
    prior_draws = target.prior_draws(
        np.random.default_rng(seed).spawn(1)[0], sampler.num_prior_draws
    )
    unread = Unread(len(rows), summary["digest"].tobytes().hex())
    if landmarks:
        density: Any = LandmarkDensity(target, rows, scale, stored, progress)
        task = Task(target, None, prior_draws, density, seed, progress=False)
        return task, units, unread, {}, stored
    units = with_dither(units, sample, dither, seed, prior_draws, densities.cancelled_rows(target))
    column = BinnedColumn(rows, units, float((deviation / scale)[0]), progress=progress)
    density = ColumnDensity(target, column)
    tolerance = (sampler if isinstance(sampler, Quadrature) else Quadrature()).tolerance
    error = density.resolve(prior_draws, tolerance, progress=progress)
    program = sampler.program(target)
    if program is not None:
        program.compile(density.points)
    task = Task(target, density.points, prior_draws, density, seed, progress, program)
    return task, units, unread, {"density_error": error, "points": column.size}, stored


def _check_column(rows: Rows, target: Target) -> None:
    """Refuse a model whose likelihood is not a sum over one column.

    Raises:
        InputError: names the reason.
    """
    kernel, count = target.placeholder_kernel, target.num_hyperparameters
    reasons = (
        not isinstance(target.likelihood, (Auto, Spectral))
        and f"likelihood={target.likelihood.name!r} needs all rows at once",
        rows.shape[1] > 1 and f"the file has {rows.shape[1]} columns, and it takes one",
        unsupported_reason(1, kernel, target.measure, target.placeholder_noise),
        (not is_single(kernel) or matern_nu(kernel) is not None)
        and f"the kernel is {type(kernel).__name__}, and it takes SquaredExponential",
        count not in MOST_EVALUATIONS
        and f"there are {count} hyperparameters, and it takes one or two",
    )
    for reason in filter(None, reasons):
        raise InputError(
            f"files of more than {MAX_ROWS_IN_MEMORY} rows are read for the spectral "
            f"likelihood of one column, which is not possible here: {reason}; set "
            "likelihood='landmark' and method='quadrature', or read the rows into memory"
        )


class LandmarkDensity:
    """Log density of the landmark model at unconstrained points, by passes over a file.

    Each point is evaluated once; the checkpoint stores the values. A pass evaluates up to
    ``points_per_pass`` points (not tuned).

    Args:
        target: the model.
        rows: (n, D).
        scale: (D,), by which the rows are divided.
        checkpoint: the job's checkpoint.
        progress: show progress bars.
    """

    points_per_pass: ClassVar[int] = 128

    def __init__(
        self, target: Target, rows: Rows, scale: np.ndarray, checkpoint: Checkpoint, progress: bool
    ) -> None:
        self._target, self._rows, self._scale = target, rows, scale
        self._checkpoint, self._progress = checkpoint, progress
        self._finalize = jit(self._from_sums)
        points = checkpoint.state.get("points", np.empty((0, target.num_hyperparameters)))
        values = checkpoint.state.get("values", np.empty(0))
        if jax.process_count() > 1:  # a process may have been stopped before it wrote
            count = np.min(multihost_utils.process_allgather(np.asarray(len(values))))
            points, values = points[:count], values[:count]
        checkpoint.update(points=points, values=values)
        self._values = {at.tobytes(): float(v) for at, v in zip(points, values, strict=True)}

    def __call__(self, z: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the log density (k,) of k points by site."""
        points = flatten({name: z[name] for name in self._target.shapes})
        return np.array(evaluate_new(self._values, points, self._evaluate))

    def _evaluate(self, points: np.ndarray) -> Iterator[float]:
        target, checkpoint = self._target, self._checkpoint
        for start in range(0, len(points), self.points_per_pass):
            batch = points[start : start + self.points_per_pass]
            if not np.array_equal(checkpoint.state.get("pass", np.empty(0)), batch):
                checkpoint.drop("sums ")  # of another pass
            checkpoint.update(**{"pass": batch})
            sites = unflatten(jnp.asarray(batch), target.shapes)
            z = [{name: sites[name][i] for name in sites} for i in range(len(batch))]
            sums = sums_over_rows(
                self._rows,
                self._scale,
                np.asarray(target.landmarks),
                [jax.tree.map(jnp.asarray, target.kernel_at(target.constrain(at))) for at in z],
                checkpoint=checkpoint,
                progress=self._progress,
            )
            of_points = [LandmarkSums(*leaves) for leaves in zip(*sums, strict=True)]
            new = [float(self._finalize(*pair)) for pair in zip(of_points, z, strict=True)]
            checkpoint.update(
                points=np.concatenate([checkpoint.state["points"], batch]),
                values=np.concatenate([checkpoint.state["values"], new]),
            )
            checkpoint.write(now=True)
            yield from new

    def _from_sums(self, sums: LandmarkSums, z: dict[str, jax.Array]) -> jax.Array:
        target = self._target
        values = target.constrain(z)
        noise: Any = values.get("noise_variance", target.noise_variance)
        parameters = Parameters(target.kernel_at(values), noise, target.measure_at(values))
        gaussian = landmark_gaussian(sums, jnp.asarray(target.landmarks), parameters)
        return gaussian + sums.log_jacobian + target.log_prior(z)
