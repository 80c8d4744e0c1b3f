"""Pooling of two samples with permuted labels: independent rows, pairs, or weighted rows.

The points depend on the pooled rows only, so that permutation tests on them are exact, whatever
detail cells leave out.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from ..core.errors import InputError
from ..data.canonical import canonical_order
from ..data.weighted import weighted_quantiles
from .bins import BinAssignment, MedianPartition, bin_size, cell_means, divide_into_bins
from .pooled_sample import PooledSample, WeightedSample, group_matrix, tie_groups
from .samples import TwoSamples
from .scheme import PermutationScheme, draw_counts

#: Number of points beyond which rows of one or two columns are counted in cells, and of cells.
MAX_POINTS = 2**13
#: Number of columns in which these cells are small compared with the resolution of the rows.
MAX_CELL_COLUMNS = 2
#: Number of points of more columns up to which rows are permuted singly.
MAX_SINGLE = 2**14
#: Quantiles that determine the width of a column.
TAILS = np.array([0.01, 0.1, 0.25])
#: Smallest effective number of rows of a weighted sample.
MIN_EFFECTIVE_SIZE = 2.0
#: Number of random signs per row that are drawn at once.
SIGNS_BATCH = 16
#: Number of nearest rows that determine the weights of a sample at a point.
N_NEAREST = 10


def pool_rows(
    samples: TwoSamples,
    n_resamples: int,
    rng: np.random.Generator,
    scale: np.ndarray | None = None,
) -> PooledSample:
    """Pool independent rows and permute their labels.

    Args:
        samples: both samples.
        n_resamples: B.
        rng: random numbers of the permutations.
        scale: divisors of the columns (D,); by default the width of each column.
    """
    scale = row_widths(samples.pooled[samples.selection]) if scale is None else scale
    size = bin_size(len(samples.pooled), min(samples.sizes))
    in_bins = samples.is_large and size > 1 and samples.pooled.shape[1] > MAX_CELL_COLUMNS
    if in_bins and not samples.has_at_most_unique_rows(MAX_SINGLE):
        return _pool_large(samples, size, n_resamples, rng, scale)
    rows = samples.sorted_rows
    is_first = (np.arange(len(rows)) < len(samples.first))[samples.order]
    groups, points = (_large_groups if samples.is_large else group_rows)(samples, scale)
    if len(points) > MAX_SINGLE and size > 1:
        is_first ^= samples.second_first
        shuffled = np.lexsort((~is_first, groups))[rng.permutation(len(rows))]
        bins = divide_into_bins((~is_first).astype(int), size, shuffled)
        labels = _permuted_bins(is_first[bins.row], bins.incomplete, n_resamples, rng)
        ones = np.ones(len(rows), dtype=int)
        labels ^= samples.second_first
        return PooledSample(rows / scale, ones, labels, scale, bins=bins.of_row)
    counts = np.bincount(groups, minlength=len(points))
    first = np.bincount(groups, weights=is_first, minlength=len(points))
    return pool_counts(
        points, counts, first, scale, n_resamples, rng, second_first=samples.second_first
    )


def _pool_large(
    samples: TwoSamples, size: int, n_resamples: int, rng: np.random.Generator, scale: np.ndarray
) -> PooledSample:
    """Permute many rows in bins of a size; the rows stay in the order in which they came."""
    assignment = BinAssignment(samples.sizes, samples.second_first, size, int(rng.integers(2**63)))
    labels = permute_bins(assignment, n_resamples, rng)
    bins = np.concatenate(
        [
            assignment.start(index) + assignment.within(index, samples.ranks[index])
            for index in (0, 1)
        ]
    )
    ones = np.ones(len(bins), dtype=int)
    return PooledSample(
        samples.pooled / scale, ones, labels, scale, bins=bins, subset=samples.selection
    )


def pool_counts(
    points: np.ndarray,
    counts: np.ndarray,
    first: np.ndarray,
    scale: np.ndarray,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    second_first: bool,
) -> PooledSample:
    """Permute the labels of rows that are counted at points.

    Args:
        points: (C, D), scaled.
        counts: (C,), rows at each point.
        first: (C,), those of the first sample.
        scale: (D,), of the points.
        n_resamples: B.
        rng: random numbers of the permutations.
        second_first: permute as if the second sample were the first.
    """
    n_first = int(first.sum())
    drawn = draw_counts(
        counts, int(counts.sum()) - n_first if second_first else n_first, n_resamples, rng
    )
    if second_first:
        drawn = counts[:, None].astype(drawn.dtype) - drawn
    labels = np.concatenate([first[:, None].astype(drawn.dtype), drawn], axis=1)
    return PooledSample(points, counts, labels, scale)


def permute_bins(
    assignment: BinAssignment, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Permute the labels of bins, (M, 1 + B); incomplete bins keep theirs."""
    incomplete = assignment.bin_sizes < assignment.size
    labels = _permuted_bins(assignment.is_leading, incomplete, n_resamples, rng)
    return labels ^ assignment.second_first


