"""Arguments of ``fit``, checked once, and data in memory prepared for a sampler."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypedDict, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SamplingNoise, SquaredExponential
from bke.models.kernels.base import Kernel, SmoothingError
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.measures import Measure
from bke.models.priors import Prior

from ..core.distributed import check_alike, check_shard, is_first, placed, shares_rows
from ..core.errors import InputError, input_errors
from ..data.checks import check_memory
from ..data.observed import Observed
from ..data.units import Units, may_be_dithered, with_dither
from . import profile, programs
from .likelihoods import estimate_error, with_landmarks
from .profile import BatchLogDensity, log_densities
from .run import Unread, make_run
from .samplers import SAMPLERS, Sampler
from .target import Points, Target
from .task import PRIOR_DRAWS, Program, Task


@dataclasses.dataclass(frozen=True)
class Model:
    """The arguments of :func:`~bke.inference.fit` that say what is believed; not checked yet."""

    kernel: Kernel | type[Kernel] = SquaredExponential
    prior: Prior | None = None
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1
    measure: Measure | str = "unit"
    likelihood: Likelihood | str = "auto"

    def target(self, units: Units, rows: np.ndarray, seed: int) -> Target:
        """What is to be sampled given data.

        Args:
            units: of the data.
            rows: (n, D), in their own units, or some of them; landmarks are chosen among them.
            seed: of that choice.

        Raises:
            InputError: for arguments that make no sense.
        """
        likelihood = with_landmarks(self.checked().likelihood, units, rows, seed)
        measure = units.measure_to_model(self.measure)
        return dataclasses.replace(self, measure=measure, likelihood=likelihood).checked()

    def checked(self) -> Target:
        """The target if what was said is in the model's units.

        Raises:
            InputError: for arguments that make no sense.
        """
        given = self.kernel, self.prior, self.noise_variance, self.measure, self.likelihood
        with input_errors():
            return Target.checked(*given)


class Handling(TypedDict, total=False):
    """Further keyword arguments of :func:`~bke.inference.fit`, each with its default there."""

    scale: str | None
    dither: str | float | Sequence[float] | None
    share: str
    columns: Sequence[str] | None
    shard: str
    checkpoint: str | os.PathLike[str] | None
    progress: bool


DEFAULTS: Handling = {
    "scale": "column",
    "dither": "auto",
    "share": "pooled",
    "columns": None,
    "shard": "auto",
    "checkpoint": None,
    "progress": True,
}


def with_defaults(given: Mapping[str, Any]) -> Handling:
    """What was given, and the defaults of the rest.

    Raises:
        TypeError: for a name that is none of them; says so where it is an option of a sampler or
            of a likelihood.
    """
    for name in given:
        if name not in DEFAULTS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}{_as_option(name)}")
    return cast(Handling, {**DEFAULTS, **given})


def _as_option(name: str) -> str:
    """Where a name is an option of samplers or likelihoods: which, and how it is given."""
    calls = [
        f"{argument}={kind.__name__}({name}=...)"
        for argument, kinds in (("method", SAMPLERS.values()), ("likelihood", LIKELIHOODS))
        for kind in kinds
        if name in {field.name for field in dataclasses.fields(kind)}
    ]
    return f": give {' or '.join(calls)}" if calls else ""


class Given(NamedTuple):
    """A task, and what the run keeps of the data."""

    task: Task
    units: Units
    rows: np.ndarray | Unread  # (n, D), in their own units, of all samples
    settings: dict[str, Any]


class Data(Protocol):
    """Data of one kind, with what was said of how they are handled."""

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """The task that they make of a model.

        Raises:
            InputError: for data or arguments that make no sense, in one sentence.
        """

    def finished(self) -> None:
        """The run is there: remove what was kept to go on from."""


def sampled_run(sampler: Sampler, given: Given, chosen: Mapping[str, str]) -> xr.DataTree:
    """The run of a sampler that is at work on what it was given.

    Args:
        sampler: one of the ways.
        given: what it is to sample.
        chosen: what the run records of how the sampler was chosen.
    """
    task, units, rows, settings = given
    chains, groups = sampler.sample(task)
    recorded = {
        **chosen,
        **settings,
        "seed": task.seed,
        **sampler.record(),
        **estimate_error(task.target, task.points, *chains.after_warmup()),
    }
    return make_run(task.target, units, rows, chains, task.prior_draws, groups, recorded)


#: n x n matrices alive at once on the dense route, and what XLA needs beside them.
MATRICES = 5
WITHOUT_MATRICES = (
    "a random part of them, likelihood=Nystrom(500) (--likelihood nystrom --rank 500), "
    "likelihood='landmark' (--likelihood landmark), or of rounded rows their unit as dither "
    "(--dither)"
)


class Prepared(NamedTuple):
    """A target's data in its units, and what its range is."""

    units: Units
    points: Points  # the data as the route to the likelihood needs them
    prior_draws: dict[str, np.ndarray]  # unconstrained, by site


