"""Inputs that two readers would read in two ways are refused, or noted."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from bke.inference import (
    InputError,
    Monitor,
    Monitors,
    compare,
    compare_groups,
    compare_tables,
    independence_test,
    read_sample,
)
from bke.inference.io.samples import read_samples
from bke.inference.io.tables import as_table
from bke.inference.tables.pooled import ReadOptions, Roles, pooled

QUIET = {"permutations": 39, "sequential": False, "progress": False}
HOURS = [datetime.datetime(2024, 1, 1 + at % 28, 13) for at in range(60)]
TOKYO = datetime.timezone(datetime.timedelta(hours=9))
VALUES = np.random.default_rng(0).normal(size=60)


def read(before, after=None, **options):
    """The columns of two tables, and the notes."""
    tables = [
        as_table(table, name) for table, name in ((before, "P"), (after, "Q")) if table is not None
    ]
    tables = tables * 2 if after is None else tables
    found = pooled(tables, None, (), ReadOptions({}, **options), Roles())
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
            compare(frame, frame, columns=columns, permutations=39, progress=False)
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
        compare(first, second, paired=True, permutations=39, progress=False)
    with pytest.raises(InputError, match="different row labels"):
        independence_test(first, second, permutations=39, progress=False)
    # Rows of two files in one frame have labels of their own.
    other = first.set_index(pd.Index(range(60, 120)))
    compare(first, other + 0.1, paired=True, permutations=39, progress=False)


def test_rows_without_a_stream_are_noted():
    frame = pd.DataFrame({"a": VALUES, "g": ["u", "v"] * 30})
    monitors = Monitors(frame, "g")
    monitors.update(frame.assign(g=["u", None] * 30))
    assert "Rows without a value of 'g' are left out." in monitors.notes


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
    notes = compare(values, VALUES, permutations=39, progress=False).notes
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
    from bke.inference.io.tables import parse_json_line_by_line

    lines = ['{"a": 1, "b": "\\ud800"}', json.dumps({"a": 10**30, "b": "x"}), "{"]
    table, bad = parse_json_line_by_line([line.encode() for line in lines])
    assert table["b"].to_pylist() == ["?", "x"]
    assert table["a"].to_pylist() == ["1", str(10**30)]
    assert bad == [2]


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
