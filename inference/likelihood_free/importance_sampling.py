"""Approximate Bayesian computation by importance sampling from the prior.

K2-ABC: theta_i from the prior, X_i from the model at theta_i, and weights proportional to
exp(-MMD^2(X_i, Y) / epsilon) for the observed data Y (MMD-31; Park, Jitkrittum and Sejdinovic,
*K2-ABC*, 2016). The simulations do not depend on epsilon and serve all bandwidths.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.progress import progress_bar
from ..data.checks import check_count
from .distances import MMD
from .problem import CheckpointFolder, InverseProblem, Prior
from .results import check_epsilon, importance_run, warn_about
from .simulators import (
    DatasetDistance,
    Simulate,
    Simulations,
    Stream,
    run_simulations,
    seed_sequence,
)

ACCEPTANCES = ("exponential", "indicator")


def k2_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    epsilon: float | ArrayLike | None = None,
    kernel: str | Covariance = "median",
    estimator: str = "biased",
    num_features: int = 500,
    num_simulations: int = 10_000,
    batch_size: int = 500,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by K2-ABC: weights exp(-MMD^2(X_i, Y) / epsilon) (MMD-31).

    No summary statistics are chosen: with a characteristic kernel the MMD is sensitive to every
    difference between the distributions of the rows. It ignores the order of rows, see
    :class:`MMD` for time series.

    Args:
        observed: Y, shape (m, D) or (m,).
        simulate: a function of a NumPy generator and a dict of numbers (arrays for vector
            parameters) that returns one data set, (n, D) or (n,); or :func:`jax_simulator` or
            :func:`vectorize` of a function, which are much faster. A data set that is not finite or
            has another shape, or an ``ArithmeticError`` of a plain function, is counted and left
            out; other errors are raised, with the parameters added.
        prior: NumPyro distributions in a dict, by the parameters' names.
        epsilon: bandwidths, in units of the squared MMD. By default three, at which the effective
            sample size is 20, 5 and 1 % of the M' simulations that did not fail; beyond 10 000,
            these fractions decrease as M'^(-q / (q + 4)) for q parameters, so that the posterior
            becomes narrower with every simulation.
        kernel: kernel of the MMD, chosen from the observed data alone, see :class:`MMD`.
        estimator: see :class:`MMD`.
        num_features: see :class:`MMD`.
        num_simulations: number M of simulations.
        batch_size: simulations at once, which are stored together.
        rows: n of every simulated data set; by default that of the observed data.
        folder: stores every batch: after an interruption the same call resumes, with the results of
            an uninterrupted one. ``num_simulations`` may be increased.
        workers: processes for a plain function that can be pickled; by default this process alone.
        scale: see :class:`MMD`.
        seed: random seed.
        progress: show a progress bar.

    Returns:
        A tree with ``posterior`` (chain 1, draw M'), the parameters of the M' simulations that did
        not fail, which are draws of the prior before they are weighted; ``sample_stats`` with
        ``squared_distance`` and ``simulation``, its number, (chain, draw), ``weight`` (chain,
        draw, epsilon) and ``ess`` (epsilon); ``observed_data``. :func:`resample` returns draws of
        equal weight for ArviZ, :func:`with_epsilon` the weights for other bandwidths.

    Raises:
        InputError: if an argument is not valid, the folder belongs to another run, or all
            simulations fail.
    """
    check_epsilon(epsilon)  # before a kernel is learned
    checked = Prior(prior)
    distance = MMD(observed, kernel, estimator, num_features=num_features, scale=scale, seed=seed)
    problem = InverseProblem("k2_abc", observed, simulate, checked, distance, rows, workers, seed)
    return _run(problem, epsilon, "exponential", num_simulations, batch_size, folder, progress)


def abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    distance: DatasetDistance,
    epsilon: float | ArrayLike | None = None,
    acceptance: str = "exponential",
    num_simulations: int = 10_000,
    batch_size: int = 500,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by approximate Bayesian computation with a distance of your choice.

    Arguments without a description, the result and the errors are those of :func:`k2_abc`.

    Args:
        observed: see :func:`k2_abc`.
        simulate: see :func:`k2_abc`.
        prior: see :func:`k2_abc`.
        distance: :class:`Summaries`, :class:`MMD`, or an object with their ``observed``,
            ``squared`` and ``describe``.
        epsilon: bandwidths; of the squared distance for ``"exponential"``, of the distance itself
            for ``"indicator"``.
        acceptance: ``"exponential"``, weights exp(-d^2 / epsilon); or ``"indicator"``, rejection:
            equal weights where d <= epsilon.
        num_simulations: see :func:`k2_abc`.
        batch_size: see :func:`k2_abc`.
        rows: see :func:`k2_abc`.
        folder: see :func:`k2_abc`.
        workers: see :func:`k2_abc`.
        seed: see :func:`k2_abc`.
        progress: see :func:`k2_abc`.

    Raises:
        InputError: see :func:`k2_abc`.
    """
    problem = InverseProblem("abc", observed, simulate, prior, distance, rows, workers, seed)
    return _run(problem, epsilon, acceptance, num_simulations, batch_size, folder, progress)


def _run(
    problem: InverseProblem,
    epsilon: float | ArrayLike | None,
    acceptance: str,
    num_simulations: int,
    batch_size: int,
    folder: str | os.PathLike[str] | None,
    progress: bool,
) -> xr.DataTree:
    """Simulate, weight, and warn if the posterior is not reliable."""
    bandwidths = check_epsilon(epsilon)
    if acceptance not in ACCEPTANCES:
        raise InputError(
            f"acceptance must be one of {ACCEPTANCES}, got {acceptance!r}"
            f"{nearest(acceptance, ACCEPTANCES)}"
        )
    check_count(num_simulations, "num_simulations", 1)
    check_count(batch_size, "batch_size", 1)
    settings = problem.settings(batch_size=batch_size)
    batches: list[Simulations] = []
    with (
        problem.start_simulator() as simulator,
        progress_bar("simulations", num_simulations, shown=progress) as advance,
    ):
        checkpoints = problem.checkpoints(folder, settings)
        for start in range(0, num_simulations, batch_size):
            count = min(batch_size, num_simulations - start)
            batches.append(_batch(problem, simulator, checkpoints, len(batches), count))
            if not any(batch.good.any() for batch in batches):
                _concatenate(batches).check(minimum=100)
            advance(count)
    simulations = _concatenate(batches)
    simulations.check()
    run = importance_run(simulations, problem.data, bandwidths, acceptance, settings)
    warn_about(run)
    return run


def _concatenate(batches: list[Simulations]) -> Simulations:
    result: Simulations = jax.tree.map(lambda *arrays: np.concatenate(arrays), *batches)
    return result


def _batch(
    problem: InverseProblem,
    simulator: Simulate,
    checkpoints: CheckpointFolder,
    index: int,
    count: int,
) -> Simulations:
    """Load a batch or simulate it; its random numbers depend on the seed and ``index`` alone."""
    name = f"batch-{index:05d}"
    stored = checkpoints.load(name)
    # The last batch of a run with fewer simulations may be shorter.
    if stored is not None and len(stored["squared"]) == count:
        theta = {site: stored[f"parameter {site}"] for site in problem.prior.sites}
        return Simulations(theta, stored["squared"], stored["causes"])
    theta = problem.prior.draw(seed_sequence(problem.seed, Stream.PRIOR, index), count)
    seed = seed_sequence(problem.seed, Stream.DATA, index)
    batch = run_simulations(theta, simulator, problem.distance, seed)
    arrays = {f"parameter {site}": values for site, values in batch.theta.items()}
    checkpoints.save(name, {**arrays, "squared": batch.squared, "causes": batch.causes})
    return batch
