"""Rows of text as they come: headers, none, quotes, JSON lines, and lines that are no rows."""

import io
import os

import pytest
from bke.inference import InputError
from bke.inference.monitoring.incoming import Incoming


def batches(text, most=3, given=("a", "b"), needed=("a", "b"), numeric=()):
    incoming = Incoming(io.BytesIO(text.encode()), given, needed, numeric)
    return [one.data.to_pydict() for one in incoming.batches(most)], incoming.notes


def test_header_in_any_order():
    """Columns go by the header; the last line needs no end."""
    found, notes = batches("b;more;a\n1;x;2\n3;y;4\n5;z;6\n7;w;8")
    assert [one["a"] for one in found] == [["2", "4", "6"], ["8"]]
    assert notes == []


def test_no_header():
    """What ``tail -f`` shows of a long file has none."""
    found, notes = batches("1,2\n3,4\n")
    assert found == [{"a": ["1", "3"], "b": ["2", "4"]}]
    assert "no header" in notes[0]
    with pytest.raises(InputError, match=r"3 cells and no 'a'"):
        batches("1,2,3\n")


def test_a_header_that_comes_again_is_no_row():
    """As of several files behind one another; the first may begin with a mark of its encoding."""
    found, notes = batches("\ufeffa,b\n1,x\na,b\n3,y\n", most=9)
    assert found == [{"a": ["1", "3"], "b": ["x", "y"]}]
    assert notes == ["The header came again, as of several files: it is no row."]


def test_a_header_of_other_names_is_no_row():
    """Where the reference has numbers there would be none; holes and other columns may be a row."""
    with pytest.raises(InputError, match="header is c, d, and the reference has the columns a, b"):
        batches("c,d\n1,x\n", numeric=("a",))
    for first in ("1,x", "NA,x", ",x", "-inf1,x"):
        found, notes = batches(f"{first}\n3,y\n", numeric=("a",))
        assert len(found[0]["a"]) == 2
        assert "no header" in notes[0]


def test_quotes_and_uneven_lines():
    """A cell may hold a line's end; a line of other cells is left out and counted."""
    found, notes = batches('a,b\n"one\ntwo",2\n3\n\n5,6,7\n8,9\n', most=9)
    assert found == [{"a": ["one\ntwo", "8"], "b": ["2", "9"]}]
    assert notes == ["2 lines with more or fewer cells are no rows: left out."]


def test_json_lines():
    """Objects by their keys; what is no JSON is refused."""
    found, _ = batches('{"a": 1, "b": "x"}\n{"b": "y"}\n')
    assert found == [{"a": [1, None], "b": ["x", "y"]}]
    with pytest.raises(InputError, match="JSON lines"):
        batches('{"a": 1\n')


def test_rows_are_handed_on_when_no_more_come():
    """A batch is closed after a while without a line, though the pipe stays open."""
    read, write = os.pipe()
    os.write(write, b"a,b\n1,2\n3,")
    incoming = Incoming(os.fdopen(read, "rb"), ("a", "b"), ("a", "b"))
    found = incoming.batches(1000)
    assert next(found).data.to_pydict() == {"a": ["1"], "b": ["2"]}
    os.write(write, b"4\n")
    os.close(write)
    assert next(found).data.to_pydict() == {"a": ["3"], "b": ["4"]}
    assert list(found) == []


def test_json_of_many_levels_is_refused():
    """Arrow would end the process."""
    with pytest.raises(InputError, match=r"the stream is not readable as JSON lines: .*100 levels"):
        batches('{"a": 1, "b": 1}\n{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
