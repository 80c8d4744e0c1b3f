"""The difference of locations, by normal scores of the ranks.

Kernels detect a shift at long lengthscales only, as one scale of many. Each value is replaced by
the quantile of the standard normal distribution at its rank in the column (van der Waerden's
scores; Hajek, Sidak and Sen 1999, section 4.1). For normal rows the test is as powerful as a
comparison of means, and more powerful with heavy tails or skewness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtri

from ..permutation.null_distribution import without_rounding
from ..permutation.pooled_sample import FeatureSums, PooledSample, Request
from .base import Evaluation, NullOptions, Statistic

#: Largest number of values of a column at which scores are computed; others are interpolated.
MAX_VALUES = 4096


def normal_scores(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the normal quantile of the middle rank of each different value.

    Args:
        values: (C,).
        counts: (C,), number of rows with each.

    Returns:
        Sorted values and their scores, (k,) each. Very many values are thinned evenly in rank.
    """
    distinct, which = np.unique(values, return_inverse=True)
    weight = np.bincount(which, weights=counts, minlength=len(distinct))
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    if len(distinct) > MAX_VALUES:
        even = np.searchsorted(middle, (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES)
        even = even.clip(max=len(middle) - 1)  # the largest value may have many ties
        selected = np.unique(np.concatenate([[0], even, [len(distinct) - 1]]))
        distinct, middle = distinct[selected], middle[selected]
    return distinct, ndtri(middle)


@dataclasses.dataclass(frozen=True)
class NormalScores:
    """Normal scores of each column, as features.

    Attributes:
        tables: for each column sorted values and their scores, (k,) each.
    """

    tables: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def of(cls, points: np.ndarray, counts: np.ndarray) -> NormalScores:
        """Compute the scores of points (C, D) with the counts (C,) of their rows."""
        return cls(tuple(normal_scores(column, counts) for column in points.T))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate the scores (r, D) of rows (r, D)."""
        columns = zip(points.T, self.tables, strict=True)
        return np.stack([np.interp(column, *table) for column, table in columns], axis=1)


@dataclasses.dataclass(frozen=True)
class Location(Statistic):
    """The squared distance of the mean normal scores of both samples.

    The difference of each column is divided by its standard error if P = Q, which is the same for
    all columns of independent rows, but not of pairs.

    Attributes:
        scores: normal scores.
    """

    scores: NormalScores
    component_weights: ClassVar = (("in location", 0.5),)

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Compute the scores of the pooled rows."""
        chosen = sample.selection
        return cls(NormalScores.of(chosen.points, chosen.counts))

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the distance, (1, 1 + B)."""
        if sample.is_independent:
            return super().evaluate(sample)
        moments = sample.moments(self.scores, len(self.scores.tables))
        variances = np.diag(moments.covariance)
        weights = np.divide(1.0, variances, out=np.zeros_like(variances), where=variances > 0.0)
        values = weights @ np.square(moments.differences)
        if moments.observed_excess is not None:
            values[0] -= weights @ np.diag(moments.observed_excess)
        return Evaluation(without_rounding(values, float(len(weights)))[None])

    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Request the sums of the scores."""
        dimension = len(self.scores.tables)

        def finish(sums: FeatureSums) -> np.ndarray:
            differences = sample.mean_differences(sums.first, sums.total)
            return without_rounding(np.square(differences).sum(axis=0), float(dimension))[None]

        return [Request(self.scores, dimension, finish)]

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Return the distance itself."""
        return [values[0]]
