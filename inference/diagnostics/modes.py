"""Modes of a posterior: their locations, the draws in them, and their masses.

With one hyperparameter a mode is a basin of the log density smoothed over its narrow zeros, visited
by chains or not. With several it is a cluster of draws that paths of high density connect. ArviZ
has summaries of draws only, and no modes of a density.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

import numpy as np
import xarray as xr
from scipy import stats
from scipy.interpolate import CubicSpline
from scipy.signal import find_peaks
from scipy.spatial import cKDTree
from scipy.special import logsumexp

from ..core.errors import InputError, check_choice
from ..sampling.draw_graph import chain_standard_deviations, cluster_nodes, density_graph
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import OpenRun, Run, open_run
from ..sampling.run import units_of
from ..sampling.samplers import is_independent
from ..sampling.target import flatten
from .integral import integral_group

#: Groups and attributes of a run from which modes are found.
MODE_GROUPS = ("profile", "paths", "posterior", "unconstrained_posterior", "sample_stats")


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode of the posterior.

    Attributes:
        location: by site, in the units of the data. One hyperparameter: the mean of its draws of
            chains that are not stuck, without such draws the mean of the profile. Several: the
            medians of its draws.
        height: relative to the highest mode. One hyperparameter: log posterior mass of the basin,
            summed on the grid of the profile, which has an error of about 1 since its narrow dips
            are not resolved. Several: median log density of its best chain.
        barrier: difference of the smoothed log density between the mode and the way to a higher
            mode, from the highest mode to any other. ``inf`` for a single mode.
        draws: number of its draws of chains that are not stuck.
        chains: chains with most of their draws in it that are not stuck.
        stuck: stuck chains with most of their draws in it.
        interval: the basin in the unconstrained coordinate; ``None`` with several hyperparameters.
        mass: posterior mass; ``None`` if unknown, see :func:`~bke.inference.reweight`.
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
        """True if any draw, or most of a stuck chain, is in it."""
        return bool(self.draws or self.stuck)


@dataclasses.dataclass(frozen=True)
class Modes:
    """All modes of a posterior, in the order of their locations, and the mode of every draw.

    Attributes:
        modes: the modes.
        of_draws: index of the mode of each draw, (chain, draw).
        of_chains: index of the mode with most draws of each chain, (chain,).
        peaks: number of local maxima of the log density on the grid of the profile, most of which
            lie between zeros of the density and are no modes; ``None`` with several
            hyperparameters.
        crossings: how many times chains that are not stuck moved between modes; ``None`` for
            independent draws. With several hyperparameters a draw is in the mode of the nearest
            node of its chain, see :mod:`~bke.inference.sampling.draw_graph`, so very short visits
            are missed.
    """

    modes: tuple[Mode, ...]
    of_draws: np.ndarray = dataclasses.field(repr=False)
    of_chains: np.ndarray
    peaks: int | None
    crossings: int | None

    @property
    def highest(self) -> int:
        """Index of the mode with height 0."""
        return int(np.argmax([mode.height for mode in self.modes]))

    @property
    def heaviest(self) -> int:
        """Index of the mode of the largest mass, or without masses of height 0."""
        if not self.has_masses:
            return self.highest
        return int(np.argmax([mode.mass or 0.0 for mode in self.modes]))

    @property
    def stuck(self) -> tuple[int, ...]:
        """Chains that stay at a much lower density than that of their mode."""
        return tuple(sorted(chain for mode in self.modes for chain in mode.stuck))

    @property
    def draw_proportions(self) -> tuple[float, ...]:
        """Proportion of each mode in the draws of chains that are not stuck, of all if all are."""
        moving = np.setdiff1d(np.arange(len(self.of_draws)), self.stuck)
        labels = self.of_draws[moving] if len(moving) else self.of_draws
        return tuple(float((labels == index).mean()) for index in range(len(self.modes)))

    @property
    def has_masses(self) -> bool:
        """True if the posterior mass of every mode is known."""
        return all(mode.mass is not None for mode in self.modes)

    @property
    def visited_mass(self) -> float:
        """Posterior mass of the modes with draws of chains that are not stuck."""
        return sum(mode.mass or 0.0 for mode in self.modes if mode.draws)

    @property
    def covered(self) -> bool:
        """True if masses are known and modes with usable draws hold 0.99 of the posterior."""
        return self.has_masses and self.visited_mass >= 0.99


def find_modes(run: Run, **model: Unpack[ModelArguments]) -> Modes:
    """Find the modes of a run of :func:`~bke.inference.fit`, with their masses if it has these.

    Results are cached for a run and its copies with the same numbers. The run with masses that
    :func:`~bke.inference.reweight` returns has the modes of the original run.

    Args:
        run: a run of :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: for draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: ``run`` is no run, or its draws do not fit the model.
    """
    opened = open_run(run, **model)
    tree = opened.tree
    units_of(tree)  # refuses other trees
    if "profile" not in tree.children and not _is_graph_of(tree):
        # Chains or draws were selected: the graph is of draws that are not there.
        z = {str(name): z.values for name, z in tree["unconstrained_posterior"].data_vars.items()}
        lp = tree["sample_stats"].to_dataset()["lp"].values
        density = opened.log_density
        graph = opened.cached("paths", lambda: density_graph(z, lp, density), groups=MODE_GROUPS)
        tree = tree.copy()
        tree["paths"] = xr.DataTree(graph)
        opened = OpenRun(tree, opened.target)
    find = _modes_of_profile if "profile" in tree.children else _modes_of_graph
    modes = opened.cached("modes", lambda: find(tree), groups=MODE_GROUPS)
    integrated = integral_group(tree)
    masses = opened.cached(
        "masses",
        lambda: mode_masses(tree, [mode.interval for mode in modes.modes], modes.of_draws),
        groups=MODE_GROUPS if integrated is None else (*MODE_GROUPS, integrated),
    )
    if masses is None:
        return modes
    with_masses = tuple(
        dataclasses.replace(mode, mass=float(mass), mass_error=float(error))
        for mode, mass, error in zip(modes.modes, *masses, strict=True)
    )
    return dataclasses.replace(modes, modes=with_masses)


def _is_graph_of(run: xr.DataTree) -> bool:
    """Return whether the graph of a run is of its draws."""
    if "paths" not in run.children:
        raise InputError("this run has no group profile or paths, in which modes are found")
    graph, lp = run["paths"].to_dataset(), run["sample_stats"].to_dataset()["lp"].values
    draw, edges = graph["draw"].values, graph["edge"].values
    if len(draw) != len(lp) or draw.max() >= lp.shape[1] or edges.max() >= draw.size:
        return False
    return bool(np.allclose(np.take_along_axis(lp, draw, axis=1), graph["height"].values))


def basins(smoothed: np.ndarray, min_barrier: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    """Find the basins of a smoothed log density on a grid.

    Args:
        smoothed: log density, (n,).
        min_barrier: smallest barrier between basins. Not tuned.

    Returns:
        Indices of the maxima, (k,), and the k - 1 indices of the lowest points between neighboring
        maxima.
    """
    padded = np.concatenate([[-np.inf], smoothed, [-np.inf]])
    tops, _ = find_peaks(np.maximum(padded, smoothed.min() - 1e6), prominence=min_barrier)
    tops = tops - 1
    borders = np.array(
        [left + np.argmin(smoothed[left : right + 1]) for left, right in itertools.pairwise(tops)],
        dtype=int,
    )
    return tops, borders


def _barriers(smoothed: np.ndarray, tops: np.ndarray) -> np.ndarray:
    """Return the barrier between each top and a higher one, or for the highest any other."""
    height = smoothed[tops]
    lowest = [[smoothed[min(a, b) : max(a, b) + 1].min() for b in tops] for a in tops]
    other = ~np.eye(len(tops), dtype=bool)
    towards = (height > height[:, None]) | (other & (height == height.max())[:, None])
    return np.asarray(height - np.where(towards, lowest, -np.inf).max(axis=1))


def _modes_of_profile(run: xr.DataTree, depth: float = 10.0, negligible: float = 30.0) -> Modes:
    """Find the modes of one hyperparameter as basins of the profile of the density.

    Chains are stuck if they are below the maximum of their basin by both the smoothed log density
    and the log density itself: with many rows the maximum of the smoothed one is many standard
    deviations from the mode, and all chains are below it.

    Args:
        run: run with the group ``profile``.
        depth: difference of log densities beyond which a chain is stuck. Not tuned.
        negligible: difference of log masses beyond which a basin without draws is no mode, since
            its mass is negligible.
    """
    profile = run["profile"].to_dataset()
    grid, smoothed, site = (
        profile["unconstrained"].values,
        profile["smoothed"].values.astype(float),
        profile.site,
    )
    z = run["unconstrained_posterior"].to_dataset()[site].values
    tops, borders = basins(smoothed)
    edges = grid[borders]
    of_draws = np.searchsorted(edges, z)
    of_chains = stats.mode(of_draws, axis=1).mode
    raw = profile["log_density"].values
    log_density = np.where(np.isfinite(raw), raw, -1e300)
    parts = [np.searchsorted(edges, grid) == k for k in range(len(tops))]
    log_mass = np.array([logsumexp(log_density[part]) for part in parts])
    is_mode = (log_mass > log_mass.max() - negligible) | np.isin(np.arange(len(tops)), of_draws)
    barriers = np.full(len(tops), np.nan)
    barriers[is_mode] = _barriers(smoothed, tops[is_mode])
    below = smoothed[tops][of_chains] - np.median(np.interp(z, grid, smoothed), axis=1)
    if "sample_stats" in run.children:
        highest = np.array([log_density[part].max() for part in parts])
        lp = run["sample_stats"].to_dataset()["lp"].values
        below = np.minimum(below, highest[of_chains] - np.median(lp, axis=1))
    stuck = (below > depth) & (not is_independent(run.attrs))
    values = profile["value_in_data_units"].values

    def location(k: int, inside: np.ndarray) -> dict[str, np.ndarray]:
        # The grid may be wider than a mode of many rows.
        if inside.any():
            return {site: np.asarray(CubicSpline(grid, values)(z[inside]).mean(axis=0))}
        index = np.flatnonzero(parts[k])
        weight = np.exp(log_density[index] - log_density[index].max())
        return {site: np.asarray(values[round(float(index @ weight / weight.sum()))])}

    modes = _build_modes(run, of_draws, stuck, location, log_mass, barriers, is_mode, edges)
    return dataclasses.replace(modes, peaks=len(find_peaks(log_density)[0]))


def format_probability(mass: float) -> str:
    """Format the mass of a mode: ``0.93``, ``about 1e-60``.

    Quadrature is accurate for the sum of all masses: a far smaller one is known to a power of ten.
    """
    return f"about {10.0 ** round(math.log10(mass)):.0e}" if 0.0 < mass < 1e-6 else f"{mass:.2g}"


def _modes_of_graph(run: xr.DataTree, depth: float = 10.0) -> Modes:
    """Find the modes of several hyperparameters as clusters of the graph of draws.

    Args:
        run: run with the group ``paths``.
        depth: difference of log densities beyond which a chain is stuck. Not tuned.
    """
    graph = run["paths"].to_dataset()
    nodes = graph["draw"].values
    label, saddle = cluster_nodes(
        graph["height"].values.ravel(), graph["edge"].values, graph["low"].values
    )
    z = unconstrained_draws(run)
    z = z / chain_standard_deviations(z)
    # Only nodes of the same chain, so that only the chain itself can move between modes.
    of_draws = np.stack(
        [
            labels[cKDTree(chain[picks]).query(chain)[1]]
            for chain, picks, labels in zip(z, nodes, label.reshape(nodes.shape), strict=True)
        ]
    )
    count = len(saddle)
    of_chains = stats.mode(of_draws, axis=1).mode
    lp = run["sample_stats"].to_dataset()["lp"].values
    inside = of_draws == of_chains[:, None]
    chain_lp = np.array([np.median(row[part]) for row, part in zip(lp, inside, strict=True)])
    # Without a chain that is mostly in the mode, its height is that of draws that pass through.
    tops = np.array([chain_lp[of_chains == k].max(initial=-np.inf) for k in range(count)])
    for k in np.flatnonzero(np.isinf(tops)):
        tops[k] = np.median(lp[of_draws == k])
    stuck = chain_lp <= tops[of_chains] - depth
    posterior = run["posterior"].to_dataset()

    def location(k: int, inside: np.ndarray) -> dict[str, np.ndarray]:
        # Stuck chains count only in a mode without other draws.
        used = xr.DataArray(inside if inside.any() else of_draws == k, dims=("chain", "draw"))
        medians = posterior.where(used).median(("chain", "draw"))
        return {str(name): values.values for name, values in medians.data_vars.items()}

    np.fill_diagonal(saddle, -np.inf)
    is_mode = np.ones(count, dtype=bool)  # every cluster has draws
    return _build_modes(run, of_draws, stuck, location, tops, tops - saddle.max(axis=1), is_mode)


def _build_modes(
    run: xr.DataTree,
    of_draws: np.ndarray,
    stuck: np.ndarray,
    location: Callable[[int, np.ndarray], dict[str, np.ndarray]],
    height: np.ndarray,
    barriers: np.ndarray,
    is_mode: np.ndarray,
    edges: np.ndarray | None = None,
) -> Modes:
    """Build the modes from labels of draws, and number them by their locations.

    Args:
        run: the run.
        of_draws: label of each draw, (chain, draw).
        stuck: indicator of stuck chains, (chain,).
        location: location of a label, given which draws (chain, draw) are in it and not stuck.
        height: height of each label, (k,).
        barriers: barrier of each label, (k,).
        is_mode: indicator of the labels that are modes, (k,).
        edges: the k - 1 borders between the intervals of neighboring labels.
    """
    height = height - height.max()
    of_chains = stats.mode(of_draws, axis=1).mode
    limits = None if edges is None else [-math.inf, *edges.tolist(), math.inf]
    modes = {}
    for k in np.flatnonzero(is_mode).tolist():
        inside = (of_draws == k) & ~stuck[:, None]
        modes[k] = Mode(
            location=location(k, inside),
            height=float(height[k]),
            barrier=float(barriers[k]),
            draws=int(inside.sum()),
            chains=tuple(np.flatnonzero((of_chains == k) & ~stuck).tolist()),
            stuck=tuple(np.flatnonzero((of_chains == k) & stuck).tolist()),
            interval=None if limits is None else (limits[k], limits[k + 1]),
        )
    order = list(modes)
    if limits is None:
        order.sort(key=lambda k: np.mean([v.mean() for v in modes[k].location.values()]))
    number = np.full(len(height), -1)
    number[order] = np.arange(len(order))
    of_draws, of_chains = number[of_draws], number[of_chains]
    # They are cached: a caller that would modify them has to copy.
    of_draws.flags.writeable = of_chains.flags.writeable = False
    moves = int((np.diff(of_draws[~stuck], axis=1) != 0).sum())
    crossings = None if is_independent(run.attrs) else moves
    return Modes(tuple(modes[k] for k in order), of_draws, of_chains, None, crossings)


def mode_masses(
    run: xr.DataTree, intervals: Sequence[tuple[float, float] | None], of_draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Compute the posterior mass of each mode and its error, (modes,); ``None`` if unknown.

    Args:
        run: from :func:`~bke.inference.fit` or :func:`~bke.inference.reweight`.
        intervals: interval of each mode, unconstrained; ``None`` with several hyperparameters,
            where a point belongs to the mode of the nearest draw.
        of_draws: mode of each draw, (chain, draw).
    """
    name = integral_group(run)
    group = xr.Dataset() if name is None else run[name].to_dataset()
    if "mass" in group:  # bridge sampling
        return group["mass"].values, group["mass_error"].values
    if "unconstrained" not in group:
        return None
    points = group["unconstrained"].values
    flat = points.reshape(-1, points.shape[-1])
    bounded = [interval for interval in intervals if interval is not None]
    if len(bounded) < len(intervals):
        label = nearest_mode(run, of_draws, flat)
    else:
        low, high = np.transpose(bounded)
        inside = (flat >= low) & (flat < high)
        label = np.where(inside.any(axis=1), inside.argmax(axis=1), -1)
    is_mode = label.reshape(points.shape[:-1])[..., None] == np.arange(len(intervals))
    if "weight" in group:  # nodes of quadrature
        mass = group["weight"].values @ is_mode
        # An error of the integral changes a mass most where all of it is in one mode.
        return mass, group.attrs["log_normalizer_error"] * np.maximum(mass, 1 - mass)
    return _masses_of_repeats(is_mode.mean(axis=1), group["share"].values, points.shape[1])


