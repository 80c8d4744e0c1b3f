"""The integral of the posterior density over the hyperparameters, where a run knows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import arviz_stats
import numpy as np
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

#: Standard error of a log normaliser beyond which repeats of SMC do not agree.
ROUGH = 0.2


@dataclasses.dataclass(frozen=True)
class Integral:
    """The integral of the posterior density over the hyperparameters.

    Attributes:
        log: its logarithm, the log normaliser.
        error: estimated absolute error of ``log``.
        tolerance: what ``error`` is to be at most: what quadrature was asked for, 0.2 for SMC;
            ``None`` for bridge sampling.
        repeats: whether ``error`` is a standard error over repeats, as that of SMC is.
    """

    log: float
    error: float
    tolerance: float | None = None
    repeats: bool = False

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.tolerance is None or self.error <= self.tolerance


def integral_of(run: xr.DataTree) -> Integral | None:
    """The integral of a run, from its quadrature, its SMC or its bridge sampling; else ``None``."""
    name = weighing_group(run)
    if name is None:
        return None
    group = run[name]
    attrs, repeats = group.attrs, "share" in group
    return Integral(
        float(attrs["log_normalizer"]),
        float(attrs["log_normalizer_error"]),
        ROUGH if repeats else attrs.get("tolerance"),
        repeats,
    )


def weighing_group(run: xr.DataTree) -> str | None:
    """The name of the group that knows the integral, and with it the masses of modes, if any.

    What it holds depends on how they are known, see
    :class:`~bke.inference.sampling.samplers.base.Sampler` and :func:`~bke.inference.reweight`.
    """
    known = (name for name, group in run.children.items() if "log_normalizer" in group.attrs)
    return next(known, None)


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
