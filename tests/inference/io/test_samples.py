import contextlib
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bke.inference import open_rows
from bke.inference.core.errors import InputError
from bke.inference.io.samples import read_sample

EXPECTED = np.array([[1.0, 2.5], [-3.0, 4e2], [5.0, 0.0]])


def write(folder, content, name="P.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, **options):
    """The message with which a file is refused: one line that names the file."""
    with pytest.raises(InputError) as caught:
        read_sample(path, **options)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n1,2.5\n-3,4e2\n5,0\n",
        "x,y\r\n1,2.5\r\n-3,4e2\r\n5,0\r\n",
        "x,y\r1,2.5\r-3,4e2\r5,0",
        "x;y\n1;2.5\n-3;4e2\n5;0",
        "x;y\n1;2,5\n-3;4e2\n5,0;0\n",
        "x\ty\n1\t2.5\n-3\t4e2\n5\t0\n",
        "x y\n1  2.5\n -3 \t4e2 \n5 0\n",
        "x y\r1 2.5\r-3 4e2\r5 0",
        "x, y\n1, 2.5\n-3, 4e2\n5, 0\n",
        '"x","y"\n"1","2.5"\n-3,"4e2"\n5,0\n',
        '"x" "y"\n"1" "2.5"\n-3  "4e2"\n5 0\n',
        "\n\nx,y\n1,2.5\n\n-3,4e2\n   \n5,0\n\n\n",
        "\ufeffx,y\n1,2.5\n-3,4e2\n5,0\n",
        "x,y\n1,2.5\n-3,4e2\n5,0\n".encode("utf-16"),
        "x,y\n1,2.5\n-3,4e2\n5,0\n".encode("utf-32"),
    ],
)
def test_text_formats_with_header(tmp_path, text):
    sample = read_sample(write(tmp_path, text))
    assert sample.columns == ("x", "y")
    assert sample.values.dtype == np.float64
    np.testing.assert_array_equal(sample.values, EXPECTED)


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_no_header(tmp_path, mark, start):
    rows = [mark.join(map(str, row)) for row in EXPECTED]
    sample = read_sample(write(tmp_path, start + "\n".join(rows)))
    assert sample.columns == ("x0", "x1")
    np.testing.assert_array_equal(sample.values, EXPECTED)


def test_a_header_that_is_numeric_is_data(tmp_path):
    sample = read_sample(write(tmp_path, "2020,1e3\n1,2\n3,4\n"))
    np.testing.assert_array_equal(sample.values, [[2020, 1000], [1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "name"),
    [("wind\n3\n4\n", "wind"), ("wind speed\n3\n4\n", "wind speed"), ("3\n4\n", "x"),
     ("\n3\r\n4\r\n\r\n", "x"), ('"a, b"\n3\n4\n', "a, b"), ("Größe\n3\n4", "Größe")],
)  # fmt: skip
def test_a_single_column(tmp_path, text, name):
    sample = read_sample(write(tmp_path, text))
    assert sample.columns == (name,)
    np.testing.assert_array_equal(sample.values, [[3.0], [4.0]])


def test_pandas_counts_columns_without_its_index(tmp_path):
    path = write(tmp_path, ",0,1\n0,1.5,2\n1,3.5,4\n")
    assert read_sample(path, columns=["1"]).values.tolist() == [[2.0], [4.0]]
    with pytest.raises(InputError, match="no name for column 1"):
        read_sample(path)


def test_sample_is_frozen_and_has_the_path_of_its_file(tmp_path):
    sample = read_sample(str(write(tmp_path, "1\n2\n")))
    assert sample.path == tmp_path / "P.csv"
    with pytest.raises(AttributeError):
        sample.path = Path("Q.csv")


@pytest.mark.parametrize(
    ("columns", "names", "values"),
    [
        (["Wind"], ("Wind",), [[7.0], [8.0]]),
        (["2"], ("Wind",), [[7.0], [8.0]]),
        ([2, "Temp"], ("Wind", "Temp"), [[7.0, 40.0], [8.0, 45.0]]),
        ("Temp", ("Temp",), [[40.0], [45.0]]),
    ],
)
def test_choice_of_columns_skips_text(tmp_path, columns, names, values):
    path = write(tmp_path, "day,Temp,Wind\nMonday,40,7\nTuesday,45,8\n")
    sample = read_sample(path, columns=columns)
    assert sample.columns == names
    np.testing.assert_array_equal(sample.values, values)


def test_name_comes_before_index(tmp_path):
    frame = "a,b,0\n"
    path = write(tmp_path, frame.replace("0", "zero") + "1,2,3\n")
    assert read_sample(path, columns=["0"]).columns == ("a",)
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1.0], "0": [2.0]}).to_parquet(tmp_path / "P.parquet")
    assert read_sample(tmp_path / "P.parquet", columns=["0"]).values[0, 0] == 2.0


