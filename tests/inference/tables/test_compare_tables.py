"""Two tables compared: changes are reported, and only at the level for equal distributions."""

import datetime
import html
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import InputError, compare, compare_groups, compare_tables
from bke.inference.comparison.regions import Region
from bke.inference.tables.statistics import standardized_residuals
from bke.inference.tables.summary import format_region

QUIET = {"n_resamples": 199, "progress": False}


def table(rng, n=300, **changed):
    x = rng.normal(size=n)
    hours = pd.to_timedelta(rng.integers(0, 28 * 24, n), unit="h")
    base = {
        "x": x,
        "y": 0.6 * x + 0.8 * rng.normal(size=n),
        "k": rng.poisson(3.0, n),
        "c": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n).astype(object),
        "when": pd.Timestamp("2024-01-01") + hours,
    }
    return pd.DataFrame(
        {**base, **{name: change(rng, n, base) for name, change in changed.items()}}
    )


CHANGES = {
    "shift": ("x", lambda rng, n, base: rng.normal(0.5, 1.0, size=n)),
    "levels": ("c", lambda rng, n, base: rng.choice(["a", "b", "c"], p=[0.4, 0.3, 0.3], size=n)),
    "new level": ("c", lambda rng, n, base: np.where(rng.uniform(size=n) < 0.05, "new", base["c"])),
    "missing": ("k", lambda rng, n, base: np.where(rng.uniform(size=n) < 0.1, np.nan, base["k"])),
    "weekday": (
        "when",
        lambda rng, n, base: base["when"] - pd.to_timedelta(
            (base["when"].day_of_week == 6) * 1, unit="D"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("change_name", CHANGES)
def test_the_only_column_that_has_changed_is_reported(change_name):
    name, change = CHANGES[change_name]
    rng = np.random.default_rng(11)
    result = compare_tables(table(rng, 500), table(rng, 500, **{name: change}), **QUIET)
    assert result.reject
    assert [column.name for column in result.columns if column.reject] == [name]
    assert str(result).splitlines()[1].strip().startswith(f"{name} (")


def test_a_correlation_that_flips_is_a_pair_and_no_column():
    rng = np.random.default_rng(2)
    flipped = table(rng, y=lambda rng, n, base: -0.6 * base["x"] + 0.8 * rng.normal(size=n))
    result = compare_tables(table(rng), flipped, **QUIET)
    assert not any(column.reject for column in result.columns)
    (pair,) = (pair for pair in result.pairs if pair.reject)
    assert pair.columns == ("x", "y")
    was, now = pair.strengths
    assert was > 0.4
    assert now < -0.4


@pytest.mark.slow
def test_tables_of_equal_distributions_are_rejected_at_the_level():
    """60 pairs with ties, missing values and heavy tails; more than 8 have probability 0.003."""
    rejected = named = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tables = []
        for n in (30, 45):
            z = rng.standard_t(2, size=n)
            z[rng.uniform(size=n) < 0.2] = np.nan
            words = rng.choice(["a", "b", "c", "d"], size=n, p=[0.7, 0.2, 0.08, 0.02])
            tables.append(pd.DataFrame({"z": z, "k": rng.poisson(1.0, n), "c": words}))
        result = compare_tables(*tables, n_resamples=59, progress=False)
        rejected += result.reject
        named += any(component.reject for component in (*result.columns, *result.pairs))
        assert result.reject or not any(
            component.reject for component in (*result.columns, *result.pairs)
        )
    assert rejected <= 8
    assert named <= rejected


def test_a_single_numeric_column_is_compared_as_by_compare():
    """The same statistic by other permutations: p-values differ by their Monte Carlo error."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=120), rng.normal(0.2, 1.0, size=150)
    of_tables = compare_tables({"x": P}, {"x": Q}, n_resamples=999, progress=False)
    of_samples = compare(P, Q, n_resamples=999, progress=False)
    error = (2.0 * of_samples.pvalue * (1.0 - of_samples.pvalue) / 999) ** 0.5
    assert abs(of_tables.pvalue - of_samples.pvalue) < 4.0 * error
    assert of_tables["x"].pvalue == of_tables.pvalue


def test_order_of_rows_columns_and_tables_and_type_of_frame_do_not_matter():
    rng = np.random.default_rng(4)
    before, after = table(rng, 80), table(rng, 90)
    original = compare_tables(before, after, **QUIET)
    shuffled = before.sample(frac=1.0, random_state=0)[["c", "y", "when", "x", "k"]]
    other = compare_tables(shuffled, pa.Table.from_pandas(after), **QUIET)
    swapped = compare_tables(after, before, **QUIET)
    assert original.pvalue == other.pvalue == swapped.pvalue
    for column in original.columns:
        assert column.pvalue == other[column.name].pvalue == swapped[column.name].pvalue
    assert [pair.pvalue for pair in original.pairs] == [pair.pvalue for pair in swapped.pairs]
    assert original["x"].effect.shift == pytest.approx(-swapped["x"].effect.shift)


def test_residuals_are_those_of_a_table_of_counts():
    """With chi^2 of the table times (n - 1) / n as the sum of squares times 1 - n_a / n."""
    labels = np.array([[10, 12], [5, 3], [5, 5]])
    counts = np.array([16, 14, 10])
    residuals = standardized_residuals(counts, labels, 40, labels.sum(axis=0))
    for b in range(2):
        observed = np.stack([labels[:, b], counts - labels[:, b]])
        expected = observed.sum(axis=1, keepdims=True) * observed.sum(axis=0) / observed.sum()
        chi = np.sum((observed - expected) ** 2 / expected)
        np.testing.assert_allclose(np.sum(residuals[:, b] ** 2 * (1 - counts / 40)), chi * 39 / 40)
    assert residuals[0, 0] > 0.0


def test_json_and_text_agree():
    rng = np.random.default_rng(1)
    result = compare_tables(table(rng), table(rng, x=CHANGES["shift"][1]), **QUIET)
    report = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert report["schema"] == 2
    assert report["reject"] == result.reject == (report["pvalue"] <= 0.05)
    assert [column["name"] for column in report["columns"]] == ["x", "y", "k", "c", "when"]
    (rejected,) = (column for column in report["columns"] if column["reject"])
    assert rejected["effect"]["shift"] == pytest.approx(0.5, abs=0.3)
    assert rejected["effect"]["auc"] > 0.55
    assert all(region["sign"] in (-1, 1) for region in rejected["regions"])
    assert report["sentence"] == str(result).splitlines()[0]


def test_a_column_divides_a_single_table():
    rng = np.random.default_rng(7)
    combined = pd.concat(
        [table(rng, 100).assign(month="may"), table(rng, 120).assign(month="june")]
    )
    result = compare_tables(combined, by="month", **QUIET)
    assert result.names == ("month june", "month may")
    assert result.sizes == (120, 100)
    more = pd.concat([combined, combined[:3].assign(month="unknown")])
    notes = compare_tables(more, by="month", na_values=["unknown"], **QUIET).notes
    assert notes[0] == "3 rows without a value of 'month' left out."
    assert "month" not in [column.name for column in result.columns]


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        ({"x": [1, 2]}, {"y": [1, 2]}, {}, "'x' is only in before, 'y' is only in after"),
        (
            {"x": [1, 2]},
            {"x": ["a", "b"]},
            {},
            "holds numbers in before and words such as 'a' in after",
        ),
        ({"x": [1, 1]}, {"x": [1, 1]}, {}, "it has one value in all rows"),
        ({"x": [None, None]}, {"x": [None, None]}, {}, "it has no values"),
        ({"x": [1, 2]}, {"x": [1, 2]}, {"exclude": ["z"]}, "there is no column 'z'"),
        ({"x": [1, 2]}, {"x": [1, 2]}, {"column_types": {"x": "float"}}, "the type of"),
        ({"x": [1, 2]}, None, {}, "give two tables"),
        ({"x": [1, 2]}, None, {"by": "x", "exclude": ["x"]}, "no column can be compared"),
        (3.0, {"x": [1, 2]}, {}, "a data frame or the path of a file"),
        ({"x": []}, {"x": [1, 2]}, {}, "no rows"),
        (
            {"x": [float("inf"), 1.0], "y": [[1], [2]]},
            {"x": [1.0, 2.0], "y": [[1], [2]]},
            {},
            "2 columns: column 'x' has an infinite value .*; column 'y' holds list",
        ),
    ],
)
def test_invalid_tables_are_refused(before, after, options, message):
    with pytest.raises(InputError, match=message):
        compare_tables(before, after, progress=False, **options)


def test_codes_and_identifiers_are_compared_or_dropped_by_option():
    rng = np.random.default_rng(8)

    def make_table(n, start):
        x = np.round(rng.normal(50.0, 10.0, size=n), 1)
        x[::20] = -999.0
        return pd.DataFrame({"x": x, "id": [f"{start}{index:05d}" for index in range(n)]})

    tables = make_table(100, "A"), make_table(120, "B")
    result = compare_tables(*tables, **QUIET)
    assert "'x' is -999 in 5.0% of the rows" in result.notes[0]
    assert "--na-value=-999 (na_values=) or --sentinels missing" in result.notes[0]
    assert result["x"].effect.missing == (0.0, 0.0)
    assert [name for name, _ in result.left_out] == ["id"]
    result = compare_tables(*tables, sentinels="missing", identifiers=True, **QUIET)
    assert "read as missing" in result.notes[0]
    assert result["x"].effect.missing == (0.05, 0.05)
    assert result["id"].reject
    assert "with 'a00" in str(result["id"]) or "with 'b00" in str(result["id"])
    twin = compare_tables(*tables, na_values=["-999"], identifiers=True, **QUIET)
    assert twin.pvalue == result.pvalue


def test_small_tables_without_missing_values_are_compared():
    """Five values that are far from the other hundred: no permutation empties a table."""
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=5), rng.normal(size=100) + 100.0
    result = compare_tables({"x": before}, {"x": after}, **QUIET)
    assert result["x"].reject
    assert result["x"].pvalue == 0.005


def test_tables_that_weights_may_empty_are_compared():
    rng = np.random.default_rng(1)
    w = np.r_[np.ones(4), np.zeros(16)]
    tables = [
        pd.DataFrame({"x": rng.normal(size=20) + s, "y": rng.normal(size=20) + s, "w": w})
        for s in (0.0, 50.0)
    ]
    assert compare_tables(*tables, weights="w", n_resamples=999, progress=False).reject


def test_an_undefined_correlation_is_no_change_of_an_association():
    rng = np.random.default_rng(2)
    before = table(rng, 100)
    after = table(rng, 100)
    after["x"] = 1.0
    result = compare_tables(before, after, **QUIET)
    assert result["x"].reject
    assert not any(pair.reject for pair in result.pairs if "x" in pair.columns)


def test_long_integers_are_not_merged():
    start = 1234567890123456789
    users = np.repeat(np.arange(60), 3)
    x = np.random.default_rng(3).normal(size=180) + (users >= 30)

    def split_table(ids):
        frame = pd.DataFrame({"x": x, "user": ids})
        return frame[:90], frame[90:]

    result = compare_tables(*split_table(start + users), clusters="user", **QUIET)
    twin = compare_tables(
        *split_table([f"u{user:02d}" for user in users]), clusters="user", **QUIET
    )
    assert result.pvalue == twin.pvalue
    message = (
        "clusters are the 60 values of 'user', and effects have no intervals, which assume "
        "independent rows"
    )
    assert result.design == (message,)
    assert result["x"].effect.auc_interval is None


def test_strata_of_two_rows_compare_paired_tables():
    """The differences of pairs are far smaller than those of rows; the column has no name."""
    rng = np.random.default_rng(0)
    before = pd.DataFrame({"pair": np.arange(30), "": rng.normal(60.0, 12.0, size=30)})
    after = before.assign(**{"": before[""] + 1.0 + 0.5 * rng.normal(size=30)})
    paired = compare_tables(before, after, strata="pair", **QUIET)
    assert paired.reject
    assert "\n  '' (number) has changed" in str(paired)
    assert not compare_tables(before, after, exclude=["pair"], **QUIET).reject


def test_dates_of_several_types_are_compared():
    days = pd.date_range("2024-01-01", periods=40, freq="7h")
    before = pa.table({"when": pa.array(days.to_numpy().astype("datetime64[s]"))})
    after = pa.table({"when": pa.array(days + pd.Timedelta(1, "ns"))})
    result = compare_tables(before, after, **QUIET)
    assert result["when"].kind == "datetime"
    assert result.pvalue == 1.0
    hours = pa.table({"at": pa.array([datetime.time(index % 24) for index in range(40)])})
    assert "dates" not in compare_tables(hours, hours, **QUIET).to_dict()["sentence"]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("start", ["1603-06-01", "1895-06-03", "1961-01-02", "2021-06-07"])
def test_births_on_weekdays_are_not_births_on_all_days(start, as_text):
    """The days from Monday to Friday among 700 days, in any century."""
    days = pd.Series(np.datetime64(start, "s") + np.arange(700) * np.timedelta64(86_400, "s"))
    weekdays = pd.DataFrame({"born": days[days.dt.day_of_week < 5]})
    all_days = pd.DataFrame({"born": days})
    if as_text:
        weekdays, all_days = (frame.astype({"born": str}) for frame in (weekdays, all_days))
    result = compare_tables(weekdays, all_days, **QUIET)
    assert result.pvalue <= 0.01
    assert [marginal.feature.name for marginal in result["born"].marginals] == ["weekday"]


def test_tails_are_reported_only_if_the_interval_excludes_zero():
    """Seed 0: five values multiplied by 50, and in the other table thirty or five."""
    rng = np.random.default_rng(0)
    before, after = rng.lognormal(size=(2, 600))
    before[:5] *= 50.0
    for count, reported in ((30, True), (5, False)):
        values = np.where(np.arange(600) < count, 50.0 * after, after)
        result = compare_tables(
            pd.DataFrame({"x": before}), pd.DataFrame({"x": values}), names=("a", "b"), **QUIET
        )
        assert result["x"].effect.shares
        assert ("above " in result.to_markdown()) == reported


@pytest.mark.parametrize(
    ("n_days", "sentence"),
    [(29, "proportion of Thursdays would change from 17.2% to 14.3%."), (28, "")],
)
def test_calendar_differences_of_weekdays_are_noted(n_days, sentence):
    """The first dates begin on a Thursday; four weeks follow."""
    first = pd.DataFrame({"when": pd.date_range("2025-05-01", periods=n_days)})
    second = pd.DataFrame({"when": pd.date_range("2025-06-10", periods=28)})
    (note,) = (x for x in compare_tables(first, second, **QUIET).notes if "'when' are from" in x)
    assert note.endswith(sentence)
    assert ("By the calendar alone" in note) == bool(sentence)


@pytest.mark.parametrize(("gap", "noted"), [(0, False), (7, False), (42, True), (140, True)])
def test_disjoint_date_ranges_are_noted(gap, noted):
    """Forty days in each, of which 33 or none at all lie among the other's 40."""
    first = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=40)})
    second = pd.DataFrame({"when": first.when + pd.Timedelta(gap, "D")})
    result = compare_tables(first, second, names=("old", "new"), **QUIET)
    assert result.pvalue == 1.0
    notes = [note for note in result.notes if "'when' are from" in note]
    assert len(notes) == noted
    if noted:
        assert "'when' are from 2024-01-01 to 2024-02-09 in old and from 2024-0" in notes[0]
    sentence = (
        "No difference between old and new was found (p = 1); the dates themselves were not "
        "compared, only weekdays and hours."
    )
    assert result.to_dict()["sentence"] == sentence


