"""The change point: marginal likelihoods by urns, and intervals that hold the change."""

import math

import numpy as np
import pytest
from bke.inference.monitoring.scores import bin_edges
from bke.inference.monitoring.sequential_test import (
    INTERVAL_PROBABILITY,
    _log_marginal_likelihood,
    _shortest_interval,
    find_change_point,
)
from scipy.stats import binom


def test_marginal_likelihood_is_an_urns():
    """Row by row each value has its count and its prior, over all (Polya's urn)."""
    rows, prior = [0, 2, 2, 1, 2, 0], np.array([0.5, 2.0, 1.2])
    counts, log = np.zeros(3), 0.0
    for row in rows:
        log += math.log((counts[row] + prior[row]) / (counts.sum() + prior.sum()))
        counts[row] += 1
    # Up to a constant that does not depend on the counts.
    empty = _log_marginal_likelihood(np.zeros((1, 3)), prior)[0]
    assert _log_marginal_likelihood(counts[np.newaxis], prior)[0] - empty == pytest.approx(
        log, rel=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_interval_is_the_shortest(seed):
    """Compare with a search over all intervals."""
    weight = np.random.default_rng(seed).dirichlet(np.full(12, 0.4))
    low, high = _shortest_interval(weight)
    assert weight[low : high + 1].sum() >= INTERVAL_PROBABILITY - 1e-9
    lengths = [
        b - a
        for a in range(12)
        for b in range(a, 12)
        if weight[a : b + 1].sum() >= INTERVAL_PROBABILITY
    ]
    assert high - low == min(lengths)


def test_clear_change_is_detected():
    """The change is clear; rows are counted from the number of the first row."""
    rng = np.random.default_rng(0)
    reference = rng.normal(size=500).astype(np.float32)
    stream = np.concatenate([rng.normal(size=70), 9.0 + rng.normal(size=30)]).astype(np.float32)
    edges = bin_edges(reference[:, np.newaxis])[0]
    change = find_change_point(reference, stream, edges, 1001)
    assert change.row == 1071
    assert 1063 <= change.low <= 1071 <= change.high <= 1073
    assert not change.censored
    assert "row 1071" in str(find_change_point(reference, stream, edges, 1001))
    # If all stored rows have changed, the change may be older.
    assert find_change_point(reference, stream[70:], edges, 1071).censored
    assert str(find_change_point(reference, stream[70:], edges, 1071)).startswith(
        "at or before row 1071"
    )
    assert not find_change_point(reference, stream[70:], edges, 1).censored


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1000, 60, 24])
def test_intervals_contain_the_change(rows):
    """90 % intervals of 400 changes at rows that no alarm has chosen hold at least as many.

    Less than the binomial 99.9 % band would be a fault; more there are, for intervals are widened
    for the choice by an alarm.
    """
    covered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        at = int(rng.integers(40, 260))
        reference = rng.normal(size=rows).astype(np.float32)
        stream = rng.normal(size=300)
        stream[at:] += 0.8
        edges = bin_edges(reference[: rows // 2, np.newaxis])[0]
        change = find_change_point(reference[rows // 2 :], stream.astype(np.float32), edges, 1)
        covered += change.low <= at + 1 <= change.high
    assert binom.ppf(0.0005, 400, INTERVAL_PROBABILITY) <= covered < 400
