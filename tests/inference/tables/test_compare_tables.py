"""Two tables compared: what has changed is named, and what two draws have in common is not."""

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
    made = {
        "x": x,
        "y": 0.6 * x + 0.8 * rng.normal(size=n),
        "k": rng.poisson(3.0, n),
        "c": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n).astype(object),
        "when": pd.Timestamp("2024-01-01") + hours,
    }
    return pd.DataFrame(
        {**made, **{name: change(rng, n, made) for name, change in changed.items()}}
    )


CHANGES = {
    "shift": ("x", lambda rng, n, made: rng.normal(0.5, 1.0, size=n)),
    "share": ("c", lambda rng, n, made: rng.choice(["a", "b", "c"], p=[0.4, 0.3, 0.3], size=n)),
    "new level": ("c", lambda rng, n, made: np.where(rng.uniform(size=n) < 0.05, "new", made["c"])),
    "missing": ("k", lambda rng, n, made: np.where(rng.uniform(size=n) < 0.1, np.nan, made["k"])),
    "weekday": (
        "when",
        lambda rng, n, made: made["when"] - pd.to_timedelta(
            (made["when"].day_of_week == 6) * 1, unit="D"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_column_that_has_changed_is_named_alone(what):
    name, change = CHANGES[what]
    rng = np.random.default_rng(11)
    found = compare_tables(table(rng, 500), table(rng, 500, **{name: change}), **QUIET)
    assert found.reject
    assert [column.name for column in found.columns if column.reject] == [name]
    assert str(found).splitlines()[1].strip().startswith(f"{name} (")


def test_a_correlation_that_flips_is_a_pair_and_no_column():
    rng = np.random.default_rng(2)
    flipped = table(rng, y=lambda rng, n, made: -0.6 * made["x"] + 0.8 * rng.normal(size=n))
    found = compare_tables(table(rng), flipped, **QUIET)
    assert not any(column.reject for column in found.columns)
    (pair,) = (pair for pair in found.pairs if pair.reject)
    assert pair.columns == ("x", "y")
    was, now = pair.strengths
    assert was > 0.4
    assert now < -0.4


@pytest.mark.slow
def test_tables_of_one_distribution_are_told_apart_as_often_as_is_said():
    """60 pairs of tables with ties, holes and heavy tails; above 8 with probability 0.003."""
    rejected = named = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tables = []
        for n in (30, 45):
            z = rng.standard_t(2, size=n)
            z[rng.uniform(size=n) < 0.2] = np.nan
            words = rng.choice(["a", "b", "c", "d"], size=n, p=[0.7, 0.2, 0.08, 0.02])
            tables.append(pd.DataFrame({"z": z, "k": rng.poisson(1.0, n), "c": words}))
        found = compare_tables(*tables, n_resamples=59, progress=False)
        rejected += found.reject
        named += any(one.reject for one in (*found.columns, *found.pairs))
        assert found.reject or not any(one.reject for one in (*found.columns, *found.pairs))
    assert rejected <= 8
    assert named <= rejected


def test_one_column_of_numbers_is_compared_as_compare_does():
    """The same statistic by other permutations: p-values differ by their Monte Carlo error."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=120), rng.normal(0.2, 1.0, size=150)
    one = compare_tables({"x": P}, {"x": Q}, n_resamples=999, progress=False)
    other = compare(P, Q, n_resamples=999, progress=False)
    error = (2.0 * other.pvalue * (1.0 - other.pvalue) / 999) ** 0.5
    assert abs(one.pvalue - other.pvalue) < 4.0 * error
    assert one["x"].pvalue == one.pvalue


def test_no_order_of_rows_columns_or_tables_matters_nor_whose_frame_it_is():
    rng = np.random.default_rng(4)
    before, after = table(rng, 80), table(rng, 90)
    one = compare_tables(before, after, **QUIET)
    shuffled = before.sample(frac=1.0, random_state=0)[["c", "y", "when", "x", "k"]]
    other = compare_tables(shuffled, pa.Table.from_pandas(after), **QUIET)
    turned = compare_tables(after, before, **QUIET)
    assert one.pvalue == other.pvalue == turned.pvalue
    for column in one.columns:
        assert column.pvalue == other[column.name].pvalue == turned[column.name].pvalue
    assert [pair.pvalue for pair in one.pairs] == [pair.pvalue for pair in turned.pairs]
    assert one["x"].effect.shift == pytest.approx(-turned["x"].effect.shift)


def test_residuals_are_those_of_a_table_of_counts():
    """With chi^2 of the table times (n - 1) / n as the sum of squares times 1 - n_a / n."""
    labels = np.array([[10, 12], [5, 3], [5, 5]])
    counts = np.array([16, 14, 10])
    found = standardized_residuals(counts, labels, 40, labels.sum(axis=0))
    for b in range(2):
        observed = np.stack([labels[:, b], counts - labels[:, b]])
        expected = observed.sum(axis=1, keepdims=True) * observed.sum(axis=0) / observed.sum()
        chi = np.sum((observed - expected) ** 2 / expected)
        np.testing.assert_allclose(np.sum(found[:, b] ** 2 * (1 - counts / 40)), chi * 39 / 40)
    assert found[0, 0] > 0.0


def test_json_and_words_tell_the_same():
    rng = np.random.default_rng(1)
    found = compare_tables(table(rng), table(rng, x=CHANGES["shift"][1]), **QUIET)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["schema"] == 2
    assert told["reject"] == found.reject == (told["pvalue"] <= 0.05)
    assert [one["name"] for one in told["columns"]] == ["x", "y", "k", "c", "when"]
    (named,) = (one for one in told["columns"] if one["reject"])
    assert named["effect"]["shift"] == pytest.approx(0.5, abs=0.3)
    assert named["effect"]["auc"] > 0.55
    assert all(region["sign"] in (-1, 1) for region in named["regions"])
    assert told["sentence"] == str(found).splitlines()[0]


def test_a_column_divides_one_table():
    rng = np.random.default_rng(7)
    whole = pd.concat([table(rng, 100).assign(month="may"), table(rng, 120).assign(month="june")])
    found = compare_tables(whole, by="month", **QUIET)
    assert found.names == ("month june", "month may")
    assert found.sizes == (120, 100)
    more = pd.concat([whole, whole[:3].assign(month="unknown")])
    notes = compare_tables(more, by="month", na_values=["unknown"], **QUIET).notes
    assert notes[0] == "3 rows without a value of 'month' left out."
    assert "month" not in [column.name for column in found.columns]


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
def test_tables_that_make_no_sense(before, after, options, message):
    with pytest.raises(InputError, match=message):
        compare_tables(before, after, progress=False, **options)


def test_codes_and_identifiers_are_left_in_or_out_as_asked():
    rng = np.random.default_rng(8)

    def made(n, start):
        x = np.round(rng.normal(50.0, 10.0, size=n), 1)
        x[::20] = -999.0
        return pd.DataFrame({"x": x, "id": [f"{start}{index:05d}" for index in range(n)]})

    tables = made(100, "A"), made(120, "B")
    found = compare_tables(*tables, **QUIET)
    assert "'x' is -999 in 5.0% of the rows" in found.notes[0]
    assert "--na-value=-999 (na_values=) or --sentinels missing" in found.notes[0]
    assert found["x"].effect.missing == (0.0, 0.0)
    assert [name for name, _ in found.left_out] == ["id"]
    found = compare_tables(*tables, sentinels="missing", identifiers=True, **QUIET)
    assert "read as missing" in found.notes[0]
    assert found["x"].effect.missing == (0.05, 0.05)
    assert found["id"].reject
    assert "with 'a00" in str(found["id"]) or "with 'b00" in str(found["id"])
    twin = compare_tables(*tables, na_values=["-999"], identifiers=True, **QUIET)
    assert twin.pvalue == found.pvalue


def test_small_tables_without_holes_are_compared():
    """All of five values far from all of a hundred: no relabelling empties a table."""
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=5), rng.normal(size=100) + 100.0
    found = compare_tables({"x": before}, {"x": after}, **QUIET)
    assert found["x"].reject
    assert found["x"].pvalue == 0.005


def test_tables_that_weights_may_empty_are_compared():
    rng = np.random.default_rng(1)
    w = np.r_[np.ones(4), np.zeros(16)]
    tables = [
        pd.DataFrame({"x": rng.normal(size=20) + s, "y": rng.normal(size=20) + s, "w": w})
        for s in (0.0, 50.0)
    ]
    assert compare_tables(*tables, weights="w", n_resamples=999, progress=False).reject


def test_no_correlation_is_no_change_of_one():
    rng = np.random.default_rng(2)
    before = table(rng, 100)
    after = table(rng, 100)
    after["x"] = 1.0
    found = compare_tables(before, after, **QUIET)
    assert found["x"].reject
    assert not any(pair.reject for pair in found.pairs if "x" in pair.columns)


def test_long_whole_numbers_are_not_merged():
    start = 1234567890123456789
    users = np.repeat(np.arange(60), 3)
    x = np.random.default_rng(3).normal(size=180) + (users >= 30)

    def halves(ids):
        frame = pd.DataFrame({"x": x, "user": ids})
        return frame[:90], frame[90:]

    found = compare_tables(*halves(start + users), clusters="user", **QUIET)
    twin = compare_tables(*halves([f"u{one:02d}" for one in users]), clusters="user", **QUIET)
    assert found.pvalue == twin.pvalue
    told = (
        "clusters are the values of 'user', and effects have no intervals, which assume "
        "independent rows"
    )
    assert found.design == (told,)
    assert found["x"].effect.auc_interval is None


def test_dates_of_several_kinds_go_together():
    days = pd.date_range("2024-01-01", periods=40, freq="7h")
    before = pa.table({"when": pa.array(days.to_numpy().astype("datetime64[s]"))})
    after = pa.table({"when": pa.array(days + pd.Timedelta(1, "ns"))})
    found = compare_tables(before, after, **QUIET)
    assert found["when"].kind == "datetime"
    assert found.pvalue == 1.0


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("start", ["1603-06-01", "1895-06-03", "1961-01-02", "2021-06-07"])
def test_births_on_weekdays_are_not_births_on_all_days(start, as_text):
    """Of 700 days those from Monday to Friday, whatever the century."""
    days = pd.Series(np.datetime64(start, "s") + np.arange(700) * np.timedelta64(86_400, "s"))
    some = pd.DataFrame({"born": days[days.dt.day_of_week < 5]})
    every = pd.DataFrame({"born": days})
    if as_text:
        some, every = (frame.astype({"born": str}) for frame in (some, every))
    found = compare_tables(some, every, **QUIET)
    assert found.pvalue <= 0.01
    assert [one.feature.name for one in found["born"].marginals] == ["weekday"]


@pytest.mark.parametrize(("gap", "told"), [(0, False), (7, False), (42, True), (140, True)])
def test_dates_that_lie_apart_are_told(gap, told):
    """Forty days in each, of which 33 or none at all lie among the other's 40."""
    first = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=40)})
    second = pd.DataFrame({"when": first.when + pd.Timedelta(gap, "D")})
    found = compare_tables(first, second, names=("old", "new"), **QUIET)
    assert found.pvalue == 1.0
    notes = [note for note in found.notes if "but not the dates themselves" in note]
    assert len(notes) == told
    if told:
        assert "'when' are from 2024-01-01 to 2024-02-09 in old and from 2024-0" in notes[0]


