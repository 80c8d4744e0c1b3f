"""The required sample size: the search compared with a known power, and its report."""

import numpy as np
import pytest
from bke.inference import InputError, compare
from bke.inference.comparison import power
from scipy.stats import norm


@pytest.mark.parametrize("start", [300.0, 6000.0], ids=["too few", "too many"])
def test_the_search_returns_the_required_sizes(start):
    """Half of them need 1000 rows and a quarter each 500 and 2000; seed 0, within a factor 1.4."""
    rng = np.random.default_rng(0)
    needed = np.array([500.0, 1000.0, 1000.0, 2000.0])
    level, wanted = norm.ppf(0.05), norm.ppf(0.8)

    def rejects(index, total):
        z = level + (wanted - level) * (total / needed[index % 4]) ** 0.5
        return rng.uniform() < norm.cdf(z)

    result = power.search_sizes(rejects, 0.8, 0.05, start=start, largest=1e5)
    low, middle, high = result.quantiles(0.1, 0.5, 0.9)
    assert 1000 / 1.4 < middle < 1000 * 1.4
    assert 250 < low < 800
    assert 1250 < high < 4000


def test_without_a_difference_the_search_ends_at_the_largest_size():
    rng = np.random.default_rng(0)
    result = power.search_sizes(
        lambda index, total: rng.uniform() < 0.05, 0.8, 0.05, start=200.0, largest=1e4
    )
    assert result.quantiles(0.5)[0] >= result.grid[-2]


def test_likelihoods_are_those_of_tests():
    grid = np.array([50.0, 100.0, 200.0])
    needs = power.SizeLikelihoods(grid, np.zeros((2, 3)), norm.ppf(0.05), norm.ppf(0.8))
    updated = needs.update(np.array([100.0, 200.0]), np.array([True, False]))
    assert np.exp(updated.log_likelihoods[0, 1]) == pytest.approx(0.8)
    assert np.exp(updated.log_likelihoods[1, 2]) == pytest.approx(0.2)
    assert np.diff(updated.log_likelihoods[0]).max() < 0 < np.diff(updated.log_likelihoods[1]).min()


@pytest.mark.slow
def test_a_large_difference_needs_fewer_rows_than_the_samples_have(monkeypatch):
    monkeypatch.setattr(power, "DRAWS", 8)
    monkeypatch.setattr(power, "SIZE_RESAMPLES", 39)
    rng = np.random.default_rng(0)
    result = compare(rng.normal(size=150), rng.normal(1.0, size=75), n_resamples=99, progress=False)
    needed = result.required_sample_size(0.8)
    first, second = needed.sizes
    assert 12 <= first + second < 150
    assert abs(first - 2 * second) <= 2
    low, high = needed.interval
    assert low < first + second < high + 2
    size = f"{first + second} rows in all ({first} + {second};"
    assert str(needed).startswith(f"Required sample size for a power of 0.8: {size}")
    for wrong in (0.05, 1.0, 2.0):
        with pytest.raises(InputError, match="power must be between"):
            result.required_sample_size(wrong)


def test_a_size_beyond_the_search_is_reported_as_a_lower_limit():
    result = power.RequiredSampleSize(None, (1e4, np.inf), 0.9)
    assert (
        str(result)
        == "Required sample size for a power of 0.9: more than 50 times the number of rows."
    )
