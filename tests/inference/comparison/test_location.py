"""Differences in location, by SciPy and by all pairs of values."""

import numpy as np
import pytest
import scipy.stats
from bke.inference import compare
from bke.inference.comparison.effect_sizes import mean_difference, median_difference

QUIET = {"n_resamples": 39, "sequential": False, "progress": False}


def brute_force(differences, deviation, alpha=0.05):
    """The median of all differences, and order statistics around it."""
    ordered = np.sort(differences)
    count = len(ordered)
    rank = int(np.floor(0.5 * count - scipy.stats.norm.isf(0.5 * alpha) * deviation))
    return np.median(ordered), ordered[rank - 1], ordered[count - rank]


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("sizes", [(40, 57), (31, 30)])
def test_two_samples(decimals, sizes):
    rng = np.random.default_rng(0)
    first, second = rng.gamma(3.0, size=(sizes[0], 2)), rng.gamma(4.0, size=(sizes[1], 2))
    if decimals is not None:
        first, second = np.round(2.0 * first, decimals), np.round(2.0 * second, decimals)
    result = compare(first, second, **QUIET)
    welch = scipy.stats.ttest_ind(second, first, equal_var=False)
    interval = welch.confidence_interval(0.95)
    np.testing.assert_allclose(
        result.mean_difference, second.mean(axis=0) - first.mean(axis=0), rtol=1e-10
    )
    np.testing.assert_allclose(result.mean_difference_interval, interval, rtol=1e-8)
    by_column = result.to_dict()["mean_difference_interval"]
    np.testing.assert_allclose(by_column, np.transpose(interval), rtol=1e-8)
    assert result.to_dataframe()["column"].dropna().tolist() == ["x0", "x1"] * 2
    m, n = sizes
    for column in range(2):
        differences = np.subtract.outer(second[:, column], first[:, column]).ravel()
        expected = brute_force(differences, np.sqrt(m * n * (m + n + 1) / 12.0))
        low, high = result.median_difference_interval
        actual = [result.median_difference[column], low[column], high[column]]
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_pairs():
    rng = np.random.default_rng(1)
    first = rng.normal(size=(41, 1))
    second = first + 0.3 + 0.5 * rng.standard_t(3, size=(41, 1))
    result = compare(first, second, paired=True, **QUIET)
    differences = (second - first)[:, 0]
    student = scipy.stats.ttest_rel(second[:, 0], first[:, 0]).confidence_interval(0.95)
    np.testing.assert_allclose(result.mean_difference, [differences.mean()], rtol=1e-10)
    np.testing.assert_allclose(np.ravel(result.mean_difference_interval), student, rtol=1e-8)
    upper = np.triu_indices(41)
    means = 0.5 * np.add.outer(differences, differences)[upper]
    expected = brute_force(means, np.sqrt(41 * 42 * 83 / 24.0))
    low, high = result.median_difference_interval
    actual = [result.median_difference[0], low[0], high[0]]
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


@pytest.mark.parametrize("outlier", [1e25, 1e140])
def test_outliers_that_the_test_clips_are_not_clipped_in_differences(outlier):
    """Pooled rows are clipped at 1e20 standard deviations; means and medians are of the rows."""
    first, second = (np.random.default_rng(seed).normal(size=400) for seed in (0, 1))
    second[:2], first[0] = outlier, outlier
    result = compare(first, second, **QUIET)
    np.testing.assert_allclose(result.mean_difference, outlier / 400, rtol=1e-9)
    low, high = np.ravel(result.mean_difference_interval)
    welch = scipy.stats.ttest_ind(second / outlier, first / outlier, equal_var=False)
    expected = outlier * np.array(welch.confidence_interval(0.95))
    np.testing.assert_allclose([low, high], expected, rtol=1e-8)
    differences = np.subtract.outer(second, first).ravel()
    expected = brute_force(differences, np.sqrt(400 * 400 * 801 / 12.0))
    low, high = result.median_difference_interval
    # Differences of outliers are rounded: two of 160 000 are counted as smaller.
    np.testing.assert_allclose([result.median_difference[0], low[0], high[0]], expected, rtol=1e-3)
    paired = compare(first, second, paired=True, **QUIET)
    np.testing.assert_allclose(paired.mean_difference, outlier / 400, rtol=1e-9)
    weighted = compare(first, second, weights=(np.full(400, 2.0), None), **QUIET)
    np.testing.assert_allclose(weighted.mean_difference, outlier / 400, rtol=1e-9)
    unequal = compare(first[:1].repeat(4) * np.arange(1.0, 5.0), second[2:], **QUIET)
    np.testing.assert_allclose(unequal.median_difference, -2.5 * outlier, rtol=1e-6)


def test_order_of_rows_does_not_change_a_digit():
    rng = np.random.default_rng(7)
    first, second = rng.normal(size=(2, 60, 2))
    weights, order = rng.uniform(1.0, 3.0, size=(2, 60)), rng.permutation(60)
    for paired, pair, reordered in (
        (False, None, None),
        (True, None, None),
        (False, tuple(weights), tuple(weights[:, order])),
    ):
        expected = mean_difference(first, second, 0.05, paired=paired, weights=pair)
        actual = mean_difference(
            first[order], second[order], 0.05, paired=paired, weights=reordered
        )
        np.testing.assert_array_equal(actual.estimate, expected.estimate)
        np.testing.assert_array_equal(actual.interval, expected.interval)


