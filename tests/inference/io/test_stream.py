"""Streams of text: headers, none, quotes, JSON lines, and lines that are no rows."""

import io
import os

import pytest
from bke.inference import InputError
from bke.inference.io.stream import RowStream


def batches(text, most=3, columns=("a", "b"), needed=("a", "b"), numeric=()):
    incoming = RowStream(io.BytesIO(text.encode()), columns, needed, numeric)
    return [batch.data.to_pydict() for batch in incoming.batches(most)], incoming.notes


def test_header_in_any_order():
    """Columns are matched by the header; the last line needs no end."""
    result, notes = batches("b;more;a\n1;x;2\n3;y;4\n5;z;6\n7;w;8")
    assert [batch["a"] for batch in result] == [["2", "4", "6"], ["8"]]
    assert notes == []


def test_no_header():
    """The output of ``tail -f`` on a long file has none."""
    result, notes = batches("1,2\n3,4\n")
    assert result == [{"a": ["1", "3"], "b": ["2", "4"]}]
    assert "no header" in notes[0]
    with pytest.raises(InputError, match=r"3 cells and no 'a'"):
        batches("1,2,3\n")


def test_a_repeated_header_is_no_row():
    """As of several files behind one another; the first may begin with a mark of its encoding."""
    result, notes = batches("\ufeffa,b\n1,x\na,b\n3,y\n", most=9)
    assert result == [{"a": ["1", "3"], "b": ["x", "y"]}]
    assert notes == ["The header came again, as of several files: it is no row."]


def test_a_header_of_other_names_is_no_row():
    """A first line without numbers in numeric columns is a header; missing values are allowed."""
    with pytest.raises(InputError, match="header is c, d, and the reference has the columns a, b"):
        batches("c,d\n1,x\n", numeric=("a",))
    for first in ("1,x", "NA,x", ",x", "-inf1,x"):
        result, notes = batches(f"{first}\n3,y\n", numeric=("a",))
        assert len(result[0]["a"]) == 2
        assert "no header" in notes[0]


def test_quotes_and_uneven_lines():
    """A cell may contain a line break; lines of another length are dropped and counted."""
    result, notes = batches('a,b\n"one\ntwo",2\n3\n\n5,6,7\n8,9\n', most=9)
    assert result == [{"a": ["one\ntwo", "8"], "b": ["2", "9"]}]
    note = "Left out for more or fewer cells: 2 lines, the first of them near line 5."
    assert notes == [note]


def test_json_lines():
    """Objects are read by keys; other lines are dropped and counted."""
    result, _ = batches('{"a": 1, "b": "x"}\n{"b": "y"}\n')
    assert result == [{"a": [1, None], "b": ["x", "y"]}]
    result, notes = batches('{"a": 1, "b": "x"}\n{"a": 2\n[3]\n{"a": 4, "b": "z"}\n', most=9)
    assert result == [{"a": [1, 4], "b": ["x", "z"]}]
    assert notes == ["Left out for no JSON object: 2 lines, the first of them near line 2."]
    result, notes = batches('{"a": 1, "b": "x"}\n{"a": "1.5", "b": 2}\n', most=9)
    assert result == [{"a": ["1", "1.5"], "b": ["x", "2"]}]
    assert notes == []
    result, notes = batches('{"a": 1, "b": "x"}\nnull\n')  # Arrow crashes on null alone
    assert result == [{"a": [1], "b": ["x"]}]
    assert notes == ["Left out for no JSON object: 1 line, the first of them near line 2."]


@pytest.mark.parametrize(
    ("first", "rest", "cell"),
    [(b"3,", b"4\n", "4"), (b'3,"x\n', b'y"\n', "x\ny")],
    ids=["line", "quote"],
)
def test_rows_are_handed_on_when_no_more_come(first, rest, cell):
    """A batch is closed after a while without a line or a closing quote: the pipe stays open."""
    read, write = os.pipe()
    os.write(write, b"a,b\n1,2\n" + first)
    incoming = RowStream(os.fdopen(read, "rb"), ("a", "b"), ("a", "b"))
    batch_iterator = incoming.batches(1000)
    assert next(batch_iterator).data.to_pydict() == {"a": ["1"], "b": ["2"]}
    os.write(write, rest)
    os.close(write)
    assert next(batch_iterator).data.to_pydict() == {"a": ["3"], "b": [cell]}
    assert list(batch_iterator) == []
    assert incoming.notes == []


