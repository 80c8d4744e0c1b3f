"""What a sampler is given, from data in memory or in a file, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import xarray as xr

from ..data.units import Units
from .likelihoods import estimate_error
from .model import Model
from .run import Unread, make_run
from .samplers import Sampler, Task


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
