"""Tables are read from files of all kinds, or refused in one sentence."""

import bz2
import gzip
import io
import json
import lzma
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from bke.inference import InputError, compare_tables
from bke.inference.io.tables import as_table, parse_json_lines

FRAME = pd.DataFrame({"x": [1.5, 2.5, None], "word": ["a", "b,c", "d"], "n": [1, 2, 3]})
LINES = 'x,word,n\n1.5,a,1\n2.5,"b,c",2\n,d,3\n'


def write_table(folder, kind):
    path = folder / f"table.{kind}"
    arrow = pa.Table.from_pandas(FRAME)
    if kind == "csv":
        path.write_text("\ufeff" + LINES, encoding="utf-8")
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(LINES.encode(), mtime=0))
    elif kind == "csv.zst":
        with pa.output_stream(str(path), compression="zstd") as stream:
            stream.write(LINES.encode())
    elif kind == "tsv":
        path.write_text(FRAME.to_csv(sep="\t", index=False), encoding="utf-16")
    elif kind == "jsonl":
        path.write_text(FRAME.to_json(orient="records", lines=True))
    elif kind == "parquet":
        pa.parquet.write_table(arrow, path)
    elif kind == "feather":
        pa.feather.write_feather(arrow, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, arrow.schema) as stream:
            stream.write_table(arrow)
    return path


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "csv.zst", "tsv", "jsonl", "parquet", "feather", "arrow"]
)
def test_files_of_all_formats_are_read_equally(tmp_path, kind):
    columns = as_table(write_table(tmp_path, kind), "before").data.to_pydict()
    assert list(columns) == ["x", "word", "n"]
    assert columns["word"] == ["a", "b,c", "d"]
    assert [float(value) for value in columns["n"]] == [1, 2, 3]
    assert [float(value) for value in columns["x"][:2]] == [1.5, 2.5]
    assert columns["x"][2] in (None, "")


def test_a_folder_and_a_glob_of_parquet_files_are_a_single_table(tmp_path):
    for part in range(3):
        pa.parquet.write_table(pa.table({"x": [part, part + 10]}), tmp_path / f"{part}.parquet")
    for path in (tmp_path, tmp_path / "*.parquet"):
        assert sorted(as_table(path, "before").data["x"].to_pylist()) == [0, 1, 2, 10, 11, 12]
    assert as_table(tmp_path / "[01].parquet", "before").data.num_rows == 4
    with pytest.raises(InputError, match="has no Parquet files"):
        as_table(tmp_path / "no*.parquet", "before")


def parquet(columns):
    packed = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), packed)
    return packed.getvalue()


LONG = b"x,c\n" + b"1.0,a\n" * 20_000


TEXT = b"a,b\n" + b"1,x\n2,y\n" * 30

#: Files of another format than their suffix says, whatever their encoding.
OTHER_FORMATS = [
    ("a.csv", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + TEXT, "is a PDF file: write its table"),
    ("a.csv", gzip.compress(TEXT, mtime=0), r"is compressed by gzip: name it \.csv\.gz"),
    ("a.csv", lzma.compress(TEXT), "is compressed by xz: unpack it"),
    ("a.csv", b"PK\x03\x04" + TEXT, r"is a workbook or a ZIP archive: name it \.xlsx"),
    ("a.csv.gz", TEXT, r"it is not compressed: leave \.gz out of its name"),
    ("a.csv.xz", TEXT, r"has the suffix '\.xz'; unpack it"),
    ("a.csv.lz4", TEXT, r"text also with \.gz or \.zst or \.bz2"),
    ("a.xlsx", TEXT, r"Excel file, and reading it|it may be text: name it \.csv"),
    ("a.json", b'[{"a": 1}]', r"write one JSON object in each line, and name it \.jsonl"),
    ("a.jsonl", b'[{"a": 1}]', "JSON lines, one object each.*write each object of an array on a"),
    ("a.csv", b"PAR1 not really", "is a Parquet file: name it .parquet"),
]

