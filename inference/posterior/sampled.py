"""A sampler at work on a task, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..data.units import Units
from .low_rank import recorded_error
from .run import Unread, make_run
from .samplers.base import Sampler, Task


def sampled_run(
    sampler: Sampler,
    task: Task,
    units: Units,
    data: np.ndarray | Unread,
    settings: Mapping[str, Any],
) -> xr.DataTree:
    """The run of a sampler.

    Args:
        sampler: one of the ways.
        task: what it is to sample.
        units: of the data.
        data: (n, D), in their own units, of all samples.
        settings: what else the run records.
    """
    chains, groups = sampler.sample(task)
    settings = {
        **settings,
        "seed": task.seed,
        **sampler.settings(),
        **recorded_error(task.target, task.points, *chains.after_warmup()),
    }
    return make_run(task.target, units, data, chains, task.prior_draws, groups, settings)
