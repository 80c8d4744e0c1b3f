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
        """Evaluate mu_hat of points (n, D) less that of the predictions there, and its error.

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
        """Evaluate the score of one of ``n`` observations where nothing is predicted."""
        rows = np.array(len(self.predicted))
        return float(1.0 / n / self._error(np.array(0.0), rows, n))

    def ceiling_note(self, n: int, reach: float) -> tuple[str, ...]:
        """Warn where even an observation that nobody predicts would score below ``reach``."""
        ceiling = self.ceiling(n)
        if ceiling >= reach:
            return ()
        return (
            f"with {len(self.predicted)} predicted rows an observation where none is predicted "
            f"scores no more than {ceiling:.1f}, which is not unusual: more predictive draws would "
            "show it",
        )

    def _kernel(self, points: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 / self.lengthscale**2 * cdist(points, others, "sqeuclidean"))

    @staticmethod
    def _error(variance: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
        """The error of a witness; a variance is taken for no smaller than 1 in so many rows."""
        return np.sqrt(np.maximum(variance, 1.0 / rows) * (1.0 / n + 1.0 / rows))
