"""Inputs that two readers would read in two ways are refused, or noted."""

import datetime
import decimal
import gzip
import io
import json
import lzma
import re
import uuid
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import xarray as xr
from bke.inference import (
    InputError,
    Monitor,
    Monitors,
    compare,
    compare_chains,
    compare_groups,
    compare_tables,
    conditional_independence_test,
    fit,
    independence_test,
    open_blocks,
    read_sample,
    thin,
    two_sample_test,
)
from bke.inference.io.samples import choose_columns, read_samples
from bke.inference.io.stream import RowStream
from bke.inference.io.tables import as_table
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables

QUIET = {"n_resamples": 39, "sequential": False, "progress": False}
HOURS = [datetime.datetime(2024, 1, 1 + at % 28, 13) for at in range(60)]
TOKYO = datetime.timezone(datetime.timedelta(hours=9))
VALUES = np.random.default_rng(0).normal(size=60)


def read(before, after=None, **options):
    """The columns of two tables, and the notes."""
    tables = [
        as_table(table, name) for table, name in ((before, "P"), (after, "Q")) if table is not None
    ]
    tables = tables * 2 if after is None else tables
    found = pool_tables(tables, None, (), ReadOptions({}, **options), Roles())
    return {column.name: column for column in found.columns}, " ".join(found.notes)


@pytest.mark.parametrize("make", [dict, lambda cells: pd.DataFrame(cells, dtype=object)])
def test_a_date_before_times_cuts_no_hours_off(make):
    columns, _ = read(make({"t": [datetime.date(2024, 1, 1), *HOURS[1:]]}))
    hours = (columns["t"].values / 3600.0) % 24.0
    np.testing.assert_array_equal(hours[:60], [0.0] + [13.0] * 59)


def test_dates_with_and_without_a_zone_are_not_mixed():
    mixed = [one.replace(tzinfo=TOKYO) if at % 2 else one for at, one in enumerate(HOURS)]
    with pytest.raises(InputError, match=r"offset from UTC, such as .* and others without one"):
        read(pd.DataFrame({"t": pd.Series(mixed, dtype=object)}))


def test_dates_among_numbers_are_refused(tmp_path):
    cells = [1.5, 3.0, datetime.datetime(2024, 1, 1), *map(float, range(57))]
    with pytest.raises(InputError, match=r"column 'v' holds dates, such as .*, among numbers"):
        read({"v": cells})
    pytest.importorskip("openpyxl")
    pd.DataFrame({"v": cells}, dtype=object).to_excel(tmp_path / "a.xlsx", index=False)
    with pytest.raises(InputError, match=r"a\.xlsx: column 'v' holds dates"):
        read(tmp_path / "a.xlsx")


def test_parquet_files_with_dates_of_two_types_are_refused(tmp_path):
    moments = pa.array(HOURS, pa.timestamp("us"))
    pa.parquet.write_table(pa.table({"t": moments}), tmp_path / "a.parquet")
    for other in (
        moments.cast(pa.date32(), safe=False),
        moments.cast(pa.timestamp("us", "Asia/Tokyo")),
    ):
        pa.parquet.write_table(pa.table({"t": other}), tmp_path / "b.parquet")
        with pytest.raises(InputError, match=r"b\.parquet has 't' of type .*: write one type"):
            read(tmp_path)
    pa.parquet.write_table(pa.table({"t": [1, 2]}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"t": [1.5, 300.0]}), tmp_path / "b.parquet")
    assert as_table(tmp_path, "P").data["t"].to_pylist() == [1.0, 2.0, 1.5, 300.0]


def test_offsets_beside_utc_are_refused():
    text = pd.DataFrame({"t": [f"{one.isoformat()}+02:00" for one in HOURS]})
    with pytest.raises(InputError, match=r"offsets from UTC in one table, such as .02:00, and the"):
        read(text, pd.DataFrame({"t": pd.to_datetime(HOURS).tz_localize("UTC")}))


def test_points_that_are_thousands_in_one_table_alone_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("k\n" + "1.910\n850\n2.345\n" * 20)
    (tmp_path / "b.csv").write_text("k\n" + "1910\n850\n2345\n" * 20)
    with pytest.raises(InputError, match=r"'1\.910' that may be written with decimal points or"):
        read(tmp_path / "a.csv", tmp_path / "b.csv")
    columns, _ = read(
        tmp_path / "a.csv",
        tmp_path / "b.csv",
        formats=["points between thousands and decimal commas"],
    )
    assert set(columns["k"].values) == {1910.0, 850.0, 2345.0}


@pytest.mark.parametrize("cells", [["50%", "51%"], ["$50", "$51"]])
def test_signs_in_one_table_alone_are_refused(cells):
    with pytest.raises(InputError, match=r"signs.* in one table, such as .*write both in one unit"):
        read({"r": cells * 30}, {"r": [0.5, 0.51] * 30})


def test_whole_numbers_that_may_be_decimals_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("5,01\n5,90\n4,18\n")
    with pytest.raises(InputError, match="two columns of whole numbers, or one with"):
        read_sample(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("5,1\n5,90\n4,18\n")
    assert read_sample(tmp_path / "a.csv").values.shape == (3, 2)


def test_one_wrong_date_is_named(tmp_path):
    days = [f"2024-01-{1 + at % 28:02d}T10:00:{at % 60:02d}" for at in range(60)]
    days[7] = "2024-01-08T23:59:60"
    (tmp_path / "a.csv").write_text("t\n" + "\n".join(days) + "\n")
    with pytest.raises(InputError, match=r"has dates but '2024-01-08T23:59:60' in line 9 of"):
        read(tmp_path / "a.csv")


def test_columns_of_frames_are_not_renamed_by_accident():
    frame = pd.DataFrame({"a": VALUES, "b": VALUES + 1.0})
    for columns in (["b", "a"], "ab"):
        with pytest.raises(InputError, match="choose columns of data frames by"):
            compare(frame, frame, columns=columns, n_resamples=39, progress=False)
    with pytest.raises(InputError, match="columns are names for an array"):
        Monitor(frame, columns=["a"])


@pytest.mark.parametrize(
    "kind", [Monitor, lambda frame, **options: Monitors(frame, "g", **options)]
)
def test_a_monitor_takes_no_confidence_for_a_level(kind):
    frame = pd.DataFrame({"a": VALUES, "g": ["u", "v"] * 30})
    with pytest.raises(InputError, match=r"for a confidence of 0\.95 pass 0\.05"):
        kind(frame, alpha=0.95)


def test_pairs_with_other_labels_are_refused():
    first = pd.DataFrame({"a": VALUES}, index=range(60))
    second = first.set_index(pd.Index(range(5, 65)))
    with pytest.raises(InputError, match="different row labels: 0 and 5 in row 1"):
        compare(first, second, paired=True, n_resamples=39, progress=False)
    with pytest.raises(InputError, match="different row labels"):
        independence_test(first, second, n_resamples=39, progress=False)
    # Rows of two files in one frame have labels of their own.
    other = first.set_index(pd.Index(range(60, 120)))
    compare(first, other + 0.1, paired=True, n_resamples=39, progress=False)


def test_rows_without_a_stream_are_noted():
    frame = pd.DataFrame({"a": VALUES, "g": ["u", "v"] * 30})
    monitors = Monitors(frame, "g")
    monitors.update(frame.assign(g=["u", None] * 30))
    assert "Rows without a value of 'g' are dropped." in monitors.notes


def test_an_index_with_a_meaning_is_noted():
    frame = pd.DataFrame({"a": VALUES}, index=pd.date_range("2024-01-01", periods=60))
    assert "the index of pandas is left out" in read(frame)[1]
    assert "index" not in read(frame.reset_index(drop=True).iloc[::-1])[1]


def test_groups_of_one_number_are_one_group():
    table = pd.DataFrame({"g": ["1", "1.0", "2"] * 40, "a": np.tile(VALUES, 2)})
    assert len(compare_groups(table, "g", **QUIET).comparisons) == 1


def test_rows_that_repeat_are_noted():
    users = np.repeat([f"u{at}" for at in range(20)], 10)
    means = np.repeat(np.random.default_rng(1).normal(size=40), 10)
    tables = (pd.DataFrame({"user": users, "v": part}) for part in (means[:200], means[200:]))
    assert "keep them together with --clusters user" in read(*tables)[1]
    whole = pd.DataFrame({"v": VALUES})
    assert "Every row of P occurs 3 times" in read(pd.concat([whole] * 3), whole)[1]


def test_sentinels_of_samples_are_noted():
    values = VALUES.copy()
    values[:6] = -999.0
    notes = compare(values, VALUES, n_resamples=39, progress=False).notes
    assert any("is -999 in some rows" in note for note in notes)


def test_single_values_are_taken_for_lists():
    table = {"v": [*VALUES[:55], *[-99.0] * 5]}
    assert compare_tables(table, table, na_values=-99, **QUIET)["v"].effect.missing == (
        5 / 60,
        5 / 60,
    )


def test_names_that_are_no_utf_8_in_a_large_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,b\n".encode("latin-1") + b"1,2\n" * 20_000)
    with pytest.raises(InputError, match="is not utf-8 in line 1"):
        read(path)
    with pytest.warns(UserWarning, match="read as Latin-1"):
        assert read_sample(path).columns == ("größe", "b")


def test_a_quote_within_a_cell_closes_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n5" pipe,z\n6 pipe,"x\ny"\n')
    assert as_table(path, "P").data.to_pylist()[1] == {"a": "6 pipe", "b": "x\ny"}


def test_a_file_whose_name_has_brackets(tmp_path):
    path = tmp_path / "a[1].csv"
    path.write_text("[mm],b\n1,2\n3,4\n")
    assert read_sample(path).columns == ("[mm]", "b")


def test_spreadsheets_without_a_header_and_with_equal_names(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    pd.DataFrame([[1.5, 2.0], [3.0, 4.0]]).to_excel(path, index=False, header=False)
    assert read_sample(path).values.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    with pytest.raises(InputError, match=r"has the number 1\.5 in row 1"):
        as_table(path, "P")
    pd.DataFrame([["x", "x"], [3.0, 4.0]]).to_excel(path, index=False, header=False)
    with pytest.raises(InputError, match="2 columns named 'x'"):
        read_sample(path)


def test_a_cell_of_a_stream_has_one_value_in_any_batch():
    monitor = Monitor({"v": [f"{value:.2f}".replace(".", ",") for value in VALUES]})
    for batch in (["1.234"], ["1.234", "12,5"]):
        values, notes = monitor._reader.values(as_table({"v": batch}, "rows"))
        assert np.isnan(values[0, 0])
        assert "'1.234', no number" in notes[0]


def test_codes_of_many_digits_and_categories_of_numbers_in_streams():
    codes = [1_234_567_890_123_456, 1_234_567_890_123_457]
    monitor = Monitor({"k": pd.Categorical(np.tile(codes, 30))})
    rows = pd.DataFrame({"k": np.array([*codes, np.nan])})
    np.testing.assert_array_equal(
        monitor._reader.values(as_table(rows, "rows"))[0][:, 0], [0, 1, np.nan]
    )


def test_lines_of_json_that_no_table_has():
    from bke.inference.io.tables import parse_json_objects, table_of_objects

    lines = ['{"a": 1, "b": "\\ud800"}', json.dumps({"a": 10**30, "b": "x"}), "{"]
    rows, bad = parse_json_objects([line.encode() for line in lines])
    table = table_of_objects(rows)
    assert table["b"].to_pylist() == ["?", "x"]
    assert table["a"].to_pylist() == ["1", str(10**30)]
    assert bad == {2: "no JSON object"}


def test_two_files_of_samples_have_one_format(tmp_path):
    first, second = tmp_path / "p.csv", tmp_path / "q.csv"
    first.write_text("v;w\n6.096;1\n1.241;2\n")
    second.write_text("v;w\n3.557,5;1\n4.120;2\n")
    with pytest.warns(UserWarning, match="points between thousands"):
        samples = read_samples([first, second])
    assert [sample.values[:, 0].tolist() for sample in samples] == [[6096, 1241], [3557.5, 4120]]
    second.write_text("v;w\n3557;1\n4120;2\n")
    with pytest.raises(InputError, match=r"'1\.241'|'6\.096'.* that may be written with"):
        read_samples([first, second])
    first.write_text("v;w\n6.09;1\n1.2;2\n")
    second.write_text("v;w\n3,5;1\n4,12;2\n")
    with pytest.raises(InputError, match=r"'v' has decimal points in .* and decimal commas in"):
        read_samples([first, second])


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["2.387,00 €", "23,87 €"], [2387.0, 23.87]),
        (["€ 2.387,50", "€ 3,00"], [2387.5, 3.0]),
        (["23,87€", "24,00€"], [23.87, 24.0]),
        (["1,234.50 $", "$3.00"], [1234.5, 3.0]),
    ],
)
def test_signs_of_a_currency_stand_before_or_after_amounts(cells, values):
    columns, notes = read({"v": cells * 30})
    assert sorted(set(columns["v"].values)) == sorted(values)
    assert "signs of a currency" in notes


