"""Synthetic likelihood (Wood 2010): summaries as if they were Gaussian, at every parameter.

Mean and covariance of the summaries s are those of N simulations at theta, and the likelihood is
N(s(Y); mean, covariance). It is random, and a random-walk Metropolis chain keeps the estimate of
the parameters where it is: the chain is then that of the expected likelihood (Andrieu and Roberts
2009), which still hangs on N, as the covariance is estimated.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.progress import progress_bar
from ..data.checks import check_chain_count, check_count
from ..diagnostics.convergence import Convergence, convergence
from .distances import Summaries
from .problem import InverseProblem, Prior
from .results import PosteriorWarning, attributes, tree_of
from .simulators import DATA, PRIOR, Simulate, as_words, commonest, parameters_at, stream

#: Random numbers of the proposals, beside those of ``simulations``.
MOVES = 2
#: Draws of the prior from which each chain takes its best for a start.
STARTS = 10
#: Draws of the prior whose covariance is that of the first proposals.
SPREAD_DRAWS = 2000
#: What the scale of the proposals is adapted to in warm-up: with an estimate for a likelihood the
#: best share is below the usual one (Sherlock et al. 2015).
TARGET_ACCEPTANCE = 0.2
#: Iterations of warm-up between two covariances of the proposals.
RENEWED = 50
#: Pivots of the summaries' correlation matrix below which it counts as singular.
SMALLEST_PIVOT = 1e-6
SINGULAR = "summaries whose covariance is singular"
NOT_FINITE = "summaries that are not finite"
TOO_FEW = "too few simulations that did not fail"


class Estimates(NamedTuple):
    """Synthetic likelihoods of some parameters."""

    log_likelihood: np.ndarray  # (C,), -inf where there is none
    causes: np.ndarray  # (C,) of str: why there is none, "" where there is


def synthetic_likelihood(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    summaries: Callable[[np.ndarray], Any] | Summaries,
    simulations_per_point: int = 50,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 2000,
    rows: int | None = None,
    workers: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Draw a posterior by Wood's synthetic likelihood and pseudo-marginal Metropolis chains.

    Proposals are a random walk in the free coordinates; its scale and covariance are adapted in the
    warm-up and fixed afterwards. Simulations that fail count as what the observed data are not: the
    likelihood is times the share of those that do not. Parameters where the summaries' covariance
    is singular, as where one of them does not vary, have no likelihood and are not visited.

    Args:
        observed: see :func:`~bke.inference.k2_abc`, as all that is not told here.
        simulate: likewise.
        prior: likewise; of continuous parameters.
        summaries: a function of a data set, (n,) or (n, D), to (k,) numbers that are nearly
            Gaussian; see :class:`~bke.inference.Summaries`.
        simulations_per_point: N, more than k + 2. With few the likelihood is noisy and
            chains stick.
        chains: how many, all moved at once.
        warmup: iterations that are not kept.
        draws: iterations of each chain that are.
        rows: likewise.
        workers: likewise.
        seed: likewise.
        progress: likewise.

    Returns:
        A tree with ``posterior`` (chain, draw), ``sample_stats`` (``log_likelihood``,
        ``accepted``), ``prior`` and ``observed_data``; among the attributes ``mixed``, ``rhat``,
        ``ess`` and ``verdict``, a sentence, which is also a warning where chains have not mixed.

    Raises:
        InputError: for arguments that make no sense, or where no start has a likelihood.
    """
    check_count(draws, "draws", 4)
    check_count(warmup, "warmup", RENEWED)
    count = check_chain_count(chains)
    believed = Prior.checked(prior)
    believed.check_continuous("synthetic_likelihood")
    chosen = summaries if isinstance(summaries, Summaries) else Summaries(observed, summaries)
    check_count(simulations_per_point, "simulations_per_point", len(chosen.statistics) + 3)
    problem = InverseProblem.checked(
        "synthetic_likelihood",
        observed,
        simulate,
        prior,
        chosen,
        rows=rows,
        workers=workers,
        seed=seed,
    )
    data = problem.data
    settings = problem.settings(simulations_per_point=simulations_per_point, warmup=warmup)
    with problem.simulating() as run:
        walk = _Walk(run, believed, chosen, simulations_per_point, seed)
        z, log_likelihood, accepted = walk.run(count, warmup, draws, progress)
    stats = dict_to_dataset({"log_likelihood": log_likelihood, "accepted": accepted})
    theta = believed.constrain(z.reshape(-1, z.shape[-1]))
    tree = tree_of(theta, stats, data, chains=count)
    drawn = believed.draw(stream(seed, PRIOR, 1), SPREAD_DRAWS)
    tree["prior"] = xr.DataTree(tree_of(drawn, stats, data)["posterior"].to_dataset())
    found = convergence(tree["posterior"].to_dataset(), range(count))
    tree.attrs.update(
        {
            **attributes(settings, data),
            "points_without_likelihood": json.dumps(commonest(walk.causes)),
            "acceptance_rate": float(accepted.mean()),
            "mixed": int(found.mixed),
            "rhat": found.rhat,
            "ess": min(found.ess_bulk, found.ess_tail),
            "verdict": verdict(found, float(accepted.mean())),
        }
    )
    if not found.mixed:
        warnings.warn(tree.attrs["verdict"], PosteriorWarning, stacklevel=2)
    return tree


