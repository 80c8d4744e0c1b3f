"""Sequential Monte Carlo over falling epsilon (Del Moral, Doucet and Jasra 2012).

Particles (theta, X) follow p(theta) p(X | theta) exp(-d(X, Y)^2 / epsilon), with one simulation
each: as part of the particle, not an estimate of a likelihood, it makes every step exact. From
stage to stage epsilon falls to where the effective sample size of the particles' weights is half
their number; they are resampled, and moved by a random walk that leaves the target of the new
epsilon as it is: few simulations are then wasted where the posterior is not.
"""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..data.checks import check_count, check_positive
from ..data.weighted import systematic
from ..errors import InputError
from ..runtime.progress import progress_bar
from .distances import MMD, Distance
from .importance import DATA, PRIOR, check_data, check_seed, raise_hopeless, simulations_at
from .prior import Prior
from .run import PosteriorWarning, attributes, remarks, tree_of
from .simulators import Simulate, as_words, commonest, parameters_at, simulating, stream
from .store import Store, code_of, digest_of
from .weights import (
    effective_sample_size,
    inverse_for,
    log_weights,
    normalised,
    tell_apart,
)

#: Random numbers of the moves, beside those of ``importance``.
MOVES = 2
#: Effective share of the particles after each fall of epsilon.
SHARE = 0.5
#: The proposals' covariance over that of the particles, times the number of coordinates: the best
#: for a normal target (Roberts, Gelman and Gilks 1997).
WIDTH = 2.38**2


