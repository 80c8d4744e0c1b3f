"""p-values, their Monte Carlo errors, stages of permutations, and adjusted p-values."""

import numpy as np
import pytest
from bke.inference import InputError, compare, compare_tables, independence_test, two_sample_test
from bke.inference.permutation import null_distribution
from bke.inference.permutation.null_distribution import (
    CLEAR,
    DRAWN,
    check_permutations,
    describe_count,
    describe_p_with_error,
    exceedances,
    in_stages,
    monte_carlo_error,
    neg_log_tails,
    p_value,
    proportion_error,
    small_sample_note,
    stages,
    standardize,
    step_down,
)

QUIET = {"progress": False}


def test_p_values_by_hand():
    assert p_value(np.array([3.0, 1.0, 2.0, 4.0])) == 2 / 4
    assert p_value(np.array([5.0, 1.0, 2.0, 4.0])) == 1 / 4
    assert p_value(np.array([2.0, 2.0, 2.0, 1.0])) == 3 / 4  # ties count as exceedances
    assert p_value(np.array([2.0, 2.0 + 1e-13, 1.0, 1.0])) == 2 / 4  # rounding is a tie
    assert exceedances(np.array([3.0, 1.0, 2.0, 4.0])).tolist() == [2, 4, 3, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [0, 2])
def test_statistics_that_are_not_finite_are_refused(value, index):
    statistic = np.array([3.0, 1.0, 2.0, 0.0])
    statistic[index] = value
    with pytest.raises(InputError, match="not a finite number"):
        p_value(statistic)


