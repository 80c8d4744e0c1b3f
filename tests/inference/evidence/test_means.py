"""How far means are apart, beside loops over rows, and what a shift is heard by."""

import numpy as np
import pytest
from bke.inference import two_sample_test
from bke.inference.evidence.means import means
from bke.inference.relabelling.pair import Pair
from bke.inference.relabelling.pooling import relabelled, swapped
from bke.inference.relabelling.weighted import weighted

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("relabel", [relabelled, swapped])
def test_it_is_the_distance_of_means(dimension, relabel):
    P = RNG.normal(size=(30, dimension)).round(1)
    Q = RNG.normal(1e6, 1.0, size=(30 if relabel is swapped else 45, dimension)).round(1)
    rows = relabel(Pair(P, Q), 9, np.random.default_rng(1))
    expected = [
        np.square(
            np.average(rows.points, axis=0, weights=of)
            - np.average(rows.points, axis=0, weights=rows.counts - of)
        ).sum()
        for of in rows.labels.T
    ]
    np.testing.assert_allclose(means(rows), expected, rtol=1e-7)


def test_weighted_rows_have_weighted_means():
    P, Q = RNG.normal(size=(30, 2)), RNG.normal(size=(45, 2))
    v, w = RNG.exponential(size=30), RNG.exponential(size=45)
    rows = weighted(Pair(P, Q), (v, w), 9, np.random.default_rng(1))
    apart = (np.average(P, axis=0, weights=v) - np.average(Q, axis=0, weights=w)) / rows.unit
    np.testing.assert_allclose(means(rows)[0], apart @ apart, rtol=1e-9)


def test_equal_means_are_no_evidence_of_rounding():
    rows = relabelled(Pair(np.full((5, 1), 0.1), np.full((7, 1), 0.1)), 9, np.random.default_rng(1))
    assert not means(rows).any()


def test_a_shift_is_told_by_the_means():
    """2 x 80 normal rows, moved by half a deviation, seed 8: p = 0.008 of the means alone."""
    rng = np.random.default_rng(8)
    P, Q = rng.normal(size=(80, 1)), rng.normal(0.5, 1.0, size=(80, 1))
    found = two_sample_test(P, Q, permutations=499, progress=False)
    assert found.parts[0].name == "evidence in the means"
    assert found.pvalue < 0.05
