"""Common inputs are read in their intended meaning, or refused with a remedy."""

import datetime
import shlex
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from bke.inference import InputError, Monitor, compare, compare_tables, two_sample_test
from bke.inference.io.columns import column_array
from bke.inference.io.tables import as_table
from bke.inference.io.text import find_head
from bke.inference.io.types import infer_type
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables

QUIET = {"n_resamples": 99, "progress": False}


def column(before, after=None, kind=None):
    """Return how a column ``x`` of two tables is read."""
    after = before if after is None else after
    tables = [as_table({"x": entries}, name) for entries, name in ((before, "P"), (after, "Q"))]
    column_types = {} if kind is None else {"x": kind}
    result = pool_tables(tables, None, (), ReadOptions(column_types), Roles())
    return result.columns[0], result.notes


def file(folder, text, name="a.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def read(path):
    table = as_table(path, "before")
    return table.data.to_pydict(), "".join(table.notes)


# Thousands separators.

GERMAN = ["1.244", "961", "2.016", "980", "12.500"]


def test_points_between_thousands_of_a_table_with_decimal_commas():
    """With entries such as 961 they are ambiguous, unless other columns have decimal commas."""
    with pytest.raises(InputError, match=r"'1.244' that may be written with decimal points or"):
        column(GERMAN)
    array = column_array([as_table({"x": GERMAN}, "P")], "x", ()).array
    words = "points between thousands and decimal commas"
    parsed = infer_type("x", array, [as_table({"x": GERMAN}, "P")], None, [words]).column
    np.testing.assert_array_equal(parsed.values, [1244, 961, 2016, 980, 12500])
    parsed = infer_type("x", array, [as_table({"x": GERMAN}, "P")], None, ["decimal points"]).column
    np.testing.assert_array_equal(parsed.values, [1.244, 961, 2.016, 980, 12.5])


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        (["1.244", "2.961", "2.016"], [1244, 2961, 2016]),
        (["1.244", "7.5", "2.016"], [1.244, 7.5, 2.016]),
        (["40.0", "41.0", "38.5"], [40, 41, 38.5]),
    ],
)
def test_decimal_commas_of_a_column_determine_the_points_of_another(entries, values):
    """Where all points of a column can stand between thousands they do."""
    table = as_table({"x": entries, "y": ["1,5", "2,25", "3"]}, "P")
    result = pool_tables([table, table], None, (), ReadOptions({}), Roles())
    np.testing.assert_array_equal(result.columns[0].values, values * 2)


@pytest.mark.parametrize(
    "entries", [["1.244", "2.016"], ["0.244", "961"], ["1.24", "961"], ["1.5"]]
)
def test_points_that_cannot_stand_between_thousands_are_decimal_points(entries):
    result, _ = column([*entries, "7.125"], ["8.25"])
    np.testing.assert_array_equal(result.values, [*map(float, entries), 7.125, 8.25])


def test_amounts_of_two_currencies_are_not_compared():
    with pytest.raises(InputError, match="'x' has amounts in £ and €: convert them"):
        column(["€1.50", "€2"], ["£1.50", "£2"])


# Time zones.

NOON = pd.date_range("2024-01-15 12:00", periods=3, freq="182D")
ZONE = "Europe/Berlin"


def test_the_local_clock_of_a_time_zone_is_compared():
    """At noon in winter and in summer, which are 11 and 10 o'clock in UTC."""
    result, notes = column(NOON.tz_localize(ZONE))
    hours = (result.values % 86400) / 3600
    np.testing.assert_array_equal(hours, 12.0)
    assert len(notes) == 1  # about the compared parts of dates
    other = NOON.tz_localize(ZONE).tz_convert("UTC")
    result, notes = column(NOON.tz_localize(ZONE), other)
    np.testing.assert_array_equal((result.values % 86400) / 3600, 12.0)
    assert "local clock of Europe/Berlin; it has UTC in Q" in notes[0]


