"""Approximate Bayesian computation by weights: simulations from the prior, once, for every epsilon.

K2-ABC: theta_i from the prior, X_i from the model at theta_i, and weights in proportion to
exp(-MMD^2(X_i, Y) / epsilon) for the observed data Y (MMD-31; Park, Jitkrittum and Sejdinovic,
*K2-ABC*, 2016).
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.progress import progress_bar
from ..data.checks import check_count
from ..sampling.run import digest_of
from .distances import MMD, Distance
from .problem import InverseProblem, Prior, Store, check_seed
from .results import ACCEPTANCES, PosteriorWarning, check_epsilon, make_run, remarks
from .simulators import (
    DATA,
    PRIOR,
    Simulate,
    Simulations,
    check_hope,
    raise_hopeless,
    simulations_at,
    stream,
    together,
)


def k2_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    epsilon: float | ArrayLike | None = None,
    kernel: str | Covariance = "median",
    estimator: str = "biased",
    features: int = 500,
    simulations: int = 10_000,
    chunk: int = 500,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """K2-ABC: weights exp(-MMD^2(X_i, Y) / epsilon) for simulations from the prior (MMD-31).

    No summary statistics are chosen: with a characteristic kernel the MMD sees all of the
    distribution of the rows. It does not see their order, see :class:`MMD` for time series.

    Args:
        observed: Y, shape (m, D) or (m,).
        simulate: a function of a NumPy generator and a dict of numbers (arrays for vector
            parameters) to one data set, (n, D) or (n,); or :func:`jax_simulator` or
            :func:`vectorised` of a function, which are faster by far. A data set that is not finite
            or has another shape, or an ``ArithmeticError`` of a plain function, is counted and left
            out; other errors are raised, with the parameters added.
        prior: a dict of NumPyro distributions by the parameters' names.
        epsilon: bandwidths, in units of the squared MMD; by default three, at which the effective
            sample size is 20, 5 and 1 % of the simulations that did not fail, and of more than
            10 000 falling shares, M^(-q / (q + 4)) of q parameters: the posterior then becomes
            narrower with every simulation.
        kernel: of the MMD, chosen from the observed data alone, see :class:`MMD`.
        estimator: likewise.
        features: likewise.
        simulations: how many, M.
        chunk: how many at once, which are saved together.
        rows: n, of every simulated data set; by default as many as there are observed.
        folder: where every chunk is kept, if anywhere: the same call goes on from there, to the
            same numbers that it would have come to at once. More simulations may be asked for.
        workers: processes for a plain function that can be pickled; by default this one alone.
        scale: of the kernel's choice.
        seed: of every random number.
        progress: show a progress bar.

    Returns:
        A tree with ``posterior`` (chain 1, draw M'), the parameters of all M' simulations that did
        not fail, which are draws of the prior until they are weighted; ``sample_stats`` with
        ``squared_distance`` and ``simulation``, its number, (chain, draw), ``weight`` (chain,
        draw, epsilon) and ``ess`` (epsilon); ``observed_data``. :func:`resample` gives draws of
        equal weight for ArviZ, :func:`with_epsilon` others.

    Raises:
        InputError: for arguments that make no sense, a folder of another run, or where all
            simulations fail; in one sentence.
    """
    check_epsilon(epsilon)  # before a kernel is learned
    Prior.checked(prior)
    distance = MMD(
        observed, kernel, estimator, features=features, scale=scale, seed=check_seed(seed)
    )
    problem = InverseProblem.checked(
        "k2_abc", observed, simulate, prior, distance, rows=rows, workers=workers, seed=seed
    )
    return _run(problem, epsilon, "exponential", simulations, chunk, folder, progress=progress)


def abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    distance: Distance,
    epsilon: float | ArrayLike | None = None,
    acceptance: str = "exponential",
    simulations: int = 10_000,
    chunk: int = 500,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Approximate Bayesian computation by weights, with a distance of yours.

    Args:
        observed: see :func:`k2_abc`, as all that is not told here.
        simulate: likewise.
        prior: likewise.
        distance: :class:`Summaries`, :class:`MMD`, or what has their ``observed``, ``squared`` and
            ``describe``.
        epsilon: bandwidths; of the squared distance for ``"exponential"``, of the distance itself
            for ``"indicator"``.
        acceptance: ``"exponential"``, weights exp(-d^2 / epsilon); or ``"indicator"``, rejection:
            equal weights where d <= epsilon.
        simulations: likewise.
        chunk: likewise.
        rows: likewise.
        folder: likewise.
        workers: likewise.
        seed: likewise.
        progress: likewise.

    Raises:
        InputError: likewise.
    """
    problem = InverseProblem.checked(
        "abc", observed, simulate, prior, distance, rows=rows, workers=workers, seed=seed
    )
    return _run(problem, epsilon, acceptance, simulations, chunk, folder, progress=progress)


def _run(
    problem: InverseProblem,
    epsilon: float | ArrayLike | None,
    acceptance: str,
    simulations: int,
    chunk: int,
    folder: str | os.PathLike[str] | None,
    *,
    progress: bool,
) -> xr.DataTree:
    """The weighted simulations, with warnings of what their reader should not miss."""
    chosen = check_epsilon(epsilon)
    if acceptance not in ACCEPTANCES:
        raise InputError(
            f"acceptance must be one of {ACCEPTANCES}, got {acceptance!r}"
            f"{nearest(acceptance, ACCEPTANCES)}"
        )
    check_count(simulations, "simulations", 1)
    check_count(chunk, "chunk", 1)
    settings = problem.settings(chunk=chunk)
    with problem.simulating() as run:
        store = Store(folder, {**settings, "observed data": digest_of(problem.data)})
        found = _simulations(problem, run, store, simulations, chunk, progress=progress)
    tree = make_run(
        found.theta, found.squared, found.causes, problem.data, chosen, acceptance, settings
    )
    for remark in remarks(tree):
        warnings.warn(remark, PosteriorWarning, stacklevel=3)
    return tree


def _simulations(
    problem: InverseProblem,
    run: Simulate,
    store: Store,
    simulations: int,
    chunk: int,
    *,
    progress: bool,
) -> Simulations:
    """Simulate chunk by chunk; the random numbers of each hang on the seed and its number alone."""
    parts: list[Simulations] = []
    with progress_bar("simulations", simulations, shown=progress) as advance:
        for index in range(-(-simulations // chunk)):
            count = min(chunk, simulations - index * chunk)
            part = _stored(store, index, problem.prior, count)
            if part is None:
                theta = problem.prior.draw(stream(problem.seed, PRIOR, index), count)
                part = simulations_at(
                    theta, run, problem.distance, stream(problem.seed, DATA, index)
                )
                _save(store, index, part)
            parts.append(part)
            check_hope(parts)
            advance(count)
    found = together(parts)
    if not found.good.any():
        raise_hopeless(found)
    return found


def _save(store: Store, index: int, part: Simulations) -> None:
    """Keep a chunk, as :func:`_stored` finds it."""
    named = {f"parameter {name}": value for name, value in part.theta.items()}
    others = {"squared": part.squared, "causes": part.causes.astype(str)}
    store.save(_name(index), named | others)


def _name(index: int) -> str:
    return f"chunk-{index:05d}"


def _stored(store: Store, index: int, prior: Prior, count: int) -> Simulations | None:
    """Load a chunk that was saved, but one with fewer simulations, the last of a shorter run."""
    found = store.load(_name(index))
    if found is None or len(found["squared"]) != count:
        return None
    theta = {name: found[f"parameter {name}"] for name in prior.sites}
    return Simulations(theta, found["squared"], found["causes"].astype(object))
