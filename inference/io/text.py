"""Text files with separated cells: find separator and header, split rows by Arrow, name lines.

Arrow splits the rows: it is fast and keeps the text of every cell. This module adds what it lacks:
a separator and a header that are found, or refused where the text allows two readings; titles above
the header; and the number of the line that an error is about, as editors show it.
"""

from __future__ import annotations

import codecs
import collections
import contextlib
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..core.errors import InputError
from ..data.checks import default_names, pluralize

#: Cells that stand for a missing value, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
#: Separators in the order in which they are tried; blanks and colons follow.
SEPARATORS = ";\t,|~"
#: Bytes and rows from which separator and header are found; lines that those bytes have at least.
HEAD_BYTES, HEAD_ROWS, HEAD_LINES = 2**16, 100, 3
#: Numbers in a first row, with decimal points or commas, maybe between thousands.
NUMBER = re.compile(
    r"[+-]?(\d+([.,]\d*)?|[.,]\d+|\d{1,3}([.,]\d{3})+([.,]\d+)?)([eE][+-]?\d+|[dD][+-]\d+)?",
    re.ASCII,
)
#: First bytes of files that are no text, and what these are.
SIGNATURES = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"ARROW1\0": "an Arrow file: name it .arrow",
    b"%PDF": "a PDF file: write its table as CSV",
    b"PK\x03\x04": "a workbook or a ZIP archive: name it .xlsx, or unpack it",
    b"\xd0\xcf\x11\xe0": "a workbook of an old format or with a password: save it as .xlsx",
    b"\x1f\x8b": "compressed by gzip: name it .csv.gz",
    b"BZh91AY": "compressed by bzip2: name it .csv.bz2",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard: name it .csv.zst",
    b"\xfd7zXZ": "compressed by xz: unpack it",
}
#: Beginning of the names of several columns that have none.
UNNAMED = "\0"
#: Advice if the first row has a number, such as a year, and names are needed.
NAMES_NEEDED = "write a row of names above the data, each with a letter, as y2020 for 2020"
#: Message of Arrow on a cell that cannot be decoded.
UNDECODED = re.compile(r"column #(\d+): Row #(\d+): .*UTF8")


class Head(NamedTuple):
    """The beginning of a text file.

    Attributes:
        names: names of the columns; ``x`` or ``x0``, ``x1``, ... without a header.
        separator: separator of cells.
        title_lines: number of lines above the header that are left out.
        lines: number of lines above the first row of data.
        has_header: names are from the file, and not ``x0``, ``x1``, ...
    """

    names: list[str]
    separator: str
    title_lines: int
    lines: int
    has_header: bool = True


