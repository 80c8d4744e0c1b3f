"""Posterior given the rows of a file too large for memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import Landmark
from bke.models.likelihood.landmark import LandmarkSums, landmark_gaussian
from bke.models.likelihood.routes import Auto, Spectral
from bke.models.likelihood.spectral import has_one, order_of, spectral_obstacle
from bke.models.likelihood.view import Parameters
from jax.experimental import multihost_utils

from ..core.distributed import check_alike, check_shard, is_first
from ..core.errors import InputError
from ..core.jit import jit
from ..data.observed import observe
from ..data.units import Units, unit_of, with_dither
from ..streams.rows import Rows
from . import programs
from .binned_column import BinnedColumn, ColumnDensity, evaluate_new
from .given import Given
from .handling import Handling
from .in_memory import InMemory
from .model import Model
from .passes import Checkpoint, summarize_rows, sums_over_rows
from .run import Unread
from .samplers.base import Sampler, Task
from .samplers.quadrature import MOST_EVALUATIONS, Quadrature
from .target import Target, flatten, unflatten


@dataclasses.dataclass
class OutOfCore:
    """Rows of a file as the data of :func:`~bke.inference.fit`.

    Attributes:
        rows: (n, D).
        options: see :func:`~bke.inference.fit`.
        max_rows_in_memory: up to as many rows are read into memory, as in each chunk of a pass.
    """

    rows: Rows
    options: Handling
    max_rows_in_memory: ClassVar[int] = 2**17
    _checkpoint: Checkpoint | None = None

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """Return the task of a sampler, after a first pass over the rows.

        The landmark model reads all rows again for every batch of points. One column is reduced
        to weighted points in a few passes.
        """
        rows, options = self.rows, self.options
        unscaled = model.checked()
        likelihood = unscaled.likelihood
        job = {"file": rows.fingerprint(), "model": unscaled.describe()}
        if isinstance(likelihood, Landmark):
            if not isinstance(sampler, Quadrature):
                raise InputError(
                    "rows of a file are read again for every batch of lengthscales: set "
                    "likelihood='landmark' and method='quadrature'"
                )
            job["landmarks"] = np.asarray(likelihood.landmarks).tolist()
        elif len(rows) <= self.max_rows_in_memory:
            return self._read(model, sampler, seed)
        else:
            self._check_column(unscaled)
        check_shard(options["shard"])
        if options["share"] != "pooled" or options["columns"] is not None:
            raise InputError("share and columns are for data in memory")
        if isinstance(likelihood, Landmark) and options["dither"] not in ("auto", None):
            raise InputError("landmarks differ from the rows, which need no dither")
        job |= {"scale": options["scale"], "seed": seed}
        check_alike({"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}})
        self._checkpoint = Checkpoint(options["checkpoint"], job)
        progress = options["progress"] and is_first()
        deviation, sample, digest = summarize_rows(rows, seed, self._checkpoint, progress=progress)
        scale = unit_of(deviation, options["scale"])
        units = Units(scale, np.zeros_like(scale), 0, rows.columns)
        target = model.target(units, sample, seed)
        rng = np.random.default_rng(seed).spawn(1)[0]
        prior_draws = target.prior_draws(rng, sampler.prior_draws())
        settings: dict[str, Any] = {"share": "pooled", "source": str(rows.path)}
        unread = Unread(len(rows), digest.tobytes().hex())
        if isinstance(likelihood, Landmark):
            landmark_density = LandmarkDensity(target, rows, scale, self._checkpoint, progress)
            task = Task(target, None, prior_draws, landmark_density, seed, progress=False)
            return Given(task, units, unread, settings)
        cancelled = programs.cancelled(target)
        units = with_dither(units, sample, options["dither"], seed, prior_draws, cancelled)
        column = BinnedColumn(rows, units, float((deviation / scale)[0]), progress=progress)
        density = ColumnDensity(target, column)
        tolerance = (sampler if isinstance(sampler, Quadrature) else Quadrature()).tolerance
        error = density.resolve(prior_draws, tolerance, progress=progress)
        program = sampler.program(target)
        if program is not None:
            program.compile(density.points)
        settings |= {"density_error": error, "points": column.size}
        task = Task(target, density.points, prior_draws, density, seed, progress, program)
        return Given(task, units, unread, settings)

    def finished(self) -> None:
        """Remove the checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.remove()

    def _read(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """Return the task of the same rows in memory."""
        rows, options = self.rows, self.options.copy()
        values, columns = rows.block(0, len(rows)), options["columns"] or rows.columns
        observed = observe(values, share=options["share"], scale=options["scale"], columns=columns)
        options["checkpoint"] = None
        given = InMemory(observed, options).given(model, sampler, seed)
        return given._replace(settings={**given.settings, "source": str(rows.path)})

    def _check_column(self, target: Target) -> None:
        """Refuse a model whose likelihood is not a sum over one column.

        Raises:
            InputError: names the reason.
        """
        kernel = target.some_kernel
        if not isinstance(target.likelihood, (Auto, Spectral)):
            reason: str | None = f"likelihood={target.likelihood.name!r} needs all rows at once"
        elif self.rows.shape[1] > 1:
            reason = f"the file has {self.rows.shape[1]} columns, and it takes one"
        else:
            reason = spectral_obstacle(1, kernel, target.measure, target.some_noise)
        if reason is None and not (has_one(kernel) and order_of(kernel) is None):
            reason = f"the kernel is {type(kernel).__name__}, and it takes SquaredExponential"
        if reason is None and target.hyperparameters not in MOST_EVALUATIONS:
            reason = f"there are {target.hyperparameters} hyperparameters, and it takes one or two"
        if reason is not None:
            raise InputError(
                f"files of more than {self.max_rows_in_memory} rows are read for the spectral "
                f"likelihood of one column, which is not possible here: {reason}; set "
                "likelihood='landmark' and method='quadrature', or read the rows into memory"
            )


class LandmarkDensity:
    """Log density of the landmark model at unconstrained points, by passes over a file.

    Each point is evaluated once; the checkpoint stores the values.

    Args:
        target: the model.
        rows: (n, D).
        scale: (D,), by which the rows are divided.
        checkpoint: of the job.
        progress: show progress bars.
        points_per_pass: their number at most; not tuned.
    """

    def __init__(
        self,
        target: Target,
        rows: Rows,
        scale: np.ndarray,
        checkpoint: Checkpoint,
        progress: bool,
        points_per_pass: int = 128,
    ) -> None:
        self._target, self._rows, self._scale = target, rows, scale
        self._checkpoint, self._progress = checkpoint, progress
        self._points_per_pass = points_per_pass
        self._finalize = jit(self._from_sums)
        points = checkpoint.state.get("points", np.empty((0, 0)))
        values = checkpoint.state.get("values", np.empty(0))
        if jax.process_count() > 1:  # a process may have been stopped before it wrote
            count = np.min(multihost_utils.process_allgather(np.asarray(len(values))))
            points, values = points[:count], values[:count]
        checkpoint.update(points=points, values=values)
        keys = [point.tobytes() for point in points]
        self._values: dict[bytes, float] = dict(zip(keys, values.tolist(), strict=True))

    def __call__(self, z: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the log density (k,) of k points by site."""
        points = flatten({name: np.asarray(z[name]) for name in self._target.shapes})
        return np.array(evaluate_new(self._values, points, self._evaluate))

    def _evaluate(self, points: np.ndarray) -> list[float]:
        target, checkpoint = self._target, self._checkpoint
        values: list[float] = []
        for start in range(0, len(points), self._points_per_pass):
            batch = points[start : start + self._points_per_pass]
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
            values += new
            state = checkpoint.state
            checkpoint.update(
                points=np.concatenate([state["points"].reshape(-1, batch.shape[1]), batch]),
                values=np.concatenate([state["values"], new]),
            )
            checkpoint.write(now=True)
        return values

    def _from_sums(self, sums: LandmarkSums, z: dict[str, jax.Array]) -> jax.Array:
        target = self._target
        values = target.constrain(z)
        noise: Any = values.get("noise_variance", target.noise_variance)
        parameters = Parameters(target.kernel_at(values), noise, target.measure_at(values))
        gaussian = landmark_gaussian(sums, jnp.asarray(target.landmarks), parameters)
        return gaussian + sums.log_jacobian + target.log_prior(z)
