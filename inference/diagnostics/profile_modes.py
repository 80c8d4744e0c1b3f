"""Modes of one hyperparameter, read off the profile of the density, visited by chains or not.

A mode is a basin of the posterior density *smoothed* over its narrow genuine zeros, with a wide
barrier around it.
"""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.signal import find_peaks
from scipy.special import logsumexp

from ..sampling.barriers import BARRIER
from ..sampling.samplers import is_independent
from .modes import SHELF, Mode, Modes

#: A basin that no chain visited counts as a mode within this distance of the highest one: further
#: down it holds no mass that could matter.
NEGLIGIBLE = 30.0


def basins(smoothed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tops, barriers and borders of the basins of a smoothed log density on a grid.

    Returns:
        Indices of the tops (k,), height of each above the barrier to a higher basin (k,), and the
        k - 1 indices of the lowest points between neighbouring tops.
    """
    walled = np.concatenate([[-np.inf], smoothed, [-np.inf]])
    tops, properties = find_peaks(np.maximum(walled, smoothed.min() - 1e6), prominence=BARRIER)
    tops = tops - 1
    borders = np.array(
        [left + np.argmin(smoothed[left : right + 1]) for left, right in itertools.pairwise(tops)],
        dtype=int,
    )
    return tops, properties["prominences"], borders


def modes_of_profile(run: xr.DataTree) -> Modes:
    """The basins of the profile as modes, but for their masses."""
    profile = run["profile"].to_dataset()
    grid = profile["unconstrained"].values
    smoothed = profile["smoothed"].values
    site = profile.attrs["site"]
    z = run["unconstrained_posterior"].to_dataset()[site].values
    tops, barriers, borders = basins(smoothed)
    edges = grid[borders]
    of_draws = np.searchsorted(edges, z)
    of_chains = np.array([np.bincount(row, minlength=len(tops)).argmax() for row in of_draws])
    limits = np.concatenate([[-np.inf], edges, [np.inf]])
    values = profile["value_in_data_units"]
    raw = profile["log_density"].values
    filled = np.where(np.isfinite(raw), raw, -1e300)
    basin = np.searchsorted(edges, grid)
    mass = np.array([logsumexp(filled[basin == k]) for k in range(len(tops))])
    highest = np.array([filled[basin == k].max() for k in range(len(tops))])
    on_shelf = _on_shelf(run, smoothed[tops], np.interp(z, grid, smoothed), highest, of_chains)
    in_data_units = CubicSpline(grid, values.values)

    def location(k: int) -> np.ndarray:
        # The grid may be wider than a mode of many rows.
        inside = (of_draws == k) & ~on_shelf[:, None]
        if inside.any():
            return np.asarray(in_data_units(z[inside]).mean(axis=0))
        return np.asarray(values.isel(grid=_centre(filled, basin == k)).values)

    found = [
        Mode(
            location={site: location(k)},
            height=float(mass[k] - mass.max()),
            barrier=_barrier(k, tops, smoothed, barriers, borders),
            draws=int((of_draws[~on_shelf] == k).sum()),
            chains=tuple(np.flatnonzero((of_chains == k) & ~on_shelf).tolist()),
            stuck=tuple(np.flatnonzero((of_chains == k) & on_shelf).tolist()),
            interval=(float(limits[k]), float(limits[k + 1])),
        )
        for k in range(len(tops))
    ]
    kept = [k for k, mode in enumerate(found) if mode.visited or mode.height > -NEGLIGIBLE]
    kept = sorted({*kept, *np.unique(of_draws).tolist()})
    renumber = np.full(len(found), -1)
    renumber[kept] = np.arange(len(kept))
    return Modes(
        tuple(found[k] for k in kept),
        renumber[of_draws],
        renumber[of_chains],
        len(find_peaks(filled)[0]),
        int((np.diff(of_draws, axis=1) != 0).sum()),
    )


def _on_shelf(
    run: xr.DataTree,
    tops: np.ndarray,
    of_draws: np.ndarray,
    highest: np.ndarray,
    of_chains: np.ndarray,
) -> np.ndarray:
    """Which chains (chain,) stay far below the top of their basin.

    By the smoothed density, and by the density itself: with many rows the smoothed top is many
    standard deviations off the mode, and all chains are below it.

    Args:
        run: of :func:`~bke.inference.fit`.
        tops: smoothed density at the top of each basin (k,).
        of_draws: at each draw (chain, draw).
        highest: the density itself, the highest on the profile's grid in each basin (k,).
        of_chains: basin of each chain (chain,).
    """
    if is_independent(run.attrs):
        return np.zeros(len(of_draws), dtype=bool)
    below = tops[of_chains] - np.median(of_draws, axis=1) > SHELF
    if "sample_stats" in run.children:
        lp = np.median(run["sample_stats"].to_dataset()["lp"].values, axis=1)
        below &= highest[of_chains] - lp > SHELF
    return np.asarray(below)


def _centre(log_density: np.ndarray, inside: np.ndarray) -> int:
    """Index nearest the mean of the density over part of an evenly spaced grid."""
    index = np.flatnonzero(inside)
    weight = np.exp(log_density[index] - log_density[index].max())
    return round(float(index @ weight / weight.sum()))


def _barrier(
    k: int, tops: np.ndarray, smoothed: np.ndarray, prominences: np.ndarray, borders: np.ndarray
) -> float:
    """Nats from top k down to the way out of its basin."""
    if len(tops) == 1:
        return float("inf")
    if smoothed[tops[k]] < smoothed[tops].max():
        return float(prominences[k])
    return float(smoothed[tops[k]] - max(smoothed[b] for b in borders[max(k - 1, 0) : k + 1]))
