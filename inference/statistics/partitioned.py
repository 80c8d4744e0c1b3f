"""Statistics of samples in partitions, by one pass over the rows.

A partition is a part of the rows that is stored on one machine, a bin is a set of rows that share a
permuted label (:mod:`bke.inference.permutation.bins`), and a cell is an interval of the values of a
column. The pass computes, for each partition, the sums of all requested features over the rows of
each bin, and counts the rows of each cell and bin. These sums give the statistics for any labels of
the bins.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from threading import Event
from typing import Any

import numpy as np

from ..core.machine import side_by_side
from ..permutation.bins import BinAssignment
from ..permutation.partitioned import PartitionedSamples, add_lists
from ..permutation.pool import permute_bins
from ..permutation.pooled_sample import (
    Features,
    FeatureSums,
    LabelSums,
    PooledSample,
    labels_of_table,
)
from .base import Statistic
from .combined import CombinedStatistic, choose_statistics
from .local_differences import GRID_SIZE, LocalDifferences


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionedPool(PooledSample):
    """Pooled rows in bins that are not in memory. The points are those of the random subset.

    Attributes:
        bin_sizes: (M,), rows of each bin.
    """

    bin_sizes: np.ndarray

    @classmethod
    def of(
        cls, assignment: BinAssignment, points: np.ndarray, scale: np.ndarray, labels: np.ndarray
    ) -> PartitionedPool:
        """Return the rows in assigned bins with labels (M, 1 + B)."""
        counts = np.ones(len(points), dtype=int)
        return cls(points, counts, labels, scale, bin_sizes=assignment.bin_sizes)

    @property
    def selection(self) -> PooledSample:  # type: ignore[override]
        """The points, each of which is a row."""
        labels = np.zeros((len(self.points), 0), dtype=np.int8)
        return PooledSample(self.points, self.counts, labels, self.scale)

    @property
    def n_rows(self) -> float:
        """Number of rows of both samples."""
        return float(self.bin_sizes.sum())

    @functools.cached_property
    def first_counts(self) -> np.ndarray:  # type: ignore[override]
        """Rows of the first sample in each bin, (M,)."""
        return np.asarray(self.labels[:, 0] * self.bin_sizes)

    @functools.cached_property
    def first_fractions(self) -> np.ndarray:
        """Fraction of the first sample in all rows for all labels, (1 + B,)."""
        return np.asarray(self.bin_sizes @ self.labels / self.n_rows)

    @property
    def row_measures(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of each bin, of all and of the first sample (M, 2), and their linear map.

        The map gives the weights of :class:`~bke.inference.permutation.pooled_sample.Measures`.
        """
        return np.column_stack([self.bin_sizes, self.first_counts]).astype(float), self._measure_map