@pytest.mark.parametrize(
    ("text", "options", "facts"),
    [
        ("", {}, ["is empty"]),
        ("\n \r\n\n", {}, ["is empty"]),
        ("\ufeff", {}, ["is empty"]),
        ("x,y\n", {}, ["columns and no rows"]),
        ("x,y\n1,2\n3,calm\n", {}, ["'calm'", "line 3", "'y'", "number"]),
        ("x,y\r\n1,2\r\n\r\n3,calm\r\n", {}, ["'calm'", "line 4", "'y'"]),
        ("a,1\nb,2\n", {}, ["line 1", "'a'", "header"]),
        ("1.O,2\n3,4\n", {}, ["line 1", "'1.O'"]),
        ("1,2\n3,1_000\n", {}, ["'1_000'", "line 2", "column 2"]),
        ("x;y\n1,5;2\n1.23;3\n", {}, ["'1,5'", "line 2", "'x'"]),
        ("x,y\n1,2\n3,\n", {}, ["missing", "line 3", "'y'", "1 in all"]),
        ("1,2\nNA,4\nnan,5\n", {}, ["missing", "line 2", "column 1", "2 in all"]),
        ("1,,3\n4,5,6\n", {}, ["missing", "line 1", "column 2"]),
        ("x\n1\n\n2\n", {}, ["missing", "line 3", "'x'"]),
        ('x\n1\n""\n', {}, ["missing", "line 3", "'x'"]),
        ("inf\n1\n2\n", {}, ["infinite", "line 1"]),
        ("x,y\n1,2\n3,-inf\n", {}, ["infinite", "line 3", "'y'"]),
        ("x,y\n1,2\n3\n", {}, ["1 cell in line 3", "2 columns"]),
        ("x,y\n1,2\n3,4,5\n", {}, ["3 cells in line 3", "2 columns"]),
        ("1 2\n3 4\n5\n", {}, ["1 cell in line 3", "2 columns"]),
        ('x,y\n1,"2\n3,4\n', {}, ["a quote in line 2 that is not closed"]),
        (b"\x00\x01\x02", {}, ["not a text file"]),
        (",x\n1,5\n2,6\n", {}, ["column 1", "header"]),
        ("x,x\n1,2\n3,4\n", {}, ["2 columns named 'x' in line 1"]),
        ("x,x\n1,2\n3,4\n", {"columns": ["x"]}, ["2 columns named 'x' in line 1"]),
        ("x,y\n1,2\n", {"columns": ["wind"]}, ["'wind'", "'x', 'y'", "0 to 1"]),
        ("x,y\n1,2\n", {"columns": ["2"]}, ["'2'", "0 to 1"]),
        ("x,y\n1,2\n", {"columns": ["y", "1"]}, ["twice"]),
        ("x,y\n1,2\n", {"columns": []}, ["no column"]),
    ],
)
def test_refused_text(tmp_path, text, options, facts):
    message = refusal(write(tmp_path, text), **options)
    for fact in facts:
        assert fact in message


def test_nan_in_row_17(tmp_path):
    entries = [str(value) for value in range(1, 31)]
    entries[16] = "NaN"
    assert "line 17" in refusal(write(tmp_path, "\n".join(entries)))
    assert "line 18" in refusal(write(tmp_path, "x\r\n" + "\r\n".join(entries)))
    array = np.arange(60.0).reshape(30, 2)
    array[16, 1] = np.nan
    np.save(tmp_path / "P.npy", array)
    message = refusal(tmp_path / "P.npy")
    assert "column 2 (the first is 1) has a missing value in row 17 (1 in all)" in message


def test_long_text_is_shortened(tmp_path):
    message = refusal(write(tmp_path, f"x,y\n1,{'a' * 5000}\n"))
    assert len(message) < 260 + len(str(tmp_path))


