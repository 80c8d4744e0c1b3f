"""Approximate Bayesian computation by importance sampling and by sequential Monte Carlo.

K2-ABC by importance sampling: theta_i from the prior, X_i from the model at theta_i, and weights
proportional to exp(-MMD^2(X_i, Y) / epsilon) for the observed data Y (Park, Jitkrittum and
Sejdinovic, *K2-ABC*, 2016). The simulations do not depend on epsilon and serve all bandwidths.

Sequential Monte Carlo (Del Moral, Doucet and Jasra 2012): particles (theta, X) follow
p(theta) p(X | theta) exp(-d(X, Y)^2 / epsilon), with one simulation each: as a part of the
particle, not an estimate of a likelihood, it makes every step exact. In each stage epsilon
decreases until the effective sample size of the particles' weights is half their number. They are
resampled, and moved by random-walk Metropolis steps that leave the target of the new epsilon
invariant, until most of them have moved. Few simulations are then spent where the posterior has no
mass. BlackJAX's tempered SMC needs a log-likelihood in JAX operations; simulators are Python
functions of a NumPy generator, whose failures are counted.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
import xarray as xr
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.archive import Expected
from ..core.errors import InputError, check_choice
from ..core.progress import progress_bar
from ..data.checks import check_count, check_positive
from ..data.weighted import systematic
from .distances import MMD
from .problem import CheckpointFolder, InverseProblem, Prior
from .results import (
    build_tree,
    check_epsilon,
    distances_differ,
    effective_sample_size,
    failure_attributes,
    inverse_epsilon,
    log_weights,
    normalize,
    reweight,
    set_weights,
    warn_about,
)
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
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by K2-ABC: weights exp(-MMD^2(X_i, Y) / epsilon) (Park et al. 2016).

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
        standardize: see :class:`MMD`.
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
    distance = MMD(
        observed, kernel, estimator, num_features=num_features, standardize=standardize, seed=seed
    )
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
    check_choice(acceptance, "acceptance", ACCEPTANCES)
    check_count(num_simulations, "num_simulations", 1)
    check_count(batch_size, "batch_size", 1)
    settings = problem.settings(batch_size=batch_size)
    batches: list[Simulations] = []
    with (
        problem.start_simulator() as simulator,
        progress_bar("simulations", num_simulations, show=progress) as advance,
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
    good = simulations.good
    theta = {name: values[good] for name, values in simulations.theta.items()}
    stats = {"squared_distance": simulations.squared[good], "simulation": np.flatnonzero(good)}
    run = build_tree(theta, {name: v[None] for name, v in stats.items()}, problem, settings)
    run.attrs["acceptance"] = acceptance
    run.attrs.update(failure_attributes(simulations.causes, simulations.first_failure))
    run = reweight(run, bandwidths)
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
    expected: Expected = {
        "squared": ("float64", ("simulations",)),
        "causes": ("U", ("simulations",)),
        **{
            f"parameter {site}": ("float64", ("simulations", *prior.event_shape))
            for site, prior in problem.prior.sites.items()
        },
    }
    stored = checkpoints.load(name, expected)
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


class Stage(NamedTuple):
    """Particles after one stage."""

    z: np.ndarray  # unconstrained coordinates (N, p)
    squared: np.ndarray  # squared distances (N,), infinite where a simulation failed
    epsilon: float  # bandwidth of the particles' target, infinite for the prior
    acceptance_rate: float  # accepted fraction of the stage's moves
    moved: float  # fraction of the particles that moved
    causes: np.ndarray  # causes of failure (K,) of the stage's simulations, "" without failure
    first_failure: str  # the first parameters whose simulation failed, formatted

    def log_weight(self, inverse: float) -> np.ndarray:
        """Return the particles' log-weights (N,) for a smaller epsilon, of this inverse."""
        increment = inverse - 1.0 / self.epsilon
        if increment > 0.0:
            return log_weights(self.squared, 1.0 / increment, "exponential")
        return np.where(np.isfinite(self.squared), 0.0, -np.inf)

    def next_epsilon(self, target: float | None, ess_fraction: float = 0.5) -> float | None:
        """Choose the next epsilon, not below ``target``; ``None`` if all distances are equal.

        The particles then have an effective sample size of ``ess_fraction`` of their number.
        """
        finite = self.squared[np.isfinite(self.squared)]
        size = ess_fraction * len(finite)
        if target is not None and effective_sample_size(self.log_weight(1.0 / target)) >= size:
            return target
        if not distances_differ(finite):
            return None
        return float(1.0 / (1.0 / self.epsilon + inverse_epsilon(finite, size)))