@pytest.mark.parametrize("swap", [False, True])
def test_columns_with_and_without_a_time_zone_are_refused(swap):
    both = [NOON, NOON.tz_localize(ZONE)]
    with pytest.raises(InputError, match=r"time zone Europe/Berlin in . and none in .: give both"):
        column(*(both[::-1] if swap else both))
    texts = [["2024-01-15T12:00:00", "2024-07-15T12:00:00"], ["2024-01-15T12:00:00+01:00"] * 2]
    with pytest.raises(InputError, match=r"offset from UTC, such as \+01:00, and others without"):
        column(*(texts[::-1] if swap else texts))


def test_offsets_of_a_single_zone_are_read_by_the_local_clock():
    entries = ["2024-01-15T12:00:00+01:00", "2024-07-15T12:00:00+02:00", "2024-07-15T12:30+0200"]
    result, notes = column(entries)
    np.testing.assert_array_equal((result.values % 86400) / 3600, [12, 12, 12.5] * 2)
    assert notes[0] == "'x' is read by its local clock (+01:00, +02:00)."
    with pytest.raises(InputError, match=r"offsets from UTC of \+09:00 to Z"):
        column(["2024-01-15T12:00:00Z", "2024-01-15T12:00:00+09:00"])
    typed_dates = NOON.tz_localize(ZONE)
    result, _ = column(typed_dates, [date.isoformat() for date in typed_dates])
    np.testing.assert_array_equal((result.values % 86400) / 3600, 12.0)


# Categories, dates, durations and other types.


def test_a_declared_category_of_numbers_is_a_category():
    assert column(pd.Categorical([1, 2, 2]))[0].kind == "category"
    assert column(pd.Categorical(["01", "2", "2"]))[0].kind == "category"
    assert column([1, 2, 2])[0].kind == "integer"


@pytest.mark.parametrize(
    ("entries", "kind", "levels"),
    [
        (pd.cut(pd.Series([0.5, 1.5, 1.7]), [0, 1, 2]), "category", ("(0, 1]", "(1, 2]")),
        (pd.Series(pd.arrays.SparseArray([0, 0, 3])), "integer", ()),
        (pd.Series(pd.period_range("2024-01", periods=3, freq="M")), "datetime", ()),
        (pd.Series([True, False, True]), "boolean", ("false", "true")),
    ],
)
def test_types_of_pandas(entries, kind, levels):
    table = as_table(pd.DataFrame({"x": entries}), "P")
    result = pool_tables([table, table], None, (), ReadOptions({}), Roles()).columns[0]
    assert (result.kind, result.levels) == (kind, levels)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (pa.array([[1, 2]] * 3), "holds lists .*: make a column of each entry, or leave it out"),
        (pa.array([{"a": 1}] * 3), "holds structures .*: make a column of each field"),
        (pa.array([b"ab"] * 3), "holds bytes .*: decode them"),
        (pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()), "holds calendar intervals"),
    ],
)
def test_types_that_are_not_compared_are_refused_with_a_remedy(of, message):
    table = as_table(pa.table({"x": of}), "P")
    for first in (table, as_table({"x": ["a", "b", "c"]}, "P")):
        with pytest.raises(InputError, match=f"column 'x' {message}"):
            pool_tables([first, table], None, (), ReadOptions({}), Roles())


def test_uuids_are_identifiers():
    rng = np.random.default_rng(0)
    entries = [uuid.UUID(bytes=rng.bytes(16)) for _ in range(40)]
    result = pool_tables(
        [as_table({"x": pa.array(entries), "y": range(40)}, "P")] * 2,
        None, (), ReadOptions({"y": "integer"}), Roles(),
    )  # fmt: skip
    assert result.left_out == (("x", "its cells are identifiers"),)


def test_booleans_are_compared_with_zeros_and_ones():
    result, _ = column([True, False, True], [0, 1, 1])
    assert (result.kind, result.levels) == ("boolean", ("false", "true"))
    np.testing.assert_array_equal(result.values, [1, 0, 1, 0, 1, 1])
    with pytest.raises(InputError, match="holds booleans in P and numbers in Q"):
        column([True, False, True], [0, 1, 2])


