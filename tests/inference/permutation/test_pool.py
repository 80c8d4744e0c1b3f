"""Pooling of two samples: tied rows, cells, and the distribution of permuted labels."""

import itertools

import numpy as np
import pytest
import scipy.stats
from bke.inference.permutation import pool, scheme
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples

RNG = np.random.default_rng(0)


def test_tied_rows_are_one_point_and_their_labels_are_added():
    P, Q = RNG.normal(size=(30, 2)).round(0), RNG.normal(0.4, 1.3, size=(45, 2)).round(0)
    sample = pool_rows(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))
    distinct, counts = np.unique(np.concatenate([P, Q]), axis=0, return_counts=True)
    np.testing.assert_allclose(sample.points * sample.scale, distinct)
    np.testing.assert_array_equal(sample.counts, counts)
    assert sample.sizes == (30, 45)
    np.testing.assert_array_equal(sample.labels.sum(axis=0), 30)
    assert (sample.labels >= 0).all()
    assert (sample.labels <= counts[:, None]).all()
    first_counts = [(point == P).all(axis=1).sum() for point in distinct]
    np.testing.assert_array_equal(sample.labels[:, 0], first_counts)


@pytest.mark.parametrize(("max_labels", "seed"), [(2**28, 1), (0, 2)])
def test_labels_of_points_have_the_distribution_of_labels_of_rows(monkeypatch, max_labels, seed):
    """Chi-square test of 3000 permutations of three points: false failures 1 in 1000 each."""
    first, second = np.repeat([0.0, 1.0], [3, 2]), np.repeat([1.0, 2.0], [2, 2])
    monkeypatch.setattr(scheme, "MAX_LABELS", max_labels)
    samples = TwoSamples.checked(first, second)
    sample = pool_rows(samples, 3000, np.random.default_rng(seed))
    distribution = scipy.stats.multivariate_hypergeom([3, 4, 2], 5)
    states = [s for s in itertools.product(range(4), range(5), range(3)) if sum(s) == 5]
    observed = [np.all(s == sample.labels[:, 1:].T, axis=1).sum() for s in states]
    expected = 3000 * np.array([distribution.pmf(s) for s in states])
    assert sum(observed) == 3000
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-3


def test_many_rows_of_two_columns_are_counted_in_cells(monkeypatch):
    monkeypatch.setattr(pool, "MAX_POINTS", 16)
    first, second = RNG.normal(size=(100, 2)), RNG.normal(size=(60, 2))
    sample = pool_rows(TwoSamples.checked(first, second), 9, np.random.default_rng(1))
    assert len(sample.points) == 16
    assert set(sample.counts) == {10}
    np.testing.assert_array_equal(sample.labels.sum(axis=0), 100)
    rows = np.concatenate([first, second])
    np.testing.assert_allclose(
        sample.counts @ sample.points / 160, rows.mean(axis=0) / sample.scale
    )
