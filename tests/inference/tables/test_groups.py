"""Groups of a table, each compared with one of them or with the rest."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import InputError, compare_groups, compare_tables
from bke.inference.comparison.named import Place
from bke.inference.tables.words import place_told

QUIET = {"permutations": 199, "progress": False}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    month = np.repeat([2, 10, 1], [80, 90, 100])
    x = rng.normal(size=270) + 1.5 * (month == 10)
    return pd.DataFrame({"month": month, "x": x, "c": rng.choice(["a", "b"], size=270)})


def test_each_group_is_compared_with_the_first(table):
    found = compare_groups(table, "month", **QUIET)
    assert [one.names for one in found.comparisons] == [
        ("month 1", "month 2"),
        ("month 1", "month 10"),
    ]
    assert [one.differ for one in found.comparisons] == [False, True]
    assert all(one.alpha == 0.025 for one in found.comparisons)
    twin = compare_tables(
        *(table[table["month"] == value].drop(columns="month") for value in (1, 10)),
        alpha=0.025,
        **QUIET,
    )
    assert found.comparisons[1].pvalue == twin.pvalue
    assert [one.pvalue for one in found.comparisons[1].columns] == [
        one.pvalue for one in twin.columns
    ]
    assert str(found).startswith("1 of 2 comparisons of groups of month find a difference")
    json.dumps(found.to_dict(), allow_nan=False)


def test_each_group_is_compared_with_the_rest(table):
    found = compare_groups(table, "month", rest=True, **QUIET)
    assert [one.sizes for one in found.comparisons] == [(170, 100), (190, 80), (180, 90)]
    assert found.comparisons[2].differ
    assert "month 10 has more" in found.to_html()


def test_each_group_is_compared_with_one_that_is_named(table):
    found = compare_groups(table, "month", against="10", **QUIET)
    assert [one.names[1] for one in found.comparisons] == ["month 1", "month 2"]
    assert all(one.differ for one in found.comparisons)


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
def test_groups_are_named_by_their_values(table, values, names):
    table = table[["x"]].assign(g=pd.Index(values).take(np.arange(270) % len(values)))
    found = compare_groups(table, "g", **QUIET)
    assert [one.names[1] for one in found.comparisons] == [f"g {name}" for name in names[1:]]
    assert sum(sum(one.sizes) for one in found.comparisons[:1]) == 270 or len(names) == 3
    chosen = compare_groups(table, "g", against=pd.Index(values)[0], **QUIET)
    assert chosen.comparisons[0].names[0] in [f"g {name}" for name in names]
    if len(names) == 2:
        assert compare_tables(table, by="g", **QUIET).pvalue == found.comparisons[0].pvalue


def test_values_that_cannot_name_groups_are_refused(table):
    intervals = pa.array([(index % 2, 2, 3) for index in range(270)], pa.month_day_nano_interval())
    odd = pa.table({"x": table["x"], "g": intervals})
    for compare in (compare_groups, lambda table, by, **options: compare_tables(table, by=by)):
        with pytest.raises(
            InputError, match="'g' holds values of type month_day_nano_interval, wh"
        ):
            compare(odd, "g")
        missing = table.assign(g=np.where(table["c"] == "a", "NA", "SE"))
        with pytest.raises(
            InputError, match=r"1 value \(\d+ rows without a value of 'g' left out\)"
        ):
            compare(missing, "g")


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        ("week", {}, "no column 'week'"),
        ("month", {"against": "3"}, "'month' has no value '3': it has '1', '2', '10'"),
        ("month", {"against": "1", "rest": True}, "or each with the rest"),
        ("x", {}, "'x' has 270 values"),
    ],
)
def test_groups_that_are_not_there_are_refused(table, by, options, message):
    with pytest.raises(InputError, match=message):
        compare_groups(table, by, **options, **QUIET)


def test_groups_of_a_file_are_in_the_order_of_their_numbers(table, tmp_path):
    path = tmp_path / "all.csv"
    table.to_csv(path, index=False)
    found = compare_groups(path, "month", **QUIET)
    assert [one.names[1] for one in found.comparisons] == ["month 2", "month 10"]


def test_a_note_says_of_which_groups_it_is(table):
    """Zeros far from all others, which look like codes, are in one group alone."""
    odd = table.assign(x=table["x"] + 100.0, month=table["month"].astype("Int64"))
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


def test_a_group_of_hardly_any_rows_that_all_are_compared_with_is_told():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 60 + ["c"] * 60, "x": rng.normal(size=125)})
    told = "All are compared with g a, which has 5 rows"
    assert told in str(compare_groups(table, "g", **QUIET))
    for options in ({"against": "b"}, {"rest": True}):
        assert "All are compared" not in str(compare_groups(table, "g", **options, **QUIET))


@pytest.mark.parametrize(
    ("kind", "scale", "told"),
    [
        ("number", 0.5, "q has more from 1.2 to 5 and from 6.7 to 9.6, most clearly around 4.25"),
        ("number", 2.1, "q has more from 1.2 to 5 and from 6.7 to 9.6"),
        ("integer", 0.5, "q has more from 2 to 5 and from 7 to 9, most clearly around 4"),
    ],
)
def test_within_a_wide_place_it_is_told_where_it_is_clearest(kind, scale, told):
    intervals = ((1.2, 5.0), (6.7, 9.6))
    place = Place(np.array([4.25]), np.array([scale]), -1, 0.5, (0.2, 0.9), 0.01, intervals)
    column = SimpleNamespace(kind=kind, names=("p", "q"))
    assert place_told(place, column) == told


@pytest.mark.parametrize(
    ("intervals", "told"),
    [
        (((3.6, 4.4),), "q has more at 4"),
        (((4.1, 4.4),), "q has more around 4"),
        ((), "q has more around 4"),
        (((0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0)), "q has more from 0 to 1 and from 2 to 3 "
         "and from 4 to 5, ..., most clearly around 4"),
    ],
)  # fmt: skip
def test_intervals_of_whole_numbers(intervals, told):
    place = Place(np.array([4.25]), np.array([0.5]), -1, 0.5, (0.2, 0.9), 0.01, intervals)
    assert place_told(place, SimpleNamespace(kind="integer", names=("p", "q"))) == told