BROKEN = [
    ("a.csv", b"", "is empty"),
    ("a.csv", b" \n\n", "is empty"),
    ("a.csv", b"x,y\n", "columns and no rows"),
    ("a.csv", b"1,2\n3,4\n", "has the number '1' in line 1"),
    ("a.csv", b"x,x\n3,4\n", "has 2 columns named 'x' in line 1"),
    ("a.csv", b"x,,\n3,4,5\n", "has 2 columns without a name"),
    ("a.csv", b"x,y\n1,2\n3\n4,5,6\n", r"has 1 cell in line 3 but 2 columns \(2 such lines\)"),
    ("a.csv", b"x,y\n1,\xff\n", "is not utf-8 in line 2"),
    ("a.csv", b"x\0y\n1,2\n", "is not a text file"),
    ("a.csv.gz", b"x,y\n1,2\n", "cannot be read|is not a readable"),
    (
        "a.csv.gz",
        gzip.compress(b"x,y\n1,2\n" * 99, mtime=0)[:-30],
        "cannot be read|is not a readable",
    ),
    ("a.jsonl", b'{"x": 1}\n{"x": ', "is not a readable file of JSON lines"),
    ("a.jsonl", b'{"x": 1}\n{"x": {"y": 2}}\n', "is not a readable file of JSON lines"),
    ("a.parquet", b"PAR1 not really", "is not readable as Parquet"),
    ("a.arrow", b"ARROW1 not really", "is not a readable .arrow file"),
    ("a.csv", LONG + b"1.0,\xff\n", "is not utf-8 in line 20002, column 'c'"),
    ("a.csv", LONG + b"1.0,a,b\n", "has 3 cells in line 20002 but 2 columns"),
    ("a.csv", b'x,c\n1,"a\n2,b\n3,c\n', "has a quote in line 2 that is not closed"),
    ("a.csv", "x,c\n1,a\n".encode("utf-16-le"), "is not a text file"),
    ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not a text file"),
    ("a.csv", b"<!doctype html>\n<p>Sign in, please</p>\n", "looks like HTML"),
    ("a.csv.bz2", bz2.compress(b"x,y\n1,2\n" * 99)[:-20], "cannot be read: Truncated"),
    ("a.tsv", b"x\ty\n1\t2\t3\n", "has 3 cells in line 2 but 2 columns"),
    ("a.csv.gz", gzip.compress(b"x,y\n", mtime=0), "has columns and no rows"),
    ("a.jsonl", b"1\n2\n", "JSON lines, one object each"),
    ("a.jsonl", b"null\n null\n", r"no JSON object in line 1 \(2 such lines\)"),
    ("a.jsonl", b'{"x": 1}\nnull\n', "no JSON object in line 2"),
    ("a.jsonl", b'\xef\xbb\xbfnull\n{"x": 1}\n', "no JSON object in line 1"),
    ("a.jsonl", b'{"x": 0}\n{"x": 1, "x": 2}\n', "a key twice in line 2"),
    ("a.jsonl", b'{"x": 1}\n\n{"x": 2\n5\n', r"no JSON object in line 3 \(2 such lines\)"),
    ("a.parquet", b"x,c\n1,a\n", "Parquet: Parquet magic bytes not found in footer$"),
    ("a.parquet", parquet({"x": [1.0] * 99})[:-40], "is not readable as Parquet"),
    ("a.parquet", parquet({"x": pa.array([], pa.float64())}), "columns and no rows"),
    ("a.xlsx", b"PK not really", "Excel file, and reading it needs|is not a readable Excel"),
    (
        "a.xlsx",  # the end of an archive, and other bytes instead of its list of one file
        b"x" * 46 + b"PK\5\6" + bytes(4) + b"\1\0\1\0\x2e\0\0\0" + bytes(6),
        "Excel file, and reading it needs|is not a readable Excel",
    ),
    ("a.doc", b"x", "has the suffix '.doc'"),
    ("a", b"x", "has no suffix"),
    ("a.csv", b'{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n', "looks like JSON: name it .jsonl"),
    ("a.csv", b'[{"x": 1}]\n', "is an array of JSON, and not JSON lines"),
    ("a.csv", b"<html>\n<td>1</td>\n</html>\n", "looks like HTML"),
    ("a.csv", b"a:b\n1:2\n3:4\n", "in every line, which may separate cells"),
    ("a.csv", b"name age\nAnn 31\nBob 42\n", "in every line, which may separate cells"),
    ("a.csv", b"a;b,c\n1;2,3\n4;5,6\n", "separated by ';' or by ','"),
    ("a.csv", b"comment\nhello, world\nbye, now\n", "2 cells in line 2 but 1 column"),
    ("a.csv", b"x\n1,5\n2,25\n3,5\n", "2 cells in line 2 but 1 column .*: write decimal points"),
    ("a.csv", b"Title\na,b\n1,2\n3\n", "1 cell in line 4 but 2 columns"),
    ("a.csv", b'"a\nb",c\n1,2\n3\n', "1 cell in line 4 but 2 columns"),
    ("a.csv", b"a;b;c\n" + b"1;2;3\n" * 9 + b"Total;18\n", "in line 11 but 3 columns: leave lines"),
    ("a.csv", b"x\r\r\n" + b"1\r\r\n" * 9, "two carriage returns"),
    ("a.csv", b"a,plan\n" + b"x,basic\n" * 18 + b"a,plan\n", "its header again in line 20"),
    ("a.csv", b'a,b\n1,"x \\"y, z\\" w"\n2,"u"\n', 'write "" for a quote in a cell'),
    ("a.csv", b"t,v\n" + b'"say \\"hi\\", 1",2\n' * 20, 'write "" for a quote in a cell'),
    ("a.csv", b"c,v\n" + b"'a,b',1.5\n" * 20, 'write " for quotes, where it has single ones'),
    ("a.csv", b"k,2020,2021\nde,1.5,2.5\n", "a row of names above the data, .* as y2020 for 2020"),
    ("a.csv", b"red,x\nblue,y\nred,x\n", "or write a row of names above the data if the first row"),
    ("a.csv", b"x,z\n1,2,\n3,4,\n", "remove the ',' at the end of each line"),
    ("a.csv", b"x\n1,\n2,\n", "remove the ',' at the end of each line"),
    ("a.csv", b"x,z\n1,a,\n3,b,\n", "remove the ',' at the end of each line"),
    ("a.csv", b"x,z\n1,2,5\n2,3,\n", r"name the first column too, as with col\.names = NA"),
    *(
        (
            "a.txt",
            f'"a"{mark}"b"\n'.encode() + f'"1"{mark}1.5{mark}2\n'.encode() * 9,
            r"line 2 but 2 .*col\.names = NA",
        )
        for mark in " ,\t"
    ),
]


