"""Particles that follow a posterior to smaller and smaller epsilon (Del Moral et al. 2012).

Each particle is parameters with one simulation: as part of the particle, not an estimate of a
likelihood, it makes every step exact.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.progress import progress_bar
from ..data.checks import check_count, check_positive
from ..data.weighted import systematic
from .inverse_problem import InverseProblem
from .simulations import DATA, PRIOR, raise_hopeless, simulations_at
from .simulators import Simulate, as_words, parameters_at, stream
from .store import Store
from .weights import (
    effective_sample_size,
    inverse_for,
    log_weights,
    normalised,
    tell_apart,
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
