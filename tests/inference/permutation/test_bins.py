"""Bins of rows, the assignment of rows to bins by their hashes, and partitions of close rows."""

import itertools

import numpy as np
import pytest
from bke.inference import two_sample_test
from bke.inference.data.canonical import column_hashes, combine_hashes, has_duplicates, row_hashes
from bke.inference.permutation import bins
from bke.inference.permutation.bins import (
    BinAssignment,
    MedianPartition,
    bin_size,
    divide_into_bins,
    hash_ranks,
    permuted_indices,
    random_subset,
)
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples

QUIET = {"progress": False}


def test_groups_are_divided_into_complete_bins_and_an_incomplete_bin():
    group = np.array([0] * 7 + [1] * 6 + [3] * 2)
    divided = divide_into_bins(group, 3, np.random.default_rng(0).permutation(15))
    np.testing.assert_array_equal(group[divided.row][divided.of_row], group)
    sizes = np.bincount(divided.of_row)
    assert list(sizes) == [3, 3, 1, 3, 3, 2]
    assert list(divided.incomplete) == [False, False, True, False, False, True]


def test_bin_size_by_number_of_rows():
    assert bin_size(524_288, 262_144) == 128
    assert bin_size(100_000, 5_000) == 25  # a hundred bins of the smaller sample
    assert bin_size(400_000, 50) == 1


def test_bins_of_single_rows_are_not_used(small_bins):
    rng = np.random.default_rng(5)
    sample = pool_rows(TwoSamples(rng.normal(size=(8, 3)), rng.normal(size=(90, 3))), 19, rng)
    assert sample.bins is None
    assert sample.labels.shape == (98, 20)