def verdict(found: Convergence, acceptance: float) -> str:
    """Tell whether chains have mixed, in a sentence or two."""
    ess = min(found.ess_bulk, found.ess_tail)
    figures = (
        f"R-hat {found.rhat:.3f}, effective sample size {ess:.0f}, {100 * acceptance:.0f} % of "
        "the proposals accepted"
    )
    if found.mixed:
        return f"The chains have mixed: {figures}."
    return (
        f"The chains have NOT mixed: {figures}. Do not rely on them: take more draws, and more "
        "simulations per point where few proposals are accepted."
    )


class _Walk:
    """Chains side by side, all of whose points are simulated together."""

    def __init__(
        self, run: Simulate, prior: Prior, summaries: Summaries, simulations: int, seed: int
    ) -> None:
        self._simulate, self._prior, self._summaries = run, prior, summaries
        self._simulations, self._seed = simulations, seed
        self._batches = 0
        self.causes: list[str] = []

    def run(
        self, chains: int, warmup: int, draws: int, progress: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run the chains: free coordinates (chain, draw, p), log likelihoods, acceptance."""
        rng = np.random.default_rng(stream(self._seed, MOVES))
        z, log_likelihood = self._starts(chains)
        log_prior = self._prior.log_density(z)
        dimension = z.shape[1]
        spread = self._prior.unconstrain(
            self._prior.draw(stream(self._seed, PRIOR, 1), SPREAD_DRAWS)
        )
        root = np.linalg.cholesky(_regular(np.atleast_2d(np.cov(spread.T))))
        log_scale = np.log(2.38 / np.sqrt(dimension))
        places, likelihoods, moved = [], [], []
        with progress_bar("iterations", warmup + draws, shown=progress) as advance:
            for iteration in range(warmup + draws):
                step = np.exp(log_scale) * rng.standard_normal(z.shape) @ root.T
                proposed = z + step
                log_proposed = self._prior.log_density(proposed)
                inside = np.isfinite(log_proposed)
                proposed = np.where(inside[:, None], proposed, z)
                found = self._estimates(proposed)
                ratio = found.log_likelihood + log_proposed - log_likelihood - log_prior
                taken = inside & (np.log(rng.random(chains)) < ratio)
                z = np.where(taken[:, None], proposed, z)
                log_prior = np.where(taken, log_proposed, log_prior)
                log_likelihood = np.where(taken, found.log_likelihood, log_likelihood)
                places.append(z)
                likelihoods.append(log_likelihood)
                moved.append(taken)
                if iteration < warmup:
                    probability = np.mean(np.exp(np.minimum(ratio, 0.0)) * inside)
                    log_scale += (probability - TARGET_ACCEPTANCE) / (iteration + 1) ** 0.6
                    if (iteration + 1) % RENEWED == 0:
                        root = _renewed(places, root)
                advance(1)
        kept = slice(warmup, None)
        return (
            np.stack(places[kept], axis=1),
            np.stack(likelihoods[kept], axis=1),
            np.stack(moved[kept], axis=1),
        )

    def _starts(self, chains: int) -> tuple[np.ndarray, np.ndarray]:
        """Choose for each chain the best of its own draws of the prior, (C, p)."""
        drawn = self._prior.draw(stream(self._seed, PRIOR, 0), STARTS * chains)
        z = self._prior.unconstrain(drawn).reshape(STARTS, chains, -1)
        found = [self._estimates(one) for one in z]
        values = np.stack([one.log_likelihood for one in found])
        best = np.argmax(values, axis=0)
        if np.all(values == -np.inf):
            cause, times = next(iter(commonest(self.causes).items()))
            raise InputError(
                f"the synthetic likelihood is known at none of {values.size} draws of the prior, "
                f"at {times} for {cause}: take other summaries or a narrower prior; the first was "
                f"{as_words(parameters_at(drawn, 0))}"
            )
        highest = np.unravel_index(np.argmax(values), values.shape)
        chosen = z[best, np.arange(chains)]
        likelihood = values[best, np.arange(chains)]
        nowhere = likelihood == -np.inf  # begins where another chain does
        chosen = np.where(nowhere[:, None], z[highest], chosen)
        return chosen, np.where(nowhere, values[highest], likelihood)

    def _estimates(self, z: np.ndarray) -> Estimates:
        """Estimate the synthetic likelihood at (C, p) points."""
        theta = self._prior.constrain(np.repeat(z, self._simulations, axis=0))
        values, causes = self._simulate(theta, stream(self._seed, DATA, self._batches))
        self._batches += 1
        of_point = zip(np.split(values, len(z)), np.split(causes, len(z)), strict=True)
        found = [log_synthetic_likelihood(self._summaries, one, why == "") for one, why in of_point]
        self.causes += [why for _, why in found if why]
        return Estimates(
            np.array([value for value, _ in found]), np.array([why for _, why in found])
        )


def log_synthetic_likelihood(
    summaries: Summaries, values: np.ndarray, good: np.ndarray
) -> tuple[float, str]:
    """Estimate log N(s(Y); mean, covariance) from N data sets, with the log share of good ones.

    Args:
        summaries: s, with s(Y) in it.
        values: (N, n, D).
        good: (N,), which of them count.

    Returns:
        The value, -inf where there is none, and why there is none.
    """
    s = summaries.of(values[good])
    finite = np.all(np.isfinite(s), axis=1)
    s = s[finite]
    if len(s) < s.shape[1] + 2:
        return -np.inf, NOT_FINITE if np.sum(~finite) > np.sum(~good) else TOO_FEW
    spread = s.std(axis=0, ddof=1)
    if not np.all(spread > 0.0):
        return -np.inf, SINGULAR
    standard = (s - s.mean(axis=0)) / spread
    try:
        root = np.linalg.cholesky(standard.T @ standard / (len(s) - 1))
    except np.linalg.LinAlgError:
        return -np.inf, SINGULAR
    pivots = np.diagonal(root)
    if pivots.min() < SMALLEST_PIVOT:
        return -np.inf, SINGULAR
    away = np.linalg.solve(root, (summaries.statistics - s.mean(axis=0)) / spread)
    log_volume = np.sum(np.log(spread)) + np.sum(np.log(pivots))
    value = -0.5 * (away @ away + len(away) * np.log(2.0 * np.pi)) - log_volume
    return float(value + np.log(len(s) / len(values))), ""


def _renewed(places: list[np.ndarray], root: np.ndarray) -> np.ndarray:
    """Renew the proposals: a root of the covariance of the later half of all chains so far."""
    later = np.concatenate(places[len(places) // 2 :])
    covariance = np.atleast_2d(np.cov(later.T))
    if not np.all(np.diagonal(covariance) > 0.0):  # no chain has moved
        return root
    return np.linalg.cholesky(_regular(covariance))


def _regular(covariance: np.ndarray) -> np.ndarray:
    """Add a little to a covariance's diagonal, so that no direction is left out."""
    return covariance + 1e-6 * np.diag(np.diagonal(covariance))