def test_a_shuffle_does_not_change_the_result_with_weights():
    rng = np.random.default_rng(4)
    frame = table(rng, 80).assign(w=rng.uniform(0.1, 3.0, size=80))
    original = compare_tables(frame[:40], frame[40:], weights="w", **QUIET)
    order = rng.permutation(40)
    shuffled = compare_tables(frame[:40].iloc[order], frame[40:], weights="w", **QUIET)
    assert original.pvalue == shuffled.pvalue


@pytest.fixture(scope="module")
def monthly():
    rng = np.random.default_rng(3)
    month = np.repeat([2, 10, 1], [80, 90, 100])
    x = rng.normal(size=270) + 1.5 * (month == 10)
    return pd.DataFrame({"month": month, "x": x, "c": rng.choice(["a", "b"], size=270)})


def test_groups_are_compared_with_the_first_the_rest_or_a_named_group(monthly):
    result = compare_groups(monthly, "month", **QUIET)
    assert [comparison.names for comparison in result.comparisons] == [
        ("month 1", "month 2"),
        ("month 1", "month 10"),
    ]
    assert [comparison.reject for comparison in result.comparisons] == [False, True]
    assert all(comparison.alpha == 0.025 for comparison in result.comparisons)
    twin = compare_tables(
        *(monthly[monthly["month"] == value].drop(columns="month") for value in (1, 10)),
        alpha=0.025,
        **QUIET,
    )
    assert result.comparisons[1].pvalue == twin.pvalue
    assert [column.pvalue for column in result.comparisons[1].columns] == [
        column.pvalue for column in twin.columns
    ]
    assert str(result).startswith("1 of 2 comparisons of groups of month find a difference")
    json.dumps(result.to_dict(), allow_nan=False)
    rest = compare_groups(monthly, "month", rest=True, **QUIET)
    assert [comparison.sizes for comparison in rest.comparisons] == [
        (170, 100),
        (190, 80),
        (180, 90),
    ]
    assert rest.comparisons[2].reject
    assert "month 10 has a higher density" in rest.to_html()
    named = compare_groups(monthly, "month", against="10", **QUIET)
    assert [comparison.names[1] for comparison in named.comparisons] == ["month 1", "month 2"]
    assert all(comparison.reject for comparison in named.comparisons)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([86400000000, 9, 100], ["9", "100", "86400000000"]),
        ([2**53, 2**53 + 1], ["9007199254740992", "9007199254740993"]),
        (["86400000000", "9"], ["9", "86400000000"]),
        (["007", "7"], ["007", "7"]),
        (pd.to_timedelta([10, 9], unit="D").as_unit("us"), ["777600 s", "864000 s"]),
        (pd.to_timedelta([10, 9], unit="D").as_unit("ns"), ["777600 s", "864000 s"]),
        (pd.to_timedelta([1500, 500], unit="ms"), ["0.5 s", "1.5 s"]),
        ([0.0, -1.0, -0.0], ["-1", "0"]),
        (np.array([0.1, -0.0, 0.0], dtype=np.float32), ["0", "0.1"]),
        ([True, False], ["false", "true"]),
    ],
)
def test_groups_are_named_by_their_values(monthly, values, names):
    monthly = monthly[["x"]].assign(g=pd.Index(values).take(np.arange(270) % len(values)))
    result = compare_groups(monthly, "g", **QUIET)
    assert [comparison.names[1] for comparison in result.comparisons] == [
        f"g {name}" for name in names[1:]
    ]
    assert (
        sum(sum(comparison.sizes) for comparison in result.comparisons[:1]) == 270
        or len(names) == 3
    )
    chosen = compare_groups(monthly, "g", against=pd.Index(values)[0], **QUIET)
    assert chosen.comparisons[0].names[0] in [f"g {name}" for name in names]
    if len(names) == 2:
        assert compare_tables(monthly, by="g", **QUIET).pvalue == result.comparisons[0].pvalue


