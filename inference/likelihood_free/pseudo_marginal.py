"""Synthetic likelihood (Wood 2010) by pseudo-marginal Metropolis chains.

The summaries s are treated as Gaussian at every parameter, with mean and covariance of N
simulations at theta: the likelihood is N(s(Y); mean, covariance). This estimate is random. A
random-walk Metropolis chain that stores the estimate of its current point targets the posterior of
the expected likelihood (Andrieu and Roberts 2009), which depends on N, as the covariance is
estimated.

The samplers of NumPyro and BlackJAX need a log-density in JAX operations; simulators are Python
functions of a NumPy generator.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.stats import multivariate_normal

from ..core.errors import InputError, PosteriorWarning
from ..core.progress import progress_bar
from ..data.checks import check_count
from ..diagnostics.diagnosis import convergence
from .distances import Summaries
from .problem import InverseProblem, Prior
from .results import build_tree
from .simulators import (
    Simulate,
    Stream,
    count_failures,
    format_parameters,
    parameters_at,
    seed_sequence,
)

SINGULAR = "summaries whose covariance is singular"
NOT_FINITE = "summaries that are not finite"
TOO_FEW = "too few simulations that did not fail"


def synthetic_likelihood(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    summaries: Callable[[np.ndarray], Any] | Summaries,
    simulations_per_point: int = 50,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 2000,
    rows: int | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a posterior by Wood's synthetic likelihood and pseudo-marginal Metropolis chains.

    Proposals are a random walk in unconstrained coordinates; its scale and covariance are adapted
    during warmup and fixed afterwards. Failed simulations count as data sets that differ from the
    observed one: the likelihood is multiplied by the fraction that did not fail. Parameters at
    which the covariance of the summaries is singular, as where one of them is constant, have
    likelihood zero.

    Args:
        observed: see :func:`~bke.inference.k2_abc`.
        simulate: see :func:`~bke.inference.k2_abc`.
        prior: see :func:`~bke.inference.k2_abc`; of continuous parameters.
        summaries: a function of a data set, (n,) or (n, D), that returns (k,) numbers that are
            nearly Gaussian; see :class:`~bke.inference.Summaries`.
        simulations_per_point: N, more than k + 2. A small N makes the likelihood noisy, and
            chains stick.
        num_chains: number of chains, moved together.
        num_warmup: iterations that are discarded.
        num_samples: draws of each chain after warmup.
        rows: see :func:`~bke.inference.k2_abc`.
        workers: see :func:`~bke.inference.k2_abc`.
        seed: see :func:`~bke.inference.k2_abc`.
        progress: see :func:`~bke.inference.k2_abc`.

    Returns:
        A tree with ``posterior`` (chain, draw), ``sample_stats`` (``log_likelihood``,
        ``accepted``), ``prior`` and ``observed_data``; with attributes ``mixed``, ``rhat``,
        ``ess`` and ``verdict``, a sentence, which is also a warning if the chains have not mixed.

    Raises:
        InputError: if an argument is not valid, or no starting point has a positive likelihood.
    """
    check_count(num_samples, "num_samples", 4)
    check_count(num_warmup, "num_warmup", MetropolisSampler.adaptation_interval)
    check_count(num_chains, "num_chains", 1, 1000)
    checked = Prior(prior)
    checked.check_continuous("synthetic_likelihood")
    statistics = summaries if isinstance(summaries, Summaries) else Summaries(observed, summaries)
    check_count(simulations_per_point, "simulations_per_point", len(statistics.statistics) + 3)
    problem = InverseProblem(
        "synthetic_likelihood", observed, simulate, checked, statistics, rows, workers, seed
    )
    settings = problem.settings(simulations_per_point=simulations_per_point, num_warmup=num_warmup)
    with problem.start_simulator() as simulator:
        sampler = MetropolisSampler(simulator, checked, statistics, simulations_per_point, seed)
        z, log_likelihood, accepted = sampler.run(num_chains, num_warmup, num_samples, progress)
    stats = {"log_likelihood": log_likelihood, "accepted": accepted}
    theta, prior_draws = checked.constrain(z.reshape(-1, z.shape[-1])), sampler.prior_draws
    tree = build_tree(theta, stats, problem, settings, prior=prior_draws, num_chains=num_chains)
    result = convergence(tree["posterior"].to_dataset(), range(num_chains))
    ess, rate = min(result.ess_bulk, result.ess_tail), float(accepted.mean())
    verdict = (
        f"The chains have {'mixed' if result.mixed else 'NOT mixed'}: R-hat {result.rhat:.3f}, "
        f"effective sample size {ess:.0f}, {100 * rate:.0f} % of the proposals accepted."
    )
    if not result.mixed:
        verdict += (
            " Do not rely on them: take more draws, and more simulations per point where few "
            "proposals are accepted."
        )
        warnings.warn(verdict, PosteriorWarning, stacklevel=2)
    tree.attrs.update(
        points_without_likelihood=json.dumps(count_failures(sampler.causes)),
        acceptance_rate=rate,
        mixed=int(result.mixed),
        rhat=result.rhat,
        ess=ess,
        verdict=verdict,
    )
    return tree