def test_files_that_are_none(tmp_path):
    assert "does not exist" in refusal(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "folder" in refusal(tmp_path / "folder.csv")
    for name, fact in (("P.doc", "'.doc'"), ("P", "no suffix")):
        message = refusal(write(tmp_path, "1\n2\n", name))
        assert fact in message
        assert all(known in message for known in (".csv", ".parquet", ".npy"))
    for name in ("P.npy", "P.parquet"):
        assert "is empty" in refusal(write(tmp_path, b"", name))


def test_unreadable_file(tmp_path, monkeypatch):
    path = write(tmp_path, "1\n2\n")

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pyarrow.input_stream", refuse)
    assert "Permission denied" in refusal(path)


@pytest.mark.parametrize(
    "array",
    [np.array([[1, 2], [3, 4]]), np.array([1.5, 2.5], np.float32), np.array([3, 4], np.uint8),
     np.asfortranarray(np.arange(6.0).reshape(3, 2))],
)  # fmt: skip
def test_npy(tmp_path, array):
    np.save(tmp_path / "P.NPY.npy", array)
    sample = read_sample(tmp_path / "P.NPY.npy")
    assert sample.values.dtype == np.float64
    np.testing.assert_array_equal(sample.values, array.reshape(len(array), -1))
    assert len(sample.columns) == sample.values.shape[1]


@pytest.mark.parametrize(
    ("array", "fact"),
    [
        (np.array([1, "a"], dtype=object), "Python objects"),
        (np.array([1j, 2.0]), "complex128"),
        (
            np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
            "structured array: write pandas.DataFrame of it",
        ),
        (np.array(["a", "b"]), "real numbers"),
        (np.array([True, False]), ": convert it with .astype(int)"),
        (np.zeros((2, 3, 4)), "3 dimensions"),
        (np.float64(3.0), "0 dimensions"),
        (np.zeros((0, 2)), "no data"),
        (np.array([1.0, np.inf]), "row 2"),
    ],
)
def test_refused_npy(tmp_path, array, fact):
    np.save(tmp_path / "P.npy", array, allow_pickle=True)
    assert fact in refusal(tmp_path / "P.npy")


def test_broken_npy(tmp_path):
    np.save(tmp_path / "P.npy", np.arange(100.0))
    path = write(tmp_path, (tmp_path / "P.npy").read_bytes()[:300], "cut.npy")
    assert "not a valid NPY" in refusal(path)
    assert "NPY" in refusal(write(tmp_path, "1,2\n3,4\n", "text.npy"))
    np.savez(tmp_path / "many.npz", a=np.arange(3))
    (tmp_path / "many.npz").rename(tmp_path / "many.npy")
    assert "NPZ" in refusal(tmp_path / "many.npy")


@pytest.fixture
def frame():
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {
            "whole": pd.array([1, 2, None], dtype="Int64"),
            "real": np.array([0.5, 1.5, 2.5], np.float32),
            "day": ["Mo", "Tu", "We"],
            "flag": [True, False, True],
            "when": pd.date_range("2020-01-01", periods=3),
        }
    )


def test_parquet(tmp_path, frame):
    frame.iloc[:2].to_parquet(tmp_path / "P.parquet")
    sample = read_sample(tmp_path / "P.parquet", columns=["real", "0"])
    assert sample.columns == ("real", "whole")
    np.testing.assert_array_equal(sample.values, [[0.5, 1], [1.5, 2]])


def test_parquet_decimals(tmp_path, frame):
    from decimal import Decimal

    frame["real"] = [Decimal("0.10"), Decimal("2.50"), Decimal("3.00")]
    frame[["real"]].to_parquet(tmp_path / "P.pq")
    np.testing.assert_array_equal(read_sample(tmp_path / "P.pq").values, [[0.1], [2.5], [3.0]])


@pytest.mark.parametrize(
    ("columns", "facts"),
    [(["whole"], ["missing", "row 3", "'whole'"]),
     (["day"], ["'Mo'", "row 1", "'day'", "--columns leaves"]),
     (["flag"], ["True", "row 1", "'flag'"]), (["when"], ["2020", "row 1", "'when'"]),
     (["wind"], ["'wind'", "'whole'"])],
)  # fmt: skip
def test_refused_parquet(tmp_path, frame, columns, facts):
    frame.to_parquet(tmp_path / "P.parquet")
    message = refusal(tmp_path / "P.parquet", columns=columns)
    for fact in facts:
        assert fact in message


