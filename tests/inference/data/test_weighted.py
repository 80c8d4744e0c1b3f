"""Weighted quantiles against NumPy's and by hand; systematic resampling by its counts."""

import numpy as np
import pytest
from bke.inference.data.weighted import systematic, weighted_quantiles

LEVELS = (0.0, 0.1, 0.37, 0.5, 0.9, 1.0)


def test_weighted_quantiles_by_hand():
    """Weights 1, 1, 2 have their middles at 0.5, 1.5, 3, so the levels are 0, 0.4, 1."""
    quantiles = weighted_quantiles(
        np.array([2.0, 0.0, 1.0]), np.array([2.0, 1.0, 1.0]), (0.2, 0.4, 0.7)
    )
    np.testing.assert_allclose(quantiles, [0.5, 1.0, 1.5])


@pytest.mark.parametrize("method", ["linear", "inverted_cdf"])
def test_equal_weights_are_numpys_quantiles(method):
    values = np.random.default_rng(0).normal(size=(11, 3))
    quantiles = weighted_quantiles(values, np.full(11, 1 / 11), LEVELS, method=method)
    np.testing.assert_allclose(quantiles, np.quantile(values, LEVELS, axis=0, method=method))


def test_integer_weights_are_repeated_values():
    rng = np.random.default_rng(1)
    values, counts = rng.normal(size=9), rng.integers(0, 4, 9)
    quantiles = weighted_quantiles(values, counts / counts.sum(), LEVELS[1:], method="inverted_cdf")
    repeated = np.repeat(values, counts)
    np.testing.assert_array_equal(
        quantiles, np.quantile(repeated, LEVELS[1:], method="inverted_cdf")
    )


def test_systematic_resampling_rounds_every_expected_count():
    rng = np.random.default_rng(2)
    weight = rng.gamma(1.0, size=20)
    counts = np.bincount(systematic(weight, 57, rng), minlength=20)
    assert counts.sum() == 57
    assert np.all(np.abs(counts - 57 * weight / weight.sum()) < 1)
