"""Pooling of two samples: tied rows, cells, and the distribution of permuted labels."""

import numpy as np
import pytest
from bke.inference.permutation import pool
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_tied_rows_are_a_single_point_and_their_labels_are_added(columns):
    rng = np.random.default_rng(0)
    P = rng.normal(size=(30, *columns)).round(0)
    Q = rng.normal(0.4, 1.3, size=(45, *columns)).round(0)
    sample = pool_rows(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))
    P, Q = P.reshape(30, -1), Q.reshape(45, -1)
    distinct, counts = np.unique(np.concatenate([P, Q]), axis=0, return_counts=True)
    np.testing.assert_allclose(sample.points * sample.scale, distinct)
    np.testing.assert_array_equal(sample.counts, counts)
    assert sample.sizes == (30, 45)
    np.testing.assert_array_equal(sample.labels.sum(axis=0), 30)
    assert (sample.labels >= 0).all()
    assert (sample.labels <= counts[:, None]).all()
    first_counts = [(point == P).all(axis=1).sum() for point in distinct]
    np.testing.assert_array_equal(sample.labels[:, 0], first_counts)


def test_large_samples_of_two_columns_are_counted_in_parts(monkeypatch):
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