#: Types and sizes of the fields of a stage.
STAGE_ARRAYS: Expected = {
    "z": ("float64", ("particles", "coordinates")),
    "squared": ("float64", ("particles",)),
    "epsilon": ("float64", ()),
    "acceptance_rate": ("float64", ()),
    "moved": ("float64", ()),
    "causes": ("U", ("simulations",)),
    "first_failure": ("U", ()),
}


@dataclasses.dataclass(frozen=True)
class ParticleSampler:
    """Sequential Monte Carlo sampler, and when it stops.

    Attributes:
        epsilon: where to stop; ``None``: when another limit is reached.
        num_particles: N.
        num_mcmc_steps: least number of moves of each particle in a stage.
        num_simulations: most simulations of the run.
        min_acceptance_rate: least acceptance rate of a stage's moves.
        scale: covariance of the proposals over that of the particles, times p: optimal for a normal
            target (Roberts, Gelman and Gilks 1997).
        moved: fraction of the particles after whose move a stage ends (Drovandi and Pettitt 2011).
        min_moved: fraction of moved particles below which a stage that ran out of simulations is
            dropped, as its particles are copies of a few; not tuned.
    """

    epsilon: float | None
    num_particles: int
    num_mcmc_steps: int
    num_simulations: int
    min_acceptance_rate: float
    scale: float = 2.38**2
    moved: float = 0.9
    min_moved: float = 0.5

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        check_count(self.num_particles, "num_particles", 10)
        check_count(self.num_mcmc_steps, "num_mcmc_steps", 1)
        least = self.num_particles * (1 + self.num_mcmc_steps)
        check_count(self.num_simulations, "num_simulations", least)
        if not 0.0 <= self.min_acceptance_rate < 1.0:
            raise InputError(
                f"min_acceptance_rate must be from 0 to 1, got {self.min_acceptance_rate!r}"
            )

    def sample(
        self, problem: InverseProblem, folder: str | os.PathLike[str] | None, progress: bool
    ) -> xr.DataTree:
        """Run all stages and build the tree of the run; warn if the posterior is not reliable."""
        problem.prior.check_continuous(problem.method)
        settings = problem.settings(
            num_particles=self.num_particles, num_mcmc_steps=self.num_mcmc_steps
        )
        with (
            problem.start_simulator() as simulator,
            progress_bar("simulations", self.num_simulations, show=progress) as advance,
        ):
            checkpoints = problem.checkpoints(folder, {**settings, "epsilon": self.epsilon})
            stages: list[Stage] = []
            stop = None
            while stop is None:
                name = f"stage-{len(stages):04d}"
                stored = checkpoints.load(name, STAGE_ARRAYS)
                if stored is not None:
                    fields: Any = {k: v if v.ndim else v.item() for k, v in stored.items()}
                    stage = Stage(**fields)
                elif not stages:
                    stage = self._prior_stage(problem, simulator)
                elif (epsilon := stages[-1].next_epsilon(self.epsilon)) is not None:
                    stage = self._next_stage(problem, simulator, stages, epsilon)
                else:
                    break
                if stored is None:
                    checkpoints.save(name, stage._asdict())
                stages.append(stage)
                advance(len(stage.causes))
                stop = self._check_stop(stages)
        if stop is None and len(stages) == 1:
            raise InputError(
                "the distances of all draws of the prior are equal: take a distance that depends "
                "on the parameters"
            )
        stop = stop or (len(stages) - 1, "the particles' distances no longer differ")
        run = _build_run(problem, settings, stages, *stop)
        warn_about(run)
        return run

    def _check_stop(self, stages: list[Stage]) -> tuple[int, str] | None:
        """Return the stage whose particles are the result and why, or ``None`` to continue."""
        stage, last = stages[-1], len(stages) - 1
        if self.epsilon is not None and stage.epsilon <= self.epsilon:
            return last, "epsilon was reached"
        if last > 1 and stage.acceptance_rate < self.min_acceptance_rate:
            rate = f"only {100 * stage.acceptance_rate:.2g} %"
            return last - 1, f"{rate} of the moves to epsilon = {stage.epsilon:.3g} were accepted"
        if self._steps_left(stages) < self.num_mcmc_steps:
            result = last - (last > 1 and stage.moved < self.min_moved)
            return result, f"{self.num_simulations} simulations do not suffice for another stage"
        return None

    def _steps_left(self, stages: list[Stage]) -> int:
        """Return the number of moves of all particles that the remaining simulations allow."""
        spent = sum(len(stage.causes) for stage in stages)
        return (self.num_simulations - spent) // self.num_particles

    def _prior_stage(self, problem: InverseProblem, simulator: Simulate) -> Stage:
        """Draw the particles from the prior and simulate them."""
        theta = problem.prior.draw(seed_sequence(problem.seed, Stream.PRIOR), self.num_particles)
        seed = seed_sequence(problem.seed, Stream.DATA, 0)
        simulations = run_simulations(theta, simulator, problem.distance, seed)
        simulations.check()
        squared = np.where(simulations.good, simulations.squared, np.inf)
        z, causes = problem.prior.unconstrain(theta), simulations.causes
        return Stage(z, squared, np.inf, np.nan, np.nan, causes, simulations.first_failure)

    def _next_stage(
        self, problem: InverseProblem, simulator: Simulate, stages: list[Stage], epsilon: float
    ) -> Stage:
        """Weight, resample and move the particles of the last stage."""
        stage, number = stages[-1], len(stages)
        prior, seed = problem.prior, problem.seed
        rng = np.random.default_rng(seed_sequence(seed, Stream.MOVES, number))
        weight = normalize(stage.log_weight(1.0 / epsilon))
        covariance = np.atleast_2d(np.cov(stage.z.T, aweights=weight))
        values, vectors = np.linalg.eigh(self.scale / stage.z.shape[1] * covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))  # also for singular covariances
        indices = systematic(weight, len(weight), rng)
        z, squared = stage.z[indices], stage.squared[indices]
        log_prior = prior.log_density(z)
        num_accepted, moved = 0, np.zeros(len(z), dtype=bool)
        causes: list[np.ndarray] = []
        first_failure = ""
        max_steps = self._steps_left(stages)
        while len(causes) < self.num_mcmc_steps or not (
            moved.mean() >= self.moved
            or num_accepted / len(z) < self.min_acceptance_rate * len(causes)
            or len(causes) == max_steps
        ):
            proposed = z + rng.standard_normal(z.shape) @ root.T
            log_proposed = prior.log_density(proposed)
            inside = np.isfinite(log_proposed)
            proposed = np.where(inside[:, None], proposed, z)
            simulations = run_simulations(
                prior.constrain(proposed),
                simulator,
                problem.distance,
                seed_sequence(seed, Stream.DATA, number, len(causes)),
            )
            distance = np.where(simulations.good, simulations.squared, np.inf)
            log_ratio = log_proposed - log_prior - (distance - squared) / epsilon
            accepted = inside & (np.log(rng.random(len(z))) < log_ratio)
            z = np.where(accepted[:, None], proposed, z)
            squared = np.where(accepted, distance, squared)
            log_prior = np.where(accepted, log_proposed, log_prior)
            num_accepted += int(accepted.sum())
            moved |= accepted
            causes.append(simulations.causes)
            first_failure = first_failure or simulations.first_failure
        rate = num_accepted / (len(causes) * len(z))
        return Stage(
            z,
            squared,
            float(epsilon),
            float(rate),
            float(moved.mean()),
            np.concatenate(causes),
            first_failure,
        )


