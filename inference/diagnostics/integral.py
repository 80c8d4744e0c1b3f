"""Integral of the posterior density: read from a run, or estimated by bridge sampling.

Bridge sampling is that of Meng and Wong, *Simulating ratios of normalizing constants via a simple
identity* (1996), with the optimal bridge (4.1) and a Gaussian fitted to half of the draws as the
second density. The relative error is that of Frühwirth-Schnatter, *Estimating marginal likelihoods
for mixture and Markov switching models using bridge sampling techniques* (2004), with effective
sample sizes. ArviZ has no bridge sampling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import arviz_stats
import numpy as np
import xarray as xr
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from ..core.errors import InputError, SamplingError


@dataclasses.dataclass(frozen=True)
class Integral:
    """The integral of an unnormalized density, such as a posterior's normalizing constant.

    Attributes:
        log: log of the integral.
        error: estimated absolute error of ``log``.
        tolerance: largest acceptable ``error``: the tolerance of quadrature, 0.2 for SMC; ``None``
            for bridge sampling.
        repeats: True if ``error`` is a standard error over independent repeats, as that of SMC.
    """

    log: float
    error: float
    tolerance: float | None = None
    repeats: bool = False

    @property
    def within_tolerance(self) -> bool:
        """True if the error is within the tolerance."""
        return self.tolerance is None or self.error <= self.tolerance


def integral_of(run: xr.DataTree, smc_tolerance: float = 0.2) -> Integral | None:
    """Return the integral that quadrature, SMC or bridge sampling left in a run, if any.

    Args:
        run: the run.
        smc_tolerance: standard error beyond which repeats of SMC disagree. Not tuned.
    """
    name = integral_group(run)
    if name is None:
        return None
    group = run[name]
    repeats = "share" in group
    return Integral(
        float(group.attrs["log_normalizer"]),
        float(group.attrs["log_normalizer_error"]),
        smc_tolerance if repeats else group.attrs.get("tolerance"),
        repeats,
    )


def integral_group(run: xr.DataTree) -> str | None:
    """Return the name of the group with the integral, from which masses of modes follow.

    Its variables are described in :class:`~bke.inference.sampling.samplers.Sampler` and
    :func:`~bke.inference.reweight`.
    """
    names = (name for name, group in run.children.items() if "log_normalizer" in group.attrs)
    return next(names, None)


def normalize_integrals(integrals: Sequence[Integral]) -> tuple[np.ndarray, np.ndarray, Integral]:
    """Return the proportion of each integral in their sum, its standard error, and the sum."""
    log = np.array([integral.log for integral in integrals])
    error = np.array([integral.error for integral in integrals])
    total = float(logsumexp(log))
    mass = np.exp(log - total)
    # d mass_k = mass_k (d log_k - sum_j mass_j d log_j), with independent errors.
    jacobian = mass[:, None] * (np.eye(len(mass)) - mass)
    return (
        mass,
        np.sqrt(jacobian**2 @ error**2),
        Integral(total, float(np.sqrt(mass**2 @ error**2))),
    )


def bridge_sampling(
    z: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    name: str,
    *,
    lp: np.ndarray | None = None,
    widening: float = 1.2,
    max_iterations: int = 1000,
    tolerance: float = 1e-10,
) -> Integral:
    """Estimate the integral of a density over one mode from draws of that mode.

    Args:
        z: draws of the mode, (chain, draw, p).
        log_density: log density (k,) of points (k, p), ``-inf`` outside of the mode.
        rng: random number generator for the draws of the Gaussian.
        name: name of the mode, for errors.
        lp: log density of the draws, (chain, draw); evaluated if it is not known.
        widening: factor of the Gaussian's standard deviations: with tails lighter than those of the
            density, the ratio of both would have a large variance. Not tuned.
        max_iterations: largest number of iterations.
        tolerance: change of the log integral at which iterations end.

    Raises:
        InputError: fewer than 8 draws of each chain, or fewer than 10 for each of the p + 1
            parameters of the Gaussian's mean and scale in the half to which it is fitted (not
            tuned).
        SamplingError: the estimate is not finite.
    """
    half = z.shape[1] // 2
    p = z.shape[2]
    if half < 4 or len(z) * half < 10 * (p + 1):
        raise InputError(
            f"{name} has {z.shape[1]} draws of each of {len(z)} chains, too few for bridge "
            "sampling: take more draws or chains, or another method such as SMC"
        )
    fitted, used = z[:, :half].reshape(-1, p), z[:, half:]
    used_lp = log_density(used.reshape(-1, p)) if lp is None else lp[:, half:].ravel()
    covariance = widening**2 * np.atleast_2d(np.cov(fitted, rowvar=False))
    gaussian = multivariate_normal(fitted.mean(axis=0), covariance)
    count = len(used_lp)
    proposals = np.asarray(gaussian.rvs(count, random_state=rng)).reshape(count, p)
    # Log ratios of the density to the Gaussian.
    draw_ratios = used_lp - np.asarray(gaussian.logpdf(used)).ravel()
    proposal_ratios = log_density(proposals) - np.asarray(gaussian.logpdf(proposals)).reshape(count)
    sizes = arviz_stats.ess(xr.Dataset({"z": (("chain", "draw", "parameter"), used)}))
    n1 = min(float(sizes["z"].min()), float(count))
    s1, s2 = n1 / (n1 + count), count / (n1 + count)
    log = float(np.median(draw_ratios))
    for _ in range(max_iterations):
        upper = proposal_ratios - np.logaddexp(np.log(s1) + proposal_ratios, np.log(s2) + log)
        lower = -np.logaddexp(np.log(s1) + draw_ratios, np.log(s2) + log)
        previous, log = log, float(logsumexp(upper) - logsumexp(lower))
        if abs(log - previous) < tolerance:
            break
    # Averages of the Gaussian over the mixture at draws, and of the density at proposals.
    at_draws = 1.0 / (s1 * np.exp(draw_ratios - log) + s2)
    ratio = np.exp(proposal_ratios - log)
    at_proposals = ratio / (s1 * ratio + s2)
    variance = np.var(at_proposals) / np.mean(at_proposals) ** 2 / count
    variance += np.var(at_draws) / np.mean(at_draws) ** 2 / n1
    if not np.isfinite([log, variance]).all():
        raise SamplingError(f"bridge sampling failed for {name}: take more draws, or use SMC")
    return Integral(log, float(np.sqrt(variance)))
