"""Pooled rows of two samples with permuted labels: the data that every statistic is computed from.

Most statistics ask for sums of features over the rows of the first sample, for the observed and all
permuted labels, and for the difference of the means of the samples. Tied independent rows are one
point with a count; very many rows in one or two columns are counted in cells; very many rows in
more columns are permuted in bins (:mod:`.bins`). The subclasses are pairs of rows and weighted
rows, which differ by the covariance of that difference.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse

from ..data.canonical import canonical_order, random_part
from .moments import Moments, PairSums, WeightedSums, sum_of_products
from .scheme import PermutationType

T = TypeVar("T")

#: Points per block, points in bins per block, and permutations per batch.
BLOCK, BINNED_BLOCK, BATCH = 2**13, 2**12, 64
#: Number of labels of few points that are computed at once.
SMALL = 2**20
#: Bytes of labels as floating-point numbers up to which they are kept, because a test uses them
#: dozens of times.
MAX_CACHED_BYTES = 2**26
#: Number of pseudo-observations of each sample in standard errors (Agresti and Caffo 2000).
PSEUDO_ROWS = 2.0
#: Number of entries per nonzero entry below which a matrix is faster dense than sparse.
MAX_SPARSITY = 20
#: Scaled values are clipped here: their twelfth power is finite, which the third moment of a
#: statistic of fourth powers needs.
MAX_SCALED = 1e20
#: Columns of :class:`Measures`.
POOLED, SAMPLES, SQUARED, EXPECTED, UNIFORM = 0, slice(1, 3), slice(3, 5), slice(5, 7), 7


class Features(Protocol):
    """Features of rows. It can be pickled, to be evaluated on other machines."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate features (r, k) of rows (r, D)."""


class Measures(NamedTuple):
    """Sums of features, and of their squares, with eight different weights of the rows.

    The weights are those of all rows (:data:`POOLED`), of each sample (:data:`SAMPLES`), the
    squares of the latter (:data:`SQUARED`), their expectation under P = Q (:data:`EXPECTED`), and
    equal weights of all different points (:data:`UNIFORM`).

    Attributes:
        sums: (k, 8).
        squares: (k, 8).
        totals: (8,), sums of the weights.
    """

    sums: np.ndarray
    squares: np.ndarray
    totals: np.ndarray


class FeatureSums(NamedTuple):
    """Sums of features over rows.

    Attributes:
        first: (k, 1 + B), over the rows of the first sample, for all labels.
        total: (k,), over all rows.
        measures: see there; ``None`` unless the request has ``measures``.
    """

    first: np.ndarray
    total: np.ndarray
    measures: Measures | None = None


class Request(NamedTuple, Generic[T]):
    """A request of a statistic for sums of features, for one pass over the rows wherever they are.

    Attributes:
        features: features of rows.
        width: k, number of features.
        finish: computes the result from the sums.
        measures: true if sums with other weights are needed, for variances.
    """

    features: Features
    width: int
    finish: Callable[[FeatureSums], T]
    measures: bool = False


