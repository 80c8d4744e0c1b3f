"""Modes of the posterior and which draws of which chains are in each.

A mode is a basin of the posterior density *smoothed* over its narrow genuine zeros, with a wide
barrier around it. With one hyperparameter the modes are read off the profile, visited or not;
with several, draws are joined into one mode unless a barrier stands between them.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.signal import find_peaks
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from ..posterior.barriers import BARRIER, groups, standard_deviations
from .masses import INDEPENDENT, mode_masses, unconstrained_draws

#: A chain whose smoothed density stays this far below its mode's top is stuck on a shelf.
SHELF = 10.0
#: A basin that no chain visited counts as a mode within this distance of the highest one: further
#: down it holds no mass that could matter.
NEGLIGIBLE = 30.0


@dataclasses.dataclass(frozen=True)
class Mode:
    """One mode.

    Attributes:
        location: in the units of the data, by site: one hyperparameter's mean over its draws of
            chains that are not stuck, or where there are none at the mean of the profile;
            several hyperparameters' medians over its draws.
        height: with one hyperparameter the log posterior mass of the basin, summed on the profile's
            grid (right to about a nat: it has narrow dips); with several the median log density
            of its best chain. Relative to the highest mode; nats.
        barrier: depth of the way from this mode to a higher one, or for the highest mode to any
            other, on the smoothed density; nats. ``inf`` where there is no other basin.
        draws: how many draws of chains that are not stuck are in it.
        chains: the chains with most of their draws in it that are not stuck.
        stuck: chains on a shelf of its basin.
        interval: the basin in the unconstrained coordinate (one hyperparameter), else ``None``.
        mass: its posterior mass; ``None`` until it is known, see
            :func:`~bke.inference.reweight`.
        mass_error: estimated error of ``mass``.
    """

    location: dict[str, np.ndarray]
    height: float
    barrier: float
    draws: int
    chains: tuple[int, ...]
    stuck: tuple[int, ...]
    interval: tuple[float, float] | None
    mass: float | None = None
    mass_error: float | None = None

    @property
    def visited(self) -> bool:
        """Whether any draw is in it or on one of its shelves."""
        return bool(self.draws or self.stuck)


@dataclasses.dataclass(frozen=True)
class Modes:
    """All modes, lowest location first, and the mode of every draw.

    Attributes:
        modes: the modes.
        of_draws: index of the mode of each draw, (chain, draw).
        of_chains: index of the mode with most draws of each chain, (chain,).
        peaks: local maxima of the raw density on the profile's grid: mostly cells between zeros,
            not modes. ``None`` with several hyperparameters.
        crossings: how many times a chain moved from one mode to another; ``None`` for draws that
            are in no order. With several hyperparameters every draw counts with the nearest node
            of its chain, see :mod:`~bke.inference.posterior.barriers`, so a very short visit is not
            seen.
    """

    modes: tuple[Mode, ...]
    of_draws: np.ndarray
    of_chains: np.ndarray
    peaks: int | None
    crossings: int | None

    @property
    def highest(self) -> int:
        """Index of the mode with height 0."""
        return int(np.argmax([mode.height for mode in self.modes]))

    @property
    def weighed(self) -> bool:
        """Whether the posterior mass of every mode is known."""
        return all(mode.mass is not None for mode in self.modes)

    @property
    def chain_shares(self) -> tuple[float, ...]:
        """Share of each mode in the draws of the chains that are not stuck, all if all are."""
        moving = np.setdiff1d(np.arange(len(self.of_draws)), self.stuck)
        labels = self.of_draws[moving] if len(moving) else self.of_draws
        return tuple(float((labels == index).mean()) for index in range(len(self.modes)))

    @property
    def stuck(self) -> tuple[int, ...]:
        """Chains that sit on a shelf far below their mode's top."""
        return tuple(sorted(chain for mode in self.modes for chain in mode.stuck))


def place(mode: Mode) -> str:
    """Where a mode is: ``lengthscale 0.52``, with several columns ``lengthscale (0.52, 1.3)``."""
    return ", ".join(f"{name} {as_text(value)}" for name, value in mode.location.items())


