"""Rows of text as they arrive: CSV or JSON lines from a pipe or a file, in batches.

A quote opens a quoted cell at the start of a cell only, and is a character like others elsewhere,
as in the readers of Arrow and Python. A row whose quoted cell goes on over several lines ends
within :data:`MOST_LINES` lines, has as many cells as the header, and nothing but a separator or the
end of the line behind a quote that closes. Otherwise the line that opens the quote is left out and
noted, and reading goes on with the line after it, so that a stray quote costs no other row.
"""

from __future__ import annotations

import codecs
import collections
import csv
import io
import queue
import threading
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from ..core.errors import InputError
from ..data.checks import counted
from ..data.text import MISSING, separator_of
from ..data.unicode import normalize_text
from ..tables.files import each_json_row, json_rows, parsed
from ..tables.frames import Table

#: Lines that are read ahead.
AHEAD = 20_000
#: Lines that a row goes on for, at most, with a quoted cell; not tuned.
MOST_LINES = 100
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
        self._separator = ""  # not known before the first line
        self._json: bool | None = None
        # Lines that were taken and are to be taken again, and the number of the last one taken.
        self._again: collections.deque[bytes] = collections.deque()
        self._number = 0
        self._unclosed, self._first_unclosed = 0, 0
        self._lines: queue.Queue[bytes | BaseException] = queue.Queue(AHEAD)
        self._uneven = 0
        self._bad, self._first_bad = 0, 0
        # A thread, for a pipe cannot be asked for what it has on every system.
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def batches(self, most: int) -> Iterator[Table]:
        """Yield rows as they arrive: at most so many, or fewer when none has come for a while.

        Raises:
            InputError: the first line is neither a header nor a row.
        """
        lines, more = self._taken(1)
        if lines and not self._json:
            lines = self._begun(lines[0])
        while lines or more:
            if more:
                rest, more = self._taken(most - len(lines), waiting=not lines)
                lines += rest
            if lines and (table := self._table(lines)).data.num_columns:
                yield table
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
        row: list[bytes] = []  # its lines so far
        quoted = False
        while len(rows) < most:
            try:
                line = self._next(None if waiting and not rows else WAIT)
            except queue.Empty:
                self._take_again(row)  # it goes on in the next line, whenever that comes
                break
            if line == END:
                if not row:
                    return rows, False
                self._lines.put(END)
                self._leave_out(row)
                row, quoted = [], False
                continue
            if self._json is None and line.strip():
                self._json = _is_json(line)
            row.append(line)
            quoted = not self._json and self._ends_quoted(line, quoted)
            if quoted and len(row) < MOST_LINES:
                continue
            if quoted or (len(row) > 1 and not self._is_whole(b"".join(row))):
                self._leave_out(row)
            elif (joined := b"".join(row)).strip():
                rows.append(joined if joined.endswith(b"\n") else joined + b"\n")
            row, quoted = [], False
        return rows, True

    def _next(self, timeout: float | None) -> bytes:
        """The next line, or :data:`END`.

        Raises:
            queue.Empty: there is none yet.
        """
        line = self._again.popleft() if self._again else self._lines.get(timeout=timeout)
        if isinstance(line, BaseException):
            raise line
        self._number += line != END
        return line

    def _take_again(self, lines: list[bytes]) -> None:
        self._again.extendleft(reversed(lines))
        self._number -= len(lines)

    def _leave_out(self, row: list[bytes]) -> None:
        """Leave out the first line of a row, which opens a quote, and take the others again."""
        self._take_again(row[1:])
        self._unclosed += 1
        self._first_unclosed = self._first_unclosed or self._number
        what = "Left out for a quote that is not closed"
        lines = counted(self._unclosed, "line")
        self._note(what, f"{what}: {lines}, the first of them line {self._first_unclosed}.")

    def _ends_quoted(self, line: bytes, quoted: bool) -> bool:
        """Whether a quoted cell is open at the end of a line, as it was or was not before it."""
        known = self._separator.encode()
        starts = (known, b"\r") if known else (b",", b";", b"\t", b"\r", codecs.BOM_UTF8)
        begun, closed = not quoted, False
        for piece in line.split(b'"')[:-1]:
            if quoted:
                quoted, closed = False, True
            else:  # a quote right behind one that closes is one within the cell
                quoted = piece.endswith(starts) or (not piece and (begun or closed))
                closed = False
            begun = False
        return quoted

    def _is_whole(self, row: bytes) -> bool:
        """Whether lines that were joined are one row."""
        text = io.StringIO(row.decode("utf-8", errors="replace"), newline="")
        delimiter = self._separator or separator_of(text.getvalue()).replace(" ", ",")
        try:
            rows = list(csv.reader(text, delimiter=delimiter, strict=True))
        except csv.Error:
            return False
        return len(rows) == 1 and (self._header is None or len(rows[0]) == len(self._header))

    def _note(self, what: str, text: str) -> None:
        """Replace the note that has the words ``what``, if any."""
        self.notes = [*(note for note in self.notes if what not in note), text]

    def _begun(self, line: bytes) -> list[bytes]:
        """Tell the separator and the header from the first line, which may be a row already."""
        first = line.decode("utf-8", errors="replace").removeprefix("\ufeff")
        self._separator = separator_of(first).replace(" ", ",")
        cells = next(csv.reader([normalize_text(first)], delimiter=self._separator))
        cells = [cell.strip() for cell in cells]
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

    def _of_json(self, lines: list[bytes]) -> pa.Table:
        """Read JSON lines; those that are no objects are left out and noted."""
        try:
            rows = json_rows(b"".join(lines))
        except ValueError:  # one by one: a stream goes on whatever a line holds
            rows, bad = each_json_row(lines)
            if bad:
                self._bad += len(bad)
                self._first_bad = self._first_bad or self._number - len(lines) + bad[0] + 1
                what = "as they are no JSON objects"
                count = counted(self._bad, "line")
                self._note(
                    what, f"Left out {what}: {count}, the first near line {self._first_bad}."
                )
        return rows.rename_columns(list(map(normalize_text, rows.column_names)))

    def _table(self, lines: list[bytes]) -> Table:
        if self._header is None:
            return Table(self._of_json(lines), "the stream")
        first = self._first
        rows = [line for line in lines if line.strip() != first] if first else lines
        if len(rows) < len(lines) and HEADERS not in self.notes:
            self.notes.append(HEADERS)
        found, uneven = parsed(io.BytesIO(b"".join(rows)), self._separator, self._header)
        self._uneven += len(uneven)
        if uneven:
            what = "with more or fewer cells"
            self._note(what, f"{counted(self._uneven, 'line')} {what} are no rows: left out.")
        return Table(found, "the stream")


def _may_be_number(cell: str) -> bool:
    """Whether a cell has a digit, or stands for a missing number."""
    return any(map(str.isdigit, cell)) or cell.lower() in MISSING


def _is_json(line: bytes) -> bool:
    return line.lstrip().startswith(b"{")