@dataclasses.dataclass
class MetropolisSampler:
    """Adaptive random-walk Metropolis chains, whose points are simulated together.

    Attributes:
        simulate: simulates batches.
        prior: prior of the parameters.
        summaries: summaries of the synthetic likelihood.
        simulations_per_point: N.
        seed: random seed.
        starts_per_chain: draws of the prior of which each chain starts at the most likely one; not
            tuned.
        num_prior_draws: draws of the prior whose covariance is that of the first proposals; not
            tuned.
        target_acceptance: acceptance rate to which the scale of the proposals is adapted. It is
            below the usual one, as the likelihood is estimated (Sherlock et al. 2015).
        adaptation_interval: warmup iterations between updates of the proposals' covariance; not
            tuned.
        causes: why points had no likelihood, for every such point.
    """

    simulate: Simulate
    prior: Prior
    summaries: Summaries
    simulations_per_point: int
    seed: int
    starts_per_chain: int = 10
    num_prior_draws: int = 2000
    target_acceptance: float = 0.2
    adaptation_interval: int = 50

    def __post_init__(self) -> None:
        self.causes: list[str] = []
        self._num_batches = 0
        seed = seed_sequence(self.seed, Stream.PRIOR, 1)
        self.prior_draws = self.prior.draw(seed, self.num_prior_draws)

    def run(
        self, num_chains: int, num_warmup: int, num_samples: int, progress: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run the chains: unconstrained points (chain, draw, p), log-likelihoods, acceptance."""
        rng = np.random.default_rng(seed_sequence(self.seed, Stream.MOVES))
        z, log_likelihood = self._starting_points(num_chains)
        log_prior = self.prior.log_density(z)
        root = _cholesky(np.cov(self.prior.unconstrain(self.prior_draws).T))
        log_scale = np.log(2.38 / np.sqrt(z.shape[1]))
        states: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        with progress_bar("iterations", num_warmup + num_samples, show=progress) as advance:
            for iteration in range(num_warmup + num_samples):
                proposed = z + np.exp(log_scale) * rng.standard_normal(z.shape) @ root.T
                log_proposed = self.prior.log_density(proposed)
                inside = np.isfinite(log_proposed)
                proposed = np.where(inside[:, None], proposed, z)
                estimate = self._log_likelihood(proposed)
                log_ratio = estimate + log_proposed - log_likelihood - log_prior
                accepted = inside & (np.log(rng.random(num_chains)) < log_ratio)
                z = np.where(accepted[:, None], proposed, z)
                log_prior = np.where(accepted, log_proposed, log_prior)
                log_likelihood = np.where(accepted, estimate, log_likelihood)
                states.append((z, log_likelihood, accepted))
                if iteration < num_warmup:
                    probability = np.mean(np.exp(np.minimum(log_ratio, 0.0)) * inside)
                    log_scale += (probability - self.target_acceptance) / (iteration + 1) ** 0.6
                    if (iteration + 1) % self.adaptation_interval == 0:
                        # The later half of all chains so far.
                        points = [state[0] for state in states[len(states) // 2 :]]
                        covariance = np.cov(np.concatenate(points).T)
                        if np.all(np.diagonal(np.atleast_2d(covariance)) > 0.0):  # chains moved
                            root = _cholesky(covariance)
                advance(1)
        draws = zip(*states[num_warmup:], strict=True)
        z, log_likelihood, accepted = (np.stack(values, axis=1) for values in draws)
        return z, log_likelihood, accepted

    def _starting_points(self, num_chains: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the most likely of each chain's prior draws, (C, p), and its log-likelihood."""
        seed = seed_sequence(self.seed, Stream.PRIOR, 0)
        theta = self.prior.draw(seed, self.starts_per_chain * num_chains)
        z = self.prior.unconstrain(theta).reshape(self.starts_per_chain, num_chains, -1)
        values = np.stack([self._log_likelihood(points) for points in z])
        if np.all(values == -np.inf):
            cause, count = next(iter(count_failures(self.causes).items()))
            raise InputError(
                f"the synthetic likelihood is known at none of {values.size} draws of the prior, "
                f"at {count} for {cause}: take other summaries or a narrower prior; the first was "
                f"{format_parameters(parameters_at(theta, 0))}"
            )
        rows, chains = np.argmax(values, axis=0), np.arange(num_chains)
        # A chain without a likelihood starts at the best point of all chains.
        missing = values[rows, chains] == -np.inf
        row, chain = np.unravel_index(np.argmax(values), values.shape)
        rows, chains = np.where(missing, row, rows), np.where(missing, chain, chains)
        return z[rows, chains], values[rows, chains]

    def _log_likelihood(self, z: np.ndarray) -> np.ndarray:
        """Estimate the log synthetic likelihood (C,) at points (C, p)."""
        theta = self.prior.constrain(np.repeat(z, self.simulations_per_point, axis=0))
        seed = seed_sequence(self.seed, Stream.DATA, self._num_batches)
        values, causes = self.simulate(theta, seed)
        self._num_batches += 1
        result = np.zeros(len(z))
        good = np.split(causes == "", len(z))
        for i, data_sets in enumerate(np.split(values, len(z))):
            result[i], cause = log_synthetic_likelihood(self.summaries, data_sets, good[i])
            if cause:
                self.causes.append(cause)
        return result


def log_synthetic_likelihood(
    summaries: Summaries, values: np.ndarray, good: np.ndarray
) -> tuple[float, str]:
    """Estimate log N(s(Y); mean, covariance) from N data sets, plus the log fraction of good ones.

    Args:
        summaries: s and s(Y).
        values: data sets (N, n, D).
        good: mask (N,) of those that did not fail.

    Returns:
        The log-likelihood, -inf if there is none, and the reason why there is none.
    """
    s = summaries.compute(values[good])
    finite = np.all(np.isfinite(s), axis=1)
    s = s[finite]
    if len(s) < s.shape[1] + 2:
        return -np.inf, NOT_FINITE if np.sum(~finite) > np.sum(~good) else TOO_FEW
    mean, sd = s.mean(axis=0), s.std(axis=0, ddof=1)
    if not np.all(sd > 0.0):
        return -np.inf, SINGULAR
    # Standardized, as SciPy's test for singularity depends on the scales.
    standardized = (s - mean) / sd
    correlation = standardized.T @ standardized / (len(s) - 1)
    try:
        value = multivariate_normal.logpdf((summaries.statistics - mean) / sd, cov=correlation)
    except ValueError:
        return -np.inf, SINGULAR
    return float(value - np.sum(np.log(sd)) + np.log(len(s) / len(values))), ""


def _cholesky(covariance: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a covariance whose diagonal is increased by a millionth."""
    covariance = np.atleast_2d(covariance)
    return np.linalg.cholesky(covariance + 1e-6 * np.diag(np.diagonal(covariance)))
