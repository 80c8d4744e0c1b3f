"""Bayesian linear regression on embeddings that are known up to their posterior.

Given the variance of every group the posterior of the slopes is normal; it is worked out in turns
with these variances, which hang on the slopes. Noise and the slopes' scale are averaged over, which
few groups leave open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

#: Turns, and the change of the slopes, as a share of the largest, at which they end.
TURNS, UNCHANGED = 50, 1e-4
#: Deviation of the prior of both log variances: they are hardly told by few groups.
WIDE = 3.0
#: Where log variances are looked for, of y over its deviation.
BOUNDS = ((-14.0, 3.0), (-25.0, 25.0))
#: Variance of the intercept's prior, in variances of y.
INTERCEPT = 1e4
#: Places of log variances in deviations of their posterior, and weights: Gauss and Hermite's rule.
NODES, WEIGHTS = (-(3.0**0.5), 0.0, 3.0**0.5), (1.0 / 6.0, 2.0 / 3.0, 1.0 / 6.0)
#: Steps of log variances by which the density's curvature is found.
STEP = 0.3


class Fit(NamedTuple):
    """The posterior of a linear regression, for y over its deviation.

    Attributes:
        slopes: (1 + q,), means, of the intercept first.
        covariance: (1 + q, 1 + q).
        noise: the variance of y given its embedding.
        scale: the variance of the slopes' prior.
        design: (G, 1 + q).
        variances: (G,), of every group's y given the slopes: noise, and what its embedding adds.
    """

    slopes: np.ndarray
    covariance: np.ndarray
    noise: float
    scale: float
    design: np.ndarray
    variances: np.ndarray

    def added(self, variance: np.ndarray) -> np.ndarray:
        """What embeddings of these variances (G, q) add to the variance of y, (G,)."""
        return np.asarray(variance @ (self.slopes[1:] ** 2 + np.diag(self.covariance)[1:]))

    def predicted(self, centre: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y of groups, and its variance in parts (3, G).

        The parts are of the embeddings' sampling, of the slopes, and the noise.
        """
        design = _design(centre)
        of_slopes = np.sum((design @ self.covariance) * design, axis=1)
        parts = np.stack([self.added(variance), of_slopes, np.full(len(design), self.noise)])
        return design @ self.slopes, parts


