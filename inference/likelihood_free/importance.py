"""Approximate Bayesian computation by weights: simulations from the prior, once, for every epsilon.

K2-ABC: theta_i from the prior, X_i from the model at theta_i, and weights in proportion to
exp(-MMD^2(X_i, Y) / epsilon) for the observed data Y (MMD-31; Park, Jitkrittum and Sejdinovic,
*K2-ABC*, 2016).
"""

from __future__ import annotations

import os
import warnings
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..data.checks import as_sample, check_count
from ..errors import InputError
from ..runtime.progress import progress_bar
from .distances import MMD, Distance
from .prior import Prior
from .run import PosteriorWarning, make_run, remarks
from .simulators import (
    Parameters,
    Simulate,
    as_words,
    commonest,
    parameters_at,
    simulating,
    stream,
)
from .store import Store, code_of, digest_of
from .weights import ACCEPTANCES, check_epsilon

#: What random numbers are for.
PRIOR, DATA = 0, 1
#: Cause of failure of a simulation that is too far from the observed data, or nowhere.
NO_DISTANCE = "a distance that is not finite"
#: Where so many simulations have failed and none has not, all of them will.
HOPELESS = 100


class Simulations(NamedTuple):
    """What a run has simulated, failures included."""

    theta: dict[str, np.ndarray]  # (M, ...) each
    squared: np.ndarray  # (M,), squared distances; NaN where a simulation failed
    causes: np.ndarray  # (M,) of str: why, "" where it did not

    @property
    def good(self) -> np.ndarray:
        """(M,), those that did not fail."""
        return np.asarray(self.causes == "")


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
            sample size is 20, 5 and 1 % of the simulations that did not fail.
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
        equal weight for ArviZ, :func:`reweighted` other epsilons.

    Raises:
        InputError: for arguments that make no sense, a folder of another run, or where all
            simulations fail; in one sentence.
    """
    check_epsilon(epsilon)  # before a kernel is learned
    Prior.checked(prior)
    distance = MMD(
        observed, kernel, estimator, features=features, scale=scale, seed=check_seed(seed)
    )
    return _run(
        "k2_abc",
        observed,
        simulate,
        prior,
        distance=distance,
        epsilon=epsilon,
        acceptance="exponential",
        simulations=simulations,
        chunk=chunk,
        rows=rows,
        folder=folder,
        workers=workers,
        seed=seed,
        progress=progress,
    )


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
    """Approximate Bayesian computation with a distance of yours.

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
    return _run(
        "abc",
        observed,
        simulate,
        prior,
        distance=distance,
        epsilon=epsilon,
        acceptance=acceptance,
        simulations=simulations,
        chunk=chunk,
        rows=rows,
        folder=folder,
        workers=workers,
        seed=seed,
        progress=progress,
    )


def _run(
    method: str,
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    distance: Distance,
    epsilon: float | ArrayLike | None,
    acceptance: str,
    simulations: int,
    chunk: int,
    rows: int | None,
    folder: str | os.PathLike[str] | None,
    workers: int | None,
    seed: int,
    progress: bool,
) -> xr.DataTree:
    chosen = check_epsilon(epsilon)
    if acceptance not in ACCEPTANCES:
        raise InputError(f"acceptance must be one of {ACCEPTANCES}, got {acceptance!r}")
    check_count(simulations, "simulations", 1)
    check_count(chunk, "chunk", 1)
    believed = Prior.checked(prior)
    data, shape = check_data(observed, distance, rows)
    settings = {
        "method": method,
        "simulator": code_of(simulate),
        "prior": believed.describe(),
        "distance": distance.describe(),
        "observed data": digest_of(data),
        "rows": shape[0],
        "chunk": chunk,
        "seed": check_seed(seed),
    }
    with simulating(simulate, shape, workers) as run:
        store = Store(folder, settings)
        found = _simulations(run, believed, distance, store, simulations, chunk, seed, progress)
    tree = make_run(
        found.theta,
        found.squared,
        found.causes,
        data,
        chosen,
        acceptance,
        {
            "method": method,
            "prior": believed.describe(),
            "distance": distance.describe(),
            "simulator": settings["simulator"],
            "rows": shape[0],
            "chunk": chunk,
            "seed": seed,
        },
    )
    for remark in remarks(tree):
        warnings.warn(remark, PosteriorWarning, stacklevel=3)
    return tree


