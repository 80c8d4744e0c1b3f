"""Bets: exact means, ranks and capital by loops, and a capital whose mean stays 1."""

import itertools
import math

import numpy as np
import pytest
from bke.inference.core.machine import computing
from bke.inference.monitoring.bets import CELLS, KEPT, bets, reserve
from bke.inference.monitoring.bins import BINS, binned, counts_of, edges_of
from bke.inference.monitoring.capital import FEW, MANY, Capital

RNG = np.random.default_rng(3)
#: Scores with few values, with many, and with one.
SCORES = np.stack([RNG.integers(0, 4, 90), RNG.normal(size=90), np.full(90, 2.0)], axis=1).astype(
    np.float32
)
UNIFORM = RNG.random((60, 3))


def capital_of(rows, apart=SCORES[:30]):
    edges = edges_of(apart)
    return Capital.of(counts_of(binned(apart, edges))), binned(rows, edges)


def test_bets_are_densities():
    """Each has mean 1 over the cells, and none loses all."""
    assert bets().shape[0] == CELLS
    np.testing.assert_allclose(bets().mean(axis=0), 1.0, rtol=1e-12)
    assert bets().min() >= KEPT
    # They go both ways: of each shift, scale and wave there is one for either side.
    half = CELLS // 2
    larger = bets()[:half].mean(axis=0) > 1.0 + 1e-9
    smaller = bets()[half:].mean(axis=0) > 1.0 + 1e-9
    assert larger.sum() == smaller.sum() >= 4


def test_reserve_is_staked_bit_by_bit():
    """All is there at first, and what is staked at rows adds up to what is gone."""
    kept = reserve(np.arange(10_000))
    assert kept[0] == 1.0
    assert (np.diff(kept) < 0.0).all()
    # The stake at row t is about log(100) / (t log(t)^2).
    t = 9000.0
    np.testing.assert_allclose(
        kept[8999] - kept[9000], math.log(100.0) / ((t + 100) * math.log(t + 100) ** 2), rtol=1e-3
    )


def slow_pvalues(bins, uniform, before):
    """Ranks of rows among all before them and themselves, by loops."""
    found = np.empty(bins.shape)
    for row, column in itertools.product(*map(range, bins.shape)):
        seen = [*before[:, column], *bins[: row + 1, column]]
        above = sum(one > bins[row, column] for one in seen)
        equal = sum(one == bins[row, column] for one in seen)
        found[row, column] = (above + uniform[row, column] * equal) / len(seen)
    return found


def test_capital_is_that_of_loops_over_bets_and_beginnings():
    """A mixture of products, one for each bet and each row at which it may begin."""
    start, bins = capital_of(SCORES[30:])
    before = binned(SCORES[:30], edges_of(SCORES[:30]))
    pvalues = slow_pvalues(bins, UNIFORM, before)
    with computing():
        after, won = start.bet(bins, UNIFORM)
    kept = reserve(np.arange(61))
    for row in (0, 1, 17, 59):
        expected = np.full(3, kept[row + 1])
        for begin in range(row + 1):
            cells = (pvalues[begin : row + 1] * CELLS).astype(int)
            products = np.prod(bets()[cells], axis=0)
            expected += (kept[begin] - kept[begin + 1]) * products.mean(axis=1)
        np.testing.assert_allclose(won[row], expected, rtol=1e-10)
    assert (after.ages == 60).all()
    assert (after.at_least[:, 0] == 90).all()


@pytest.mark.parametrize("sizes", [(1, 59), (FEW, 60 - FEW), (20, 1, 39)])
def test_capital_does_not_hang_on_blocks(sizes):
    """Rows that come in pieces have the same capital, up to rounding."""
    start, bins = capital_of(SCORES[30:])
    with computing():
        _, whole = start.bet(bins, UNIFORM)
        parts, state, at = [], start, 0
        for size in sizes:
            state, won = state.bet(bins[at : at + size], UNIFORM[at : at + size])
            parts.append(won)
            at += size
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-12)


def test_more_rows_than_a_block():
    """Blocks of a long update follow one another."""
    rows = np.tile(SCORES[30:], (20, 1))
    start, bins = capital_of(rows)
    uniform = np.random.default_rng(1).random(bins.shape)
    assert len(bins) > 2 * MANY
    with computing():
        _, whole = start.bet(bins, uniform)
        first, begun = start.bet(bins[:700], uniform[:700])
        _, rest = first.bet(bins[700:], uniform[700:])
    np.testing.assert_allclose(np.concatenate([begun, rest]), whole, rtol=1e-12)


@pytest.mark.slow
def test_capital_stays_at_one_on_average():
    """Two rows after four: over all orders of six rows with ties, and a grid of what breaks ties.

    The mean is 1 whatever the rows are, to 5 % of what is staked, which the grid leaves; a p-value
    without the row itself, or the same number for both ties, would miss it by more.
    """
    values, grid = np.array([0, 1, 1, 1, 2, 4]), (np.arange(40) + 0.5) / 40
    orders = list(itertools.permutations(range(6), 2))
    ties = np.array(list(itertools.product(grid, grid)))
    edges = np.array([[0.5, 1.5, 2.5, 3.5] + [np.inf] * (BINS - 5)], dtype=np.float32)
    bins = binned(values[:, np.newaxis].astype(np.float32), edges)[:, 0]
    won = []
    with computing():
        for last in orders:
            before = np.delete(bins, last)
            counts = np.tile(np.bincount(before, minlength=BINS), (len(ties), 1))
            stream = np.tile(bins[list(last)][:, np.newaxis], (1, len(ties)))
            won.append(Capital.of(counts).bet(stream, ties.T)[1][-1])
    staked = 1.0 - reserve(np.array(2))
    assert abs(np.mean(won) - 1.0) < 0.05 * staked
    assert np.std(won) > 0.5 * staked


def test_scores_start_anew():
    """A slot that is filled again has a capital of 1, and others keep theirs."""
    start, bins = capital_of(SCORES[30:])
    with computing():
        after, won = start.bet(bins, UNIFORM)
        counts = counts_of(bins[:4, 1:2])
        _, next_ = after.renewed(slice(1, 2), counts).bet(bins[:1], UNIFORM[:1])
        _, fresh = Capital.of(counts).bet(bins[:1, 1:2], UNIFORM[:1, 1:2])
        _, on = after.bet(bins[:1], UNIFORM[:1])
    np.testing.assert_allclose(next_[0, 1], fresh[0, 0])
    np.testing.assert_allclose(next_[0, [0, 2]], on[0, [0, 2]])
    assert abs(won[-1, 1] - 1.0) > 1e-4


def test_bins_tell_ends_and_ties_apart():
    """Few values have a bin each, what is beyond has its own, and many share the rows evenly."""
    edges = edges_of(SCORES)
    inside = binned(np.float32([[0, 0, 2], [3, 0, 2]]), edges)
    assert inside[0, 0] != inside[1, 0]
    beyond = binned(np.float32([[-1, -99, 1], [9, 99, 3]]), edges)
    assert beyond[0, 0] < inside[0, 0]
    assert beyond[1, 0] > inside[1, 0]
    assert beyond[0, 2] < inside[0, 2] < beyond[1, 2]
    many = np.random.default_rng(0).normal(size=(50_000, 1)).astype(np.float32)
    shares = counts_of(binned(many, edges_of(many)))[0] / 50_000
    assert shares.sum() == pytest.approx(1.0)
    assert shares.max() < 0.0125
    assert shares[shares > 0.0][:2].max() < 0.001  # far rows are told apart better
