"""Posterior masses of modes between which chains cannot move."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import xarray as xr

from ..core.machine import computing
from ..data.checks import check_count, check_positive
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import OpenRun, Run, open_run
from ..sampling.record import is_ours
from ..sampling.samplers import MOST_EVALUATIONS, integral, is_independent, nodes_of
from ..sampling.target import CANDIDATES, Task, unflatten
from .integral import bridge_sampling, integral_group, normalize_integrals
from .modes import (
    MODE_GROUPS,
    find_modes,
    nearest_mode,
    unconstrained_draws,
    unconstrained_shapes,
)


def reweight(
    run: Run,
    *,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: bool = True,
    **model: Unpack[ModelArguments],
) -> xr.DataTree:
    """Add the posterior mass of each mode, which chains that never move between modes do not show.

    One or two hyperparameters: adaptive quadrature over the whole posterior, including modes that
    no chain visited. More: bridge sampling from the draws of each mode, so only modes that chains
    visited have a mass. :func:`~bke.inference.diagnose`, :func:`~bke.inference.sample_witness` and
    the summaries of the command line use the masses.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        tolerance: largest error of the log normalizing constant by quadrature.
        seed: seed of bridge sampling.
        progress: show a progress bar.
        **model: for draws of another program, see :func:`~bke.inference.open_run`.

    Returns:
        A new run with the group ``quadrature`` (nodes and weights) or ``bridge`` (the mass of every
        mode), whose attributes are the log normalizing constant and its error. Runs with
        independent draws, and runs with masses, are returned unchanged.

    Raises:
        InputError: ``run`` is no run, its draws do not fit the model, or a mode has too few draws
            for bridge sampling.
        SamplingError: the density has no integral.
    """
    opened = open_run(run, **model)
    tree, target = opened.tree, opened.target
    check_positive(tolerance, "tolerance")
    check_count(seed, "seed", 0, 2**63 - 1)
    if is_independent(tree.attrs) or integral_group(tree) is not None:
        return tree
    by_quadrature = unconstrained_draws(tree).shape[-1] in MOST_EVALUATIONS

    def masses() -> xr.Dataset:
        if by_quadrature:
            return _quadrature(opened, tolerance, seed, progress)
        return bridge_masses(opened, seed)

    group = opened.cached(
        f"masses {tolerance} {seed}",
        masses,
        groups=(*MODE_GROUPS, "observed_data", "constant_data"),
        store=lambda _: is_ours(target.kernel),
    )
    result = tree.copy()
    result["quadrature" if by_quadrature else "bridge"] = xr.DataTree(group.copy(deep=True))
    return result


def _quadrature(run: OpenRun, tolerance: float, seed: int, progress: bool) -> xr.Dataset:
    """Integrate the whole posterior, including regions without draws."""
    with computing():
        prior_draws = run.target.prior_draws(np.random.default_rng(seed), CANDIDATES**2)
        z = unconstrained_draws(run.tree)
        draws = z.reshape(-1, z.shape[-1])
        task = Task(run.target, run.points, prior_draws, run.log_density, seed, progress)
        return nodes_of(integral(task, tolerance, draws), tolerance)


def bridge_masses(opened: OpenRun, seed: int) -> xr.Dataset:
    """Estimate the mass of every mode by bridge sampling: the group ``bridge`` of a run.

    A mode is integrated from the draws that are in it in all of its chains.
    """
    run, modes, log_density = opened.tree, find_modes(opened), opened.log_density
    z = unconstrained_draws(run)
    lp = run["sample_stats"].to_dataset()["lp"].values
    shapes = unconstrained_shapes(run)
    rng = np.random.default_rng(seed)
    integrals = []
    for index, mode in enumerate(modes.modes):
        chains = list(mode.chains)
        inside = (modes.of_draws[chains] == index).all(axis=0)

        def density_of_mode(points: np.ndarray, index: int = index) -> np.ndarray:
            values = log_density(unflatten(points, shapes))
            is_inside = nearest_mode(run, modes.of_draws, points) == index
            return np.where(is_inside & np.isfinite(values), values, -np.inf)

        draws, draws_lp = z[chains][:, inside], lp[chains][:, inside]
        name = f"mode {index + 1}"
        integrals.append(bridge_sampling(draws, density_of_mode, rng, name, lp=draws_lp))
    mass, mass_error, total = normalize_integrals(integrals)
    return xr.Dataset(
        {
            "mass": ("mode", mass),
            "mass_error": ("mode", mass_error),
            "log_integral": ("mode", [integral.log for integral in integrals]),
            "log_integral_error": ("mode", [integral.error for integral in integrals]),
        },
        attrs={"log_normalizer": total.log, "log_normalizer_error": total.error},
    )