def as_text(value: np.ndarray) -> str:
    """A hyperparameter with three digits: ``0.52``, ``(0.52, 1.3)``."""
    flat = [f"{entry:.3g}" for entry in np.ravel(value)]
    return flat[0] if len(flat) == 1 else f"({', '.join(flat)})"


def find_modes(run: xr.DataTree) -> Modes:
    """The modes of a run of :func:`~bke.inference.fit`."""
    modes = _from_profile(run) if "profile" in run.children else _from_paths(run)
    if run.attrs["method"] in INDEPENDENT:
        modes = dataclasses.replace(modes, crossings=None)
    masses = mode_masses(run, [mode.interval for mode in modes.modes], modes.of_draws)
    if masses is None:
        return modes
    known = (
        dataclasses.replace(mode, mass=float(mass), mass_error=float(error))
        for mode, mass, error in zip(modes.modes, *masses, strict=True)
    )
    return dataclasses.replace(modes, modes=tuple(known))


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


def _from_profile(run: xr.DataTree) -> Modes:
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
    if run.attrs["method"] in INDEPENDENT:
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


def _from_paths(run: xr.DataTree) -> Modes:
    paths = run["paths"].to_dataset()
    node_draw, node_height = paths["draw"].values, paths["height"].values
    found = groups(node_height.ravel(), paths["edge"].values, paths["low"].values)
    z = unconstrained_draws(run)
    z = z / standard_deviations(z)
    label = found.label.reshape(node_draw.shape)
    if run.attrs["method"] in INDEPENDENT:
        nodes = np.take_along_axis(z, node_draw[:, :, None], axis=1).reshape(-1, z.shape[-1])
        of_draws = found.label[cKDTree(nodes).query(z)[1]]
    else:
        of_draws = _nearest_label(z, node_draw, label)
    count = len(found.saddle)
    of_chains = np.array([np.bincount(row, minlength=count).argmax() for row in of_draws])
    lp = run["sample_stats"].to_dataset()["lp"].values
    mostly = of_draws == of_chains[:, None]
    of_chain = np.array([np.median(row[inside]) for row, inside in zip(lp, mostly, strict=True)])
    # A mode where no chain spends most of its time is as high as the draws that pass through.
    tops = np.array(
        [
            of_chain[of_chains == k].max()
            if (of_chains == k).any()
            else np.median(lp[of_draws == k])
            for k in range(count)
        ]
    )
    stuck = of_chain <= tops[of_chains] - SHELF
    posterior = run["posterior"].to_dataset()
    modes = []
    for k in range(count):
        inside = (of_draws == k) & ~stuck[:, None]
        # Stuck chains say where a mode is only where nobody else is in it.
        shown = inside if inside.any() else of_draws == k
        location = posterior.where(xr.DataArray(shown, dims=("chain", "draw"))).median(
            ("chain", "draw")
        )
        modes.append(
            Mode(
                location={str(name): location[name].values for name in location.data_vars},
                height=float(tops[k] - tops.max()),
                barrier=float(tops[k] - np.delete(found.saddle[k], k).max(initial=-np.inf)),
                draws=int(inside.sum()),
                chains=tuple(np.flatnonzero((of_chains == k) & ~stuck).tolist()),
                stuck=tuple(np.flatnonzero((of_chains == k) & stuck).tolist()),
                interval=None,
            )
        )
    order = np.argsort([float(np.mean([np.mean(v) for v in m.location.values()])) for m in modes])
    rank = np.argsort(order)
    return Modes(
        tuple(modes[k] for k in order),
        rank[of_draws],
        rank[of_chains],
        None,
        int((np.diff(of_draws, axis=1) != 0).sum()),
    )


def _nearest_label(z: np.ndarray, node_draw: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Label (chain, draw) of the nearest node of the same chain, so that only it can cross."""
    return np.stack(
        [
            labels[cKDTree(chain[picks]).query(chain)[1]]
            for chain, picks, labels in zip(z, node_draw, label, strict=True)
        ]
    )
