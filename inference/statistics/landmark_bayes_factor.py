"""Bayes factors of a difference of the mean embeddings at landmarks.

The prior of the difference is that of Bayesian kernel embeddings. At landmarks v the difference of
the empirical embeddings, w = mu_P - mu_Q, has a sampling covariance C by the central limit theorem.
If P = Q it is N(0, C); if the difference is a draw from a Gaussian process with covariance s^2 r it
is N(0, C + s^2 R). The ratio of the two densities is a Bayes factor for one lengthscale and one s,
up to the central limit theorem and the estimate of C. The permutation test requires neither.
:func:`~bke.inference.two_sample_test` averages the Bayes factors with ``"bayes_factor"``; the
combined statistic has the generalized mean of their p-values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from threading import Event
from typing import ClassVar, Self

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.linalg import LinAlgError, eigh
from scipy.spatial.distance import cdist

from ..core.machine import side_by_side
from ..data.canonical import random_part
from ..permutation.moments import Moments
from ..permutation.null_distribution import generalized_mean, without_rounding
from ..permutation.pooled_sample import FeatureSums, PooledSample, Request, RowSubset
from .base import Evaluation, NullOptions, Statistic
from .kernels import GAUSSIAN, LARGE_SAMPLE, landmark_lengthscales
from .label_bayes_factor import PRODUCT_ROWS, SCALES_ORDER

#: Largest number of landmarks, and smallest number of rows for each.
MAX_LANDMARKS, ROWS_PER_LANDMARK = 60, 8
#: Prior variances s^2 of the difference, in units of k(x, x) = 1.
VARIANCES = (1e-3, 1e-2, 1e-1)
#: Jitter of C relative to its mean diagonal: features of a long lengthscale are nearly collinear.
JITTER = 1e-8
#: Factor by which rounding errors of a log Bayes factor exceed those of other statistics; the
#: jitter lets them grow to about its root.
ROUNDING = 1e4


def draw_landmarks(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Choose rows (m, D) by the initialization of k-means++.

    Args:
        points: (N, D) in canonical order.
        count: largest number of landmarks. It is at most N / :data:`ROWS_PER_LANDMARK`: with as
            many landmarks as rows C is singular, and no difference can be detected.
        seed: random seed of the choice.
    """
    count = max(2, min(count, len(points) // ROWS_PER_LANDMARK))
    points = random_part(points, LARGE_SAMPLE, seed)
    rng = np.random.default_rng(seed)
    return np.asarray(points[kmeans_plusplus(points, count, rng)])


@dataclasses.dataclass(frozen=True)
class LandmarkBayesFactors(Statistic):
    """Log Bayes factors of "P and Q differ" for several lengthscales and variances.

    Attributes:
        lengthscales: (L,), in units of the scaled columns.
        landmarks: (k, D).
    """

    lengthscales: np.ndarray
    landmarks: np.ndarray
    component_weights: ClassVar = (("at landmarks", 1.0),)

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Choose the lengthscales and landmarks, fewer for a small effective number of rows."""
        most = MAX_LANDMARKS
        if sample.permutation_type == "signs":
            most = min(most, int(sample.effective_sizes.min()) // ROWS_PER_LANDMARK)
        landmarks = draw_landmarks(sample.selection.points, most, 0)
        return cls(landmark_lengthscales(sample), landmarks)

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the Bayes factors, (L S, 1 + B), in nats."""
        if len(sample.points) > LARGE_SAMPLE and sample.is_independent:
            evaluation = super().evaluate(sample)
            if advance is not None:
                advance(len(self.lengthscales))
            return evaluation

        def evaluate_at(index: int) -> np.ndarray:
            lengthscale = self.lengthscales[index]
            features = GAUSSIAN.at(self.landmarks, float(lengthscale))
            moments = sample.moments(features, len(self.landmarks))
            values = self._log_bayes_factors(sample, moments, lengthscale)
            if advance is not None:
                advance(1)
            return values

        return self.collect(side_by_side(evaluate_at, len(self.lengthscales), Event()))

    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Request the sums of a few lengthscales at a time, with C estimated from some rows."""
        subset, count = RowSubset.of(sample, PRODUCT_ROWS), len(self.landmarks)

        def request(run: tuple[float, ...]) -> Request[np.ndarray]:
            features = GAUSSIAN.at(self.landmarks, *run)

            def finish(sums: FeatureSums) -> np.ndarray:
                values = []
                for index, (lengthscale, kernel) in enumerate(
                    zip(run, features.iterate(subset.points), strict=True)
                ):
                    block = slice(index * count, (index + 1) * count)
                    moments = subset.moments(sample, sums.first[block], sums.total[block], kernel)
                    values.append(self._log_bayes_factors(sample, moments, lengthscale))
                return np.concatenate(values)

            return Request(features, count * len(run), finish)

        return [request(run) for run in GAUSSIAN.runs(self.lengthscales)]

    def _log_bayes_factors(
        self, sample: PooledSample, moments: Moments, lengthscale: float
    ) -> np.ndarray:
        """Compute log Bayes factors (S, 1 + B) at one lengthscale.

        With R U = C U diag(lambda), U' C U = I and u = U'w the ratio of the densities is
        ``exp(1/2 sum_j (u_j^2 x_j / (1 + x_j) - log(1 + x_j)))``, x = s^2 lambda.
        """
        unit = 1.0 / np.prod(sample.effective_sizes)  # moments are multiplied by sqrt(m n)
        differences, covariance = np.sqrt(unit) * moments.differences, unit * moments.covariance
        if not covariance.any():  # pairs without a difference
            return np.zeros((len(VARIANCES), differences.shape[1]))
        # The covariance r of the embedding for the Lebesgue measure.
        squared_distances = cdist(self.landmarks, self.landmarks, "sqeuclidean")
        prior = np.exp(-0.25 * squared_distances / lengthscale**2)
        eigenvalues, basis = simultaneous_diagonalization(prior, covariance)
        squares = (basis.T @ differences) ** 2
        if moments.observed_excess is not None:
            squares[:, 0] -= np.sum(basis * (unit * moments.observed_excess @ basis), axis=0)
        x = np.outer(VARIANCES, np.clip(eigenvalues, 0.0, None))
        return np.asarray(0.5 * ((x / (1.0 + x)) @ squares - np.log1p(x).sum(axis=1)[:, None]))

    def collect(self, results: Sequence[np.ndarray]) -> Evaluation:
        """Join the Bayes factors of all lengthscales, without rounding errors."""
        rows = np.concatenate(results)
        return Evaluation(
            np.array([without_rounding(row, ROUNDING * np.abs(row).max()) for row in rows])
        )

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Return the generalized mean of the p-values of all Bayes factors."""
        return [generalized_mean(null.neg_log_tails(values), SCALES_ORDER)]


def simultaneous_diagonalization(
    prior: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve R U = C U diag(lambda) with U' C U = I: eigenvalues (k,) and U (k, k).

    :data:`JITTER` is added to C, and more of it if rounding errors make C indefinite, as for
    landmarks at very different distances.

    Raises:
        scipy.linalg.LinAlgError: C is not a covariance.
    """
    unit = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    for jitter in JITTER * np.array([1.0, 1e2, 1e4]):
        try:
            eigenvalues, basis = eigh(prior, covariance + jitter * unit)
        except LinAlgError as error:
            failed = error
        else:
            return eigenvalues, basis
    raise failed
