"""Samples are read from CSV, Parquet and NPY files.

Text is split by the standard ``csv`` module rather than by ``pandas.read_csv``: pandas fills short
rows with NaN and forgets line numbers, and a message must name the line the user sees.
"""

from __future__ import annotations

import csv
import dataclasses
import decimal
import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .checks import counted

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>"})
#: Advice where a column holds no numbers.
CHOOSE = "; columns= or --columns leaves columns of text out"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample as read from a file.

    Attributes:
        values: (n, D) float64, every value finite, in the units of the file.
        columns: the D column names; ``x`` or ``x0``, ``x1``, ... where the file has none.
        path: the file.
    """

    values: NDArray[np.float64]
    columns: tuple[str, ...]
    path: Path


@dataclasses.dataclass(frozen=True)
class _Table:
    """A file before its cells become numbers: ``columns`` are numeric arrays or lists of cells."""

    path: Path
    columns: list[Any]
    header: list[str] | None = None
    lines: Sequence[int] | None = None  # line of the file for each row; None: count rows instead
    parse: Callable[[Any], float] = float  # NaN for a missing cell, ValueError for a text

    @property
    def names(self) -> list[str]:
        """The names of the columns: the header, or ``x``, or ``x0``, ``x1``, ..."""
        return self.header or default_names(len(self.columns))

    def place(self, row: int, column: int) -> str:
        """Tell where a cell is, as a reader of the file counts: from 1."""
        where = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        if self.header:
            return f"{where}, column {self.header[column]!r}"
        return f"{where}, column {column + 1} (the first is 1)"


def read_sample(
    path: str | os.PathLike[str], *, columns: Sequence[str | int] | None = None
) -> Sample:
    """Read a sample from a file.

    Text files (.csv, .tsv, .txt) may use comma, semicolon, tab or blanks, and a decimal comma where
    the separator is a semicolon or a tab. Their first row is a header if it holds text; one that
    holds both text and numbers is refused, since taking it either way could lose or invent a row.

    Args:
        path: a .csv, .tsv, .txt, .parquet, .pq or .npy file.
        columns: the columns to use, by name or by index counted from 0; all by default. The other
            columns are not looked at, so they may hold text.

    Returns:
        The sample, (n, D) with n >= 1.

    Raises:
        InputError: the file cannot be read as a table of finite numbers; names file, line, column.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    try:
        if path.is_dir():
            zarr = ": zarr is read by fit --stream, sketch and open_rows"
            known = zarr if path.suffix.lower() == ".zarr" else ""
            raise InputError(f"{path} is a folder, not a file{known}")
        if not path.exists():
            raise InputError(f"{path} does not exist")
        if reader is None:
            ending = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
            raise InputError(f"{path} has {ending}; files that can be read: {', '.join(_READERS)}")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty")
        table = reader(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    chosen = choose_columns(path, table.names, columns)
    values = np.column_stack([_numbers(table, index) for index in chosen])
    return Sample(values, tuple(table.names[index] for index in chosen), path)


def default_names(count: int) -> list[str]:
    """Name columns that have no names: ``x``, or ``x0``, ``x1``, ..."""
    return ["x"] if count == 1 else [f"x{index}" for index in range(count)]


def choose_columns(
    path: Path, names: Sequence[str], columns: Sequence[str | int] | None
) -> list[int]:
    """Find the chosen columns by index; a name comes before an index that is written the same.

    Raises:
        InputError: where there is no such column, or none is chosen, or one twice.
    """
    count = len(names)
    if columns is None:
        if "" in names:
            raise InputError(
                f"{path} has no name for column {names.index('') + 1} in its header (row "
                "numbers?): name it, or choose the columns to use"
            )
        chosen = list(range(count))
    else:
        chosen = []
        for column in [columns] if isinstance(columns, (str, int)) else columns:
            text = str(column).strip()
            if names.count(text) == 1:
                chosen.append(names.index(text))
            elif text not in names and re.fullmatch("[0-9]+", text) and int(text) < count:
                chosen.append(int(text))
            elif text not in names:
                known = ", ".join(map(repr, names[:12])) + (", ..." if count > 12 else "")
                raise InputError(
                    f"{path} has no column {text!r}: there are {known}, "
                    f"or by index 0 to {count - 1}"
                )
            else:
                raise InputError(f"{path} has more than one column {text!r}")
        if not chosen or len(set(chosen)) < len(chosen):
            what = "a column is chosen twice" if chosen else "no column is chosen"
            raise InputError(f"{path}: {what}")
    taken = [names[index] for index in chosen]
    if len(set(taken)) < len(taken):
        twice = next(name for name in taken if taken.count(name) > 1)
        raise InputError(f"{path} has more than one column {twice!r}")
    return chosen


def _numbers(table: _Table, index: int) -> NDArray[np.float64]:
    """Read column ``index`` as (n,) finite float64."""
    cells = table.columns[index]
    if isinstance(cells, np.ndarray):
        values = cells.astype(np.float64)
    else:
        values = np.empty(len(cells))
        for row, cell in enumerate(cells):
            try:
                values[row] = table.parse(cell)
            except (ValueError, TypeError):
                shown = repr(cell) if len(repr(cell)) <= 40 else repr(cell)[:36] + "..."
                others = "" if len(table.columns) < 2 else CHOOSE
                raise InputError(
                    f"{table.path} has {shown} in {table.place(row, index)}, "
                    f"where a number is needed{others}"
                ) from None
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        kind = "a missing value (NaN)" if np.isnan(values[bad[0]]) else "an infinite value"
        raise InputError(
            f"{table.path} has {kind} in {table.place(bad[0], index)}; "
            f"values of this column that are not finite: {bad.size} in all"
        )
    return values


def _number(cell: str, decimal_comma: bool) -> float:
    text = cell.strip()
    if text.lower() in MISSING:
        return np.nan
    # Python reads 1_000 as a number, a data file does not mean one; and in a file with decimal
    # commas 1.234 may be a thousand or one and a bit.
    if "_" in text or (decimal_comma and "." in text):
        raise ValueError(text)
    return float(text.replace(",", ".") if decimal_comma else text)


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


def _read_text(path: Path) -> _Table:
    raw = path.read_bytes()
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
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
    width = len(rows[filled[0]][1])
    if width == 1:
        rows = [(line, row or [""]) for line, row in rows[filled[0] : filled[-1] + 1]]
    else:
        rows = [rows[at] for at in filled]
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"{path} has {counted(len(row), 'cell')} in line {line} but {width} in line "
                f"{rows[0][0]}"
            )
    comma = separator in ";\t" and any(
        _DECIMAL_COMMA.fullmatch(cell.strip()) for _, row in rows for cell in row
    )
    header = _header(path, *rows[0], comma)
    if header is not None and len(rows) == 1:
        raise InputError(f"{path} has a header and no data")
    lines, body = zip(*(rows if header is None else rows[1:]), strict=True)
    columns = [list(cells) for cells in zip(*body, strict=True)]
    return _Table(path, columns, header, lines, lambda cell: _number(cell, comma))


