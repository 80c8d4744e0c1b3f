"""The posterior density of the landmark model, given rows of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

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
from .binned_column import Column, resolved
from .given import Given
from .handling import Handling
from .in_memory import InMemory
from .model import Model
from .passes import Checkpoint, Survey, sums_over_rows, survey
from .run import Unread
from .samplers.base import Sampler, Task
from .samplers.quadrature import MOST_EVALUATIONS, Quadrature
from .target import Target, flatten

#: Points whose kernels are summed in one pass.
PER_PASS = 128


class RowsDensity:
    """Log density of unconstrained points; each is gone through the rows for once."""

    def __init__(
        self, target: Target, rows: Rows, units: Units, checkpoint: Checkpoint, progress: bool
    ) -> None:
        self._target, self._rows, self._units = target, rows, units
        self._checkpoint, self._progress = checkpoint, progress
        self._finish = jit(self._from_sums)
        self._known: dict[bytes, float] = {}
        state = checkpoint.state
        done = _least(len(state.get("values", ())))
        for key in ("points", "values"):
            state[key] = state.get(key, np.empty((0, 0)))[:done]
        for point, value in zip(state["points"], state["values"], strict=True):
            self._known[point.tobytes()] = float(value)

    def __call__(self, z: Mapping[str, np.ndarray]) -> np.ndarray:
        """Of points with leading axis k by site, (k,)."""
        names = list(self._target.shapes)
        flat = np.ascontiguousarray(flatten({name: np.asarray(z[name]) for name in names}))
        rows = {point.tobytes(): index for index, point in enumerate(flat)}
        new = [index for key, index in rows.items() if key not in self._known]
        for start in range(0, len(new), PER_PASS):
            some = new[start : start + PER_PASS]
            self._learn(flat[some], {name: jnp.asarray(z[name])[jnp.array(some)] for name in names})
        return np.array([self._known[point.tobytes()] for point in flat])

    def _learn(self, points: np.ndarray, z: dict[str, jax.Array]) -> None:
        target, state = self._target, self._checkpoint.state
        if not np.array_equal(state.get("pass", np.empty(0)), points):  # of another pass
            for name in [name for name in state if name == "chunk" or name.startswith("sums ")]:
                del state[name]
        state["pass"] = points
        each = [
            jax.tree.map(jnp.asarray, target.kernel_at(target.constrain(_at(z, index))))
            for index in range(len(points))
        ]
        sums = sums_over_rows(
            self._rows,
            self._units.scale,
            _landmarks(target),
            each,
            checkpoint=self._checkpoint,
            progress=self._progress,
        )
        values = [
            float(self._finish(jax.tree.map(lambda leaf, i=index: leaf[i], sums), _at(z, index)))
            for index in range(len(points))
        ]
        self._known.update((p.tobytes(), v) for p, v in zip(points, values, strict=True))
        state["points"] = np.concatenate([state["points"].reshape(-1, points.shape[1]), points])
        state["values"] = np.concatenate([state["values"].ravel(), values])
        self._checkpoint.write(now=True)

    def _from_sums(self, sums: LandmarkSums, z: dict[str, jax.Array]) -> jax.Array:
        target = self._target
        values = target.constrain(z)
        landmarks = jnp.asarray(_landmarks(target))
        noise: Any = values.get("noise_variance", target.noise_variance)
        parameters = Parameters(target.kernel_at(values), noise, target.measure_at(values))
        gaussian = landmark_gaussian(sums, landmarks, parameters)
        return gaussian + sums.log_jacobian + target.log_prior(z)


def _landmarks(target: Target) -> np.ndarray:
    assert target.landmarks is not None
    return target.landmarks


def _at(z: dict[str, jax.Array], index: int) -> dict[str, jax.Array]:
    return {name: values[index] for name, values in z.items()}


def _least(count: int) -> int:
    """What all processes know: one may have been killed before it wrote."""
    if jax.process_count() == 1:
        return count
    return int(np.min(multihost_utils.process_allgather(np.asarray(count))))


@dataclasses.dataclass
class Streamed:
    """Rows of a file too large for memory.

    Attributes:
        rows: (n, D).
        options: how they are handled, see :func:`~bke.inference.fit`; with a checkpoint, the path
            of the file from which a killed job goes on, in which some 20 000 rows are as they are.
    """

    rows: Rows
    options: Handling
    _kept: Checkpoint | None = None

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """The task, after a first pass over the rows; each batch of its points is another."""
        rows, options = self.rows, self.options
        asked = model.checked()
        seen = asked.likelihood
        if not isinstance(seen, Landmark) or not isinstance(sampler, Quadrature):
            raise InputError(
                "rows of a file are gone through as a whole for every batch of lengthscales: set "
                "likelihood='landmark' and method='quadrature'"
            )
        self._check_options()
        if options["dither"] not in ("auto", None):
            raise InputError("landmarks are off the rows, which need no dither")
        found, units, shown = self.surveyed(asked, seed, landmarks=_plain(seen.landmarks))
        target = model.target(units, found.sample, seed)
        rng = np.random.default_rng(seed).spawn(1)[0]
        prior_draws = target.prior_draws(rng, sampler.prior_draws())
        assert self._kept is not None
        density = RowsDensity(target, rows, units, self._kept, shown)
        task = Task(target, None, prior_draws, density, seed, progress=False)
        return Given(task, units, self.unread(found), self.settings())

    def surveyed(self, asked: Target, seed: int, **more: Any) -> tuple[Survey, Units, bool]:
        """What a first pass finds, the units that follow, and whether to show progress.

        Args:
            asked: what is to be sampled.
            seed: of the rows that stand for all.
            more: what else tells this job from others.
        """
        rows, options = self.rows, self.options
        job = {
            "file": rows.fingerprint(),
            "model": asked.describe(),
            **more,
            "scale": options["scale"],
            "seed": seed,
        }
        alike = {"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}}
        check_alike(alike)
        self._kept = Checkpoint(options["checkpoint"], job)
        shown = options["progress"] and is_first()
        found = survey(rows, seed, self._kept, progress=shown)
        unit = unit_of(found.deviation, options["scale"])
        return found, Units(unit, np.zeros_like(unit), 0, rows.columns), shown

    def unread(self, found: Survey) -> Unread:
        """What a run keeps of the rows."""
        return Unread(len(self.rows), found.digest.tobytes().hex())

    def settings(self) -> dict[str, Any]:
        """What a run says of where they are from."""
        return {"share": "pooled", "source": str(self.rows.path)}

    def finished(self) -> None:
        """Remove the checkpoint."""
        if self._kept is not None:
            self._kept.remove()

    def _check_options(self) -> None:
        options = self.options
        check_shard(options["shard"])
        if options["share"] != "pooled" or options["columns"] is not None:
            raise InputError("share and columns are for data in memory")


def _plain(landmarks: Any) -> Any:
    """How many, or places, as JSON has them."""
    return landmarks if np.ndim(landmarks) == 0 else np.asarray(landmarks).tolist()


#: Rows that are read into memory, as so many others are in each pass.
HELD = 2**17
INSTEAD = "set likelihood='landmark' and method='quadrature', or read the rows into memory"


class StreamedColumn(Streamed):
    """Rows of a file too large for memory, in one column."""

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """The task, after as many passes over the rows as tell which of them to keep."""
        rows, options = self.rows, self.options
        if len(rows) <= HELD:
            return self._held(model, sampler, seed)
        asked = model.checked()
        _check(asked, rows.shape[1])
        self._check_options()
        found, units, shown = self.surveyed(asked, seed)
        target = model.target(units, found.sample, seed)
        rng = np.random.default_rng(seed).spawn(1)[0]
        prior_draws = target.prior_draws(rng, sampler.prior_draws())
        cancelled = programs.cancelled(target)
        units = with_dither(units, found.sample, options["dither"], seed, prior_draws, cancelled)
        deviation = float((found.deviation / units.scale)[0])
        column = Column(rows, units, deviation, progress=shown)
        quadrature = sampler if isinstance(sampler, Quadrature) else Quadrature()
        points, density, error = resolved(
            target, column, prior_draws, quadrature.tolerance, progress=shown
        )
        program = sampler.program(target)
        if program is not None:
            program.compile(points)
        task = Task(target, points, prior_draws, density, seed, shown, program)
        told = {**self.settings(), "density_error": error, "points": column.size}
        return Given(task, units, self.unread(found), told)

    def _held(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """So few rows as if they had been given in memory."""
        rows = self.rows
        share, columns = self.options["share"], self.options["columns"] or rows.columns
        values = rows.block(0, len(rows))
        observed = observe(values, share=share, scale=self.options["scale"], columns=columns)
        options = self.options.copy()
        options["checkpoint"] = None
        check_shard(options["shard"])
        given = InMemory(observed, options).given(model, sampler, seed)
        return given._replace(settings={**given.settings, "source": str(rows.path)})


def _check(asked: Target, dimension: int) -> None:
    """Refuse what does not come down to sums over one column.

    Raises:
        InputError: says what does.
    """
    reason = None
    if not isinstance(asked.likelihood, (Auto, Spectral)):
        reason = f"likelihood={asked.likelihood.name!r} needs all rows at once"
    elif dimension > 1:
        reason = f"the file has {dimension} columns, and it is for one"
    else:
        kernel = asked.some_kernel
        reason = spectral_obstacle(1, kernel, asked.measure, asked.some_noise)
        if reason is None and not (has_one(kernel) and order_of(kernel) is None):
            reason = f"the kernel is {type(kernel).__name__}, and it is for SquaredExponential"
        if reason is None and asked.hyperparameters not in MOST_EVALUATIONS:
            reason = f"there are {asked.hyperparameters} hyperparameters, and it is for one or two"
    if reason is not None:
        raise InputError(
            f"rows of a file larger than {HELD} rows are gone through for the spectral sums of one "
            f"column, which cannot be here: {reason}; {INSTEAD}"
        )