@dataclasses.dataclass(frozen=True)
class FeatureSumsPass:
    """Sums features over the rows of each bin, and counts values.

    Attributes:
        assignment: bin of each row.
        sample: sample of the rows, 0 for the first.
        scale: (D,), divisors of the columns.
        features: features, their number, and whether their squares are summed.
        edges: cells of the values of each single column.
    """

    assignment: BinAssignment
    sample: int
    scale: np.ndarray
    features: tuple[tuple[Features, int, bool], ...]
    edges: tuple[np.ndarray, ...]

    def __call__(self, ranks: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        """Process a partition whose rows have these numbers, by hash, in their sample."""
        points, n_bins = rows / self.scale, self.assignment.n_bins(self.sample)
        bins = self.assignment.within(self.sample, ranks)
        counts, labels = np.ones(len(rows), dtype=int), np.zeros((n_bins, 0))
        dtype = np.min_scalar_type(self.assignment.size)  # the largest count of a bin
        pooled = PooledSample(points, counts, labels, self.scale, bins=bins).sorted_by_bin
        results: list[np.ndarray] = []
        for features, width, with_squares in self.features:
            sums, squares = LabelSums(pooled, width), np.zeros(width)
            for block in pooled.blocks():
                values = features(pooled.points[block])
                sums.add(block, values)
                if with_squares:
                    squares += np.square(values, out=values).sum(axis=0)
            results += [sums.bin_sums, squares]
        for edges, values in zip(self.edges, points.T, strict=False):
            cell_index, shape = np.searchsorted(edges, values), (len(edges) + 1, n_bins)
            index = np.ravel_multi_index((cell_index, bins), shape)
            table = np.bincount(index, minlength=np.prod(shape))
            results += [
                table.astype(dtype).reshape(shape),
                np.bincount(cell_index, weights=values, minlength=shape[0]),
            ]
        return results


@dataclasses.dataclass(frozen=True)
class PartitionedSums:
    """Sums over the bins of rows in partitions.

    Attributes:
        assignment: bin of each row.
        points: (k, D), scaled rows of the random subset.
        scale: (D,), divisors of the columns.
        statistics: chosen from these points.
        sums: pairs of arrays, one for each result of the pass; the sample with the smaller bin
            numbers comes first.
    """

    assignment: BinAssignment
    points: np.ndarray
    scale: np.ndarray
    statistics: tuple[Statistic, ...]
    sums: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def compute(
        cls, samples: PartitionedSamples, rng: np.random.Generator, scale: np.ndarray
    ) -> PartitionedSums:
        """Assign rows to bins, choose the statistics, and process all rows once.

        Raises:
            InputError: rows cannot be assigned to bins.
        """
        assignment, points = samples.assign_bins(rng), samples.selection / scale
        labels = (assignment.is_leading ^ assignment.second_first)[:, None].astype(np.int8)
        pooled = PartitionedPool.of(assignment, points, scale, labels)
        statistics = choose_statistics(pooled)
        features = tuple(
            (request.features, request.width, request.measures)
            for statistic in statistics
            for request in statistic.requests(pooled)
        )
        local = next(item for item in statistics if isinstance(item, LocalDifferences))
        edges = tuple(pooled.edges(column, GRID_SIZE) for column in local.single_columns)
        (first,), (second,) = samples.run(
            lambda sample: FeatureSumsPass(assignment, sample, scale, features, edges),
            arguments=samples.ranks,
            merge=add_lists,
        )
        ordered = (second, first) if assignment.second_first else (first, second)
        return cls(assignment, points, scale, statistics, tuple(zip(*ordered, strict=True)))

    def evaluate(self, n_resamples: int, rng: np.random.Generator) -> CombinedStatistic:
        """Permute the labels of the bins, and evaluate all statistics.

        Args:
            n_resamples: B.
            rng: random numbers after the assignment to bins.
        """
        labels = permute_bins(self.assignment, n_resamples, rng)
        pooled = PartitionedPool.of(self.assignment, self.points, self.scale, labels)
        requests = [statistic.requests(pooled) for statistic in self.statistics]
        flat = [request for group in requests for request in group]
        local = next(item for item in self.statistics if isinstance(item, LocalDifferences))
        float_labels = labels.astype(float)

        def work(index: int) -> Any:
            sums, second_sums = self.sums[2 * index : 2 * index + 2]
            if index < len(flat):
                return flat[index].finish(_feature_sums(pooled, float_labels, sums, second_sums))
            column = index - len(flat)
            return local.column_fields(_count_values(pooled, sums, second_sums, column), column)

        results = side_by_side(work, len(self.sums) // 2, Event())
        remaining = iter(results)
        by_statistic = [list(itertools.islice(remaining, len(group))) for group in requests]
        evaluations = tuple(
            statistic.join(group, results[len(flat) :])
            if isinstance(statistic, LocalDifferences)
            else statistic.collect(group)
            for statistic, group in zip(self.statistics, by_statistic, strict=True)
        )
        return CombinedStatistic(self.statistics, evaluations, pooled.is_balanced)


def _feature_sums(
    pooled: PartitionedPool,
    labels: np.ndarray,
    bin_sums: tuple[np.ndarray, np.ndarray],
    squares: tuple[np.ndarray, np.ndarray],
) -> FeatureSums:
    """Return sums for all labels (M, 1 + B) from the sums over the bins of each sample."""
    sums = np.concatenate(bin_sums)
    first = int(pooled.labels[0, 0] == 0)  # the position of the first sample
    both = np.stack([squares[0] + squares[1], squares[first]])
    return pooled.binned_sums(sums.T @ labels, sums.sum(axis=0), both)


def _count_values(
    pooled: PartitionedPool,
    tables: tuple[np.ndarray, np.ndarray],
    sums: tuple[np.ndarray, np.ndarray],
    column: int,
) -> PooledSample:
    """Return the rows counted at the mean values of the cells of a column."""
    table = np.concatenate(tables, axis=1)
    counts = table.sum(axis=1, dtype=np.int64)
    means = (sums[0] + sums[1]) / counts
    labels = labels_of_table(table, pooled.labels)
    return PooledSample(means[:, None], counts, labels, pooled.scale[[column]])