def test_what_is_missing_by_default_needs_no_note():
    table = {"v": ["1.5", "n/a", "2.5"] * 20}
    assert "No cell" not in read(table, na_values=["n/a"])[1]
    assert "No cell is k.A." in read(table, na_values=["k.A."])[1]


def test_one_name_is_excluded():
    found = compare_tables(
        {"ab": VALUES, "c": VALUES}, {"ab": VALUES, "c": VALUES}, exclude="ab", **QUIET
    )
    assert [column.name for column in found.columns] == ["c"]


def test_large_whole_numbers_of_a_spreadsheet(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"v": [10**30, 2.5]}, dtype=object).to_excel(tmp_path / "a.xlsx", index=False)
    assert as_table(tmp_path / "a.xlsx", "P").data["v"].to_pylist() == [1e30, 2.5]


def test_one_boolean_in_text_is_that_of_frames():
    text, frame = {"v": ["False", ""] * 30}, {"v": [False, None] * 30}
    assert read(text)[0]["v"].kind == read(frame)[0]["v"].kind == "boolean"
    assert read({"v": ["yes", ""] * 30})[0]["v"].kind == "category"


def compared(before, after=None, **options):
    return compare_tables(before, before if after is None else after, **QUIET, **options)


@pytest.mark.parametrize("as_cells", [list, lambda days: pd.Series(days), lambda days: days.date])
def test_dates_that_stand_for_missing_ones(as_cells):
    days = pd.DatetimeIndex(pd.date_range("2024-01-01", periods=60).astype("datetime64[us]"))
    after = days[:50].append(pd.DatetimeIndex(["9999-12-31"] * 10).astype("datetime64[us]"))
    before, after = (pd.DataFrame({"d": as_cells(part)}) for part in (days, after))
    _, note = read(before, after)
    assert "'d' is 9999-12-31 in 8.3% of the rows, far from all others" in note
    assert "--na-value=9999-12-31 " in note
    columns, note = read(before, after, na_values=["9999-12-31"])
    assert np.isnan(columns["d"].values).sum() == 10
    assert "far from all others" not in note
    columns, _ = read(before, after, sentinels="missing")
    assert np.isnan(columns["d"].values).sum() == 10


def test_a_day_stands_for_its_hours_among_missing_values():
    hours = pd.Series(HOURS).astype("datetime64[us]")
    columns, _ = read(pd.DataFrame({"d": hours}), na_values=["2024-01-02"])
    assert np.isnan(columns["d"].values).sum() == 2 * sum(one.day == 2 for one in HOURS)


def test_births_long_before_others_are_no_missing_dates():
    births = pd.Series(pd.date_range("1935-01-01", periods=60, freq="200D"))
    births[:10] = pd.Timestamp("1900-01-01")
    assert (
        "'d' is 1900-01-01 in 16.7% of the rows, far from all others: if it stands for a missing "
        "value, say so with --na-value=1900-01-01 (na_values=) or --sentinels missing."
    ) in read(pd.DataFrame({"d": births}))[1]
    births[10:20] = pd.Timestamp("1910-01-01")
    births[20:30] = pd.Timestamp("1890-01-01")
    assert "far from all others" not in read(pd.DataFrame({"d": births}))[1]


def test_formats_that_no_column_has_are_noted():
    table = pd.DataFrame({"v": ["1,5", "2,25"] * 30, "w": VALUES})
    assert "No column has" not in read(table, formats=["decimal commas"])[1]
    note = read(table, formats=["day/month/year"])[1]
    assert note.startswith("No column has day/month/year, as --format says.")


@pytest.mark.parametrize("role", ["strata", "clusters"])
def test_true_in_two_spellings_is_one_value(role):
    before = pd.DataFrame({"g": ["true", "false"] * 30, "v": VALUES})
    after = pd.DataFrame({"g": ["True", "FALSE"] * 30, "v": VALUES})
    tables = [as_table(before, "P"), as_table(after, "Q")]
    found = pool_tables(tables, None, (), ReadOptions({}), Roles(**{role: "g"}))
    assert found.role_columns["g"].levels == ("false", "true")
    both = pd.concat([before, after])
    assert "of 1 comparison" in str(compare_groups(both, by="g", n_resamples=39, progress=False))


def test_booleans_among_numbers_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"v": 1.5}\n{"v": 2.5}\n' * 20 + '{"v": true}\n')
    for table in (path, {"v": [*VALUES, True]}):
        with pytest.raises(InputError, match=r"column 'v' has numbers but 'true' in row"):
            read(table)


@pytest.mark.parametrize("reference", [VALUES, VALUES > 0.0, (VALUES > 0.0) * 1])
def test_booleans_in_a_stream_of_numbers_are_missing(reference):
    monitor = Monitor({"v": reference, "w": VALUES})
    values, notes = monitor._reader.values(as_table({"v": [True, False], "w": [0.0, 0.0]}, "rows"))
    if reference is VALUES:
        assert np.isnan(values[:, 0]).all()
        assert notes == [
            "'v' has 2 cells such as 'true', no number with decimal points as in the reference: "
            "read as missing."
        ]
    else:
        np.testing.assert_array_equal(values[:, 0], [1.0, 0.0])
        assert notes == []


def test_columns_that_the_reference_of_a_monitor_lacks_are_noted():
    monitor = Monitor(pd.DataFrame({"v": VALUES, "w": VALUES}), exclude=["w"])
    assert monitor.update(pd.DataFrame({"v": -VALUES, "w": VALUES})).notes == ()
    (note,) = monitor.update(pd.DataFrame({"v": -VALUES, "vv": VALUES})).notes
    assert note == "Rows have columns that are not in the reference, and not watched: 'vv'."


def test_missing_values_of_a_monitor():
    values = np.r_[VALUES[:50], [-999.0] * 10]
    (note,) = Monitor({"v": values}).notes
    assert note.startswith("'v' is -999 in some rows of the reference, far from all others")
    (note,) = Monitor({"v": VALUES}, na_values=[-99]).notes
    assert note == "No cell is -99, as --na-value says."


