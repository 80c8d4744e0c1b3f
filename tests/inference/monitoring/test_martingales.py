"""Betting functions: exact means; p-values and wealth by loops; a wealth with mean 1."""

import itertools
import math

import numpy as np
import pytest
from bke.inference.core.machine import computing
from bke.inference.monitoring.martingales import (
    LARGE_BLOCK,
    MIN_FACTOR,
    NUM_STEPS,
    SMALL_BLOCK,
    Martingales,
    betting_functions,
    uninvested,
)
from bke.inference.monitoring.scores import NUM_BINS, bin_counts, bin_edges, bin_indices

RNG = np.random.default_rng(3)
#: Scores with few values, with many, and with one.
SCORES = np.stack([RNG.integers(0, 4, 90), RNG.normal(size=90), np.full(90, 2.0)], axis=1).astype(
    np.float32
)
UNIFORM = RNG.random((60, 3))


def martingales_of(rows, training=SCORES[:30]):
    edges = bin_edges(training)
    counts = bin_counts(bin_indices(training, edges))
    return Martingales.initialize(counts), bin_indices(rows, edges)


def test_bets_are_densities():
    """They have mean 1 over the steps, and none loses all wealth."""
    assert betting_functions().shape[0] == NUM_STEPS
    np.testing.assert_allclose(betting_functions().mean(axis=0), 1.0, rtol=1e-12)
    assert betting_functions().min() >= MIN_FACTOR
    # Shifts, scales and waves have bets in both directions.
    half = NUM_STEPS // 2
    larger = betting_functions()[:half].mean(axis=0) > 1.0 + 1e-9
    smaller = betting_functions()[half:].mean(axis=0) > 1.0 + 1e-9
    assert larger.sum() == smaller.sum() >= 4


def test_wealth_is_invested_gradually():
    """Nothing is invested at first, and the investment decreases slowly."""
    remaining = uninvested(np.arange(10_000))
    assert remaining[0] == 1.0
    assert (np.diff(remaining) < 0.0).all()
    # The investment at row t is about log(100) / (t log(t)^2).
    t = 9000.0
    np.testing.assert_allclose(
        remaining[8999] - remaining[9000],
        math.log(100.0) / ((t + 100) * math.log(t + 100) ** 2),
        rtol=1e-3,
    )


def slow_pvalues(bins, uniform, before):
    """Ranks of rows among all before them and themselves, by loops."""
    pvalues = np.empty(bins.shape)
    for row, column in itertools.product(*map(range, bins.shape)):
        ranked = [*before[:, column], *bins[: row + 1, column]]
        above = sum(index > bins[row, column] for index in ranked)
        equal = sum(index == bins[row, column] for index in ranked)
        pvalues[row, column] = (above + uniform[row, column] * equal) / len(ranked)
    return pvalues


def test_wealth_equals_loops_over_bets_and_starting_rows():
    """A mixture of products, one for each bet and each row at which it may begin."""
    start, bins = martingales_of(SCORES[30:])
    before = bin_indices(SCORES[:30], bin_edges(SCORES[:30]))
    pvalues = slow_pvalues(bins, UNIFORM, before)
    with computing():
        after, won = start.update(bins, UNIFORM)
    remaining = uninvested(np.arange(61))
    for row in (0, 1, 17, 59):
        expected = np.full(3, remaining[row + 1])
        for begin in range(row + 1):
            steps = (pvalues[begin : row + 1] * NUM_STEPS).astype(int)
            products = np.prod(betting_functions()[steps], axis=0)
            expected += (remaining[begin] - remaining[begin + 1]) * products.mean(axis=1)
        np.testing.assert_allclose(won[row], expected, rtol=1e-10)
    assert (after.num_bets == 60).all()
    assert (after.upper_counts[:, 0] == 90).all()


@pytest.mark.parametrize(
    ("sizes", "repeats"),
    [
        ((1, 59), 1),
        ((SMALL_BLOCK, 60 - SMALL_BLOCK), 1),
        ((20, 1, 39), 1),
        ((700, 500), 20),  # updates of several blocks
    ],
)
def test_wealth_does_not_depend_on_blocks(sizes, repeats):
    """Updates of any size give the same wealth, up to rounding."""
    start, bins = martingales_of(np.tile(SCORES[30:], (repeats, 1)))
    uniform = np.random.default_rng(1).random(bins.shape)
    assert repeats == 1 or len(bins) > 2 * LARGE_BLOCK
    with computing():
        _, single_update = start.update(bins, uniform)
        parts, state, at = [], start, 0
        for size in sizes:
            state, won = state.update(bins[at : at + size], uniform[at : at + size])
            parts.append(won)
            at += size
    np.testing.assert_allclose(np.concatenate(parts), single_update, rtol=1e-12)


@pytest.mark.slow
def test_wealth_has_mean_1():
    """Two rows after four: over all orders of six rows with ties, and a grid of what breaks ties.

    The mean is 1 whatever the rows are, to 5 % of the invested wealth, the error of the grid; a
    p-value without the row itself, or the same number for both ties, would miss it by more.
    """
    values, grid = np.array([0, 1, 1, 1, 2, 4]), (np.arange(40) + 0.5) / 40
    orders = list(itertools.permutations(range(6), 2))
    ties = np.array(list(itertools.product(grid, grid)))
    edges = np.array([[0.5, 1.5, 2.5, 3.5] + [np.inf] * (NUM_BINS - 5)], dtype=np.float32)
    bins = bin_indices(values[:, np.newaxis].astype(np.float32), edges)[:, 0]
    won = []
    with computing():
        for last in orders:
            before = np.delete(bins, last)
            counts = np.tile(np.bincount(before, minlength=NUM_BINS), (len(ties), 1))
            stream = np.tile(bins[list(last)][:, np.newaxis], (1, len(ties)))
            won.append(Martingales.initialize(counts).update(stream, ties.T)[1][-1])
    invested = 1.0 - uninvested(np.array(2))
    assert abs(np.mean(won) - 1.0) < 0.05 * invested
    assert np.std(won) > 0.5 * invested


def test_scores_start_anew():
    """Restarted martingales have wealth 1, and the others are unchanged."""
    start, bins = martingales_of(SCORES[30:])
    with computing():
        after, won = start.update(bins, UNIFORM)
        counts = bin_counts(bins[:4, 1:2])
        _, next_ = after.restart(slice(1, 2), counts).update(bins[:1], UNIFORM[:1])
        _, fresh = Martingales.initialize(counts).update(bins[:1, 1:2], UNIFORM[:1, 1:2])
        _, on = after.update(bins[:1], UNIFORM[:1])
    np.testing.assert_allclose(next_[0, 1], fresh[0, 0])
    np.testing.assert_allclose(next_[0, [0, 2]], on[0, [0, 2]])
    assert abs(won[-1, 1] - 1.0) > 1e-4
