"""Entries in the formats of two programs are equal; words that may be numbers are noted."""

import datetime
import io
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import InputError, Monitor, compare, compare_tables, read_sample
from bke.inference.io.formats import parse_numbers
from bke.inference.io.samples import read_samples
from bke.inference.io.stream import RowStream
from bke.inference.io.tables import as_table
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=60)
QUIET = {"n_resamples": 39, "sequential": False, "progress": False}


def read(before, after=None, **options):
    """The columns of two tables, and the notes."""
    tables = [as_table(before, "P"), as_table(before if after is None else after, "Q")]
    result = pool_tables(tables, None, (), ReadOptions({}, **options), Roles())
    return {column.name: column for column in result.columns}, " ".join(result.notes)


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        (["1.088,33-", "311,03"], [-1088.33, 311.03]),
        (["(1,234.50)", "2,345.00"], [-1234.5, 2345.0]),
        (["3 311,03", "311,03"], [3311.03, 311.03]),
        (["3\u202f311,03", "12"], [3311.03, 12.0]),
        (["\u22123.5", "2"], [-3.5, 2.0]),
        (["($5)", "$6"], [-5.0, 6.0]),
        (["$-5", "$6"], [-5.0, 6.0]),
    ],
)
def test_negative_numbers_and_thousands_of_accountants(entries, values):
    np.testing.assert_array_equal(parse_numbers(pa.array(entries)).values, values)


def test_negative_numbers_in_parentheses_are_noted():
    columns, note = read(
        {"v": [f"({number})" if number % 3 else f"{number}" for number in range(1, 60)]}
    )
    assert columns["v"].values.min() == -59.0
    assert "'v' has numbers such as '(1)', read as negative." in note
    monitor = Monitor(
        {"v": [f"({number % 9})" if number % 3 else f"{number % 9}" for number in range(60)]}
    )
    values, _ = monitor._reader.values(as_table({"v": ["(5)", "5"]}, "rows"))
    np.testing.assert_array_equal(values[:, 0], [-5.0, 5.0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 2, "A"], [1.0, 2.0, "A"]),
        (["1", "2", "A"], ["1.0", "2.0", "A"]),
        ([True, False, "unknown"], ["TRUE", "false", "unknown"]),
        (["New York", "x"], ["New\u00a0York", "x"]),
        (["a  b", "c"], ["a\tb", "c"]),
    ],
)
def test_words_in_two_spellings_are_equal(before, after):
    before, after = ({"d": part * 30} for part in (before, after))
    columns, note = read(before, after)
    half = len(columns["d"].values) // 2
    np.testing.assert_array_equal(columns["d"].values[:half], columns["d"].values[half:])
    assert "0.0%" not in str(compare_tables(before, after, **QUIET))
    assert note == ""


@pytest.mark.parametrize("form", ["A{:02d}", "user{:02d}", "Q{:02d}X"])
def test_codes_are_not_noted(form):
    assert "digits" not in read({"t": [form.format(number) for number in range(20)] * 3})[1]


def test_tokens_among_dates_are_refused():
    entries = ["unknown" if index % 5 == 0 else f"2024-01-0{index % 5}" for index in range(60)]
    with pytest.raises(InputError, match="has dates but 'unknown' in row 1 of P"):
        read({"d": entries})


def test_the_word_none_is_noted():
    columns, note = read({"sev": ["none", "mild", "severe"] * 20})
    assert columns["sev"].levels == ("mild", "severe")
    assert "40 cells of 'sev' with the text 'none' read as missing." in note


#: The first is no number of single precision.
SENTINELS = [2147483647.0, -999.25, -888.0, 65535.0, 1e36, -998.0, 1e20, 9.96921e36, 3.4028235e38]


@pytest.mark.parametrize(
    ("dtype", "value"), [*product(["f8"], SENTINELS), *product(["f4"], SENTINELS[1:])]
)
def test_more_sentinels(dtype, value):
    note = read({"v": np.r_[VALUES, [value] * 6].astype(dtype)})[1]
    assert "in 9.1% of the rows, far from all others" in note
    if dtype == "f8":
        assert f"'v' is {value:.10g} in 9.1% of the rows" in note
        assert f"--na-value={value:.10g} " in note


