"""What is known of the modes of a posterior: where, how high, which draws, how much mass."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline
from scipy.signal import find_peaks
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from ..core.errors import InputError, check_choice
from ..sampling.draw_graph import chain_standard_deviations, cluster_nodes
from ..sampling.foreign import ModelArguments
from ..sampling.method import is_independent
from ..sampling.open_run import Run, open_run
from ..sampling.run import units_of
from ..sampling.target import flatten
from .integral import integral_group

#: A chain whose smoothed density stays this far below its mode's top is stuck on a shelf.
SHELF = 10.0


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode of the posterior: where it is, how high, who visited it, what mass it holds.

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
            of its chain, see :mod:`~bke.inference.sampling.draw_graph`, so a very short visit is
            not seen.
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


def numbers_of(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Every number among hyperparameters by name: ``lengthscale``, or ``lengthscale[0]``, ..."""
    found: dict[str, float] = {}
    for name, value in values.items():
        flat = np.ravel(value)
        each = [name] if len(flat) == 1 else [f"{name}[{k}]" for k in range(len(flat))]
        found |= dict(zip(each, flat.tolist(), strict=True))
    return found


def as_text(value: np.ndarray) -> str:
    """A hyperparameter with three digits: ``0.52``, ``(0.52, 1.3)``."""
    flat = [f"{entry:.3g}" for entry in np.ravel(value)]
    return flat[0] if len(flat) == 1 else f"({', '.join(flat)})"


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

    name = integral_group(run)
    group = xr.Dataset() if name is None else run[name].to_dataset()
    if "weight" in group:
        places, weight = group["unconstrained"].values, group["weight"].values
        label = modes_at(places)
        mass = np.bincount(label[label >= 0], weight[label >= 0], minlength=len(intervals))
        # An error of the integral changes a share most where all of it is in one mode.
        error = group.attrs["log_normalizer_error"] * np.maximum(mass, 1 - mass)
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
    unit = chain_standard_deviations(z)
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
    tops, properties = find_peaks(np.maximum(walled, smoothed.min() - 1e6), prominence=5.0)
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


def modes_of_paths(run: xr.DataTree) -> Modes:
    """The groups of draws that paths join as modes, but for their masses."""
    paths = run["paths"].to_dataset()
    node_draw, node_height = paths["draw"].values, paths["height"].values
    label, saddle = cluster_nodes(node_height.ravel(), paths["edge"].values, paths["low"].values)
    z = unconstrained_draws(run)
    z = z / chain_standard_deviations(z)
    node_label, label = label, label.reshape(node_draw.shape)
    if is_independent(run.attrs):
        nodes = np.take_along_axis(z, node_draw[:, :, None], axis=1).reshape(-1, z.shape[-1])
        of_draws = node_label[cKDTree(nodes).query(z)[1]]
    else:
        of_draws = _nearest_label(z, node_draw, label)
    count = len(saddle)
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
                barrier=float(tops[k] - np.delete(saddle[k], k).max(initial=-np.inf)),
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


#: What modes are told apart by.
LABELLING = ("profile", "paths", "posterior", "unconstrained_posterior", "sample_stats")
#: Attributes that say whether draws are in any order.
ORDER = ("method", "independent")


def find_modes(run: Run, **model: Unpack[ModelArguments]) -> Modes:
    """The modes of a run of :func:`~bke.inference.fit`, with their masses where it knows these.

    They are found once, for all who ask of this run or of a copy that has the same numbers; the
    run with masses that :func:`~bke.inference.reweight` returns keeps the modes of its draws.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if ``run`` is no run, or draws that do not fit the model.
    """
    opened = open_run(run, **model)
    tree = opened.tree
    units_of(tree)  # refuses other trees
    modes = opened.kept("modes", lambda: _unweighed(tree), groups=LABELLING, attributes=ORDER)

    def masses() -> Masses | None:
        return mode_masses(tree, [mode.interval for mode in modes.modes], modes.of_draws)

    weighing = integral_group(tree)
    reads = LABELLING if weighing is None else (*LABELLING, weighing)
    found = opened.kept("masses", masses, groups=reads, attributes=ORDER)
    if found is None:
        return modes
    known = (
        dataclasses.replace(mode, mass=float(mass), mass_error=float(error))
        for mode, mass, error in zip(modes.modes, *found, strict=True)
    )
    return dataclasses.replace(modes, modes=tuple(known))


def _unweighed(run: xr.DataTree) -> Modes:
    modes = modes_of_profile(run) if "profile" in run.children else modes_of_paths(run)
    if is_independent(run.attrs):
        modes = dataclasses.replace(modes, crossings=None)
    # They are shared: who would write into them must copy.
    for shared in (modes.of_draws, modes.of_chains):
        shared.flags.writeable = False
    return modes
