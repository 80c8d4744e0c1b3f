"""Bands of the witness of rare events: a sample whose rows are all equal has errors too."""

import numpy as np
import pytest
from bke.inference.comparison.regions import ratio_intervals
from bke.inference.comparison.witness import sampling_draws
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.local_differences import local_statistics
from scipy.stats import binom

NO_EVENTS, RARE_EVENTS = np.zeros((30, 1)), (np.arange(300) < 9).astype(float)[:, None]
UNIT = 1.0 - np.exp(-0.5)


def deviation(rows):
    """Standard deviation of the witness at 1, lengthscale 1; 2 % are 4 errors of 20 000 draws."""
    rng = np.random.default_rng(0)
    at, scale = np.ones((1, 1)) / rows.scale, 1.0 / rows.scale
    return float(sampling_draws(rows, at, scale, 20_000, rng).std())


def test_a_sample_without_the_rare_event_has_the_errors_of_two_more_rows():
    rows = pool_rows(TwoSamples.checked(NO_EVENTS, RARE_EVENTS), 1, np.random.default_rng(0))
    proportion = 0.03
    more = [2 * (0.5 - p + p * p) / n**2 for p, n in ((0.0, 30), (proportion, 300))]
    expected = UNIT * np.sqrt(proportion * (1 - proportion) / 300 + sum(more))
    assert deviation(rows) == pytest.approx(expected, rel=0.02)


def test_pairs_have_the_errors_of_two_more_differing_pairs_in_both_directions():
    P, Q = np.zeros((2, 40, 1))
    Q[0] = P[1] = Q[1] = 1.0  # one pair differs
    rows = pool_pairs(TwoSamples.checked(P, Q), 1, np.random.default_rng(0))
    # One in three of (0, 0), (1, 1), and (0, 1) in either direction, differs.
    expected = UNIT * np.sqrt((1 / 40 - 1 / 40**2) / 40 + 2 * (1 / 3 + 1 / 40**2) / 40**2)
    assert deviation(rows) == pytest.approx(expected, rel=0.02)


def test_pairs_without_differences_have_errors():
    P = (np.arange(40) < 5).astype(float)[:, None]
    rows = pool_pairs(TwoSamples.checked(P, P), 1, np.random.default_rng(0))
    assert deviation(rows) == pytest.approx(UNIT * np.sqrt(2) / 40, rel=0.02)


def test_ratio_intervals_of_rare_events_contain_the_truth():
    """Simultaneous intervals of all windows, averaged over binomial counts of both samples.

    With separate errors per sample and the critical value of permuted labels, 0.6 of them.
    """
    chances, sizes = (0.03, 0.1), (30, 300)
    inside = total = 0.0
    for first_ones in range(5):
        for second_ones in range(14, 48, 3):
            mass = binom(30, chances[0]).pmf(first_ones) * binom(300, chances[1]).pmf(second_ones)
            P, Q = (
                (np.arange(n) < k)[:, None] * 1.0
                for n, k in zip(sizes, (first_ones, second_ones), strict=True)
            )
            rows = pool_rows(TwoSamples.checked(P, Q), 99, np.random.default_rng(0))
            local = local_statistics(rows)
            low, high = ratio_intervals(local, 0.05)
            k = [
                np.exp(-0.5 * ((value / rows.scale - local.centers) / local.scales) ** 2)[:, 0]
                for value in (0.0, 1.0)
            ]
            of_p, of_q = ((1 - p) * k[0] + p * k[1] for p in chances)
            ratio = of_p / of_q
            inside += mass * ((low <= ratio) & (ratio <= high)).all()
            total += mass
    assert inside / total > 0.94