def test_values_that_cannot_name_groups_are_refused(monthly):
    intervals = pa.array([(index % 2, 2, 3) for index in range(270)], pa.month_day_nano_interval())
    odd = pa.table({"x": monthly["x"], "g": intervals})
    for function in (compare_groups, lambda table, by, **_: compare_tables(table, by=by)):
        with pytest.raises(
            InputError, match="'g' holds values of type month_day_nano_interval, wh"
        ):
            function(odd, "g")
        missing = monthly.assign(g=np.where(monthly["c"] == "a", "NA", "SE"))
        with pytest.raises(
            InputError, match=r"1 value \(\d+ rows without a value of 'g' left out\)"
        ):
            function(missing, "g")


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        ("week", {}, "no column 'week'"),
        ("month", {"against": "3"}, "'month' has no value '3': it has '1', '2', '10'"),
        ("month", {"against": "1", "rest": True}, "or each with the rest"),
        ("x", {}, "'x' has 270 values"),
    ],
)
def test_groups_that_do_not_exist_are_refused(monthly, by, options, message):
    with pytest.raises(InputError, match=message):
        compare_groups(monthly, by, **options, **QUIET)


def test_groups_of_a_file_are_in_the_order_of_their_numbers(monthly, tmp_path):
    path = tmp_path / "all.csv"
    monthly.to_csv(path, index=False)
    result = compare_groups(path, "month", **QUIET)
    assert [comparison.names[1] for comparison in result.comparisons] == ["month 2", "month 10"]


