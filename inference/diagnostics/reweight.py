"""The posterior mass of modes that chains cannot cross, for a run of chains."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import xarray as xr

from ..core.errors import InputError, SamplingError
from ..core.machine import computing
from ..data.checks import check_count, check_positive
from ..sampling.chains import CANDIDATES
from ..sampling.foreign import ModelArguments
from ..sampling.method import is_independent
from ..sampling.open_run import TARGET, UNITS, OpenRun, Run, open_run
from ..sampling.record import is_ours
from ..sampling.samplers.base import Task
from ..sampling.samplers.quadrature import MOST_EVALUATIONS, integral, nodes_of
from ..sampling.target import unflatten
from .integral import (
    Integral,
    allows_bridge_sampling,
    bridge_sampling,
    integral_group,
    normalize_integrals,
)
from .modes import (
    LABELLING,
    ORDER,
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
    """The run with the posterior mass of each mode: what chains that never cross cannot say.

    One or two hyperparameters: adaptive quadrature over all of them, which also sees modes that no
    chain visited. More: bridge sampling from the draws of each mode, so only modes that chains
    found are weighed. :func:`~bke.inference.diagnose`, :func:`~bke.inference.sample_witness` and
    the summaries of the command line use the masses.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        tolerance: of quadrature, for the log normaliser.
        seed: of bridge sampling.
        progress: show a progress bar.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Returns:
        A new run, with the group ``quadrature`` (nodes and weights) or ``bridge`` (the mass of
        every mode); the log normaliser and its error are the group's attributes. Runs of other
        methods, and runs that have masses, are returned as they are.

    Raises:
        InputError: if ``run`` is no run, or draws that do not fit the model, or a mode has too few
            draws for bridge sampling.
        SamplingError: where the density has no integral.
    """
    opened = open_run(run, **model)
    tree, target = opened.tree, opened.target
    check_positive(tolerance, "tolerance")
    check_count(seed, "seed", 0, 2**63 - 1)
    if is_independent(tree.attrs) or integral_group(tree) is not None:
        return tree
    bridged = unconstrained_draws(tree).shape[-1] not in MOST_EVALUATIONS
    group = opened.kept(
        f"masses {tolerance} {seed}",
        lambda: _bridges(opened, seed) if bridged else _nodes(opened, tolerance, seed, progress),
        groups=(*LABELLING, "observed_data", "constant_data"),
        attributes=(*ORDER, *TARGET, *UNITS),
        lasts=lambda _: is_ours(target.kernel),
    )
    result = tree.copy()
    result["bridge" if bridged else "quadrature"] = xr.DataTree(group.copy(deep=True))
    return result


def _nodes(run: OpenRun, tolerance: float, seed: int, progress: bool) -> xr.Dataset:
    """The whole posterior by quadrature, also where no chain went."""
    with computing():
        prior_draws = run.target.prior_draws(np.random.default_rng(seed), CANDIDATES**2)
        z = unconstrained_draws(run.tree)
        draws = z.reshape(-1, z.shape[-1])
        task = Task(run.target, run.points, prior_draws, run.log_density, seed, progress)
        found = integral(task, tolerance, draws)
        return nodes_of(found, tolerance)


def _bridges(opened: OpenRun, seed: int) -> xr.Dataset:
    """Mass of every mode by bridge sampling; chains that crossed count by their draws in it."""
    run, modes, density = opened.tree, find_modes(opened), opened.log_density
    z = unconstrained_draws(run)
    lp = run["sample_stats"].to_dataset()["lp"].values
    shapes = unconstrained_shapes(run)
    rng = np.random.default_rng(seed)
    integrals = []
    for index, mode in enumerate(modes.modes):
        chains = list(mode.chains)
        inside = (modes.of_draws[chains] == index).all(axis=0)
        if not allows_bridge_sampling(int(inside.sum()), len(chains), z.shape[-1]):
            raise InputError(
                f"mode {index + 1} has too few draws for bridge sampling: run more chains, or "
                "fit with method='smc'"
            )

        def within(places: np.ndarray, index: int = index) -> np.ndarray:
            values = density(unflatten(places, shapes))
            belongs = nearest_mode(run, modes.of_draws, places) == index
            return np.where(belongs & np.isfinite(values), values, -np.inf)

        found = bridge_sampling(z[chains][:, inside], within, lp[chains][:, inside], rng)
        if not np.isfinite([found.log, found.error]).all():
            raise SamplingError(
                f"bridge sampling gave no number for mode {index + 1}: run more draws, or fit with "
                "method='smc'"
            )
        integrals.append(found)
    return _group(integrals)


def _group(integrals: list[Integral]) -> xr.Dataset:
    """The group ``bridge`` from the integral over every mode."""
    mass, error, of_all = normalize_integrals(integrals)
    return xr.Dataset(
        {
            "mass": ("mode", mass),
            "mass_error": ("mode", error),
            "log_integral": ("mode", [one.log for one in integrals]),
            "log_integral_error": ("mode", [one.error for one in integrals]),
        },
        attrs={"log_normalizer": of_all.log, "log_normalizer_error": of_all.error},
    )
