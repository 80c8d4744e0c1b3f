"""Tests of samples with one row so far away that powers of its values would overflow."""

import numpy as np
import pytest
from bke.inference import InputError, compare, compare_tables, two_sample_test

OPTIONS = {"n_resamples": 99, "progress": False}
COMPARE = {"n_resamples": 99, "progress": False}
OUTLIER = 1e10


def samples(outlier, shift, columns):
    rng = np.random.default_rng(0)
    P = rng.normal(size=(60, columns))
    Q = rng.normal(size=(50, columns)) + shift
    P[3] = outlier
    return P, Q


@pytest.mark.parametrize("outlier", [1e80, -1e150])
@pytest.mark.parametrize("columns", [1, 3])
def test_the_distance_of_an_outlier_does_not_change_the_p_value(outlier, columns):
    for shift in (0.0, 1.5):
        expected = two_sample_test(
            *samples(np.copysign(OUTLIER, outlier), shift, columns), **OPTIONS
        )
        result = two_sample_test(*samples(outlier, shift, columns), **OPTIONS)
        assert result.pvalue == expected.pvalue
        assert np.isfinite(result.statistic)
        assert (result.pvalue == 0.01) == (shift > 0.0)


@pytest.mark.parametrize("standardize", ["pooled", None])
def test_the_distance_of_an_outlier_does_not_matter_with_a_common_scale(standardize):
    options = OPTIONS | {"standardize": standardize}
    assert two_sample_test(*samples(1e80, 1.5, 2), **options).pvalue == 0.01


@pytest.mark.parametrize("outlier", [1e80, 1e150])
def test_a_comparison_shows_the_difference(outlier):
    assert compare(*samples(outlier, 1.5, 2), **COMPARE).pvalue == 0.01
    P, Q = samples(outlier, 1.5, 1)
    assert compare_tables({"x": P[:, 0]}, {"x": Q[:, 0]}, **OPTIONS).pvalue == 0.01


def test_values_with_squares_that_overflow_are_refused():
    with pytest.raises(InputError, match="beyond 1e"):
        two_sample_test(*samples(1e300, 1.5, 1), **OPTIONS)
