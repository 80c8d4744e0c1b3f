"""The interval of the squared MMD: with all pairs of rows, and with landmarks."""

import tracemalloc

import numpy as np
import pytest
from bke.inference.core.machine import computing
from bke.inference.permutation.samples import TwoSamples
from bke.inference.testing import mmd
from bke.inference.testing.mmd import mmd_interval
from bke.models import Laplace, SquaredExponential, squared_mmd, squared_mmd_variance


def pair_of(m, n, columns, factor=1.2):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(m, columns)), rng.normal(size=(n, columns))
    Q[:, 0] *= factor
    return TwoSamples(P, Q)


def interval(pair, kernel):
    with computing():
        return mmd_interval(pair, kernel, 0.05)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.3), 2.0 * Laplace(1.0)])
def test_it_is_exact_for_small_samples(kernel, monkeypatch):
    monkeypatch.setattr(mmd, "BLOCK_ENTRIES", 30_000)  # several blocks
    pair = pair_of(300, 200, 2, 2.0)
    value, (low, high) = interval(pair, kernel)
    expected = float(squared_mmd(pair.first, pair.second, kernel))
    reach = 1.959963984540054 * float(squared_mmd_variance(pair.first, pair.second, kernel)) ** 0.5
    assert value == pytest.approx(expected, rel=1e-9)
    assert (low, high) == pytest.approx((expected - reach, expected + reach), rel=1e-9)
    assert low > 0.0


@pytest.mark.parametrize(
    ("kernel", "columns"), [(SquaredExponential(0.3), 1), (3.0 * SquaredExponential(9.0), 10)]
)
def test_landmarks_change_it_by_much_less_than_its_width(kernel, columns, monkeypatch):
    pair = pair_of(3000, 2000, columns, 1.5)
    value, (low, high) = interval(pair, kernel)
    monkeypatch.setattr(mmd, "MAX_EXACT_ROWS", 0)
    monkeypatch.setattr(mmd, "CANDIDATE_ROWS", 1000)
    monkeypatch.setattr(mmd, "BLOCK_ENTRIES", 2**18)
    estimate = interval(pair, kernel)
    assert estimate != (value, (low, high))
    assert low > 0.0
    tolerance = 1e-3 * (high - low)
    assert estimate[0] == pytest.approx(value, abs=tolerance)
    assert estimate[1] == pytest.approx((low, high), abs=tolerance)


def test_large_samples_have_an_interval_in_little_memory():
    pair = pair_of(30_000, 30_000, 10)
    kernel = SquaredExponential(9.0)
    pair.pooled[pair.selection]  # sorted before memory is counted
    tracemalloc.start()
    value, (low, high) = interval(pair, kernel)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert low < value < high
    # A factor with a thousand columns has 480 MB.
    assert peak < 150e6


def test_large_samples_have_none_with_a_kernel_that_landmarks_do_not_represent():
    assert interval(pair_of(6000, 6000, 5), Laplace(0.5)) == (None, None)


@pytest.mark.parametrize("rows", [5, 40])
def test_a_small_scattered_sample_has_the_exact_interval(rows, monkeypatch):
    rng = np.random.default_rng(3)
    pair = TwoSamples(20.0 * rng.normal(size=(rows, 3)), rng.normal(size=(4000, 3)))
    kernel = SquaredExponential(1.5)
    value, limits = interval(pair, kernel)
    monkeypatch.setattr(mmd, "MAX_EXACT_ROWS", 0)
    estimate = interval(pair, kernel)
    assert estimate[0] == pytest.approx(value, rel=1e-4)
    assert estimate[1] == pytest.approx(limits, rel=1e-4)


def test_scattered_rows_that_landmarks_leave_out_have_no_interval():
    rng = np.random.default_rng(3)
    pair = TwoSamples(1e3 * rng.normal(size=(2500, 2)), rng.normal(size=(20_000, 2)))
    assert interval(pair, SquaredExponential(1.0)) == (None, None)
