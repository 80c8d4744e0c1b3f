"""The posterior given data in memory."""

from __future__ import annotations

import dataclasses
import functools

from ..core.distributed import check_alike, check_shard, is_first
from ..core.errors import InputError
from ..data.observed import Observed
from . import programs
from .given import Given
from .handling import Handling
from .model import Model
from .preparation import prepare
from .profile import log_densities
from .samplers import Sampler, Task


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
