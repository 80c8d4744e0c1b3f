"""The interface of statistics of two samples."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..core.machine import side_by_side
from ..permutation.null_distribution import neg_log_tails, standardize
from ..permutation.pooled_sample import PooledSample, Request


class Evaluation(NamedTuple):
    """The values of a statistic.

    Attributes:
        values: (k, 1 + B), for the observed and the permuted labels.
        details: further results, such as those of regions.
    """

    values: np.ndarray
    details: Any = None


class NullOptions(NamedTuple):
    """Options of the comparison of observed values with those of permutations.

    Attributes:
        n_observed: number of first columns that are observed statistics, each of which is compared
            with the others alone.
        is_balanced: true if both samples are of one size, so that exchanging them changes the sign
            of a difference, whose mean is zero.
        approximate: true if tail probabilities are approximated.
    """

    n_observed: int = 0
    is_balanced: bool = False
    approximate: bool = False

    def neg_log_tails(self, values: np.ndarray) -> np.ndarray:
        """Compute minus the log tail probability of each value (..., 1 + B)."""
        return neg_log_tails(values, n_observed=self.n_observed, approximate=self.approximate)

    def standardize(self, values: np.ndarray, *, zero_mean: bool = False) -> np.ndarray:
        """Standardize each row (..., 1 + B)."""
        return standardize(values, zero_mean=zero_mean, n_observed=self.n_observed)


class Statistic(abc.ABC):
    """A statistic of two samples, with options that are chosen without knowledge of the labels.

    A new statistic defines :meth:`choose`, :meth:`requests` and ``component_weights``. It is tested
    alone by ``two_sample_test(..., statistic=)``, and in all two-sample tests if it is added to
    ``STATISTICS`` of :mod:`bke.inference.statistics.combined`. Any statistic gives an exact test of
    independent rows and of exchangeable pairs, as long as :meth:`choose` uses no labels and
    :meth:`summarize` treats all columns alike.

    Attributes:
        component_weights: name and weight of each component of the combined statistic.
    """

    component_weights: ClassVar[tuple[tuple[str, float], ...]]

    @classmethod
    @abc.abstractmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Choose scales and locations by ``sample.selection``."""

    @abc.abstractmethod
    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Return requests for sums over the rows, the result of each of which is (k_i, 1 + B)."""

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the statistic for all labels.

        Args:
            sample: pooled rows.
            advance: progress callback.
        """
        requests = self.requests(sample)
        results = side_by_side(lambda index: sample.answer(requests[index]), len(requests), Event())
        return self.collect(results)

    def collect(self, results: Sequence[np.ndarray]) -> Evaluation:
        """Combine the results of all requests."""
        return Evaluation(np.concatenate(results))

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Reduce values (k, 1 + B) to one statistic (1 + B,) for each component.

        By default to the largest standardized value.
        """
        return [null.standardize(values).max(axis=0)]
