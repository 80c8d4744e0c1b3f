"""Inference of types of columns and formats of their entries, or refusal."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import InputError, compare_tables
from bke.inference.io.formats import AmbiguousError, parse_dates, parse_numbers, strip_strings
from bke.inference.io.tables import Table, as_table
from bke.inference.io.types import ColumnError, infer_type
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables

DAY = 86_400.0


def inferred(entries, rows=None, kind=None):
    array = pa.array(entries)
    array = strip_strings(array) if pa.types.is_string(array.type) else array
    return infer_type(
        "x", array, split_array(array, len(entries) // 2 if rows is None else rows), kind
    )


def split_array(array, rows):
    """Split an array into two tables."""
    return [Table(pa.table({"x": part}), source) for part, source in
            ((array[:rows], "one"), (array[rows:], "other"))]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([0.5, 1.5, None, 2.0], "number"),
        ([1, 2, 2, None], "integer"),
        (["1.5", " 2", "NA", "-3e2"], "number"),
        (["1", "2", "", "2"], "integer"),
        ([True, False, None], "boolean"),
        (["yes", "no", "Yes", "no"], "boolean"),
        (["yes", "no", "true", "no"], "category"),
        (["9:30", "17:05", "00:00:30"], "datetime"),
        (["yes", "no", "no", "no"], "boolean"),
        (["red", "blue", "red", None], "category"),
        (["2024-01-31", "2024-02-01", "null", "2024-03-01"], "datetime"),
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30Z"], "datetime"),
        (["31/01/2024", "01/02/2024"], "datetime"),
        ([f"A{i:03d}" for i in range(60)], "identifier"),
        (list(range(100, 160)), "identifier"),
        ([f"the number {i} is here" for i in range(60)], "text"),
    ],
)
def test_types_are_inferred_from_entries(entries, kind):
    assert inferred(entries).column.kind == kind


def test_values_are_those_of_the_entries():
    column = inferred(["1.5", "x ", "NA", "-3e2"], kind="category").column
    assert column.levels == ("-3e2", "1.5", "x")
    np.testing.assert_array_equal(column.values, [1.0, 2.0, np.nan, 0.0])
    column = inferred(["1.5", None, "-3e2", "+2"]).column
    np.testing.assert_array_equal(column.values, [1.5, np.nan, -300.0, 2.0])
    column = inferred(["1970-01-02", "1970-01-01T06:00", None, "1969-12-31"]).column
    np.testing.assert_array_equal(column.values, [DAY, 0.25 * DAY, np.nan, -DAY])
    column = inferred(pd.to_datetime(["1970-01-02", "1970-01-03"]).to_list()).column
    np.testing.assert_array_equal(column.values, [DAY, 2.0 * DAY])


@pytest.mark.parametrize(
    ("entries", "values", "words"),
    [
        (["1,5", "2,25", "3"], [1.5, 2.25, 3.0], "decimal commas"),
        (["12.5%", "3 %"], [12.5, 3.0], "per cent signs"),
        (["12,5%", "3 %"], [12.5, 3.0], "per cent signs and decimal commas"),
        (["$12.50", "$3"], [12.5, 3.0], "signs of a currency"),
        (
            ["$1,234,567", "$3"],
            [1234567.0, 3.0],
            "signs of a currency and commas between thousands",
        ),
        (["€ 12,5", "€3"], [12.5, 3.0], "signs of a currency and decimal commas"),
        (["1,234.5", "12"], [1234.5, 12.0], "commas between thousands"),
        (["1,234,567", "12"], [1234567.0, 12.0], "commas between thousands"),
        (["1.234,5", "12"], [1234.5, 12.0], "points between thousands and decimal commas"),
        (["1 234", "12.5"], [1234.0, 12.5], "blanks or apostrophes between thousands"),
        (["1.5", "+2", ".5"], [1.5, 2.0, 0.5], ""),
    ],
)
def test_numbers_in_other_formats_are_read_with_a_note(entries, values, words):
    parsed = parse_numbers(pa.array(entries))
    np.testing.assert_array_equal(parsed.values, values)
    assert parsed.format == words
    notes = inferred([*entries, *entries]).notes
    assert (f"numbers with {words}" in "".join(notes)) == bool(words)


def test_ambiguous_text_is_refused():
    with pytest.raises(AmbiguousError):
        parse_numbers(pa.array(["1,234", "5"]))
    with pytest.raises(AmbiguousError):
        parse_dates(pa.array(["01/02/2024", "03/04/2024"]))
    assert parse_numbers(pa.array(["1,234", "x"])) is None
    with pytest.raises(ColumnError, match="'1,234' that may be written with decimal commas or"):
        inferred(["1,234", "1,234"])
    assert inferred(["1,234", "1,234"], kind="category").column.levels == ("1,234",)


@pytest.mark.parametrize(
    ("entries", "kind", "message"),
    [
        ([*map(str, range(60)), "error"], None, "has numbers but 'error' in row 31 of other"),
        ([1.0, float("inf")], None, "an infinite value in row 1 of other"),
        ([[1], [2]], None, "holds list"),
        (["a", "b"], "number", "has 'a' in row 1 of one, not number"),
        ([1.5, 2.5], "integer", "not whole"),
        ([1.5, 2.5], "datetime", "holds numbers, not datetime"),
    ],
)
def test_columns_without_a_type_are_refused(entries, kind, message):
    with pytest.raises(ColumnError, match=message):
        inferred(entries, kind=kind)


@pytest.mark.parametrize(
    "entries",
    [
        [2**53, 2**53 + 1],
        ["9007199254740992", "9007199254740993"],
        ["9,007,199,254,740,992", "9,007,199,254,740,993"],
        ["9007199254740992", "-9007199254740993"],
        [Decimal(2**53), Decimal(2**53 + 1), Decimal(0)],
    ],
)
def test_whole_numbers_beyond_double_precision_are_no_numbers(entries):
    with pytest.raises(ColumnError, match=r"whole numbers beyond 2\^53"):
        inferred(entries, kind="number")
    assert len(inferred(entries, kind="category").column.levels) == len(entries)


def test_numbers_beyond_two_to_the_53_that_are_no_digits_are_rounded():
    """Or whole and exact; JavaScript writes 0.5 and 123456789012345680000 as such."""
    for entries in (["0.5", "123456789012345680000"], ["1e100", "2"], [2**53, 2**60]):
        assert inferred(entries, kind="number").column.kind == "number"


@pytest.mark.parametrize(
    "entries",
    [
        ["31.01.2024 10:30", "01.02.2024 00:00"],
        ["2024/01/31", "2024/02/01"],
        ["31-Jan-2024", "01-Feb-2024"],
    ],
)
def test_dates_in_other_formats_are_read_with_a_note(entries):
    result = inferred(entries)
    assert result.column.kind == "datetime"
    assert pd.Timestamp(result.column.values[1], unit="s").strftime("%Y-%m-%d") == "2024-02-01"
    assert "is read as" in result.notes[0]


@pytest.mark.parametrize("unit", ["kg", "EUR", "h"])
def test_numbers_that_are_not_understood_are_noted(unit):
    with pytest.raises(ColumnError, match=f"not understood, such as '0.5 {unit}' in row 1 of one"):
        inferred([f"{index}.5 {unit}" for index in range(60)])
    result = inferred([f"{index % 9}.5 {unit}" for index in range(60)])
    assert "looks like numbers or dates in a form that is not understood" in result.notes[0]
    assert not inferred([f"A{index:03d}" for index in range(60)]).notes
    assert not inferred(["red", "blue"] * 9).notes


def test_given_formats_are_used():
    assert list(parse_numbers(pa.array(["1,234", "5"]), ["decimal commas"]).values) == [1.234, 5.0]
    assert list(parse_numbers(pa.array(["1,234", "5"]), ["commas between thousands"]).values) == [
        1234.0,
        5.0,
    ]
    for words, month in (("day/month/year", 2), ("month/day/year", 1)):
        seconds = parse_dates(pa.array(["01/02/2024", "03/04/2024"]), [words]).values[0]
        assert np.datetime64(int(seconds), "s").astype("datetime64[M]").item().month == month
    table = {"x": ["1,234", "2,345", "3,456"] * 9}
    options = {"n_resamples": 19, "alpha": 0.2, "progress": False}
    result = compare_tables(table, table, formats=["commas between thousands"], **options)
    assert result["x"].effect.medians == (2345.0, 2345.0)
    with pytest.raises(InputError, match=r"a format must be one of .*got 'dmy'"):
        compare_tables(table, table, formats=["dmy"], **options)


def test_digits_with_leading_zeros_are_codes():
    result = inferred(["01234", "94110", "10001", "94110"])
    assert result.column.kind == "category"
    assert "codes such as '01234'" in result.notes[0]
    assert inferred(["01234", "94110"], kind="integer").column.kind == "integer"
    assert inferred(["0", "10", "0.5"]).column.kind == "number"


def test_durations_are_seconds():
    entries = pa.array([1500, 2500], pa.duration("ms"))
    result = infer_type("x", entries, split_array(entries, 1))
    np.testing.assert_array_equal(result.column.values, [1.5, 2.5])
    assert result.notes == ("'x' is read as durations in seconds.",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 1e200], "has 1e\\+200 in row 1 of other, beyond 1e\\+150"),
        ([1.0, np.inf], "has an infinite value in row 1 of other"),
        ([1e-200, 3e-200], "has a range of only 2e-200, from smallest to largest number"),
    ],
)
def test_numbers_with_squares_that_overflow_are_refused(values, message):
    with pytest.raises(ColumnError, match=message):
        inferred(values)


def test_dropped_rows_and_unused_codes_are_noted():
    options = {"n_resamples": 19, "alpha": 0.2, "progress": False}
    table = {"g": ["u"] * 9 + ["v"] * 9 + [None] * 2, "x": np.arange(20.0) % 7}
    result = compare_tables(table, by="g", na_values=["-99", 3], **options)
    assert "2 rows without a value of 'g' left out." in result.notes
    assert "No cell is -99, as --na-value says." in result.notes
    assert not any("No cell is 3" in note for note in result.notes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"x": [10**30, 1]}, "whole numbers that need more than 64 bits"),
        ({"x": ["a\ud800", "b"]}, "text that is no Unicode"),
    ],
)
def test_invalid_entries_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        compare_tables(table, table, progress=False)


def test_names_of_columns_are_a_single_line():
    table = {"a\nb": np.arange(30.0) % 7}
    result = compare_tables(table, table, n_resamples=19, alpha=0.2, progress=False)
    assert [column.name for column in result.columns] == ["a b"]


def table_of_types(rng, n):
    return pd.DataFrame(
        {
            "flag": rng.random(n) < 0.4,
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "h"),
            "x": rng.normal(size=n),
            "count": rng.integers(0, 9, n),
            "order_id": 2**60 + np.arange(n),
        }
    )


@pytest.mark.parametrize("spelt", [str, str.upper, lambda text: {"True": "yes"}.get(text, "no")])
@pytest.mark.one_in(3)
def test_text_is_read_with_the_type_of_the_other_table(spelt):
    rng = np.random.default_rng(0)
    before, after = table_of_types(rng, 120), table_of_types(rng, 150)
    words = after.astype(str)
    words["flag"] = words["flag"].map(spelt)
    options = {"n_resamples": 99, "progress": False}
    twin = compare_tables(before, after, **options)
    for pair in ((before, words), (words, before)):
        result = compare_tables(*pair, **options)
        assert result.left_out == twin.left_out == (
            ("order_id", "its cells are identifiers"),
        )  # fmt: skip
        assert result.pvalue == twin.pvalue
        assert [column.kind for column in result.columns] == [
            column.kind for column in twin.columns
        ]
        assert [column.pvalue for column in result.columns] == [
            column.pvalue for column in twin.columns
        ]


def test_text_that_does_not_have_the_type_of_the_other_table_is_refused():
    truths, numbers_of = pd.DataFrame({"x": [True, False] * 9}), pd.DataFrame({"x": range(18)})
    words = pd.DataFrame({"x": ["yes", "perhaps"] * 9})
    padded = pd.DataFrame({"x": [f"{number:05d}" for number in range(18)]})
    for pair in ((truths, words), (numbers_of, words), (numbers_of, padded)):
        with pytest.raises(InputError, match=r"column 'x' holds .*: write them alike$"):
            compare_tables(*pair, progress=False)
    codes = pd.DataFrame({"x": [*"ABC", *"123"] * 3})
    with pytest.raises(InputError, match=r"write them alike, or take.*--column-type x=cat"):
        compare_tables(numbers_of, codes, progress=False)


def test_a_declared_identifier_is_dropped():
    rng = np.random.default_rng(1)
    tables = [pd.DataFrame({"x": rng.normal(size=40), "k": rng.integers(0, 9, 40)}) for _ in "PQ"]
    result = compare_tables(
        *tables, column_types={"k": "identifier"}, n_resamples=99, progress=False
    )
    assert [column.name for column in result.columns] == ["x"]


def test_a_change_of_hours_is_reported_by_hours():
    rng = np.random.default_rng(2)

    def moments(late):
        hours = np.where(
            rng.random(600) < late, rng.integers(18, 24, 600), rng.integers(0, 18, 600)
        )
        days = rng.integers(0, 28, 600)
        return pd.DataFrame(
            {"when": pd.Timestamp("2026-01-01") + pd.to_timedelta(24 * days + hours, "h")}
        )

    result = compare_tables(moments(0.2), moments(0.5), n_resamples=99, progress=False)
    assert result["when"].reject
    assert all(level.level.endswith(":00") for level in result["when"].effect.shares[:3])
    times = [
        table["when"].dt.strftime("%H:%M").to_frame() for table in (moments(0.2), moments(0.5))
    ]
    result = compare_tables(*times, n_resamples=99, progress=False)
    assert result["when"].kind == "datetime"
    assert "median 1" in str(result)


def test_categories_of_numbers_in_text_have_no_trailing_zeros():
    first, second = ({"k": [f"1{zeros}", "2.5"] * 20} for zeros in ("", ".0"))
    result = compare_tables(first, second, column_types={"k": "category"}, progress=False)
    assert result.pvalue == 1.0
    codes = {"k": ["1.0", "v2"] * 20}  # not numbers alone
    result = compare_tables(codes, codes, column_types={"k": "category"}, progress=False)
    assert result["k"].pvalue == 1.0


def test_objects_of_several_types_are_text():
    frame = pd.DataFrame({"v": [1, "a", None, 2.5] * 20})
    column, notes = typed_column(frame)
    assert column.levels == ("1", "2.5", "a")
    assert not notes


def typed_column(frame):
    result = pool_tables(
        [as_table(frame, name) for name in ("P", "Q")], None, (), ReadOptions({}), Roles()
    )
    return result.columns[0], result.notes