def _masses_of_repeats(
    fraction: np.ndarray, weight: np.ndarray, particles: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute masses and standard errors from independent repeats of SMC.

    The error is at least that of one particle: without a particle a mode may still have some mass.

    Args:
        fraction: fraction of the particles of each repeat in each mode, (repeat, mode).
        weight: proportion of each repeat in the sum of all normalizing constants, (repeat,).
        particles: number of particles of each repeat.
    """
    count = len(weight)
    mass = weight @ fraction
    if count == 1:
        return mass, np.full(len(mass), np.nan)
    # A ratio of two means over repeats, of normalizing constant times fraction and of the constant.
    deviation = count * weight[:, None] * (fraction - mass)
    error = np.sqrt((deviation**2).sum(axis=0) / (count * (count - 1)))
    return mass, np.maximum(error, 1.0 / (count * particles))


def nearest_mode(
    run: xr.DataTree, of_draws: np.ndarray, points: np.ndarray, max_distance: float = 10.0
) -> np.ndarray:
    """Return the mode of the draw nearest to each unconstrained point, (k, p) to (k,).

    It is -1 for points further from every draw than ``max_distance`` standard deviations of a chain
    (not tuned), which may belong to a mode that no chain visited.
    """
    z = unconstrained_draws(run)
    scale = chain_standard_deviations(z)
    tree = cKDTree((z / scale).reshape(-1, z.shape[-1]))
    distance, nearest = tree.query(points / scale)
    return np.where(distance <= max_distance, of_draws.ravel()[nearest], -1)


def draw_weights(run: xr.DataTree, modes: Modes, weighting: str = "posterior") -> np.ndarray:
    """Return the weight of every draw, (chain, draw), with sum one, zero for stuck chains.

    If all chains are stuck, their draws have weights.

    Args:
        run: from :func:`~bke.inference.fit` or :func:`~bke.inference.reweight`.
        modes: modes of the run.
        weighting: ``"posterior"`` weights modes by their posterior mass, if the run has it;
            ``"chains"`` weights all draws equally, as in BKE Figure 5 (C).

    Raises:
        InputError: unknown ``weighting``, or the modes with draws hold less than 0.99 of the
            posterior mass.
    """
    check_choice(weighting, "weights", ("posterior", "chains"))
    weights = np.ones(modes.of_draws.shape)
    if len(modes.stuck) < len(weights):
        weights[list(modes.stuck)] = 0.0
    if weighting == "posterior" and not is_independent(run.attrs) and modes.has_masses:
        if not modes.covered:
            raise InputError(
                f"the modes that chains visited hold {modes.visited_mass:.2g} of the posterior "
                "mass: run more chains, fit with method='quadrature' or 'smc', or pass "
                "weights='chains', which is not the posterior average"
            )
        for index, mode in enumerate(modes.modes):
            inside = modes.of_draws == index
            weights[inside] *= (mode.mass or 0.0) / max(1.0, weights[inside].sum())
    return weights / weights.sum()


def unconstrained_draws(run: xr.DataTree) -> np.ndarray:
    """Return the draws of all hyperparameters side by side, (chain, draw, p)."""
    variables = run["unconstrained_posterior"].data_vars
    return flatten({str(name): values.values for name, values in variables.items()}, leading=2)


def unconstrained_shapes(run: xr.DataTree) -> dict[str, tuple[int, ...]]:
    """Return the shape of every site, for :func:`~bke.inference.sampling.target.unflatten`."""
    variables = run["unconstrained_posterior"].data_vars
    return {str(name): values.shape[2:] for name, values in variables.items()}


def format_location(mode: Mode) -> str:
    """Format the location of a mode: ``lengthscale 0.52``, ``lengthscale (0.52, 1.3)``."""
    return ", ".join(f"{name} {format_values(value)}" for name, value in mode.location.items())


def format_values(values: np.ndarray) -> str:
    """Format numbers with three digits: ``0.52``, ``(0.52, 1.3)``."""
    texts = [f"{value:.3g}" for value in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def format_chains(chains: Sequence[int] | np.ndarray) -> str:
    """Format indices of chains: ``chain 3``, ``chains 0-3, 7``, ``no chain``."""
    if not len(chains):
        return "no chain"
    ordered = np.sort(np.asarray(chains))
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    spans = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ("chains " if len(ordered) > 1 else "chain ") + ", ".join(spans)


def scalar_values(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return each number by its name: ``lengthscale``, or ``lengthscale[0]``, ..."""
    scalars: dict[str, float] = {}
    for name, value in values.items():
        flat = np.ravel(value).tolist()
        scalars |= {name if len(flat) == 1 else f"{name}[{k}]": v for k, v in enumerate(flat)}
    return scalars


def figure5_names(modes: Sequence[int]) -> dict[int, str]:
    """Return the names that BKE Figure 5 gives to modes, by their indices in order of length.

    ``A: short mode (mode 1)`` and ``B: long mode (mode 2)`` of two modes, ``A: mode 1``, ... of
    another number.
    """
    names = [f"mode {index + 1}" for index in modes]
    if len(modes) == 2:
        names = [f"short mode ({names[0]})", f"long mode ({names[1]})"]
    pairs = zip(string.ascii_uppercase, modes, names, strict=False)
    return {index: f"{letter}: {name}" for letter, index, name in pairs}