@pytest.mark.parametrize("digits", [8, 0])
def test_order_of_samples_rows_and_columns_and_units_do_not_matter(small_bins, digits):
    """Also with tied rows."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(45, 3)), rng.normal(0.3, 1.0, size=(70, 3))
    P, Q = P.round(digits), Q.round(digits)
    p = two_sample_test(P, Q, n_resamples=199, **QUIET).pvalue
    for first, second in ((Q, P), (P[::-1], Q), (P[:, ::-1], Q[:, ::-1]), (2.54 * P, 2.54 * Q)):
        assert two_sample_test(first, second, n_resamples=199, **QUIET).pvalue == p
    assert 0.004 < p < 1.0


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 1000])
def test_permuted_indices_are_a_permutation(count):
    permutations = [permuted_indices(np.arange(count), count, key) for key in range(20)]
    for permutation in permutations:
        np.testing.assert_array_equal(np.sort(permutation), np.arange(count))
    selected = np.arange(count)[::-2]
    np.testing.assert_array_equal(permuted_indices(selected, count, 3), permutations[3][selected])
    if count > 10:
        assert len({permutation.tobytes() for permutation in permutations}) == 20


def test_permutations_of_three_indices_are_equally_frequent():
    """6000 keys: each of 6 about 1000 times, within 5 deviations of 29 (1 in 10^6 outside)."""
    permutations = np.stack([permuted_indices(np.arange(3), 3, key) for key in range(6000)])
    counts = np.unique(permutations, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 145


def test_permuted_indices_are_uncorrelated_with_their_neighbors():
    """10^5 indices: correlations are at most 4 standard errors, 4 / 10^2.5."""
    count = 100_000
    permuted = permuted_indices(np.arange(count), count, 7)
    sequences = np.arange(count), np.roll(permuted, 1), permuted_indices(np.arange(count), count, 8)
    for other in sequences:
        assert abs(np.corrcoef(permuted, other)[0, 1]) < 4.0 / np.sqrt(count)


@pytest.mark.parametrize("second_first", [False, True])
def test_assigned_bins_have_equal_sizes_except_the_last_of_a_sample(second_first):
    assignment = BinAssignment((103, 50), second_first, 10, 5)
    of_row = [
        assignment.start(sample) + assignment.within(sample, np.arange(assignment.sizes[sample]))
        for sample in (0, 1)
    ]
    sizes = np.bincount(np.concatenate(of_row))
    np.testing.assert_array_equal(sizes, assignment.bin_sizes)
    assert sorted(sizes) == [3, *[10] * 15]
    leading = of_row[int(second_first)]
    np.testing.assert_array_equal(np.unique(leading), np.flatnonzero(assignment.is_leading))


def hashes_of(rows):
    ends = rows.min(axis=0), rows.max(axis=0)
    return row_hashes(rows, *ends, column_hashes(rows, *ends))


def test_hashes_do_not_depend_on_partitions_order_of_columns_or_units():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(60, 3)), np.full(60, 4.0)])
    low, high = rows.min(axis=0), rows.max(axis=0)
    hashes = hashes_of(rows)
    np.testing.assert_array_equal(hashes, hashes_of(8.0 * rows))
    order = [2, 0, 1]  # and without the constant column
    np.testing.assert_array_equal(hashes, hashes_of(rows[:, order]))
    columns = column_hashes(rows, low, high)
    partitions = np.split(rows, [13, 40])
    np.testing.assert_array_equal(
        sum(column_hashes(part, low, high) for part in partitions), columns
    )
    parts = [combine_hashes(row_hashes(part, low, high, columns)[:, 0]) for part in partitions]
    assert combine_hashes(hashes[:, 0]) == sum(parts) % 2**64
    assert len(set(hashes[:, 0].tolist())) == 60


def test_hashes_of_permuted_values_and_of_heavy_tails_differ():
    """All permutations of three values within a row, and 10^5 Cauchy rows."""
    permuted = np.array([*itertools.permutations([1.0, 2.0, 3.0]), (1, 2, 2), (1, 1, 3)])
    assert len(set(hashes_of(permuted)[:, 0].tolist())) == 8
    heavy = np.random.default_rng(5).standard_cauchy(size=(100_000, 2))
    hashes = hashes_of(heavy)
    assert len(np.unique(hashes[:, 0])) < 50_000
    assert len(np.unique(hashes, axis=0)) == 100_000


def test_columns_with_equal_hashes_are_distinguished_by_the_other_columns():
    """Three binary columns of 400 rows, two of which have the same sum."""
    rng = np.random.default_rng(7)
    rows = rng.integers(2, size=(400, 3)).astype(float)
    rows[:, 2] = rows[rng.permutation(400), 0]
    ends = rows.min(axis=0), rows.max(axis=0)
    columns = column_hashes(rows, *ends)
    assert has_duplicates(columns)
    further = column_hashes(rows, *ends, columns)
    assert not has_duplicates(further)
    order = [2, 0, 1]
    again = column_hashes(rows[::-1][:, order], *ends, columns[order])
    np.testing.assert_array_equal(again, further[order])


def test_ranks_are_positions_of_rows_sorted_by_hash():
    hashes = np.array([[7, 2], [3, 9], [7, 2], [1, 0], [7, 1]], dtype=np.uint64)
    np.testing.assert_array_equal(hash_ranks(hashes), [3, 1, 4, 0, 2])


@pytest.mark.parametrize("tied", ["hashes", "ranks"])
def test_random_subset_contains_a_part_of_tied_rows(monkeypatch, tied):
    """20 of 50 rows with one hash, or one rank: neither the first nor the last ones."""
    monkeypatch.setattr(bins, "SUBSET", 20)
    different, equal = np.arange(50, dtype=np.uint64), np.full(50, 3, np.uint64)
    hashes, ranks = (equal, different) if tied == "hashes" else (different, equal)
    subset = random_subset(np.column_stack([hashes, hashes]), ranks.astype(int))
    assert len(set(subset.tolist())) == 20
    assert (np.diff(subset) > 0).all()
    assert subset[0] < 10
    assert subset[-1] >= 40
    assert len(np.unique(np.diff(subset))) > 2


def partition_by_lists(points, max_parts):
    """Divide rows at medians with lists of row numbers; return the part of each row."""
    parts = [np.arange(len(points))]
    while len(parts) < max_parts:
        divided = []
        for part in parts:
            column = np.argmax(np.ptp(points[part], axis=0))
            values = points[part, column]
            upper = values > np.median(values)
            upper = upper if upper.any() else values >= np.median(values)
            divided += [part] if upper.all() or not upper.any() else [part[~upper], part[upper]]
        if len(divided) == len(parts):
            break
        parts = divided
    part_of_row = np.empty(len(points), dtype=int)
    for index, part in enumerate(parts):
        part_of_row[part] = index
    return part_of_row


@pytest.mark.parametrize("digits", [9, 0])
@pytest.mark.parametrize("columns", [1, 2])
def test_parts_are_divided_at_medians(columns, digits):
    points = np.random.default_rng(1).gamma(1.0, size=(700, columns)).round(digits)
    for max_parts in (1, 2, 50, 5000):
        partition = MedianPartition.of(points, max_parts)
        assigned = partition.assign(points)
        np.testing.assert_array_equal(assigned, partition_by_lists(points, max_parts))
        assert partition.n_parts == assigned.max() + 1


def test_other_rows_are_assigned_to_the_part_that_contains_them():
    partition = MedianPartition.of(np.arange(8.0)[:, None], 4)
    np.testing.assert_array_equal(
        partition.assign(np.array([[-9.0], [1.5], [2.0], [5.0], [99.0]])), [0, 0, 1, 2, 3]
    )
