"""Two samples under test: independence of the order of rows, and permuted labels."""

import numpy as np
import pytest
from bke.inference import InputError
from bke.inference.permutation.samples import TwoSamples

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(7, 2)), RNG.normal(size=(7, 2)) + 5.0


def test_observed_labels_are_those_of_the_samples():
    sample = TwoSamples(P, Q[:5]).permute_labels(9, np.random.default_rng(1))
    assert sample.is_independent
    assert sample.labels.shape == (12, 10)
    assert set(map(tuple, sample.points[sample.labels[:, 0] == 1])) == set(map(tuple, P))
    assert np.all(sample.labels.sum(axis=0) == 7)


def test_permutations_do_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(2).permutation(7)
    reordered = TwoSamples(P[order], Q), TwoSamples(P, Q[order])
    for first, second in ((TwoSamples(P, Q), other) for other in reordered):
        expected, permuted = (
            samples.permute_labels(9, samples.generator(0)) for samples in (first, second)
        )
        np.testing.assert_array_equal(expected.points, permuted.points)
        np.testing.assert_array_equal(expected.labels, permuted.labels)
        assert first.fingerprints == second.fingerprints
    expected, permuted = (
        samples.swap_pairs(9, samples.generator(0))
        for samples in (TwoSamples(P, Q), TwoSamples(P[order], Q[order]))
    )
    np.testing.assert_array_equal(expected.points, permuted.points)
    np.testing.assert_array_equal(expected.labels, permuted.labels)


def test_permutations_do_not_depend_on_which_sample_is_first():
    for second in (Q, Q[:5]):
        samples, exchanged = TwoSamples(P, second), TwoSamples(second, P)
        expected, permuted = (
            ordered.permute_labels(9, ordered.generator(0)) for ordered in (samples, exchanged)
        )
        np.testing.assert_array_equal(expected.points, permuted.points)
        np.testing.assert_array_equal(expected.labels, 1 - permuted.labels)
        assert samples.second_first != exchanged.second_first


def test_swaps_keep_pairs_together():
    sample = TwoSamples(P, Q).swap_pairs(9, np.random.default_rng(1))
    assert TwoSamples(P, Q).n_permutations(paired=True) == 2**6
    pairs = np.hstack([sample.points[rows] for rows in sample.partners.T])
    assert set(map(tuple, pairs)) == set(map(tuple, np.hstack([P, Q])))
    np.testing.assert_array_equal(sample.labels[:7], 1 - sample.labels[7:])
    assert sample.labels[:7, 0].all()


def test_random_numbers_depend_on_the_rows():
    draws = [TwoSamples(P, Q + shift).generator(0).random() for shift in (0.0, 1e-4)]
    assert draws[0] != draws[1]


def test_pairs_need_samples_of_equal_size():
    TwoSamples(P, Q).check_equal_sizes("paired")
    with pytest.raises(InputError, match="P has 7 rows, Q 5"):
        TwoSamples(P, Q[:5]).check_equal_sizes("paired")