def test_two_sentinels_are_both_noted():
    note = read({"v": np.r_[VALUES, [-998.0] * 6, [-999.0] * 6]})[1]
    assert "'v' is -998 in" in note
    assert "'v' is -999 in" in note


def test_codes_of_missing_values_match_text_in_any_format():
    entries = [f"{value:.18e}" for value in (*VALUES, *[-999.0] * 6)]
    columns, note = read({"v": entries}, na_values=["-999"])
    assert np.isnan(columns["v"].values).sum() == 12
    assert "No cell" not in note
    dates = ["1970-01-01 00:00:00"] * 9 + [f"2024-01-{day:02d} 10:00:00" for day in range(1, 29)]
    columns, _ = read({"d": dates}, na_values=["1970-01-01"])
    assert np.isnan(columns["d"].values).sum() == 18


def test_na_values_may_be_none():
    for na_values in (None, pd.NA, [None], [pd.NA]):
        assert (
            compare_tables({"v": VALUES}, {"v": VALUES}, na_values=na_values, **QUIET).pvalue == 1
        )


def test_a_category_that_a_single_table_declares_is_noted():
    entries = RNG.integers(1, 5, 60)
    note = read(pd.DataFrame({"d": pd.Categorical(entries)}), pd.DataFrame({"d": entries}))[1]
    assert "'d' is declared as a category in P alone: it is read as numbers." in note


def test_times_of_several_types_are_equal():
    times = [datetime.time(index % 24) for index in range(60)]
    expected = [3600.0 * (index % 24) for index in range(60)]
    for other in (
        pa.table({"d": pa.array(times, pa.time32("s"))}),
        {"d": [f"{time.hour:02d}:00:00" for time in times]},
    ):
        columns, _ = read(pa.table({"d": pa.array(times, pa.time64("us"))}), other)
        np.testing.assert_array_equal(columns["d"].values, expected * 2)


def test_files_of_a_folder_have_the_narrowest_floats(tmp_path):
    frame = pd.DataFrame({"v": RNG.integers(1, 6, 60) / 10})
    frame[:30].astype("f4").to_parquet(tmp_path / "a.parquet")
    frame[30:].to_parquet(tmp_path / "b.pq")
    (tmp_path / "_temporary").mkdir()
    frame.to_parquet(tmp_path / "_temporary" / "c.parquet")
    columns, _ = read(tmp_path)
    np.testing.assert_array_equal(columns["v"].values[:60], frame.v.astype("f4").astype("f8"))
    assert len(np.unique(columns["v"].values)) == frame.v.nunique()
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(InputError, match="is a Delta table"):
        read(tmp_path)


def test_formulas_and_merged_ranges(workbook):
    def merge(cell_range):
        return lambda book: book.active.merge_cells(cell_range)

    rows = [[float(value), "x" if index % 2 else "y"] for index, value in enumerate(VALUES)]
    with pytest.raises(InputError, match="has formulas without values"):
        read(workbook([["v", "k"], *rows, [1.0, "=A2"]]))
    with pytest.raises(InputError, match="has merged cells"):
        read(workbook([["v", "k"], *rows], change=merge("B2:B5")))
    title = [["Report", None], ["v", "k"], *rows]
    first = workbook(title, change=merge("A1:B1"))
    np.testing.assert_allclose(read(first)[0]["v"].values[:60], VALUES, rtol=1e-14)
    moved = workbook(
        [["v"], *([value] for value in VALUES)],
        change=lambda book: (
            book.create_sheet("formulas", 0).append(["a", "=A1"])
            or book.move_sheet("formulas", offset=1)
        ),
    )
    np.testing.assert_allclose(read(moved)[0]["v"].values[:60], VALUES, rtol=1e-14)


