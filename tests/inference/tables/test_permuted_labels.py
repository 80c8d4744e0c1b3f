"""Permutations of the labels of rows, bins and clusters, and within strata."""

import numpy as np
import pytest
from bke.inference import InputError
from bke.inference.io.types import Column
from bke.inference.permutation import bins
from bke.inference.tables import permuted_labels as module
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.pooling import UNWEIGHTED, RowWeights


def column(values, name="x"):
    return Column(name, "number", np.asarray(values, dtype=float))


def row_labels(permuted):
    return permuted.labels[permuted.unit]


def test_rows_keep_their_table_at_first_and_its_size_always():
    X = column(np.random.default_rng(0).normal(size=70))
    labels = row_labels(permute_labels([X], 30, 99, 0))
    np.testing.assert_array_equal(labels[:, 0], np.arange(70) < 30)
    assert (labels.sum(axis=0) == 30).all()
    # Every row is as often of the first table; 99 draws, 5 standard errors.
    assert np.abs(labels[:, 1:].mean(axis=1) - 3 / 7).max() < 5 * (3 / 7 * 4 / 7 / 99) ** 0.5


def test_counts_and_sums_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    X, codes = column(rng.normal(size=50)), rng.integers(-1, 4, size=50)
    permuted = permute_labels([X], 20, 19, 0)
    labels, features = row_labels(permuted), rng.normal(size=(50, 3))
    counted = permuted.first_counts(permuted.unit_counts(codes, 5))
    summed = permuted.first_sums(permuted.unit_sums(lambda rows: features[rows]))
    for b in range(20):
        mine = labels[:, b] == 1
        np.testing.assert_array_equal(counted[:, b], [(codes[mine] == c).sum() for c in range(5)])
        np.testing.assert_allclose(summed[:, b], features[mine].sum(axis=0))


@pytest.mark.parametrize("how", ["rows", "bins", "strata", "clusters"])
def test_which_table_is_named_first_does_not_matter(how, monkeypatch):
    """Equal rows are in both tables; which of them has a label is all the same."""
    if how == "bins":
        monkeypatch.setattr(module, "MAX_SINGLE_ROWS", 50)
        monkeypatch.setattr(bins, "N_BINS", 20)
        monkeypatch.setattr(bins, "MIN_BINS", 5)
    rng = np.random.default_rng(7)
    values, group = rng.integers(8, size=120).astype(float), rng.integers(25, size=120)
    options = {"strata": group % 3, "clusters": group}
    turned = np.roll(np.arange(120), -45)

    def permuted(order, rows):
        given = {how: column(options[how][order], "g")} if how in options else {}
        return permute_labels([column(values[order])], rows, 29, 0, **given)

    def counted(order, rows, first):
        labels = row_labels(permuted(order, rows)) == first
        keys = np.stack([values, group])[:, order] if how in options else values[None, order]
        _, which = np.unique(keys, axis=1, return_inverse=True)
        return np.stack([np.bincount(which.ravel(), weights=one) for one in labels.T])

    np.testing.assert_array_equal(counted(np.arange(120), 45, 1), counted(turned, 75, 0))


def test_within_blocks_every_table_keeps_its_rows():
    rng = np.random.default_rng(3)
    block = rng.integers(4, size=80)
    permuted = permute_labels(
        [column(rng.normal(size=80))], 30, 49, 0, strata=column(block, "site")
    )
    labels = row_labels(permuted)
    for one in range(4):
        assert len(set(labels[block == one].sum(axis=0))) == 1
    assert (labels != labels[:, :1]).any(axis=0)[1:].all()