def test_a_shuffle_changes_nothing_with_weights():
    rng = np.random.default_rng(4)
    frame = table(rng, 80).assign(w=rng.uniform(0.1, 3.0, size=80))
    one = compare_tables(frame[:40], frame[40:], weights="w", **QUIET)
    order = rng.permutation(40)
    other = compare_tables(frame[:40].iloc[order], frame[40:], weights="w", **QUIET)
    assert one.pvalue == other.pvalue


@pytest.fixture(scope="module")
def monthly():
    rng = np.random.default_rng(3)
    month = np.repeat([2, 10, 1], [80, 90, 100])
    x = rng.normal(size=270) + 1.5 * (month == 10)
    return pd.DataFrame({"month": month, "x": x, "c": rng.choice(["a", "b"], size=270)})


def test_each_group_is_compared_with_the_first_the_rest_or_one_that_is_named(monthly):
    found = compare_groups(monthly, "month", **QUIET)
    assert [one.names for one in found.comparisons] == [
        ("month 1", "month 2"),
        ("month 1", "month 10"),
    ]
    assert [one.reject for one in found.comparisons] == [False, True]
    assert all(one.alpha == 0.025 for one in found.comparisons)
    twin = compare_tables(
        *(monthly[monthly["month"] == value].drop(columns="month") for value in (1, 10)),
        alpha=0.025,
        **QUIET,
    )
    assert found.comparisons[1].pvalue == twin.pvalue
    assert [one.pvalue for one in found.comparisons[1].columns] == [
        one.pvalue for one in twin.columns
    ]
    assert str(found).startswith("1 of 2 comparisons of groups of month find a difference")
    json.dumps(found.to_dict(), allow_nan=False)
    rest = compare_groups(monthly, "month", rest=True, **QUIET)
    assert [one.sizes for one in rest.comparisons] == [(170, 100), (190, 80), (180, 90)]
    assert rest.comparisons[2].reject
    assert "month 10 has a higher density" in rest.to_html()
    named = compare_groups(monthly, "month", against="10", **QUIET)
    assert [one.names[1] for one in named.comparisons] == ["month 1", "month 2"]
    assert all(one.reject for one in named.comparisons)


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
    found = compare_groups(monthly, "g", **QUIET)
    assert [one.names[1] for one in found.comparisons] == [f"g {name}" for name in names[1:]]
    assert sum(sum(one.sizes) for one in found.comparisons[:1]) == 270 or len(names) == 3
    chosen = compare_groups(monthly, "g", against=pd.Index(values)[0], **QUIET)
    assert chosen.comparisons[0].names[0] in [f"g {name}" for name in names]
    if len(names) == 2:
        assert compare_tables(monthly, by="g", **QUIET).pvalue == found.comparisons[0].pvalue


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
def test_groups_that_are_not_there_are_refused(monthly, by, options, message):
    with pytest.raises(InputError, match=message):
        compare_groups(monthly, by, **options, **QUIET)


