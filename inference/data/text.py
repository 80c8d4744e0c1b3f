"""Tables of text: separators, decimal commas and headers are found by looking at the cells.

Text is split by the standard ``csv`` module rather than by ``pandas.read_csv``: pandas fills short
rows with NaN and forgets line numbers, and a message must name the line the user sees.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from .checks import counted
from .file_table import FileTable

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
#: What numbers with a fraction have, or an exponent, in columns of so many rows at least.
_FRACTION, LEAST_BELOW = re.compile(r"[.,eE]"), 10
#: What may number columns, and from which number on it may be a year.
_WHOLE, LEAST_YEAR = re.compile(r"\d{1,9}", re.ASCII), 1000
#: Of which nobody can say whether they are thousands.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


def read_text(path: Path) -> FileTable:
    """Read a table of text, whose cells stay as they are written.

    Raises:
        InputError: the file is no such table; names the line.
    """
    rows, separator = _rows(path)
    for line, row in rows:
        if len(row) != len(rows[0][1]):
            raise InputError(
                f"{path} has {counted(len(row), 'cell')} in line {line} but {len(rows[0][1])} in "
                f"line {rows[0][0]}"
            )
    comma = separator in ";\t" and _has_decimal_commas(path, rows)
    header = _header(path, *rows[0], comma)
    if header is not None and len(rows) == 1:
        raise InputError(f"{path} has a header and no data")
    lines, body = zip(*(rows if header is None else rows[1:]), strict=True)
    columns = [list(cells) for cells in zip(*body, strict=True)]
    if header is None:
        _tell_numbered(path, body)
    return FileTable(path, columns, header, lines, lambda cell: _number(cell, comma))


def _rows(path: Path) -> tuple[list[tuple[int, list[str]]], str]:
    """The cells of every row with its line, and what separates them."""
    raw = path.read_bytes()
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
        warnings.warn(
            f"{path} is not UTF-8, so the names of its columns are read as Latin-1: numbers are "
            "the same either way",
            stacklevel=4,
        )
    if "\0" in text:
        raise InputError(f"{path} is not a text file")
    if not text.strip():
        raise InputError(f"{path} is empty")
    separator = separator_of(text)
    source: Iterable[str] = io.StringIO(text, newline=None)
    if separator == " ":
        source = (re.sub(r"[ \t]+", " ", line.strip()) for line in source)
    else:
        source = (line if line.strip(" \n") else "" for line in source)
    reader = csv.reader(
        source, delimiter=separator, skipinitialspace=separator != "\t", strict=True
    )
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path} cannot be read at line {reader.line_num}: {error}") from error
    # An empty line is spacing before, after and between rows of several cells; inside a single
    # column it is a gap, as the quoted empty cell "" is anywhere.
    filled = [at for at, (_, row) in enumerate(rows) if row]
    if len(rows[filled[0]][1]) == 1:
        return [(line, row or [""]) for line, row in rows[filled[0] : filled[-1] + 1]], separator
    return [rows[at] for at in filled], separator


def separator_of(text: str) -> str:
    """Find the separator that the first lines have equally often, else that of most of them.

    The order matters: a semicolon or tab comes before the comma, which may be a decimal comma.
    """
    lines = [line.strip(" ") for line in text.splitlines() if line.strip()][:20]
    lines = [re.sub(r'"[^"]*"', "quoted", line) for line in lines]
    counts = {mark: [line.count(mark) for line in lines] for mark in (";", "\t", ",")}
    counts[" "] = [len(line.split()) - 1 for line in lines]
    for mark, count in counts.items():
        if count[0] > 0 and len(set(count)) == 1:
            return mark
    usual = max(counts, key=lambda mark: np.count_nonzero(counts[mark]))
    return usual if 2 * np.count_nonzero(counts[usual]) > len(lines) else ","


class Head(NamedTuple):
    """The beginning of a table of text.

    Attributes:
        names: of the columns.
        separator: of cells.
        skipped: lines before the header, such as a title; not that which names the separator.
        lines: up to the first row, those of the header among them.
    """

    names: list[str]
    separator: str
    skipped: int
    lines: int


def find_head(text: str, *, complete: bool, most_rows: int = 100) -> Head:
    """Find the separator and the header of a table with a header.

    The separator is the one that gives most of the first rows the same number of cells, two or
    more. Lines of one cell before the first row of that many, such as a title, are skipped.

    Args:
        text: the beginning of a file.
        complete: whether it is all of the file; else its last line may be cut off.
        most_rows: number of rows that are looked at.

    Raises:
        ValueError: it is JSON or HTML; two marks separate cells alike; or blanks or colons may
            separate cells or be part of them.
    """
    first, _, rest = text.partition("\n")
    told = re.fullmatch(r'"?sep=(.)"?', first.strip())  # of Excel
    if told:
        names, lines = _first_row(rest, told[1])
        return Head(names, told[1], 0, lines + 1)
    for kind, pattern in (("HTML or XML", r"\s*<[!?a-z]"), ("JSON: name it .jsonl", r"\s*[{\[]")):
        if re.match(pattern, text, re.IGNORECASE):
            raise ValueError(f"is no table of text, but looks like {kind}")
    best = (0.0, ",", 0)
    for mark in ";\t,|~":
        rows = _some_rows(text, mark, complete, most_rows)
        widths = [len(row) for _, row in rows]
        wide = [width for width in widths if width > 1]
        usual = max(wide, key=wide.count, default=1)
        share = wide.count(usual) / max(len(rows), 1)
        if usual > 1 and share == best[0] == 1.0 and widths[0] == usual and not best[2]:
            raise ValueError(
                f"may have cells separated by {best[1]!r} or by {mark!r}: write one of these "
                "alone, or cells in quotes"
            )
        if usual > 1 and share > best[0]:
            # The line that a row begins in follows the last one of the row before.
            begin = rows[widths.index(usual) - 1][0] if widths.index(usual) else 0
            best = share, mark, begin
    share, separator, skipped = best
    if skipped and not _is_header(text, separator, skipped):
        skipped = 0
    if not share and (blank := _other_mark(text, complete, most_rows)):
        return Head(text.splitlines()[0].split(), blank, 0, 1)
    body = "".join(text.splitlines(keepends=True)[skipped:])
    names, lines = _first_row(body, separator)
    return Head(names, separator, skipped, skipped + lines)


def _is_header(text: str, mark: str, skipped: int) -> bool:
    """Return whether the first row after some lines has names, one at least of numbers below."""
    body = "".join(text.splitlines(keepends=True)[skipped:])
    (_, names), *rows = _some_rows(body, mark, True, 2) or [(0, [])]
    below = rows[0][1] if rows else []
    named = not any(map(_is_number, names)) and all(name.strip() for name in names)
    return named and len(below) == len(names) and any(map(_is_number, below))


def _some_rows(text: str, mark: str, complete: bool, most: int) -> list[tuple[int, list[str]]]:
    """Return the first rows that are not empty, each with the number of its last line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    rows = []
    with contextlib.suppress(csv.Error):  # a cell longer than 131072 characters
        for row in reader:
            if row:
                rows.append((reader.line_num, row))
            if len(rows) > most:
                break
    return rows if complete or len(rows) > most or len(rows) < 2 else rows[:-1]