def test_a_note_names_its_groups(monthly):
    """Values far from all others, which look like codes, are in a single group."""
    odd = monthly.assign(x=monthly["x"] + 100.0, month=monthly["month"].astype("Int64"))
    odd.loc[odd["month"].eq(2) & (np.arange(270) % 8 == 0), "x"] = -999.0
    odd.loc[0, "month"] = None
    result = compare_groups(odd, "month", na_values=["n/k"], **QUIET)
    of_all, nowhere, of_pair = result.notes
    assert of_all == "1 row without a value of 'month' left out."
    assert nowhere == "No cell is n/k, as --na-value says."
    assert of_pair.startswith("month 1 and month 2: 'x' is -999")
    assert result.to_dict()["notes"] == list(result.notes)
    for page in (result.to_html(), result.to_markdown().replace("\\", "")):
        assert of_all.replace("'", "&#39;") in page or of_all in page


def test_the_page_of_two_groups_shows_the_notes_on_their_table():
    table = pd.DataFrame({"group": ["a", "b"] * 60, "value": np.arange(120.0)})
    result = compare_groups(table, "group", na_values=["?"], **QUIET)
    assert result.read
    assert all(html.escape(note, quote=False) in result.to_html() for note in result.read)


def test_a_very_small_reference_group_is_noted():
    rng = np.random.default_rng(0)
    monthly = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 60 + ["c"] * 60, "x": rng.normal(size=125)})
    note = "All groups are compared with g a, which has 5 rows"
    assert note in str(compare_groups(monthly, "g", **QUIET))
    for options in ({"against": "b"}, {"rest": True}):
        assert "All are compared" not in str(compare_groups(monthly, "g", **options, **QUIET))


