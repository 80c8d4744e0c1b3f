"""Two samples under test: what does not hang on the order of rows, and what labels say."""

import numpy as np
import pytest
from bke.inference import InputError
from bke.inference.permutation.pair import Pair

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(7, 2)), RNG.normal(size=(7, 2)) + 5.0


def test_the_observed_labels_are_those_of_the_samples():
    rows, labels, paired = Pair(P, Q[:5]).relabelled(9, np.random.default_rng(1))
    assert not paired
    assert labels.shape == (12, 10)
    assert set(map(tuple, rows[labels[:, 0]])) == set(map(tuple, P))
    assert np.all(labels.sum(axis=0) == 7)


def test_rows_in_another_order_are_labelled_alike():
    moved = np.random.default_rng(2).permutation(7)
    for pair, other in ((Pair(P, Q), Pair(P[moved], Q)), (Pair(P, Q), Pair(P, Q[moved]))):
        one, two = (each.relabelled(9, each.generator(0)) for each in (pair, other))
        np.testing.assert_array_equal(one.rows, two.rows)
        np.testing.assert_array_equal(one.labels, two.labels)
        assert pair.fingerprints == other.fingerprints
    one, two = (
        each.swapped(9, each.generator(0)) for each in (Pair(P, Q), Pair(P[moved], Q[moved]))
    )
    np.testing.assert_array_equal(one.rows, two.rows)
    np.testing.assert_array_equal(one.labels, two.labels)


def test_pairs_stay_together():
    rows, labels, paired = Pair(P, Q).swapped(9, np.random.default_rng(1))
    assert paired
    assert Pair(P, Q).ways(paired=True) == 2**6
    assert set(map(tuple, np.hstack([rows[:7], rows[7:]]))) == set(map(tuple, np.hstack([P, Q])))
    np.testing.assert_array_equal(labels[:7], ~labels[7:])
    assert labels[:7, 0].all()


def test_other_rows_have_other_permutations():
    draws = [Pair(P, Q + shift).generator(0).random() for shift in (0.0, 1e-4)]
    assert draws[0] != draws[1]


def test_samples_of_different_sizes_are_no_pairs():
    Pair(P, Q).check_one_size("paired")
    with pytest.raises(InputError, match="P has 7 rows, Q 5"):
        Pair(P, Q[:5]).check_one_size("paired")
