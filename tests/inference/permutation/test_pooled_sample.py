"""Sums and measures of pooled samples, compared with those of single rows."""

import numpy as np
import pytest
from bke.inference.permutation import pooled_sample
from bke.inference.permutation.pool import pool_pairs, pool_rows, pool_weighted
from bke.inference.permutation.pooled_sample import LabelSums, RowSubset
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.combined import CombinedStatistic
from bke.inference.statistics.kernels import choose_nodes, squared_exponential
from bke.inference.statistics.label_bayes_factor import KernelAtNodes, decompose

RNG = np.random.default_rng(0)
#: Rounded, so that rows are tied; unequal sizes.
P = np.round(RNG.normal(size=(30, 2)), 0)
Q = np.round(RNG.normal(0.4, 1.3, size=(45, 2)), 0)


def pooled(first, second, n_resamples=9):
    return pool_rows(TwoSamples.checked(first, second), n_resamples, np.random.default_rng(1))


def test_sizes_and_observed_labels():
    sample = pooled(P, Q)
    assert sample.n_rows == 75
    assert sample.first_fraction == pytest.approx(0.4)
    observed = sample.observed()
    assert type(observed) is type(sample)
    assert observed.labels.shape[1] == 1
    np.testing.assert_array_equal(observed.labels[:, 0], sample.labels[:, 0])


def test_samples_of_equal_size_are_balanced_unless_they_are_weighted():
    """Pairs are, although they are not independent."""
    samples = TwoSamples(P, Q[:30])
    assert pool_rows(samples, 9, np.random.default_rng(1)).is_balanced
    assert pool_pairs(samples, 9, np.random.default_rng(1)).is_balanced
    assert not pool_rows(TwoSamples(P, Q), 9, np.random.default_rng(1)).is_balanced
    weights = np.ones(30), np.ones(30)
    assert not pool_weighted(samples, weights, 9, np.random.default_rng(1)).is_balanced


def test_statistics_of_bins_are_those_of_single_labels(small_bins):
    rng = np.random.default_rng(1)
    sample = pool_rows(TwoSamples(*rng.normal(size=(2, 50, 4))), 19, rng)
    assert sample.bins is not None
    assert len(sample.labels) == 26  # bins of 4 rows, and two incomplete ones
    single = sample.with_labels(sample.point_labels(slice(None)))
    np.testing.assert_array_equal(single.labels.sum(axis=0), 50)
    assert sample.sizes == (50, 50)
    np.testing.assert_allclose(sample.first_fractions, 0.5)
    actual, expected = (
        CombinedStatistic.evaluate(labeled).components() for labeled in (sample, single)
    )
    for values, expected_values in zip(actual, expected, strict=True):
        np.testing.assert_allclose(values, expected_values, rtol=1e-7, atol=1e-9)


def test_products_of_features_are_estimated_from_a_subset(small_bins):
    """3000 + 3000 rows, 2000 of them in the subset: eigenvalues are within 10 per cent."""
    rng = np.random.default_rng(2)
    sample = pool_rows(TwoSamples(*rng.normal(size=(2, 3000, 3))), 19, rng)
    kernel = KernelAtNodes.of(squared_exponential, choose_nodes(sample, 60), 1.0)
    moments = sample.moments(kernel.features, len(kernel.nodes))
    subset = RowSubset.of(sample, 2000)
    assert subset.counts.sum() == 2000
    exact = decompose(moments)
    products = subset.products(kernel.features(subset.points))
    part = decompose(moments._replace(products=products))
    np.testing.assert_allclose(part.eigenvalues[-10:], exact.eigenvalues[-10:], rtol=0.1)
    np.testing.assert_allclose(
        np.square(part.loadings).sum(axis=0), np.square(exact.loadings).sum(axis=0), rtol=1e-9
    )