def test_sentinels_are_warned_of_where_models_are_learned():
    from bke.inference import fit, learn_conditional

    values = np.r_[VALUES[:50], [-999.0] * 10]
    with pytest.warns(UserWarning, match="X: 'x' is -999 in 10 rows, far from all others"):
        fit(values, progress=False, seed=0)
    with pytest.warns(UserWarning, match="Y: 'x' is -999 in 10 rows, far from all others"):
        learn_conditional(VALUES, values, factors=(1.0,))


def test_paired_is_true_or_false():
    with pytest.raises(InputError, match="paired must be True or False, got 'yes'"):
        compare(VALUES, VALUES, paired="yes")


def test_comments_above_names_and_numbers(tmp_path):
    data = np.column_stack([VALUES, VALUES**2])
    for options in ({}, {"delimiter": ","}):
        sep = options.get("delimiter", " ")
        np.savetxt(tmp_path / "a.txt", data, header=f"made here\na{sep}b", **options)
        columns, note = read(tmp_path / "a.txt")
        np.testing.assert_array_equal(columns["a"].values[:60], VALUES)
        assert list(columns) == ["a", "b"]
        assert "1 line above the header left out, the first is '# made here'" in note
        np.savetxt(tmp_path / "b.txt", data, header="all made here", **options)
        with pytest.warns(UserWarning, match="1 line above the header left out"):
            sample = read_sample(tmp_path / "b.txt")
        np.testing.assert_array_equal(sample.values, data)


def test_row_names_of_r_without_a_name(tmp_path):
    path = tmp_path / "r.txt"
    for separator in " ,\t":
        lines = [['"a"', '"b"'], *([f'"{at}"', "1.5", str(at / 7)] for at in range(40))]
        path.write_text("".join(separator.join(line) + "\n" for line in lines))
        with pytest.raises(InputError, match=r"3 cells in line 2 but 2 columns .*col\.names = NA"):
            read(path)


def test_backslashes_before_quotes_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("v,c\n" + '1,"say \\"hi\\" now"\n2,no\n3,"C:\\dir\\"\n' * 9)
    assert "9 cells of 'c' have backslashes before quotes" in read(path)[1]


