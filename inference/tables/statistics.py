"""Test statistics of two tables for derived features and joint rows, and their combination.

Categories use the log Bayes factor of a Gaussian process on labels whose kernel is 1 for equal
codes. Up to terms that do not depend on the labels it is 1/2 sum_a b_a^2 s^2 n_a / (1 + s^2 n_a),
where b_a is the standardized residual of code a. Small variances s^2 weight frequent codes, and
large ones weight all codes equally, as chi^2 does. The largest residual is a second statistic.
Points on a line use the statistics of :func:`~bke.inference.compare`. Joint rows use the log Bayes
factor with a squared exponential kernel of the encoded features of all columns.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.spatial.distance import pdist
from scipy.special import logsumexp

from ..comparison.regions import LocalMeans
from ..data.canonical import random_part
from ..data.equality import positive_distances
from ..permutation.moments import Moments
from ..permutation.null_distribution import generalized_mean, neg_log_tails, standardize
from ..permutation.pooled_sample import PooledSample
from ..statistics.combined import CombinedStatistic
from ..statistics.label_bayes_factor import decompose, inverse_root, label_fits
from ..statistics.local_differences import LocalStatistics
from .derived_features import DerivedFeature
from .encoding import EncodedColumn
from .permuted_labels import PermutedLabels

#: Variances of a difference between codes, times the number of rows.
CODE_VARIANCES = np.geomspace(0.1, 1e3, 7)
#: Largest number of nodes of the joint kernel, and of rows from which they are chosen.
MAX_NODES, MAX_SAMPLED_ROWS = 256, 20_000
#: Number of rows whose pairwise distances are computed for the median distance.
MAX_DISTANCE_ROWS = 1000
#: Longest lengthscale of the joint kernel, in median distances; each of the ``N_LENGTHSCALES`` is
#: half of the one before.
MAX_LENGTHSCALE, N_LENGTHSCALES = 2.0, 4
#: Variances of the joint kernel.
JOINT_VARIANCES = np.geomspace(1e-4, 1e2, 4)
#: Order of the generalized means of p-values, with opposite sign; and weight of the largest column
#: in the last mean, because a change in a single column is the most frequent one.
LARGEST_ORDER, COLUMN_WEIGHT = 2.0, 2.0


class FeatureStatistics(Protocol):
    """Test statistics of a feature for all permutations.

    :class:`~bke.inference.statistics.combined.CombinedStatistic` is one implementation.
    """

    def select(self, permutations: np.ndarray, /) -> Self:
        """Select permutations."""

    def components(self) -> list[np.ndarray]:
        """Return the statistics, (1 + B,) each, which are symmetric in the permutations."""


class BayesFactors(NamedTuple):
    """Log Bayes factors for several kernels, and another statistic.

    Attributes:
        log_bayes_factors: (k, 1 + B), up to terms that do not depend on the labels.
        maximum: (1 + B,), largest residual; ``None`` if there is none.
    """

    log_bayes_factors: np.ndarray
    maximum: np.ndarray | None = None

    def select(self, permutations: np.ndarray, /) -> BayesFactors:
        """Select permutations."""
        maximum = None if self.maximum is None else self.maximum[permutations]
        return BayesFactors(self.log_bayes_factors[:, permutations], maximum)

    def components(self) -> list[np.ndarray]:
        """Return the largest and the sum of the standardized Bayes factors, and the maximum."""
        maximum = [] if self.maximum is None else [self.maximum]
        if len(self.log_bayes_factors) == 1:
            return [self.log_bayes_factors[0], *maximum]
        standardized = standardize(self.log_bayes_factors)
        total = np.asarray(logsumexp(standardized, axis=0))
        return [standardized.max(axis=0), total, *maximum]


class Marginal(NamedTuple):
    """Counts and statistics of a derived feature for all permutations.

    Attributes:
        feature: derived feature.
        counts: (C,), weight of the rows with each code, or with each token.
        labels: (C, 1 + B), weight of those in the first table.
        statistics: test statistics.
        local: local statistics of points; ``None`` for categories.
        sizes: observed weight of the rows with a value, in both tables.
    """

    feature: DerivedFeature
    counts: np.ndarray
    labels: np.ndarray
    statistics: FeatureStatistics
    local: LocalStatistics | None = None
    sizes: tuple[float, float] = (0.0, 0.0)

    @property
    def n_resamples(self) -> int:
        """Number of permutations, B."""
        return self.labels.shape[1] - 1

    def table_weights(self) -> LocalMeans:
        """Return the observed weights of both tables at the points."""
        assert self.feature.points is not None
        first = self.labels[:, 0].astype(float)
        weights = np.stack([first, self.counts - first], axis=1)
        sizes = weights.sum(axis=0)
        return LocalMeans(self.feature.points * self.feature.scale, weights / sizes, sizes)


def marginal_statistics(feature: DerivedFeature, labels: PermutedLabels) -> Marginal:
    """Compute the statistics of a derived feature for all permutations."""
    unit_counts = labels.unit_counts(feature.codes, feature.n_codes)
    counts, first = np.asarray(unit_counts.sum(axis=1)), labels.first_counts(unit_counts)
    total, first_total = counts.sum(), first.sum(axis=0)
    sizes = (float(first_total[0]), float(total - first_total[0]))
    if feature.incidence is not None:
        unit_counts = feature.incidence @ unit_counts
        counts, first = np.asarray(unit_counts.sum(axis=1)), labels.first_counts(unit_counts)
    if feature.points is None:
        residuals = standardized_residuals(counts, first, total, first_total)
        if np.count_nonzero(counts) == 2:  # both residuals are equal up to the sign
            statistics = BayesFactors(np.square(residuals).max(axis=0, keepdims=True))
        else:
            variance = CODE_VARIANCES[:, None] / total
            weights = 0.5 * variance * counts / (1.0 + variance * counts)
            statistics = BayesFactors(weights @ np.square(residuals), np.abs(residuals).max(axis=0))
        return Marginal(feature, counts, first, statistics, sizes=sizes)
    present = counts > 0
    pooled = PooledSample(
        feature.points[present],
        counts[present],
        first[present],
        np.full(feature.points.shape[1], feature.scale),
    )
    combined = CombinedStatistic.evaluate(pooled)
    return Marginal(feature, counts, first, combined, combined.local, sizes)


def strongest_feature(marginals: list[Marginal]) -> str:
    """Return the name of the derived feature with the most significant statistic."""
    significance = [
        neg_log_tails(np.array(marginal.statistics.components()), trim=1)[:, 0].max()
        for marginal in marginals
    ]
    return marginals[int(np.argmax(significance))].feature.name if marginals else ""


def standardized_residuals(
    counts: np.ndarray, first: np.ndarray, total: float, first_total: np.ndarray
) -> np.ndarray:
    """Compute the residuals of a table of codes by labels, in standard errors, (C, 1 + B).

    With p the fraction of the first table they are (O - E) / sqrt(n_a p (1 - p) (1 - n_a / n) n /
    (n - 1)).

    Args:
        counts: (C,), rows of each code.
        first: (C, 1 + B), rows of each code in the first table.
        total: number of rows, which may have several codes.
        first_total: (1 + B,), number of rows of the first table.
    """
    fraction = first_total / total
    variance = fraction * (1.0 - fraction) * total / max(total - 1.0, 1.0)
    error = np.sqrt(np.outer(counts * (1.0 - counts / total), variance))
    difference = first - np.outer(counts, fraction)
    return np.divide(difference, error, out=np.zeros_like(difference), where=error > 0.0)


def joint_statistics(columns: list[EncodedColumn], labels: PermutedLabels) -> BayesFactors | None:
    """Compute log Bayes factors of the joint distribution, for all lengthscales and variances.

    Args:
        columns: encoded columns that vary.
        labels: permuted labels.

    Returns:
        The statistics, or ``None`` if there are fewer than two columns.
    """
    if len(columns) < 2:
        return None

    def positions(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([column.positions(rows) for column in columns], axis=1)

    rng = np.random.default_rng(0)
    sampled = random_part(np.argsort(labels.row_hashes, kind="stable"), MAX_SAMPLED_ROWS, 0)
    points = positions(sampled)
    nodes = np.unique(points[kmeans_plusplus(points, min(MAX_NODES, len(points)), rng)], axis=0)
    distances = pdist(points[:: max(1, len(points) // MAX_DISTANCE_ROWS)])
    lengthscale = MAX_LENGTHSCALE * float(np.median(positive_distances(distances, points)))
    unit_sums = labels.unit_sums(lambda rows: _kernels(positions(rows), nodes, lengthscale))
    first, total = labels.first_sums(unit_sums), unit_sums.sum(axis=0)
    weights = labels.row_weights
    sampled_weights = weights[sampled] * (weights.sum() / weights[sampled].sum())
    by_lengthscale = zip(
        np.split(_kernels(nodes, nodes, lengthscale), N_LENGTHSCALES, axis=1),
        np.split(_kernels(points, nodes, lengthscale), N_LENGTHSCALES, axis=1),
        np.split(first, N_LENGTHSCALES),
        np.split(total, N_LENGTHSCALES),
        strict=True,
    )
    rows = [_joint_bayes_factors(*arrays, sampled_weights, labels) for arrays in by_lengthscale]
    return BayesFactors(np.concatenate(rows))


def _kernels(points: np.ndarray, nodes: np.ndarray, lengthscale: float) -> np.ndarray:
    """Evaluate the squared exponential kernel at all lengthscales, (r, N_LENGTHSCALES * k).

    At half the lengthscale the kernel is the fourth power.
    """
    n_nodes = len(nodes)
    kernels = np.empty((len(points), N_LENGTHSCALES * n_nodes))
    first = kernels[:, :n_nodes]
    squares = [np.einsum("ij,ij->i", array, array) for array in (points, nodes)]
    np.matmul(points, nodes.T / lengthscale**2, out=first)
    first -= np.add.outer(squares[0], squares[1]) / (2.0 * lengthscale**2)
    np.exp(np.minimum(first, 0.0, out=first), out=first)
    for index in range(1, N_LENGTHSCALES):
        previous, current = (
            kernels[:, at * n_nodes : (at + 1) * n_nodes] for at in (index - 1, index)
        )
        np.square(np.square(previous, out=current), out=current)
    return kernels


def _joint_bayes_factors(
    node_gram: np.ndarray,
    sampled_gram: np.ndarray,
    first: np.ndarray,
    total: np.ndarray,
    sampled_weights: np.ndarray,
    labels: PermutedLabels,
) -> np.ndarray:
    """Compute log Bayes factors at one lengthscale for all variances, (S, 1 + B).

    Args:
        node_gram: (k, k), kernel matrix of the nodes.
        sampled_gram: (r, k), kernel matrix of the sampled rows and the nodes.
        first: (k, 1 + B), sums of the kernel of the rows of the first table and the nodes.
        total: (k,), the same of both tables.
        sampled_weights: (r,), number of rows that each sampled row represents.
        labels: permuted labels.
    """
    root = inverse_root(node_gram)
    features, first, total = sampled_gram @ root, root.T @ first, total @ root
    n_rows = sampled_weights.sum()
    fraction = labels.first_sizes / n_rows
    between = n_rows * fraction * (1.0 - fraction)  # 0 if a table has no weight
    difference = first - fraction * total[:, None]
    difference = np.divide(difference, between, out=np.zeros_like(difference), where=between > 0.0)
    products = (features * sampled_weights[:, None]).T @ features
    moments = Moments.of_rows(difference, sampled_weights @ features, products, n_rows, fraction)
    return label_fits(decompose(moments), JOINT_VARIANCES)


class TableStatistics(NamedTuple):
    """All test statistics of two tables, for all permutations.

    Attributes:
        columns: statistics of the derived features of each column; none for a constant column.
        associations: (p, 1 + B), changes of the association of each pair of columns.
        joint: statistics of joint rows; ``None`` if fewer than two columns vary.
        approximate: approximate the tail probabilities.
    """

    columns: list[list[FeatureStatistics]]
    associations: np.ndarray
    joint: FeatureStatistics | None
    approximate: bool = False

    def select(self, permutations: np.ndarray) -> TableStatistics:
        """Select permutations, for an approximate Monte Carlo error."""
        return TableStatistics(
            [[feature.select(permutations) for feature in column] for column in self.columns],
            self.associations[:, permutations],
            None if self.joint is None else self.joint.select(permutations),
            approximate=True,
        )

    def _neg_log_pvalue(self, statistics: np.ndarray) -> np.ndarray:
        return neg_log_tails(statistics, trim=1, approximate=self.approximate)

    def columns_combined(self) -> np.ndarray:
        """Combine the statistics of each column, (c, 1 + B): minus the log p-value."""
        combined = np.zeros((len(self.columns), self.associations.shape[1]))
        for row, features in zip(combined, self.columns, strict=True):
            if features:
                components = [
                    self._neg_log_pvalue(np.array(item.components())) for item in features
                ]
                row[:] = self._neg_log_pvalue(
                    generalized_mean(np.concatenate(components), LARGEST_ORDER)
                )
        return combined

    def combined(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Combine all statistics, (1 + B,).

        The largest column is combined with the mean of the sum of all columns, the joint
        statistics and the largest change of an association.

        Args:
            columns: result of :meth:`columns_combined`, if it is known.
        """
        columns = self.columns_combined() if columns is None else columns
        global_rows = [
            columns.sum(axis=0),
            *([] if self.joint is None else self.joint.components()),
        ]
        if len(self.associations):
            global_rows.append(self._neg_log_pvalue(self.associations).max(axis=0))
        global_statistic = self._neg_log_pvalue(
            generalized_mean(self._neg_log_pvalue(np.array(global_rows)))
        )
        largest = self._neg_log_pvalue(columns.max(axis=0)) + np.log(COLUMN_WEIGHT)
        return generalized_mean(np.array([largest, global_statistic]), LARGEST_ORDER)