WIDE = ((1.2, 5.0), (6.7, 9.6))


@pytest.mark.parametrize(
    ("kind", "scale", "intervals", "description"),
    [
        # The most significant point of a wide region is reported.
        ("number", 0.5, WIDE, "from 1.2 to 5 and from 6.7 to 9.6, most significant at 4.25"),
        ("number", 2.1, WIDE, "from 1.2 to 5 and from 6.7 to 9.6"),
        ("integer", 0.5, WIDE, "from 2 to 5 and from 7 to 9, most significant at 4"),
        ("integer", 0.5, ((3.6, 4.4),), "at 4"),
        ("integer", 0.5, ((4.1, 4.4),), "around 4"),
        ("integer", 0.5, (), "around 4"),
        (
            "integer",
            0.5,
            ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0)),
            "from 0 to 1 and from 2 to 3 and from 4 to 5, ..., most significant at 4",
        ),
    ],
)
def test_regions_are_described_by_their_intervals(kind, scale, intervals, description):
    region = Region(np.array([4.25]), np.array([scale]), -1, 0.5, (0.2, 0.9), 0.01, intervals)
    marginal = SimpleNamespace(n_resamples=999)
    column = SimpleNamespace(kind=kind, names=("p", "q"), marginals=(marginal,))
    smoothed = "density smoothed over integers; " * (kind == "integer")
    size = f"2.00 times ({smoothed}simultaneous interval 1.11 to 5.00; p = 0.01)"
    assert format_region(region, column) == f"q has a higher density {description}, {size}"