@pytest.mark.parametrize(
    ("encoding", "case"),
    [*product([None], BROKEN + OTHER_FORMATS), *product(["cp1252"], OTHER_FORMATS)],
)
def test_broken_files_are_refused_in_a_single_sentence(tmp_path, encoding, case):
    name, content, message = case
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        as_table(path, "before", encoding)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="does not exist"):
        as_table(tmp_path / "none.csv", "before")


def test_another_encoding_is_an_argument(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("x,wort\n1,grün\n".encode("cp1252"))
    assert as_table(path, "before", "cp1252").data["wort"].to_pylist() == ["grün"]
    with pytest.raises(InputError, match="no encoding that Python knows"):
        as_table(path, "before", "nonsense")


def test_frames_and_dictionaries_are_tables():
    for frame in (FRAME, FRAME.set_index("n").reset_index(), pa.Table.from_pandas(FRAME)):
        columns = as_table(frame, "before").data.to_pydict()
        assert set(columns) == {"x", "word", "n"}
    assert as_table({"x": [1, 2]}, "before").data["x"].to_pylist() == [1, 2]
    with pytest.raises(InputError, match="2 columns named 'x'"):
        as_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), "before")
    with pytest.raises(InputError, match="cannot be taken for a table"):
        as_table({"x": [1, "a", {}]}, "before")
    assert json.dumps(columns["n"]) == "[1, 2, 3]"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["1.5", "oops"] + ["2"] * 40, "has numbers but 'oops' in line 3 of b.csv"),
        (["1.5", "inf"] + ["2"] * 40, "'inf' in line 3 of b.csv"),
        (["a", "b"] * 20, "holds numbers in a.csv and words such as 'a' in b.csv"),
        (["1/2/2024", "3/4/2024"] * 20, "holds numbers in a.csv and words such as '1/2/2024'"),
    ],
)
def test_an_invalid_entry_is_named_with_its_row_and_file(tmp_path, monkeypatch, entries, message):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("x\n" + "\n".join(map(str, range(40))) + "\n")
    Path("b.csv").write_text("x\n" + "\n".join(entries) + "\n")
    with pytest.raises(InputError, match=message):
        compare_tables("a.csv", "b.csv", n_resamples=19, progress=False)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("12,{:02d}", "12.{:02d}", "has decimal commas in before, .* and decimal points in after"),
        ("2024-01-{:02d}", "{:02d}/01/2024", "has ISO dates in before, .* and day/month/year in"),
    ],
)
def test_tables_in_two_formats_are_refused(first, second, message):
    """They are not read as words, which would hide a change, or appear as one."""
    numbers = range(1, 29)
    pair = ({"x": [form.format(number) for number in numbers]} for form in (first, second))
    with pytest.raises(InputError, match=f"'x' {message}"):
        compare_tables(*pair, n_resamples=19, progress=False)
    pair = ({"x": [form.format(number) for number in numbers]} for form in (first, second))
    compare_tables(*pair, column_types={"x": "category"}, n_resamples=19, progress=False)


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet({"x": [1.0], "y": [1.0]}))
    (tmp_path / "b.parquet").write_bytes(parquet({"x": [1.0]}))
    with pytest.raises(
        InputError, match=r"b.parquet has other columns than .*: 'y' is not in both"
    ):
        as_table(tmp_path, "before")


