"""Rows of text as they arrive: CSV or JSON lines from a pipe or a file, in batches."""

from __future__ import annotations

import codecs
import csv
import io
import queue
import threading
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.json

from ..core.errors import InputError
from ..data.checks import counted
from ..data.text import MISSING, separator_of
from ..tables.files import parsed
from ..tables.frames import Table

#: Lines that are read ahead.
AHEAD = 20_000
#: Seconds without a line after which a batch is closed.
WAIT = 0.5
#: What is said of several files behind one another.
HEADERS = "The header came again, as of several files: it is no row."
#: What the reader hands on when there are no more lines.
END = b""


class Incoming:
    """Batches of rows of a stream of bytes.

    Attributes:
        notes: of lines that are no rows, or of a header that is not there.
    """

    def __init__(
        self,
        stream: IO[bytes],
        given: tuple[str, ...],
        needed: tuple[str, ...],
        numeric: tuple[str, ...] = (),
    ) -> None:
        """Begin to read.

        Args:
            stream: of bytes, in UTF-8.
            given: all columns of the reference in order, which a stream without a header has.
            needed: those that a header must have.
            numeric: those that hold numbers, by which a header of other names is no row.
        """
        self.notes: list[str] = []
        self._given, self._needed, self._numeric = given, needed, numeric
        self._header: list[str] | None = None
        self._first = b""  # the header as it was written; empty where there is none
        self._separator = ","
        self._lines: queue.Queue[bytes | BaseException] = queue.Queue(AHEAD)
        self._uneven = 0
        # A thread, for a pipe cannot be asked for what it has on every system.
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def batches(self, most: int) -> Iterator[Table]:
        """Yield rows as they arrive: at most so many, or fewer when none has come for a while.

        Raises:
            InputError: the first line is neither a header nor a row.
        """
        lines, more = self._taken(1)
        if lines and not _is_json(lines[0]):
            lines = self._begun(lines[0])
        while lines or more:
            if more:
                rest, more = self._taken(most - len(lines), waiting=not lines)
                lines += rest
            if lines:
                yield self._table(lines)
            lines = []

    def _read(self, stream: IO[bytes]) -> None:
        try:
            for line in stream:
                self._lines.put(line)
        except (OSError, ValueError) as error:
            self._lines.put(error)
        self._lines.put(END)

    def _taken(self, most: int, *, waiting: bool = True) -> tuple[list[bytes], bool]:
        """Whole rows that have arrived, and whether there may be more; maybe waiting for one."""
        rows: list[bytes] = []
        row = b""
        while len(rows) < most:
            try:
                # A row with an open quote goes on in the next line, whenever that comes.
                line = self._lines.get(timeout=None if row or (waiting and not rows) else WAIT)
            except queue.Empty:
                break
            if isinstance(line, BaseException):
                raise line
            if line == END:
                return [*rows, *([row] if row else [])], False
            row += line
            if row.count(b'"') % 2 == 0:
                if row.strip():
                    rows.append(row if row.endswith(b"\n") else row + b"\n")
                row = b""
        return rows, True

    def _begun(self, line: bytes) -> list[bytes]:
        """Tell the separator and the header from the first line, which may be a row already."""
        first = line.decode("utf-8", errors="replace").removeprefix("\ufeff")
        self._separator = separator_of(first).replace(" ", ",")
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=self._separator))]
        if set(self._needed) <= set(cells):
            if len(set(cells)) < len(cells):
                raise InputError(f"the stream's header names a column twice: {', '.join(cells)}")
            self._header = cells
            self._first = line.removeprefix(codecs.BOM_UTF8).strip()
            return []
        if len(cells) != len(self._given):
            missing = [name for name in self._needed if name not in cells]
            raise InputError(
                f"the stream's first line has {counted(len(cells), 'cell')} and no {missing[0]!r}: "
                "it must be a header with the reference's columns, or a row of all of them"
            )
        if self._numeric and not any(map(_may_be_number, self._of_numbers(cells))):
            raise InputError(
                f"the stream's header is {', '.join(cells)}, and the reference has the columns "
                f"{', '.join(self._given)}: give them the same names"
            )
        self.notes.append(
            "The stream has no header: its columns are taken in the reference's order."
        )
        self._header = list(self._given)
        return [line]

    def _of_numbers(self, cells: list[str]) -> list[str]:
        """The cells of a first line that would be numbers if it were a row."""
        pairs = zip(self._given, cells, strict=True)
        return [cell for name, cell in pairs if name in self._numeric]

    def _table(self, lines: list[bytes]) -> Table:
        if self._header is None:
            return Table(_of_json(lines), "the stream")
        first = self._first
        rows = [line for line in lines if line.strip() != first] if first else lines
        if len(rows) < len(lines) and HEADERS not in self.notes:
            self.notes.append(HEADERS)
        found, uneven = parsed(io.BytesIO(b"".join(rows)), self._separator, self._header)
        self._uneven += len(uneven)
        if uneven:
            self.notes = [note for note in self.notes if "no rows" not in note]
            lines_ = counted(self._uneven, "line")
            self.notes.append(f"{lines_} with more or fewer cells are no rows: left out.")
        return Table(found, "the stream")


def _may_be_number(cell: str) -> bool:
    """Whether a cell has a digit, or stands for a missing number."""
    return any(map(str.isdigit, cell)) or cell.lower() in MISSING


def _is_json(line: bytes) -> bool:
    return line.lstrip().startswith(b"{")


def _of_json(lines: list[bytes]) -> pa.Table:
    try:
        return pyarrow.json.read_json(io.BytesIO(b"".join(lines)))
    except pa.ArrowInvalid as error:
        raise InputError(
            f"the stream is not readable as JSON lines: {str(error).splitlines()[0]}"
        ) from error
