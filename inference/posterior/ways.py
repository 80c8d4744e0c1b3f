"""The ways to a posterior: each turns a target and its data into draws and what tells modes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np
import xarray as xr
from scipy.special import logsumexp

from ..errors import InputError
from ..runtime.progress import chain_progress, progress_bar, temperature_bars
from . import profile, programs
from .barriers import LogDensity, draw_paths
from .nuts import Chains, NutsSampler, dispersed_start
from .quadrature import Quadrature, integrate
from .target import Points, Target, flatten, unflatten

if TYPE_CHECKING:
    from .smc import Population, TemperedSmc

#: Evaluations after which quadrature stops, by the number of hyperparameters.
MOST_EVALUATIONS = {1: 20_000, 2: 40_000}


@dataclasses.dataclass(frozen=True)
class Task:
    """A target with data in the model's units, and how much to do.

    Attributes:
        target: the target.
        points: (n, D) or a tuple of such, model units.
        prior_draws: unconstrained, by site.
        log_density: compiled, see :func:`~bke.inference.posterior.profile.batch_log_density`.
        chains: how many.
        draws: of each chain.
        seed: of every random number.
        progress: show progress bars.
    """

    target: Target
    points: Points
    prior_draws: Mapping[str, np.ndarray]
    log_density: profile.BatchLogDensity
    chains: int
    draws: int
    seed: int
    progress: bool

    def rng(self) -> np.random.Generator:
        """Neither that of the dither nor that of the prior draws."""
        return np.random.default_rng(self.seed).spawn(2)[1]

    def density(self) -> LogDensity:
        """Log density of a batch of unconstrained points."""
        return functools.partial(profile.log_densities, self.log_density, X=self.points)


Found = tuple[Chains, dict[str, xr.Dataset]]


def by_nuts(task: Task, sampler: NutsSampler) -> Found:
    """Chains from dispersed prior draws, with the profile or the paths that tell modes apart."""
    initial = dispersed_start(task.prior_draws, task.chains, task.seed, task.density())
    with chain_progress(task.chains, sampler.warmup + task.draws, shown=task.progress) as bars:
        key = jax.random.key(task.seed)
        chains = sampler.run(task.points, initial=initial, draws=task.draws, key=key, progress=bars)
    z = {name: values[:, chains.warmup :] for name, values in chains.z.items()}
    return chains, _around(task, z, chains.stats["lp"][:, chains.warmup :])


def _around(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> dict[str, xr.Dataset]:
    """The density around draws: its profile, or with several hyperparameters paths between them."""
    if not profile.is_scalar(task.target):
        return {"paths": draw_paths(z, lp, task.density())}
    (draws,), (prior_draws,) = z.values(), task.prior_draws.values()
    found = profile.scan(
        task.target, task.points, draws.ravel(), prior_draws.ravel(), task.log_density
    )
    along = programs.prior_along(task.target)
    return {"profile": profile.as_profile(task.target, *found, along)}


def by_quadrature(task: Task, tolerance: float) -> Found:
    """Independent draws from one or two hyperparameters' posterior, with its integral.

    Raises:
        InputError: for more than two hyperparameters.
        SamplingError: where the density has no integral, or is not a number where it counts.
    """
    found = quadrature(task.target, task.density(), task.prior_draws, tolerance, task.progress)
    draws, lp = found.draws(task.chains * task.draws, task.rng())
    z = unflatten(draws.reshape(task.chains, task.draws, -1), task.target.shapes)
    lp = lp.reshape(task.chains, task.draws)
    chains = Chains(z, _stats(lp), {}, 0)
    groups = {"quadrature": nodes_of(found, tolerance)}
    if profile.is_scalar(task.target):
        groups["profile"] = _profile_of(found, task.target)
    else:
        groups["paths"] = draw_paths(z, lp, task.density())
    return chains, groups


def by_smc(task: Task, sampler: TemperedSmc) -> Found:
    """Tempered SMC in ``task.chains`` independent repeats, resampled by their normalisers."""
    count = task.chains * task.draws
    rng = task.rng()
    prior_draws = task.target.prior_draws(rng, count)
    start = flatten(prior_draws).reshape(task.chains, task.draws, -1)
    with temperature_bars(task.chains, shown=task.progress) as advance:
        found = sampler.run(task.points, start, jax.random.key(task.seed), advance)
    flat = found.z.reshape(count, -1)
    log_prior = jax.vmap(task.target.log_prior)(unflatten(flat, task.target.shapes))
    lp = found.log_likelihood + np.asarray(log_prior).reshape(task.chains, task.draws)
    population = population_of(found, lp)
    # Systematic resampling between repeats: each counts by its own estimate of the normaliser.
    share = population["share"].values / task.draws
    edges = np.cumsum(np.repeat(share, task.draws))
    chosen = np.searchsorted(edges, (np.arange(count) + rng.uniform()) / count * edges[-1])
    chosen = chosen.clip(max=count - 1).reshape(task.chains, task.draws)
    z, lp = unflatten(flat[chosen], task.target.shapes), lp.ravel()[chosen]
    chains = Chains(z, _stats(lp), {}, 0)
    return chains, {"smc": population, **_around(task, z, lp)}


def _stats(lp: np.ndarray) -> dict[str, np.ndarray]:
    """Of draws that did not move to where they are."""
    never = np.zeros(lp.shape)
    return {
        "lp": lp,
        "diverging": never.astype(bool),
        "nonfinite_evaluations": never.astype(int),
    }


def population_of(found: Population, lp: np.ndarray) -> xr.Dataset:
    """The repeats as they ended; the log normaliser over all with its standard error."""
    logs = found.log_normaliser
    log = float(logsumexp(logs) - np.log(len(logs)))
    ratio = np.exp(logs - log)
    error = np.std(ratio, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return xr.Dataset(
        {
            "unconstrained": (("repeat", "particle", "parameter"), found.z),
            "log_density": (("repeat", "particle"), lp),
            "log_normaliser": ("repeat", logs),
            "share": ("repeat", ratio / ratio.sum()),
            "temperatures": ("repeat", found.temperatures),
        },
        attrs={"log_normaliser": log, "log_normaliser_error": float(error)},
    )


def quadrature(
    target: Target,
    density: LogDensity,
    prior_draws: Mapping[str, np.ndarray],
    tolerance: float,
    progress: bool,
    draws: np.ndarray | None = None,
) -> Quadrature:
    """The integral over all hyperparameters; see :func:`by_quadrature`.

    It starts from the range of the prior draws, and of ``draws`` (k, p), and goes on outwards until
    the density is negligible: a mode beyond an empty stretch outside of these is not seen.
    """
    flat = flatten(prior_draws)
    count = flat.shape[1]
    if count not in MOST_EVALUATIONS:
        raise InputError(
            f"quadrature is for one or two hyperparameters, and there are {count} here: use "
            "method='smc'"
        )
    seen = flat if draws is None else np.concatenate([flat, draws])
    low, high = seen.min(axis=0), seen.max(axis=0)
    with progress_bar("evaluations", None, shown=progress) as advance:
        return integrate(
            lambda points: _tallied(density(unflatten(points, target.shapes)), advance),
            low,
            high,
            tolerance=tolerance,
            most=MOST_EVALUATIONS[count],
        )


def _tallied(values: np.ndarray, advance: Callable[[int], None]) -> np.ndarray:
    advance(len(values))
    return values


def nodes_of(found: Quadrature, tolerance: float) -> xr.Dataset:
    """The nodes with their weights; the integral and its error as attributes."""
    return xr.Dataset(
        {
            "unconstrained": (("node", "parameter"), found.nodes),
            "log_density": ("node", found.log_density),
            "weight": ("node", found.weight),
        },
        attrs={
            "log_normaliser": found.log_normaliser,
            "log_normaliser_error": found.error,
            "evaluations": found.evaluations,
            "tolerance": tolerance,
        },
    )


def _profile_of(found: Quadrature, target: Target) -> xr.Dataset:
    """The nodes of the first grid, which are evenly spaced, as a profile."""
    nodes = found.nodes[:, 0]
    count = round((nodes[-1] - nodes[0]) / found.first_step[0]) + 1
    grid = np.linspace(nodes[0], nodes[-1], count)
    nearest = np.searchsorted(0.5 * (nodes[1:] + nodes[:-1]), grid)
    along = programs.prior_along(target)
    return profile.as_profile(target, nodes[nearest], found.log_density[nearest], along)
