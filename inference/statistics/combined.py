"""The combined statistic of the two-sample tests: all statistics, for the same permutations.

Each statistic detects differences that the others miss:

- label Bayes factors detect differences at one small scale, or at several scales;
- Bayes factors at landmarks, which weight a difference by its sampling covariance, detect smooth
  differences;
- normal scores detect shifts;
- covariances detect correlations and changes of spread;
- local differences detect a difference in a small region.

All choices are made from the pooled rows, so that the permutation test of the combination has an
exact level.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..permutation.null_distribution import (
    combine_statistics,
    monte_carlo_error,
    neg_log_tails,
    p_value,
)
from ..permutation.pooled_sample import PooledSample
from .base import Evaluation, NullOptions, Statistic
from .covariance import Covariances
from .kernels import KernelScale
from .label_bayes_factor import LabelBayesFactors
from .landmark_bayes_factor import LandmarkBayesFactors
from .local_differences import LocalDifferences, LocalStatistics
from .location import Location

#: Statistics of the combination.
STATISTICS: tuple[type[Statistic], ...] = (
    LabelBayesFactors,
    LandmarkBayesFactors,
    Location,
    Covariances,
    LocalDifferences,
)


class ComponentSummary(NamedTuple):
    """The observed value of a component.

    Attributes:
        name: name of the component.
        statistic: observed value.
        pvalue: p-value of this component alone, not adjusted for the others.
        neg_log_pvalue: minus the log tail probability of the observed value, by all values but the
            largest, in nats. The combination weights components, see ``component_weights``.
    """

    name: str
    statistic: float
    pvalue: float
    neg_log_pvalue: float


def choose_statistics(sample: PooledSample) -> tuple[Statistic, ...]:
    """Choose scales and locations of all statistics, without knowledge of the labels."""
    return tuple(statistic.choose(sample) for statistic in STATISTICS)


def n_scales(statistics: Sequence[Statistic]) -> int:
    """Return the number of kernels of which :meth:`CombinedStatistic.evaluate` reports progress."""
    return sum(len(item.scales) for item in statistics if isinstance(item, LabelBayesFactors))


@dataclasses.dataclass(frozen=True)
class CombinedStatistic:
    """Values of all statistics for all labels, and their combination.

    Attributes:
        statistics: the statistics.
        evaluations: values of each.
        is_balanced: true if both samples are of one size for all labels.
        approximate: true if tail probabilities are approximated.
    """

    statistics: tuple[Statistic, ...]
    evaluations: tuple[Evaluation, ...]
    is_balanced: bool
    approximate: bool = False

    @classmethod
    def evaluate(
        cls,
        sample: PooledSample,
        statistics: Sequence[Statistic] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> CombinedStatistic:
        """Evaluate statistics for all labels.

        Args:
            sample: pooled rows.
            statistics: by default those of :func:`choose_statistics`.
            advance: progress callback, called with the number of completed kernels of
                :class:`~.label_bayes_factor.LabelBayesFactors`.
        """
        statistics = choose_statistics(sample) if statistics is None else tuple(statistics)
        evaluations = tuple(
            statistic.evaluate(
                sample, advance if isinstance(statistic, LabelBayesFactors) else None
            )
            for statistic in statistics
        )
        return cls(statistics, evaluations, sample.is_balanced)

    def select(self, permutations: np.ndarray) -> CombinedStatistic:
        """Select permutations, with approximate tail probabilities, which suffice for an error."""
        evaluations = tuple(Evaluation(values[:, permutations]) for values, _ in self.evaluations)
        return dataclasses.replace(self, evaluations=evaluations, approximate=True)

    @property
    def local(self) -> LocalStatistics:
        """Local differences."""
        for evaluation in self.evaluations:
            if isinstance(evaluation.details, LocalStatistics):
                return evaluation.details
        raise ValueError("local differences were not evaluated")

    @property
    def scale(self) -> KernelScale:
        """Most significant single kernel."""
        for statistic, (values, _) in zip(self.statistics, self.evaluations, strict=True):
            if isinstance(statistic, LabelBayesFactors):
                return statistic.most_significant(values)
        raise ValueError("label Bayes factors were not evaluated")

    def components(self, *, n_observed: int = 0) -> list[np.ndarray]:
        """Return the components, (1 + B,) each, which treat all columns alike.

        Args:
            n_observed: number of first columns that are observed statistics, each compared with
                the others alone.
        """
        if n_observed not in self._cache:
            null = NullOptions(n_observed, self.is_balanced, self.approximate)
            self._cache[n_observed] = [
                component
                for statistic, (values, _) in zip(self.statistics, self.evaluations, strict=True)
                for component in statistic.summarize(values, null)
            ]
        return self._cache[n_observed]

    @functools.cached_property
    def _cache(self) -> dict[int, list[np.ndarray]]:
        return {}

    def values(self, *, n_observed: int = 0) -> np.ndarray:
        """Return the combined statistic (1 + B,); ``n_observed`` as for :meth:`components`."""
        weights = [weight for item in self.statistics for _, weight in item.component_weights]
        return combine_statistics(
            self.components(n_observed=n_observed),
            weights,
            n_observed=n_observed,
            approximate=self.approximate,
        )

    def pvalue_error(self) -> float:
        """Return the Monte Carlo standard error of the p-value of the combined statistic."""
        values = self.values()
        return monte_carlo_error(
            lambda permutations: self.select(permutations).values(), p_value(values), len(values)
        )

    def summaries(self) -> tuple[ComponentSummary, ...]:
        """Return the observed value of each component, the most significant first."""
        names = [name for item in self.statistics for name, _ in item.component_weights]
        components = self.components()
        significance = neg_log_tails(np.array(components), trim=1)[:, 0]
        summaries = [
            ComponentSummary(name, float(values[0]), p_value(values), float(neg_log))
            for name, values, neg_log in zip(names, components, significance, strict=True)
        ]
        return tuple(sorted(summaries, key=lambda summary: -summary.neg_log_pvalue))


def combined_pvalue(sample: PooledSample) -> float:
    """Return the p-value of the combined statistic."""
    return p_value(CombinedStatistic.evaluate(sample).values())