def _header(path: Path, line: int, cells: list[str], decimal_comma: bool) -> list[str] | None:
    """Read the names in the first row; None if it holds no text and is therefore data."""
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


def _cell(cell: Any) -> float:
    """Read a Parquet cell that is not of a numeric column: a number, or NaN for null."""
    if cell is None or str(cell) in ("nan", "NaN", "<NA>"):
        return np.nan
    if isinstance(cell, (int, float, decimal.Decimal)) and not isinstance(cell, bool):
        return float(cell)
    raise ValueError(cell)


def _read_parquet(path: Path) -> _Table:
    import pandas as pd  # slow to import, and NPY and CSV do without

    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise InputError(
            f'{path} is a Parquet file, and reading it needs pip install "bke[parquet]"'
        ) from error
    except Exception as error:  # pyarrow has many kinds of error for a broken file
        raise InputError(f"{path} is not a readable Parquet file") from error
    if frame.shape[1] == 0 or frame.shape[0] == 0:
        raise InputError(f"{path} has {frame.shape[0]} rows and {frame.shape[1]} columns: no data")
    columns: list[Any] = []
    for index, kind in enumerate(frame.dtypes):
        series = frame.iloc[:, index]
        if getattr(kind, "kind", "O") in "iuf":
            columns.append(series.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns.append(series.tolist())
    return _Table(path, columns, [str(name) for name in frame.columns], parse=_cell)


def load_npy(path: Path, mmap_mode: Literal["r"] | None = None) -> NDArray[Any]:
    """Load an array of real numbers in one or two dimensions from an NPY file.

    Raises:
        InputError: where there is none, or it is empty.
    """
    try:
        array = np.load(path, allow_pickle=False, mmap_mode=mmap_mode)
    except OSError:
        raise
    except Exception as error:  # a broken header fails in the parser, in many ways
        kind = (
            "holds Python objects" if "Object arrays" in str(error) else "is not a valid NPY file"
        )
        raise InputError(f"{path} {kind}, where an array of numbers is needed") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an archive of arrays (NPZ), where one NPY array is needed")
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{path} has the type {array.dtype}, where an array of real numbers is needed"
        )
    if array.ndim not in (1, 2):
        raise InputError(f"{path} has {array.ndim} dimensions, where 1 or 2 are needed")
    if array.size == 0:
        raise InputError(f"{path} has shape {array.shape}: no data")
    return array


def _read_npy(path: Path) -> _Table:
    array = load_npy(path)
    return _Table(path, list(array.reshape(len(array), -1).T))


_READERS: dict[str, Callable[[Path], _Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npy": _read_npy,
}