def test_quotes_that_stay_in_entries_and_empty_columns_are_noted(tmp_path):
    (tmp_path / "a.csv").write_text('a,c,,\n1, "x",,\n2, y,,\n' + "3,z,,\n" * 9)
    columns, note = read(tmp_path / "a.csv")
    assert list(columns) == ["a", "c"]
    assert "1 cell of 'c' have blanks before quotes" in note
    assert "2 columns without a name and without a value left out" in note


def test_identifiers_and_moved_keys_of_arrays():
    first = pd.DataFrame({"x": VALUES, "id": np.arange(60)})
    second = pd.DataFrame({"x": VALUES + 0.1, "id": np.arange(60, 120)})
    notes = " ".join(compare(first, second, **QUIET).notes)
    assert "the numbers of 'id' are all different, as those of an identifier are" in notes
    with pytest.raises(InputError, match=r"in different orders.* make it the index"):
        compare(first, first[::-1].reset_index(drop=True), paired=True, **QUIET)


def test_identifiers_of_pairs_are_named_with_what_to_do(tmp_path):
    first = pd.DataFrame({"x": VALUES, "id": np.arange(60)})
    second = first.assign(x=np.cos(7.0 * VALUES))
    advice = "the identifiers of pairs are: to pair the rows, sort both samples by 'id' first"
    assert advice in " ".join(compare(first, second, paired=True, **QUIET).notes)
    first.to_csv(tmp_path / "a.csv", index=False)
    second[::-1].to_csv(tmp_path / "b.csv", index=False)
    with pytest.warns(UserWarning, match=advice) as warned:
        read_samples([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert not any("unless it is measured" in str(warning.message) for warning in warned)
    frames = [frame.set_index("id") for frame in (first, second)]
    assert "id" not in " ".join(compare(*frames, paired=True, **QUIET).notes)
    with pytest.raises(InputError, match="same row labels in another order"):
        compare(frames[0], frames[1][::-1], paired=True, **QUIET)


def test_rows_in_both_samples_are_noted():
    rows = RNG.normal(size=(120, 2))
    assert "40 rows are in both P and Q" in " ".join(compare(rows[:80], rows[40:], **QUIET).notes)
    frames = [pd.DataFrame(part, columns=["a", "b"]) for part in (rows[:80], rows[40:])]
    assert "40 rows are in both P and Q" in read(*frames)[1]
    assert "in both" not in read(frames[0])[1]
    assert "in both" not in " ".join(compare(rows[:60], rows[60:], **QUIET).notes)


def batches(raw, **options):
    stream = RowStream(io.BytesIO(raw), ("v", "k"), ("v", "k"))
    return [table.data.to_pydict() for table in stream.batches(**options)]


def test_a_key_that_an_object_of_a_stream_lacks_is_missing():
    raw = b'{"v": 1, "k": "a"}\n{"v": 2}\n'
    assert batches(raw, max_rows=9) == [{"v": [1, 2], "k": ["a", None]}]
    assert batches(raw, max_rows=1) == [{"v": [1], "k": ["a"]}, {"v": [2], "k": [None]}]


def test_types_of_streams_that_the_reference_does_not_have():
    codes = Monitor(pd.DataFrame({"b": pd.Categorical(np.tile([1, 2, 3], 20))}))
    values, _ = codes._reader.values(as_table({"b": ["1.0", "3.0", "7.0"]}, "rows"))
    np.testing.assert_array_equal(values[:, 0], [0, 2, 3])
    minutes = Monitor({"d": np.abs(VALUES)})
    rows = pd.DataFrame({"d": pd.to_timedelta([5, 6], unit="min")})
    values, notes = minutes._reader.values(as_table(rows, "rows"))
    assert np.isnan(values).all()
    assert notes == ["'d' has durations, and numbers in the reference: read as missing."]
    array = np.r_[VALUES, [-999.0] * 6]
    assert "is -999 in some rows of the reference" in Monitor(array).notes[0]
    assert "is -999 in some rows of the stream" in " ".join(
        Monitor({"v": VALUES}).update({"v": array}).notes
    )


def test_integers_that_lose_digits_are_refused(tmp_path):
    integers = 1_700_000_000_000_000_001 + RNG.integers(0, 100, 60)
    with pytest.raises(InputError, match="P has whole numbers beyond 2\\^53"):
        compare(integers, integers, **QUIET)
    with pytest.raises(InputError, match="reference has whole numbers beyond"):
        Monitor(integers)
    pd.DataFrame({"t": integers}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 't' has whole numbers beyond"):
        read_sample(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 't' has whole numbers beyond"):
        compare_tables({"t": integers}, {"t": integers}, column_types={"t": "integer"}, **QUIET)
    assert compare(2**60 * np.arange(3), 2**60 * np.arange(4), **QUIET).pvalue > 0.05


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pa.table, lambda entries: pa.table(pd.DataFrame(entries))]
)
def test_words_that_are_read_as_missing_are_counted(make):
    table = make({"c": ["NA", "ZA", "None", "BW"] * 15})
    note = read(table)[1]
    assert "30 cells of 'c' with the text 'NA' read as missing." in note
    assert "30 cells of 'c' with the text 'None' read as missing." in note
    assert "read as missing" not in read(make({"v": ["1.5", "NA", "2"] * 20}))[1]


def test_parts_of_dates_that_are_not_compared_are_noted():
    days = pd.Series(pd.date_range("1950-01-01", periods=60, freq="97D"))
    later = days + pd.Timedelta("3650D")
    note = read(pd.DataFrame({"dob": days}), pd.DataFrame({"dob": later}))[1]
    assert "Weekdays and hours of 'dob' are compared, and not the dates themselves" in note
    assert "read it with --column-type dob=number (column_types={'dob': 'number'})" in note
    times = [datetime.time(index % 24, index % 60) for index in range(60)]
    assert "The hours of 'at' are compared, and not the minutes" in read({"at": times})[1]


def test_a_total_does_not_make_a_column_nearly_constant():
    shops = [f"S{index % 12}" for index in range(60)] + ["Total"]
    table = {"shop": shops, "revenue": [*VALUES, 7500.0]}
    assert "nearly one" not in read(table)[1]
    levels = {"shop": shops, "revenue": [index % 12 + 0.0 for index in range(60)] + [7500.0]}
    assert "Rows with one value of 'shop' have nearly one 'revenue'" in read(levels)[1]


def test_columns_that_were_selected_from_a_frame_with_an_index():
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=[5, 7]))
    assert as_table(table.select(["a"]), "X").data.to_pydict() == {"a": [1, 2]}
    named = pa.Table.from_pandas(pd.DataFrame({"a": [1]}, index=pd.Index([5], name="id")))
    assert as_table(named.select(["a"]), "X").notes == ()