def test_broken_parquet(tmp_path, frame):
    frame.to_parquet(tmp_path / "P.parquet")
    complete = (tmp_path / "P.parquet").read_bytes()
    for content in (complete[: len(complete) // 2], b"PAR1 no PAR1", b"x,y\n1,2\n"):
        assert "Parquet" in refusal(write(tmp_path, content, "P.parquet"))
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    assert "columns and no rows" in refusal(tmp_path / "none.parquet")


def test_commas_before_three_digits_are_decimal_if_another_cell_requires_it(tmp_path):
    assert "'1,234' in line 1, which may be written with decimal commas or with" in refusal(
        write(tmp_path, "1,234;5\n2,345;6\n")
    )
    for text, expected in (
        ("-12,345;5\n1,5;999,000\n", [[-12.345, 5.0], [1.5, 999.0]]),
        ("0,234;5\n2,345;6\n", [[0.234, 5.0], [2.345, 6.0]]),
        ("1,5;2\n1.234;961\n", [[1.5, 2.0], [1234.0, 961.0]]),
    ):
        np.testing.assert_array_equal(read_sample(write(tmp_path, text)).values, expected)


def test_a_first_row_that_numbers_the_columns_is_noted(tmp_path):
    """As pandas writes columns without names; a row that comes again is data."""
    with pytest.warns(UserWarning, match="its first row, 0, 1, is read as numbers"):
        assert len(read_sample(write(tmp_path, "0,1\n1.5,2\n")).values) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("0,1\n1,0\n0,1\n", "0\n1\n", "1,0\n0,1\n", "a,b\n0,1\n"):
            read_sample(write(tmp_path, text))


def test_a_first_row_of_years_is_noted(tmp_path):
    """They count on, or are whole above fractions, or are far from the numbers below them."""
    below = "".join(f"{150 + 3.5 * row},{0.1 * row + 0.01}\n" for row in range(1, 12, 2)) * 2
    counts = "".join(f"{row * 7 % 60},{row * 11 % 60}\n" for row in range(60))
    for text in (
        f"2024,2025\n{below}",
        "2023,2024,2025\n1,2,3\n4,5,6\n",
        "2024\n" + 12 * "1.5\n",
        f"1,2\n{below}",
        f"2,1\n{below}",
        "1,2\n" + 12 * "0.5,3\n",
        "1\n" + 12 * "1.5\n0.5\n",
        f"2019,2020\n{counts}",
        f"1,2\n{counts}",
        f"0,1\n{counts}0,1\n",
        "0\n" + "\n".join(str(row * 7 % 50) for row in range(50)) + "\n",
        "10,20\n" + 12 * "0,5\n4,1\n",
        "2019,2020\n" + 40 * "2011.25,2018.37\n2035.50,2022.81\n" + "2018.00,2030.00\n",
    ):
        row = text.split("\n")[0].replace(",", ", ")
        with pytest.warns(UserWarning, match=f"its first row, {row}, is read as numbers"):
            read_sample(write(tmp_path, text))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in (
            f"1,1\n{below}",  # names of columns differ
            f"160,1\n3,2\n{below}",  # some have none
            "2023,2024\n1,2\n",
            "1,2,3\n4,5,6\n",
            "0,20\n" + "".join(f"{0.5 * row:g},{20 + row}\n" for row in range(1, 20)),  # a grid
            "100\n" + 12 * "100.5\n101\n",
            f"2024.5,1\n{below}",
            "1990\n" + "".join(f"{1990 + row}\n" for row in range(1, 15)),
            "1990,3\n" + "".join(f"{1990 + row},{row * 7 % 5}\n" for row in range(1, 15)),
            "1,2\n" + "".join(f"{row},{row % 4}\n" for row in range(2, 15)),
            "1,2\n" + 10 * "2,3\n1,1\n1,2\n",
            "0\n" + 20 * "3\n1\n0\n",
        ):
            read_sample(write(tmp_path, text))
    assert "has an infinite value in line 1" in refusal(write(tmp_path, f"{'9' * 5000},1\n{below}"))


@pytest.mark.parametrize("name", ["a.npy", "a.parquet", "a.csv"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    for read in (read_sample, open_rows):
        with pytest.raises(InputError, match="is not a regular file"):
            read(tmp_path / name)


@pytest.mark.parametrize("name", [None, "id"])
def test_an_index_of_pandas_is_no_column(tmp_path, name):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=pd.Index([7, 9], name=name))
    frame.to_parquet(tmp_path / "a.parquet")
    expected_warning = (
        pytest.warns(UserWarning, match="index 'id' of pandas is left out")
        if name
        else (contextlib.nullcontext())
    )
    with expected_warning:
        assert read_sample(tmp_path / "a.parquet").columns == ("a", "b")
    assert open_rows(tmp_path / "a.parquet").columns == ("a", "b")
