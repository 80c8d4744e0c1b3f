"""The posterior of the kernel's hyperparameters: data in, one ``xarray.DataTree`` out."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SquaredExponential
from bke.models.kernels import Kernel
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike

from . import landscape
from .checks import as_sample, check_chains, check_count, check_memory
from .errors import InputError
from .machine import computing
from .nuts import CANDIDATES, Chains, NutsSampler, dispersed_start
from .paths import draw_paths
from .problem import Problem
from .progress import chain_progress
from .record import is_ours
from .run import make_run
from .units import cancelled_rows, choose_units, with_dither

METHODS = ("nuts",)
PRIOR_DRAWS = 2000
#: n x n matrices alive at once on the dense route, and what XLA needs beside them.
MATRICES = 8


def fit(
    X: ArrayLike,
    *,
    kernel: Kernel | type[Kernel] = SquaredExponential,
    method: str = "nuts",
    prior: Prior | None = None,
    noise_variance: float | dist.Distribution = 0.1,
    measure: Measure = "unit",
    likelihood: str = "auto",
    scale: str | None = "column",
    dither: str | float | Sequence[float] | None = "auto",
    chains: int = 8,
    warmup: int = 200,
    draws: int = 200,
    seed: int = 0,
    progress: bool = True,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Posterior draws of the kernel's hyperparameters given data, BKE section 4.

    Chains start from prior draws spread over the prior. The posterior often has several modes that
    chains cannot cross: read :func:`~bke.inference.diagnose` before any summary.

    Args:
        X: data, shape (n, D) or (n,); for two samples their union (BKE section 5).
        kernel: a kernel class, or an instance whose lengthscales become random.
        method: ``"nuts"``.
        prior: NumPyro distribution of the lengthscale (over ``scale``), one of shape (D,) for one
            lengthscale per column, or a dict by site name. Default Gamma(1, 1).
        noise_variance: sigma^2 of BKE (5), or a prior bounded away from zero.
        measure: of the smoothed kernel: ``"unit"``, ``"lebesgue"`` (over the scaled data) or
            :class:`~bke.models.Gaussian` with scale and centre in the units of the data.
        likelihood: ``"auto"`` or ``"dense"``.
        scale: ``"column"`` divides each column by its standard deviation before the prior applies,
            ``"pooled"`` all columns by one number, ``None`` nothing.
        dither: ``"auto"`` adds uniform noise within the rounding unit where rounded data make the
            density exactly zero; a number (or one per column) sets the unit; ``None`` refuses.
        chains: number of chains, 1 to 1000.
        warmup: warmup iterations per chain, at least 20.
        draws: draws per chain after warmup, at least 4.
        seed: of every random number.
        progress: show progress bars.
        columns: names of the columns.

    Returns:
        Groups ``posterior`` (lengthscales in the units of the data), ``sample_stats``,
        ``warmup_posterior``, ``warmup_sample_stats``, ``unconstrained_posterior``, ``prior``,
        ``observed_data``, ``profile`` or ``paths`` (what :func:`~bke.inference.diagnose` reads),
        and attributes that let anyone repeat the run.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
        SamplingError: where no starting point can be found.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {METHODS}, got {method!r}")
    data = as_sample(X, "X")
    check_chains(chains)
    check_count(warmup, "warmup", 20)
    check_count(draws, "draws", 4)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_memory(*data.shape, matrices=MATRICES)
    units = choose_units(data, scale, columns)
    problem = Problem.checked(
        kernel, prior, noise_variance, units.measure_to_model(measure), likelihood
    )
    with computing():
        problem.kernel.smoothed(problem.measure, data.shape[1])  # refuses before anything is drawn
        key_prior, key_run = jax.random.split(jax.random.key(seed))
        size = max(PRIOR_DRAWS, CANDIDATES * chains)
        prior_draws = jax.tree.map(np.asarray, problem.prior_draws(key_prior, size))
        compiled = compile_problem(problem, warmup)
        units = with_dither(units, data, dither, seed, prior_draws, compiled.cancelled)
        points = units.points(data)
        density = functools.partial(landscape.log_densities, compiled.log_densities, X=points)
        initial = dispersed_start(prior_draws, chains, seed, density)
        with chain_progress(chains, warmup + draws, shown=progress) as bars:
            result = compiled.sampler.run(
                points, initial=initial, draws=draws, key=key_run, progress=bars
            )
        settings = {
            "method": method,
            "seed": seed,
            "chains": chains,
            "warmup": warmup,
            "draws": draws,
        }
        return make_run(
            problem,
            units,
            data,
            result,
            prior_draws,
            _landscape(problem, points, result, prior_draws, compiled),
            settings,
        )


class Compiled(NamedTuple):
    """Compiled functions of one problem; each compiles once per shape of the data."""

    sampler: NutsSampler
    log_densities: landscape.BatchLogDensity
    cancelled: Callable[[Any, jax.Array], jax.Array]


def compile_problem(problem: Problem, warmup: int) -> Compiled:
    """Compiled functions, kept for the next fit of the same problem."""
    description = problem.describe()
    if "unrecorded" in str(description) or not is_ours(problem.kernel):
        return _build(problem, warmup)
    return _kept(json.dumps(description), warmup)


def _build(problem: Problem, warmup: int) -> Compiled:
    return Compiled(
        NutsSampler(problem, warmup),
        landscape.batch_log_density(problem),
        cancelled_rows(problem),
    )


@functools.lru_cache(maxsize=16)
def _kept(description: str, warmup: int) -> Compiled:
    return _build(Problem.restore(json.loads(description)), warmup)


def _landscape(
    problem: Problem,
    points: np.ndarray,
    chains: Chains,
    prior_draws: dict[str, np.ndarray],
    compiled: Compiled,
) -> dict[str, xr.Dataset]:
    """What the diagnosis needs of the density itself."""
    later = {name: values[:, chains.warmup :] for name, values in chains.z.items()}
    if landscape.is_scalar(problem):
        (z,), (prior_z,) = later.values(), prior_draws.values()
        found = landscape.profile(
            problem, points, z.ravel(), prior_z.ravel(), compiled.log_densities
        )
        return {"profile": found}
    density = functools.partial(landscape.log_densities, compiled.log_densities, X=points)
    return {"paths": draw_paths(later, chains.stats["lp"][:, chains.warmup :], density)}