def _permuted_bins(
    labels: np.ndarray, incomplete: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Permute labels (M,) of bins, (M, 1 + B) of int8; incomplete bins keep theirs."""
    strata = np.where(incomplete, 1 + np.arange(len(labels)), 0)
    scheme = PermutationScheme.independent(labels, strata)
    return np.column_stack([labels.astype(np.int8), scheme.draw(n_resamples, rng)])


def _large_groups(samples: TwoSamples, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`group_rows`, in an order and with cells and means given by the subset of rows."""
    rows = samples.sorted_rows
    groups = tie_groups(rows)
    count = int(groups[-1]) + 1
    if count > MAX_POINTS and rows.shape[1] <= MAX_CELL_COLUMNS:
        chosen = samples.pooled[samples.selection] / scale
        partition = MedianPartition.of(chosen, MAX_POINTS)
        return partition.assign(rows / scale), partition.means(chosen)
    unique = rows[np.flatnonzero(np.diff(groups, prepend=-1))]
    order = canonical_order(unique) if count <= MAX_SINGLE else np.arange(count)
    return np.argsort(order)[groups], unique[order] / scale


def group_rows(samples: TwoSamples, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the point (N,) at which each sorted row is counted, and the scaled points (C, D).

    Points are different rows, or the means of cells.
    """
    rows = samples.sorted_rows
    points, groups = rows / scale, tie_groups(rows)
    if groups[-1] >= MAX_POINTS and rows.shape[1] <= MAX_CELL_COLUMNS:
        groups = MedianPartition.of(points, MAX_POINTS).assign(points)
        return groups, cell_means(groups, points, int(groups.max()) + 1)
    # No means: they are rounded, and tied values of different rows would not be tied any more.
    return groups, points[np.flatnonzero(np.diff(groups, prepend=-1))]


def pool_pairs(
    samples: TwoSamples,
    n_resamples: int,
    rng: np.random.Generator,
    scale: np.ndarray | None = None,
) -> PooledSample:
    """Pool rows that belong together in pairs, and exchange the labels of pairs.

    Args:
        samples: both samples, of one size.
        n_resamples: B.
        rng: random numbers of the exchanges.
        scale: as for :func:`pool_rows`.
    """
    samples.check_equal_sizes("paired")
    sample = samples.swap_pairs(n_resamples, rng)
    scale = row_widths(samples.pooled[samples.selection]) if scale is None else scale
    order = canonical_order(sample.points)
    return dataclasses.replace(
        sample,
        points=sample.points[order] / scale,
        labels=sample.labels[order],
        scale=scale,
        partners=np.argsort(order)[sample.partners],
    )


def pool_weighted(
    samples: TwoSamples,
    weights: tuple[np.ndarray, np.ndarray],
    n_resamples: int,
    rng: np.random.Generator,
) -> WeightedSample:
    """Pool weighted rows, and flip the signs of their errors.

    Args:
        samples: both samples.
        weights: of their rows, (m,) and (n,), not negative.
        n_resamples: B.
        rng: random numbers of the signs.

    Raises:
        InputError: for a sample whose effective number of rows is below two.
    """
    row_weights = np.zeros((sum(samples.sizes), 2))
    row_weights[: len(weights[0]), 0] = weights[0] / weights[0].sum()
    row_weights[len(weights[0]) :, 1] = weights[1] / weights[1].sum()
    row_weights = row_weights[samples.order]
    sizes = 1.0 / np.square(row_weights).sum(axis=0)
    for name, size in zip("PQ", sizes, strict=True):
        if size < MIN_EFFECTIVE_SIZE:
            raise InputError(f"the rows of {name} with their weights are worth {size:.2g}, not two")
    scale = _weighted_widths(samples.sorted_rows, row_weights @ sizes)
    groups, points = group_rows(samples, scale)
    gather = group_matrix(groups)
    point_weights, squares = gather @ row_weights, gather @ np.square(row_weights)
    expected = _expected_squares(points, point_weights, squares)
    counts, rows_at = point_weights @ sizes, gather @ np.ones(len(row_weights), dtype=int)
    # The sign makes the result independent of which sample is first.
    deviations = (-1.0 if samples.second_first else 1.0) * np.sqrt(expected.sum(axis=1) / rows_at)
    errors = [
        # The sum of as many random signs as there are rows at each point.
        deviations[:, None]
        * (2.0 * rng.binomial(rows_at[:, None], 0.5, size=(len(points), count)) - rows_at[:, None])
        for count in _batch_sizes(n_resamples)
    ]
    # Features are centered over all rows, so that the observed labels have no special role.
    errors = [part - np.outer(counts / counts.sum(), part.sum(axis=0)) for part in errors]
    return WeightedSample(
        points=points,
        counts=counts,
        labels=np.concatenate([point_weights[:, :1] - point_weights[:, 1:], *errors], axis=1),
        scale=scale,
        sample_weights=point_weights,
        row_squares=squares,
        expected_squares=expected,
        lengths=samples.sizes,
    )


def _batch_sizes(count: int) -> list[int]:
    return [min(SIGNS_BATCH, count - start) for start in range(0, count, SIGNS_BATCH)]


def _expected_squares(
    points: np.ndarray, point_weights: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """Return the expected sums of squared weights under P = Q, (C, 2).

    Each sample has the weight of the rows of both samples at a point, in rows with the weights of
    its nearest rows. The sums over all points are those of ``squares``.

    Args:
        points: (C, D).
        point_weights: (C, 2), weights of both samples.
        squares: (C, 2), sums of the squared weights of their rows.
    """
    sizes = 1.0 / squares.sum(axis=0)
    pooled = point_weights @ sizes / sizes.sum()
    expected = np.zeros_like(point_weights)
    for sample in (0, 1):
        rows = np.flatnonzero(point_weights[:, sample] > 0.0)
        nearest = cKDTree(points[rows]).query(points, min(N_NEAREST, len(rows)))[1]
        nearest = rows[nearest.reshape(len(points), -1)]
        row_weight = squares[nearest, sample].sum(axis=1) / point_weights[nearest, sample].sum(
            axis=1
        )
        expected[:, sample] = pooled * row_weight
    return expected / (expected.sum(axis=0) * sizes)


def column_widths(deviation: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Return the width of each column (D,): its standard deviation, and 1 for a constant column.

    With outliers or heavy tails, it is the standard deviation of the normal distribution with the
    same distance of quantiles, the largest of three such distances.

    Args:
        deviation: (D,), standard deviations.
        quantiles: (2, 3, D), at :data:`TAILS` and at 1 less these.
    """
    low, high = quantiles
    normal = np.max((high - low) / (-2.0 * ndtri(TAILS))[:, None], axis=0)
    widths = np.where(normal > 0.0, np.minimum(deviation, normal), deviation)
    return np.where(widths > 0.0, widths, 1.0)


def row_widths(points: np.ndarray) -> np.ndarray:
    """Return the width (D,) of each column of rows (N, D)."""
    return column_widths(points.std(axis=0), np.quantile(points, [TAILS, 1.0 - TAILS], axis=0))


def _weighted_widths(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the width (D,) of each column of rows (N, D) with effective counts (N,)."""
    mean = counts @ points / counts.sum()
    deviation = np.sqrt(counts @ np.square(points - mean) / counts.sum())
    low, high = (weighted_quantiles(points, counts, list(tails)) for tails in (TAILS, 1.0 - TAILS))
    return column_widths(deviation, np.stack([low, high]))
