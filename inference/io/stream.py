"""Streams of rows: CSV or JSON lines from a pipe or a file, in batches as they arrive.

A quote opens a quoted cell at the start of a cell only, and is a character like others elsewhere,
as in the readers of Arrow and Python. A row whose quoted cell continues over several lines ends
within :data:`ROW_LINES` lines, has as many cells as the header, and nothing but a separator or the
end of the line behind a closing quote. Otherwise the line that opens the quote is left out and
noted, and reading continues with the next line, so that a stray quote costs no other row.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import csv
import functools
import io
import queue
import re
import threading
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from ..core.errors import InputError
from ..data.checks import pluralize
from .tables import (
    JSON_ARRAY_ADVICE,
    Table,
    clean_name,
    parse_json_lines,
    parse_json_objects,
    table_of_objects,
)
from .text import MISSING, SEPARATORS, empty_rows, split_rows

#: Lines that are read ahead; lines of a row with a quoted cell at most; neither is tuned.
LINES_AHEAD, ROW_LINES = 20_000, 100
#: Bytes of a line at which reading ends, not tuned: a line without an end would fill the memory.
LINE_BYTES = 2**26
#: Seconds without a line after which a batch ends.
TIMEOUT = 0.5
#: End of the stream, in the queue of lines.
END = b""


class RowStream:
    """Batches of rows of a stream of bytes.

    Attributes:
        notes: notes on lines that are no rows, and on a missing header.
    """

    def __init__(
        self,
        stream: IO[bytes],
        columns: tuple[str, ...],
        needed: tuple[str, ...],
        numeric: tuple[str, ...] = (),
    ) -> None:
        """Start reading.

        Args:
            stream: the bytes, in UTF-8.
            columns: all columns of the reference in order, those of a stream without a header.
            needed: columns that a header must have.
            numeric: columns of numbers, which a header with other names lacks.
        """
        self.notes: list[str] = []
        self._columns, self._needed, self._numeric = columns, needed, numeric
        self._header: list[str] | None = None
        self._header_line = b""  # as it was written; empty where there is none
        self._separator = ""  # unknown before the first line
        self._is_json: bool | None = None
        # Lines to be read again, and the number of the last one that was read.
        self._pushed_back: collections.deque[bytes] = collections.deque()
        self._line_number = 0
        self._lines: queue.Queue[bytes | BaseException] = queue.Queue(LINES_AHEAD)
        self._left_out: dict[str, tuple[int, str]] = {}  # reason: count, first place
        self._known_names: set[str] = set()  # needed keys that JSON had so far
        # A thread, since a pipe cannot be polled on every system.
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def batches(self, max_rows: int) -> Iterator[Table]:
        """Yield rows as they arrive: at most ``max_rows``, or fewer after a pause.

        Raises:
            InputError: the first line is neither a header nor a row.
        """
        any_rows = False
        rows, more = self._next_rows(1)
        if rows and not self._is_json:
            rows = self._parse_first(rows[0])
        while rows or more:
            if more:
                further, more = self._next_rows(max_rows - len(rows), wait=not rows)
                rows += further
            if rows and (table := self._parse(rows)).data.num_columns:
                any_rows |= table.data.num_rows > 0
                yield table
            rows = []
        if self._left_out and not any_rows:
            raise InputError(f"no line of the stream is a row. {' '.join(self.notes)}")

    def _read(self, stream: IO[bytes]) -> None:
        try:
            lines = iter(functools.partial(stream.readline, LINE_BYTES), b"")
            for number, line in enumerate(lines):
                if len(line) == LINE_BYTES:
                    raise InputError(
                        f"line {number + 1} of the stream has {LINE_BYTES >> 20} MiB or more: give "
                        "rows of text, one in each line"
                    )
                self._lines.put(line if number else line.removeprefix(codecs.BOM_UTF8))
        except (OSError, ValueError) as error:
            self._lines.put(error)
        self._lines.put(END)

    def _next_rows(self, max_rows: int, *, wait: bool = True) -> tuple[list[bytes], bool]:
        """Return whole rows that have arrived, and whether there may be more."""
        rows: list[bytes] = []
        row: list[bytes] = []  # its lines so far
        while len(rows) < max_rows:
            try:
                line = self._next_line(None if wait and not rows else TIMEOUT)
            except queue.Empty:
                self._push_back(row)  # it continues in the next line
                break
            if line == END:
                if not row:
                    return rows, False
                self._lines.put(END)
                self._leave_out_unclosed(row)
                row = []
                continue
            if b"\0" in line and self._line_number > 1:
                self._leave_out("a byte of zero", 1, f"line {self._line_number}")
                continue
            if self._is_json is None and line.strip():
                self._is_json = line.lstrip().startswith(b"{")
            row.append(line)
            joined = b"".join(row)
            is_open = self._is_open(joined)
            if is_open and len(row) < ROW_LINES:
                continue
            if is_open or (len(row) > 1 and not self._is_complete_row(joined)):
                self._leave_out_unclosed(row)
            elif joined.strip():
                rows.append(joined if joined.endswith(b"\n") else joined + b"\n")
            row = []
        return rows, True

    def _next_line(self, timeout: float | None) -> bytes:
        """Return the next line, or :data:`END`.

        Raises:
            queue.Empty: there is none yet.
        """
        line = (
            self._pushed_back.popleft() if self._pushed_back else self._lines.get(timeout=timeout)
        )
        if isinstance(line, BaseException):
            raise line
        self._line_number += line != END
        return line

    def _push_back(self, lines: list[bytes]) -> None:
        self._pushed_back.extendleft(reversed(lines))
        self._line_number -= len(lines)

    def _leave_out_unclosed(self, row: list[bytes]) -> None:
        """Leave out the first line of a row, which opens a quote, and read the others again."""
        self._push_back(row[1:])
        self._leave_out("a quote that is not closed", 1, f"line {self._line_number}")

    def _leave_out(self, reason: str, count: int, position: str) -> None:
        """Count lines that are left out, and replace the note on them."""
        before, first = self._left_out.get(reason, (0, position))
        self._left_out[reason] = before + count, first
        lines = pluralize(before + count, "line")
        note = f"Left out for {reason}: {lines}, the first of them {first}."
        self.notes = [other for other in self.notes if f"for {reason}:" not in other] + [note]

    def _is_open(self, row: bytes) -> bool:
        """Return whether a quoted cell is open at the end of the lines of a row."""
        text = row.decode("utf-8", "replace").removesuffix("\n")
        if self._is_json or '"' not in text:
            return False
        for separator in self._separator or SEPARATORS:
            with contextlib.suppress(csv.Error):  # a cell longer than 131072 characters
                source = io.StringIO(f"{text}\nx", newline="")
                if len(list(csv.reader(source, delimiter=separator))) == 1:
                    return True
        return False

    def _is_complete_row(self, lines: bytes) -> bool:
        """Return whether joined lines are one row."""
        text = lines.decode("utf-8", errors="replace")
        for separator in self._separator or SEPARATORS:
            try:
                rows = list(
                    csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
                )
            except csv.Error:
                continue
            if len(rows) == 1 and (self._header is None or len(rows[0]) == len(self._header)):
                return True
        return False

    def _parse_first(self, line: bytes) -> list[bytes]:
        """Find separator and header in the first line; return it if it is a row already."""
        if b"\0" in line:
            raise InputError("the stream is not text in UTF-8")
        if b"\r" in line.strip():
            raise InputError("the stream's lines end with carriage returns alone: write line feeds")
        if re.match(rb"\s*\[\s*([\[{]|$)", line):
            raise InputError(f"the stream is an array of JSON: {JSON_ARRAY_ADVICE}")
        first = line.decode("utf-8", errors="replace")
        try:
            splits = {
                separator: list(map(clean_name, next(csv.reader([first], delimiter=separator))))
                for separator in SEPARATORS
            }
        except csv.Error as error:
            raise InputError(f"the stream's first line cannot be read: {error}") from None
        for separator, names in splits.items():
            if set(self._needed) <= set(names):
                if len(set(names)) < len(names):
                    raise InputError(
                        f"the stream's header names a column twice: {', '.join(names)}"
                    )
                self._separator, self._header = separator, names
                self._header_line = line.strip()
                return []
        width = len(self._columns)
        separator, names = max(
            splits.items(), key=lambda split: (len(split[1]) == width, len(split[1]))
        )
        if len(names) != width:
            missing = [name for name in self._needed if name not in names]
            raise InputError(
                f"the stream's first line has {pluralize(len(names), 'cell')} and no "
                f"{missing[0]!r}: it must be a header with the reference's columns, or a row of "
                "all of them"
            )
        numbers = [
            cell for name, cell in zip(self._columns, names, strict=True) if name in self._numeric
        ]
        may_be_numbers = [
            any(map(str.isdigit, cell)) or cell.lower() in MISSING for cell in numbers
        ]
        if numbers and not any(may_be_numbers):
            raise InputError(
                f"the stream's header is {', '.join(names)}, and the reference has the columns "
                f"{', '.join(self._columns)}: give them the same names"
            )
        self.notes.append(
            "The stream has no header: its columns are taken in the reference's order."
        )
        self._separator, self._header = separator, list(self._columns)
        return [line]

    def _parse(self, rows: list[bytes]) -> Table:
        if self._header is None:
            return Table(self._parse_json(rows), "the stream")
        data = [row for row in rows if row.strip() != self._header_line]
        if self._header_line and len(data) < len(rows):
            note = "The header came again, as of several files: it is no row."
            self.notes = list(dict.fromkeys([*self.notes, note]))
        if not data:
            return Table(pa.table({}), "the stream")
        text = self._decodable(b"".join(data))
        table, uneven = split_rows(io.BytesIO(text), self._header, self._separator)
        if uneven:
            number = self._line_number - len(data) + (uneven[0].number or 1)
            self._leave_out("more or fewer cells", len(uneven), f"near line {number}")
        empty = empty_rows(table)
        if table.num_columns > 1 and empty.any():
            number = self._line_number - len(data) + int(np.argmax(empty)) + 1
            self._leave_out("empty cells alone", int(empty.sum()), f"near line {number}")
            table = table.filter(pa.array(~empty))
        return Table(table, "the stream")

    def _decodable(self, raw: bytes) -> bytes:
        """Return bytes of UTF-8, with a note where some are not."""
        text = raw.decode("utf-8", "replace").encode()
        if text != raw:
            note = "Some bytes are not UTF-8: they are read as \ufffd."
            self.notes = list(dict.fromkeys([*self.notes, note]))
        return text

    def _parse_json(self, lines: list[bytes]) -> pa.Table:
        """Parse JSON lines; lines without an object are left out and noted."""
        lines = [self._decodable(line) for line in lines]
        try:
            table = parse_json_lines(b"".join(lines))
        except ValueError:  # one by one: a stream continues whatever a line holds
            rows, bad = parse_json_objects(lines)
            table = table_of_objects(rows)
            for index, reason in bad.items():
                self._leave_out(
                    reason, 1, f"near line {self._line_number - len(lines) + index + 1}"
                )
        names = list(map(clean_name, table.column_names))
        if len(set(names)) == len(names):
            table = table.rename_columns(names)
        # After the first rows a key may be left out, as where its value is missing.
        for name in self._known_names - set(table.column_names) if table.num_rows else ():
            table = table.append_column(name, pa.nulls(table.num_rows))
        self._known_names |= set(table.column_names) & set(self._needed)
        return table