def _first_row(text: str, mark: str) -> tuple[list[str], int]:
    """Return the names in the first row that is not empty, and the lines up to its end."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    row = next((row for row in reader if row), [])
    return [" ".join(cell.split()) for cell in row], reader.line_num


def _other_mark(text: str, complete: bool, most: int) -> str:
    """Return a blank if it separates numbers; refuse what may be separated by other marks."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][: most + 1]
    lines = lines if complete or len(lines) > most or len(lines) < 2 else lines[:-1]
    for mark, pattern in ((" ", r"[ \t]+"), (":", ":")):
        cells = [re.split(pattern, line) for line in lines if '"' not in line]
        width = len(cells[0]) if cells else 1
        if len(cells) < max(len(lines), 2) or width == 1 or {len(row) for row in cells} != {width}:
            continue
        numeric = [all(map(_is_number, column)) for column in zip(*cells[1:], strict=True)]
        if mark == " " and all(numeric):
            return mark
        if any(numeric):
            raise ValueError(
                f"has {counted(width - 1, 'blank' if mark == ' ' else 'colon')} in every line, "
                "which may separate cells: write commas between cells, or cells in quotes"
            )
    return ""


def _is_number(cell: str) -> bool:
    try:
        _number(cell, decimal_comma=False)
    except ValueError:
        return False
    return True


