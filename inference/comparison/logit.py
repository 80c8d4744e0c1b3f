"""Labels as what they are, yes or no: a Gaussian process of the log ratio, whose ratio is positive.

A row at z is of P with probability ``expit(logit(share) + g(z))``, ``g = log(p / q)``, and g is a
sum of the same eigenfunctions as the tilt's. Its prior variance is that of h there, ``s^2 / (share
(1 - share))``: for small differences both are one model. The posterior of g is taken for normal
about its mode (Laplace), which of so many labels per coefficient it nearly is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from threading import Event

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import expit, log_expit, logit

from ..core.errors import InputError
from ..core.machine import side_by_side
from ..permutation.pooled_sample import PooledSample
from .belief import Belief, weighed

#: Points beyond which every step of the search would take too long.
MOST_POINTS = 20_000
STEPS, CLOSE = 50, 1e-8


@dataclasses.dataclass(frozen=True)
class Labels:
    """How many of the rows with equal features are of P.

    Attributes:
        features: (k, r).
        first: (k,), how many of P.
        counts: (k,), how many in all.
        offset: log odds where samples do not differ.
    """

    features: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    offset: float

    def log_likelihood(self, coefficients: np.ndarray) -> float:
        """The log probability of the labels, nats."""
        odds = self.offset + self.features @ coefficients
        return float(self.first @ log_expit(odds) + (self.counts - self.first) @ log_expit(-odds))

    def slopes(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its gradient (r,) and minus its second derivative (r, r)."""
        chance = expit(self.offset + self.features @ coefficients)
        weights = self.counts * chance * (1.0 - chance)
        gradient = self.features.T @ (self.first - self.counts * chance)
        return gradient, (self.features.T * weights) @ self.features


@dataclasses.dataclass(frozen=True)
class LogitBelief(Belief):
    """The posterior of a difference by yes-or-no labels.

    Attributes:
        modes: of the coefficients, (S, r) at each lengthscale.
        rows: the pooled rows.
    """

    modes: Sequence[np.ndarray]
    rows: PooledSample

    def coefficients(
        self, index: int, variances: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw the coefficients of eigenfunctions of the log ratio, (k, r)."""
        labels = _labels(self, self.rows, index)
        found = np.empty((len(variances), labels.features.shape[1]))
        for variance in np.unique(variances):
            mine, mode = variances == variance, self.modes[index][variance]
            precision = labels.slopes(mode)[1] + np.eye(len(mode)) / self._prior(variance)
            factor = np.linalg.cholesky(precision)
            normal = rng.normal(size=(len(mode), mine.sum()))
            found[mine] = (mode[:, None] + solve_triangular(factor.T, normal)).T
        return found

    def difference(self, values: np.ndarray) -> np.ndarray:
        """Turn log ratios into h: p / q = (1 + (1 - share) h) / (1 - share h)."""
        return np.asarray(np.expm1(values) / (1.0 + self.share * np.expm1(values)))

    def _prior(self, variance: int) -> float:
        return float(self.variances[variance] / (self.share * (1.0 - self.share)))


def with_logit(gaussian: Belief, rows: PooledSample) -> LogitBelief:
    """The posterior by yes-or-no labels on the grid of that by Gaussian ones.

    Raises:
        InputError: for more points than it is fast for, and for rows that belong together.
    """
    if not rows.is_independent:
        why = "have weights" if (rows.permutation_type == "signs") else "belong together"
        raise InputError(f"labels='logit' is for independent rows of one weight, and these {why}")
    observed = rows.observed()
    if len(observed.points) > MOST_POINTS:
        raise InputError(
            f"labels='logit' is for at most {MOST_POINTS} different rows, and there are "
            f"{len(observed.points)}: labels='gaussian' takes any number"
        )
    fields = {one.name: getattr(gaussian, one.name) for one in dataclasses.fields(Belief)}
    start = LogitBelief(**fields, modes=(), rows=observed)

    def one(index: int) -> tuple[np.ndarray, np.ndarray]:
        labels = _labels(start, observed, index)
        mode, modes, logs = np.zeros(labels.features.shape[1]), [], []
        for variance in range(len(start.variances)):
            mode, log = _laplace(labels, start._prior(variance), mode)
            modes.append(mode)
            logs.append(log)
        return np.array(modes), np.array(logs)

    found = side_by_side(one, len(start.lengthscales), Event())
    modes, logs = zip(*found, strict=True)
    weights, total = weighed(start.log_prior + np.array(logs))
    return dataclasses.replace(start, weights=weights, log_bayes_factor=total, modes=modes)


def _labels(believed: Belief, rows: PooledSample, index: int) -> Labels:
    """The labels with the eigenfunctions of a lengthscale."""
    functions = believed.functions(index, rows.points)
    return Labels(functions, rows.first_counts, rows.counts, float(logit(rows.first_fraction)))


def _laplace(labels: Labels, variance: float, start: np.ndarray) -> tuple[np.ndarray, float]:
    """The mode of the coefficients (r,), and the log evidence over that of no difference, nats."""
    mode, identity = start, np.eye(len(start))

    def density(coefficients: np.ndarray) -> float:
        return labels.log_likelihood(coefficients) - 0.5 * coefficients @ coefficients / variance

    height = density(mode)
    for _ in range(STEPS):
        gradient, curvature = labels.slopes(mode)
        factor = cho_factor(curvature + identity / variance, lower=True)
        step = cho_solve(factor, gradient - mode / variance)
        # Concave: a step that overshoots is halved.
        while (reached := density(mode + step)) < height and np.abs(step).max() > CLOSE:
            step = 0.5 * step
        mode, gained, height = mode + step, reached - height, reached
        if gained < CLOSE:
            break
    curvature = labels.slopes(mode)[1]
    determinant = np.linalg.slogdet(identity + variance * curvature)[1]
    return mode, float(height - 0.5 * determinant - labels.log_likelihood(np.zeros(len(mode))))