def test_standardized_rows():
    rows = standardize(np.array([[1.0, 2.0, 6.0], [5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(rows[0].mean(), 0.0, atol=1e-15)
    assert rows[0].std() == pytest.approx(1.0)
    np.testing.assert_array_equal(rows[1], 0.0)
    # Relative to each row: rounding errors of large numbers are constant, small numbers are not.
    small, large = np.array([1.0, 2.0, 3.0]) * 1e-12, np.array([1.0, 1.0 + 1e-12, 1.0])
    rows = standardize(np.stack([small, large]))
    np.testing.assert_allclose(rows[0], [-(1.5**0.5), 0.0, 1.5**0.5], atol=1e-9)
    np.testing.assert_array_equal(rows[1], 0.0)


@pytest.mark.parametrize(
    "function",
    [
        standardize,
        lambda values, **options: standardize(values, zero_mean=True, **options),
        neg_log_tails,
    ],
    ids=["standardize", "zero mean", "neg_log_tails"],
)
def test_several_observed_columns_are_compared_separately_with_the_permuted_columns(function):
    """Equal to a separate call for each observed column, and for the permuted columns alone."""
    rng = np.random.default_rng(3)
    values = rng.gamma(2.0, size=(4, 60)) - 1.5
    values[1, 3:] = 5.0  # constant in the permuted columns only
    values[2] = 7.0
    n_observed = 3
    together = function(values, n_observed=n_observed)
    for column in range(n_observed):
        separate = function(np.concatenate([values[:, [column]], values[:, n_observed:]], axis=1))
        np.testing.assert_allclose(together[:, column], separate[:, 0], rtol=1e-9, atol=1e-12)
    permuted = function(values[:, n_observed:])
    np.testing.assert_allclose(together[[0, 2, 3], n_observed:], permuted[[0, 2, 3]], rtol=1e-12)


def test_p_values_are_described_with_their_monte_carlo_error():
    """The binomial standard error; for the smallest p-value only a bound."""
    assert describe_p_with_error(0.031, proportion_error(0.031, 999), 999) == "p = 0.031 ± 0.005"
    assert describe_p_with_error(0.5, proportion_error(0.5, 99), 99) == "p = 0.5 ± 0.05"
    assert describe_p_with_error(0.001, 0.001, 999) == "p ≤ 0.001"
    assert describe_p_with_error(0.2, proportion_error(0.2, 0), 0) == "p = 0.2"  # closed form
    assert describe_p_with_error(1.0, proportion_error(1.0, 99), 99) == "p = 1"


def test_jackknife_error_by_hand():
    """Six of 20 exceed, in three of ten parts: p is 5/19 without one of these, else 7/19."""
    statistic = np.zeros(21)
    statistic[[1, 2, 3, 11, 12, 13]] = 1.0
    statistic[4:11] = statistic[14:] = -1.0
    error = monte_carlo_error(lambda columns: statistic[columns], 7 / 21, 21)
    assert error == pytest.approx((9 / 10 * (3 * 1.4**2 + 7 * 0.6**2)) ** 0.5 / 19)
    # If all parts agree it is the error of a proportion.
    agreeing = monte_carlo_error(lambda columns: np.zeros(len(columns)), 0.2, 21)
    assert agreeing == (0.2 * 0.8 / 21) ** 0.5
    assert proportion_error(0.2, 399) == pytest.approx((0.2 * 0.8 / 400) ** 0.5)
    assert proportion_error(0.2, 0) == 0.0


def test_jackknife_error_is_the_standard_deviation_over_draws_of_the_permutations():
    """The largest of skewed statistics, each standardized by its permutations, over 300 draws.

    The root mean square of the errors has a standard error of 2 %, the standard deviation of p over
    draws 4 %: the bounds are four of these. The error of a proportion is too small.
    """
    observed = np.array([2.0, 1.0, 4.0, 0.5, 3.0, 1.5, 5.5, 2.5])[:, None]
    pvalues, errors = [], []
    for seed in range(300):
        drawn = np.random.default_rng(seed).lognormal(sigma=0.8, size=(8, 199))
        values = np.concatenate([observed, drawn], axis=1)

        def largest(columns, values=values):
            return standardize(values[:, columns]).max(axis=0)

        pvalues.append(p_value(largest(np.arange(200))))
        errors.append(monte_carlo_error(largest, pvalues[-1], 200))
    deviation = np.std(pvalues)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(deviation, rel=0.2)
    assert proportion_error(float(np.mean(pvalues)), 199) < 0.85 * deviation


@pytest.mark.parametrize("method", DRAWN)
def test_smallest_number_of_permutations_for_a_level(method):
    check_permutations(19, 0.05, method=method)
    check_permutations(9, 0.1, method=method)  # 1 / 0.1 is 10 in spite of rounding
    check_permutations(33, 0.03, method=method)
    for n_resamples, alpha, needed in ((18, 0.05, 19), (8, 0.1, 9), (32, 0.03, 33)):
        message = f"{n_resamples} draws cannot reject at level .*1/{n_resamples + 1}.*{needed}$"
        with pytest.raises(InputError, match=message):
            check_permutations(n_resamples, alpha, "draws", method)


def test_number_of_permutations_does_not_matter_for_a_null_in_closed_form():
    check_permutations(1, 0.05, method="gamma")


def test_invalid_numbers_of_permutations_and_levels_are_refused():
    with pytest.raises(InputError, match="n_resamples must be at least 1, got 0"):
        check_permutations(0, 0.05)
    for alpha in (0.0, 1.0, -0.1, float("nan"), "small"):
        with pytest.raises(InputError, match=r"alpha must be a number between 0 and 0.5"):
            check_permutations(99, alpha, method="gamma")


def test_note_on_rows_with_a_small_number_of_permutations():
    (note,) = small_sample_note(19, 0.05)
    assert "permuted in 19 ways" in note
    assert "below about 1/19" in note
    assert small_sample_note(20, 0.05) == ()
    assert small_sample_note(10**9, 0.05) == ()


@pytest.mark.parametrize(
    ("n_resamples", "alpha", "expected"),
    [
        (999, 0.05, [999]),
        (9998, 0.05, [9998]),
        (9999, 0.05, [999, 9999]),
        (100_000, 0.05, [999, 9999, 100_000]),
        (100_000, 0.001, [9999, 100_000]),  # 999 would have one exceedance
    ],
)
def test_stages_have_ten_times_more_permutations(n_resamples, alpha, expected):
    assert stages(n_resamples, alpha) == expected


def test_a_stage_with_a_clear_decision_is_the_last():
    drawn = []

    def with_pvalue(pvalue):
        def evaluate(count):
            drawn.append(count)
            return pvalue

        return evaluate

    assert in_stages(with_pvalue(0.21), 9999, 0.05, pvalue=float) == 0.21
    assert drawn == [999]
    assert in_stages(with_pvalue(0.2), 9999, 0.05, pvalue=float) == 0.2
    assert drawn == [999, 999, 9999]
    in_stages(with_pvalue(0.9), 9999, 0.05, pvalue=float, sequential=False)
    assert drawn[3:] == [9999]


def test_p_values_of_stages_are_valid(monkeypatch):
    """200 000 null tests of 19 and then 199 permutations, seed 0, with independent second stages.

    P(p <= u) is at most u for u = 0.05, 0.1, ..., 0.95, and nearly u up to where the first stage is
    the last: the bounds are 4.5 standard errors, which one of them exceeds once in 10 000 runs.
    """
    monkeypatch.setattr(null_distribution, "FIRST_STAGE", 19)
    monkeypatch.setattr(null_distribution, "MIN_EXCEEDING", 1)
    rng = np.random.default_rng(0)
    count, last = 200_000, CLEAR * 0.05
    # The number of B permutations that exceed a statistic with the tail probability t.
    tails = rng.uniform(size=count)
    first, second = ((1 + rng.binomial(B, tails)) / (1 + B) for B in (19, 199))
    pvalues = np.array(
        [
            in_stages(lambda B, i=i: (first if B == 19 else second)[i], 199, 0.05, pvalue=float)
            for i in range(count)
        ]
    )
    assert 0.7 < np.mean(pvalues == first) < 0.9  # tests with one stage
    for u in np.arange(0.05, 1.0, 0.05):
        bound = 4.5 * np.sqrt(u * (1.0 - u) / count)
        fraction = np.mean(pvalues <= u + 1e-9)
        assert fraction <= u + bound
        if u < last - 0.1:
            assert fraction > 0.8 * u


@pytest.fixture
def short_first_stage(monkeypatch):
    """The first stage has 99 permutations."""
    monkeypatch.setattr(null_distribution, "FIRST_STAGE", 99)
    monkeypatch.setattr(null_distribution, "MIN_EXCEEDING", 5)


@pytest.mark.slow
def test_every_test_stops_early_only_for_equal_distributions(short_first_stage):
    rng = np.random.default_rng(1)
    same, shifted = rng.normal(size=(2, 40, 2)), rng.normal(size=(40, 2)) + 2.0
    options = {"n_resamples": 999, **QUIET}
    result = two_sample_test(*same, **options)
    assert "99 permutations of at most 999" in str(result)
    assert result.pvalue == two_sample_test(*same, n_resamples=99, **QUIET).pvalue > 0.2
    assert two_sample_test(*same, **options, sequential=False).pvalue != result.pvalue
    assert len(two_sample_test(same[0], shifted, **options).null_distribution) == 999
    comparison = compare(*same, **options)
    assert comparison.n_resamples == 99
    assert comparison.pvalue == result.pvalue  # the test and the comparison agree
    assert compare(same[0], shifted, **options).n_resamples == 999
    assert len(independence_test(same[0][:, :1], same[1][:, 1:], **options).null_distribution) == 99
    assert len(independence_test(shifted, shifted[:, :1], **options).null_distribution) == 999
    tables = [{"a": list(rows[:, 0]), "b": list(rows[:, 1])} for rows in (*same, shifted)]
    assert compare_tables(tables[0], tables[1], **options).n_resamples == 99
    assert compare_tables(tables[0], tables[2], **options).n_resamples == 999


def test_description_notes_that_fewer_permutations_were_needed():
    assert describe_count(999, 9999) == "999 permutations of at most 9999"
    assert describe_count(999, 999) == "999 permutations"


def test_step_down_p_values_by_hand():
    """Each statistic is compared with those that are not more significant.

    Three statistics, not in the order of significance, with the observed value and four permuted
    values each.
    """
    statistics = np.array(
        [
            [4.0, 4.5, 4.2, 1.0, 2.0],  # with the last: 3 of 5
            [1.0, 0.0, 0.0, 0.0, 0.0],  # alone 1 of 5, but not smaller than that of the first
            [5.0, 1.0, 6.0, 2.0, 3.0],  # with all: 2 of 5
        ]
    )
    np.testing.assert_allclose(step_down(statistics), [3 / 5, 3 / 5, 2 / 5])
    np.testing.assert_allclose(step_down(statistics[[1]]), [1 / 5])
    assert step_down(np.empty((0, 5))).shape == (0,)


def test_step_down_counts_rounding_errors_as_ties():
    for observed in (2.0, -2.0, 2e6):
        row = observed - abs(observed) * np.array([0.0, 1e-12, 1e-6, 1e-3])
        np.testing.assert_allclose(step_down(row[None]), [2 / 4])
