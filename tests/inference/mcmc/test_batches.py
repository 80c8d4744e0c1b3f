"""Autocorrelation times and batches of autoregressions, short chains and independent rows."""

import dataclasses

import numpy as np
import pytest
from bke.inference.core.errors import InputError
from bke.inference.mcmc.batches import MIN_BATCHES, autocorrelation_time, make_batches


@pytest.mark.parametrize(("phi", "low", "high"), [(0.0, 1.0, 1.25), (0.5, 2.3, 4.0), (0.9, 14, 28)])
def test_time_of_an_autoregression(phi, low, high, autoregression):
    """(1 + phi) / (1 - phi) = 1, 3, 19; seed 0, 4 x 5000 draws, the tails a little more or less."""
    assert low <= autocorrelation_time(autoregression(4, 5000, phi))[0] <= high


def test_differences_between_chains_do_not_lengthen_it(autoregression):
    values = autoregression(3, 2000, 0.5)
    moved = values + np.array([0.0, 5.0, 90.0])[:, None, None]
    assert autocorrelation_time(moved)[0] == pytest.approx(autocorrelation_time(values)[0])


def test_the_slowest_column_counts(autoregression):
    fast, slow = autoregression(2, 3000, 0.0), autoregression(2, 3000, 0.8, seed=1)
    both = np.concatenate([fast, slow, np.ones_like(fast)], axis=2)
    assert autocorrelation_time(both)[0] == pytest.approx(autocorrelation_time(slow)[0])


def test_the_slowest_chain_counts_where_it_is_clearly_slower(autoregression):
    """Times 3 and 39 (seeds 0 and 1); the harmonic mean of four of these would be 3.9."""
    fast, slow = autoregression(4, 2000, 0.5), autoregression(1, 2000, 0.95, seed=1)
    assert autocorrelation_time(fast)[1] == ()
    both = np.concatenate([fast[:2], slow, fast[2:3]])
    assert autocorrelation_time(both)[1] == (2,)
    assert 20.0 < autocorrelation_time(both)[0] < 80.0
    slower = fast.copy()
    slower[1, 1000:] += 3.0  # another location, with the same autocorrelation
    assert autocorrelation_time(slower)[1] == ()


def test_batches_are_ten_times_long(autoregression):
    values = autoregression(4, 5000, 0.5)
    batches = make_batches(values, ordered=True)
    length = int(np.ceil(10.0 * batches.autocorrelation_time))
    assert batches.length + batches.gap == length
    assert batches.gap == int(0.15 * length)
    assert batches.per_chain == 5000 // length
    assert not batches.short


def test_independent_rows_are_batches_of_size_1(autoregression):
    batches = make_batches(autoregression(1, 300, 0.9), ordered=False)
    assert (batches.length, batches.gap, batches.count, batches.autocorrelation_time) == (
        1,
        0,
        300,
        1.0,
    )
    batches = make_batches(autoregression(1, 2500, 0.0), ordered=False)
    assert (batches.length, batches.count) == (3, 833)  # at most a thousand


def test_short_chains_have_fewer_times(autoregression):
    batches = make_batches(autoregression(3, 200, 0.95), ordered=True)
    assert batches.short
    assert batches.count >= MIN_BATCHES
    with pytest.raises(InputError, match="at least 16 draws"):
        make_batches(np.zeros((1, 12, 1)), ordered=True)


def test_the_first_draws_are_left_out():
    values = np.arange(2 * 23 * 1.0).reshape(2, 23, 1)
    batches = dataclasses.replace(make_batches(values, ordered=False), length=4, gap=1, per_chain=4)
    expected = [start + step for start in (3, 8, 13, 18, 26, 31, 36, 41) for step in (1, 2, 3, 4)]
    assert batches.rows(values)[:, 0].tolist() == expected
    rows, thinned = batches.thin(20)
    assert thinned.length == 2
    assert rows[:4].tolist() == [0, 2, 4, 6]