def test_data_frames_have_dates_levels_and_attributes_of_the_comparison():
    rng = np.random.default_rng(2)
    first, second = (
        pd.DataFrame(
            {
                "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(start + np.arange(60), "D"),
                "plan": rng.choice(["a", "b"], 60, p=[proportion, 1.0 - proportion]),
                "x": rng.normal(start, 1.0, 60),
            }
        )
        for start, proportion in ((0, 0.8), (2, 0.3))
    )
    result = compare_tables(first, second, names=("old", "new"), n_resamples=99, progress=False)
    frame = result.to_dataframe().set_index("name")
    # The median of 60 days is between the 30th and the 31st.
    assert frame.loc["day", "date_median_before"] == pd.Timestamp("2024-03-30 12:00")
    assert frame.loc["day", "date_median_after"] == pd.Timestamp("2024-04-01 12:00")
    assert frame["date_median_before"].isna()[["plan", "x"]].all()
    assert frame["median_before"].isna()[["plan", "day"]].all()
    assert frame.loc["x", "median_before"] == pytest.approx(first["x"].median())
    difference = second["x"].mean() - first["x"].mean()
    assert frame.loc["x", "mean_difference"] == pytest.approx(difference)
    low, high = frame.loc["x", ["mean_difference_low", "mean_difference_high"]]
    assert low < difference < high
    levels = result.levels_to_dataframe().query("column == 'plan'").set_index("level")
    for table, when in ((first, "before"), (second, "after")):
        proportions = table["plan"].value_counts(normalize=True)
        assert levels[when].to_dict() == pytest.approx(proportions.to_dict())
    for exported in (
        result.to_dataframe(),
        result.levels_to_dataframe(),
        result.pairs_to_dataframe(),
    ):
        assert exported.attrs["names"] == ("old", "new")
        assert (exported.attrs["pvalue"], exported.attrs["alpha"]) == (result.pvalue, result.alpha)