def check_seed(seed: Any) -> int:
    """``seed`` as a whole number of at least 0, or ``InputError``."""
    return check_count(seed, "seed", 0)


def check_data(
    observed: ArrayLike, distance: Distance, rows: int | None
) -> tuple[np.ndarray, tuple[int, int]]:
    """The observed data (m, D), and the shape (n, D) of simulated data sets.

    Raises:
        InputError: for data that are no sample or not the distance's, or rows that it is not for.
    """
    data = as_sample(observed, "observed", may_be_constant=True)
    if isinstance(distance, type) or not hasattr(distance, "squared"):
        raise InputError(f"distance must be MMD(...) or Summaries(...), got {distance!r}")
    if not np.array_equal(data, distance.observed):
        raise InputError("the distance was made for other observed data than these")
    count = len(data) if rows is None else check_count(rows, "rows", 1)
    if isinstance(distance, MMD):
        distance.check_rows(count)
    return data, (count, data.shape[1])


def _simulations(
    run: Simulate,
    prior: Prior,
    distance: Distance,
    store: Store,
    simulations: int,
    chunk: int,
    seed: int,
    progress: bool,
) -> Simulations:
    """Chunk by chunk; the random numbers of each hang on the seed and its number alone."""
    parts: list[Simulations] = []
    with progress_bar("simulations", simulations, shown=progress) as advance:
        for index in range(-(-simulations // chunk)):
            count = min(chunk, simulations - index * chunk)
            part = _stored(store, index, prior, count)
            if part is None:
                theta = prior.draw(stream(seed, PRIOR, index), count)
                part = simulations_at(theta, run, distance, stream(seed, DATA, index))
                store.save(
                    _name(index),
                    {
                        **{f"parameter {name}": value for name, value in theta.items()},
                        "squared": part.squared,
                        "causes": part.causes.astype(str),
                    },
                )
            parts.append(part)
            check_hope(parts)
            advance(count)
    together = _together(parts)
    if not together.good.any():
        raise_hopeless(together)
    return together


def simulations_at(
    theta: Parameters, run: Simulate, distance: Distance, seed: np.random.SeedSequence
) -> Simulations:
    """One data set for each of the parameters, and how far it is."""
    values, causes = run(theta, seed)
    squared = np.full(len(causes), np.nan)
    good = causes == ""
    if good.any():
        squared[good] = distance.squared(values[good])
    causes = np.where(good & ~np.isfinite(squared), NO_DISTANCE, causes)
    squared[causes != ""] = np.nan
    return Simulations(dict(theta), squared, causes)


def check_hope(parts: list[Simulations]) -> None:
    """Give up where the first hundred simulations have all failed."""
    if sum(len(part.squared) for part in parts) >= HOPELESS and not any(
        part.good.any() for part in parts
    ):
        raise_hopeless(_together(parts))


def raise_hopeless(found: Simulations) -> None:
    """All simulations have failed."""
    cause, times = next(iter(commonest(found.causes).items()))
    first = as_words(parameters_at(found.theta, 0))
    raise InputError(
        f"all {len(found.causes)} simulations failed, {times} of them with {cause}; the first was "
        f"for {first}" + (": rows= says how many a data set has" if "shape (" in cause else "")
    )


def _together(parts: list[Simulations]) -> Simulations:
    return Simulations(
        {name: np.concatenate([part.theta[name] for part in parts]) for name in parts[0].theta},
        np.concatenate([part.squared for part in parts]),
        np.concatenate([part.causes for part in parts]),
    )


def _name(index: int) -> str:
    return f"chunk-{index:05d}"


def _stored(store: Store, index: int, prior: Prior, count: int) -> Simulations | None:
    """A chunk that was saved; one with fewer simulations, the last of a shorter run, is redone."""
    found = store.load(_name(index))
    if found is None or len(found["squared"]) != count:
        return None
    theta = {name: found[f"parameter {name}"] for name in prior.sites}
    return Simulations(theta, found["squared"], found["causes"].astype(object))