def test_products_of_a_subset_of_all_rows_are_exact(single_rows):
    sample = pooled(P, Q)
    subset = RowSubset.of(sample, 1000)
    points, _ = single_rows(sample)
    expected = 75 * np.cov(points.T, ddof=0)
    np.testing.assert_allclose(subset.products(subset.points), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [7, 4096])  # blocks that divide bins, and one block
def test_sums_over_bins_are_sums_over_rows(small_bins, monkeypatch, size):
    monkeypatch.setattr(pooled_sample, "BINNED_BLOCK", size)
    rng = np.random.default_rng(6)
    sample = pool_rows(TwoSamples(*rng.normal(size=(2, 50, 3))), 19, rng).sorted_by_bin
    assert (np.diff(sample.bins) >= 0).all()
    features = rng.normal(size=(100, 2))
    sums = LabelSums(sample, 2)
    for block in sample.blocks():
        sums.add(block, features[block])
    expected = features.T @ sample.point_labels(slice(None)).astype(float)
    np.testing.assert_allclose(sums.sums(), expected, rtol=1e-12)


@pytest.mark.parametrize("max_sparsity", [0, 20])  # by a sparse matrix, and by a dense one
def test_labels_of_merged_points_are_those_of_their_rows(small_bins, monkeypatch, max_sparsity):
    monkeypatch.setattr(pooled_sample, "MAX_SPARSITY", max_sparsity)
    rng = np.random.default_rng(7)
    sample = pool_rows(TwoSamples(*rng.normal(size=(2, 50, 3))), 19, rng)
    merged = sample.merge(np.arange(100) % 6)
    single = sample.point_labels(slice(None)).astype(int)
    np.testing.assert_array_equal(
        merged.labels, [single[group::6].sum(axis=0) for group in range(6)]
    )
    assert merged.labels.dtype.kind == "i"


def test_row_measures_are_the_weights_of_rows(small_bins):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(40, 2)).round(1), rng.normal(size=(60, 2)).round(1)
    weights = rng.uniform(size=40), rng.uniform(size=60)
    independent = pool_rows(TwoSamples(x, y), 19, rng)
    fractions = independent.counts / independent.n_rows
    weighted = pool_weighted(TwoSamples(x, y), weights, 19, rng)
    for sample, expected_squares in (
        (independent, fractions[:, None] / independent.effective_sizes),
        (weighted, weighted.expected_squares),
    ):
        columns, combine = sample.row_measures
        expected = [
            sample.counts / sample.n_rows,
            sample.weights,
            sample.squared_weights,
            expected_squares,
        ]
        np.testing.assert_allclose(columns @ combine, np.column_stack(expected), atol=1e-15)


def test_selected_columns_keep_the_permutations(single_rows):
    sample = pooled(P, Q)
    selected = sample.select_columns((1,), 100)
    for column in range(sample.labels.shape[1]):
        points, first = single_rows(sample, column)
        selected_points, selected_first = single_rows(selected, column)
        np.testing.assert_allclose(
            np.sort(selected_points[selected_first, 0]), np.sort(points[first, 1])
        )
        np.testing.assert_allclose(
            np.sort(selected_points[~selected_first, 0]), np.sort(points[~first, 1])
        )


def test_values_of_a_single_column_are_merged_without_dividing_ties():
    sample = pooled(RNG.normal(size=(300, 2)), RNG.normal(size=(200, 2)))
    merged = sample.select_columns((0,), 20)
    assert len(merged.points) == 20
    assert set(merged.counts) == {25}
    assert (np.diff(merged.points[:, 0]) > 0).all()
    np.testing.assert_array_equal(merged.labels.sum(axis=0), 300)
    np.testing.assert_allclose(
        merged.counts @ merged.points[:, 0], sample.counts @ sample.points[:, 0], atol=1e-10
    )
    tied = pooled(np.repeat([[0.0, 1.0], [1.0, 2.0]], 50, axis=0), RNG.normal(size=(20, 2)))
    assert (np.sort(tied.select_columns((0,), 10).counts)[-2:] >= 50).all()