def test_rounding_errors_of_associations_do_not_decide():
    """Two rare values in different rows, equal in both tables: p is 1."""
    rare = pd.DataFrame({"flag": [False] * 23 + [True], "day": pd.Timestamp("2000-01-01")})
    rare.loc[0, "day"] = pd.Timestamp("1982-07-07")
    result = compare_tables(rare, rare, n_resamples=39, progress=False)
    assert result.pvalue == 1.0
    assert [column.pvalue for column in result.columns] == [1.0, 1.0]


@pytest.mark.parametrize("role", ["clusters", "strata", "freq_weights", "weights"])
def test_a_column_with_a_role_may_be_excluded_too(role):
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame({"x": rng.normal(size=30), "g": rng.integers(1, 15, size=30)})
        for _ in range(2)
    ]
    options = {"n_resamples": 99, "progress": False, role: "g"}
    excluded, plain = (compare_tables(*tables, exclude=names, **options) for names in (["g"], []))
    assert excluded.pvalue == plain.pvalue
    assert excluded.left_out == plain.left_out


def test_regions_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(5)
    for seed in range(5):
        tables = [
            pd.DataFrame({"x": rng.gamma(2.0, scale, size=70).round(2)}) for scale in (1.0, 1.9)
        ]
        shuffled = [table.sample(frac=1.0, random_state=seed) for table in tables]
        original, reordered = (
            compare_tables(*both, n_resamples=199, progress=False)["x"].regions
            for both in (tables, shuffled)
        )
        assert [region.to_dict() for region in original] == [
            region.to_dict() for region in reordered
        ]


@pytest.mark.parametrize("missing", [None, np.nan])
def test_rows_without_a_cluster_are_refused(missing):
    rng = np.random.default_rng(0)
    before = pd.DataFrame({"user": [*"aabbccdd"], "x": rng.normal(size=8)})
    after = before.assign(user=[*"eeffg", missing, missing, "h"])
    with pytest.raises(InputError, match="'user' of the clusters is missing in 2 rows: give each"):
        compare_tables(before, after, clusters="user", **QUIET)


def test_clusters_in_several_strata_are_refused():
    """Their parts would be permuted separately, and the level would be far above the nominal one.

    Clusters within strata, and the same rows with strata alone, are compared.
    """
    rng = np.random.default_rng(11)
    user, day = np.repeat(np.arange(12), 6), np.tile(np.arange(6), 12)
    rows = pd.DataFrame(
        {"a": rng.normal(size=72), "user": user.astype(str), "day": day.astype(str)}
    )
    rows["team"] = (user % 3).astype(str)
    before, after = rows[user < 6], rows[user >= 6]
    with pytest.raises(InputError, match="12 clusters of 'user' have rows in several strata"):
        compare_tables(before, after, clusters="user", strata="day", **QUIET)
    for roles in ({"clusters": "user", "strata": "team"}, {"strata": "day"}):
        options = {"n_resamples": 99, **QUIET, **roles}
        assert 0.0 < compare_tables(before, after, **options).pvalue <= 1.0


def test_pairs_of_many_columns_are_not_compared(monkeypatch):
    """A note says so; columns and joint rows are compared as before."""
    rng = np.random.default_rng(0)
    first, second = (
        {f"c{i}": rng.normal(2.0 * (i == 1) * shift, 1.0, 40) for i in range(3)} for shift in (0, 1)
    )
    every = compare_tables(first, second, **QUIET)
    monkeypatch.setattr("bke.inference.tables.compare_tables.MAX_PAIRED_COLUMNS", 2)
    result = compare_tables(first, second, **QUIET)
    assert len(every.pairs) == 3
    assert result.pairs == ()
    assert any("not compared with more than 2 columns, of 3" in note for note in result.notes)
    assert [column.name for column in result.changed_columns()] == ["c1"]
    assert [c.pvalue for c in result.columns] == [c.pvalue for c in every.columns]
