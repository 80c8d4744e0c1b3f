"""The distance in location, compared with loops over rows, and what it detects."""

import numpy as np
import pytest
from bke.inference import two_sample_test
from bke.inference.permutation.pool import pool_pairs, pool_rows, pool_weighted
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import location
from bke.inference.statistics.location import Location, NormalScores, normal_scores
from scipy.stats import norm, rankdata

RNG = np.random.default_rng(0)


def distances(sample):
    return Location.choose(sample).evaluate(sample).values[0]


@pytest.mark.parametrize("dimension", [1, 3])
def test_statistic_is_the_squared_distance_of_mean_scores(dimension):
    """Scores of single rows, whose middle ranks are SciPy's less one half."""
    P = RNG.normal(size=(30, dimension)).round(1)
    Q = RNG.normal(1e6, 1.0, size=(45, dimension)).round(1)
    sample = pool_rows(TwoSamples(P, Q), 9, np.random.default_rng(1))
    rows = np.repeat(sample.points, sample.counts, axis=0)
    scores = norm.ppf((rankdata(rows, axis=0) - 0.5) / len(rows))
    expected = []
    for labels in sample.labels.T:
        # Tied rows have equal scores, whichever of them are in the first sample.
        first = np.concatenate(
            [np.arange(n) < z for n, z in zip(sample.counts, labels, strict=True)]
        )
        assert first.sum() == 30
        difference = scores[first].mean(axis=0) - scores[~first].mean(axis=0)
        expected.append(difference @ difference)
    np.testing.assert_allclose(distances(sample), expected, rtol=1e-9)


def test_statistic_of_pairs_is_in_standard_errors():
    """The second column varies little within pairs."""
    P = RNG.normal(size=(30, 2))
    Q = P + RNG.normal(scale=[1.0, 0.01], size=(30, 2))
    sample = pool_pairs(TwoSamples(P, Q), 9, np.random.default_rng(1))
    scores = norm.ppf((rankdata(sample.points, axis=0) - 0.5) / 60)
    first, second = sample.partners.T
    expected = []
    for labels in sample.labels.T:
        signs = np.where(labels[first] == 1, 1.0, -1.0)
        terms = signs[:, None] * (scores[first] - scores[second])
        expected.append(np.sum(terms.sum(axis=0) ** 2 / (terms**2).sum(axis=0)))
    np.testing.assert_allclose(distances(sample), expected, rtol=1e-9)


def test_columns_with_a_tied_maximum():
    """Of 5000 values 300 are the maximum, more than one in :data:`location.MAX_VALUES`."""
    values = np.minimum(RNG.normal(size=5000), 1.55)
    known, scores = normal_scores(*np.unique(values, return_counts=True))
    assert known[-1] == 1.55
    proportion = np.mean(values == 1.55)
    assert scores[-1] == pytest.approx(norm.ppf(1.0 - 0.5 * proportion))


def test_observed_statistic_of_weighted_rows():
    """Ranks are by the effective counts of both samples."""
    P, Q = RNG.normal(size=(30, 2)), RNG.normal(size=(45, 2))
    v, w = RNG.exponential(size=30), RNG.exponential(size=45)
    sample = pool_weighted(TwoSamples(P, Q), (v, w), 9, np.random.default_rng(1))
    scores = NormalScores.of(sample.points, sample.counts)
    (m, n), at_points = sample.effective_sizes, scores(sample.points)
    means = [
        np.average(scores(rows / sample.scale), axis=0, weights=weights)
        for rows, weights in ((P, v), (Q, w))
    ]
    deviations = (at_points - (m * means[0] + n * means[1]) / (m + n)) ** 2
    expected, actual = (
        m * n * squares.sum(axis=1) @ deviations
        for squares in (sample.expected_squares, sample.squared_weights)
    )
    squares = m * n * np.subtract(*means) ** 2
    # The excess of the observed variance over the expected one is subtracted.
    statistic = np.sum((squares - (actual - expected)) / expected)
    np.testing.assert_allclose(distances(sample)[0], statistic, rtol=1e-9)
    errors = sample.labels[:, 1:].T @ at_points
    np.testing.assert_allclose(
        distances(sample)[1:], np.sum(m * n * errors**2 / expected, axis=1), rtol=1e-9
    )


def test_scores_of_large_samples_are_interpolated_and_exact_for_frequent_values(
    monkeypatch,
):
    monkeypatch.setattr(location, "MAX_VALUES", 100)
    x = np.concatenate([np.zeros(300), RNG.normal(2.0, 1.0, size=2000)])
    values, scores = normal_scores(x, np.ones(len(x), dtype=int))
    assert len(values) <= 102
    assert values[0] == x.min()
    assert values[-1] == x.max()
    assert 0.0 in values
    exact = norm.ppf((rankdata(x) - 0.5) / len(x))
    interpolated = np.interp(x, values, scores)
    assert interpolated[x == 0.0] == pytest.approx(exact[x == 0.0], abs=1e-12)
    inside = np.abs(exact) < 1.5
    np.testing.assert_allclose(interpolated[inside], exact[inside], atol=0.02)


def test_constant_columns_have_no_distance():
    samples = TwoSamples(np.full((5, 1), 0.1), np.full((7, 1), 0.1))
    assert not distances(pool_rows(samples, 9, np.random.default_rng(1))).any()


def test_shift_of_heavy_tails_is_most_significant_in_location():
    """2 x 100 rows of t with 2 degrees of freedom, shifted by 0.5: for some of the seeds 0 to 4."""
    names = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        P, Q = rng.standard_t(2, size=(100, 1)), 0.5 + rng.standard_t(2, size=(100, 1))
        names.append(two_sample_test(P, Q, n_resamples=199, progress=False).components[0].name)
    assert "in location" in names


def test_equal_values_are_tied_in_any_unit():
    """No rounding of means of tied rows makes three different values of a binary column."""
    rng = np.random.default_rng(0)
    P, Q = rng.integers(0, 2, (40, 3)).astype(float), rng.integers(0, 2, (50, 3)).astype(float)
    values = []
    for unit in (1.0, 1.8, 0.1, 1e12):
        samples = TwoSamples.checked(unit * P, unit * Q)
        sample = pool_rows(samples, 9, np.random.default_rng(1))
        assert [len(np.unique(column)) for column in sample.points.T] == [2, 2, 2]
        values.append(distances(sample))
    np.testing.assert_allclose(values, np.tile(values[0], (4, 1)), rtol=1e-9)