def _number(cell: str, decimal_comma: bool) -> float:
    text = cell.strip()
    if text.lower() in MISSING:
        return np.nan
    # Python reads 1_000 as a number, a data file does not mean one; and in a file with decimal
    # commas 1.234 may be a thousand or one and a bit.
    if "_" in text or (decimal_comma and "." in text):
        raise ValueError(text)
    return float(text.replace(",", ".") if decimal_comma else text)


def _has_decimal_commas(path: Path, rows: list[tuple[int, list[str]]]) -> bool:
    """Whether a file writes 1,5 for 1.5.

    Raises:
        InputError: all that have a comma may be thousands.
    """
    found = ((line, cell.strip()) for line, row in rows for cell in row)
    cells = [(line, cell) for line, cell in found if _DECIMAL_COMMA.fullmatch(cell)]
    if cells and all(_THOUSANDS.fullmatch(cell) for _, cell in cells):
        line, cell = cells[0]
        raise InputError(
            f"{path} has {cell!r} in line {line}, which may be {cell.replace(',', '.')} or "
            f"{cell.replace(',', '')}: write numbers with a decimal point, and without marks of "
            "thousands"
        )
    return bool(cells)


def _tell_numbered(path: Path, rows: Sequence[list[str]]) -> None:
    """Warn of a first row like no other that may name the columns: 0, 1, ... or years."""
    first = [cell.strip() for cell in rows[0]]
    if _counts_on(rows, first) or _is_apart(rows[1:], first):
        warnings.warn(
            f"{path}: its first row, {', '.join(first[:3])}{', ...' * (len(first) > 3)}, is read "
            "as numbers; leave it out, or write names in its place, where it names the columns",
            stacklevel=4,
        )


def _counts_on(rows: Sequence[list[str]], first: list[str]) -> bool:
    """Whether a first row alone is 0, 1, ..., or more than two years in a row."""
    if len(first) < 2 or not all(map(_WHOLE.fullmatch, first)):
        return False
    numbered = [str(int(first[0]) + index) for index in range(len(first))]
    years = len(first) > 2 and int(first[0]) >= LEAST_YEAR
    if first != numbered or not (first[0] == "0" or years):
        return False
    return not any([cell.strip() for cell in row] == numbered for row in rows[1:])


def _is_apart(rows: Sequence[list[str]], first: list[str]) -> bool:
    """Whether a first row has whole numbers, and all below have fractions and are far from one."""
    if len(rows) < LEAST_BELOW or len(set(first)) < len(first):
        return False
    outside = False
    for cell, column in zip(first, zip(*rows, strict=True), strict=True):
        known = [other for other in column if other.strip().lower() not in MISSING]
        if not (_WHOLE.fullmatch(cell) and known and all(map(_FRACTION.search, known))):
            return False
        try:
            below = [float(other.replace(",", ".")) for other in known]
        except ValueError:  # text, which is told of later
            return False
        low, high = min(below), max(below)
        outside |= not 2.0 * low - high <= int(cell) <= 2.0 * high - low
    return outside


def _header(path: Path, line: int, cells: list[str], decimal_comma: bool) -> list[str] | None:
    """Read the names in the first row; None if it holds no text and is therefore data.

    pandas' ``,0,1`` are names too: that of its index is empty, and the others are counted.
    """
    if len(cells) > 1 and [cell.strip() for cell in cells] == [
        "",
        *map(str, range(len(cells) - 1)),
    ]:
        return [cell.strip() for cell in cells]
    texts, numbers = [], []
    for cell in cells:
        try:
            if np.isnan(_number(cell, decimal_comma)):
                continue
            numbers.append(cell.strip())
        except ValueError:
            texts.append(cell.strip())
    if texts and numbers:
        raise InputError(
            f"{path} has both text ({texts[0]!r}) and numbers ({numbers[0]!r}) in line {line}, "
            "so it is neither a header nor data"
        )
    return [cell.strip() for cell in cells] if texts else None
