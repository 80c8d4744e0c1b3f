"""The error of an approximate likelihood, by hand."""

import itertools

import numpy as np
import pytest
from bke.models.likelihood.evidence import Evidence, error_of_differences, standard_error


def test_the_standard_error_of_a_sum_over_rows_drawn_without_replacement():
    """Of all choices of 3 of 5 rows, the estimate's mean square is the variance of the sums."""
    values = np.array([1.0, 4.0, -2.0, 0.5, 7.0])
    chosen = [values[list(some)] for some in itertools.combinations(range(5), 3)]
    sums = [5.0 / 3.0 * one.sum() for one in chosen]
    told = standard_error(np.array(chosen), 5)
    assert told.shape == (10,)
    assert np.mean(told**2) == pytest.approx(np.var(sums))
    assert standard_error(np.array([1.0, 3.0]), 4) == pytest.approx(4 * (0.5 / 2 * 2.0) ** 0.5)


def test_all_rows_leave_no_error_and_one_tells_of_none():
    np.testing.assert_array_equal(standard_error(np.array([[1.0, 3.0]]), 2), [0.0])
    np.testing.assert_array_equal(standard_error(np.array([[1.0]]), 1), [0.0])
    assert standard_error(np.array([[1.0], [2.0]]), 4).tolist() == [np.inf, np.inf]


def test_what_all_kernels_share_is_no_error_of_their_differences():
    rng = np.random.default_rng(0)
    influence, truncation = rng.normal(size=(3, 8)), rng.normal(size=(3, 2))
    common = rng.normal(size=8)

    def sample(shift, missing):
        return [
            Evidence(one + shift * common, two + missing, 0.0, 40)
            for one, two in zip(influence, truncation, strict=True)
        ]

    found = error_of_differences([sample(0.0, 0.0)])
    moved = error_of_differences([sample(5.0, 3.0)])
    np.testing.assert_allclose(moved, found)
    apart = influence - influence.mean(axis=0)
    variance = np.mean(40**2 * (1 - 8 / 40) / 8 * apart.var(axis=1, ddof=1))
    assert found.standard_error == pytest.approx(variance**0.5)
    assert found.size == pytest.approx(np.hypot(found.standard_error, found.truncation))
    missing = np.abs(truncation - truncation.mean(axis=0)).sum(axis=1)
    assert found.truncation == pytest.approx(np.mean(missing**2) ** 0.5)
    twice = error_of_differences([sample(0.0, 0.0), sample(1.0, 0.0)])
    assert twice.standard_error == pytest.approx((2.0 * variance) ** 0.5)
