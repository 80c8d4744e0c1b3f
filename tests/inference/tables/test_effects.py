"""By how much a column has changed, beside loops over its rows."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats
from bke.inference import compare_tables
from bke.inference.io.types import Column
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.effects import column_effect
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.statistics import marginal_statistics
from bke.inference.tables.summary import format_different


def changed(column, rows):
    permuted = permute_labels([column], rows, 9, 0)
    return column_effect(
        column,
        [
            marginal_statistics(one, permuted)
            for one in derive_features(column, permuted.row_weights)
        ],
        rows,
        0.05,
        permuted.row_weights,
    )


def test_numbers_change_by_medians_and_by_how_often_one_is_larger():
    """With DeLong's variance: that of each row's share of wins, with n - 1, in both tables."""
    rng = np.random.default_rng(0)
    before, after = rng.poisson(3.0, 40).astype(float), rng.poisson(4.0, 25).astype(float)
    found = changed(Column("x", "integer", np.concatenate([before, [np.nan], after])), 41)
    wins = 0.5 * (1.0 + np.sign(after[:, None] - before))
    np.testing.assert_allclose(found.auc, wins.mean())
    variance = wins.mean(axis=1).var(ddof=1) / 25 + wins.mean(axis=0).var(ddof=1) / 40
    odds = scipy.special.logit(wins.mean())
    reach = scipy.stats.t.isf(0.025, 24) * variance**0.5 / (wins.mean() * (1.0 - wins.mean()))
    ends = scipy.special.expit([odds - reach, odds + reach])
    # 25 rows that agree would leave as much open.
    least = 1.0 - 0.025 ** (1 / 25)
    ends = min(ends[0], wins.mean() - least), max(ends[1], wins.mean() + least)
    np.testing.assert_allclose(found.auc_interval, ends)
    assert found.auc > 0.5
    assert found.shift == np.median(after) - np.median(before)
    np.testing.assert_allclose(found.missing, [1 / 41, 0.0])


def test_intervals_of_few_rows_and_of_rows_that_agree():
    x = np.concatenate([np.arange(15.0), np.arange(15.0) + 100.0])
    found = changed(Column("x", "integer", x), 15)
    assert found.auc == 1.0
    assert found.auc_interval[0] < 0.9
    for interval in (found.mean_difference_interval, found.median_difference_interval):
        assert interval[0] < 100.0 < interval[1]
    few = changed(Column("x", "integer", x[:20]), 15)
    assert few.mean_difference_interval is few.median_difference_interval is None
    column = Column("x", "integer", x)
    alone = column_effect(column, [], 15, 0.05, np.ones(30), independent=False)
    assert alone.auc_interval is alone.mean_difference_interval is None
    assert alone.median_difference_interval is None


def test_levels_change_by_their_shares_among_those_that_are_there():
    values = np.array([0.0, 0, 0, 1, np.nan, 0, 1, 1, 1, 1])
    found = changed(Column("c", "category", values, ("a", "b")), 5)
    told = {share.level: (share.before, share.after) for share in found.shares}
    assert told == {"a": (0.75, 0.2), "b": (0.25, 0.8)}
    np.testing.assert_allclose(found.missing, [0.2, 0.0])


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
    found = derive_features(Column("at", "datetime", np.array([0.0, 3600.0, 86_399.0])), np.ones(3))
    assert [aspect.name for aspect in found] == ["hour"]


def test_values_far_out_are_counted_beyond_ends():
    rng = np.random.default_rng(2)
    values = rng.normal(size=400)
    values[300:306] *= 1000.0
    found = derive_features(Column("x", "number", values), np.ones(400))
    assert [one.name for one in found] == ["", "tails"]
    near = derive_features(Column("x", "number", values[:300]), np.ones(300))
    assert [one.name for one in near] == [""]
    permuted = permute_labels([Column("x", "number", values)], 200, 9, 0)
    tails = marginal_statistics(found[1], permuted)
    for index, name in enumerate(found[1].levels):
        side, end = name.split()
        beyond = values < float(end) if side == "below" else values > float(end)
        # Names are rounded.
        assert abs(tails.counts[index] - beyond.sum()) <= 1
        assert abs(tails.labels[index, 0] - beyond[:200].sum()) <= 1
    shares = changed(Column("x", "number", values), 200).shares
    assert shares[0].level.split()[0] in ("above", "below")
    assert shares[0].after > shares[0].before + 0.01


def test_the_effect_size_of_numbers_is_the_distance_of_kolmogorov_and_smirnov():
    """Ties, more values than codes, and a change of spread, of which the AUC is 1/2."""
    rng = np.random.default_rng(6)
    for before, after in (
        (rng.poisson(3.0, 70).astype(float), rng.poisson(4.0, 50).astype(float)),
        (rng.normal(size=3000), rng.normal(0.3, 1.0, size=2000)),
        (rng.normal(size=900), rng.normal(0.0, 3.0, size=900)),
    ):
        found = changed(Column("x", "number", np.concatenate([before, after])), len(before))
        expected = scipy.stats.ks_2samp(before, after, method="asymp").statistic
        np.testing.assert_allclose(found.size, expected, rtol=1e-12)
    assert abs(found.auc - 0.5) < 0.05 < 0.2 < found.size


def test_the_effect_size_of_repeated_rows_is_that_of_each_row_alone():
    rng = np.random.default_rng(7)
    values, times = rng.integers(0, 9, 60).astype(float), rng.integers(1, 5, 60)
    whole = changed(Column("x", "integer", np.repeat(values, times)), int(times[:40].sum()))
    column = Column("x", "integer", values)
    weighted = column_effect(column, [], 40, 0.05, times.astype(float))
    np.testing.assert_allclose(weighted.size, whole.size, rtol=1e-12)


def test_the_effect_size_of_categories_is_the_total_change_and_missing_values_count():
    levels = np.repeat([0.0, 1.0, 2.0, 0.0, 1.0, 2.0], [50, 30, 20, 30, 30, 40])
    found = changed(Column("x", "category", levels, ("a", "b", "c")), 100)
    np.testing.assert_allclose(found.size, 0.2)  # a loses 20 of 100 rows, and c has them
    levels[:40] = np.nan  # rows of the first table, of which a has 10, b 30 and c 20 of 60 left
    found = changed(Column("x", "category", levels, ("a", "b", "c")), 100)
    np.testing.assert_allclose(found.size, 0.4)
    np.testing.assert_allclose(found.missing, [0.4, 0.0])


def test_medians_are_written_with_the_digits_that_differ():
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
    rows = compare_tables(before.assign(w=before.index // 2), after.assign(w=after.index // 2),
                          clusters="w", **options).columns[0].effect  # fmt: skip
    assert rows.mean_difference == pytest.approx(effect.mean_difference)
    assert rows.mean_difference_interval is None


def test_the_interval_of_a_difference_of_proportions_is_that_of_agresti_and_caffo():
    """With one row more of each kind in each table; 300 pairs of tables of 40 + 60 rows.

    Fewer than 274 of a confidence of 0.95 have a chance below 1e-2 where the interval is exact.
    """
    values = np.repeat([0.0, 1.0, 0.0, 1.0], [30, 10, 30, 30])
    found = changed(Column("x", "category", values, ("a", "b")), 40)
    first, second = 11 / 42, 31 / 62
    error = 1.959963984540054 * (first * (1 - first) / 42 + second * (1 - second) / 62) ** 0.5
    (share,) = (one for one in found.shares if one.level == "b")
    assert share[1:3] == (0.25, 0.5)
    np.testing.assert_allclose(share.interval, [second - first - error, second - first + error])
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        drawn = np.concatenate([rng.random(40) < 0.1, rng.random(60) < 0.2]).astype(float)
        holes = np.where(drawn == 1.0, np.nan, 0.0)
        low, high = changed(Column("x", "category", holes, ("a", "b")), 40).missing_interval
        held += low <= 0.1 <= high
    assert held >= 274


def test_the_strongest_feature_is_the_one_that_has_changed():
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    shifted, with_holes = x + 1.5 * (np.arange(400) >= 200), x.copy()
    shifted[rng.random(400) < 0.1] = np.nan
    with_holes[(rng.random(400) < 0.4) & (np.arange(400) >= 200)] = np.nan
    with_holes[3] = np.nan
    for values, expected, text in (
        (shifted, "", "most in its values"),
        (with_holes, "missing", "most in its missing values"),
    ):
        tables = [pd.DataFrame({"x": part}) for part in np.split(values, 2)]
        found = compare_tables(*tables, n_resamples=199, progress=False)
        assert found["x"].strongest_feature == expected
        assert text in str(found)
        assert found.to_dict()["columns"][0]["strongest_feature"] == expected


def test_identifiers_in_both_tables_are_noted():
    rng = np.random.default_rng(2)
    ids = [f"c{index:04d}" for index in rng.permutation(900)]
    first, second = (
        pd.DataFrame({"customer": some, "x": rng.normal(size=len(some))})
        for some in (ids[:500], ids[300:])
    )
    options = {"n_resamples": 99, "progress": False}
    (note,) = (one for one in compare_tables(first, second, **options).notes if "both" in one)
    assert note.startswith("200 values of 'customer' are in both tables")
    apart = second.assign(customer=[f"d{index}" for index in range(600)])
    assert not any("in both" in one for one in compare_tables(first, apart, **options).notes)
    kept = compare_tables(first, second, clusters="customer", **options)
    assert not any("in both tables" in one for one in kept.notes)
    assert "no intervals" in str(kept)
