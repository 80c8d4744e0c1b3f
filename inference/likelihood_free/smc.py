"""Particles that follow a posterior to smaller and smaller epsilon (Del Moral et al. 2012).

Each particle is parameters with one simulation: as part of the particle, not an estimate of a
likelihood, it makes every step exact.
"""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.progress import progress_bar
from ..data.checks import check_count, check_positive
from ..data.weighted import systematic
from ..sampling.run import digest_of
from .distances import MMD, Distance
from .problem import InverseProblem, Prior, Store, check_seed
from .results import (
    PosteriorWarning,
    attributes,
    effective_sample_size,
    inverse_for,
    log_weights,
    normalised,
    remarks,
    tell_apart,
    tree_of,
)
from .simulators import (
    DATA,
    PRIOR,
    Simulate,
    as_words,
    commonest,
    parameters_at,
    raise_hopeless,
    simulations_at,
    stream,
)

#: Random numbers of the moves, beside those of ``simulations``.
MOVES = 2
#: Effective share of the particles after each fall of epsilon.
SHARE = 0.5
#: The proposals' covariance over that of the particles, times the number of coordinates: the best
#: for a normal target (Roberts, Gelman and Gilks 1997).
WIDTH = 2.38**2
#: A stage's moves end when so many of its particles have moved; with fewer than the second share,
#: where simulations ran out, they are copies of a few.
MOVED, LEAST_MOVED = 0.9, 0.5


class Stage(NamedTuple):
    """The particles after one stage."""

    z: np.ndarray  # (N, p), free coordinates
    squared: np.ndarray  # (N,), squared distances; infinite where there is none
    epsilon: float  # what they are the particles of
    acceptance: float  # share of the moves that were accepted
    moved: float  # share of the particles that moved
    causes: np.ndarray  # (K,) of str: of each of the stage's simulations, "" where it did not fail
    failing: str  # the first parameters that failed, in words

    @property
    def inverse(self) -> float:
        """The inverse 1 / epsilon, 0 for the prior."""
        return 0.0 if self.epsilon == np.inf else 1.0 / self.epsilon


@dataclasses.dataclass(frozen=True)
class Limits:
    """How many particles there are, and when they go no further.

    Attributes:
        epsilon: where to stop; ``None``: when one of the other limits is met.
        particles: how many.
        moves: of each particle in a stage, at least; more until most of them have moved.
        simulations: in all, at most.
        least_acceptance: the smallest share of a stage's moves to be accepted.
    """

    epsilon: float | None
    particles: int
    moves: int
    simulations: int
    least_acceptance: float

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        check_count(self.particles, "particles", 10)
        check_count(self.moves, "moves", 1)
        check_count(self.simulations, "simulations", self.particles * (1 + self.moves))
        if not 0.0 <= self.least_acceptance < 1.0:
            raise InputError(f"least_acceptance must be from 0 to 1, got {self.least_acceptance!r}")

    def met(self, stages: list[Stage]) -> tuple[int, str] | None:
        """Decide whether to stop: which stage's particles are taken, and why; ``None`` to go on."""
        now, last = stages[-1], len(stages) - 1
        if self.epsilon is not None and now.epsilon <= self.epsilon:
            return last, "epsilon was reached"
        if last > 1 and now.acceptance < self.least_acceptance:
            share = f"only {100 * now.acceptance:.2g} %"
            return last - 1, f"{share} of the moves to epsilon = {now.epsilon:.3g} were accepted"
        if self.left(stages) < self.moves:
            taken = last - (last > 1 and now.moved < LEAST_MOVED)
            return taken, f"{self.simulations} simulations do not suffice for another stage"
        return None

    def left(self, stages: list[Stage]) -> int:
        """How many more moves of all particles there are simulations for."""
        spent = sum(len(stage.causes) for stage in stages)
        return (self.simulations - spent) // self.particles


