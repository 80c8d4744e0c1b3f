"""Sequential Monte Carlo over falling epsilon (Del Moral, Doucet and Jasra 2012).

Particles (theta, X) follow p(theta) p(X | theta) exp(-d(X, Y)^2 / epsilon), with one simulation
each: as part of the particle, not an estimate of a likelihood, it makes every step exact. From
stage to stage epsilon falls to where the effective sample size of the particles' weights is half
their number; they are resampled, and moved by a random walk that leaves the target of the new
epsilon as it is, until most of them have moved: few simulations are then wasted where the posterior
is not.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

import numpy as np
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..sampling.run import digest_of
from .distances import MMD, Distance
from .inverse_problem import InverseProblem, check_seed
from .particles import Limits, Particles, Stage
from .prior import Prior
from .run import PosteriorWarning, attributes, remarks, tree_of
from .simulators import commonest
from .store import Store


def sequential_k2_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    epsilon: float | None = None,
    kernel: str | Covariance = "median",
    estimator: str = "biased",
    features: int = 500,
    particles: int = 1000,
    moves: int = 3,
    simulations: int = 50_000,
    least_acceptance: float = 0.01,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """K2-ABC by sequential Monte Carlo over falling epsilon, for small ones.

    Args:
        observed: see :func:`~bke.inference.k2_abc`, as all that is not told here.
        simulate: likewise.
        prior: likewise; of continuous parameters.
        epsilon: where to stop; ``None``: when one of the other limits is met.
        kernel: likewise.
        estimator: likewise.
        features: likewise.
        particles: how many.
        moves: of each particle in a stage, at least; more where fewer are accepted, until nine in
            ten particles have moved (Drovandi and Pettitt 2011).
        simulations: in all, at most.
        least_acceptance: stop when a smaller share of a stage's moves is accepted: particles are
            then copies of a few, so that those of the stage before are taken, unless ``epsilon``
            was reached. So they are where simulations run out before half of them have moved.
        rows: likewise.
        folder: where every stage is kept, if anywhere: the same call goes on from there.
        workers: likewise.
        scale: likewise.
        seed: likewise.
        progress: likewise.

    Returns:
        A tree like that of :func:`~bke.inference.k2_abc`, with particles of equal weight and one
        epsilon, the last. Its ``ess`` counts particles that came from one another and did not move
        as one. In addition ``stages`` (stage): ``epsilon``, ``acceptance``, ``ess``; ``prior``;
        and ``stopped`` among the attributes, why it went no further.

    Raises:
        InputError: for arguments that make no sense, or where all simulations fail.
    """
    # Before a kernel is learned.
    limits = Limits(epsilon, particles, moves, simulations, least_acceptance)
    Prior.checked(prior).check_continuous("sequential_k2_abc")
    distance = MMD(
        observed, kernel, estimator, features=features, scale=scale, seed=check_seed(seed)
    )
    problem = InverseProblem.checked(
        "sequential_k2_abc",
        observed,
        simulate,
        prior,
        distance,
        rows=rows,
        workers=workers,
        seed=seed,
    )
    return _run(problem, limits, folder, progress=progress)


def sequential_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    distance: Distance,
    epsilon: float | None = None,
    particles: int = 1000,
    moves: int = 3,
    simulations: int = 50_000,
    least_acceptance: float = 0.01,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Approximate Bayesian computation by sequential Monte Carlo, with a distance of yours.

    Args:
        observed: see :func:`sequential_k2_abc`, as all the others.
        simulate: likewise.
        prior: likewise.
        distance: see :func:`~bke.inference.abc`; weights are exp(-d^2 / epsilon).
        epsilon: likewise.
        particles: likewise.
        moves: likewise.
        simulations: likewise.
        least_acceptance: likewise.
        rows: likewise.
        folder: likewise.
        workers: likewise.
        seed: likewise.
        progress: likewise.

    Raises:
        InputError: likewise.
    """
    limits = Limits(epsilon, particles, moves, simulations, least_acceptance)
    problem = InverseProblem.checked(
        "sequential_abc",
        observed,
        simulate,
        prior,
        distance,
        rows=rows,
        workers=workers,
        seed=seed,
    )
    return _run(problem, limits, folder, progress=progress)


def _run(
    problem: InverseProblem,
    limits: Limits,
    folder: str | os.PathLike[str] | None,
    *,
    progress: bool,
) -> xr.DataTree:
    """The particles of the last stage, with warnings of what their reader should not miss."""
    problem.prior.check_continuous(problem.method)
    settings = problem.settings(particles=limits.particles, moves=limits.moves)
    kept = {**settings, "observed data": digest_of(problem.data), "epsilon": limits.epsilon}
    with problem.simulating() as run:
        particles = Particles(problem, run, limits, Store(folder, kept))
        stages, taken, stopped = particles.run(progress)
    tree = _tree(stages, taken, stopped, problem.prior, settings, problem.data)
    for remark in remarks(tree):
        warnings.warn(remark, PosteriorWarning, stacklevel=3)
    return tree


def _tree(
    stages: list[Stage],
    taken: int,
    stopped: str,
    prior: Prior,
    settings: dict[str, Any],
    data: np.ndarray,
) -> xr.DataTree:
    """The run of ``stages`` as a tree, with the particles of the one that is ``taken``."""
    last = stages[taken]
    count = len(last.z)
    distinct = [_distinct(stage.z) for stage in stages[1:]]
    stats = xr.Dataset(
        {
            "squared_distance": (("chain", "draw"), last.squared[None]),
            "weight": (("chain", "draw", "epsilon"), np.full((1, count, 1), 1.0 / count)),
            "ess": (("epsilon",), np.array([_distinct(last.z)])),
        },
        coords={"chain": [0], "draw": np.arange(count), "epsilon": [last.epsilon]},
    )
    tree = tree_of(prior.constrain(last.z), stats, data)
    theta = prior.constrain(stages[0].z)
    tree["prior"] = xr.DataTree(tree_of(theta, stats, data)["posterior"].to_dataset())
    tree["stages"] = xr.DataTree(
        xr.Dataset(
            {
                "epsilon": ("stage", [stage.epsilon for stage in stages[1:]]),
                "acceptance": ("stage", [stage.acceptance for stage in stages[1:]]),
                "ess": ("stage", distinct),
            },
            coords={"stage": np.arange(1, len(stages))},
        )
    )
    causes = np.concatenate([stage.causes for stage in stages])
    tree.attrs.update(
        {
            **attributes(settings, data),
            "simulations": len(causes),
            "failed": int(np.sum(causes != "")),
            "failures": json.dumps(commonest(causes)),
            "first_failure": next((stage.failing for stage in stages if stage.failing), ""),
            "stopped": stopped,
        }
    )
    return tree


def _distinct(z: np.ndarray) -> float:
    """The effective number of particles, equal ones taken together."""
    _, counts = np.unique(z, axis=0, return_counts=True)
    return float(len(z) ** 2 / np.sum(counts.astype(float) ** 2))
