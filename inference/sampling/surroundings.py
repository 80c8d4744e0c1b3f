"""The density around draws: a profile of it, or paths between draws; what tells modes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from . import profile, programs
from .barriers import draw_paths

if TYPE_CHECKING:
    from .algorithms.integral import IntegratedDensity
    from .samplers import Task
    from .target import Target


def surroundings(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> dict[str, xr.Dataset]:
    """The profile with one hyperparameter, the paths with several, as a group of the run.

    Args:
        task: what was sampled.
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
    """
    if not task.target.is_scalar:
        return {"paths": paths(task, z, lp)}
    (draws,), (prior_draws,) = z.values(), task.prior_draws.values()
    found = profile.scan(task.target, task.points, draws.ravel(), prior_draws.ravel(), task.density)
    return {"profile": profile.as_profile(task.target, *found, programs.prior_along(task.target))}


def paths(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> xr.Dataset:
    """The graph of draws that :func:`~bke.inference.sampling.barriers.draw_paths` makes."""
    return draw_paths(z, lp, task.density)


def profile_of_nodes(target: Target, found: IntegratedDensity) -> xr.Dataset:
    """The nodes of a quadrature's first grid, which are evenly spaced, as a profile."""
    nodes = found.nodes[:, 0]
    count = round((nodes[-1] - nodes[0]) / found.first_step[0]) + 1
    grid = np.linspace(nodes[0], nodes[-1], count)
    nearest = np.searchsorted(0.5 * (nodes[1:] + nodes[:-1]), grid)
    along = programs.prior_along(target)
    return profile.as_profile(target, nodes[nearest], found.log_density[nearest], along)
