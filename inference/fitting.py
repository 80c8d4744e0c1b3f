"""The posterior of the kernel's hyperparameters: data in, one ``xarray.DataTree`` out."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SquaredExponential
from bke.models.kernels import Kernel
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike

from . import compiled
from .checks import as_sample, check_chains, check_count, check_memory, check_positive
from .errors import InputError
from .machine import computing
from .methods import Task, by_nuts, by_quadrature, by_smc
from .nuts import CANDIDATES
from .problem import Problem
from .run import make_run
from .units import choose_units, with_dither

METHODS = ("nuts", "quadrature", "smc")
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
    particles: int = 4000,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: bool = True,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Posterior draws of the kernel's hyperparameters given data, BKE section 4.

    NUTS: chains start from prior draws spread over the prior. The posterior often has several modes
    that chains cannot cross: read :func:`~bke.inference.diagnose` before any summary. Quadrature:
    the whole posterior of one or two hyperparameters, to ``tolerance``, with the mass of every mode
    and independent draws. SMC: the same for any number of hyperparameters, in ``chains``
    independent repeats that give the standard errors.

    Args:
        X: data, shape (n, D) or (n,); for two samples their union (BKE section 5).
        kernel: a kernel class, or an instance whose lengthscales become random.
        method: ``"nuts"``, ``"quadrature"`` or ``"smc"``.
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
        chains: number of chains, 1 to 1000; the repeats of SMC; the draws of quadrature are dealt
            out to as many.
        warmup: warmup iterations per chain, at least 20 (NUTS).
        draws: draws per chain after warmup, at least 4 (NUTS).
        particles: draws in all, dealt out evenly (quadrature and SMC); at least as many for each of
            the ``chains`` as there are chains.
        tolerance: for the absolute error of the log normaliser (quadrature).
        seed: of every random number.
        progress: show progress bars.
        columns: names of the columns.

    Returns:
        Groups ``posterior`` (lengthscales in the units of the data), ``sample_stats``,
        ``warmup_posterior``, ``warmup_sample_stats``, ``unconstrained_posterior``, ``prior``,
        ``observed_data``, ``profile`` or ``paths`` (what :func:`~bke.inference.diagnose` reads),
        for quadrature ``quadrature`` (nodes with weights) and for SMC ``smc`` (the particles of
        every repeat), both with the log normaliser and its error as attributes and without warmup,
        and attributes that let anyone repeat the run.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
        SamplingError: where no starting point can be found, or the density has no integral.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {METHODS}, got {method!r}")
    data = as_sample(X, "X")
    check_chains(chains)
    check_count(warmup, "warmup", 20)
    check_count(draws, "draws", 4)
    if method != "nuts":
        # ArviZ takes fewer draws than chains for a mistake.
        check_count(particles, "particles", max(4, chains) * chains)
    if method == "quadrature":
        check_positive(tolerance, "tolerance")
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
        units = with_dither(units, data, dither, seed, prior_draws, compiled.cancelled(problem))
        task = Task(
            problem,
            units.points(data),
            prior_draws,
            compiled.log_densities(problem),
            chains,
            draws if method == "nuts" else particles // chains,
            seed,
            progress,
        )
        if method == "nuts":
            result, groups = by_nuts(task, compiled.nuts_sampler(problem, warmup), key_run)
        elif method == "smc":
            sampler = compiled.tempered_smc(problem, tuple(task.shapes.items()))
            result, groups = by_smc(task, sampler, key_run)
        else:
            result, groups = by_quadrature(task, tolerance)
        settings = {
            "method": method,
            "seed": seed,
            "chains": chains,
            "warmup": result.warmup,
            "draws": task.draws,
            **({} if method == "nuts" else {"particles": particles}),
        }
        return make_run(problem, units, data, result, prior_draws, groups, settings)
