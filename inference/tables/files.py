"""Tables are read from files of text, Parquet, Arrow, JSON lines and Excel, by Arrow.

Cells of a text file stay text: what kind a column is, and how its numbers are written, is decided
from all of its cells in both tables (:mod:`.kinds`).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet

from ..core.errors import InputError
from ..data.checks import counted
from ..data.read import check_there
from ..data.text import Head, find_head

#: Compressions that Arrow tells by a last suffix.
COMPRESSED = (".gz", ".zst", ".bz2")
#: Bytes from which separator and header are found, and lines that these have at least.
HEAD, FEW_LINES = 2**16, 3
#: Rows of a Parquet table beyond which so many of them are read, at random, and the key of the
#: schema's metadata that then tells how many there are.
MOST_ROWS, OF = 4_000_000, "rows"
#: The key of the schema's metadata with a note on how a table was read.
NOTE = "note"
#: Levels of arrays and objects in JSON beyond which it is refused, not tuned: Arrow goes a call
#: deeper in each, and 30 000 end the process on a stack of 8 MiB.
MOST_LEVELS = 100
#: A text in JSON without escapes; all bytes but quotes, brackets and ends of lines.
JSON_TEXT, NEITHER = re.compile(rb'"[^"\n]*"'), bytes(set(range(256)) - set(b'"[]{}\n'))
#: How Arrow tells where a cell cannot be decoded.
UNDECODED = re.compile(r"column #(\d+): Row #(\d+): .*UTF8")


def read_table(path: Path, encoding: str | None = None) -> pa.Table:
    """Read a table from a file, or from a folder or a glob of them.

    Args:
        path: of .csv, .tsv, .txt, .jsonl, .ndjson (each also .gz, .zst or .bz2), .parquet, .pq,
            .arrow, .feather, .ipc, .xlsx; a folder or a glob of Parquet files is one table.
        encoding: of text; by default UTF-8, or UTF-16 with a byte-order mark.

    Raises:
        InputError: the file cannot be read; names it, and the row where one is to blame.
    """
    if any(mark in path.name for mark in "*?["):
        return _parquet(sorted(path.parent.glob(path.name)), path)
    if path.is_dir():
        return _parquet(sorted(path.glob("**/*.parquet")), path, folder=path)
    check_there(path)
    if not path.stat().st_size:
        raise InputError(f"{path} is empty")
    if any(0xD800 <= ord(one) < 0xE000 for one in str(path)):  # a path that pyarrow cannot take
        raise InputError(f"{path} has a name that is not UTF-8: rename it")
    suffixes = [one.lower() for one in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in COMPRESSED
    kind = suffixes[-2] if packed and len(suffixes) > 1 else "".join(suffixes[-1:])
    reader = READERS.get(kind)
    if reader is None or (packed and kind not in TEXT):
        ending = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise InputError(f"{path} has {ending}; tables that can be read: {', '.join(READERS)}")
    try:
        return reader(path, encoding)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_first(error)}") from error
    except (pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a readable {kind} file: {_first(error)}") from error


def _first(error: BaseException) -> str:
    """The first line of a message, of Parquet's the cause alone."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    if "Is this a 'parquet' file?" in line:
        line = line.rsplit("': ", 1)[-1].split(". ", 1)[0]
    return line[:200].rstrip(". ")


def _text(path: Path, encoding: str | None) -> pa.Table:
    head = _beginning(path)
    if not head.strip():
        raise InputError(f"{path} is empty")
    marked = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}.get(head[:2], "utf-8")
    encoding = encoding or marked
    if head.startswith(b"PAR1"):
        raise InputError(f"{path} is a Parquet file: name it .parquet")
    if b"\0" in head and not encoding.lower().startswith(("utf-16", "utf-32", "utf_16", "utf_32")):
        raise InputError(f"{path} is not a text file")
    try:
        start = head.decode(encoding, errors="ignore" if len(head) >= HEAD else "strict")
    except UnicodeDecodeError as error:
        line = head[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path} is not {encoding} in line {line}: name another with --encoding, such as cp1252"
        ) from error
    except LookupError as error:
        raise InputError(f"{encoding!r} is no encoding that Python knows") from error
    start = start.removeprefix("\ufeff")
    try:
        found = find_head(start, complete=len(head) < HEAD or len(head) % HEAD != 0)
    except ValueError as error:
        raise InputError(f"{path} {error}") from None
    _check_header(path, found.names)
    table = _rows(path, encoding, found)
    if found.skipped:
        title = start.splitlines()[0][:40]
        lines = counted(found.skipped, "line")
        return _noted(
            table, f"{path}: {lines} before the header left out, the first of them {title!r}."
        )
    return table