def test_groups_of_a_file_are_in_the_order_of_their_numbers(monthly, tmp_path):
    path = tmp_path / "all.csv"
    monthly.to_csv(path, index=False)
    found = compare_groups(path, "month", **QUIET)
    assert [one.names[1] for one in found.comparisons] == ["month 2", "month 10"]


def test_a_note_says_of_which_groups_it_is(monthly):
    """Zeros far from all others, which look like codes, are in one group alone."""
    odd = monthly.assign(x=monthly["x"] + 100.0, month=monthly["month"].astype("Int64"))
    odd.loc[odd["month"].eq(2) & (np.arange(270) % 8 == 0), "x"] = -999.0
    odd.loc[0, "month"] = None
    found = compare_groups(odd, "month", na_values=["n/k"], **QUIET)
    of_all, nowhere, of_one = found.notes
    assert of_all == "1 row without a value of 'month' left out."
    assert nowhere == "No cell is n/k, as --na-value says."
    assert of_one.startswith("month 1 and month 2: 'x' is -999")
    assert found.to_dict()["notes"] == list(found.notes)
    for told in (found.to_html(), found.to_markdown().replace("\\", "")):
        assert of_all.replace("'", "&#39;") in told or of_all in told


def test_the_page_of_two_groups_shows_the_notes_on_their_table():
    table = pd.DataFrame({"group": ["a", "b"] * 60, "value": np.arange(120.0)})
    found = compare_groups(table, "group", na_values=["?"], **QUIET)
    assert found.read
    assert all(html.escape(note, quote=False) in found.to_html() for note in found.read)


