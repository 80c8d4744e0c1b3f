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
        selected = labels[:, b] == 1
        np.testing.assert_array_equal(
            counted[:, b], [(codes[selected] == c).sum() for c in range(5)]
        )
        np.testing.assert_allclose(summed[:, b], features[selected].sum(axis=0))


@pytest.mark.parametrize("how", ["rows", "bins", "strata", "clusters"])
def test_which_table_is_named_first_does_not_matter(how, monkeypatch):
    """Equal rows are in both tables, and exchangeable."""
    if how == "bins":
        monkeypatch.setattr(module, "MAX_SINGLE_ROWS", 50)
        monkeypatch.setattr(bins, "N_BINS", 20)
        monkeypatch.setattr(bins, "MIN_BINS", 5)
    rng = np.random.default_rng(7)
    values, group = rng.integers(8, size=120).astype(float), rng.integers(25, size=120)
    options = {"strata": group % 3, "clusters": group}
    rotated = np.roll(np.arange(120), -45)

    def permuted(order, rows):
        roles = {how: column(options[how][order], "g")} if how in options else {}
        return permute_labels([column(values[order])], rows, 29, 0, **roles)

    def counted(order, rows, first):
        labels = row_labels(permuted(order, rows)) == first
        keys = np.stack([values, group])[:, order] if how in options else values[None, order]
        _, which = np.unique(keys, axis=1, return_inverse=True)
        return np.stack([np.bincount(which.ravel(), weights=is_first) for is_first in labels.T])

    np.testing.assert_array_equal(counted(np.arange(120), 45, 1), counted(rotated, 75, 0))


def test_within_strata_every_table_keeps_its_rows():
    rng = np.random.default_rng(3)
    block = rng.integers(4, size=80)
    permuted = permute_labels(
        [column(rng.normal(size=80))], 30, 49, 0, strata=column(block, "site")
    )
    labels = row_labels(permuted)
    for stratum in range(4):
        assert len(set(labels[block == stratum].sum(axis=0))) == 1
    assert (labels != labels[:, :1]).any(axis=0)[1:].all()


def test_rows_of_a_cluster_keep_a_common_label_and_clusters_of_both_tables_are_swapped():
    rng = np.random.default_rng(4)
    units = np.concatenate([np.repeat(np.arange(10), 3), np.repeat(np.arange(5, 15), 4)])
    labels = row_labels(
        permute_labels([column(rng.normal(size=70))], 30, 49, 0, clusters=column(units))
    )
    of_table = np.arange(70) < 30
    for unit in range(15):
        for table in (True, False):
            cluster_labels = labels[(units == unit) & (of_table == table)]
            assert (cluster_labels == cluster_labels[:1]).all()
    for unit in range(5, 10):  # in both tables: exactly one part has the label of the first
        first, second = (labels[(units == unit) & (of_table == table)][0] for table in (1, 0))
        assert (first + second == 1).all()
    unshared = [labels[units == unit][0] for unit in (*range(5), *range(10, 15))]
    assert (np.sum(unshared, axis=0) == 5).all()


def test_bins_of_equal_size_are_permuted_and_incomplete_bins_stay(monkeypatch):
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
    # Rows of a bin are drawn at random, whatever their order.
    assert np.ptp(np.flatnonzero(permuted.unit == permuted.unit[0])) > size


def test_labels_that_cannot_change_are_refused():
    X = column(np.arange(6.0))
    strata = column([0, 0, 0, 1, 1, 1], "table")._replace(levels=("a", "A"))
    with pytest.raises(InputError, match=r"no row can change its label: .* 'a' in .* and 'A' in"):
        permute_labels([X], 3, 9, 0, strata=strata)


@pytest.mark.parametrize("grouped", [False, True])
def test_products_are_those_of_a_loop(grouped, monkeypatch):
    """For single rows, and for weighted clusters of very different sizes."""
    monkeypatch.setattr("bke.inference.tables.permuted_labels.BLOCK_ROWS", 16)
    rng = np.random.default_rng(3)
    features = rng.normal(size=(60, 4))
    units = column(np.minimum(rng.geometric(0.2, size=60), 9)) if grouped else None
    weights = RowWeights(weights=rng.uniform(0.5, 2.0, size=60)) if grouped else UNWEIGHTED
    permuted = permute_labels(
        [column(rng.normal(size=60))], 25, 9, 0, clusters=units, row_weights=weights
    )
    products, _ = permuted.unit_products(
        lambda rows: [(features[rows, 1:3], features[rows]), (features[rows], features[rows, :0])]
    )
    assert products.shape == (len(permuted.labels), 2, 4)
    for unit in range(len(permuted.labels)):
        rows = np.flatnonzero(permuted.unit == unit)
        row_weights = np.ones(60) if weights.weights is None else weights.weights
        twin = (features[rows, 1:3] * row_weights[rows, None]).T @ features[rows]
        np.testing.assert_allclose(products[unit], twin, atol=1e-12)


@pytest.mark.parametrize(("sizes", "refused"), [((2, 2), True), ((3, 3), True), ((4, 4), False)])
def test_too_few_clusters_for_a_small_p_value_are_refused(sizes, refused):
    """Labels of 3 + 3 clusters are the observed ones or swapped in one of ten, of 4 + 4 in 35."""
    units = column(np.repeat(np.arange(sum(sizes)), 20), "user")
    values = column(np.random.default_rng(0).normal(size=20 * sum(sizes)))
    permuted = permute_labels([values], 20 * sizes[0], 999, 0, clusters=units)
    if refused:
        with pytest.raises(InputError, match=r"\d+ units have only \d+ distinct"):
            permuted.check_resolution(0.05)
    else:
        permuted.check_resolution(0.05)


def test_whether_tables_are_too_small_does_not_depend_on_the_seed():
    """One row and 19 have 20 distinct permutations, and one row and 18 have 19."""
    values = column(np.random.default_rng(0).normal(size=20))
    for seed in range(30):
        permute_labels([values], 1, 99, seed).check_resolution(0.05)
        with pytest.raises(InputError, match="19 units have only 19 distinct"):
            permute_labels([column(values.values[1:])], 1, 99, seed).check_resolution(0.05)
    many, strata = column(np.arange(1800)), column(np.arange(1800) % 6, "g")
    permute_labels([many], 900, 1, 0, strata=strata).check_resolution(0.05)  # 10^350 of them
