"""Where data and predictions disagree: the witness over its standard error at every observation."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.spatial.distance import cdist

#: Predicted rows that all observations are compared with, at most.
ROWS = 20_000
#: Observations with fewer predictions near them than this are compared with more of them: that R
#: rows came nowhere near says only that they do so less often than 1 in R.
RARE, MORE_ROWS = 30, 500_000
#: So many observations, at most, those with the highest scores.
COMPARED_AGAIN = 20
ROWS_AT_ONCE = 100


@dataclasses.dataclass(frozen=True)
class Scorer:
    """The witness at the lengthscale of a test, against one set of predictions.

    Attributes:
        predicted: predictions (R, D) in random order, in the units of ``lengthscale``.
        lengthscale: of the squared exponential kernel.
    """

    predicted: np.ndarray
    lengthscale: float

    def witness(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """mu_hat of points (n, D) less mu_hat of the predictions there, and its standard error.

        The error is that of an average of n predicted values. An observation counts itself, so that
        one where nothing is predicted stands out.
        """
        first = self.predicted[:ROWS]
        own = np.empty(len(points))
        mean, variance = np.empty(len(points)), np.empty(len(points))
        for start in range(0, len(points), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            own[part] = self._kernel(points[part], points).mean(axis=1)
            other = self._kernel(points[part], first)
            mean[part], variance[part] = other.mean(axis=1), other.var(axis=1, ddof=1)
        rows = np.full(len(points), len(first))
        rare = np.flatnonzero(variance * len(first) < RARE)
        if len(self.predicted) > len(first):
            score = np.abs(own - mean)[rare] / self._error(variance, rows, len(points))[rare]
            again = rare[np.argsort(-score, kind="stable")[:COMPARED_AGAIN]]
            for index in again:
                other = self._kernel(points[[index]], self.predicted)[0]
                mean[index], variance[index] = other.mean(), other.var(ddof=1)
            rows[again] = len(self.predicted)
        return own - mean, self._error(variance, rows, len(points))

    def ceiling(self, n: int) -> float:
        """The score of one of ``n`` observations where nothing is predicted."""
        rows = np.array(len(self.predicted))
        return float(1.0 / n / self._error(np.array(0.0), rows, n))

    def _kernel(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 / self.lengthscale**2 * cdist(points, others, "sqeuclidean"))

    @staticmethod
    def _error(variance: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
        """A variance is taken for no smaller than 1 in so many rows."""
        return np.sqrt(np.maximum(variance, 1.0 / rows) * (1.0 / n + 1.0 / rows))