def test_a_carriage_return_ends_a_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,c\r1,a\r2,b\r")
    assert as_table(path, "before").data.to_pydict() == {"x": ["1", "2"], "c": ["a", "b"]}


def test_large_tables_are_subsampled_with_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr("bke.inference.io.tables.MOST_ROWS", 100)
    for index in range(3):
        (tmp_path / f"{index}.parquet").write_bytes(
            parquet({"x": list(range(70 * index, 70 * index + 70))})
        )
    result = as_table(tmp_path, "before")
    rows = result.data["x"].to_pylist()
    assert "100 random rows of the 210 rows" in result.notes[0]
    assert len(set(rows)) == len(rows) == 100
    assert rows == sorted(rows)
    assert max(rows) > 180
    assert as_table(tmp_path, "before").data["x"].to_pylist() == rows
    answer = compare_tables(
        tmp_path, tmp_path, column_types={"x": "number"}, n_resamples=19, progress=False
    )
    assert answer.sizes == (100, 100)
    assert f"100 random rows of the 210 rows of {tmp_path} are read" in answer.notes[0]


def test_a_code_matches_its_formatted_numbers(tmp_path):
    paths = []
    for name, proportion in (("a", 0.02), ("b", 0.4)):
        x = np.random.default_rng(0).normal(15.0, 3.0, size=200)
        x[: int(proportion * 200)] = -999.0
        paths.append(tmp_path / f"{name}.csv")
        pd.DataFrame({"x": x}).to_csv(paths[-1], index=False)
    result = compare_tables(*paths, na_values=["-999"], n_resamples=19, progress=False)
    assert result["x"].effect.missing == (0.02, 0.4)


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(
    "content",
    [
        '{"x": 1}\n{"x": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        '{"x": 1}\n' + '{"x": ' * 100_000 + "1" + "}" * 100_000 + "\n",
        '{"x": 1}\n' + '{"x":\n' * 100_000 + "1" + "}" * 100_000,
        r'{"x\\\"": "\\", "]]]": 1}' + "\n" + "[" * 100_000,
        "]" * 200_000 + "\n" + "[" * 200_000,
    ],
    ids=["arrays", "objects", "lines", "quotes", "closed before"],
)
def test_deeply_nested_json_is_refused(tmp_path, kind, content):
    """Arrow would end the process."""
    path = tmp_path / f"table.{kind}"
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if kind.endswith("gz") else raw)
    with pytest.raises(InputError, match=r"table\.jsonl.*line \d+ has more than 100 levels"):
        as_table(path, "before")


