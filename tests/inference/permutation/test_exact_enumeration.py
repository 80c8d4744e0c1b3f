"""p-values of a statistic against SciPy's permutation tests with all permutations."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from bke.inference.permutation.null_distribution import exceedances, p_value
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.location import Location

N_RESAMPLES = 99_999
#: Number of permutations that are evaluated together.
BATCH = 2**16

pytestmark = pytest.mark.slow


def tied_samples(first, second, shift):
    """Return rows of two columns with ties; the second sample is shifted."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(first, 2)).round(), rng.normal(shift, 1.0, size=(second, 2)).round()


def scipy_pvalue(P, Q, permutation_type):
    """Return the p-value of all permutations, and their number.

    The samples that SciPy permutes are indices of rows, because a row has two columns.
    """
    rows = np.concatenate([P, Q])
    scores = scipy.stats.norm.ppf((scipy.stats.rankdata(rows, axis=0) - 0.5) / len(rows))

    def statistic(first, second, axis):
        assert axis == -1
        means = [scores[indices.astype(int)].mean(axis=-2) for indices in (first, second)]
        # Rounded, because SciPy's tolerance for ties is smaller than rounding errors may be.
        return np.square(means[0] - means[1]).sum(axis=-1).round(12)

    result = scipy.stats.permutation_test(
        (np.arange(len(P)), np.arange(len(P), len(rows))),
        statistic,
        permutation_type=permutation_type,
        vectorized=True,
        n_resamples=np.inf,
        batch=BATCH,
        alternative="greater",
        axis=-1,
    )
    return float(result.pvalue), len(result.null_distribution)


def enumerated_pvalue(sample, batches):
    """Return the p-value of labels (C, k) in batches, and their number."""
    location = Location.choose(sample)
    values = [location.evaluate(sample.observed()).values[0]]
    values += [location.evaluate(sample.with_labels(labels)).values[0] for labels in batches]
    statistic = np.concatenate(values)
    count = len(statistic) - 1
    return (exceedances(statistic)[0] - 1) / count, count


def check_monte_carlo(sample, pvalue):
    """Compare the p-value of random permutations: 4.5 standard errors, 1 in 10^5 outside."""
    estimate = p_value(Location.choose(sample).evaluate(sample).values[0])
    assert sample.labels.shape[1] == 1 + N_RESAMPLES
    assert abs(estimate - pvalue) < 4.5 * math.sqrt(pvalue * (1.0 - pvalue) / N_RESAMPLES)


def test_independent_rows():
    """12 + 13 rows, all 5 200 300 permutations."""
    P, Q = tied_samples(12, 13, 0.1)
    expected, count = scipy_pvalue(P, Q, "independent")
    assert count == math.comb(25, 12)
    assert 0.01 < expected < 0.1
    sample = pool_rows(TwoSamples.checked(P, Q), N_RESAMPLES, np.random.default_rng(1))
    assert sample.counts.max() > 1
    check_monte_carlo(sample, expected)
    chosen = np.fromiter(itertools.combinations(range(25), 12), dtype=np.dtype((np.int8, 12)))
    point_of_row = np.repeat(np.arange(len(sample.counts)), sample.counts)

    def batches():
        for start in range(0, count, BATCH):
            points = point_of_row[chosen[start : start + BATCH]]
            labels = np.zeros((len(sample.points), len(points)), dtype=np.int8)
            np.add.at(labels, (points.T, np.arange(len(points))), 1)
            yield labels

    assert enumerated_pvalue(sample, batches()) == (pytest.approx(expected, rel=1e-12), count)


def test_pairs():
    """12 pairs, all 4096 swaps."""
    P, Q = tied_samples(12, 12, 0.5)
    expected, count = scipy_pvalue(P, Q, "samples")
    assert count == 2**12
    assert 0.01 < expected < 0.1
    sample = pool_pairs(TwoSamples.checked(P, Q), N_RESAMPLES, np.random.default_rng(1))
    check_monte_carlo(sample, expected)
    swaps = np.array(list(itertools.product((0, 1), repeat=12)), dtype=np.int8).T
    labels = np.empty((24, count), dtype=np.int8)
    labels[sample.partners[:, 0]], labels[sample.partners[:, 1]] = swaps, 1 - swaps
    assert enumerated_pvalue(sample, [labels]) == (pytest.approx(expected, rel=1e-12), count)