def _noted(table: pa.Table, note: str) -> pa.Table:
    """Return a table with a note on how it was read."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NOTE: note})


def _beginning(path: Path) -> bytes:
    """Return the first bytes of a file, with a few lines at least."""
    with pa.input_stream(str(path), compression="detect") as stream:
        head = bytes(stream.read(HEAD))
        while head.count(b"\n") < FEW_LINES and (more := stream.read(HEAD)):
            head += more
    return head


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse a first line that does not name columns, which no table of several kinds lacks."""
    numbers = [name for name in header if _is_number(name)]
    if numbers:
        raise InputError(
            f"{path} has the number {numbers[0]!r} in line 1, where the names of columns are needed"
        )
    for name in header:
        if header.count(name) > 1:
            what = f"columns named {name!r}" if name else "columns without a name"
            raise InputError(f"{path} has {header.count(name)} {what} in line 1")


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")


def _rows(path: Path, encoding: str, head: Head) -> pa.Table:
    """All rows after the header, as text."""
    with (
        _text_errors(path, encoding, head.names),
        pa.input_stream(str(path), compression="detect") as stream,
    ):
        source = _single_blanks(stream, encoding) if head.separator == " " else stream
        found, uneven = parsed(
            source, head.separator, head.names, encoding=encoding, skip=head.lines
        )
    if uneven:
        row = uneven[0]
        number = "" if row.number is None else f" in line {row.number}"
        more = f" ({counted(len(uneven), 'such line')})" if len(uneven) > 1 else ""
        raise InputError(
            f"{path} has {counted(row.actual_columns, 'cell')}{number} but {row.expected_columns} "
            f"columns{more}"
        )
    _check_quotes(path, found)
    return found


def _single_blanks(stream: Any, encoding: str) -> io.BytesIO:
    """Return lines whose cells are separated by one blank each."""
    lines = stream.read().decode(encoding).splitlines()
    return io.BytesIO("\n".join(" ".join(line.split()) for line in lines).encode(encoding))


def parsed(
    stream: Any, separator: str, header: list[str], *, encoding: str = "utf-8", skip: int = 0
) -> tuple[pa.Table, list[pyarrow.csv.InvalidRow]]:
    """Split the lines of a stream into cells of text; and the lines that have more or fewer.

    Args:
        stream: of bytes.
        separator: of cells.
        header: the names of the columns.
        encoding: of the bytes.
        skip: lines at the beginning that are no rows.
    """
    uneven: list[pyarrow.csv.InvalidRow] = []

    def aside(row: pyarrow.csv.InvalidRow) -> str:
        uneven.append(row)
        return "skip"

    found = pyarrow.csv.read_csv(
        stream,
        pyarrow.csv.ReadOptions(
            column_names=header, skip_rows=skip, encoding=encoding, use_threads=False
        ),
        pyarrow.csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=aside
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
        ),
    )
    return found, uneven


@contextlib.contextmanager
def _text_errors(path: Path, encoding: str, header: list[str]) -> Iterator[None]:
    """Name the line and the column of a cell that cannot be decoded."""
    try:
        yield
    except pa.ArrowInvalid as error:
        place = UNDECODED.search(str(error))
        if place is None:
            raise
        column, line = int(place[1]), int(place[2])
        raise InputError(
            f"{path} is not {encoding} in line {line}, column {header[column]!r}: name another "
            "with --encoding, such as cp1252"
        ) from error


def _check_quotes(path: Path, found: pa.Table) -> None:
    """Refuse a file whose last cell is all that follows a quote that is not closed."""
    last = [found.column(name)[-1].as_py() or "" for name in found.column_names if len(found)]
    if not any("\n" in cell for cell in last):
        return
    quotes = 0
    with pa.input_stream(str(path), compression="detect") as stream:
        while block := stream.read(HEAD):
            quotes += block.count(b'"')
    if quotes % 2:
        raise InputError(
            f"{path} has a quote that is not closed, in row {len(found)} or before: "
            f"{quotes} quotation marks in all"
        )


def _json(path: Path, encoding: str | None) -> pa.Table:
    with pa.input_stream(str(path), compression="detect") as stream:
        try:
            return json_rows(stream.read())
        except ValueError as error:
            raise InputError(
                f"{path} is not a readable file of JSON lines, one object each: {_first(error)}"
            ) from error


def json_rows(raw: bytes) -> pa.Table:
    """Read JSON lines.

    Raises:
        ValueError: they cannot be read, or have more than :data:`MOST_LEVELS` levels.
    """
    level = lowest = line = start = 0
    while start < len(raw):
        end = (raw.find(b"\n", start + HEAD) + 1) or len(raw)
        # Pairs of backslashes first, so that one which is left before a quote escapes it. Texts
        # without brackets are two quotes then, which are removed faster than by the expression.
        plain = raw[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, NEITHER)
        marks = np.frombuffer(JSON_TEXT.sub(b"", plain.replace(b'""', b"")), dtype=np.uint8)
        opens, closes = np.isin(marks, list(b"[{")), np.isin(marks, list(b"]}"))
        levels = level + np.cumsum(opens.astype(int) - closes)
        # Above the lowest level before: what is closed and was not open ends no recursion.
        lows = np.minimum(np.minimum.accumulate(levels), lowest)
        if (deep := np.flatnonzero(levels - lows > MOST_LEVELS)).size:
            line += int(np.count_nonzero(marks[: deep[0]] == ord("\n"))) + 1
            raise ValueError(f"line {line} has more than {MOST_LEVELS} levels of arrays or objects")
        if marks.size:
            level, lowest = int(levels[-1]), int(lows[-1])
        line += int(np.count_nonzero(marks == ord("\n")))
        start = end
    return pyarrow.json.read_json(pa.BufferReader(raw))


