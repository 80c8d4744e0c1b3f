"""Tail probabilities of statistics by their permutations, and their combination."""

import numpy as np
import pytest
import scipy.stats
from bke.inference.permutation.null_distribution import combine_statistics, neg_log_tails


def test_tail_probabilities_keep_the_order_and_constant_statistics_are_zero():
    row = np.sort(np.random.default_rng(0).gamma(0.5, size=200))
    assert (np.diff(neg_log_tails(row)) >= 0.0).all()
    assert (np.diff(neg_log_tails(row))[100:] > 0.0).all()
    assert not neg_log_tails(np.full(200, 3.0)).any()
    combined = combine_statistics([row, np.full(200, 3.0)], [1.0, 1.0])
    assert (np.diff(combined) >= 0.0).all()


def test_tail_probabilities_of_an_exponential_distribution():
    """It is a Pearson III distribution, so that they are exact."""
    exact = scipy.stats.expon.isf((np.arange(20_000) + 0.5) / 20_000)
    np.testing.assert_allclose(neg_log_tails(exact), exact, rtol=0.01, atol=0.005)


def test_trimmed_moments_separate_the_tail_probability_of_the_largest_value():
    """999 draws of chi-square with one degree of freedom, seed 0, and one value of 200."""
    null = np.random.default_rng(0).chisquare(1.0, size=999)
    row = np.append(200.0, null)
    exact = -scipy.stats.chi2.logsf(200.0, 1)
    assert neg_log_tails(row, trim=1)[0] == pytest.approx(exact, rel=0.15)
    assert neg_log_tails(row)[0] < 15.0  # it dominates the variance
    order = np.random.default_rng(1).permutation(1000)
    np.testing.assert_allclose(neg_log_tails(row, trim=1)[order], neg_log_tails(row[order], trim=1))


def test_tail_probabilities_that_underflow_are_continuous():
    null = np.random.default_rng(0).chisquare(1.0, size=999)
    values = np.geomspace(200.0, 1e5, 200)
    logs = [neg_log_tails(np.append(value, null), trim=1)[0] for value in values]
    assert np.isfinite(logs).all()
    ratios = np.diff(np.log(logs)) / np.diff(np.log(values))
    np.testing.assert_allclose(ratios, 1.0, atol=0.05)


def test_weights_of_a_combination():
    """Order -1/2: the combination is log (sum w p^(-1/2))^2."""
    rows = np.random.default_rng(4).normal(size=(3, 200))
    weights = (1.0, 0.5, 2.0)
    tails = np.exp(-neg_log_tails(rows))
    expected = np.log(sum(w / np.sqrt(p) for w, p in zip(weights, tails, strict=True)) ** 2)
    np.testing.assert_allclose(combine_statistics(list(rows), weights), expected)


@pytest.mark.parametrize("count", [20, 100, 1000])
def test_approximate_tail_probabilities(count):
    """Nearly exact, in the same order: ties, two tails, one extreme value."""
    rng = np.random.default_rng(3)
    rows = np.stack(
        [
            rng.normal(size=count),
            rng.chisquare(1, count),
            rng.standard_t(3, count),
            -rng.chisquare(1, count),
            rng.poisson(2.0, count),
            np.append(50.0, rng.normal(size=count - 1)),
            np.ones(count),
        ]
    )
    exact = neg_log_tails(rows, trim=1)
    approximate = neg_log_tails(rows, trim=1, approximate=True)
    for row, other in zip(exact, approximate, strict=True):
        np.testing.assert_array_equal(
            np.argsort(row, kind="stable"), np.argsort(other, kind="stable")
        )
    np.testing.assert_allclose(approximate, exact, rtol=0.3, atol=0.2)
    assert np.abs(approximate - exact)[exact < 10.0].mean() < 0.03


def test_rows_are_evaluated_separately():
    rows = np.random.default_rng(5).gamma(0.7, size=(4, 150))
    rows[2] = 3.0
    separate = [neg_log_tails(row, trim=1) for row in rows]
    np.testing.assert_allclose(neg_log_tails(rows, trim=1), separate, rtol=1e-12)
    assert not separate[2].any()