class Average(NamedTuple):
    """Fits at several values of noise and scale, and the posterior of these.

    Attributes:
        fits: the first is that of the most probable values.
        weights: (F,), with sum 1.
        evidence: the log marginal likelihood, up to a constant.
    """

    fits: tuple[Fit, ...]
    weights: np.ndarray
    evidence: float

    def predicted(self, centre: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict as each fit and average; how fits differ is among what slopes leave open."""
        each = [fit.predicted(centre, variance) for fit in self.fits]
        means = np.stack([mean for mean, _ in each])
        mean = self.weights @ means
        parts = np.einsum("f,fpg->pg", self.weights, np.stack([parts for _, parts in each]))
        parts[1] += self.weights @ (means - mean) ** 2
        return mean, parts


def averaged(best: Fit, variance: np.ndarray, y: np.ndarray) -> Average:
    """Average over noise and scale around the most probable ones.

    Nodes of a Gauss-Hermite rule along the axes of the log posterior's curvature, weighed by the
    posterior itself.

    Args:
        best: the fit to the same data.
        variance: (G, q), of the embeddings.
        y: (G,).
    """
    added, typical = best.added(variance), _typical(best.design)
    middle = np.log([best.noise, best.scale])

    def log(at: np.ndarray) -> float:
        return _log_density(at, best.design, y, added, typical)

    step = STEP * np.eye(2)
    sides = [log(middle + one) + log(middle - one) for one in step]
    across = log(middle + step.sum(axis=0)) + log(middle - step.sum(axis=0))
    across -= log(middle + step[0] - step[1]) + log(middle - step[0] + step[1])
    curvature = np.diag(sides) - 2.0 * log(middle) * np.eye(2) + 0.25 * across * (1.0 - np.eye(2))
    values, axes = np.linalg.eigh(-curvature / STEP**2)
    spread = 1.0 / np.sqrt(np.maximum(values, WIDE**-2))
    fits, logs = [best], []
    nodes = sorted(np.ndindex(3, 3), key=lambda node: node != (1, 1))  # the best one first
    for node in nodes:
        place = np.array([NODES[at] for at in node])
        theta = np.clip(middle + axes @ (spread * place), *np.transpose(BOUNDS))
        rule = float(np.log([WEIGHTS[at] for at in node]).sum() + 0.5 * place @ place)
        logs.append(_log_density(theta, best.design, y, added, typical) + rule)
        if node != (1, 1):
            _, slopes, covariance = _posterior(best.design, y, added, theta)
            noise, scale = np.exp(theta).tolist()
            fits.append(Fit(slopes, covariance, noise, scale, best.design, noise + added))
    weights = np.exp(np.array(logs) - max(logs))
    evidence = max(logs) + float(np.log(weights.sum()) + np.log(spread).sum())
    return Average(tuple(fits), weights / weights.sum(), evidence)


def regression(centre: np.ndarray, variance: np.ndarray, y: np.ndarray) -> Fit:
    """Fit slopes, with the noise and the slopes' scale that are most probable.

    Both variances have the largest marginal likelihood under wide log-normal priors.

    Args:
        centre: (G, q), means of the embeddings.
        variance: (G, q), their variances.
        y: (G,), with mean 0 and deviation 1.
    """
    design = _design(centre)
    typical = _typical(design)
    theta, added = typical - np.log([2.0, 1.0]), np.zeros(len(y))
    slopes = np.zeros(design.shape[1])

    def lost(at: np.ndarray) -> float:
        return -_log_density(at, design, y, added, typical)

    for _ in range(TURNS):
        theta = minimize(lost, theta, method="L-BFGS-B", bounds=BOUNDS).x
        _, new, covariance = _posterior(design, y, added, theta)
        still = np.abs(new - slopes).max() <= UNCHANGED * np.abs(new).max()
        slopes, noise = new, float(np.exp(theta[0]))
        variances = noise + added
        if still or not variance.any():
            break
        added = variance @ (slopes[1:] ** 2 + np.diag(covariance)[1:])
    return Fit(slopes, covariance, noise, float(np.exp(theta[1])), design, variances)


def _design(centre: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(centre), 1)), centre], axis=1)


def _typical(design: np.ndarray) -> np.ndarray:
    """Log variances around which the prior is: all of y noise, or all of it told by slopes."""
    usual = float(np.sum(np.mean(design[:, 1:] ** 2, axis=0))) or 1.0
    return np.array([0.0, -np.log(usual)])


def _log_density(
    theta: np.ndarray, design: np.ndarray, y: np.ndarray, added: np.ndarray, typical: np.ndarray
) -> float:
    """Log posterior density of log variances, up to a constant."""
    prior = -float(np.sum((theta - typical) ** 2)) / (2.0 * WIDE**2)
    return prior + _posterior(design, y, added, theta)[0]


def _posterior(
    design: np.ndarray, y: np.ndarray, added: np.ndarray, theta: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log marginal likelihood, and mean and covariance of the slopes, given log variances."""
    noise, scale = np.exp(theta)
    weights = 1.0 / (noise + added)
    prior = np.full(design.shape[1], scale)
    prior[0] = INTERCEPT
    factor = cho_factor(
        design.T @ (weights[:, np.newaxis] * design) + np.diag(1.0 / prior), lower=True
    )
    right = design.T @ (weights * y)
    half = solve_triangular(factor[0], right, lower=True)
    log = 0.5 * (np.log(weights).sum() - weights @ y**2 + half @ half - np.log(prior).sum())
    log -= np.log(np.diag(factor[0])).sum()
    return float(log), cho_solve(factor, right), cho_solve(factor, np.eye(len(prior)))