def _build_run(
    problem: InverseProblem, settings: dict[str, Any], stages: list[Stage], result: int, reason: str
) -> xr.DataTree:
    """Build the tree of a run with the particles of stage ``result``."""
    stage, constrain = stages[result], problem.prior.constrain
    stats = {"squared_distance": stage.squared[None]}
    prior = constrain(stages[0].z)
    tree = build_tree(constrain(stage.z), stats, problem, settings, prior=prior)
    # Equal particles count together.
    copies = [np.unique(stage.z, axis=0, return_counts=True)[1] for stage in stages]
    columns = {
        "epsilon": [stage.epsilon for stage in stages],
        "acceptance_rate": [stage.acceptance_rate for stage in stages],
        "ess": [float(counts.sum() ** 2 / np.sum(counts**2)) for counts in copies],
    }
    count = len(stage.z)
    set_weights(tree, [stage.epsilon], np.full((1, count), 1.0 / count), [columns["ess"][result]])
    table = pd.DataFrame(columns).rename_axis("stage")[1:]
    tree["stages"] = xr.DataTree(table.to_xarray())
    causes = np.concatenate([stage.causes for stage in stages])
    first_failure = next((stage.first_failure for stage in stages if stage.first_failure), "")
    tree.attrs.update(failure_attributes(causes, first_failure), stopped=reason)
    return tree


