"""What kind a column is, and how its cells are written: understood or refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference.tables.kinds import ProblemError, typed
from bke.inference.tables.numerals import AmbiguousError, dates, numbers, trimmed

DAY = 86_400.0


def told(cells, rows=None, kind=None):
    array = pa.array(cells)
    array = trimmed(array) if pa.types.is_string(array.type) else array
    return typed("x", array, len(cells) // 2 if rows is None else rows, kind, ("one", "other"))


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([0.5, 1.5, None, 2.0], "number"),
        ([1, 2, 2, None], "integer"),
        (["1.5", " 2", "NA", "-3e2"], "number"),
        (["1", "2", "", "2"], "integer"),
        ([True, False, None], "boolean"),
        (["yes", "no", "Yes", "no"], "category"),
        (["yes", "no", "no", "no"], "boolean"),
        (["red", "blue", "red", None], "category"),
        (["2024-01-31", "2024-02-01", "null", "2024-03-01"], "datetime"),
        (["2024-01-31T10:00:00Z", "2024-02-01 11:30"], "datetime"),
        (["31/01/2024", "01/02/2024"], "datetime"),
        ([f"A{i:03d}" for i in range(60)], "identifier"),
        (list(range(100, 160)), "identifier"),
        ([f"the number {i} is here" for i in range(60)], "text"),
    ],
)
def test_kinds_are_told_from_cells(cells, kind):
    assert told(cells).column.kind == kind


def test_values_are_those_of_the_cells():
    found = told(["1.5", "x ", "NA", "-3e2"], kind="category").column
    assert found.levels == ("-3e2", "1.5", "x")
    np.testing.assert_array_equal(found.values, [1.0, 2.0, np.nan, 0.0])
    found = told(["1.5", None, "-3e2", "+2"]).column
    np.testing.assert_array_equal(found.values, [1.5, np.nan, -300.0, 2.0])
    found = told(["1970-01-02", "1970-01-01T06:00", None, "1969-12-31"]).column
    np.testing.assert_array_equal(found.values, [DAY, 0.25 * DAY, np.nan, -DAY])
    found = told(pd.to_datetime(["1970-01-02", "1970-01-03"]).to_list()).column
    np.testing.assert_array_equal(found.values, [DAY, 2.0 * DAY])


@pytest.mark.parametrize(
    ("cells", "values", "words"),
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
def test_numbers_that_are_written_otherwise_are_read_with_a_note(cells, values, words):
    found = numbers(pa.array(cells))
    np.testing.assert_array_equal(found.values, values)
    assert found.words == words
    notes = told([*cells, *cells]).notes
    assert (f"read with {words}" in "".join(notes)) == bool(words)


def test_what_can_be_read_in_two_ways_is_refused():
    with pytest.raises(AmbiguousError):
        numbers(pa.array(["1,234", "5"]))
    with pytest.raises(AmbiguousError):
        dates(pa.array(["01/02/2024", "03/04/2024"]))
    assert numbers(pa.array(["1,234", "x"])) is None
    with pytest.raises(ProblemError, match="'1,234' that may be written with decimal commas or"):
        told(["1,234", "1,234"])
    assert told(["1,234", "1,234"], kind="category").column.levels == ("1,234",)


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([*map(str, range(60)), "error"], None, "has numbers but 'error' in row 31 of other"),
        ([1.0, float("inf")], None, "an infinite value in row 1 of other"),
        ([[1], [2]], None, "holds list"),
        (["a", "b"], "number", "has cells such as 'a', not number"),
        ([1.5, 2.5], "integer", "not whole"),
        ([1.5, 2.5], "datetime", "holds numbers, not datetime"),
    ],
)
def test_what_is_of_no_kind_is_refused(cells, kind, message):
    with pytest.raises(ProblemError, match=message):
        told(cells, kind=kind)


def test_codes_of_missing_values_are_told():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(50.0, 10.0, size=400), 1)
    assert not told(list(values)).codes
    values[::40] = -999.0
    assert told(list(values)).codes == (-999.0,)


@pytest.mark.parametrize(
    "cells",
    [
        ["31.01.2024 10:30", "01.02.2024 00:00"],
        ["2024/01/31", "2024/02/01"],
        ["31-Jan-2024", "01-Feb-2024"],
    ],
)
def test_dates_that_are_written_otherwise_are_read_with_a_note(cells):
    found = told(cells)
    assert found.column.kind == "datetime"
    assert pd.Timestamp(found.column.values[1], unit="s").strftime("%Y-%m-%d") == "2024-02-01"
    assert "is read as" in found.notes[0]


@pytest.mark.parametrize("unit", ["kg", "\u20ac", "h"])
def test_numbers_that_are_not_understood_are_pointed_at(unit):
    found = told([f"{index}.5 {unit}" for index in range(60)])
    assert "looks like numbers or dates in a form that is not understood" in found.notes[0]
    assert not told([f"A{index:03d}" for index in range(60)]).notes
    assert not told(["red", "blue"] * 9).notes