def prepare(
    target: Target,
    observed: Observed,
    evaluate: BatchLogDensity,
    *,
    dither: Any,
    seed: int,
    shard: str = "chains",
    prior_draws: int = PRIOR_DRAWS,
    program: Program | None = None,
) -> Prepared:
    """Find dither and points, draw from the prior, and compile meanwhile.

    Args:
        target: of the data's units.
        observed: the data.
        evaluate: what is compiled for them.
        dither: as for :func:`~bke.inference.fit`.
        seed: of the dither and of the prior draws.
        shard: as for :func:`~bke.inference.fit`.
        prior_draws: how many.
        program: what else is compiled, if anything.

    Raises:
        InputError: for data or arguments that make no sense.
    """
    units, rows = observed.units, observed.rows
    # The samplers of some priors take as long to compile as the density.
    beside = ThreadPoolExecutor(2)

    def begun(units: Units) -> Points:
        points = _points(target, units, rows, shard)
        _check_matrices(points, rows.shape[1])
        beside.submit(_compile, target, evaluate, points)
        return points

    try:
        # Rounded rows may need matrices, and the same rows none once they are dithered.
        points = None if may_be_dithered(rows, dither) else begun(units)
        rng = np.random.default_rng(seed).spawn(1)[0]  # the dither's numbers are the parent's
        draws = target.prior_draws(rng, prior_draws)
        check_smoothed(target, rows.shape[1])
        # Landmarks are off the data, where nothing balances.
        cancelled = None if target.landmarks is not None else programs.cancelled(target)
        units = with_dither(units, rows, dither, seed, draws, cancelled)
        points = begun(units) if points is None else points
        # Where devices share the rows, two programs would wait for each other.
        if program is not None and not shares_rows(points):
            beside.submit(program.compile, points)
        beside.shutdown()
    finally:
        # Whoever interrupts, or asked for what makes no sense, need not wait for a compiler.
        beside.shutdown(wait=False, cancel_futures=True)
    return Prepared(units, points, draws)


def _points(target: Target, units: Units, rows: np.ndarray, shard: str) -> Points:
    """The rows in the model's units, where and as the likelihood needs them."""
    return placed(target.prepared(units.points(rows)), shard)


def _check_matrices(points: Points, dimension: int) -> None:
    """That there is memory for those of the largest sample that may need any."""
    each = points if isinstance(points, tuple) else (points,)
    sizes = [one.matrix_size for one in each]
    if max(sizes):
        check_memory(max(sizes), dimension, matrices=MATRICES, instead=WITHOUT_MATRICES)


def _compile(target: Target, evaluate: BatchLogDensity, points: Points) -> None:
    """Evaluate at one place; an error there will come up again where it is waited for."""
    with jax.enable_x64(True):  # the setting belongs to the thread
        one = {name: np.zeros((1, *shape)) for name, shape in target.shapes.items()}
        profile.log_densities(evaluate, one, points)


def check_smoothed(target: Target, dimension: int) -> None:
    """Refuse a kernel without an implemented r, which compiled code could not name."""

    def smoothed(z: dict[str, jax.Array]) -> None:
        # The template, not a draw: whether a kernel is refused must not depend on the seed.
        target.kernel.smoothed(target.measure_at(target.constrain(z)), dimension)

    try:
        jax.eval_shape(smoothed, {name: jnp.zeros(shape) for name, shape in target.shapes.items()})
    except SmoothingError as error:
        raise InputError(str(error)) from None


@dataclasses.dataclass(frozen=True)
class InMemory:
    """Arrays or data frames, and how they are handled.

    Attributes:
        observed: rows that were checked, with the units of their columns.
        options: how they are handled, see :func:`~bke.inference.fit`.
    """

    observed: Observed
    options: Handling

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """The task; the posterior's density, and the sampler's program, are compiled for it."""
        observed, options = self.observed, self.options
        share, shard = options["share"], options["shard"]
        check_shard(shard)
        if options["checkpoint"] is not None:
            raise InputError("a checkpoint is for rows of a file, see open_rows")
        asked = [repr(sampler), repr(model.likelihood), share, shard]
        check_alike({"data": observed.rows, "seeds": seed, "options": asked})
        target = model.target(observed.units, observed.rows, seed)
        evaluate, program = programs.log_densities(target), sampler.program(target)
        units, points, prior_draws = prepare(
            target,
            observed,
            evaluate,
            dither=options["dither"],
            seed=seed,
            shard=shard,
            prior_draws=sampler.num_prior_draws,
            program=program,
        )
        density = functools.partial(log_densities, evaluate, X=points)
        shown = options["progress"] and is_first()
        task = Task(target, points, prior_draws, density, seed, shown, program)
        return Given(task, units, observed.rows, {"share": share})

    def finished(self) -> None:
        """Nothing was kept."""