def test_rows_of_a_unit_go_together_and_units_of_both_tables_are_swapped():
    rng = np.random.default_rng(4)
    units = np.concatenate([np.repeat(np.arange(10), 3), np.repeat(np.arange(5, 15), 4)])
    labels = row_labels(
        permute_labels([column(rng.normal(size=70))], 30, 49, 0, clusters=column(units))
    )
    of_table = np.arange(70) < 30
    for unit in range(15):
        for table in (True, False):
            mine = labels[(units == unit) & (of_table == table)]
            assert (mine == mine[:1]).all()
    for unit in range(5, 10):  # in both tables: one of the two is of the first
        first, second = (labels[(units == unit) & (of_table == table)][0] for table in (1, 0))
        assert (first + second == 1).all()
    alone = [labels[units == unit][0] for unit in (*range(5), *range(10, 15))]
    assert (np.sum(alone, axis=0) == 5).all()


def test_bins_of_one_size_change_places_and_what_is_left_over_stays(monkeypatch):
    monkeypatch.setattr(module, "MAX_SINGLE_ROWS", 100)
    monkeypatch.setattr(bins, "N_BINS", 60)
    monkeypatch.setattr(bins, "MIN_BINS", 10)
    rng = np.random.default_rng(5)
    permuted = permute_labels([column(rng.normal(size=610))], 203, 49, 0)
    labels, sizes = row_labels(permuted), np.bincount(permuted.unit)
    np.testing.assert_array_equal(labels[:, 0], np.arange(610) < 203)
    assert (labels.sum(axis=0) == 203).all()
    size = sizes.max()
    assert size == 11  # 610 rows in 60 bins
    left = np.flatnonzero(sizes < size)
    assert list(sizes[left]) == [203 % 11]  # and 407 is 37 bins
    assert (permuted.labels[left] == permuted.labels[left][:, :1]).all()
    # Whoever is in a bin is drawn, and does not go by the order of rows.
    assert np.ptp(np.flatnonzero(permuted.unit == permuted.unit[0])) > size


def test_labels_that_cannot_change_are_refused():
    X = column(np.arange(6.0))
    strata = column([0, 0, 0, 1, 1, 1], "table")._replace(levels=("a", "A"))
    with pytest.raises(InputError, match=r"no row can change its label: .* 'a' in .* and 'A' in"):
        permute_labels([X], 3, 9, 0, strata=strata)


@pytest.mark.parametrize("grouped", [False, True])
def test_products_are_those_of_a_loop(grouped, monkeypatch):
    """Of single rows, and of units of very different sizes with weights, in several groups."""
    monkeypatch.setattr("bke.inference.tables.permuted_labels.BLOCK_ROWS", 16)
    rng = np.random.default_rng(3)
    features = rng.normal(size=(60, 4))
    units = column(np.minimum(rng.geometric(0.2, size=60), 9)) if grouped else None
    weights = RowWeights(weights=rng.uniform(0.5, 2.0, size=60)) if grouped else UNWEIGHTED
    permuted = permute_labels(
        [column(rng.normal(size=60))], 25, 9, 0, clusters=units, row_weights=weights
    )
    found, _ = permuted.unit_products(
        lambda rows: [(features[rows, 1:3], features[rows]), (features[rows], features[rows, :0])]
    )
    assert found.shape == (len(permuted.labels), 2, 4)
    for unit in range(len(permuted.labels)):
        rows = np.flatnonzero(permuted.unit == unit)
        each = np.ones(60) if weights.weights is None else weights.weights
        twin = (features[rows, 1:3] * each[rows, None]).T @ features[rows]
        np.testing.assert_allclose(found[unit], twin, atol=1e-12)


@pytest.mark.parametrize(("sizes", "few"), [((2, 2), True), ((3, 3), True), ((4, 4), False)])
def test_so_few_units_that_no_p_value_is_small_are_refused(sizes, few):
    """Of 3 + 3 units one labelling in ten is the observed one or its swap, of 4 + 4 one in 35."""
    units = column(np.repeat(np.arange(sum(sizes)), 20), "user")
    values = column(np.random.default_rng(0).normal(size=20 * sum(sizes)))
    permuted = permute_labels([values], 20 * sizes[0], 999, 0, clusters=units)
    if few:
        with pytest.raises(InputError, match=r"\d+ units have only \d+ distinct"):
            permuted.check_resolution(0.05)
    else:
        permuted.check_resolution(0.05)