def test_numbers_among_words_keep_their_digits():
    entries = ["x", 10**15, 1e15, 1234567890123456.0, 1234567890123457.0, 0.1] * 10
    columns, _ = read({"v": entries})
    assert columns["v"].levels == (
        *("0.1", "1000000000000000", "1234567890123456", "1234567890123457", "x"),
    )


def test_empty_objects_of_json_are_rows(tmp_path):
    for name, last in (("a.jsonl", '"x"'), ("b.jsonl", "2")):
        (tmp_path / name).write_text('{"a": 1}\n{}\n{"a": ' + last + "}\n")
        assert as_table(tmp_path / name, "P").data.num_rows == 3


def test_dictionaries_of_arrays_in_streams():
    monitor = Monitor(np.repeat([0.1, 0.2], 30)[:, None], columns=["a"])
    for rows in ({"a": np.float32([0.1])}, np.float32([[0.1]])):
        assert monitor._reader.values(rows)[0][0, 0] == 0.1
    two = Monitor(np.column_stack([VALUES, VALUES]), columns=["a", "b"])
    with pytest.raises(InputError, match="rows has columns of different lengths"):
        two.update({"a": [1.0, 2.0], "b": [1.0]})


def test_codes_in_a_column_with_a_word_are_words():
    columns, _ = read({"c": ["007"] * 58 + ["012", "élan"]})
    assert columns["c"].levels == ("007", "012", "élan")