def test_a_group_of_hardly_any_rows_that_all_are_compared_with_is_told():
    rng = np.random.default_rng(0)
    monthly = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 60 + ["c"] * 60, "x": rng.normal(size=125)})
    told = "All groups are compared with g a, which has 5 rows"
    assert told in str(compare_groups(monthly, "g", **QUIET))
    for options in ({"against": "b"}, {"rest": True}):
        assert "All are compared" not in str(compare_groups(monthly, "g", **options, **QUIET))


WIDE = ((1.2, 5.0), (6.7, 9.6))


@pytest.mark.parametrize(
    ("kind", "scale", "intervals", "told"),
    [
        # Within a wide region it is told where it is clearest.
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
def test_regions_are_described_by_their_intervals(kind, scale, intervals, told):
    region = Region(np.array([4.25]), np.array([scale]), -1, 0.5, (0.2, 0.9), 0.01, intervals)
    marginal = SimpleNamespace(n_resamples=999)
    column = SimpleNamespace(kind=kind, names=("p", "q"), marginals=(marginal,))
    size = "2.00 times (simultaneous interval 1.11 to 5.00; p = 0.01)"
    assert format_region(region, column) == f"q has a higher density {told}, {size}"


def test_data_frames_have_dates_levels_and_what_belongs_to_the_comparison():
    rng = np.random.default_rng(2)
    first, second = (
        pd.DataFrame(
            {
                "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(start + np.arange(60), "D"),
                "plan": rng.choice(["a", "b"], 60, p=[share, 1.0 - share]),
                "x": rng.normal(start, 1.0, 60),
            }
        )
        for start, share in ((0, 0.8), (2, 0.3))
    )
    found = compare_tables(first, second, names=("old", "new"), n_resamples=99, progress=False)
    frame = found.to_dataframe().set_index("name")
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
    levels = found.levels_to_dataframe().query("column == 'plan'").set_index("level")
    for table, when in ((first, "before"), (second, "after")):
        shares = table["plan"].value_counts(normalize=True)
        assert levels[when].to_dict() == pytest.approx(shares.to_dict())
    for each in (found.to_dataframe(), found.levels_to_dataframe(), found.pairs_to_dataframe()):
        assert each.attrs["names"] == ("old", "new")
        assert (each.attrs["pvalue"], each.attrs["alpha"]) == (found.pvalue, found.alpha)


def test_rounding_errors_of_associations_do_not_decide():
    """Two rare values in different rows, in both tables alike: p is 1."""
    rare = pd.DataFrame({"flag": [False] * 23 + [True], "day": pd.Timestamp("2000-01-01")})
    rare.loc[0, "day"] = pd.Timestamp("1982-07-07")
    found = compare_tables(rare, rare, n_resamples=39, progress=False)
    assert found.pvalue == 1.0
    assert [column.pvalue for column in found.columns] == [1.0, 1.0]


@pytest.mark.parametrize("role", ["clusters", "strata", "freq_weights", "weights"])
def test_a_column_with_a_role_may_be_excluded_too(role):
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame({"x": rng.normal(size=30), "g": rng.integers(1, 15, size=30)})
        for _ in range(2)
    ]
    options = {"n_resamples": 99, "progress": False, role: "g"}
    excluded, plain = (compare_tables(*tables, exclude=some, **options) for some in (["g"], []))
    assert excluded.pvalue == plain.pvalue
    assert excluded.left_out == plain.left_out


def test_regions_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(5)
    for seed in range(5):
        tables = [
            pd.DataFrame({"x": rng.gamma(2.0, scale, size=70).round(2)}) for scale in (1.0, 1.9)
        ]
        shuffled = [table.sample(frac=1.0, random_state=seed) for table in tables]
        one, other = (
            compare_tables(*both, n_resamples=199, progress=False)["x"].regions
            for both in (tables, shuffled)
        )
        assert [region.to_dict() for region in one] == [region.to_dict() for region in other]