class TextFile:
    """A text file whose separator and header are known.

    Attributes:
        path: the file, maybe compressed.
        encoding: encoding of its text.
        head: its beginning.
    """

    def __init__(self, path: Path, encoding: str | None = None, *, header: bool = True) -> None:
        """Find encoding, separator and header.

        Args:
            path: the file.
            encoding: by default UTF-8, or UTF-16 with a byte-order mark.
            header: whether the first row must hold names; else a first row of numbers is data.

        Raises:
            NotDecodedError: the encoding is another.
            InputError: the file is no such table; names the line.
        """
        raw = self._beginning(path)
        marked = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
        if raw[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
            marked = "utf-32"
        self.path, self.encoding = path, encoding or marked
        self.notes: tuple[str, ...] = ()
        if not self.encoding.lower().startswith("utf") and self._is_utf8():
            self.notes = (f"{path} is UTF-8, and read as such, not as {encoding}.",)
            self.encoding = "utf-8"
        text = self._decoded(raw).removeprefix("\ufeff")
        if not text.strip():
            raise InputError(f"{path} is empty")
        if "\r\r\n" in text:
            raise InputError(f"{path} has two carriage returns in the end of a line: write one")
        complete = len(raw) % HEAD_BYTES != 0
        try:
            self.head = find_head(text, complete=complete, header=header)
        except ValueError as error:
            raise InputError(f"{path} {error}") from None
        if self.head.title_lines:
            title, lines = text.splitlines()[0][:40], pluralize(self.head.title_lines, "line")
            self.notes += (f"{path}: {lines} above the header left out, the first is {title!r}.",)

    @staticmethod
    def _beginning(path: Path) -> bytes:
        with pa.input_stream(str(path), compression="detect") as stream:
            raw = bytes(stream.read(HEAD_BYTES))
            while raw.count(b"\n") < HEAD_LINES and (more := stream.read(HEAD_BYTES)):
                raw += more
        return raw

    def _is_utf8(self) -> bool:
        """Return whether the file has characters beyond ASCII, and is UTF-8."""
        with pa.input_stream(str(self.path), compression="detect") as stream:
            raw = stream.read()
        try:
            return not raw.isascii() and bool(raw.decode())
        except UnicodeDecodeError:
            return False

    def _decoded(self, raw: bytes) -> str:
        if description := describe_signature(raw):
            raise InputError(f"{self.path} is {description}")
        wide = self.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
        if b"\0" in raw and not wide:
            raise InputError(f"{self.path} is not a text file")
        try:
            # Incrementally, since the last character may be cut off.
            return codecs.getincrementaldecoder(self.encoding)().decode(raw)
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise NotDecodedError(self._undecoded(f"line {line}")) from error
        except UnicodeError as error:  # no byte-order mark
            raise NotDecodedError(f"{self.path} is not {self.encoding}: {error}") from error
        except LookupError as error:
            raise InputError(f"{self.encoding!r} is no encoding that Python knows") from error

    def _undecoded(self, location: str) -> str:
        return (
            f"{self.path} is not {self.encoding} in {location}: name another with --encoding, "
            "such as cp1252"
        )

    def read(self) -> pa.Table:
        """Read all rows; cells are text, and null where they are empty and not quoted.

        Raises:
            InputError: rows differ in their number of cells, or a quote is not closed.
        """
        head = self.head
        with self._stream() as stream:
            try:
                table, uneven = split_rows(
                    stream, head.names, head.separator, encoding=self.encoding, skip=head.lines
                )
            except pa.ArrowInvalid as error:
                match = UNDECODED.search(str(error))
                if match is None:
                    raise
                location = f"line {self._undecoded_line()}, column {head.names[int(match[1])]!r}"
                raise NotDecodedError(self._undecoded(location)) from error
        if uneven:
            longer = not len(table) and uneven[0].actual_columns == len(head.names) + 1
            end = rf"{re.escape(head.separator)}\s*$"
            advice = f"write cells with {head.separator!r} in quotes"
            separator = re.escape(head.separator)
            single_quotes = rf"(^|{separator})'[^']*{separator}[^']*'({separator}|\s*$)"
            if re.search(single_quotes, uneven[0].text):
                advice = 'write " for quotes, where it has single ones'
            elif '\\"' in uneven[0].text:
                advice = 'write "" for a quote in a cell, where it has \\"'
            elif longer and all(re.search(end, row.text) for row in uneven):
                advice = f"remove the {head.separator!r} at the end of each line"
            elif longer and len(head.names) > 1:
                advice = "name the first column too, as with col.names = NA in R"
            elif uneven[0].actual_columns < len(head.names):
                advice = "leave lines out that are no rows"
            elif len(head.names) == 1:
                advice = "write decimal points, or cells with commas in quotes"
            more = f" ({pluralize(len(uneven), 'such line')})" if len(uneven) > 1 else ""
            raise InputError(
                f"{self.path} has {pluralize(uneven[0].actual_columns, 'cell')} in line "
                f"{self.line_of(None)} but {pluralize(len(head.names), 'column')}{more}: {advice}"
            )
        self._check_quotes(table)
        table = self._without_empty_rows(self._without_unnamed(table))
        self._check_headers(table)
        self._note_backslashes(table)
        if not head.has_header and head.separator == ",":
            self._check_decimal_commas(table)
        return table

    def _undecoded_line(self) -> int:
        with pa.input_stream(str(self.path), compression="detect") as stream:
            raw = stream.read()
        try:
            raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            return int(raw[: error.start].count(b"\n")) + 1
        return 1

    @contextlib.contextmanager
    def _stream(self) -> Iterator[Any]:
        """Open the file; blanks that separate cells are one blank each."""
        with pa.input_stream(str(self.path), compression="detect") as stream:
            if self.head.separator != " ":
                yield stream
                return
            lines = io.StringIO(stream.read().decode(self.encoding, "replace"), newline=None)
            yield io.BytesIO("\n".join(map(_single_blanks, lines)).encode(self.encoding))

    def line_of(self, row: int | None) -> int:
        """Find the number of the line in which a row ends.

        Args:
            row: index of the row; ``None`` for the first one with too many or too few cells.
        """
        width = len(self.head.names)
        with self._stream() as stream:
            text = stream.read().decode(self.encoding, "replace")
        reader = csv.reader(
            list(io.StringIO(text, newline=""))[self.head.lines :], delimiter=self.head.separator
        )
        index = 0
        with contextlib.suppress(csv.Error):  # a cell longer than 131072 characters
            for fields in reader:
                if width > 1 and not "".join(fields).strip() and len(fields) < 2:
                    continue
                if index == row or (row is None and len(fields) != width):
                    break
                index += 1
        return self.head.lines + reader.line_num

    def _check_decimal_commas(self, table: pa.Table) -> None:
        """Refuse pairs of whole numbers some of which are digits after a decimal comma."""
        if table.num_columns != 2:
            return
        joined = pa.concat_arrays([column.combine_chunks().drop_null() for column in table.columns])
        integers = pc.all(pc.match_substring_regex(joined, r"^ *[+-]?\d+ *$")).as_py()
        padded = pc.any(pc.match_substring_regex(joined, r"^ *(0\d+|[+-]0) *$")).as_py()
        if integers and padded:
            raise InputError(
                f"{self.path} may have two columns of whole numbers, or one with decimal commas: "
                "write a header, or decimal points"
            )

    def _check_quotes(self, table: pa.Table) -> None:
        """Refuse a file whose last cell is all that follows a quote that is not closed."""
        last = [column[-1].as_py() or "" for column in table.columns if len(table)]
        if not any("\n" in cell for cell in last):
            return
        with self._stream() as stream:
            text = io.StringIO(stream.read().decode(self.encoding, "replace"), newline="")
        reader = csv.reader(text, delimiter=self.head.separator, strict=True)
        line = 1
        try:
            for _ in reader:
                line = reader.line_num + 1
        except csv.Error as error:
            if "end of data" in str(error):
                raise InputError(
                    f"{self.path} has a quote in line {line} that is not closed"
                ) from None

    def _check_headers(self, table: pa.Table) -> None:
        """Refuse a header that comes again, as where files were joined."""
        same = pc.match_substring_regex(table[0], f"^{re.escape(self.head.names[0])}$")
        # `indices_nonzero` of PyArrow 18 ends the process for a file without rows.
        for row in map(int, np.flatnonzero(pc.fill_null(same, False).to_numpy())):
            if [column[row].as_py() for column in table.columns] == table.column_names:
                raise InputError(
                    f"{self.path} has its header again in line {self.line_of(row)}: leave it out, "
                    "or write a row of names above the data if the first row is no header"
                )

    def _without_unnamed(self, table: pa.Table) -> pa.Table:
        """Leave out columns without a name and values, as spreadsheets write them.

        Raises:
            InputError: one has a value.
        """
        unnamed = [name for name in table.column_names if name.startswith(UNNAMED)]
        if not unnamed:
            return table
        columns = f"{pluralize(len(unnamed), 'column')} without a name"
        if any(table[name].null_count < len(table) for name in unnamed):
            raise InputError(f"{self.path} has {columns} in line {self.head.lines}")
        self.notes += (f"{self.path}: {columns} and without a value left out.",)
        return table.drop_columns(unnamed)

    def _without_empty_rows(self, table: pa.Table) -> pa.Table:
        """Leave out rows of empty cells at the end, and note those above."""
        if table.num_columns == 1:  # whose empty lines are no rows at the end already
            return table
        empty = empty_rows(table)
        filled = np.flatnonzero(~empty)
        rows = int(filled[-1]) + 1 if len(filled) else len(table)
        if rows < len(table):
            count = pluralize(len(table) - rows, "row")
            self.notes += (f"{self.path}: {count} of empty cells at the end left out.",)
        if above := int(empty[:rows].sum()):
            self.notes += (f"{self.path}: {pluralize(above, 'row')} of empty cells kept.",)
        return table.slice(0, rows)

    def _note_backslashes(self, table: pa.Table) -> None:
        """Note cells whose quotes are no quotes of CSV, and stay in the cells."""
        for name, column in zip(table.column_names, table.columns, strict=True):
            for pattern, fault in (
                (r'\\"', "backslashes before quotes"),
                (r"""^\s+".*"\s*$|^\s*'.*'\s*$""", "blanks before quotes, or single ones"),
            ):
                if count := pc.sum(pc.match_substring_regex(column, pattern)).as_py():
                    self.notes += (
                        f"{self.path}: {pluralize(count, 'cell')} of {name!r} have {fault}, so "
                        "that the quotes stay in the cells.",
                    )


def describe_signature(raw: bytes) -> str:
    """Describe a file that is no text by its first bytes; nothing for other files."""
    fitting = (text for mark, text in SIGNATURES.items() if raw.startswith(mark))
    return next(fitting, "")


def empty_rows(table: pa.Table) -> np.ndarray:
    """Return which rows (n,) of text have no cell but empty ones and blanks."""
    empty = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        if empty.any():
            blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
            empty &= np.asarray(pc.fill_null(blank, True).to_numpy())
    return empty


class NotDecodedError(InputError):
    """The bytes of a file are not text in the encoding."""


def split_rows(
    stream: Any, names: list[str], separator: str, *, encoding: str = "utf-8", skip: int = 0
) -> tuple[pa.Table, list[pyarrow.csv.InvalidRow]]:
    """Split the lines of a stream of bytes into cells of text.

    Args:
        stream: the bytes.
        names: names of the columns.
        separator: separator of cells.
        encoding: encoding of the bytes.
        skip: number of lines at the beginning that are no rows.

    Returns:
        The rows, and those that have more or fewer cells than there are names. An empty line is a
        missing value of a single column, but for the last ones, and no row of several columns.
    """
    uneven: list[pyarrow.csv.InvalidRow] = []

    def set_aside(row: pyarrow.csv.InvalidRow) -> str:
        if row.text.strip():
            uneven.append(row)
        return "skip"

    table = pyarrow.csv.read_csv(
        stream,
        pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=skip, encoding=encoding, use_threads=False
        ),
        pyarrow.csv.ParseOptions(
            delimiter=separator,
            newlines_in_values=True,
            invalid_row_handler=set_aside,
            ignore_empty_lines=len(names) > 1,
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
    )
    rows = table.num_rows
    if len(names) == 1:
        while rows and ((cell := table[0][rows - 1].as_py()) is None or cell.isspace()):
            rows -= 1
    return table.slice(0, rows), uneven


def find_head(text: str, *, complete: bool, header: bool = True) -> Head:
    """Find the separator and the header of a text file.

    The separator is the one that gives most of the first rows the same number of cells, two or
    more. Lines of one cell above the first row of that many, such as a title, are skipped.

    Args:
        text: the beginning of a file.
        complete: whether it is all of the file; else its last line may be cut off.
        header: whether the first row must hold names; else a first row of numbers is data.

    Raises:
        ValueError: it is JSON or HTML; two separators fit equally well; blanks or colons may
            separate cells or be part of them; or the first row holds no names.
    """
    lines = text.splitlines(keepends=True)
    comments = next((at for at, line in enumerate(lines) if not line.startswith("# ")), 0)
    if comments:  # the last one may hold the names, as numpy.savetxt writes them
        last, below = lines[comments - 1].lstrip("# \t"), "".join(lines[comments:])
        head, above = find_head(last + below, complete=complete, header=header), comments - 1
        body = find_head(below, complete=complete, header=False)
        if body.has_header or len(body.names) != len(head.names):
            head, above = find_head(below, complete=complete, header=header), comments
        return head._replace(title_lines=head.title_lines + above, lines=head.lines + above)
    first, _, rest = text.partition("\n")
    declared = re.fullmatch(r'"?sep=(.)"?', first.strip())  # of Excel
    if declared:
        return _head(rest, declared[1], 1, header)._replace(title_lines=0)
    json = r"""\s*(\{\s*"|\[\s*[\[{"\d])"""
    if re.match(r"\s*\[\s*\{", text):
        raise ValueError("is an array of JSON, and not JSON lines: write one object in each line")
    for kind, pattern in (("HTML or XML", r"\s*<[!?a-z]"), ("JSON: name it .jsonl", json)):
        if re.match(pattern, text, re.IGNORECASE):
            raise ValueError(f"is no table of text, but looks like {kind}")
    proportion, separator, skipped, _ = _best_split(text, complete)
    numeric = _numeric_columns(text, " ", complete) if proportion < 0.5 else []
    if numeric and all(numeric):
        separator, skipped = " ", 0
    elif not proportion:
        _refuse_blanks_and_colons(text, complete)
    below = _lines_after(text, skipped)
    if skipped and not _are_names_of_numbers(_first_rows(below, separator, True)):
        skipped, below = 0, text
    return _head(below, separator, skipped, header)


class Split(NamedTuple):
    """The first rows of a text, split by a separator.

    Attributes:
        proportion: proportion of rows with the most frequent number of cells, if that is two or
            more.
        separator: the separator.
        skipped: number of lines above the first such row.
        numeric: all cells are numbers.
    """

    proportion: float
    separator: str
    skipped: int
    numeric: bool


def _best_split(text: str, complete: bool) -> Split:
    """Return the split in which most rows have the same number of cells, two or more."""
    best = Split(0.0, ",", 0, False)
    for separator in SEPARATORS:
        split = _split(text, separator, complete)
        if best.proportion == split.proportion == 1.0 and not best.skipped and not split.skipped:
            # Prefer the separator that leaves numbers alone.
            if best.numeric == split.numeric:
                raise ValueError(
                    f"may have cells separated by {best.separator!r} or by {separator!r}: write "
                    "one of these alone, or cells in quotes"
                )
            best = max(best, split, key=lambda split: split.numeric)
        elif split.proportion > best.proportion:
            best = split
    return best


def _split(text: str, separator: str, complete: bool) -> Split:
    rows = _first_rows(text, separator, complete)
    widths = [len(row) for _, row in rows]
    wide = [width for width in widths if width > 1]
    if not wide:
        return Split(0.0, separator, 0, False)
    usual = collections.Counter(wide).most_common(1)[0][0]
    first = widths.index(usual)
    # The line that a row begins in follows the last one of the row before.
    skipped = rows[first - 1][0] if first else 0
    numeric = all(_is_number(cell) for _, row in rows for cell in row)
    return Split(wide.count(usual) / len(rows), separator, skipped, numeric)


def _first_rows(text: str, separator: str, complete: bool) -> list[tuple[int, list[str]]]:
    """Return the first rows that are not empty, each with the number of its last line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows = []
    with contextlib.suppress(csv.Error):  # a cell longer than 131072 characters
        for row in reader:
            if len(row) > 1 or "".join(row).strip():
                rows.append((reader.line_num, row))
            if len(rows) > HEAD_ROWS:
                break
    return rows if complete or len(rows) > HEAD_ROWS or len(rows) < 2 else rows[:-1]


def _lines_after(text: str, lines: int) -> str:
    return "".join(list(io.StringIO(text, newline=""))[lines:])


def _are_names_of_numbers(rows: list[tuple[int, list[str]]]) -> bool:
    """Return whether a first row holds names, one at least of numbers in the next row."""
    if len(rows) < 2 or len(rows[0][1]) != len(rows[1][1]):
        return False
    (_, names), (_, below) = rows[:2]
    named = all(name.strip() and not _is_number(name) for name in names)
    return named and any(map(_is_number, below))


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number, or stands for a missing one."""
    return NUMBER.fullmatch(cell.strip()) is not None or cell.strip().lower() in MISSING


def _single_blanks(line: str) -> str:
    return " ".join(line.split())


def _numeric_columns(text: str, separator: str, complete: bool) -> list[bool]:
    """Return which columns below a first row are numbers; none if most rows are one cell."""
    text = "\n".join(map(_single_blanks, io.StringIO(text, newline=None)))
    rows = [row for _, row in _first_rows(text, separator, complete)]
    widths = [len(row) for row in rows]
    usual = max(widths, key=widths.count, default=1)
    below = [row for row in rows[1:] if len(row) == usual]
    if usual == 1 or not below or 2 * widths.count(usual) <= len(rows):
        return []
    if widths[0] not in (usual, max(usual - 1, 2)):  # R writes no name for its row names
        return []
    return [all(map(_is_number, column)) for column in zip(*below, strict=True)]


def _refuse_blanks_and_colons(text: str, complete: bool) -> None:
    """Refuse blanks and colons that may separate cells, one column of which are numbers."""
    for separator, word in ((" ", "blank"), (":", "colon")):
        numeric = _numeric_columns(text, separator, complete)
        if any(numeric):
            raise ValueError(
                f"has {pluralize(len(numeric) - 1, word)} in every line, which may separate cells: "
                "write commas between cells, or cells in quotes"
            )


def _head(text: str, separator: str, above: int, header: bool) -> Head:
    """Read the first row of a text, with the number of lines above it."""
    if separator == " ":
        text = "\n".join(map(_single_blanks, io.StringIO(text, newline=None)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        row = next((row for row in reader if len(row) > 1 or "".join(row).strip()), [])
    except csv.Error as error:
        raise ValueError(f"cannot be read at line {above + reader.line_num}: {error}") from None
    names = [" ".join(cell.split()) for cell in row]
    line = above + reader.line_num
    # In a necessary header ``inf`` may be a name.
    infinite = () if header else ("inf", "infinity")
    numbers = [
        name for name in names if NUMBER.fullmatch(name) or name.lstrip("+-").lower() in infinite
    ]
    texts = [name for name in names if not _is_number(name) and name not in numbers]
    # As pandas writes columns without names next to its index.
    counted_on = len(names) > 1 and names == ["", *map(str, range(len(names) - 1))]
    if header and numbers:
        raise ValueError(
            f"has the number {numbers[0]!r} in line {line}, where the names of columns are needed: "
            f"{NAMES_NEEDED}"
        )
    if not header and not texts and not counted_on:
        return Head(default_names(len(names)), separator, above, line - 1, False)
    if numbers and texts:
        raise ValueError(
            f"has both text ({texts[0]!r}) and numbers ({numbers[0]!r}) in line {line}, so it is "
            "neither a header nor data"
        )
    if names.count("") > 1:
        names = [name or f"{UNNAMED}{index}" for index, name in enumerate(names)]
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise ValueError(f"has {count} columns named {name!r} in line {line}: rename one")
    return Head(names, separator, above, line)