class Particles:
    """The particles of one run, stage after stage, each kept in the run's store."""

    def __init__(
        self, problem: InverseProblem, run: Simulate, limits: Limits, store: Store
    ) -> None:
        self._simulate, self._prior, self._distance = run, problem.prior, problem.distance
        self._seed, self._limits, self._store = problem.seed, limits, store

    def run(self, progress: bool) -> tuple[list[Stage], int, str]:
        """Run all stages; with them, whose particles are taken, and why there are no more."""
        limits = self._limits
        with progress_bar("simulations", limits.simulations, shown=progress) as advance:
            stages = [self._kept(0) or self._first(limits.particles)]
            advance(limits.particles)
            while (end := limits.met(stages)) is None:
                number = len(stages)
                then = next_epsilon(stages[-1], limits.epsilon)
                if then is None and number == 1:
                    raise InputError(
                        "the distances of all draws of the prior are equal: take a distance that "
                        "tells parameters apart"
                    )
                if then is None:
                    end = number - 1, "the particles' distances no longer differ"
                    break
                stages.append(self._kept(number) or self._next(stages, then))
                advance(len(stages[-1].causes))
        return stages, *end

    def _first(self, particles: int) -> Stage:
        """The stage before all others: draws of the prior."""
        theta = self._prior.draw(stream(self._seed, PRIOR), particles)
        found = simulations_at(theta, self._simulate, self._distance, stream(self._seed, DATA, 0))
        if not found.good.any():
            raise_hopeless(found)
        squared = np.where(found.good, found.squared, np.inf)
        first = _failing(found.theta, found.causes)
        z = self._prior.unconstrain(theta)
        return self._saved(Stage(z, squared, np.inf, np.nan, np.nan, found.causes, first), 0)

    def _next(self, stages: list[Stage], epsilon: float) -> Stage:
        """The next stage: particles weighted, resampled and moved."""
        now, number, most = stages[-1], len(stages), self._limits.left(stages)
        rng = np.random.default_rng(stream(self._seed, MOVES, number))
        weight = normalised(_log_weight(now, 1.0 / epsilon))
        width = WIDTH / now.z.shape[1]
        root = _root(width * np.atleast_2d(np.cov(now.z.T, aweights=weight)))
        chosen = systematic(weight, len(weight), rng)
        z, squared = now.z[chosen], now.squared[chosen]
        log_prior = self._prior.log_density(z)
        accepted, moved = 0, np.zeros(len(z), dtype=bool)
        causes: list[np.ndarray] = []
        failing = ""
        while not self._enough(len(causes), accepted / len(z), moved.mean(), most):
            proposed = z + rng.standard_normal(z.shape) @ root.T
            log_proposed = self._prior.log_density(proposed)
            inside = np.isfinite(log_proposed)
            proposed = np.where(inside[:, None], proposed, z)
            found = simulations_at(
                self._prior.constrain(proposed),
                self._simulate,
                self._distance,
                stream(self._seed, DATA, number, len(causes)),
            )
            away = np.where(found.good, found.squared, np.inf)
            ratio = log_proposed - log_prior - (away - squared) / epsilon
            taken = inside & (np.log(rng.random(len(z))) < ratio)
            z = np.where(taken[:, None], proposed, z)
            squared = np.where(taken, away, squared)
            log_prior = np.where(taken, log_proposed, log_prior)
            accepted += int(taken.sum())
            moved |= taken
            causes.append(found.causes)
            failing = failing or _failing(found.theta, found.causes)
        share = accepted / (len(causes) * len(z))
        found_causes = np.concatenate(causes)
        return self._saved(
            Stage(z, squared, epsilon, share, float(moved.mean()), found_causes, failing), number
        )

    def _enough(self, moves: int, accepted: float, moved: float, most: int) -> bool:
        """Whether a stage has made its moves, of which each particle had ``accepted`` taken."""
        if moves < self._limits.moves:
            return False
        hopeless = accepted < self._limits.least_acceptance * moves
        return moved >= MOVED or hopeless or moves == most

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
            float(found["moved"]),
            found["causes"].astype(object),
            str(found["failing"]),
        )


def next_epsilon(now: Stage, wished: float | None) -> float | None:
    """Find the epsilon where the effective share of particles falls to a half, from ``wished`` on.

    It is no smaller than ``wished``, and ``None`` where all distances are equal.
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
    """The first parameters whose simulation failed, in words; empty where none did."""
    failed = np.flatnonzero(causes != "")
    return as_words(parameters_at(theta, int(failed[0]))) if len(failed) else ""


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