def test_brackets_in_texts_of_json_are_no_levels(tmp_path):
    """Nor do objects of line after line add up; escaped quotes end no text."""
    path = tmp_path / "table.jsonl"
    rows = [{"t": '\\"[{' * 300, "[": i, "s": "\\", "u": ""} for i in range(500)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert as_table(path, "before").data.to_pylist() == rows


def bounded(levels):
    return b'{"x": 1, "y": ' + b"[" * levels + b"]" * levels + b"}\n"


def test_the_message_on_nested_json_has_its_line():
    assert parse_json_lines(bounded(99)).num_rows == 1
    with pytest.raises(ValueError, match=r"^line 30001 has more than 100 levels"):
        parse_json_lines(bounded(3) * 30_000 + bounded(100))


#: Arrays of which one number is changed below: an offset, a length, an index.
DAMAGED = {
    "text": (pa.array(["ab", "cd", "ef"]), 1, [0, 2, 9999, 6]),
    "text going back": (pa.array(["ab", "cd", "ef"]), 1, [0, 4, 2, 6]),
    "large text": (pa.array(["ab", "cd", "ef"], pa.large_string()), 1, [0, 2, 2**40, 6]),
    "list": (pa.array([[1.0], [2.0, 3.0], []]), 1, [0, 1, 77_777, 3]),
    "dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), 1, [0, 1, 1_000_000_000]),
    "not UTF-8": (pa.array(["ab", "cd", "ef"]), 2, b"ab\xff\xfeef"),
}


def damaged(array, which, numbers):
    """The array with other numbers in one of its buffers."""
    buffers = array.buffers()
    old = buffers[which]
    width = 8 if pa.types.is_large_string(array.type) else 4
    new = numbers if isinstance(numbers, bytes) else np.array(numbers, f"i{width}").tobytes()
    buffers[which] = pa.py_buffer(new.ljust(old.size, b"\0"))
    if pa.types.is_dictionary(array.type):
        index = pa.Array.from_buffers(array.type.index_type, len(array), buffers[:2])
        return pa.DictionaryArray.from_arrays(index, array.dictionary, safe=False)
    children = [array.values] if pa.types.is_list(array.type) else None
    array_buffers = buffers[:2] if children else buffers
    return pa.Array.from_buffers(array.type, len(array), array_buffers, children=children)


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("kind", ["arrow", "stream.arrow", "feather"])
def test_a_damaged_arrow_file_is_refused(tmp_path, kind, case):
    """Its metadata refer to memory outside of its buffers."""
    table = pa.table({"x": damaged(*DAMAGED[case])})
    path = tmp_path / f"table.{kind}"
    if kind == "feather":
        pa.feather.write_feather(table, path, compression="uncompressed")
    else:
        new = pa.ipc.new_stream if kind == "stream.arrow" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(InputError, match=rf"table\.{kind} is not a readable"):
        as_table(path, "before")


def test_an_arrow_file_may_be_cut_off_after_it_was_read(tmp_path):
    """Mapped into memory, that would end the process by a bus error."""
    path = tmp_path / "table.arrow"
    table = pa.table({"x": np.arange(100_000.0)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = as_table(path, "before").data
    path.write_bytes(b"")
    assert data.equals(table)


def test_a_parquet_file_of_bytes_that_are_no_text_is_refused(tmp_path):
    path = tmp_path / "table.parquet"
    table = pa.table({"x": damaged(*DAMAGED["not UTF-8"])})
    pa.parquet.write_table(table, path)
    with pytest.raises(InputError, match=r"table\.parquet is not readable as Parquet: .*UTF8"):
        as_table(path, "before")