def test_several_files_that_are_not_parquet(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("v\n1\n2\n")
    with pytest.raises(InputError, match=r"matches a\.csv, and only Parquet files"):
        read(tmp_path / "*.csv")


def test_characters_without_width_are_noted():
    table = pd.DataFrame({"c": ["de\u200b", "fr"] * 30, "v": VALUES})
    assert read(table)[1] == r"'c' has invisible characters, such as in 'de\u200b'."


def test_bytes_of_zero_and_keys_that_come_twice_in_streams():
    def batch(raw):
        stream = RowStream(io.BytesIO(raw), ("v", "k"), ("v", "k"))
        return [table.data.to_pydict() for table in stream.batches(9)], stream.notes

    found, notes = batch(b"v,k\n1,a\n2\0,b\n3,c\n")
    assert found == [{"v": ["1", "3"], "k": ["a", "c"]}]
    assert notes == ["Left out for a byte of zero: 1 line, the first of them line 3."]
    found, notes = batch(b'{"v": 1, "k": "a"}\n{"v": 2, "v": 3, "k": "b"}\n')
    assert found == [{"v": [1], "k": ["a"]}]
    assert notes == ["Left out for a key twice: 1 line, the first of them near line 2."]
    with pytest.raises(InputError, match="the stream is not text in UTF-8"):
        batch("v,k\n1,a\n".encode("utf-16"))


def workbook(path, rows, sheets=()):
    """Write a workbook whose first sheet has these rows, which pandas would not write."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for name in sheets:
        book.create_sheet(name).append(["v"])
    book.save(path)
    return path


def test_titles_errors_and_empty_rows_of_spreadsheets(tmp_path):
    path = tmp_path / "a.xlsx"
    rows = [[float(one), "c" if at % 3 else None] for at, one in enumerate(VALUES)]
    columns, note = read(workbook(path, [["Report"], [], ["v", "k"], *rows, [], []]))
    np.testing.assert_allclose(columns["v"].values[:60], VALUES, rtol=1e-14)
    assert np.isnan(columns["k"].values).sum() == 40
    assert "1 row above the header left out, the first is 'Report'." in note
    for error in ("#DIV/0!", "#N/A"):
        with pytest.raises(InputError, match=f"column 'v' has numbers but '{error}' in line 32 of"):
            read(workbook(path, [["v", "k"], *rows[:30], [error, "c"], *rows[30:]]))
    with pytest.raises(InputError, match=r"sheet 'Sheet', is empty; .* move another to the front"):
        read(workbook(path, [], ["data"]))


@pytest.mark.parametrize("as_cells", [list, pd.Categorical])
def test_versions_are_kept_apart(as_cells):
    before, after = ({"v": as_cells([text, "1.2"] * 30)} for text in ("1.1", "1.10"))
    columns, note = read(pd.DataFrame(before), pd.DataFrame(after))
    assert "'v' has texts that are one number, such as '1.1' and '1.10'" in note
    if as_cells is list:
        assert columns["v"].kind == "number"
        assert "--column-type v=category" in note
    else:
        assert columns["v"].levels == ("1.1", "1.10", "1.2")


def test_versions_in_a_stream_are_noted():
    versions = {"v": ["1.1", "1.2"] * 30}
    monitor = Monitor(versions)
    assert monitor.update({"v": ["1.10", "1.2"] * 30}).notes[0].startswith("'v' has texts that")
    assert monitor._reader.values(as_table(versions, "rows"))[1] == []
    assert Monitor(versions, column_types={"v": "category"}).update({"v": ["1.10"] * 60}).alarm


def test_numbers_with_as_many_decimals_in_each_table_need_no_note():
    for before, after in ((["1.5", "2.25"], ["1.50", "2.25"]), (["1.0", "2"], ["1", "2.0"])):
        assert read({"v": before * 30}, {"v": after * 30})[1] == ""


@pytest.mark.parametrize("role", ["strata", "clusters"])
def test_versions_are_kept_apart_in_roles(role):
    table = pd.DataFrame({"g": ["3.1", "3.10"] * 30, "v": VALUES})
    tables = [as_table(table, "P"), as_table(table, "Q")]
    found = pool_tables(tables, None, (), ReadOptions({}), Roles(**{role: "g"}))
    assert found.role_columns["g"].levels == ("3.1", "3.10")
    tables[1] = as_table(table.assign(g=[1, 2] * 30), "Q")
    tables[0] = as_table(table.assign(g=["01", "02"] * 30), "P")
    with pytest.raises(InputError, match=r"'g' holds text in P and numbers in Q: write them alike"):
        pool_tables(tables, None, (), ReadOptions({}), Roles(**{role: "g"}))


def test_versions_are_groups_of_their_own():
    table = pd.DataFrame({"g": ["3.1", "3.10", "3.2"] * 40, "a": np.tile(VALUES, 2)})
    found = compare_groups(table, "g", column_types={"g": "category"}, **QUIET)
    assert len(found.comparisons) == 2
    assert any("such as '3.1' and '3.10', which are kept apart" in note for note in found.notes)


def test_whole_numbers_beyond_double_precision_are_codes():
    codes = [2**53, 2**53 + 1]
    columns, note = read({"k": codes * 30}, {"k": codes[:1] * 60})
    assert columns["k"].levels == tuple(map(str, codes))
    assert "for numbers subtract a common number" in note
    assert read({"k": list(map(str, codes)) * 30})[0]["k"].levels == tuple(map(str, codes))
    unsigned = np.array(codes * 30, dtype=np.uint64)
    assert read({"k": unsigned}, {"k": codes * 30})[0]["k"].levels == tuple(map(str, codes))
    with pytest.raises(InputError, match=r"'k' has whole numbers beyond 2\^53"):
        read({"k": codes * 30}, {"k": [float(codes[0])] * 60})


def test_decimals_beyond_double_precision_are_refused():
    cells = [decimal.Decimal(f"1.00000000000000000{digit}") for digit in "12"]
    with pytest.raises(InputError, match="'d' has decimals that double precision does not"):
        read({"d": cells * 30})


@pytest.mark.parametrize("cells", [["(1)", "(2)"], ["1-", "2"]])
def test_negative_numbers_are_noted_with_numbers_in_the_other_table(cells):
    columns, note = read({"d": cells * 30}, {"d": [1, 2] * 30})
    assert columns["d"].values.min() < 0
    assert f"'d' has numbers such as '{cells[0]}', read as negative." in note


def test_points_between_thousands_and_whole_numbers_are_refused():
    numbers_of = list(range(1000, 9000, 20))
    texts = [f"{one // 1000}.{one % 1000:03d}" for one in numbers_of]
    with pytest.raises(InputError, match=r"'1\.000' that may be written with decimal points or"):
        read({"d": texts}, {"d": numbers_of})
    columns, _ = read(
        {"d": texts}, {"d": numbers_of}, formats=["points between thousands and decimal commas"]
    )
    np.testing.assert_array_equal(*np.split(columns["d"].values, 2))


@pytest.mark.parametrize("after", [["TRUE", "FALSE"], ["y", "n"], ["no", "YES"], [True, False]])
def test_booleans_in_two_spellings(after):
    columns, _ = read({"v": ["Yes", "No"] * 30}, {"v": after * 30})
    assert columns["v"].kind == "boolean"
    assert len(columns["v"].levels) == 2
    assert read({"v": ["yes", "true"] * 30})[0]["v"].kind == "category"


def test_values_that_repeat_in_one_table_alone_are_noted():
    rng = np.random.default_rng(0)

    def patients(start):
        names = np.repeat([f"P{start + at:03d}" for at in range(40)], 10)
        table = pd.DataFrame({"patient": names, "v": rng.normal(size=400)})
        return table.sample(frac=1, random_state=0)

    assert "keep them together with --clusters patient" in read(patients(0), patients(40))[1]
    assert "--clusters" not in read(patients(0), patients(0))[1]


def test_sentinels_of_pairs_are_noted():
    values = np.r_[VALUES[:50], [-999.0] * 10]
    notes = independence_test(values, VALUES, n_resamples=39, progress=False).notes
    assert any(note.startswith("X: 'x' is -999 in some rows, far from all") for note in notes)


def test_rows_of_empty_cells(tmp_path):
    path, rows = tmp_path / "a.csv", "1.5;x\n2.5;y\n" * 20
    path.write_text(f"a;b\n{rows};\n{rows}" + ";\n ; \n" * 9)
    table = as_table(path, "P")
    assert table.data.num_rows == 81
    assert table.notes == (
        f"{path}: 18 rows of empty cells at the end left out.",
        f"{path}: 1 row of empty cells kept.",
    )
    path.write_text(f'a;b\n{rows}"";""\n')
    assert as_table(path, "P").data.num_rows == 40


def test_rows_of_empty_cells_in_streams():
    stream = RowStream(io.BytesIO(b"v,k\n1,a\n,\n3,c\n,\n"), ("v", "k"), ("v", "k"))
    (table,) = stream.batches(9)
    assert table.data.to_pydict() == {"v": ["1", "3"], "k": ["a", "c"]}
    (note,) = stream.notes
    assert note == "Left out for empty cells alone: 2 lines, the first of them near line 3."


def test_an_encoding_is_not_that_of_files_in_utf_8(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    text = "a,b\n" + "Köln,1.5\nBonn,2.5\n" * 30
    for path, encoding in zip(paths, ("cp1252", "utf-8"), strict=True):
        path.write_text(text, encoding=encoding)
    tables = [as_table(path, "P", "cp1252") for path in paths]
    assert tables[0].data == tables[1].data
    assert [table.notes for table in tables] == [
        (),
        (f"{paths[1]} is UTF-8, and read as such, not as cp1252.",),
    ]


TEXT = b"a,b\n" + b"1,x\n2,y\n" * 30


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + TEXT, "is a PDF file: write its table"),
        ("a.csv", gzip.compress(TEXT, mtime=0), r"is compressed by gzip: name it \.csv\.gz"),
        ("a.csv", lzma.compress(TEXT), "is compressed by xz: unpack it"),
        ("a.csv", b"PK\x03\x04" + TEXT, r"is a workbook or a ZIP archive: name it \.xlsx"),
        ("a.csv.gz", TEXT, r"it is not compressed: leave \.gz out of its name"),
        ("a.csv.xz", TEXT, r"has the suffix '\.xz'; unpack it"),
        ("a.csv.lz4", TEXT, r"text also with \.gz or \.zst or \.bz2"),
        ("a.xlsx", TEXT, r"Excel file, and reading it|it may be text: name it \.csv"),
        ("a.json", b'[{"a": 1}]', r"write one JSON object in each line, and name it \.jsonl"),
        ("a.jsonl", b'[{"a": 1}]', "write each object of an array in a line of its own"),
    ],
)
def test_files_of_another_format_than_their_suffix(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    for encoding in (None, "cp1252"):
        with pytest.raises(InputError, match=message):
            as_table(tmp_path / name, "P", encoding)


@pytest.mark.parametrize("text", [TEXT.decode(), "a,b\n1,2\n", "x" * 300])
def test_text_in_place_of_a_path(text):
    with pytest.raises(InputError, match=r"is not the path of a file: .*StringIO\(text\)"):
        compare_tables(text, {"a": [1]})


def test_addresses_and_pipes_in_place_of_a_file():
    with pytest.raises(InputError, match=r"https://example\.org/a\.csv is not a file: download it"):
        read("https://example.org/a.csv")
    with pytest.raises(InputError, match="is not a regular file: write a pipe or stream to a file"):
        read("/dev/null")


def test_errors_name_the_sheet_that_is_read(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["a", "b"], [1.5, "x"], [2.5, "y"]], ["data"])
    with pytest.raises(InputError, match=r"only 6 distinct perm.*'Sheet', is read, and not 'data'"):
        compare_tables(path, path, **QUIET)


def test_signs_for_missing_numbers_are_named_with_negative_numbers():
    table = {"v": ["(1,234.50)", "2,000.00", "-"] * 20}
    for other in (table, {"v": [1.5, 2.5] * 30}):
        with pytest.raises(InputError, match=r"has numbers but '-' in row 3 .*--na-value=- "):
            read(table, other)


def test_single_quotes_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("c,v\n" + "'a,b',1.5\n" * 20)
    with pytest.raises(InputError, match='write " for quotes, where it has single ones'):
        read(tmp_path / "a.csv")


def test_missing_objects_of_several_types():
    cells = ["a", "b"] * 20 + [pd.NA, pd.NaT, None, np.nan]
    columns, _ = read(pd.DataFrame({"d": pd.Series(cells, dtype=object)}))
    assert np.isnan(columns["d"].values[:44]).sum() == 4


def test_large_numbers_and_equal_single_precision_are_explained():
    with pytest.raises(InputError, match="divide the column by a power of ten"):
        compare(VALUES * 1e300, VALUES, **QUIET)
    rows = (VALUES + 1e9).astype(np.float32)
    with pytest.raises(InputError, match=r"in float32, which rounds .* to multiples of 64"):
        compare(rows, rows, **QUIET)


def test_more_groups_than_two_are_for_compare_groups():
    with pytest.raises(InputError, match=r"'g' has 3 values, .*: for more use compare_groups"):
        compare_tables({"g": [1, 2, 3] * 20, "v": VALUES}, by="g", **QUIET)


def test_exponents_of_fortran(tmp_path):
    for separator in " ,":
        rows = f"1250.1{separator}1.25D+03\n1300.2{separator}1.5d-01\n" * 20
        (tmp_path / "a.txt").write_text(f"x{separator}y\n{rows}")
        columns, note = read(tmp_path / "a.txt")
        assert set(columns["y"].values) == {1250.0, 0.15}
        assert "'y' is read as numbers with exponents of Fortran" in note
    assert read({"v": ["1d5", "2d3"] * 30})[0]["v"].kind == "category"


@pytest.mark.parametrize(
    ("before", "after", "advice"),
    [
        (HOURS, list(range(60)), r"pandas\.to_datetime\(\.\.\., unit='s'\)"),
        ([datetime.timedelta(1)] * 60, list(range(60)), r"with \.dt\.total_seconds\(\)"),
        ([datetime.timedelta(1)] * 60, HOURS, "convert one to the type of the other"),
    ],
)
def test_columns_of_two_types_are_refused_with_a_conversion(before, after, advice):
    with pytest.raises(InputError, match=advice):
        read({"t": before}, {"t": after})


def test_objects_that_are_no_tables_are_refused_with_a_conversion():
    xarray, ml_dtypes = (pytest.importorskip(name) for name in ("xarray", "ml_dtypes"))
    for data in (xarray.Dataset({"v": ("x", VALUES)}), xarray.DataArray(VALUES)):
        with pytest.raises(InputError, match=r"give \.to_dataframe\(\) of it"):
            read(data)
    values = VALUES.astype(ml_dtypes.bfloat16)
    for function, data in ((compare, values), (compare_tables, {"v": values})):
        with pytest.raises(InputError, match=r"\.astype\('float32'\)"):
            function(data, data, **QUIET)


def test_columns_with_encoded_runs():
    runs = pa.RunEndEncodedArray.from_arrays([30, 60], [1.5, 2.5])
    np.testing.assert_array_equal(read(pa.table({"v": runs}))[0]["v"].values[29:31], [1.5, 2.5])


def test_a_header_of_years_is_refused_with_advice(tmp_path):
    (tmp_path / "a.csv").write_text("country,2020,2021\n" + "de,1.5,2.5\n" * 20)
    with pytest.raises(InputError, match=r"a row of names above the data, .* as y2020 for 2020"):
        read(tmp_path / "a.csv")


def test_names_of_columns_that_are_numbers():
    table = pd.DataFrame({2020: VALUES, 2021: VALUES, 2022: [1, 2] * 30})
    for exclude in ([2020], 2020):
        found = compare_tables(
            table, by=2022, exclude=exclude, column_types={2021: "number"}, **QUIET
        )
        assert [column.name for column in found.columns] == ["2021"]
    assert [pair.columns for pair in compare_groups(table, 2022, **QUIET).comparisons[0].pairs]
    assert Monitor(table, exclude=[2020]).columns == ("2021", "2022")


def test_notes_of_monitors_count_cells():
    monitor = Monitor({"d": VALUES})
    monitor.update({"d": ["5%", "6%"] * 10})
    assert any("'d' has 20 cells such as '5%', no number" in note for note in monitor.notes)


def test_tables_with_the_same_rows_are_noted():
    table = pd.DataFrame({"a": VALUES, "c": ["x", None] * 30})
    assert compared(table, table.iloc[::-1]).notes[-1] == "before and after have the same rows."
    assert not any("same rows" in note for note in compared(table, table * 2).notes)


def test_rows_of_a_stratum_that_one_table_lacks_are_noted():
    before = pd.DataFrame({"g": ["u", "v"] * 30, "a": VALUES})
    after = before.assign(g=["u", "w", "w"] * 20)
    notes = compared(before, after, strata="g").notes
    assert any("Rows whose value of 'g' only one table has: 70." in note for note in notes)


def test_a_last_row_that_is_a_total_is_warned_of(tmp_path):
    path = tmp_path / "a.csv"
    rows = np.column_stack([VALUES**2, VALUES**4])
    np.savetxt(path, [*rows, rows.sum(axis=0)], header="a,b", comments="", delimiter=",")
    with pytest.warns(UserWarning, match="its last row is the sum of the others"):
        read_sample(path)


def test_free_text_with_digits_needs_no_note():
    texts = [f"{at} words were written on day {at**2}" for at in range(60)]
    columns, note = read({"d": texts})
    assert columns["d"].kind == "text"
    assert "digits" not in note


def test_dates_of_several_zones_are_described_by_their_offsets():
    zones = ["Europe/Berlin", "America/New_York"]
    moments = [pd.Timestamp(one).tz_localize(zones[at % 2]) for at, one in enumerate(HOURS)]
    before = pd.DataFrame({"t": pd.Series(moments, dtype=object)})
    after = pd.DataFrame({"t": pd.to_datetime(HOURS).tz_localize(zones[0])})
    note = read(before, after)[1]
    assert "by the local clock of Europe/Berlin; it has offsets from UTC in P." in note


def test_fewer_decimals_in_one_sample_are_noted():
    rng = np.random.default_rng(0)
    full = pd.DataFrame({"score": rng.integers(3, 16, 600) / 3})
    note = (
        "'score' has at most 4 decimals in P and more in Q: round both alike, for the rounding "
        "alone may explain a difference"
    )
    options = {"n_resamples": 199, "progress": False}
    result = compare_tables(full.round(4), full, names=("P", "Q"), **options)
    assert result.reject
    assert result.notes == (f"{note}.",)
    assert compare(full.round(4), full, **options).notes == (note,)
    tested = two_sample_test(full.round(4), full, **options)
    assert tested.notes == (note.replace("'score'", "column 1"),)
    single = (full.round(2).astype("float32"), full.astype("float32"))
    (note,) = compare_tables(*single, **options).notes
    assert note.startswith("'score' has at most 2 decimals in before and more in after")


def test_decimals_that_explain_no_difference_need_no_note():
    rng = np.random.default_rng(0)
    numbers, thirds = rng.normal(size=300), rng.integers(3, 16, 300) / 3
    pairs = [
        (numbers.round(4), numbers + 1.0),  # rounding merges few values
        (thirds.round(4), thirds.round(4) + 1.0),
        (thirds.round(4), thirds + 100.0),
        (rng.integers(0, 9, 300), rng.integers(4, 9, 300) / 2 + 10.0),
    ]
    for before, after in pairs:
        result = compare_tables({"v": before}, {"v": after}, **QUIET)
        assert result.reject
        assert not any("decimals" in note for note in result.notes)
    (note,) = compare_tables(
        {"v": rng.integers(0, 9, 300)}, {"v": rng.normal(9, 2, 300)}, **QUIET
    ).notes
    assert note.startswith("'v' has no decimals in before and some in after: round both alike")


@pytest.mark.parametrize(
    ("format_", "after"),
    [
        ("%m/%d/%y", "iso"),
        ("%m/%d/%y", "dates"),
        ("%m/%d/%Y %I:%M %p", "dates"),
        ("rupees", "numbers"),
        ("rupees", "texts"),
    ],
)
def test_text_is_no_category_where_the_other_table_has_numbers_or_dates(format_, after):
    dates = pd.date_range("2024-01-01", periods=200, freq="37h")
    numbers = 812_345.25 + 10_000.0 * np.arange(200)
    others = {
        "iso": dates.strftime("%Y-%m-%d").tolist(),
        "dates": dates,
        "numbers": numbers,
        "texts": list(map(str, numbers)),
    }
    texts = [f"{number // 1e5:.0f},{number % 1e5:09,.2f}" for number in numbers]
    if format_ != "rupees":
        texts = dates.strftime(format_).tolist()
    advice = r"not understood, .* in row 1 of P: convert it(, with years of four digits)?$"
    with pytest.raises(InputError, match=advice):
        read({"v": texts}, {"v": others[after]})
    if "%p" not in format_:  # texts of three words are text
        with pytest.raises(InputError, match="or take it for words"):
            read({"v": texts}, {"v": texts})


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_types_of_numpy_that_are_not_supported_are_named(make):
    for dtype, message in (
        ("complex128", "column 'z' of P has complex numbers: make columns of the real and"),
        ("complex64", "column 'z' of P has complex numbers: make columns of the real and"),
        ("longdouble", r"column 'z' of P has float128 numbers: .* \.astype\('float64'\)"),
    ):
        if dtype == "longdouble" and np.dtype(dtype).name != "float128":
            continue
        with pytest.raises(InputError, match=message):
            read(make({"a": VALUES, "z": VALUES.astype(dtype)}), {"z": VALUES})
    with pytest.raises(InputError, match="column 'z' of P has complex numbers"):
        read(make({"z": list(VALUES + 1j)}))


def test_arrays_of_xarray_are_tested_as_they_are_compared():
    xarray = pytest.importorskip("xarray")
    samples = VALUES, np.exp(VALUES)
    arrays = tuple(map(xarray.DataArray, samples))
    for function in (compare, two_sample_test, independence_test):
        assert function(*arrays, **QUIET).pvalue == function(*samples, **QUIET).pvalue
    pytest.importorskip("dask")
    chunked = xarray.DataArray(samples[0], dims="row").chunk({"row": 20})
    assert two_sample_test(chunked, arrays[1], **QUIET).pvalue <= 0.05


def test_points_stay_ambiguous_where_decimal_commas_are_preferred():
    numbers = np.random.default_rng(1).integers(1000, 9999, 300)
    texts = [f"{number:,}".replace(",", ".") for number in numbers]
    for formats in ([], ["decimal commas"], ["day/month/year"]):
        with pytest.raises(InputError, match="with decimal points or with points between"):
            read({"n": texts}, {"n": numbers}, formats=formats)
        with pytest.raises(InputError, match="with decimal points or with points between"):
            read({"n": texts}, {"n": list(map(str, numbers))}, formats=formats)
    columns, _ = read({"n": texts}, {"n": numbers}, formats=["decimal points"])
    np.testing.assert_array_equal(columns["n"].values[:300], numbers / 1000)
    thousands = ["points between thousands and decimal commas"]
    columns, _ = read({"n": texts}, {"n": numbers}, formats=thousands)
    np.testing.assert_array_equal(columns["n"].values[:300], numbers)


def test_categories_of_nearly_unique_cells_are_noted():
    numbers = np.random.default_rng(0).normal(100.0, 20.0, size=(2, 300))
    before, after = (
        {"d": [f"{number:.2f} {currency}" for number in part], "c": ["a", "b", "c"] * 100}
        for part, currency in zip(numbers, ("EUR", "USD"), strict=True)
    )
    tables = [as_table(before, "P"), as_table(after, "Q")]
    options = ReadOptions({"d": "category"})
    (note,) = pool_tables(tables, None, (), options, Roles()).notes
    levels = len(set(before["d"] + after["d"]))
    assert note.startswith(f"'d' is a category of 600 cells with {levels} different values: ")
    assert "almost no power" in note
    repeated = {"d": [f"{number % 40} EUR" for number in range(300)]}
    tables = [as_table(repeated, "P"), as_table(repeated, "Q")]
    notes = " ".join(pool_tables(tables, None, (), options, Roles()).notes)
    assert "almost no power" not in notes


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_times_since_1970_are_refused_with_their_unit(unit, factor):
    dates = pd.date_range("2024-01-01", periods=60, freq="37h")
    numbers = dates.astype("datetime64[s]").astype("int64").to_numpy() * int(factor)
    match = rf"pandas\.to_datetime\(\.\.\., unit='{unit}'\)"
    with pytest.raises(InputError, match=match):
        read({"t": numbers}, {"t": dates})
    for before, after in ((numbers, numbers), (list(map(str, numbers)), dates)):
        with pytest.raises(InputError, match=match):
            compare_tables({"t": before}, {"t": after}, column_types={"t": "datetime"}, **QUIET)


@pytest.mark.parametrize("word", ["Total", "SUMME:", "Grand total"])
def test_a_row_of_totals_is_noted(word):
    numbers = [*range(1, 31)]
    table = {"g": ["a", "b", "c"] * 10, "n": numbers}
    note = f"Row 31 of P has {word!r} in 'g', and in 'n' the sum of the other rows: leave it out"
    assert note in read({"g": [*table["g"], word], "n": [*numbers, sum(numbers)]}, table)[1]
    other = f"Row 31 of Q has {word!r}"
    assert other in read(table, {"g": [*table["g"], word], "n": [*numbers, sum(numbers)]})[1]
    assert (
        "the sum of the other rows" not in read({"g": [*table["g"], word], "n": [*numbers, 9]})[1]
    )


def test_samples_with_the_same_rows_are_noted():
    assert "u and v are the same rows" in compare(VALUES, VALUES, names=("u", "v"), **QUIET).notes
    assert "P and Q are the same rows" in compare(VALUES, VALUES[::-1], **QUIET).notes
    assert not any("same rows" in note for note in compare(VALUES, VALUES + 1.0, **QUIET).notes)


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_ends_of_regions_are_distinguished(scale):
    rng = np.random.default_rng(0)
    before, after = 1.4e9 + scale * rng.uniform(size=(2, 400)) * [[1.0], [0.3]]
    text = str(compare_tables({"n": before}, {"n": after}, **QUIET))
    ends = re.findall(r"higher density from (\S+) to ([\d.]+\d)", text)
    assert ends
    for low, high in ends:
        assert float(low) < float(high)
        assert low.startswith("1400000000")


def test_the_index_of_pandas_is_noted_once():
    frame = pd.DataFrame({"v": VALUES}, index=[f"a{at}" for at in range(60)])
    notes = compare_tables(frame, frame * 2, **QUIET).notes
    about = "the index of pandas is left out: .reset_index() compares it."
    assert [note for note in notes if "index" in note] == [f"before and after: {about}"]
    frame.index.name = "id"
    notes = compare_tables(frame, {"v": VALUES}, **QUIET).notes
    about = "the index 'id' of pandas is left out: .reset_index() compares it."
    assert [note for note in notes if "index" in note] == [f"before: {about}"]
    frame.index = pd.MultiIndex.from_product([range(6), range(10)], names=["a", "b"])
    notes = compare_tables(frame, frame * 2, **QUIET).notes
    about = "the index 'a', 'b' of pandas is left out: .reset_index() compares it."
    assert [note for note in notes if "index" in note] == [f"before and after: {about}"]
    assert len(frame.columns) == 1


def test_tables_of_one_row_are_noted():
    for tables in (({"v": [1.0]}, {"v": VALUES}), ({"v": VALUES}, {"v": [1.0]})):
        (note,) = (note for note in compare_tables(*tables, **QUIET).notes if "one row" in note)
        assert note.startswith("before" if len(tables[0]["v"]) == 1 else "after")


def test_interval_of_means_counts_frequencies_as_rows():
    values = np.random.default_rng(0).normal(0.0, 5.0, 300)
    frame = pd.DataFrame({"v": values, "w": 4})
    expanded = pd.DataFrame({"v": np.repeat(values, 4)})
    options = {"n_resamples": 99, "progress": False}
    effects = [
        compare_tables(frame, frame.assign(v=values + 1.0), freq_weights="w", **options),
        compare_tables(expanded, expanded + 1.0, **options),
    ]
    first, second = (result.columns[0].effect.mean_difference_interval for result in effects)
    np.testing.assert_allclose(first, second, rtol=1e-3)


DAYS = pd.Series(pd.date_range("2024-01-01", periods=300))


@pytest.mark.parametrize(
    ("numbers", "advice"),
    [
        ((DAYS - pd.Timestamp("1899-12-30")).dt.days, "unit='D', origin='1899-12-30'"),
        (DAYS.dt.strftime("%Y%m%d").astype(int), "format='%Y%m%d'"),
    ],
)
def test_conversions_of_numbers_to_dates_that_give_the_same_dates(numbers, advice):
    tables = pd.DataFrame({"v": DAYS}), pd.DataFrame({"v": numbers})
    with pytest.raises(InputError, match=re.escape(f"pandas.to_datetime(..., {advice})")):
        compare_tables(*tables, progress=False)
    converted = pd.to_datetime(numbers, **eval(f"dict({advice})"))
    np.testing.assert_array_equal(converted, DAYS)


def test_names_that_differ_by_capital_letters_or_are_in_the_index():
    frame = pd.DataFrame({"v": np.arange(60.0), "k": ["a", "b"] * 30})
    with pytest.raises(InputError, match="rename those that differ by capital letters"):
        compare_tables(frame, frame.rename(columns=str.upper), progress=False)
    with pytest.raises(InputError, match="reset_index"):
        compare_tables(frame.set_index("k"), frame, progress=False)
    two = pd.DataFrame(np.ones((60, 2)), columns=["v", "v"])
    with pytest.raises(InputError, match="columns with one name: rename them"):
        compare_tables(two, two, progress=False)


def test_two_digit_years_are_named_in_the_table_that_has_them():
    dates = pd.Series(pd.date_range("1931-01-01", periods=300, freq="59D"))
    tables = pd.DataFrame({"v": dates}), pd.DataFrame({"v": dates.dt.strftime("%d/%m/%y")})
    with pytest.raises(InputError, match=r"'01/01/31' in row 1 of after.*years of four digits"):
        compare_tables(*tables, progress=False)


TWO = np.random.default_rng(2).normal(size=(60, 2))
FRAME = pd.DataFrame({"a": TWO[:, 0], "b": TWO[:, 1], "ab": VALUES})


@pytest.mark.parametrize(
    "monitored",
    [
        lambda: Monitor(FRAME, exclude="ab").columns,
        lambda: Monitors(FRAME.assign(g=["u", "v"] * 30), "g", exclude="ab").monitors["u"].columns,
    ],
)
def test_a_string_is_one_excluded_column(monitored):
    assert monitored() == ("a", "b")


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize(
    "call",
    [
        lambda names: compare(VALUES, VALUES, names=names, **QUIET),
        lambda names: compare_tables(FRAME, FRAME, names=names, **QUIET),
        lambda names: compare(TWO, TWO, columns=names, **QUIET),
        lambda names: Monitor(TWO, columns=names),
        lambda names: fit(TWO, columns=names),
        lambda names: open_blocks([TWO], columns=names),
        lambda names: choose_columns(Path("a.csv"), ["a", "b"], names),
        lambda names: compare_chains(TWO.reshape(2, 30, 2), columns=names),
    ],
)
def test_sets_are_refused_where_the_order_matters(call, kind):
    with pytest.raises(InputError, match="must be in an order, and a set has none"):
        call(kind(["a", "b"]))


@pytest.mark.parametrize(
    "call",
    [
        lambda names: compare(TWO, TWO, columns=names, **QUIET),
        lambda names: Monitor(TWO, columns=names),
        lambda names: fit(TWO, columns=names),
    ],
)
def test_a_string_is_the_name_of_one_column(call):
    with pytest.raises(InputError, match="columns has 1 name, but the data have 2 columns"):
        call("ab")


def test_one_column_may_be_named_by_a_string():
    assert compare(VALUES, VALUES + 1.0, columns="speed", **QUIET).columns == ("speed",)
    assert Monitor(VALUES, columns="speed").columns == ("speed",)


@pytest.mark.parametrize("flag", ["sequential", "progress"])
@pytest.mark.parametrize("test", [compare, two_sample_test, independence_test, compare_tables])
def test_flags_are_true_or_false(test, flag):
    samples = (VALUES, VALUES[::-1] ** 2)
    if test is compare_tables:
        samples = tuple({"v": sample} for sample in samples)
    with pytest.raises(InputError, match=f"{flag} must be True or False, got 'no'"):
        test(*samples, **{**QUIET, flag: "no"})


def test_other_flags_are_true_or_false():
    with pytest.raises(InputError, match="identifiers must be True or False, got 'no'"):
        compare_tables(FRAME, FRAME, identifiers="no", **QUIET)
    with pytest.raises(InputError, match="rest must be True or False, got 'no'"):
        compare_groups(FRAME.assign(g=["u", "v"] * 30), "g", rest="no", **QUIET)
    with pytest.raises(InputError, match="weighted must be True or False, got 'no'"):
        thin(TWO, 10, weighted="no")


def matrix(columns, rows=None):
    """A matrix of xarray, whose columns a and b have the means 0 and 5."""
    values = TWO + [5.0 * (name == "b") for name in columns]
    coords = {"v": list(columns)} | ({} if rows is None else {"o": rows})
    return xr.DataArray(values, dims=("o", "v"), coords=coords)


@pytest.mark.parametrize("test", [compare, two_sample_test])
def test_columns_of_xarray_are_matched_by_name(test):
    P, Q = matrix("ab"), matrix("ba")
    assert test(P, Q, **QUIET).pvalue > 0.05
    assert test(P.to_pandas(), Q, **QUIET).pvalue > 0.05
    with pytest.raises(InputError, match="the columns are a, b in one sample and a, c in another"):
        test(P, matrix("ac"), **QUIET)


def test_columns_of_xarray_have_names():
    P, numbered = matrix("ab"), matrix("ab").assign_coords(v=[1, 2])
    assert compare(P, P + 1.0, **QUIET).columns == ("a", "b")
    assert compare(numbered, numbered + 1.0, **QUIET).columns == ("x0", "x1")
    monitor = Monitor(P)
    assert monitor.columns == ("a", "b")
    values, _ = monitor._reader.values(matrix("ba"))
    np.testing.assert_allclose(values[:, 1].mean(), 5.0, atol=0.5)


@pytest.mark.parametrize(
    "label",
    [
        lambda rows: pd.Series(VALUES, index=rows),
        lambda rows: xr.DataArray(VALUES, dims="o", coords={"o": rows}),
        lambda rows: xr.DataArray(VALUES, dims="o", coords={"id": ("o", rows)}),
        lambda rows: matrix("ab", rows),
    ],
)
@pytest.mark.parametrize(
    "test",
    [
        lambda P, Q: compare(P, Q, paired=True, **QUIET),
        lambda P, Q: two_sample_test(P, Q, paired=True, **QUIET),
        lambda P, Q: independence_test(P, Q, **QUIET),
    ],
)
def test_labels_of_rows_in_another_order_are_refused(test, label):
    with pytest.raises(InputError, match="same row labels in another order"):
        test(label(np.arange(60)), label(np.arange(60)[::-1]))


@pytest.mark.parametrize(
    "label", [pd.Series, lambda values, rows: xr.DataArray(values, {"o": rows})]
)
def test_weights_have_the_labels_of_the_rows(label):
    rows = np.arange(60)
    P = label(VALUES, rows)
    compare(P, P + 1.0, weights=(label(rows + 1.0, rows), None), **QUIET)
    with pytest.raises(InputError, match="different row labels: 59 and 0 in row 1"):
        compare(P, P + 1.0, weights=(label(rows + 1.0, rows[::-1]), None), **QUIET)


@pytest.mark.parametrize("kernel", [None, "median", "bkl", "posterior", "multiscale"])
def test_paired_rows_are_checked_with_every_kernel(kernel):
    options = {"kernel": kernel, "paired": True, **QUIET}
    P = pd.DataFrame({"x": VALUES}, index=[f"id{row}" for row in range(60)])
    with pytest.raises(InputError, match="same row labels in another order"):
        two_sample_test(P, P[::-1] + 0.1, **options)
    P = pytest.importorskip("polars").DataFrame({"id": np.arange(60), "x": VALUES})
    with pytest.raises(InputError, match="same values of 'id' in different orders"):
        two_sample_test(P, P[::-1], **options)


@pytest.fixture
def countries(tmp_path):
    """A folder of Parquet files in folders named by a country."""
    for country in ("DE", "US"):
        (tmp_path / f"country={country}").mkdir()
        file = tmp_path / f"country={country}" / "part.parquet"
        pd.DataFrame({"v": VALUES}).to_parquet(file, index=False)
    return tmp_path


@pytest.mark.parametrize("pattern", [".", "*/*.parquet", "**/*.parquet", "country=*/*.parquet"])
def test_partitions_of_parquet_files_are_columns(countries, pattern, monkeypatch):
    monkeypatch.chdir(countries.parent)
    for folder in (countries, Path(countries.name)):
        table = as_table(folder / pattern, "P")
        assert table.data.column_names == ["v", "country"]
        assert pa.compute.unique(table.data["country"]).to_pylist() == ["DE", "US"]
        assert not table.notes
    monkeypatch.chdir(countries)
    assert as_table(pattern, "P").data.column_names == ["v", "country"]


@pytest.mark.parametrize("pattern", ["", "part.parquet", "*.parquet"])
def test_folders_above_are_no_columns_and_noted(countries, pattern):
    table = as_table(countries / "country=DE" / pattern, "P")
    assert table.data.column_names == ["v"]
    assert "the folder 'country=DE' is not read as a column" in table.notes[0]


def test_points_that_may_be_thousands_are_noted_in_samples(tmp_path):
    rows = [f"{number:,}".replace(",", ".") for number in range(1000, 9000, 99)]
    path = tmp_path / "a.csv"
    path.write_text("v;w\n" + "".join(f"{cell};{row}\n" for row, cell in enumerate(rows)))
    note = "'v' is read with decimal points, such as 1.000; if they are between thousands"
    with pytest.warns(UserWarning, match=note):
        read_sample(path)
    assert note in read(path)[1]


@pytest.mark.parametrize("read_rows", [lambda X: compare(X, X, **QUIET), Monitor])
def test_numbers_beyond_double_precision_are_refused(read_rows):
    close = 1.0 + np.longdouble("1e-18") * np.arange(60)
    if (close == close[0]).all():
        pytest.skip("long double is double precision here")
    for rows in (close, np.column_stack([VALUES, close])):
        with pytest.raises(InputError, match="equal in double precision: subtract a common number"):
            read_rows(rows)


@pytest.mark.parametrize("read_rows", [lambda X: compare(X, X, **QUIET), Monitor])
def test_a_data_frame_of_objects_is_advised(read_rows):
    with pytest.raises(InputError, match=r"pass pandas\.DataFrame of the rows"):
        read_rows([{"a": value} for value in VALUES])


def test_a_data_frame_of_a_structured_array_is_advised(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(5, dtype=[("a", float), ("b", float)]))
    with pytest.raises(InputError, match=r"structured array: write pandas\.DataFrame of it"):
        read_sample(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("index", "description"),
    [
        (pd.Index(VALUES, name="temperature"), "the index 'temperature'"),
        (pd.Index(np.arange(60) // 3, name="age"), "the index 'age'"),
        (
            pd.MultiIndex.from_product([["a", "b"], range(30)], names=["s", "t"]),
            "the index 's', 't'",
        ),
    ],
)
@pytest.mark.parametrize("test", [compare, two_sample_test])
def test_an_index_that_is_not_compared_is_noted(test, index, description):
    P = pd.DataFrame({"a": VALUES}, index=index)
    note = "of {} is not compared: .reset_index() makes it a column"
    assert f"{description} {note.format('P and Q')}" in test(P, P + 1.0, **QUIET).notes
    assert f"{description} {note.format('P')}" in test(P, P.to_numpy() + 1.0, **QUIET).notes


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(60, name="row"),
        pd.Index(range(0, 120, 2)),
        pd.Index(list("abc") * 20, name="g"),
    ],
)
def test_labels_of_rows_need_no_note(index):
    P = pd.DataFrame({"a": VALUES}, index=index)
    for result in (compare(P, P + 1.0, **QUIET), two_sample_test(P, P + 1.0, **QUIET)):
        assert not any("index" in note for note in result.notes)
    P.index = pd.Index(VALUES, name="temperature")
    assert not any("index" in note for note in compare(P, P + 1.0, paired=True, **QUIET).notes)


ARRAY = [{"a": value, "k": "u, v"} for value in VALUES]


@pytest.mark.parametrize(
    "text", [json.dumps(ARRAY), json.dumps(ARRAY, indent=1), "[[1,2],\n[3,4]]"]
)
def test_an_array_of_json_is_no_stream(text):
    stream = RowStream(io.BytesIO(text.encode()), ("a", "k"), ("a",), ("a",))
    with pytest.raises(InputError, match="write each object of an array in a line of its own"):
        next(stream.batches(10))


@pytest.mark.parametrize("value", [None, "m"])
def test_missing_strata_in_both_tables_are_compared(value):
    strata = pd.Series(["u", value] * 30, dtype=object)
    before = pd.DataFrame({"s": strata, "v": VALUES})
    after = before.assign(v=VALUES[::-1] + 3.0)
    notes = " ".join(compared(before, after, strata="s").notes)
    assert "only one table has" not in notes
    after = after.assign(s="u")
    assert "only one table has: 30." in " ".join(compared(before, after, strata="s").notes)


@pytest.mark.parametrize(
    ("first", "second"), [("31/12/2024", "2024-12-31"), ("a", "A"), (None, "a"), ("a", None)]
)
def test_strata_in_other_spellings_are_named(first, second):
    before = pd.DataFrame({"s": pd.Series([first] * 60, dtype=object), "v": VALUES})
    after = before.assign(s=pd.Series([second] * 60, dtype=object))
    first, second = ("missing" if value is None else repr(value) for value in (first, second))
    message = f"such as {first} in the first and {second} in the second: write equal strata in one"
    with pytest.raises(InputError, match=message):
        compared(before, after, strata="s")


@pytest.mark.parametrize("types", ["a=number", ["ab"], [("a", "number")]])
@pytest.mark.parametrize(
    "call",
    [
        lambda types: compare_tables(FRAME, FRAME, column_types=types, **QUIET),
        lambda types: Monitor(FRAME, column_types=types),
        lambda types: compare_groups(
            FRAME.assign(g=["u", "v"] * 30), "g", column_types=types, **QUIET
        ),
    ],
)
def test_types_of_columns_are_a_dictionary(call, types):
    with pytest.raises(InputError, match="column_types must be a dictionary"):
        call(types)


@pytest.mark.parametrize(
    "row",
    [
        pd.Series({"b": 5.0, "a": 0.0}),
        xr.DataArray([5.0, 0.0], dims="v", coords={"v": ["b", "a"]}),
    ],
)
def test_cells_of_one_row_are_matched_by_name(row):
    for monitor in (Monitor(matrix("ab")), Monitor(matrix("ab").values, columns=["a", "b"])):
        np.testing.assert_array_equal(monitor._reader.values(row)[0], [[0.0, 5.0]])


UUIDS = [str(uuid.UUID(int=10**30 * row + 11)) for row in range(1, 21)]
DATES = pd.Series(pd.date_range("2024-01-05", periods=20))


@pytest.mark.parametrize("role", ["clusters", "strata"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([f"{row:03d}" for row in range(1, 21)], [str(row) for row in range(1, 21)]),
        (DATES.dt.strftime("%Y-%m-%d"), DATES.dt.strftime("%d.%m.%Y")),
        (DATES.dt.strftime("%Y-%m-%d"), DATES.dt.strftime("%Y%m%d")),
        ([f"{row:,}" for row in range(1001, 1021)], [str(row) for row in range(1001, 1021)]),
        (list(map(uuid.UUID, UUIDS)), [text.upper() for text in UUIDS]),
        ([f"site-{row:02d}" for row in range(20)], [f"Site {row}" for row in range(20)]),
    ],
)
def test_values_of_roles_in_two_spellings_are_refused(role, first, second):
    before = pd.DataFrame({"c": list(first) * 3, "v": VALUES})
    after = pd.DataFrame({"c": list(second) * 3, "v": VALUES[::-1]})
    with pytest.raises(InputError, match=rf"first and .* in the second: write equal {role} in one"):
        compared(before, after, **{role: "c"})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (range(20), range(20, 40)),
        ([f"1-{row}1" for row in range(20)], [f"11-{row}" for row in range(20)]),
        ([f"{row}+" for row in range(20)], [f"{row}-" for row in range(20)]),
        ([f"1.0{row}" for row in range(1, 21)], [f"1.{row}5" for row in range(20)]),
        (UUIDS, [text.replace("a", "b") for text in UUIDS]),
    ],
)
def test_clusters_of_one_table_alone_are_compared(first, second):
    before = pd.DataFrame({"c": list(first) * 3, "v": VALUES})
    after = pd.DataFrame({"c": list(second) * 3, "v": VALUES[::-1]})
    assert "spelling" not in " ".join(compared(before, after, clusters="c").notes)


def test_a_few_clusters_in_two_spellings_are_noted():
    codes = [f"{letter}{digit}" for digit in range(3) for letter in "abcdefghij"]
    before = pd.DataFrame({"c": ["Xq", *codes[:29]] * 2, "v": VALUES})
    after = pd.DataFrame({"c": ["xQ", *(f"{code}k" for code in codes[:29])] * 2, "v": VALUES})
    notes = " ".join(compared(before, after, clusters="c").notes)
    assert (
        "1 value of 'c' may differ in spelling alone, such as 'Xq' in the first and 'xQ'" in notes
    )


@pytest.mark.parametrize("missing", [0, "0", -0.0])
def test_zeros_of_both_signs_are_missing(tmp_path, missing):
    frame = pd.DataFrame({"x": np.where(np.arange(60) % 5 == 0, -0.0, VALUES)})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for table in (frame, tmp_path / "a.parquet", tmp_path / "a.csv"):
        columns, _ = read(table, na_values=[missing])
        assert np.isnan(columns["x"].values).sum() == 24
    monitor = Monitor(frame, na_values=[missing])
    assert np.isnan(monitor._reader.values(as_table(frame, "rows"))[0]).sum() == 12


def test_keys_of_independence_tests_in_another_order_are_refused():
    keys = np.arange(60) + 7000
    X = pd.DataFrame({"id": keys, "x": VALUES})
    Y = pd.DataFrame({"y": VALUES[::-1], "id": keys[::-1]})
    Z = pd.DataFrame({"z": np.random.default_rng(1).normal(size=60)})
    message = "same values of 'id' in different orders"
    with pytest.raises(InputError, match=message):
        independence_test(X, Y, **QUIET)
    for given in ((X, Z, Y), (Z, X, Y)):
        with pytest.raises(InputError, match=message):
            conditional_independence_test(*given, **QUIET)
    notes = independence_test(X, Y[::-1].reset_index(drop=True), **QUIET).notes
    for variable in "XY":
        start = f"{variable}: the numbers of 'id' are all different, as those of an identifier"
        assert any(note.startswith(start) for note in notes)
    notes = independence_test(np.arange(60), VALUES, **QUIET).notes
    assert "identifier" not in " ".join(notes)


@pytest.mark.parametrize(
    ("cells", "pair"),
    [
        (["0E1", "0E2", "3E1", "0E5"], "'0E1' and '0E2'"),
        (["1E2", "10E1", "2E2"], "'1E2' and '10E1'"),
        (["1E2", "100", "205"], "'1E2' and '100'"),
        (["12e4", "120e3", "5e1"], "'12E4' and '120E3'"),
        (["1.5e-05", "1.50E-5", "3e+02", "300", "1.5E4"], ""),
        (["1E2", "1E3", "7E1"], ""),
        (["1e2", "1E2", "5e1"], ""),
    ],
)
def test_codes_like_exponents_are_noted(tmp_path, cells, pair):
    table = pd.DataFrame({"v": cells * 12})
    table.to_csv(tmp_path / "a.csv", index=False)
    columns, notes = read(tmp_path / "a.csv")
    assert columns["v"].kind in ("number", "integer")
    assert ("texts that are one number" in notes) == bool(pair)
    assert pair in notes


IDS = np.random.default_rng(0).choice(90_000, 20, replace=False) + 10_000


@pytest.mark.parametrize(
    ("numbers", "is_noted"),
    [
        (np.repeat(IDS, 3), True),
        (np.repeat(10 * IDS, 3), True),
        (np.append(np.repeat(IDS, 3)[:-1], IDS[0]), False),
        (np.repeat(np.arange(1990, 2010), 3), False),
        (np.repeat(np.arange(20) * 1000 + 10_000, 3), False),
        (np.repeat(2 ** np.arange(20), 3), False),
        (np.repeat([*range(1900, 2000, 10), *range(2001, 2011)], 3), False),
        (np.random.default_rng(1).choice(IDS, 60), False),
    ],
)
def test_whole_numbers_that_are_repeated_equally_often_are_noted(numbers, is_noted):
    frame = pd.DataFrame({"customer": numbers, "v": VALUES})
    columns, notes = read(frame)
    assert ("Rows repeat 'customer', 6 times on average" in notes) == is_noted
    assert "customer" in columns


@pytest.mark.parametrize(
    "cells",
    [
        ["-9999.0%", "12.5%", "3.1%"],
        ["-$9,999.00", "$12.50", "$1,300.00"],
        ["(9999.00)", "12.50", "3.10"],
        ["9999.00-", "12.50", "3.10"],
        ["\u22129999", "12.5", "3.1"],
        ["-9'999", "1'250", "300"],
        ["-9.999,0", "1.250,5", "300"],
        ["-9999", "12.5%", "3.1%"],
    ],
)
@pytest.mark.parametrize("missing", [-9999, "-9999"])
def test_missing_numbers_match_in_all_formats(cells, missing):
    frame = pd.DataFrame({"v": cells * 20, "w": VALUES})
    columns, notes = read(frame, na_values=[missing])
    assert np.isnan(columns["v"].values).sum() == 40
    assert "No cell is" not in notes
    monitor = Monitor(frame, na_values=[missing])
    rows = as_table(pd.DataFrame({"v": cells[:1], "w": [0.0]}), "rows")
    values, notes = monitor._reader.values(rows)
    assert np.isnan(values[0, 0])
    assert not notes


def test_missing_numbers_match_in_the_chosen_format():
    frame = pd.DataFrame({"v": ["-9,999", "1,250", "300"] * 20})
    columns, notes = read(frame, na_values=[-9999], formats=["commas between thousands"])
    assert np.isnan(columns["v"].values).sum() == 40
    assert "No cell is" not in notes


@pytest.mark.parametrize("text", ["x,z\n1,2,\n3,4,\n", "x\n1,\n2,\n", "x,z\n1,a,\n3,b,\n"])
def test_separators_at_the_end_of_lines_are_named(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match="remove the ',' at the end of each line"):
        as_table(tmp_path / "a.csv", "P")
    (tmp_path / "a.csv").write_text("x,z\n1,2,5\n2,3,\n")
    with pytest.raises(InputError, match=r"name the first column too, as with col\.names = NA"):
        as_table(tmp_path / "a.csv", "P")


@pytest.mark.parametrize("types", [None, {"x": "category"}])
def test_whole_numbers_of_more_than_63_bits_are_words(types):
    size = np.uint64(2**64 - 1)
    before = {"x": size - np.arange(60, dtype=np.uint64) % 4, "v": VALUES}
    after = {"x": -1 - np.arange(60) % 4, "v": VALUES}
    result = compared(pd.DataFrame(before), pd.DataFrame(after), column_types=types)
    assert result.columns[0].kind == "category"
    assert result.columns[0].pvalue < 0.05
    notes = " ".join(result.notes)
    assert "subtract" not in notes
    assert ("since double precision does not distinguish them" in notes) == (types is None)


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (VALUES + 1j, "make columns of the real and of the imaginary part"),
        (VALUES.astype("S"), "decode the cells, or convert numbers"),
        (VALUES.tobytes(), r"pass numpy\.frombuffer of it"),
        (SimpleNamespace(values=VALUES), r"got SimpleNamespace: pass \.values of it"),
    ],
)
def test_conversions_to_an_array_are_advised(rows, advice):
    with pytest.raises(InputError, match=advice):
        compare(rows, rows, **QUIET)


def test_a_sample_of_a_file_and_an_expression_are_no_arrays(tmp_path):
    (tmp_path / "a.csv").write_text("v\n" + "\n".join(map(str, VALUES)))
    with pytest.raises(InputError, match=r"got Sample: pass \.values of it"):
        compare(read_sample(tmp_path / "a.csv"), VALUES, **QUIET)
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"got Expr: pass the result of \.select\(\) of it"):
        compare(polars.col("v"), VALUES, **QUIET)
    np.save(tmp_path / "a.npy", VALUES > 0.0)
    with pytest.raises(InputError, match=r"type bool, .*: convert it with \.astype\(int\)"):
        read_sample(tmp_path / "a.npy")
    with pytest.raises(
        InputError, match=r"got generator: give pandas\.DataFrame\(list\(\.\.\.\)\)"
    ):
        compare_tables(({"v": value} for value in VALUES), {"v": VALUES}, **QUIET)


def test_a_first_row_that_comes_again_may_be_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("red,x\nblue,y\nred,x\n")
    with pytest.raises(InputError, match="or write a row of names above the data if the first row"):
        as_table(tmp_path / "a.csv", "P")


def test_hidden_rows_of_a_sheet_are_noted(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row, value in enumerate(["v", *VALUES]):
        book.active.append([value, row if row else "row"])
        book.active.row_dimensions[row + 1].hidden = row in (3, 5)
    book.save(tmp_path / "a.xlsx")
    table = as_table(tmp_path / "a.xlsx", "P")
    assert len(table.data) == len(VALUES)
    assert any("2 hidden rows read like the others" in note for note in table.notes)


def test_quotes_with_backslashes_beside_commas_have_a_remedy(tmp_path):
    lines = [f'"say \\"hi\\", {row}",{row}\n' for row in range(20)]
    (tmp_path / "a.csv").write_text("text,v\n" + "".join(lines))
    with pytest.raises(InputError, match='write "" for a quote in a cell'):
        as_table(tmp_path / "a.csv", "P")


def test_a_hidden_first_sheet_is_noted(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("shown")):
        for row in (["v"], [1.0], [2.0]):
            sheet.append(row)
    book.worksheets[0].sheet_state = "hidden"
    book.active = 1
    book.save(tmp_path / "a.xlsx")
    (note,) = as_table(tmp_path / "a.xlsx", "P").notes
    assert "its first sheet, 'Sheet', which is hidden, is read, and not 'shown'" in note