def test_minus_zero_is_zero():
    result, _ = column([0.0, 1.5], [-0.0, 1.5], kind="category")
    assert result.levels == ("0", "1.5")


def test_dates_keep_rows_together():
    days = np.repeat(pd.date_range("2024-01-01", periods=30), 4)
    v = np.random.default_rng(0).normal(size=(2, 120))
    before, after = (pd.DataFrame({"day": days, "v": values}) for values in v)
    result = compare_tables(before, after, clusters="day", **QUIET)
    assert [column.name for column in result.columns] == ["v"]


def test_codes_of_missing_values_in_all_formats():
    tables = [as_table({"x": ["-999,90", "1,5", "2,25", "-999,9"]}, "P")] * 2
    result = pool_tables(tables, None, (), ReadOptions({}, na_values=[-999.9]), Roles())
    np.testing.assert_array_equal(result.columns[0].values, [np.nan, 1.5, 2.25, np.nan] * 2)
    assert not any("No cell" in note for note in result.notes)


@pytest.mark.parametrize("proportion", [0.02, 0.1, 0.4])
@pytest.mark.parametrize(
    "token", ["#N/A", "?", "-", ".", "inf", "-nan", "\\N", "*", "missing", "don't know"]
)
def test_tokens_among_numbers_are_refused_at_any_proportion(token, proportion):
    rng = np.random.default_rng(0)
    entries = [token if u < proportion else f"{9 * v:.0f}" for u, v in rng.uniform(size=(300, 2))]
    with pytest.raises(InputError) as raised:
        column(entries)
    assert f"has numbers but '{token}' in row" in str(raised.value).replace('"', "'")
    assert f"--na-value={shlex.quote(token)} " in str(raised.value)
    with pytest.raises(InputError, match=r"and '§' \(\d+ such cells\).* --na-value='§'"):
        column([*entries, "§"])
    table = as_table({"x": entries}, "P")
    options = ReadOptions({}, na_values=[token])
    result = pool_tables([table, table], None, (), options, Roles()).columns[0]
    assert result.kind == "integer"
    assert np.isnan(result.values).sum() == 2 * entries.count(token)


def test_categories_that_resemble_numbers_are_categories():
    result, _ = column(["1", "2", "3+", "unknown"] * 10)
    assert result.kind == "category"


def test_repeated_identifiers_are_noted():
    """There are 40 customers with ten rows each; with ``clusters`` there is no note."""
    rng = np.random.default_rng(0)
    tables = [
        as_table({"customer_id": np.repeat(np.arange(40) + k, 10), "v": rng.normal(size=400)}, "P")
        for k in (0, 1000)
    ]
    result = pool_tables(tables, None, (), ReadOptions({}), Roles())
    assert [column.name for column in result.columns] == ["v"]
    assert "Rows repeat 'customer_id', 10 times on average." in result.notes[0]
    result = pool_tables(tables, None, (), ReadOptions({}), Roles(clusters="customer_id"))
    assert not any("repeat" in note for note in result.notes)


# Separators and headers.


@pytest.mark.parametrize(
    ("text", "names", "separator", "lines"),
    [
        ('note;z\n"a, b, c";1\n"d, e, f";2\n', ["note", "z"], ";", 1),
        ("a|b\n1|2\n3|4\n", ["a", "b"], "|", 1),
        ("a~b\n1~2\n3~4\n", ["a", "b"], "~", 1),
        ("a\tb\n1,5\t2\n3,5\t4\n", ["a", "b"], "\t", 1),
        ('"a\nb",c\n1,2\n3,4\n', ["a b", "c"], ",", 2),
        ('a,b\n"x;\ny;1",1\n"x;\ny;2",2\n', ["a", "b"], ",", 1),
        ("sep=;\na;b\n1;2\n", ["a", "b"], ";", 2),
        ("Report of sales\n\na;b\n1;2\n3;4\n", ["a", "b"], ";", 3),
        ("# made by me\nx,c\n1,a\n", ["x", "c"], ",", 2),
        ("# device=B, site=3\ntime,t\n1,2.5\n", ["time", "t"], ",", 2),
        ("x y\n1 2\n3 4.5\n", ["x", "y"], " ", 1),
        ("first name\nJohn Smith\nAnn Lee\n", ["first name"], ",", 1),
        ("time\n12:30\n09:15\n", ["time"], ",", 1),
        ("x\n1,5\n2,25\n", ["x"], ",", 1),
        ("\n\na,b\n1,2\n", ["a", "b"], ",", 3),
    ],
)
def test_separator_and_header(text, names, separator, lines):
    head = find_head(text, complete=True)
    assert (head.names, head.separator, head.lines) == (names, separator, lines)


