"""Bridge sampling: the integral of a density over one mode, from draws of that mode.

Meng and Wong, *Simulating ratios of normalizing constants via a simple identity* (1996), with the
optimal bridge (4.1) and a Gaussian fitted to half of the draws as the other density. The relative
error is that of Frühwirth-Schnatter, *Estimating marginal likelihoods for mixture and Markov
switching models using bridge sampling techniques* (2004), with effective sample sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import arviz_stats
import numpy as np
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from .integral import Integral

ITERATIONS = 1000
CONVERGED = 1e-10
#: The Gaussian is this much wider than the draws: light tails would make the ratio heavy.
WIDER = 1.2
#: Draws of each chain.
FEWEST_DRAWS = 8
#: Draws of a mode to which a Gaussian of p parameters is fitted, over p + 1.
FEWEST_PER_PARAMETER = 10


def enough_draws(draws: int, chains: int, parameters: int) -> bool:
    """Whether so many draws of each of the chains of a mode are enough for a bridge."""
    fitted = chains * (draws // 2)
    return draws >= FEWEST_DRAWS and fitted >= FEWEST_PER_PARAMETER * (parameters + 1)


def shares(integrals: Sequence[Integral]) -> tuple[np.ndarray, np.ndarray, Integral]:
    """What each mode has of all, with its standard error, and the integral over all modes."""
    log = np.array([integral.log for integral in integrals])
    error = np.array([integral.error for integral in integrals])
    total = float(logsumexp(log))
    mass = np.exp(log - total)
    # d mass_k = mass_k (d log_k - sum_j mass_j d log_j), with independent errors.
    jacobian = mass[:, None] * (np.eye(len(mass)) - mass)
    of_all = Integral(total, float(np.sqrt(mass**2 @ error**2)))
    return mass, np.sqrt(jacobian**2 @ error**2), of_all


def bridge(
    z: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    lp: np.ndarray,
    rng: np.random.Generator,
) -> Integral:
    """Integral over one mode.

    Args:
        z: its draws, (chain, draw, p), at least 8 of each chain.
        log_density: of points (k, p), (k,); ``-inf`` outside the mode.
        lp: log density of the draws, (chain, draw).
        rng: of the Gaussian's draws.
    """
    half = z.shape[1] // 2
    p = z.shape[2]
    fitted, used, lp = z[:, :half].reshape(-1, p), z[:, half:], lp[:, half:]
    covariance = WIDER**2 * np.atleast_2d(np.cov(fitted, rowvar=False))
    proposal = multivariate_normal(fitted.mean(axis=0), covariance)
    count = used.shape[0] * used.shape[1]
    proposed = np.asarray(proposal.rvs(count, random_state=rng)).reshape(count, p)
    # Log ratios of the density to the Gaussian, at draws of either.
    of_draws = (lp - np.asarray(proposal.logpdf(used)).reshape(lp.shape)).ravel()
    of_proposed = log_density(proposed) - np.asarray(proposal.logpdf(proposed)).reshape(count)
    sizes = arviz_stats.ess(xr.Dataset({"z": (("chain", "draw", "parameter"), used)}))
    n1 = min(float(sizes["z"].min()), float(count))
    s1, s2 = n1 / (n1 + count), count / (n1 + count)
    log = float(np.median(of_draws))
    for _ in range(ITERATIONS):
        upper = of_proposed - np.logaddexp(np.log(s1) + of_proposed, np.log(s2) + log)
        lower = -np.logaddexp(np.log(s1) + of_draws, np.log(s2) + log)
        new = float(logsumexp(upper) - logsumexp(lower))
        converged = abs(new - log) < CONVERGED
        log = new
        if converged:
            break
    # What is averaged: the Gaussian over the mixture of both, at draws; the density, at proposals.
    at_draws = 1.0 / (s1 * np.exp(of_draws - log) + s2)
    ratio = np.exp(of_proposed - log)
    at_proposed = ratio / (s1 * ratio + s2)
    squared = np.var(at_proposed) / np.mean(at_proposed) ** 2 / count
    squared += np.var(at_draws) / np.mean(at_draws) ** 2 / n1
    return Integral(log, float(np.sqrt(squared)))
