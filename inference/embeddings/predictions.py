"""What conditional embeddings say at points, blank where their weights say too little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from bke.models import ConditionalEmbedding
from bke.models.embeddings.conditional.rules import BayesRule
from bke.models.embeddings.pre_image import pre_images

#: Sums of weights outside are unusual, and nothing is told where they are below the least.
USUAL_SUMS, LEAST_SUM = (0.8, 1.2), 0.1


class Moments(NamedTuple):
    """Mean and deviation at each row that is asked for, NaN where nothing can be told.

    Attributes:
        mean: (m, E).
        deviation: (m, E), NaN also where the variance came out negative, as some weights are.
        imaginary: (m,), where that happened in some column.
        total: (m,), the sum of the weights, 1 where the pairs say enough.
    """

    mean: np.ndarray
    deviation: np.ndarray
    imaginary: np.ndarray
    total: np.ndarray


class PosteriorPoints(NamedTuple):
    """Mean and mode (m, D) of each posterior, and sums of weights (m,); NaN where unknown.

    The mode is the point whose own embedding is nearest to that of the posterior.
    """

    mean: np.ndarray
    mode: np.ndarray
    total: np.ndarray


def moments(learned: ConditionalEmbedding, at: np.ndarray) -> Moments:
    """Conditional mean and standard deviation of Y at the rows of ``at``, (m, D)."""
    weights, total = trusted(learned.weights(at))
    mean = weights @ learned.Y
    variance = np.full_like(mean, np.nan)
    known = ~np.isnan(mean[:, 0])
    if known.any():
        variance[known] = learned.variance(at[known])
    deviation = np.sqrt(np.where(variance > 0.0, variance, np.nan))
    return Moments(mean, deviation, np.any(variance <= 0.0, axis=1), total)


def posterior_points(rule: BayesRule, observed: np.ndarray) -> PosteriorPoints:
    """Posterior mean and mode for every row of ``observed``, (m, E), by kernel Bayes' rule."""
    weights, total = trusted(rule.weights(observed))
    mean = weights @ rule.points
    known = ~np.isnan(weights[:, 0])
    mode = np.full_like(mean, np.nan)
    if known.any():
        mode[known] = pre_images(rule.kernel_x, rule.points, weights[known]).point
    return PosteriorPoints(mean, mode, total)


def trusted(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (m, n) that sum to one, NaN where they sum to too little; and their sums (m,)."""
    total: np.ndarray = weights.sum(axis=1)
    kept = np.where(total > LEAST_SUM, total, np.nan)
    return weights / kept[:, None], total


def unusual(total: np.ndarray) -> np.ndarray:
    """Which sums of weights (m,) say that a row is far from all pairs."""
    low, high = USUAL_SUMS
    return np.asarray((total < low) | (total > high))