def test_weighted_samples_have_only_mean_differences():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=50), rng.normal(0.5, size=60)
    weights = rng.uniform(1.0, 3.0, size=50)
    result = compare(first, second, weights=(weights, None), **QUIET)
    expected = second.mean() - np.average(first, weights=weights)
    np.testing.assert_allclose(result.mean_difference, [expected], rtol=1e-10)
    low, high = result.mean_difference_interval
    assert low < expected < high
    assert result.median_difference is None
    assert "Hodges" not in str(result)


def test_weights_that_depend_on_the_values_widen_the_interval():
    """The variance of a ratio of sums of w x and w, by its first derivatives."""
    rng = np.random.default_rng(11)
    first, second = rng.normal(size=(300, 1)), rng.normal(1.0, 1.0, size=(400, 1))
    weights = np.exp(first[:, 0]) / np.exp(first[:, 0]).sum()
    size, deviations = 1.0 / np.sum(weights**2), first[:, 0] - weights @ first[:, 0]
    of_first = np.sum((weights * deviations) ** 2) * size / (size - 1.0)
    of_second = scipy.stats.sem(second[:, 0]) ** 2
    terms = of_first**2 / (size - 1.0) + of_second**2 / 399.0
    freedom = (of_first + of_second) ** 2 / terms
    error = scipy.stats.t.isf(0.025, freedom) * np.sqrt(of_first + of_second)
    actual = mean_difference(first, second, 0.05, weights=(7.0 * weights, np.ones(400)))
    np.testing.assert_allclose(np.diff(np.ravel(actual.interval)), 2.0 * error, rtol=1e-10)


def test_coverage_of_the_interval_of_hodges_and_lehmann():
    """Seed 4, 400 pairs of 25 + 30 t values, 95 %: fewer than 364 hits have probability 1e-3."""
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        first, second = rng.standard_t(3, (25, 1)), 0.7 + rng.standard_t(3, (30, 1))
        low, high = median_difference(first, second, 0.05).interval
        hits += low[0] <= 0.7 <= high[0]
    assert 364 <= hits <= 396


def test_median_differences_of_large_samples_use_quantiles():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=20_000), rng.normal(0.2, size=30_000)
    result = compare(first, second, **QUIET)
    low, high = result.median_difference_interval
    error = 2.0 * 1.96 * np.sqrt(np.pi / 3.0 * (1 / 20_000 + 1 / 30_000))
    assert result.median_difference[0] == pytest.approx(0.2, abs=0.04)
    assert (high - low)[0] == pytest.approx(error, rel=0.05)


def test_sentences_name_both_samples():
    rng = np.random.default_rng(6)
    result = compare(rng.normal(size=80), rng.normal(1.0, size=80), names=("a", "b"), **QUIET)
    mean, shift = result.mean_difference[0], result.median_difference[0]
    assert f"Mean difference of x, b - a: {mean:.3g} (unadjusted 95 % CI " in str(result)
    assert f"; Hodges-Lehmann shift {shift:.3g} (unadjusted 95 % CI " in str(result)


def test_small_samples_have_no_interval_of_a_shift_below_the_confidence():
    """Differences of 3 + 4 rows have one sign in 2 of 35 arrangements, of five pairs in 2 of 32."""
    rng = np.random.default_rng(3)
    for sizes, paired, exists in (
        ((3, 4), False, False),
        ((4, 4), False, True),
        ((2, 7), False, False),
        ((2, 8), False, True),
        ((5, 5), True, False),
        ((6, 6), True, True),
    ):
        first, second = (rng.normal(size=(size, 1)) for size in sizes)
        result = median_difference(first, second, 0.05, paired=paired)
        assert (result is not None) == exists
    comparison = compare(rng.normal(size=3), rng.normal(size=3), n_resamples=19, progress=False)
    assert comparison.median_difference is comparison.median_difference_interval is None
    assert "Hodges-Lehmann" not in str(comparison)


@pytest.mark.parametrize(("n", "has_interval"), [(198, False), (199, True)])
def test_one_row_and_many_have_as_many_arrangements_as_rows(n, has_interval):
    """With 199 and 200 arrangements, at a level of 0.01."""
    difference = median_difference(np.zeros((1, 1)), np.arange(float(n))[:, None], 0.01)
    assert (difference is not None) == has_interval


@pytest.mark.parametrize(("shift", "excluded"), [(1.6, True), (0.0, False)])
def test_an_interval_without_zero_is_explained_if_the_test_does_not_reject(shift, excluded):
    """Seed 11: p = 0.19 of the test, and 0.028 of Welch's t-test of a shift of 1.6."""
    rng = np.random.default_rng(11)
    first, second = rng.normal(10.0, 2.0, 25), rng.normal(10.0 + shift, 2.2, 25)
    assert (scipy.stats.ttest_ind(first, second, equal_var=False).pvalue < 0.05) == excluded
    result = compare(first, second, **QUIET)
    assert not result.reject
    sentence = "The interval of the mean difference excludes 0: a t-test of the mean alone rejects"
    assert (sentence in str(result)) == excluded
