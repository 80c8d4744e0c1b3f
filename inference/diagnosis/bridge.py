"""Bridge sampling: the integral of a density over one mode, from draws of that mode.

Meng and Wong, *Simulating ratios of normalizing constants via a simple identity* (1996), with the
optimal bridge (4.1) and a Gaussian fitted to half of the draws as the other density. The relative
error is that of Frühwirth-Schnatter, *Estimating marginal likelihoods for mixture and Markov
switching models using bridge sampling techniques* (2004), with effective sample sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import arviz_stats
import numpy as np
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

ITERATIONS = 1000
CONVERGED = 1e-10
#: The Gaussian is this much wider than the draws: light tails would make the ratio heavy.
WIDER = 1.2


class Integral(NamedTuple):
    """Log of the integral of a density over a mode, and its estimated standard error."""

    log: float
    error: float


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