def test_a_line_without_an_end_is_refused(monkeypatch):
    """It would fill the memory."""
    monkeypatch.setattr("bke.inference.io.stream.LINE_BYTES", 10)
    assert batches("a,b\n1,2\n333,4444\n")[0] == [{"a": ["1", "333"], "b": ["2", "4444"]}]
    with pytest.raises(InputError, match="line 3 of the stream has"):
        batches("a,b\n1,2\n333,44444\n")


def test_deeply_nested_json_is_dropped():
    """Arrow would end the process."""
    deep = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
    result, notes = batches('{"a": 1, "b": 1}\n' + deep, most=9)
    assert result == [{"a": [1], "b": [1]}]
    assert notes == ["Left out for no JSON object: 1 line, the first of them near line 2."]


def rows(text, **options):
    """Rows of all batches, and the notes."""
    result, notes = batches(text, **options)
    return [row for batch in result for row in zip(batch["a"], batch["b"], strict=True)], notes


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_a_quote_within_a_cell_is_a_character(most):
    """Rows are passed on when they arrive, not at the next quote."""
    text = 'a,b\n1,5" pipe\n2,x\n3,"y"" z"\n4,u"v"\n5,"w\nw"\n6,"s"t\n7,\n8,""""\n'
    result, notes = rows(text, most=most)
    assert result == [
        *(("1", '5" pipe'), ("2", "x"), ("3", 'y" z'), ("4", 'u"v"'), ("5", "w\nw"), ("6", "st")),
        *(("7", None), ("8", '"')),
    ]
    assert notes == []
    assert len(batches(text, most=1)[0]) == 8


LEFT_OUT = "Left out for a quote that is not closed: 1 line, the first of them line 3."


@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize(
    "rest",
    [
        "".join(f"{at},x\n" for at in range(300)),  # no other quote
        "".join(f'{at},"x"\n' for at in range(300)),  # one that would close it, with an x behind
        "1,x\n2,y\n3,z",  # the end comes first
        '1,x\n2,"y, z"\n' + "3,z\n" * 5,
        '1,5" pipe\n' + "2,z\n" * 300,
        '1",x\n2,y\n',  # it would be closed, with too many cells
    ],
    ids=["none", "quoted", "end", "within", "stray", "uneven"],
)
def test_a_quote_that_is_not_closed_drops_only_its_line(most, rest):
    result, notes = rows('a,b\n0,before\n0,"open\n' + rest, most=most)
    assert result == rows("a,b\n0,before\n" + rest, most=most)[0]
    assert notes == [LEFT_OUT]


def test_several_quotes_that_are_not_closed():
    text = "a,b\n" + '1,"x\n2,y\n' * 250 + '3,"z\n'
    result, notes = rows(text, most=10)
    assert result == [("2", "y")] * 250
    assert notes == [LEFT_OUT.replace("1 line,", "251 lines,").replace("line 3", "line 2")]


def test_a_quoted_cell_may_have_several_lines():
    for lines in (2, 99):
        cell = "\n".join(f'{at}, ""q""' for at in range(lines))
        result, notes = rows(f'b;a\n"{cell}";1\nx;"2"\n', most=5)
        assert result == [("1", cell.replace('""', '"')), ("2", "x")]
        assert notes == []


def test_a_quote_in_json_opens_no_cell():
    """Blank lines may come first."""
    text = '\n{"a":1,"b":"5\\" pipe"}\n{"a":2,"b":"y,"}\n{"a":3,"b":"z"}\n'
    result, notes = batches(text, most=1)
    assert result == [{"a": [1], "b": ['5" pipe']}, {"a": [2], "b": ["y,"]}, {"a": [3], "b": ["z"]}]
    assert notes == []
