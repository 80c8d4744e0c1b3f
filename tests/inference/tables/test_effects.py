"""Effect sizes of columns, compared with loops over rows."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from bke.inference import compare_tables
from bke.inference.comparison.effect_sizes import mean_difference, proportion_with_interval
from bke.inference.io.types import Column
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.effects import WeightedValues, _auc, column_effect
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.statistics import marginal_statistics
from bke.inference.tables.summary import format_different


def changed(column, rows):
    permuted = permute_labels([column], rows, 9, 0)
    return column_effect(
        column,
        [
            marginal_statistics(feature, permuted)
            for feature in derive_features(column, permuted.row_weights)
        ],
        rows,
        0.05,
        permuted.row_weights,
    )


def test_effects_of_numbers_are_the_shift_of_medians_and_the_auc():
    """With DeLong's variance of the rows' proportions of wins, with n - 1, in both tables."""
    rng = np.random.default_rng(0)
    before, after = rng.poisson(3.0, 40).astype(float), rng.poisson(4.0, 25).astype(float)
    effect = changed(Column("x", "integer", np.concatenate([before, [np.nan], after])), 41)
    wins = 0.5 * (1.0 + np.sign(after[:, None] - before))
    np.testing.assert_allclose(effect.auc, wins.mean())
    variance = wins.mean(axis=1).var(ddof=1) / 25 + wins.mean(axis=0).var(ddof=1) / 40
    odds = scipy.special.logit(wins.mean())
    reach = scipy.stats.t.isf(0.025, 24) * variance**0.5 / (wins.mean() * (1.0 - wins.mean()))
    ends = scipy.special.expit([odds - reach, odds + reach])
    # The interval is at least as wide as that of 25 equal outcomes.
    least = 1.0 - 0.025 ** (1 / 25)
    ends = min(ends[0], wins.mean() - least), max(ends[1], wins.mean() + least)
    np.testing.assert_allclose(effect.auc_interval, ends)
    assert effect.auc > 0.5
    assert effect.shift == np.median(after) - np.median(before)
    np.testing.assert_allclose(effect.missing, [1 / 41, 0.0])


def test_intervals_of_small_and_of_separated_samples():
    x = np.concatenate([np.arange(15.0), np.arange(15.0) + 100.0])
    effect = changed(Column("x", "integer", x), 15)
    assert effect.auc == 1.0
    assert effect.auc_interval[0] < 0.9
    for interval in (effect.mean_difference_interval, effect.median_difference_interval):
        assert interval[0] < 100.0 < interval[1]
    unequal = changed(Column("x", "integer", x[:20]), 15)
    assert unequal.mean_difference_interval is unequal.median_difference_interval is None
    column = Column("x", "integer", x)
    dependent = column_effect(column, [], 15, 0.05, np.ones(30), independent=False)
    assert dependent.auc_interval is dependent.mean_difference_interval is None
    assert dependent.median_difference_interval is None


def test_proportions_of_levels_exclude_missing_values():
    values = np.array([0.0, 0, 0, 1, np.nan, 0, 1, 1, 1, 1])
    effect = changed(Column("c", "category", values, ("a", "b")), 5)
    proportions = {level.level: (level.before, level.after) for level in effect.shares}
    assert proportions == {"a": (0.75, 0.2), "b": (0.25, 0.8)}
    np.testing.assert_allclose(effect.missing, [0.2, 0.0])


def test_weekdays_and_hours_are_those_of_the_calendar():
    """Calendar days computed by the standard library, from the year 1600 on."""
    texts = ["1600-02-29T07:30", "1752-09-14T00:00", "1883-11-18T12:00", "1969-12-31T23:59:59"]
    texts += ["1970-01-01T00:30", "2024-02-29T23:59", "2024-03-03T07:00"]
    moments = np.array(texts, "datetime64[s]")
    weekday, hour = derive_features(Column("when", "datetime", moments.astype(float)), np.ones(7))
    days = [datetime.datetime.fromisoformat(text) for text in texts]
    assert [weekday.levels[code] for code in weekday.codes] == [f"{day:%A}" for day in days]
    assert [hour.levels[code] for code in hour.codes] == [f"{day.hour}:00" for day in days]


def test_times_of_day_have_no_weekday():
    features = derive_features(
        Column("at", "datetime", np.array([0.0, 3600.0, 86_399.0])), np.ones(3)
    )
    assert [feature.name for feature in features] == ["hour"]


def test_outlying_values_are_counted_beyond_limits():
    rng = np.random.default_rng(2)
    values = rng.normal(size=400)
    values[300:306] *= 1000.0
    features = derive_features(Column("x", "number", values), np.ones(400))
    assert [feature.name for feature in features] == ["", "tails"]
    near = derive_features(Column("x", "number", values[:300]), np.ones(300))
    assert [feature.name for feature in near] == [""]
    permuted = permute_labels([Column("x", "number", values)], 200, 9, 0)
    tails = marginal_statistics(features[1], permuted)
    for index, name in enumerate(features[1].levels):
        side, end = name.split()
        beyond = values < float(end) if side == "below" else values > float(end)
        # Names are rounded.
        assert abs(tails.counts[index] - beyond.sum()) <= 1
        assert abs(tails.labels[index, 0] - beyond[:200].sum()) <= 1
    proportions = changed(Column("x", "number", values), 200).shares
    assert proportions[0].level.split()[0] in ("above", "below")
    assert proportions[0].after > proportions[0].before + 0.01


def test_the_effect_size_of_numbers_is_the_distance_of_kolmogorov_and_smirnov():
    """Ties, more values than codes, and a change of the standard deviation with an AUC of 1/2."""
    rng = np.random.default_rng(6)
    for before, after in (
        (rng.poisson(3.0, 70).astype(float), rng.poisson(4.0, 50).astype(float)),
        (rng.normal(size=3000), rng.normal(0.3, 1.0, size=2000)),
        (rng.normal(size=900), rng.normal(0.0, 3.0, size=900)),
    ):
        effect = changed(Column("x", "number", np.concatenate([before, after])), len(before))
        expected = scipy.stats.ks_2samp(before, after, method="asymp").statistic
        np.testing.assert_allclose(effect.size, expected, rtol=1e-12)
    assert abs(effect.auc - 0.5) < 0.05 < 0.2 < effect.size


def test_the_effect_size_of_repeated_rows_is_that_of_single_rows():
    rng = np.random.default_rng(7)
    values, times = rng.integers(0, 9, 60).astype(float), rng.integers(1, 5, 60)
    duplicated = changed(Column("x", "integer", np.repeat(values, times)), int(times[:40].sum()))
    column = Column("x", "integer", values)
    weighted = column_effect(column, [], 40, 0.05, times.astype(float))
    np.testing.assert_allclose(weighted.size, duplicated.size, rtol=1e-12)


def test_the_effect_size_of_categories_is_the_total_change_and_missing_values_count():
    levels = np.repeat([0.0, 1.0, 2.0, 0.0, 1.0, 2.0], [50, 30, 20, 30, 30, 40])
    effect = changed(Column("x", "category", levels, ("a", "b", "c")), 100)
    np.testing.assert_allclose(effect.size, 0.2)  # a loses 20 of 100 rows, and c has them
    levels[:40] = np.nan  # rows of the first table, of which a has 10, b 30 and c 20 of 60 left
    effect = changed(Column("x", "category", levels, ("a", "b", "c")), 100)
    np.testing.assert_allclose(effect.size, 0.4)
    np.testing.assert_allclose(effect.missing, [0.4, 0.0])


def test_medians_are_printed_with_the_digits_that_differ():
    assert format_different(5.0, 5.0001, n_digits=4) == ("5", "5.0001")
    assert format_different(9.1e15, 9.1e15 + 2.0, n_digits=4) == (
        "9100000000000000",
        "9100000000000002",
    )
    assert format_different(1 / 3, 1 / 3, n_digits=4) == ("0.3333", "0.3333")
    assert format_different(1.0, 2.0, n_digits=4) == ("1", "2")


def test_differences_of_means_and_medians_of_columns():
    """With SciPy's interval of Welch and the median of all differences."""
    rng = np.random.default_rng(11)
    before = pd.DataFrame({"x": rng.normal(size=80), "w": rng.exponential(size=80)})
    after = pd.DataFrame({"x": rng.normal(0.5, 2.0, size=110), "w": 1.0})
    options = {"n_resamples": 99, "progress": False}
    effect = compare_tables(before[["x"]], after[["x"]], **options).columns[0].effect
    welch = scipy.stats.ttest_ind(after.x, before.x, equal_var=False)
    assert effect.mean_difference == pytest.approx(after.x.mean() - before.x.mean())
    np.testing.assert_allclose(effect.mean_difference_interval, welch.confidence_interval(0.95))
    differences = after.x.to_numpy()[:, None] - before.x.to_numpy()
    assert effect.median_difference == pytest.approx(np.median(differences))
    low, high = effect.median_difference_interval
    assert low < effect.median_difference < high
    weighted = compare_tables(before, after, weights="w", **options).columns[0].effect
    mean = np.average(before.x, weights=before.w)
    assert weighted.mean_difference == pytest.approx(after.x.mean() - mean)
    assert weighted.median_difference is None
    expected = mean_difference(
        before[["x"]].to_numpy(),
        after[["x"]].to_numpy(),
        0.05,
        weights=(before.w.to_numpy(), after.w.to_numpy()),
    ).interval
    np.testing.assert_allclose(weighted.mean_difference_interval, np.ravel(expected))
    rows = compare_tables(before.assign(w=before.index // 2), after.assign(w=after.index // 2),
                          clusters="w", **options).columns[0].effect  # fmt: skip
    assert rows.mean_difference == pytest.approx(effect.mean_difference)
    assert rows.mean_difference_interval is None


def test_the_interval_of_a_weighted_auc_is_that_of_its_slopes_in_the_weights():
    """The variance sums the squares of the slopes in each log weight, times n / (n - 1)."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=50), rng.normal(0.5, size=70)
    weights = np.exp(x), np.ones(70)
    samples = [
        WeightedValues.of(values, weight * weight.sum() / np.sum(weight**2))
        for values, weight in zip((x, y), weights, strict=True)
    ]

    def auc(log_first, log_second):
        first, second = np.exp(log_first), np.exp(log_second)
        return (first @ (x[:, None] < y) @ second) / (first.sum() * second.sum())

    log_weights, variance = list(map(np.log, weights)), 0.0
    for index, sample in enumerate(samples):
        for row in range(len(sample.values)):
            moved = [log_weight.copy() for log_weight in log_weights]
            moved[index][row] += 1e-5
            slope = (auc(*moved) - auc(*log_weights)) / 1e-5
            variance += slope**2 * sample.size / (sample.size - 1.0)
    actual, interval = _auc(*samples, 0.05)
    assert actual == pytest.approx(auc(*log_weights))
    size = min(sample.size for sample in samples)
    expected = proportion_with_interval(actual, variance**0.5, size, 0.05).interval
    np.testing.assert_allclose(interval, expected, rtol=1e-4)


def test_the_interval_of_a_difference_of_proportions_is_that_of_agresti_and_caffo():
    """With one row more of each kind in each table; 300 pairs of tables of 40 + 60 rows.

    Fewer than 274 of a confidence of 0.95 have a chance below 1e-2 where the interval is exact.
    """
    values = np.repeat([0.0, 1.0, 0.0, 1.0], [30, 10, 30, 30])
    effect = changed(Column("x", "category", values, ("a", "b")), 40)
    first, second = 11 / 42, 31 / 62
    error = 1.959963984540054 * (first * (1 - first) / 42 + second * (1 - second) / 62) ** 0.5
    (level,) = (candidate for candidate in effect.shares if candidate.level == "b")
    assert level[1:3] == (0.25, 0.5)
    np.testing.assert_allclose(level.interval, [second - first - error, second - first + error])
    for signs, end in (([np.nan, 0.0], 0), ([0.0, np.nan], 1)):
        column = Column("x", "category", np.repeat(signs, 30), ("a",))
        interval = changed(column, 30).missing_interval
        assert interval[end] == (-1.0, 1.0)[end]
        assert 0.8 < abs(interval[1 - end]) < 0.9
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        drawn = np.concatenate([rng.random(40) < 0.1, rng.random(60) < 0.2]).astype(float)
        values_or_nan = np.where(drawn == 1.0, np.nan, 0.0)
        low, high = changed(Column("x", "category", values_or_nan, ("a", "b")), 40).missing_interval
        covered += low <= 0.1 <= high
    assert covered >= 274


def test_the_strongest_feature_is_that_which_has_changed():
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    shifted, with_missing = x + 1.5 * (np.arange(400) >= 200), x.copy()
    shifted[rng.random(400) < 0.1] = np.nan
    with_missing[(rng.random(400) < 0.4) & (np.arange(400) >= 200)] = np.nan
    with_missing[3] = np.nan
    for values, expected, text in (
        (shifted, "", "most in its values"),
        (with_missing, "missing", "most in its missing values"),
    ):
        tables = [pd.DataFrame({"x": part}) for part in np.split(values, 2)]
        result = compare_tables(*tables, n_resamples=199, progress=False)
        assert result["x"].strongest_feature == expected
        assert text in str(result)
        assert result.to_dict()["columns"][0]["strongest_feature"] == expected


def test_identifiers_in_both_tables_are_noted():
    rng = np.random.default_rng(2)
    ids = [f"c{index:04d}" for index in rng.permutation(900)]
    first, second = (
        pd.DataFrame({"customer": customers, "x": rng.normal(size=len(customers))})
        for customers in (ids[:500], ids[300:])
    )
    options = {"n_resamples": 99, "progress": False}
    (note,) = (text for text in compare_tables(first, second, **options).notes if "both" in text)
    assert note.startswith("200 values of 'customer' are in both tables")
    disjoint = second.assign(customer=[f"d{index}" for index in range(600)])
    assert not any("in both" in text for text in compare_tables(first, disjoint, **options).notes)
    clustered = compare_tables(first, second, clusters="customer", **options)
    assert not any("in both tables" in text for text in clustered.notes)
    assert "no intervals" in str(clustered)
