"""The posterior given rows of a file in one column: the spectral route, by some passes."""

from __future__ import annotations

import numpy as np
from bke.models.likelihood.routes import Auto, Spectral
from bke.models.likelihood.spectral import is_single, matern_order, unsupported_reason

from ..core.distributed import check_shard
from ..core.errors import InputError
from ..data.observed import observe
from ..data.units import with_dither
from ..streams.column import Column
from . import programs
from .given import Given
from .in_memory import InMemory
from .model import Model
from .resolved_column import resolved
from .samplers.base import Sampler, Task
from .samplers.quadrature import MOST_EVALUATIONS, Quadrature
from .streamed import Streamed
from .target import Target

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
        reason = unsupported_reason(1, kernel, asked.measure, asked.some_noise)
        if reason is None and not (is_single(kernel) and matern_order(kernel) is None):
            reason = f"the kernel is {type(kernel).__name__}, and it is for SquaredExponential"
        if reason is None and asked.hyperparameters not in MOST_EVALUATIONS:
            reason = f"there are {asked.hyperparameters} hyperparameters, and it is for one or two"
    if reason is not None:
        raise InputError(
            f"rows of a file larger than {HELD} rows are gone through for the spectral sums of one "
            f"column, which cannot be here: {reason}; {INSTEAD}"
        )
