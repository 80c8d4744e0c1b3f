"""Arguments of ``fit``, checked once, and data in memory prepared for a sampler."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypedDict, cast

import jax
import numpy as np
import xarray as xr
from bke.models.likelihood.marginal import LIKELIHOODS

from ..core.distributed import check_alike, check_shard, is_first, placed, shares_rows
from ..core.errors import InputError
from ..data.observed import Observed
from ..data.units import Units, may_be_dithered, with_dither
from . import profile, programs
from .likelihoods import estimate_error
from .profile import BatchLogDensity, log_densities
from .run import Unread, make_run
from .samplers import SAMPLERS, Sampler
from .target import PRIOR_DRAWS, Points, Program, Target, Task


class FitOptions(TypedDict, total=False):
    """Further keyword arguments of :func:`~bke.inference.fit`, each with its default there."""

    standardize: str | None
    dither: str | float | Sequence[float] | None
    samples: str
    columns: Sequence[str] | None
    shard: str
    checkpoint: str | os.PathLike[str] | None
    progress: bool


DEFAULTS: FitOptions = {
    "standardize": "column",
    "dither": "auto",
    "samples": "pooled",
    "columns": None,
    "shard": "auto",
    "checkpoint": None,
    "progress": True,
}


def fit_options(arguments: Mapping[str, Any]) -> FitOptions:
    """Return ``arguments`` with the defaults of the others.

    Raises:
        TypeError: an argument is unknown; names the samplers and likelihoods with that option.
    """
    for name in arguments:
        if name not in DEFAULTS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}{_suggest(name)}")
    return cast(FitOptions, {**DEFAULTS, **arguments})


def _suggest(name: str) -> str:
    """Return how a name is given to the samplers and likelihoods with that option."""
    calls = [
        f"{argument}={kind.__name__}({name}=...)"
        for argument, kinds in (("method", SAMPLERS.values()), ("likelihood", LIKELIHOODS))
        for kind in kinds
        if name in {field.name for field in dataclasses.fields(kind)}
    ]
    return f": give {' or '.join(calls)}" if calls else ""


class PreparedTask(NamedTuple):
    """A task with what the run records of the data."""

    task: Task
    units: Units
    rows: np.ndarray | Unread  # (n, D), in their own units, of all samples
    settings: dict[str, Any]


class Data(Protocol):
    """Data in memory or in a file, with the options of :func:`~bke.inference.fit`."""

    def prepare(self, model: Target, sampler: Sampler, seed: int) -> PreparedTask:
        """Return the posterior of these data, prepared for the sampler.

        Raises:
            InputError: the data or an argument are invalid.
        """

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint, if any, once there is a run."""


def sample_run(sampler: Sampler, prepared: PreparedTask, choice: Mapping[str, str]) -> xr.DataTree:
    """Sample the posterior and return the run.

    Args:
        sampler: the method.
        prepared: the posterior.
        choice: record of how the method was chosen.
    """
    task, units, rows, settings = prepared
    chains, groups = sampler.sample(task)
    recorded = {
        **choice,
        **settings,
        "seed": task.seed,
        **sampler.record(),
        **estimate_error(task.target, task.points, *chains.after_warmup()),
    }
    return make_run(task.target, units, rows, chains, task.prior_draws, groups, recorded)


def prepare(
    target: Target,
    observed: Observed,
    evaluate: BatchLogDensity,
    *,
    dither: Any,
    seed: int,
    shard: str = "chains",
    num_prior_draws: int = PRIOR_DRAWS,
    program: Program | None = None,
) -> tuple[Units, Points, dict[str, np.ndarray]]:
    """Choose the dither, prepare the data, draw from the prior, and compile at the same time.

    Args:
        target: the model.
        observed: the data.
        evaluate: log density, to be compiled for these data.
        dither: as for :func:`~bke.inference.fit`.
        seed: seed of the dither and of the prior draws.
        shard: as for :func:`~bke.inference.fit`.
        num_prior_draws: number of prior draws.
        program: program of the sampler, to be compiled too.

    Returns:
        Units with the dither, the data as the likelihood needs them, and unconstrained prior draws
        by site.

    Raises:
        InputError: the data or an argument are invalid.
    """
    units, rows = observed.units, observed.rows
    # The samplers of some priors take as long to compile as the density.
    compilers = ThreadPoolExecutor(2)

    def prepare_points(units: Units) -> Points:
        points = placed(target.prepared(units.points(rows)), shard)
        compilers.submit(_compile, target, evaluate, points)
        return points

    try:
        # Rounded rows may need matrices that the dithered rows do not need.
        points = None if may_be_dithered(rows, dither) else prepare_points(units)
        rng = np.random.default_rng(seed).spawn(1)[0]  # the dither's numbers are the parent's
        draws = target.prior_draws(rng, num_prior_draws)
        target.check_smoothed(rows.shape[1])
        # Landmarks are not on the data, so no density is zero.
        cancelled = None if target.landmarks is not None else programs.cancelled(target)
        units = with_dither(units, rows, dither, seed, draws, cancelled)
        points = prepare_points(units) if points is None else points
        # Where devices share the rows, two programs would wait for each other.
        if program is not None and not shares_rows(points):
            compilers.submit(program.compile, points)
        compilers.shutdown()
    finally:
        # After an interrupt or an error nobody waits for the compiler.
        compilers.shutdown(wait=False, cancel_futures=True)
    return units, points, draws


def _compile(target: Target, evaluate: BatchLogDensity, points: Points) -> None:
    """Evaluate at one point; an error occurs again where the density is used."""
    with jax.enable_x64(True):  # the setting belongs to the thread
        z = {name: np.zeros((1, *shape)) for name, shape in target.shapes.items()}
        profile.log_densities(evaluate, z, points)


@dataclasses.dataclass(frozen=True)
class InMemory:
    """Arrays or data frames, with the options of :func:`~bke.inference.fit`.

    Attributes:
        observed: checked rows with the units of their columns.
        options: options of the fit.
    """

    observed: Observed
    options: FitOptions

    def prepare(self, model: Target, sampler: Sampler, seed: int) -> PreparedTask:
        """Return the posterior, its density and the program of the sampler compiled."""
        observed, options = self.observed, self.options
        samples, shard = options["samples"], options["shard"]
        check_shard(shard)
        if options["checkpoint"] is not None:
            raise InputError("a checkpoint is for rows of a file, see open_rows")
        job = [repr(sampler), repr(model.likelihood), samples, shard]
        check_alike({"data": observed.rows, "seeds": seed, "options": job})
        target = model.in_model_units(observed.units, observed.rows, seed)
        evaluate, program = programs.log_densities(target), sampler.program(target)
        units, points, prior_draws = prepare(
            target,
            observed,
            evaluate,
            dither=options["dither"],
            seed=seed,
            shard=shard,
            num_prior_draws=sampler.num_prior_draws,
            program=program,
        )
        density = functools.partial(log_densities, evaluate, X=points)
        progress = options["progress"] and is_first()
        task = Task(target, points, prior_draws, density, seed, progress, program)
        return PreparedTask(task, units, observed.rows, {"samples": samples})

    def remove_checkpoint(self) -> None:
        """Do nothing: data in memory have no checkpoint."""
