"""Autocorrelation times and batches: autoregressions, short chains, rows that are independent."""

import dataclasses

import numpy as np
import pytest
from bke.inference.core.errors import InputError
from bke.inference.mcmc.batches import FEWEST, batches, mixing


@pytest.mark.parametrize(("phi", "low", "high"), [(0.0, 1.0, 1.25), (0.5, 2.3, 4.0), (0.9, 14, 28)])
def test_time_of_an_autoregression(phi, low, high, autoregression):
    """(1 + phi) / (1 - phi) = 1, 3, 19; seed 0, 4 x 5000 draws, the tails a little more or less."""
    assert low <= mixing(autoregression(4, 5000, phi)).time <= high


def test_chains_apart_do_not_lengthen_it(autoregression):
    values = autoregression(3, 2000, 0.5)
    moved = values + np.array([0.0, 5.0, 90.0])[:, None, None]
    assert mixing(moved).time == pytest.approx(mixing(values).time)


def test_the_slowest_column_counts(autoregression):
    fast, slow = autoregression(2, 3000, 0.0), autoregression(2, 3000, 0.8, seed=1)
    both = np.concatenate([fast, slow, np.ones_like(fast)], axis=2)
    assert mixing(both).time == pytest.approx(mixing(slow).time)


def test_the_slowest_chain_counts_where_it_is_clearly_slower(autoregression):
    """Times 3 and 39 (seeds 0 and 1); the harmonic mean of four of these would be 3.9."""
    fast, slow = autoregression(4, 2000, 0.5), autoregression(1, 2000, 0.95, seed=1)
    assert mixing(fast).slow == ()
    both = np.concatenate([fast[:2], slow, fast[2:3]])
    assert mixing(both).slow == (2,)
    assert 20.0 < mixing(both).time < 80.0
    halves = fast.copy()
    halves[1, 1000:] += 3.0  # another place, no other speed
    assert mixing(halves).slow == ()


def test_batches_are_ten_times_long(autoregression):
    values = autoregression(4, 5000, 0.5)
    cut = batches(values, in_order=True)
    whole = int(np.ceil(10.0 * cut.time))
    assert cut.length + cut.gap == whole
    assert cut.gap == int(0.15 * whole)
    assert cut.each == 5000 // whole
    assert not cut.short


def test_independent_rows_are_batches_of_one(autoregression):
    cut = batches(autoregression(1, 300, 0.9), in_order=False)
    assert (cut.length, cut.gap, cut.count, cut.time) == (1, 0, 300, 1.0)
    cut = batches(autoregression(1, 2500, 0.0), in_order=False)
    assert (cut.length, cut.count) == (3, 833)  # at most a thousand


def test_short_chains_have_fewer_times(autoregression):
    cut = batches(autoregression(3, 200, 0.95), in_order=True)
    assert cut.short
    assert cut.count >= FEWEST
    with pytest.raises(InputError, match="at least 16 draws"):
        batches(np.zeros((1, 12, 1)), in_order=True)


def test_the_first_draws_are_left_out():
    values = np.arange(2 * 23 * 1.0).reshape(2, 23, 1)
    cut = dataclasses.replace(batches(values, in_order=False), length=4, gap=1, each=4)
    kept = [start + step for start in (3, 8, 13, 18, 26, 31, 36, 41) for step in (1, 2, 3, 4)]
    assert cut.kept(values)[:, 0].tolist() == kept
    rows, thinner = cut.thinned(20)
    assert thinner.length == 2
    assert rows[:4].tolist() == [0, 2, 4, 6]