def each_json_row(lines: list[bytes]) -> tuple[pa.Table, list[int]]:
    """Read JSON lines one by one: a table, and the indices of lines that are no objects.

    A column whose cells are of several types is text.
    """
    rows, bad = [], []
    for index, line in enumerate(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        elif line.strip():
            bad.append(index)
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _cells([row.get(name) for row in rows]) for name in names}), bad


def _parquet(paths: list[Path], named: Path, folder: Path | None = None) -> pa.Table:
    """All rows of several files; names of folders such as ``year=2020`` are a column."""
    if not paths:
        raise InputError(f"{named} has no Parquet files")
    try:
        hive: dict[str, Any] = {}
        if folder is not None:
            hive = {"partitioning": "hive", "partition_base_dir": str(folder)}
        found = pyarrow.dataset.dataset([str(path) for path in paths], format="parquet", **hive)
        for part in found.get_fragments():
            keys = pyarrow.dataset.get_partition_keys(part.partition_expression)
            odd = {*part.physical_schema.names, *keys} ^ set(found.schema.names)
            if odd:
                raise InputError(
                    f"{part.path} has other columns than {paths[0]}: {sorted(odd)[0]!r} is not in "
                    "both"
                )
        rows = _some_rows(found)
        rows.validate(full=True)
        return rows
    except (pa.ArrowException, MemoryError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{named} is not readable as Parquet: {_first(error)}") from error


def _some_rows(found: pyarrow.dataset.Dataset) -> pa.Table:
    """All rows, or of very many some at random, read a batch at a time."""
    total = found.count_rows()
    if total <= MOST_ROWS:
        return found.to_table()
    chosen = np.sort(np.random.default_rng(total).choice(total, MOST_ROWS, replace=False))
    parts, start, done = [], 0, 0
    for batch in found.to_batches():
        end = int(np.searchsorted(chosen, start + len(batch)))
        parts.append(batch.take(pa.array(chosen[done:end] - start)))
        start, done = start + len(batch), end
    return pa.Table.from_batches(parts, found.schema).replace_schema_metadata({OF: str(total)})


def _feather(path: Path, encoding: str | None) -> pa.Table:
    # Not mapped into memory: a file that is cut off meanwhile would end the process.
    with pa.OSFile(str(path)) as source:
        try:
            found = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            found = pa.ipc.open_stream(source).read_all()
    found.validate(full=True)
    return found


def _excel(path: Path, encoding: str | None) -> pa.Table:
    import pandas as pd

    try:
        with pd.ExcelFile(path) as book:
            frame, sheets = pd.read_excel(book, dtype=object), book.sheet_names
    except ImportError as error:
        raise InputError(
            f'{path} is an Excel file, and reading it needs pip install "bke[excel]"'
        ) from error
    except Exception as error:  # openpyxl has many kinds of error for a broken file
        raise InputError(f"{path} is not a readable Excel file: {_first(error)}") from error
    unnamed = [name for name in frame.columns if str(name).startswith("Unnamed: ")]
    if unnamed:
        raise InputError(f"{path} has {counted(len(unnamed), 'column')} without a name in row 1")
    table = pa.table({str(name): _cells(frame[name].tolist()) for name in frame.columns})
    if len(sheets) > 1:
        first, others = sheets[0], ", ".join(map(repr, sheets[1:]))
        return _noted(table, f"{path}: its first sheet, {first!r}, is read, and not {others}.")
    return table


def _cells(cells: list[object]) -> pa.Array:
    """Cells of one kind as they are, others as text."""
    known = [None if cell != cell else cell for cell in cells]  # NaN is not itself
    try:
        return pa.array(known)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell is None else str(cell) for cell in known])


TEXT = {".csv": _text, ".tsv": _text, ".txt": _text, ".jsonl": _json, ".ndjson": _json}
READERS: dict[str, Callable[[Path, str | None], pa.Table]] = {
    **TEXT,
    ".parquet": lambda path, _: _parquet([path], path),
    ".pq": lambda path, _: _parquet([path], path),
    ".arrow": _feather,
    ".feather": _feather,
    ".ipc": _feather,
    ".xlsx": _excel,
}