@pytest.mark.parametrize(
    "entries",
    [
        ["1.5k", "2k"], ["0x1f", "0x2a"],
        ["1_000", "2_500"], ["1,23,456", "2,34,567"], ["1/2", "3/4"], ["\uff11\uff12", "\uff13"],
        ["\u0661\u0662", "\u0663"], ["USD 1.5", "USD 2"],
        ["12\u00b0", "13\u00b0"],
        ["01/02/24", "13/04/24"], ["Jan 5, 2024", "Feb 6, 2024"], ["2024-01", "2024-02"],
        ["2024-02-30", "2024-02-28"], ["01/13/2024 1:30 PM", "02/14/2024 2:30 AM"],
    ],
)  # fmt: skip
def test_numbers_and_dates_in_other_forms_are_noted(entries):
    result, notes = column(entries)
    assert result.kind == "category"
    assert f"such as {entries[0]!r}: it is taken for words" in notes[0]


@pytest.mark.parametrize(
    "form",
    ["US${}", "Rs. {}", "CHF {}.-", "{} mg/dL", "{} ± 0.1", '="{}"', "1.{}\u00d710^3", "{}:30 PM",
     "Fri, {} Jan 2024 10:00:00 GMT", "{}. März 2024", "Jan {}", "PT{}M", "1 day, {}:03:00"],
)  # fmt: skip
def test_words_with_numbers_in_them_are_noted(form):
    note = "".join(column([form.format(number) for number in range(5, 25)] * 3)[1])
    assert "taken for words" in note
    assert "which have digits" in note or "not understood" in note


def test_titles_are_left_out_with_a_note(tmp_path):
    result, note = read(file(tmp_path, "Sales of May\na;b\n1;2\n3;4\n"))
    assert result == {"a": ["1", "3"], "b": ["2", "4"]}
    assert note.endswith("1 line above the header left out, the first is 'Sales of May'.")
    result, note = read(file(tmp_path, "x y\n1  2\n3 4\n"))
    assert (result, note) == ({"x": ["1", "3"], "y": ["2", "4"]}, "")


def test_a_header_longer_than_the_first_block(tmp_path):
    names = [f"a_column_with_a_long_name_{index:05d}" for index in range(4000)]
    rows = "\n".join(",".join(["1"] * 4000) for _ in range(3))
    result, _ = read(file(tmp_path, f"{','.join(names)}\n{rows}\n"))
    assert list(result) == names


def test_folders_of_a_partitioned_table_are_columns(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        table = pa.table({"v": [1.0, 2.0]})
        pyarrow.parquet.write_table(table, tmp_path / f"year={year}" / "a.parquet")
    assert read(tmp_path)[0] == {"v": [1.0, 2.0] * 2, "year": [2020, 2020, 2021, 2021]}


# Arguments.

UNIT_GRID = np.linspace(0.0, 1.0, 20)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"a": [1.0, 2.0]}, "got dict: pass np.column_stack"),
        ((value for value in [1.0, 2.0]), "got generator: pass a list of its rows"),
        (np.array([1, 2], "m8[s]"), "convert it to seconds, in pandas with"),
        ([datetime.timedelta(1), datetime.timedelta(2)], "convert it to seconds, in pandas with"),
    ],
)
def test_invalid_samples_are_refused_with_a_remedy(sample, message):
    with pytest.raises(InputError, match=message):
        two_sample_test(sample, [1.0, 2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda alpha: compare([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], alpha=alpha),
        lambda alpha: compare_tables(
            {"x": UNIT_GRID}, {"x": UNIT_GRID + 0.1}, alpha=alpha, **QUIET
        ),
    ],
)
def test_a_confidence_is_no_level(call):
    with pytest.raises(
        InputError, match=r"false alarm.* got 0.95: for a confidence of 0.95 pass 0"
    ):
        call(0.95)
    call(np.float32(0.05))