@dataclasses.dataclass(frozen=True)
class PooledSample:
    """Points that represent pooled independent rows, and the rows of each in the first sample.

    Attributes:
        points: (C, D), scaled columns, clipped to :data:`MAX_SCALED`, in an order that does not
            depend on the labels.
        counts: (C,), rows at each point, or their weights.
        labels: (C, 1 + B), rows in the first sample: observed, then for each permutation. For rows
            in bins (M, 1 + B), whether the rows of a bin are.
        scale: (D,), what the columns were divided by.
        bins: (C,), bin of each point, which is one row; ``None`` if rows are permuted singly.
        subset: indices (k,) of the points from which everything is chosen; ``None`` for all.
    """

    points: np.ndarray
    counts: np.ndarray
    labels: np.ndarray
    scale: np.ndarray
    bins: np.ndarray | None = None
    subset: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Clip values whose powers would overflow."""
        points = self.points
        if points.size and max(points.max(), -points.min()) > MAX_SCALED:
            object.__setattr__(self, "points", np.clip(points, -MAX_SCALED, MAX_SCALED))

    @property
    def permutation_type(self) -> PermutationType:
        """``"independent"`` rows, ``"samples"`` for pairs, or ``"signs"`` for weighted rows."""
        return "independent"

    @property
    def is_independent(self) -> bool:
        """True if rows are independent and have equal weights."""
        return self.permutation_type == "independent"

    @functools.cached_property
    def selection(self) -> PooledSample:
        """The points from which scales, nodes and locations are chosen, independently of labels."""
        if self.subset is None:
            return self
        points, counts = self.points[self.subset], self.counts[self.subset]
        return PooledSample(points, counts, np.zeros((len(points), 0), dtype=np.int8), self.scale)

    @property
    def n_rows(self) -> float:
        """Number of rows of both samples, or their effective number."""
        return self.counts.sum()

    @property
    def first_counts(self) -> np.ndarray:
        """Rows of the first sample at each point, (C,)."""
        return np.asarray(self.point_labels(slice(1))[:, 0])

    def point_labels(self, columns: slice) -> np.ndarray:
        """Return the rows of the first sample at each point for some labels, (C, k)."""
        labels = self.labels[:, columns]
        return np.asarray(labels if self.bins is None else labels[self.bins])

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of each sample, rounded down for counts that are not whole."""
        first = int(self.first_counts.sum())
        return first, int(self.n_rows) - first

    @property
    def effective_sizes(self) -> np.ndarray:
        """Effective number of rows of each sample, (2,), 1 / sum w^2 (Kish 1965)."""
        first = float(self.first_counts.sum())
        return np.array([first, float(self.n_rows) - first])

    @property
    def first_fraction(self) -> float:
        """Fraction of the first sample in all rows."""
        return float(self.effective_sizes[0] / self.effective_sizes.sum())

    @functools.cached_property
    def first_fractions(self) -> np.ndarray:
        """Fraction of the first sample in all rows for all labels, (1 + B,).

        It varies for a part of the permuted rows, such as those with a value.
        """
        bin_sizes = 1.0 if self.bins is None else np.bincount(self.bins)[:, None]
        return np.asarray((self.labels * bin_sizes).sum(axis=0) / self.n_rows)

    @property
    def is_balanced(self) -> bool:
        """True if both samples have equally many rows for all labels."""
        equal_fractions = bool((2.0 * self.first_fractions == 1.0).all())
        return self.permutation_type != "signs" and equal_fractions

    @property
    def weights(self) -> np.ndarray:
        """Weight of each sample at each point, (C, 2); each column adds up to 1."""
        counts = np.stack([self.first_counts, self.counts - self.first_counts], axis=1)
        return np.asarray(counts / counts.sum(axis=0))

    @property
    def squared_weights(self) -> np.ndarray:
        """Sum of the squared weights of the rows at each point, (C, 2)."""
        return self.weights / self.effective_sizes

    @functools.cached_property
    def uniform_weights(self) -> np.ndarray:
        """Equal weights of all different points, which tied points share, (C,); sum 1.

        Ties are recognized between neighbors, except for bins.
        """
        groups = tie_groups(self.points)
        return np.asarray(1.0 / ((groups[-1] + 1) * np.bincount(groups)[groups]))

    @property
    def pseudo_squared_weights(self) -> np.ndarray:
        """Squared weights of :data:`PSEUDO_ROWS` pseudo-observations, at all points, (C, 2).

        Without them a sample of equal rows has no standard error. Half of them are at each value of
        a column with two values, as in Agresti and Caffo (2000, Am. Stat. 54).
        """
        return PSEUDO_ROWS * self.uniform_weights[:, None] * self.effective_sizes**-2.0

    @property
    def row_measures(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of :class:`Measures` but the last: (C, b), and their linear map, (b, 7).

        The map saves sums, because few of the weights are linearly independent.
        """
        columns = np.column_stack([self.counts, self.first_counts]).astype(float)
        return columns, self._measure_map

    @property
    def _measure_map(self) -> np.ndarray:
        """Map from ``counts`` and ``first_counts`` to :attr:`row_measures`, (2, 7)."""
        (m, n), n_total = self.effective_sizes, self.n_rows
        of_counts = [
            1.0 / n_total,
            0.0,
            1.0 / n,
            0.0,
            n**-2.0,
            1.0 / (n_total * m),
            1.0 / (n_total * n),
        ]
        of_first = [0.0, 1.0 / m, -1.0 / n, m**-2.0, -(n**-2.0), 0.0, 0.0]
        return np.array([of_counts, of_first])

    def mean_differences(self, first: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return the mean over the first sample less that over the second, (k, 1 + B).

        It is zero for labels that leave a sample without rows.

        Args:
            first: sums over the first sample, (k, 1 + B).
            total: sums over all rows, (k,).
        """
        fraction = self.first_fractions
        between = self.n_rows * fraction * (1.0 - fraction)
        differences = first - fraction * total[:, None]
        return np.divide(differences, between, out=np.zeros_like(differences), where=between > 0.0)

    def moments(self, features: Features, width: int) -> Moments:
        """Compute the moments of features in one pass."""
        sample = self.sorted_by_bin
        first, total = LabelSums(sample, width), np.zeros(width)
        products = np.zeros((width, width))
        for block in sample.blocks():
            values = features(sample.points[block])
            total += sample.counts[block] @ values
            first.add(block, values)
            products += sum_of_products(values, sample.counts[block])
        differences = sample.mean_differences(first.sums(), total)
        return Moments.of_rows(differences, total, products, self.n_rows, self.first_fractions)

    def answer(self, request: Request[T]) -> T:
        """Compute the sums of a request, and its result."""
        sample = self.sorted_by_bin
        in_bins = sample.bins is not None
        weights = np.zeros((1, 0))
        if request.measures:
            weights = sample.row_measures[0]
            if not in_bins:
                weights = np.column_stack([weights, sample.uniform_weights])
        first, total = LabelSums(sample, request.width), np.zeros(request.width)
        sums, squares = np.zeros((2, weights.shape[1], request.width))
        for block in sample.blocks():
            values = request.features(sample.points[block])
            total += sample.counts[block] @ values
            first.add(block, values)
            if request.measures:
                block_weights = weights[block].T
                if not in_bins:
                    sums += block_weights @ values
                squares += block_weights @ np.square(values, out=values)
        first_sums = first.sums()
        if not request.measures:
            return request.finish(FeatureSums(first_sums, total))
        if in_bins:
            return request.finish(sample.binned_sums(first_sums, total, squares))
        measures = sample.combine_measures(sums, squares)
        return request.finish(FeatureSums(first_sums, total, measures))

    def binned_sums(self, first: np.ndarray, total: np.ndarray, squares: np.ndarray) -> FeatureSums:
        """Return the sums over rows in bins, each of which is a point.

        Args:
            first: (k, 1 + B), over the first sample.
            total: (k,), over all rows.
            squares: (2, k), sums of squares over all rows and over the observed first sample.
        """
        uniform = 1.0 / self.n_rows
        sums = np.stack([total, first[:, 0], uniform * total])
        squares = np.concatenate([squares, uniform * squares[:1]])
        return FeatureSums(first, total, self.combine_measures(sums, squares))

    def combine_measures(self, sums: np.ndarray, squares: np.ndarray) -> Measures:
        """Map sums and squares (b + 1, k) with :attr:`row_measures` to all eight weights."""
        columns, to_seven = self.row_measures
        to_eight = scipy.linalg.block_diag(to_seven, np.ones((1, 1)))
        totals = np.append(columns.sum(axis=0), 1.0)
        return Measures(sums.T @ to_eight, squares.T @ to_eight, totals @ to_eight)

    def partner_moments(
        self, features: Features, selected: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of pairs of rows for some features; zero for independent rows.

        Returns:
            Mean square of the difference of a row and its partner, and the covariance of the means
            of both samples, (k,) each.
        """
        return np.zeros(len(selected)), np.zeros(len(selected))

    def difference_variance(
        self, measures: Measures, selected: np.ndarray, partner_differences: np.ndarray
    ) -> np.ndarray:
        """Return the variance of the difference of means under P = Q, (k, 1 + B) or (k, 1).

        Args:
            measures: of all features.
            selected: indices (k,) of features.
            partner_differences: mean squares of :meth:`partner_moments`.
        """
        variance = measures.squares[selected, POOLED] - measures.sums[selected, POOLED] ** 2
        fraction = self.first_fractions
        between = np.maximum(fraction * (1.0 - fraction), 1.0 / self.n_rows**2)
        return np.asarray(variance[:, None] / (between * (self.n_rows - 1.0)))

    def select_columns(self, columns: Sequence[int], max_parts: int) -> PooledSample:
        """Return some columns with the same permutations, a single one in ``max_parts`` parts."""
        points = self.points[:, list(columns)]
        if points.shape[1] == self.points.shape[1]:
            return self
        selected = dataclasses.replace(self, points=points, scale=self.scale[list(columns)])
        if len(columns) == 1:
            return selected.merge(np.searchsorted(self.edges(columns[0], max_parts), points[:, 0]))
        order = canonical_order(points)
        groups = np.empty(len(order), dtype=np.int64)
        groups[order] = tie_groups(points[order])
        return selected.merge(groups)

    def edges(self, column: int, max_parts: int) -> np.ndarray:
        """Return the largest value of each cell of a column but the last, increasing.

        Each value is a cell; if there are more than ``max_parts``, cells have equally many rows.
        """
        chosen = self.selection
        order = np.argsort(chosen.points[:, column])
        values = chosen.points[order, column]
        groups = tie_groups(values[:, None])
        if groups[-1] >= max_parts:
            # Tied values stay together.
            row_parts = np.ceil(np.cumsum(chosen.counts[order]) * (max_parts / chosen.n_rows))
            last = np.flatnonzero(np.diff(groups, append=-1))
            groups = tie_groups(row_parts[last[groups]][:, None])
        return np.asarray(values[np.flatnonzero(np.diff(groups))])

    def merge(self, groups: np.ndarray) -> Self:
        """Replace the points of each group, whose index (C,) each point has, by their mean."""
        gather = group_matrix(groups)
        counts = gather @ self.counts
        return dataclasses.replace(
            self,
            bins=None,
            subset=None,
            points=(gather @ (self.points * self.counts[:, None])) / counts[:, None],
            counts=counts,
            labels=_sum_in_batches(gather, self.labels)
            if self.bins is None
            else _labels_of_groups(groups, self.bins, self.labels),
        )

    def blocks(self) -> Iterator[slice]:
        """Iterate over blocks of points whose features fit into the cache."""
        size = BLOCK if self.bins is None else BINNED_BLOCK
        for start in range(0, len(self.points), size):
            yield slice(start, start + size)

    @functools.cached_property
    def sorted_by_bin(self) -> Self:
        """The points sorted by bin, which makes sums over bins fast; points without bins as is."""
        if self.bins is None or (np.diff(self.bins) >= 0).all():
            return self
        order = np.argsort(self.bins, kind="stable")
        subset = None if self.subset is None else np.argsort(order)[self.subset]
        return dataclasses.replace(
            self,
            points=self.points[order],
            counts=self.counts[order],
            bins=self.bins[order],
            subset=subset,
        )

    @functools.cached_property
    def bin_matrices(self) -> list[tuple[np.ndarray, scipy.sparse.csr_array]]:
        """The bins of each block, and the matrix (bins, points) that sums over each of them."""
        assert self.bins is not None
        matrices = []
        for block in self.blocks():
            bins = self.bins[block]
            starts = np.flatnonzero(np.diff(bins, prepend=-1))
            groups = np.cumsum(np.diff(bins, prepend=bins[0]) != 0)
            matrices.append((bins[starts], group_matrix(groups)))
        return matrices

    def float_labels(self, block: slice) -> np.ndarray:
        """Return the labels (r, 1 + B) of a block of points as floating-point numbers."""
        keep = 8 * self.labels.size <= MAX_CACHED_BYTES
        return self._float_labels[block] if keep else self.labels[block].astype(float)

    @functools.cached_property
    def _float_labels(self) -> np.ndarray:
        return self.labels.astype(float)

    def with_labels(self, labels: np.ndarray) -> Self:
        """Return the points with other labels (C, k)."""
        return dataclasses.replace(self, labels=labels, bins=None)

    def observed(self) -> Self:
        """Return the points with the observed labels only."""
        return dataclasses.replace(self, labels=self.labels[:, :1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairedSample(PooledSample):
    """Points of rows that belong together in pairs, whose labels are exchanged.

    Attributes:
        partners: (m, 2), the points of the rows of each pair, that of the first sample first.
    """

    partners: np.ndarray

    @property
    def permutation_type(self) -> PermutationType:
        """Pairs exchange their labels."""
        return "samples"

    def moments(self, features: Features, width: int) -> Moments:
        """Compute the moments of features, with the covariance of pairs."""
        sums = PairSums(width, self.labels.shape[1])
        for pairs in self._partner_blocks():
            first, second = (features(self.points[rows]) for rows in pairs.T)
            sums.add(first, second, 2.0 * self.labels[pairs[:, 0]] - 1.0)
        return sums.moments()

    def partner_moments(
        self, features: Features, selected: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean square of differences of partners, and the covariance of the means."""
        differences, products = np.zeros((2, len(selected)))
        totals = np.zeros((2, len(selected)))
        for pairs in self._partner_blocks():
            first, second = (features(self.points[rows])[:, selected] for rows in pairs.T)
            differences += np.square(first - second).sum(axis=0)
            products += (first * second).sum(axis=0)
            totals += np.stack([first.sum(axis=0), second.sum(axis=0)])
        m = len(self.partners)
        return differences / m, (products / m - np.prod(totals / m, axis=0)) / m

    def difference_variance(
        self, measures: Measures, selected: np.ndarray, partner_differences: np.ndarray
    ) -> np.ndarray:
        """Return the variance of the mean difference of pairs."""
        smallest = 1e-12 * measures.sums[selected, POOLED] ** 2 / self.n_rows
        return np.maximum(partner_differences, smallest)[:, None] / len(self.partners)

    def merge(self, groups: np.ndarray) -> Self:
        """Replace the points of each group by their mean; :meth:`moments` need single rows."""
        return dataclasses.replace(super().merge(groups), partners=groups[self.partners])

    def _partner_blocks(self) -> list[np.ndarray]:
        return np.array_split(self.partners, -(-len(self.partners) // BLOCK))


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightedSample(PooledSample):
    """Points of weighted rows, with random signs of their errors in place of permutations.

    With weights w that add up to 1 for each sample, the difference of means
    ``sum_P w e(z) - sum_Q w e(z)`` has the variance ``sum w^2 (e(z) - mean e)^2`` over both samples
    under P = Q. Permuted labels would assume that rows and their weights are exchangeable, and give
    a wrong variance for few rows with unequal weights next to many rows with equal ones. Instead
    errors with that variance are made from the pooled rows with random signs (the wild bootstrap:
    Wu 1986). At each point a sample has as much weight as the rows of both suggest, in rows with
    the weights of its nearest rows. A sample with large weights in a tail may happen to have no
    row there; its own rows would then give no error. The level of the test is approximate
    (``benchmarks/results/weights.md``).

    ``labels`` (C, 1 + B) are the weights of the first sample less those of the second, then errors
    with random signs; each column adds up to 0. ``counts`` are effective numbers of rows.

    Attributes:
        sample_weights: (C, 2), weights of both samples.
        row_squares: (C, 2), sums of the squared weights of the rows.
        expected_squares: (C, 2), their expectation by the rows of both samples.
        lengths: number of rows of each sample.
    """

    sample_weights: np.ndarray
    row_squares: np.ndarray
    expected_squares: np.ndarray
    lengths: tuple[int, int]

    @property
    def permutation_type(self) -> PermutationType:
        """The signs of errors are flipped."""
        return "signs"

    @property
    def effective_sizes(self) -> np.ndarray:
        """Effective number of rows of each sample, (2,)."""
        return np.asarray(1.0 / self.row_squares.sum(axis=0))

    @property
    def first_counts(self) -> np.ndarray:
        """Effective number of rows of the first sample at each point, (C,)."""
        return np.asarray(self.effective_sizes[0] * self.sample_weights[:, 0])

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of each sample."""
        return self.lengths

    @functools.cached_property
    def first_fractions(self) -> np.ndarray:
        """Fraction of the first sample in all rows, the same for all labels, (1 + B,)."""
        return np.full(self.labels.shape[1], self.first_fraction)

    @property
    def weights(self) -> np.ndarray:
        """Weight of each sample at each point, (C, 2)."""
        return self.sample_weights

    @property
    def squared_weights(self) -> np.ndarray:
        """Sum of the squared weights of the rows at each point, (C, 2)."""
        return self.row_squares

    @property
    def row_measures(self) -> tuple[np.ndarray, np.ndarray]:
        """All weights of the rows (C, 7), which are linearly independent."""
        columns = [
            self.counts / self.n_rows,
            self.weights,
            self.squared_weights,
            self.expected_squares,
        ]
        return np.column_stack(columns), np.eye(7)

    def mean_differences(self, first: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return sums with ``labels``, which are differences already."""
        return first

    def moments(self, features: Features, width: int) -> Moments:
        """Compute the moments of features, with the covariance of weighted rows."""
        differences, total = LabelSums(self, width), np.zeros(width)
        products = np.zeros((width, width))
        expected = observed = WeightedSums.empty(width)
        for block in self.blocks():
            values = features(self.points[block])
            total += self.counts[block] @ values
            differences.add(block, values)
            products += sum_of_products(values, self.counts[block])
            expected = expected.plus(values, self.weights[block], self.expected_squares[block])
            observed = observed.plus(values, self.weights[block], self.row_squares[block])
        return expected.moments(differences.sums(), total, products, observed)

    def difference_variance(
        self, measures: Measures, selected: np.ndarray, partner_differences: np.ndarray
    ) -> np.ndarray:
        """Return the variance of the difference of weighted means, about the pooled mean."""
        mean = measures.sums[:, POOLED, None]
        squares = measures.squares[:, EXPECTED] - 2.0 * mean * measures.sums[:, EXPECTED]
        squares += mean**2 * measures.totals[EXPECTED]
        smallest = 1e-12 * mean[selected, 0] ** 2 / self.n_rows
        return np.maximum(squares[selected].sum(axis=1), smallest)[:, None]

    def with_labels(self, labels: np.ndarray) -> Self:
        """Return the points with other labels (C, k), none of which are the observed ones."""
        return dataclasses.replace(self, labels=labels, row_squares=self.expected_squares)

    def merge(self, groups: np.ndarray) -> Self:
        """Replace the points of each group by their mean."""
        gather = group_matrix(groups)
        return dataclasses.replace(
            super().merge(groups),
            sample_weights=gather @ self.sample_weights,
            row_squares=gather @ self.row_squares,
            expected_squares=gather @ self.expected_squares,
        )


class LabelSums:
    """Sums of features over the first sample, for all labels, computed block by block.

    Args:
        sample: the points, :attr:`PooledSample.sorted_by_bin`.
        width: k, number of features.
    """

    def __init__(self, sample: PooledSample, width: int) -> None:
        assert sample.sorted_by_bin is sample
        self._sample = sample
        units, columns = sample.labels.shape
        self._sums = np.zeros((width, columns) if sample.bins is None else (units, width))

    def add(self, block: slice, features: np.ndarray) -> None:
        """Add the features (r, k) of a block of points."""
        sample = self._sample
        if sample.bins is None:
            self._sums += features.T @ sample.float_labels(block)
        else:
            # A sparse product is ten times as fast as `np.add.reduceat`.
            bins, matrix = sample.bin_matrices[block.start // BINNED_BLOCK]
            self._sums[bins] += matrix @ features

    @property
    def bin_sums(self) -> np.ndarray:
        """Sums over each bin, (M, k)."""
        return self._sums

    def sums(self) -> np.ndarray:
        """Return the sums over the first sample, (k, 1 + B)."""
        if self._sample.bins is None:
            return self._sums
        labels = self._sample.labels
        sums = np.zeros((self._sums.shape[1], labels.shape[1]))
        for start in range(0, len(labels), BLOCK):
            part = slice(start, start + BLOCK)
            sums += self._sums[part].T @ labels[part].astype(float)
        return sums


class RowSubset(NamedTuple):
    """A random subset of the points, independent of labels, that represents all rows.

    Attributes:
        points: (k, D).
        counts: (k,), rows at each point.
        n_rows: number of all rows.
    """

    points: np.ndarray
    counts: np.ndarray
    n_rows: float

    @classmethod
    def of(cls, sample: PooledSample, max_points: int) -> RowSubset:
        """Draw at most ``max_points`` points."""
        chosen = sample.selection
        drawn = random_part(np.arange(len(chosen.points)), max_points, 0)
        return cls(chosen.points[drawn], chosen.counts[drawn], sample.n_rows)

    def moments(
        self, sample: PooledSample, first: np.ndarray, total: np.ndarray, features: np.ndarray
    ) -> Moments:
        """Return the moments of features of independent rows, with products of the subset.

        Args:
            sample: all rows.
            first: sums over the rows of the first sample, (q, 1 + B).
            total: sums over all rows, (q,).
            features: (k, q), of the points of the subset.
        """
        products = self.products(features) + np.outer(total, total) / self.n_rows
        differences = sample.mean_differences(first, total)
        return Moments.of_rows(differences, total, products, self.n_rows, sample.first_fractions)

    def products(self, features: np.ndarray) -> np.ndarray:
        """Estimate the sum of products of centered features over all rows, (q, q).

        Args:
            features: (k, q), of the points of the subset.
        """
        subset_rows = self.counts.sum()
        features = features - self.counts @ features / subset_rows
        products = sum_of_products(features, self.counts)
        return np.asarray(products * (self.n_rows / subset_rows))


def tie_groups(rows: np.ndarray) -> np.ndarray:
    """Return the index (N,) of the group of tied rows, for sorted rows (N, D)."""
    new = np.any(rows[1:] != rows[:-1], axis=1)
    return np.concatenate([[0], np.cumsum(new)])


def group_matrix(groups: np.ndarray) -> scipy.sparse.csr_array:
    """Return the matrix (groups, C) that sums over the points (C,) of each group."""
    shape = (int(groups.max()) + 1, len(groups))
    ones = np.ones(len(groups), dtype=np.int32)
    return scipy.sparse.csr_array((ones, (groups, np.arange(len(groups)))), shape)


def _labels_of_groups(groups: np.ndarray, bins: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sum the labels (M, 1 + B) of bins over the rows (C,) of each group."""
    shape = int(groups.max()) + 1, len(labels)
    if np.prod(shape) > MAX_SPARSITY * len(groups):
        return _sum_in_batches(group_matrix(groups) @ group_matrix(bins).T, labels)
    table = np.bincount(np.ravel_multi_index((groups, bins), shape), minlength=np.prod(shape))
    return labels_of_table(table.reshape(shape), labels)


def labels_of_table(table: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sum the labels (M, 1 + B) of bins over groups, by the table (C, M) of rows."""
    # The sums are whole numbers that this type can represent.
    dtype = np.float32 if table.sum(dtype=np.int64) < 2**24 else np.float64
    return _sum_in_batches(table.astype(dtype), labels).astype(np.int32)


def _sum_in_batches(table: np.ndarray | scipy.sparse.csr_array, labels: np.ndarray) -> np.ndarray:
    """Multiply a table by labels (M, 1 + B), some permutations at a time."""
    size = max(BATCH, SMALL // len(labels))
    starts = range(0, labels.shape[1], size)
    return np.concatenate([table @ labels[:, start : start + size] for start in starts], axis=1)
