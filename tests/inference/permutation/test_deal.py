"""Rows dealt out by their places, and cells of halves."""

import itertools

import numpy as np
import pytest
from bke.inference.data.canonical import column_hashes, combine_hashes, has_duplicates, row_hashes
from bke.inference.permutation.deal import Deal, places_of, priorities, shuffled
from bke.inference.permutation.halves import Halves


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 1000])
def test_places_are_permuted(count):
    found = [shuffled(np.arange(count), count, key) for key in range(20)]
    for one in found:
        np.testing.assert_array_equal(np.sort(one), np.arange(count))
    some = np.arange(count)[::-2]
    np.testing.assert_array_equal(shuffled(some, count, 3), found[3][some])
    if count > 10:
        assert len({one.tobytes() for one in found}) == 20


def test_all_permutations_of_three_are_as_likely():
    """6000 keys: each of 6 about 1000 times, within 5 deviations of 29 (1 in 10^6 outside)."""
    found = np.stack([shuffled(np.arange(3), 3, key) for key in range(6000)])
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 145


def test_places_forget_their_neighbours():
    """Correlations of 10^5 places with where they and the next are put: 4 of 10^-2.5 at most."""
    count = 100_000
    found = shuffled(np.arange(count), count, 7)
    for other in (np.arange(count), np.roll(found, 1), shuffled(np.arange(count), count, 8)):
        assert abs(np.corrcoef(found, other)[0, 1]) < 4.0 / np.sqrt(count)


@pytest.mark.parametrize("turned", [False, True])
def test_bins_have_one_size_but_for_the_last(turned):
    deal = Deal((103, 50), turned, 10, 5)
    bins = [deal.start(one) + deal.within(one, np.arange(deal.sizes[one])) for one in (0, 1)]
    sizes = np.bincount(np.concatenate(bins))
    np.testing.assert_array_equal(sizes, deal.sizes_of_bins)
    assert sorted(sizes) == [3, *[10] * 15]
    counted_first = bins[int(turned)]
    np.testing.assert_array_equal(np.unique(counted_first), np.flatnonzero(deal.of_first))


def test_it_does_not_matter_which_sample_is_named_first():
    one, other = Deal((40, 70), False, 7, 9), Deal((70, 40), True, 7, 9)
    for sample in (0, 1):
        places = np.arange(one.sizes[sample])
        np.testing.assert_array_equal(one.within(sample, places), other.within(1 - sample, places))
        assert one.start(sample) == other.start(1 - sample)


def marked(rows):
    ends = rows.min(axis=0), rows.max(axis=0)
    return row_hashes(rows, *ends, column_hashes(rows, *ends))


def test_marks_add_and_know_neither_columns_nor_units():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(60, 3)), np.full(60, 4.0)])
    low, high = rows.min(axis=0), rows.max(axis=0)
    marks = marked(rows)
    np.testing.assert_array_equal(marks, marked(8.0 * rows))
    turn = [2, 0, 1]  # and without the column of one value
    np.testing.assert_array_equal(marks, marked(rows[:, turn]))
    columns = column_hashes(rows, low, high)
    some = np.split(rows, [13, 40])
    np.testing.assert_array_equal(sum(column_hashes(part, low, high) for part in some), columns)
    parts = [combine_hashes(row_hashes(part, low, high, columns)[:, 0]) for part in some]
    assert combine_hashes(marks[:, 0]) == sum(parts) % 2**64
    assert len(set(marks[:, 0].tolist())) == 60


def test_marks_tell_values_in_other_columns_apart_and_the_middle_of_heavy_tails():
    """Every permutation of three values in columns that hold other ones besides; Cauchy rows."""
    turned = np.array([*itertools.permutations([1.0, 2.0, 3.0]), (1, 2, 2), (1, 1, 3)])
    assert len(set(marked(turned)[:, 0].tolist())) == 8
    heavy = np.random.default_rng(5).standard_cauchy(size=(100_000, 2))
    marks = marked(heavy)
    assert len(np.unique(marks[:, 0])) < 50_000
    assert len(np.unique(marks, axis=0)) == 100_000


def test_columns_alike_are_told_apart_by_what_is_beside_them():
    """Three coins of 400 rows, two of which show heads as often."""
    rng = np.random.default_rng(7)
    rows = rng.integers(2, size=(400, 3)).astype(float)
    rows[:, 2] = rows[rng.permutation(400), 0]
    ends = rows.min(axis=0), rows.max(axis=0)
    columns = column_hashes(rows, *ends)
    assert has_duplicates(columns)
    further = column_hashes(rows, *ends, columns)
    assert not has_duplicates(further)
    turn = [2, 0, 1]
    again = column_hashes(rows[::-1][:, turn], *ends, columns[turn])
    np.testing.assert_array_equal(again, further[turn])


def test_no_row_has_another_place_in_another_order_of_rows():
    rng = np.random.default_rng(6)
    rows = np.concatenate([rng.standard_cauchy(size=(400, 3)), rng.poisson(1.0, size=(400, 3))])
    shuffled = rng.permutation(800)
    places, others = places_of(marked(rows)), places_of(marked(rows[shuffled]))
    np.testing.assert_array_equal(rows[np.argsort(places)], rows[shuffled][np.argsort(others)])


def test_places_are_numbers_of_rows_sorted_by_their_marks():
    marks = np.array([[7, 2], [3, 9], [7, 2], [1, 0], [7, 1]], dtype=np.uint64)
    np.testing.assert_array_equal(places_of(marks), [3, 1, 4, 0, 2])


def test_equal_rows_and_equal_places_come_into_the_part_by_themselves():
    drawn = [priorities(np.full(50, 3, np.uint64), np.arange(50))]
    drawn.append(priorities(np.arange(50, dtype=np.uint64), np.full(50, 3)))
    for one in drawn:
        assert len(set(one.tolist())) == 50


def halved(points, most):
    """The cells of every row, by lists of rows."""
    parts = [np.arange(len(points))]
    while len(parts) < most:
        halves = []
        for part in parts:
            column = np.argmax(np.ptp(points[part], axis=0))
            values = points[part, column]
            upper = values > np.median(values)
            upper = upper if upper.any() else values >= np.median(values)
            halves += [part] if upper.all() or not upper.any() else [part[~upper], part[upper]]
        if len(halves) == len(parts):
            break
        parts = halves
    cells = np.empty(len(points), dtype=int)
    for index, part in enumerate(parts):
        cells[part] = index
    return cells


@pytest.mark.parametrize("digits", [9, 0])
@pytest.mark.parametrize("columns", [1, 2])
def test_halves_are_those_at_medians(columns, digits):
    points = np.random.default_rng(1).gamma(1.0, size=(700, columns)).round(digits)
    for most in (1, 2, 50, 5000):
        found = Halves.of(points, most)
        cells = found.cells(points)
        np.testing.assert_array_equal(cells, halved(points, most))
        assert found.number == cells.max() + 1


def test_rows_that_were_not_halved_are_in_the_cell_of_those_beside_them():
    found = Halves.of(np.arange(8.0)[:, None], 4)
    np.testing.assert_array_equal(
        found.cells(np.array([[-9.0], [1.5], [2.0], [5.0], [99.0]])), [0, 0, 1, 2, 3]
    )
