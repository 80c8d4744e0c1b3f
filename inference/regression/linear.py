"""Bayesian linear regression on embeddings that are known up to their posterior.

Given the variance of every group the posterior of the slopes is normal; it is worked out in turns
with these variances, which hang on the slopes.
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

    def predicted(self, centre: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y of groups, and its variance in parts (3, G).

        The parts are of the embeddings' sampling, of the slopes, and the noise.
        """
        design = _design(centre)
        squares = self.slopes[1:] ** 2 + np.diag(self.covariance)[1:]
        of_slopes = np.einsum("gi,ij,gj->g", design, self.covariance, design)
        parts = np.stack([variance @ squares, of_slopes, np.full(len(design), self.noise)])
        return design @ self.slopes, parts


def regression(
    centre: np.ndarray, variance: np.ndarray, y: np.ndarray, like: Fit | None = None
) -> Fit:
    """Fit slopes, noise and the slopes' scale.

    Both variances have the largest marginal likelihood under wide log-normal priors.

    Args:
        centre: (G, q), means of the embeddings.
        variance: (G, q), their variances.
        y: (G,), with mean 0 and deviation 1.
        like: a fit of nearly the same data, from which this one starts.
    """
    design = _design(centre)
    usual = float(np.sum(np.mean(centre**2, axis=0))) if centre.size else 1.0
    typical = np.array([0.0, -np.log(usual or 1.0)])
    theta, added = typical - np.log([2.0, 1.0]), np.zeros(len(y))
    slopes = np.zeros(design.shape[1])
    if like is not None:
        theta = np.log([like.noise, like.scale])

    def lost(at: np.ndarray) -> float:
        return (
            float(np.sum((at - typical) ** 2)) / (2.0 * WIDE**2)
            - _posterior(design, y, added, at)[0]
        )

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