def sequential_k2_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    epsilon: float | None = None,
    kernel: str | Covariance = "median",
    estimator: str = "biased",
    num_features: int = 500,
    num_particles: int = 1000,
    num_mcmc_steps: int = 3,
    num_simulations: int = 50_000,
    min_acceptance_rate: float = 0.01,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by K2-ABC and sequential Monte Carlo with decreasing epsilon.

    It reaches smaller values of epsilon than :func:`~bke.inference.k2_abc`, whose description
    applies to all arguments without one.

    Args:
        observed: see :func:`~bke.inference.k2_abc`.
        simulate: see :func:`~bke.inference.k2_abc`.
        prior: see :func:`~bke.inference.k2_abc`; of continuous parameters.
        epsilon: where to stop; ``None``: when one of the other limits is reached.
        kernel: see :class:`~bke.inference.MMD`.
        estimator: see :class:`~bke.inference.MMD`.
        num_features: see :class:`~bke.inference.MMD`.
        num_particles: number of particles.
        num_mcmc_steps: least number of moves of each particle in a stage; more are made until nine
            in ten particles have moved (Drovandi and Pettitt 2011).
        num_simulations: most simulations of the run.
        min_acceptance_rate: stop at a stage in which a smaller fraction of the moves is accepted.
            Its particles are copies of a few, so that those of the stage before are the result,
            unless ``epsilon`` was reached. The same applies where simulations run out before half
            of the particles have moved.
        rows: see :func:`~bke.inference.k2_abc`.
        folder: stores every stage: after an interruption the same call resumes.
        workers: see :func:`~bke.inference.k2_abc`.
        standardize: see :class:`~bke.inference.MMD`.
        seed: see :func:`~bke.inference.k2_abc`.
        progress: see :func:`~bke.inference.k2_abc`.

    Returns:
        A tree like that of :func:`~bke.inference.k2_abc`, with particles of equal weight and one
        epsilon, the last. Its ``ess`` counts copies of a particle as one. In addition ``stages``
        (stage): ``epsilon``, ``acceptance_rate``, ``ess``; ``prior``; and the attribute
        ``stopped``, the reason for stopping.

    Raises:
        InputError: if an argument is not valid, or all simulations fail.
    """
    # Options and prior are checked before a kernel is learned.
    sampler = ParticleSampler(
        epsilon, num_particles, num_mcmc_steps, num_simulations, min_acceptance_rate
    )
    checked = Prior(prior)
    checked.check_continuous("sequential_k2_abc")
    distance = MMD(
        observed, kernel, estimator, num_features=num_features, standardize=standardize, seed=seed
    )
    problem = InverseProblem(
        "sequential_k2_abc", observed, simulate, checked, distance, rows, workers, seed
    )
    return sampler.sample(problem, folder, progress)


def sequential_abc(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    distance: DatasetDistance,
    epsilon: float | None = None,
    num_particles: int = 1000,
    num_mcmc_steps: int = 3,
    num_simulations: int = 50_000,
    min_acceptance_rate: float = 0.01,
    rows: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by sequential Monte Carlo with a distance of your choice.

    Arguments without a description, the result and the errors are those of
    :func:`sequential_k2_abc`.

    Args:
        observed: see :func:`sequential_k2_abc`.
        simulate: see :func:`sequential_k2_abc`.
        prior: see :func:`sequential_k2_abc`.
        distance: see :func:`~bke.inference.abc`; weights are exp(-d^2 / epsilon).
        epsilon: see :func:`sequential_k2_abc`.
        num_particles: see :func:`sequential_k2_abc`.
        num_mcmc_steps: see :func:`sequential_k2_abc`.
        num_simulations: see :func:`sequential_k2_abc`.
        min_acceptance_rate: see :func:`sequential_k2_abc`.
        rows: see :func:`sequential_k2_abc`.
        folder: see :func:`sequential_k2_abc`.
        workers: see :func:`sequential_k2_abc`.
        seed: see :func:`sequential_k2_abc`.
        progress: see :func:`sequential_k2_abc`.

    Raises:
        InputError: see :func:`sequential_k2_abc`.
    """
    sampler = ParticleSampler(
        epsilon, num_particles, num_mcmc_steps, num_simulations, min_acceptance_rate
    )
    problem = InverseProblem(
        "sequential_abc", observed, simulate, prior, distance, rows, workers, seed
    )
    return sampler.sample(problem, folder, progress)
