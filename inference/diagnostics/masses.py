"""How much posterior mass each mode holds, and what weight that gives each draw.

Chains do not cross between modes, so how many draws are in one says where chains started. The
masses come from the density itself: quadrature, or bridge sampling from the draws of each mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.spatial import cKDTree

from ..core.errors import InputError, check_choice
from ..sampling.barriers import standard_deviations
from ..sampling.method import is_independent
from ..sampling.target import flatten
from .integral import weighing_group
from .modes import Modes

WEIGHTINGS = ("posterior", "chains")
#: How far a place may be from the nearest draw of its mode, in standard deviations of a chain.
REACH = 10.0
#: Least posterior mass of the modes that have usable draws, for these to stand for the posterior.
COVERED = 0.99


class Masses(NamedTuple):
    """Posterior mass of every mode; both sum to what was integrated."""

    mass: np.ndarray  # (modes,)
    error: np.ndarray  # (modes,), standard error or quadrature's estimate


def mode_masses(
    run: xr.DataTree, intervals: Sequence[tuple[float, float] | None], of_draws: np.ndarray
) -> Masses | None:
    """The masses of the modes, as far as the run knows them.

    Args:
        run: from :func:`~bke.inference.fit` or :func:`~bke.inference.reweight`.
        intervals: of every mode, unconstrained; ``None`` with several hyperparameters, where a
            place belongs to the mode of the nearest draw.
        of_draws: mode of every draw, (chain, draw).
    """

    def modes_at(places: np.ndarray) -> np.ndarray:
        if None in intervals:
            return nearest_mode(run, of_draws, places)
        return _interval(places[:, 0], intervals)

    name = weighing_group(run)
    group = xr.Dataset() if name is None else run[name].to_dataset()
    if "weight" in group:
        places, weight = group["unconstrained"].values, group["weight"].values
        label = modes_at(places)
        mass = np.bincount(label[label >= 0], weight[label >= 0], minlength=len(intervals))
        # An error of the integral changes a share most where all of it is in one mode.
        error = group.attrs["log_normaliser_error"] * np.maximum(mass, 1 - mass)
        return Masses(mass, error)
    if "share" in group:
        places = group["unconstrained"].values
        flat = places.reshape(-1, places.shape[-1])
        label = modes_at(flat)
        inside = label.reshape(places.shape[:2])[..., None] == np.arange(len(intervals))
        return _of_repeats(inside.mean(axis=1), group["share"].values, places.shape[1])
    if "mass" in group:
        return Masses(group["mass"].values, group["mass_error"].values)
    return None


def _of_repeats(fraction: np.ndarray, share: np.ndarray, particles: int) -> Masses:
    """Masses from the fraction of every repeat's particles in each mode, (repeat, mode).

    A repeat counts by its ``share`` of the sum of all normalisers. The error is at least one
    particle of all: that no particle is in a mode does not show that it holds no mass at all.
    """
    count = len(share)
    mass = share @ fraction
    if count == 1:
        return Masses(mass, np.full(len(mass), np.nan))
    # A ratio of two means over repeats, of normaliser times fraction and of normaliser.
    deviation = count * share[:, None] * (fraction - mass)
    error = np.sqrt((deviation**2).sum(axis=0) / (count * (count - 1)))
    return Masses(mass, np.maximum(error, 1.0 / (count * particles)))


def _interval(places: np.ndarray, intervals: Sequence[tuple[float, float] | None]) -> np.ndarray:
    """Index of the interval that holds each place, -1 for none."""
    label = np.full(len(places), -1)
    for index, interval in enumerate(intervals):
        if interval is not None:
            label[(places >= interval[0]) & (places < interval[1])] = index
    return label


def draw_weights(run: xr.DataTree, modes: Modes, weighting: str = "posterior") -> np.ndarray:
    """Weight of every draw, (chain, draw), with sum one; none for stuck chains unless all are.

    Args:
        run: from :func:`~bke.inference.fit` or :func:`~bke.inference.reweight`.
        modes: of the run.
        weighting: ``"posterior"`` gives each mode its posterior mass, where the run knows it;
            ``"chains"`` weights all draws alike, as BKE Figure 5 (C) does.

    Raises:
        InputError: for another ``weighting``, or where the modes that have draws do not hold
            :data:`COVERED` of the mass.
    """
    check_choice(weighting, "weights", WEIGHTINGS)
    weights = np.ones(modes.of_draws.shape)
    if len(modes.stuck) < len(weights):
        weights[list(modes.stuck)] = 0.0
    if weighting == "posterior" and not is_independent(run.attrs) and modes.weighed:
        if covered(modes) < COVERED:
            raise InputError(
                f"the modes that chains visited hold {covered(modes):.2g} of the posterior mass: "
                "run more chains, fit with method='quadrature' or 'smc', or ask for "
                "weights='chains', which is no posterior average"
            )
        for index, mode in enumerate(modes.modes):
            inside = modes.of_draws == index
            weights[inside] *= (mode.mass or 0.0) / max(1.0, weights[inside].sum())
    return weights / weights.sum()


def covered(modes: Modes) -> float:
    """Posterior mass of the modes with draws of chains that are not stuck."""
    return sum(mode.mass or 0.0 for mode in modes.modes if mode.draws)


def nearest_mode(run: xr.DataTree, of_draws: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mode of the draw nearest to each of the unconstrained ``places``, (k, p) to (k,).

    -1 where no draw is within :data:`REACH`: a mode that no chain visited is not the nearest one's.
    """
    z = unconstrained_draws(run)
    unit = standard_deviations(z)
    tree = cKDTree((z / unit).reshape(-1, z.shape[-1]))
    distance, nearest = tree.query(places / unit)
    return np.where(distance <= REACH, of_draws.ravel()[nearest], -1)


def unconstrained_draws(run: xr.DataTree) -> np.ndarray:
    """All hyperparameters side by side, (chain, draw, p)."""
    variables = run["unconstrained_posterior"].data_vars
    return flatten({str(name): values.values for name, values in variables.items()}, leading=2)


def unconstrained_shapes(run: xr.DataTree) -> dict[str, tuple[int, ...]]:
    """Shape of every unconstrained site, for :func:`~bke.inference.sampling.target.unflatten`."""
    variables = run["unconstrained_posterior"].data_vars
    return {str(name): values.shape[2:] for name, values in variables.items()}