def test_series_of_two_names_are_noted():
    """They are compared, as a column before and one after a change are."""
    rng = np.random.default_rng(0)
    P, Q = (pd.Series(rng.normal(size=20), name=name) for name in ("height", "weight"))
    assert "'height' in one sample and 'weight' in the other" in compare(P, Q).notes[0]
    assert not compare(P, Q.rename("height")).notes


def test_streams_are_read_as_their_reference():
    """Truths as 0 and 1, durations in other units, and codes without their leading zeros."""
    rng = np.random.default_rng(0)
    seconds = rng.integers(1, 9, 400)
    codes = rng.integers(0, 5, 400)
    reference = pd.DataFrame(
        {
            "truth": rng.uniform(size=400) < 0.5,
            "time": pd.to_timedelta(seconds, unit="s").astype("m8[ns]"),
            "code": [f"{code:03d}" for code in codes],
        }
    )
    order = rng.permutation(400)[:200]
    rows = pd.DataFrame(
        {
            "truth": reference["truth"][order].astype(int),
            "time": reference["time"][order].astype("m8[ms]"),
            "code": codes[order],
        }
    )
    same, other = (Monitor(reference, seed=0) for _ in range(2))
    same.update(reference.iloc[order])
    other.update(rows)
    assert str(other) == str(same)


@pytest.mark.parametrize("unit", ["us", "ms"])
def test_dates_of_polars_are_no_numbers(unit):
    polars = pytest.importorskip("polars")
    moments = pd.date_range("2024-01-01", periods=40, freq="D")
    frame = polars.DataFrame({"t": polars.Series(moments).cast(polars.Datetime(unit))})
    for call in (compare, two_sample_test):
        with pytest.raises(InputError, match=r"P has the type Datetime.* in column 't', where"):
            call(frame, frame)
    arrow = pa.table({"x": np.arange(40.0), "t": pa.array(range(40), pa.duration("s"))})
    with pytest.raises(InputError, match=r"has the type duration\[s\] in column 't'"):
        compare(arrow, arrow)


def test_dates_in_json_keep_their_offsets(tmp_path):
    local = pd.date_range("2024-01-01T00:30", periods=60, freq="D")
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"t": "{moment.isoformat()}+01:00"}}\n' for moment in local))
    result = compare_tables(path, pd.DataFrame({"t": local.tz_localize("Europe/Paris")}), **QUIET)
    assert result.pvalue == 1.0


def test_dates_beyond_the_known_summer_time_are_noted():
    dates = pd.DataFrame({"t": pd.date_range("2040-07-01", periods=60, tz="Europe/Paris")})
    assert "read without summer time" in compare_tables(dates, dates, **QUIET).notes[0]


def test_single_columns_and_rows():
    values = np.random.default_rng(0).normal(size=60)
    for column in (pd.Series(values, name="v"), pa.chunked_array([values])):
        assert compare_tables(column, column, **QUIET).pvalue == 1.0
    for rows in (list(values), values):
        with pytest.raises(InputError, match=r"give pandas\.DataFrame of it"):
            compare_tables(rows, rows)
    frame = pd.DataFrame({"v": values, "w": values})
    monitor = Monitor(frame)
    assert monitor.update(frame.iloc[0]).rows == 1
    assert monitor.update(pa.Table.from_pandas(frame[:9]).to_reader()).rows == 10