class Stage(NamedTuple):
    """The particles after one stage."""

    z: np.ndarray  # (N, p), free coordinates
    squared: np.ndarray  # (N,), squared distances; infinite where there is none
    epsilon: float  # what they are the particles of
    acceptance: float  # share of the moves that were accepted
    causes: np.ndarray  # (K,) of str: of each of the stage's simulations, "" where it did not fail
    failing: str  # the first parameters that failed, in words

    @property
    def inverse(self) -> float:
        """1 / epsilon, 0 for the prior."""
        return 0.0 if self.epsilon == np.inf else 1.0 / self.epsilon


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
    least_acceptance: float = 0.1,
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
        moves: of each particle in a stage.
        simulations: in all, at most.
        least_acceptance: stop when a smaller share of a stage's moves is accepted: particles are
            then copies of a few, so that those of the stage before are taken, unless ``epsilon``
            was reached.
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
    Prior.checked(prior).check_continuous("sequential_k2_abc")  # before a kernel is learned
    distance = MMD(
        observed, kernel, estimator, features=features, scale=scale, seed=check_seed(seed)
    )
    return _run(
        "sequential_k2_abc",
        observed,
        simulate,
        prior,
        distance=distance,
        epsilon=epsilon,
        particles=particles,
        moves=moves,
        simulations=simulations,
        least_acceptance=least_acceptance,
        rows=rows,
        folder=folder,
        workers=workers,
        seed=seed,
        progress=progress,
    )


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
    least_acceptance: float = 0.1,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """As :func:`sequential_k2_abc`, with a distance of yours; see :func:`~bke.inference.abc`.

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
    return _run(
        "sequential_abc",
        observed,
        simulate,
        prior,
        distance=distance,
        epsilon=epsilon,
        particles=particles,
        moves=moves,
        simulations=simulations,
        least_acceptance=least_acceptance,
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
    epsilon: float | None,
    particles: int,
    moves: int,
    simulations: int,
    least_acceptance: float,
    rows: int | None,
    folder: str | os.PathLike[str] | None,
    workers: int | None,
    seed: int,
    progress: bool,
) -> xr.DataTree:
    wished = None if epsilon is None else check_positive(epsilon, "epsilon")
    check_count(particles, "particles", 10)
    check_count(moves, "moves", 1)
    check_count(simulations, "simulations", particles * (1 + moves))
    if not 0.0 <= least_acceptance < 1.0:
        raise InputError(f"least_acceptance must be from 0 to 1, got {least_acceptance!r}")
    believed = Prior.checked(prior)
    believed.check_continuous(method)
    data, shape = check_data(observed, distance, rows)
    settings = {
        "method": method,
        "simulator": code_of(simulate),
        "prior": believed.describe(),
        "distance": distance.describe(),
        "rows": shape[0],
        "particles": particles,
        "moves": moves,
        "seed": check_seed(seed),
    }
    with simulating(simulate, shape, workers) as run:
        kept = {**settings, "observed data": digest_of(data), "epsilon": wished}
        particle_system = _Particles(run, believed, distance, moves, seed, Store(folder, kept))
        stages, taken, stopped = particle_system.run(
            particles, wished, simulations, least_acceptance, progress
        )
    tree = _tree(stages, taken, stopped, believed, settings, data)
    for remark in remarks(tree):
        warnings.warn(remark, PosteriorWarning, stacklevel=3)
    return tree


class _Particles:
    """Stages of one run, each kept in its store."""

    def __init__(
        self,
        run: Simulate,
        prior: Prior,
        distance: Distance,
        moves: int,
        seed: int,
        store: Store,
    ) -> None:
        self._simulate, self._prior, self._distance = run, prior, distance
        self._moves, self._seed, self._store = moves, seed, store

    def run(
        self,
        particles: int,
        wished: float | None,
        simulations: int,
        least_acceptance: float,
        progress: bool,
    ) -> tuple[list[Stage], int, str]:
        """All stages, the one whose particles are taken, and why there are no more."""
        with progress_bar("simulations", simulations, shown=progress) as advance:
            stages = [self._kept(0) or self._first(particles)]
            advance(particles)
            while True:
                now, number = stages[-1], len(stages)
                spent = sum(len(stage.causes) for stage in stages)
                if wished is not None and now.epsilon <= wished:
                    return stages, number - 1, "epsilon was reached"
                if number > 2 and now.acceptance < least_acceptance:
                    reason = f"only {100 * now.acceptance:.2g} % of the moves to epsilon = "
                    return stages, number - 2, f"{reason}{now.epsilon:.3g} were accepted"
                if spent + particles * self._moves > simulations:
                    reason = f"{simulations} simulations do not suffice for another stage"
                    return stages, number - 1, reason
                then = next_epsilon(now, wished)
                if then is None and number == 1:
                    raise InputError(
                        "the distances of all draws of the prior are equal: take a distance that "
                        "tells parameters apart"
                    )
                if then is None:
                    return stages, number - 1, "the particles' distances no longer differ"
                stages.append(self._kept(number) or self._next(now, then, number))
                advance(len(stages[-1].causes))

    def _first(self, particles: int) -> Stage:
        """Draws of the prior."""
        theta = self._prior.draw(stream(self._seed, PRIOR), particles)
        found = simulations_at(theta, self._simulate, self._distance, stream(self._seed, DATA, 0))
        if not found.good.any():
            raise_hopeless(found)
        squared = np.where(found.good, found.squared, np.inf)
        first = _failing(found.theta, found.causes)
        stage = Stage(self._prior.unconstrain(theta), squared, np.inf, np.nan, found.causes, first)
        return self._saved(stage, 0)

    def _next(self, now: Stage, epsilon: float, number: int) -> Stage:
        """Weighted, resampled, moved."""
        rng = np.random.default_rng(stream(self._seed, MOVES, number))
        weight = normalised(_log_weight(now, 1.0 / epsilon))
        width = WIDTH / now.z.shape[1]
        root = _root(width * np.atleast_2d(np.cov(now.z.T, aweights=weight)))
        chosen = systematic(weight, len(weight), rng)
        z, squared = now.z[chosen], now.squared[chosen]
        log_prior = self._prior.log_density(z)
        accepted, causes, failing = 0, [], ""
        for move in range(self._moves):
            proposed = z + rng.standard_normal(z.shape) @ root.T
            log_proposed = self._prior.log_density(proposed)
            inside = np.isfinite(log_proposed)
            proposed = np.where(inside[:, None], proposed, z)
            found = simulations_at(
                self._prior.constrain(proposed),
                self._simulate,
                self._distance,
                stream(self._seed, DATA, number, move),
            )
            away = np.where(found.good, found.squared, np.inf)
            ratio = log_proposed - log_prior - (away - squared) / epsilon
            taken = inside & (np.log(rng.random(len(z))) < ratio)
            z = np.where(taken[:, None], proposed, z)
            squared = np.where(taken, away, squared)
            log_prior = np.where(taken, log_proposed, log_prior)
            accepted += int(taken.sum())
            causes.append(found.causes)
            failing = failing or _failing(found.theta, found.causes)
        share = accepted / (self._moves * len(z))
        return self._saved(
            Stage(z, squared, epsilon, share, np.concatenate(causes), failing), number
        )

    def _saved(self, stage: Stage, number: int) -> Stage:
        self._store.save(
            f"stage-{number:04d}",
            {name: np.asarray(value) for name, value in stage._asdict().items() if name != "causes"}
            | {"causes": stage.causes.astype(str)},
        )
        return stage

    def _kept(self, number: int) -> Stage | None:
        found = self._store.load(f"stage-{number:04d}")
        if found is None:
            return None
        return Stage(
            found["z"],
            found["squared"],
            float(found["epsilon"]),
            float(found["acceptance"]),
            found["causes"].astype(object),
            str(found["failing"]),
        )


def next_epsilon(now: Stage, wished: float | None) -> float | None:
    """Where the effective share of the particles falls to a half, at least ``wished``.

    ``None`` where all distances are equal.
    """
    known = now.squared[np.isfinite(now.squared)]
    size = SHARE * len(known)
    if wished is not None and effective_sample_size(_log_weight(now, 1.0 / wished)) >= size:
        return wished
    if not tell_apart(known):
        return None
    return float(1.0 / (now.inverse + inverse_for(known, size)))


def _log_weight(now: Stage, inverse: float) -> np.ndarray:
    """Log weights (N,) of the particles for a smaller epsilon, given its inverse."""
    gained = inverse - now.inverse
    return (
        log_weights(now.squared, 1.0 / gained, "exponential")
        if gained > 0.0
        else np.where(np.isfinite(now.squared), 0.0, -np.inf)
    )


def _root(covariance: np.ndarray) -> np.ndarray:
    """A matrix whose product with its transpose is ``covariance``, singular ones included."""
    values, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _failing(theta: Any, causes: np.ndarray) -> str:
    failed = np.flatnonzero(causes != "")
    return as_words(parameters_at(theta, int(failed[0]))) if len(failed) else ""


def _tree(
    stages: list[Stage],
    taken: int,
    stopped: str,
    prior: Prior,
    settings: dict[str, Any],
    data: np.ndarray,
) -> xr.DataTree:
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
