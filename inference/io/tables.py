"""Tables from files and data frames, as Arrow tables whose columns have different names."""

from __future__ import annotations

import contextlib
import datetime
import functools
import glob
import itertools
import json
import numbers
import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError
from ..data.checks import (
    check_file,
    check_unique_names,
    column_names,
    default_names,
    describe_index,
    normalize_text,
    pluralize,
)
from .text import NAMES_NEEDED, TextFile, describe_signature

if TYPE_CHECKING:
    import pandas as pd

#: Compressions that Arrow detects by a last suffix, and their first bytes.
COMPRESSED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd", ".bz2": b"BZh"}
#: Bytes that a compressed file may have when it is read, and how many times its own size: files
#: beyond both are refused. Tables of text are compressed to a third to a twentieth, and only a few
#: values that repeat to less than a hundredth; neither is tuned.
MOST_BYTES, MOST_TIMES = 2**28, 100
#: Advice for an array of JSON.
JSON_ARRAY_ADVICE = "write each object of an array on a separate line"
#: Suffixes of files that cannot be read, and what to do.
OTHER_SUFFIXES = {
    ".json": "write one JSON object in each line, and name it .jsonl",
    ".xls": "save it as .xlsx",
    ".zip": "unpack it",
    ".xz": "unpack it",
}
#: Bytes by which files of other formats are known.
SIGNATURE_BYTES = 16
#: File in a workbook that says in which file each sheet is.
WORKBOOK_LINKS = "xl/_rels/workbook.xml.rels"
#: Beginning of a file of Arrow, before the stream of its columns.
ARROW_FILE = b"ARROW1\0\0"
#: Metadata by which versions of Arrow before 1.0 marked messages with compressed buffers.
OLD_COMPRESSION = b"ARROW:experimental_compression"
#: Suffixes of Parquet files.
PARQUET = (".parquet", ".pq")
#: Largest number of rows of Parquet files that are read; larger files give a random sample.
MOST_ROWS = 4_000_000
#: Rows of text of which the size is computed together, not tuned.
TEXT_ROWS = 2**14
#: Levels of arrays and objects in JSON beyond which it is refused, not tuned: Arrow goes a call
#: deeper in each, and 30 000 end the process on a stack of 8 MiB.
MOST_LEVELS = 100
#: Bytes of JSON that are looked at together, not tuned.
JSON_BYTES = 2**16
#: A text in JSON without escapes; all bytes but quotes, brackets and ends of lines.
JSON_TEXT, NEITHER = re.compile(rb'"[^"\n]*"'), bytes(set(range(256)) - set(b'"[]{}\n'))
#: A line of ``null``, maybe behind a byte-order mark: Arrow reads it as an object without keys,
#: and crashes where a block has no other.
JSON_NULL = re.compile(rb"(?:^(?:\xef\xbb\xbf)?|[\r\n])[ \t]*null")
#: Objects of pandas that are of one type which Arrow has.
PLAIN_OBJECTS = (
    "string",
    "integer",
    "floating",
    "mixed-integer-float",
    "boolean",
    "decimal",
    "bytes",
    "empty",
)
#: Cells that are written as text where a column has several types.
SCALARS = (str, numbers.Real, np.bool_, datetime.date)
#: Characters in the names of columns that would break a line of text.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Table(NamedTuple):
    """A table whose columns have different names.

    Attributes:
        data: the columns.
        source: name in messages: the file, or the argument.
        notes: notes on how it was read.
        line_of: number of the line of a row, of text files.
        has_header: names are from the file or frame, and not ``x0``, ``x1``, ...
        separator: separator of cells, of text files.
    """

    data: pa.Table
    source: str
    notes: tuple[str, ...] = ()
    line_of: Callable[[int], int] | None = None
    has_header: bool = True
    separator: str = ""

    def label(self, row: int) -> str:
        """Describe a row: its line in a text file, else its number, from 1."""
        return f"row {row + 1}" if self.line_of is None else f"line {self.line_of(row)}"

    def location(self, row: int) -> str:
        """Describe where a row is, with the file or argument."""
        return f"{self.label(row)} of {self.source}"


def as_table(data: Any, name: str, encoding: str | None = None) -> Table:
    """Convert a data frame, or read a file.

    Args:
        data: a path; a :class:`Table`; a pandas, polars or Arrow table, or anything else that
            narwhals reads or that exports the Arrow C stream; a dictionary of columns.
        name: name of a frame in messages.
        encoding: encoding of a text file.

    Raises:
        InputError: one sentence that names the file or argument, and the column.
    """
    if isinstance(data, Table):
        return _checked(data)
    if isinstance(data, (str, os.PathLike)):
        return read_table(Path(data), encoding)
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):  # a column of pandas or polars
        data = data.to_frame()
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        data = pa.table({"x": data})
    frames = ("__dataframe__", "__arrow_c_stream__")
    if isinstance(data, dict) or any(hasattr(data, attribute) for attribute in frames):
        notes: tuple[str, ...] = ()
        if nw.dependencies.is_pandas_dataframe(data) and (index := describe_index(data)):
            notes = (f"{name}: {index} of pandas is left out: .reset_index() compares it.",)
            data = data.reset_index(drop=True)
        return _checked(Table(_to_arrow(data, name), name, notes))
    advice = ""
    if hasattr(data, "to_dataframe"):  # of xarray
        advice = ": give .to_dataframe() of it"
    elif hasattr(data, "collect"):  # of polars, dask and others
        advice = ": give .collect() of it"
    elif hasattr(data, "__next__"):
        advice = ": give pandas.DataFrame(list(...)) of its rows"
    elif isinstance(data, (list, tuple, np.ndarray)):
        advice = ": give pandas.DataFrame of it"
    raise InputError(
        f"{name} must be a data frame or the path of a file, got {type(data).__name__}{advice}"
    )


def read_table(path: Path, encoding: str | None = None, *, header: bool = True) -> Table:
    """Read a table from a file, or from a folder or a glob of them.

    Args:
        path: .csv, .tsv, .txt, .jsonl, .ndjson (each also .gz, .zst or .bz2), .parquet, .pq,
            .arrow, .feather, .ipc, .xlsx, .npy; a folder or a glob of Parquet files is one table.
        encoding: encoding of text; by default UTF-8, or UTF-16 with a byte-order mark.
        header: whether columns must have names; else they may be numbered, ``x0``, ``x1``, ...

    Raises:
        InputError: the file cannot be read; names it, and the row where one is the cause.
    """
    _check_path(path)
    if any(map(glob.has_magic, path.parts)) and not path.exists():
        paths = [Path(file) for file in sorted(glob.glob(str(path), recursive=True))]
        for file in paths:
            if file.suffix.lower() not in PARQUET:
                raise InputError(
                    f"{path} matches {file.name}, and only Parquet files are read together: join "
                    "them"
                )
        fixed = itertools.takewhile(lambda part: not glob.has_magic(part), path.parts)
        return _checked(_read_parquet(paths, path, Path(*fixed)))
    if path.suffix.lower() == ".zarr":
        raise InputError(f"{path} is zarr, which fit --stream and open_rows read")
    if path.is_dir():
        return _checked(_read_parquet(_parquet_files(path), path, path))
    _check_content(path)
    compressed = path.suffix.lower() in COMPRESSED
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    readers: dict[str, Callable[[Path], Table]] = {
        **dict.fromkeys(
            (".csv", ".tsv", ".txt"), lambda path: _read_text(path, encoding, header=header)
        ),
        **dict.fromkeys((".jsonl", ".ndjson"), _read_json),
        **({} if compressed else BINARY_READERS),
        **({} if compressed else {".xlsx": lambda path: _read_excel(path, header=header)}),
        **({} if compressed or header else {".npy": _read_npy}),
    }
    if suffix not in readers:
        ending = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        known, packed = ", ".join(readers), " or ".join(COMPRESSED)
        can_be_read = f"files that can be read: {known}; text also with {packed}"
        advice = OTHER_SUFFIXES.get(path.suffix.lower(), can_be_read)
        raise InputError(f"{path} has {ending}; {advice}")
    try:
        return _checked(readers[suffix](path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_first_line(error)}") from error
    except (pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a readable {suffix} file: {_first_line(error)}") from error


def _check_path(path: Path) -> None:
    """Refuse text in place of a path."""
    try:
        is_text = not path.exists() and "\n" in str(path)
    except OSError:  # too long for a path
        is_text = True
    if is_text:
        raise InputError(
            f"{str(path)[:40]!r} is not the path of a file: of text with separators pass "
            "pandas.read_csv(io.StringIO(text))"
        )


def _check_content(path: Path) -> None:
    """Refuse empty files, those whose names Arrow refuses, and others than their suffix says."""
    check_file(path)
    if not path.stat().st_size:
        raise InputError(f"{path} is empty")
    if any(0xD800 <= ord(character) < 0xE000 for character in str(path)):  # refused by pyarrow
        raise InputError(f"{path} has a name that is not UTF-8: rename it")
    with path.open("rb") as file:
        raw = file.read(SIGNATURE_BYTES)
    if not raw.startswith(COMPRESSED.get(path.suffix.lower(), b"")):
        content = describe_signature(raw) or f"not compressed: leave {path.suffix} out of its name"
        raise InputError(f"{path} cannot be read: it is {content}")
    if path.suffix.lower() in COMPRESSED:
        size, most = 0, max(MOST_BYTES, MOST_TIMES * path.stat().st_size)
        try:
            with pa.input_stream(str(path), compression="detect") as stream:
                while size <= most and (chunk := stream.read(2**20)):
                    size += len(chunk)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {_first_line(error)}") from error
        _check_size(path, size, "unpack it")


def _check_size(path: Path, size: int, advice: str) -> None:
    """Refuse a file that is small and says or turns out to hold a lot."""
    if size > max(MOST_BYTES, MOST_TIMES * path.stat().st_size):
        raise InputError(
            f"{path} holds more than {MOST_BYTES / 2**20:.0f} MiB, and {MOST_TIMES} times as much "
            f"as its size: {advice} if you trust it"
        )


def _parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, without hidden and temporary ones."""
    if (folder / "_delta_log").exists():
        raise InputError(
            f"{folder} is a Delta table, some of whose files may be deleted: read it with "
            "deltalake, and pass the data frame"
        )
    return [
        file
        for file in sorted(folder.glob("**/*"))
        if file.suffix.lower() in PARQUET
        and not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    ]


def clean_name(name: object) -> str:
    """Return the name of a column in Unicode normal form C, on one line, without outer blanks."""
    return " ".join(CONTROL.sub(" ", normalize_text(str(name))).split())


def column_name(name: Any) -> Any:
    """Return the name of a column as tables have it, of a number its text; others unchanged."""
    return clean_name(name) if isinstance(name, (str, numbers.Number)) else name


def _checked(table: Table) -> Table:
    """Refuse tables without rows, and columns without a distinct name."""
    data, source = table.data, table.source
    names = list(map(clean_name, data.column_names))
    if not names:
        raise InputError(f"{source} has no columns")
    if not data.num_rows:
        raise InputError(f"{source} has columns and no rows")
    check_unique_names(names, source)
    index = pandas_index(data.schema)
    notes = tuple(
        f"{source}: the index {name!r} of pandas is left out."
        for name in index
        # The numbers of rows that were selected say nothing.
        if not (name.startswith("__index_") and pa.types.is_integer(data.schema.field(name).type))
    )
    left_out = set(map(clean_name, index))
    columns = [name for name in names if name not in left_out]
    data = data.rename_columns(names).select(columns).replace_schema_metadata(None)
    return table._replace(data=data.combine_chunks(), notes=(*table.notes, *notes))


def pandas_index(schema: pa.Schema) -> list[str]:
    """Return the names of columns that are the index of a pandas data frame, if any."""
    try:
        columns = (schema.pandas_metadata or {})["index_columns"]
        return [name for name in columns if isinstance(name, str) and name in schema.names]
    except (KeyError, TypeError, ValueError, RecursionError):  # others wrote the metadata
        return []


def _first_line(error: BaseException) -> str:
    """Return the first line of a message, of Parquet's the cause alone."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    if "Is this a 'parquet' file?" in line:
        line = line.rsplit("': ", 1)[-1].split(". ", 1)[0]
    return line[:200].rstrip(". ")


def _read_text(path: Path, encoding: str | None, *, header: bool) -> Table:
    file = TextFile(path, encoding, header=header)
    data = file.read()
    head = file.head
    return Table(data, str(path), file.notes, file.line_of, head.has_header, head.separator)


def _read_json(path: Path) -> Table:
    with pa.input_stream(str(path), compression="detect") as stream:
        raw = stream.read()
    try:
        return Table(parse_json_lines(raw), str(path))
    except pa.ArrowInvalid:  # whose message has the number of a row within a block
        rows, bad = parse_json_objects(raw.splitlines())
        nested = (name for row in rows for name in row if isinstance(row[name], (dict, list)))
        if bad:
            index, reason = next(iter(bad.items()))
            more = f" ({pluralize(len(bad), 'such line')})" if len(bad) > 1 else ""
            fault = f"{reason} in line {index + 1}{more}"
        elif (name := next(nested, None)) is not None:
            fault = f"column {name!r} has arrays or objects in some rows"
        else:
            return Table(table_of_objects(rows), str(path))
    except ValueError as error:  # too many levels
        fault = str(error)
    if raw.lstrip()[:1] == b"[":
        fault += f"; {JSON_ARRAY_ADVICE}"
    raise InputError(f"{path} is not a readable file of JSON lines, one object each: {fault}")


def parse_json_lines(raw: bytes) -> pa.Table:
    """Parse JSON lines.

    Raises:
        ValueError: they cannot be parsed, or have more than :data:`MOST_LEVELS` levels.
    """
    import pyarrow.json as arrow_json  # slow to import, as are other readers

    level = lowest = line = start = 0
    while start < len(raw):
        end = (raw.find(b"\n", start + JSON_BYTES) + 1) or len(raw)
        # Pairs of backslashes first, so that one which is left before a quote escapes it. Texts
        # without brackets are two quotes then, which are removed faster than by the expression.
        plain = raw[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, NEITHER)
        marks = np.frombuffer(JSON_TEXT.sub(b"", plain.replace(b'""', b"")), dtype=np.uint8)
        opens, closes = np.isin(marks, list(b"[{")), np.isin(marks, list(b"]}"))
        levels = level + np.cumsum(opens.astype(int) - closes)
        # Above the lowest level before: closing brackets without opening ones end no recursion.
        lows = np.minimum(np.minimum.accumulate(levels), lowest)
        if (deep := np.flatnonzero(levels - lows > MOST_LEVELS)).size:
            line += int(np.count_nonzero(marks[: deep[0]] == ord("\n"))) + 1
            raise ValueError(f"line {line} has more than {MOST_LEVELS} levels of arrays or objects")
        if marks.size:
            level, lowest = int(levels[-1]), int(lows[-1])
        line += int(np.count_nonzero(marks == ord("\n")))
        start = end
    if JSON_NULL.search(raw):
        raise pa.ArrowInvalid("null is no object")
    table = arrow_json.read_json(pa.BufferReader(raw))
    # Arrow brings dates with an offset to UTC; as text their local time is known.
    dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    if not dates:
        return table
    text = pa.schema([(name, pa.string()) for name in dates])
    options = arrow_json.ParseOptions(explicit_schema=text, unexpected_field_behavior="infer")
    return arrow_json.read_json(pa.BufferReader(raw), parse_options=options).select(
        table.column_names
    )


def parse_json_objects(lines: list[bytes]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Parse JSON lines one by one: objects, and what other lines hold, by their index."""

    def with_different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(pairs)
        if len(row) < len(pairs):
            raise KeyError
        return row

    rows, bad = [], {}
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=with_different_keys)
        except KeyError:
            bad[index] = "a key twice"
            continue
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad[index] = "no JSON object"
    return rows, bad


def table_of_objects(rows: list[dict[str, Any]]) -> pa.Table:
    """Return objects of JSON as a table; a column whose cells are of several types is text."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = _from_objects(values, name)
        except (ValueError, TypeError, OverflowError):  # half of a surrogate pair, or 65 bits
            texts = ["" if _is_missing(cell) else str(cell) for cell in values]
            columns[name] = pa.array([text.encode("utf-8", "replace").decode() for text in texts])
    return pa.table(columns)


def _read_parquet(paths: list[Path], source: Path, folder: Path) -> Table:
    """Read files as one table; folders below ``folder`` named as ``year=2020`` are a column."""
    import pyarrow.dataset as arrow_dataset

    if not paths:
        raise InputError(
            f"{source} has no Parquet files, which alone are read together: join other files"
        )
    try:
        hive: dict[str, Any] = {"partitioning": "hive", "partition_base_dir": str(folder)}
        files = [str(path) for path in paths]
        dataset = arrow_dataset.dataset(files, format="parquet", **hive)
        schemas = [dataset.schema]
        for part in dataset.get_fragments():
            keys = arrow_dataset.get_partition_keys(part.partition_expression)
            differing = {*part.physical_schema.names, *keys} ^ set(dataset.schema.names)
            if differing:
                raise InputError(
                    f"{part.path} has other columns than {paths[0]}: {sorted(differing)[0]!r} is "
                    "not in both"
                )
            _check_dates(part.physical_schema, schemas[-1], part.path)
            num_cells = part.metadata.num_rows * part.metadata.num_columns
            for size in itertools.chain([num_cells], _parquet_text_bytes(part.path)):
                _check_size(Path(part.path), size, "write it with Parquet files of fewer rows")
            schemas.append(part.physical_schema)
        unified = _with_narrowest_floats(
            pa.unify_schemas(schemas, promote_options="permissive"), schemas
        )
        dataset = arrow_dataset.dataset(files, schema=unified, format="parquet", **hive)
        total = dataset.count_rows()
        if total <= MOST_ROWS:
            data = dataset.to_table()
        else:  # a random sample, in order
            chosen = np.random.default_rng(total).choice(total, MOST_ROWS, replace=False)
            data = dataset.take(pa.array(np.sort(chosen)))
        data.validate(full=True)
        notes = [
            f"{source}: the folder {part!r} is not read as a column: to compare it, give the "
            "folder above it."
            for part in itertools.takewhile(lambda part: "=" in part, reversed(folder.parts))
        ]
        if total > MOST_ROWS:
            notes.append(f"{MOST_ROWS:,} random rows of the {total:,} rows of {source} are read.")
        return Table(data, str(source), tuple(notes))
    except (pa.ArrowException, MemoryError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{source} is not readable as Parquet: {_first_line(error)}") from error


def _parquet_text_bytes(path: str) -> Iterator[int]:
    """Yield lower bounds of the bytes of text in a file, once each cell has its own.

    Cells refer to a dictionary, or share their beginnings: a few bytes may stand for very long
    texts. Dictionaries are short in most files, which no more than their first rows are read of.
    """
    from pyarrow.parquet import ParquetFile

    metadata = ParquetFile(path).metadata
    total = 0
    for group, column in itertools.product(
        range(metadata.num_row_groups), range(metadata.num_columns)
    ):
        chunk = metadata.row_group(group).column(column)
        stored, name = chunk.total_uncompressed_size, chunk.path_in_schema
        if chunk.physical_type != "BYTE_ARRAY" or chunk.num_values * stored <= MOST_BYTES:
            continue
        # PyArrow reads dictionaries of columns alone, and not with these encodings.
        decoded = "." in name or {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"} & set(
            chunk.encodings
        )
        file = ParquetFile(path, read_dictionary=None if decoded else [name])
        read = functools.partial(file.iter_batches, row_groups=[group], columns=[name])
        if not decoded:
            if (batch := next(read(1), None)) is None:
                continue
            first = pa.Table.from_batches([batch])[0].chunk(0)
            words = getattr(first, "dictionary", first)
            longest = pc.max(pc.binary_length(words)).as_py() or 0
            if chunk.num_values * longest + stored <= MOST_BYTES:
                continue
        for batch in read(max(MOST_BYTES // stored, 1) if decoded else TEXT_ROWS):
            table = pa.Table.from_batches([batch])
            total += _decoded_bytes(table) or table.nbytes
            yield total


def _with_narrowest_floats(unified: pa.Schema, schemas: list[pa.Schema]) -> pa.Schema:
    """Return a schema whose floating-point columns have the narrowest type among files.

    In a wider type a number of one file would differ from the same number of another by rounding.
    """
    for index, field in enumerate(unified):
        types = {schema.field(field.name).type for schema in schemas if field.name in schema.names}
        if len(types) > 1 and all(map(pa.types.is_floating, types)):
            narrowest = min(types, key=lambda dtype: dtype.bit_width)
            unified = unified.set(index, field.with_type(narrowest))
    return unified


def _check_dates(schema: pa.Schema, other: pa.Schema, path: str) -> None:
    """Refuse dates of another type or time zone, whose hours Arrow would change."""
    for name in schema.names:
        first, second = other.field(name).type, schema.field(name).type
        if first != second and pa.types.is_temporal(first) and pa.types.is_temporal(second):
            zones = [getattr(dtype, "tz", None) for dtype in (first, second)]
            if pa.types.is_date(first) != pa.types.is_date(second) or zones[0] != zones[1]:
                raise InputError(
                    f"{path} has {name!r} of type {second}, and another file of type {first}: "
                    "write one type"
                )


def _read_arrow(path: Path) -> Table:
    """Read a file or a stream of Arrow's IPC format; a file is a stream between marks."""
    # Not mapped into memory: a file that is cut off meanwhile would end the process.
    with pa.OSFile(str(path)) as source:
        raw = source.read_buffer()
    num_batches = None
    if raw[: len(ARROW_FILE)].to_pybytes() == ARROW_FILE:
        # The footer at the end, without which a file was cut off.
        num_batches = pa.ipc.open_file(raw).num_record_batches
        raw = raw[len(ARROW_FILE) :]
    size, read = 0, 0
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(raw)):
        read += message.type == "record batch"
        try:
            size += _arrow_bytes(message)
        except struct.error as error:
            raise pa.ArrowInvalid(f"damaged metadata: {error}") from error
        _check_size(path, size, "save it as .csv")
    if num_batches not in (None, read):
        raise pa.ArrowInvalid(f"{read} of {num_batches} batches of rows")
    data = pa.ipc.open_stream(raw).read_all()
    data.validate(full=True)
    _check_size(
        path, max(data.num_rows * data.num_columns, _decoded_bytes(data)), "save it as .csv"
    )
    return Table(data, str(path))


def _decoded_bytes(data: pa.Table) -> int:
    """Return the bytes of text in cells that refer to text, once each has its own."""
    size = 0
    counts: np.ndarray
    for array in itertools.chain.from_iterable(column.chunks for column in data.columns):
        if pa.types.is_dictionary(array.type):
            counts = np.bincount(array.indices.drop_null(), minlength=len(array.dictionary))
            values = array.dictionary
        elif pa.types.is_run_end_encoded(array.type):
            counts, values = np.diff(array.run_ends, prepend=0), array.values
        elif pa.types.is_string_view(array.type):
            counts, values = np.ones(len(array)), array
        else:
            continue
        if pa.types.is_string_view(values.type):
            # A view is of 16 bytes, of which the first four are the length.
            lengths = np.frombuffer(values.buffers()[1], np.int32)[4 * values.offset :: 4]
        elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        else:
            continue
        size += int(counts @ lengths[: len(counts)].astype(float))
    return size


def _arrow_bytes(message: pa.Message) -> int:
    """Return the bytes of the columns of a message of Arrow's IPC format, once decompressed.

    Arrow verifies the metadata, which are a table of FlatBuffers, when it reads a message; PyArrow
    does not show them. A compressed buffer begins with its size, as which it must be decompressed,
    or with -1 where it is not compressed.
    """
    metadata, body = message.metadata, message.body

    def number(format_: str, position: int) -> int:
        return int(struct.unpack_from(format_, metadata, position)[0])

    def field(table: int, index: int) -> int:
        """Return the position of a field of a table, 0 without it."""
        fields = table - number("<i", table)
        entry = 4 + 2 * index
        offset = number("<H", fields + entry) if entry < number("<H", fields) else 0
        return table + offset if offset else 0

    def follow(position: int) -> int:
        return position + number("<I", position)

    if message.type not in ("record batch", "dictionary"):
        return 0
    batch = follow(field(follow(0), 2))
    if message.type == "dictionary":
        batch = follow(field(batch, 1))
    size, is_compressed = 0, field(batch, 3) or OLD_COMPRESSION in metadata.to_pybytes()
    buffers = follow(field(batch, 2))
    locations = metadata[buffers + 4 :][: 16 * number("<I", buffers)]
    for offset, length in struct.iter_unpack("<qq", locations):
        # Arrow refuses buffers outside of the body; empty ones are at the offset of the next one.
        within = is_compressed and length > 0 and 0 <= offset <= len(body) - 8
        size += max(length, struct.unpack_from("<q", body, offset)[0] if within else 0)
    return size


def _read_excel(path: Path, *, header: bool) -> Table:
    size = 0
    # What is no archive, or a broken one, is refused below.
    with contextlib.suppress(Exception), zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    _check_size(path, size, "save it as .csv")
    sheet, rows, sheets, is_hidden = _excel_rows(path)
    filled = [index for index, row in enumerate(rows) if any(cell is not None for cell in row)]
    where = f"{path}, sheet {sheet!r}," if len(sheets) > 1 else f"{path}"
    if not filled:
        advice = "; the first sheet is read: move another to the front" if len(sheets) > 1 else ""
        raise InputError(f"{where} is empty{advice}")
    rows = rows[: filled[-1] + 1]
    width = max(map(len, rows))
    padded = [[*row, *[None] * (width - len(row))] for row in rows]
    used = [at for at in range(width) if any(row[at] is not None for row in padded)]
    values = [[row[at] for at in used] for row in padded]
    above = 0  # titles, of one cell each
    while len(used) > 1 and above + 1 < len(filled) and _is_title(values[filled[above]]):
        above += 1
    first = filled[above]
    hidden = _check_sheet(path, where, first + 1)
    names = values[first]
    numeric = [name for name in names if isinstance(name, numbers.Real)]
    has_header = header or len(numeric) < len(names)
    if numeric and has_header:
        raise InputError(
            f"{where} has the number {numeric[0]} in row {first + 1}, where the names of columns "
            f"are needed: {NAMES_NEEDED}"
        )
    if unnamed := names.count(None):
        raise InputError(
            f"{where} has {pluralize(unnamed, 'column')} without a name in row {first + 1}"
        )
    texts = list(map(str, names)) if has_header else default_names(len(names))
    data_rows = range(first + has_header, len(rows))
    try:
        columns = [
            _from_objects([_as_number(values[index][at]) for index in data_rows], text)
            for at, text in enumerate(texts)
        ]
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    notes = [f"{path}: {pluralize(hidden, 'hidden row')} read like the others."] if hidden else []
    if above:
        title = str(next(cell for cell in values[filled[0]] if cell is not None))[:40]
        rows_above = pluralize(above, "row")
        notes.append(f"{path}: {rows_above} above the header left out, the first is {title!r}.")
    if len(sheets) > 1:
        other_sheets = ", ".join(repr(other) for other in sheets if other != sheet)
        notes.append(
            f"{path}: its first sheet, {sheet!r}{', which is hidden' * is_hidden}, is read, and "
            f"not {other_sheets}: to read another, move it to the front."
        )
    return Table(
        pa.Table.from_arrays(columns, names=texts),
        str(path),
        tuple(notes),
        lambda row: data_rows[row] + 1,
        has_header,
    )


def _excel_rows(path: Path) -> tuple[str, list[tuple[Any, ...]], list[str], bool]:
    """Read the first sheet of a workbook: name, rows, names of all sheets, whether it is hidden.

    Not by pandas, which reads errors such as #DIV/0! as missing without a word.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f'{path} is an Excel file, and reading it needs pip install "bke[excel]"'
        ) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        with contextlib.closing(book):
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            is_hidden = sheet.sheet_state != "visible"
            return sheet.title, list(sheet.iter_rows(values_only=True)), book.sheetnames, is_hidden
    except Exception as error:  # openpyxl raises errors of many types for a broken file
        raw = path.read_bytes()[:SIGNATURE_BYTES]
        fault = _first_line(error)
        if not zipfile.is_zipfile(path) and (description := describe_signature(raw)):
            fault = f"it is {description}"
        elif b"\0" not in raw and raw[:2] != b"PK":
            fault = "it may be text: name it .csv"
        raise InputError(f"{path} is not a readable Excel file: {fault}") from error


def _check_sheet(path: Path, where: str, header: int) -> int:
    """Refuse formulas that were never calculated, and merged cells below the row of the header.

    Returns:
        Number of hidden rows, as by a filter.
    """
    with zipfile.ZipFile(path) as archive:
        first = re.search(rb'<sheet [^>]*r:id="(\w+)"', archive.read("xl/workbook.xml"))
        targets = {
            identifier[1]: target[1].decode().removeprefix("/xl/")
            for link in re.findall(rb"<Relationship [^>]*>", archive.read(WORKBOOK_LINKS))
            if (identifier := re.search(rb'Id="(\w+)"', link))
            and (target := re.search(rb'Target="([^"]+)"', link))
        }
        raw = archive.read(f"xl/{targets[first[1]]}") if first and first[1] in targets else b""
    if re.search(rb"</f>\s*(<v\s*/>|<v>\s*</v>|</c>)", raw):
        raise InputError(f"{where} has formulas without values: open and save it in a spreadsheet")
    merged = re.findall(rb'<mergeCell ref="[A-Z]+\d+:[A-Z]+(\d+)"', raw)
    if any(int(row) > header for row in merged):
        raise InputError(f"{where} has merged cells: split them, so that each row has its values")
    return len(re.findall(rb'<row [^>]*hidden="(?:1|true)"', raw))


def _is_title(row: list[Any]) -> bool:
    """Return whether a row of a spreadsheet has one cell, of text."""
    known = [cell for cell in row if cell is not None]
    return len(known) < 2 and all(isinstance(cell, str) for cell in known)


def _as_number(cell: Any) -> Any:
    """Return a whole number beyond 64 bits, which spreadsheets do not distinguish, as a float."""
    return float(cell) if isinstance(cell, int) and abs(cell) >= 2**63 else cell


def load_npy(path: Path, *, mapped: bool = False) -> np.ndarray:
    """Load real numbers in one or two dimensions from an NPY file, maybe mapped into memory.

    Raises:
        InputError: there are none, or it is empty.
    """
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r" if mapped else None)
    except OSError:
        raise
    except Exception as error:  # a broken header raises errors of many types
        objects = "Object arrays" in str(error)
        fault = "holds Python objects" if objects else "is not a valid NPY file"
        raise InputError(f"{path} {fault}, where an array of numbers is needed") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an archive of arrays (NPZ), where one NPY array is needed")
    if array.dtype.names:
        raise InputError(
            f"{path} is a structured array: write pandas.DataFrame of it to a .parquet or .csv file"
        )
    if array.dtype.kind not in "iuf":
        advice = ": convert it with .astype(int)" if array.dtype.kind == "b" else ""
        raise InputError(
            f"{path} has the type {array.dtype}, where an array of real numbers is needed{advice}"
        )
    if array.ndim not in (1, 2):
        raise InputError(f"{path} has {array.ndim} dimensions, where 1 or 2 are needed")
    if array.size == 0:
        raise InputError(f"{path} has shape {array.shape}: no data")
    return array


def _read_npy(path: Path) -> Table:
    array = load_npy(path)
    # Arrow has neither long double nor numbers of the other byte order.
    long_double = array.dtype.itemsize > 8
    array = array.astype(np.float64 if long_double else array.dtype.newbyteorder("="), copy=False)
    columns = list(array.reshape(len(array), -1).T)
    data = pa.table(columns, names=default_names(len(columns)))
    return Table(data, str(path), has_header=False)


def _from_objects(values: list[Any], name: str) -> pa.Array:
    """Convert cells of one type to that type, others to text; dates of one zone alone to dates.

    Booleans among numbers are text, where Arrow has 1 and 0.

    Raises:
        ValueError: dates stand among numbers.
    """
    dates = [cell for cell in values if isinstance(cell, datetime.date) and cell == cell]
    if any(isinstance(cell, numbers.Real) and cell == cell for cell in values if dates):
        raise ValueError(
            f"column {name!r} holds dates, such as {dates[0]}, among numbers: write all as dates, "
            "or all as numbers"
        )
    moments = [cell for cell in dates if isinstance(cell, datetime.datetime)]
    if moments and len({str(cell.tzinfo) for cell in moments}) > 1:
        values = [
            cell.isoformat() if isinstance(cell, datetime.datetime) and cell == cell else cell
            for cell in values
        ]
    elif moments and len(moments) < len(dates):  # Arrow would cut the hours off
        midnight = datetime.time(tzinfo=moments[0].tzinfo)
        values = [
            datetime.datetime.combine(cell, midnight)
            if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime)
            else cell
            for cell in values
        ]
    known = [cell for cell in values if not _is_missing(cell)]
    are_scalars = all(isinstance(cell, SCALARS) for cell in known)
    booleans = sum(isinstance(cell, (bool, np.bool_)) for cell in known)
    if not are_scalars or booleans in (0, len(known)):
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            if not are_scalars:
                raise
    return pa.array([None if _is_missing(cell) else _as_text(cell) for cell in values])


def _as_text(cell: Any) -> str:
    """Write a scalar as text, in the same way for equal numbers of several types."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(float(cell))
    return str(cell).lower() if isinstance(cell, (bool, np.bool_)) else str(cell)


def _is_missing(cell: object) -> bool:
    return cell is None or str(cell) == "<NA>" or cell != cell  # NaN is not itself


BINARY_READERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": lambda path: _read_parquet([path], path, path.parent),
    ".pq": lambda path: _read_parquet([path], path, path.parent),
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".ipc": _read_arrow,
}


def _without_pandas_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace types of pandas that Arrow lacks.

    Intervals and objects of several types become text, periods their beginnings.
    """
    import pandas as pd

    def convert(series: pd.Series) -> pd.Series:
        dtype = series.dtype
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            return series.astype(dtype.newbyteorder("="))
        if isinstance(dtype, pd.SparseDtype):
            return pd.Series(series.array.to_dense(), series.index)
        if isinstance(dtype, pd.PeriodDtype):
            return series.dt.to_timestamp()
        values = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
        if isinstance(values, pd.IntervalDtype):
            return series.astype("object").map(str, na_action="ignore")
        mixed = dtype == "object" and pd.api.types.infer_dtype(series) not in PLAIN_OBJECTS
        if mixed and all(isinstance(cell, SCALARS) for cell in series.dropna()):
            array = _from_objects(series.tolist(), str(series.name))
            return pd.Series(array, series.index, pd.ArrowDtype(array.type))
        return series

    dtypes = (pd.SparseDtype, pd.PeriodDtype, pd.IntervalDtype, pd.CategoricalDtype)
    special = (
        dtype.kind == "O" or isinstance(dtype, dtypes) or not getattr(dtype, "isnative", True)
        for dtype in frame.dtypes
    )
    if frame.columns.has_duplicates or not any(special):
        return frame
    return frame.apply(convert)


def _check_numpy_types(data: Any, name: str) -> None:
    """Refuse columns of NumPy types that Arrow lacks, with a conversion."""
    columns: Iterable[tuple[Any, Any]] = data.items() if isinstance(data, dict) else ()
    if nw.dependencies.is_pandas_dataframe(data):
        columns = zip(data.columns, data.dtypes, strict=True)
    for column, values in columns:
        dtype = getattr(values, "dtype", values)
        are_complex = isinstance(values, list) and any(isinstance(cell, complex) for cell in values)
        if are_complex or getattr(dtype, "kind", "") == "c":
            advice = "make columns of the real and of the imaginary part"
            dtype = "complex"
        elif isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize > 8:
            advice = "convert it with .astype('float64')"
        else:
            continue
        raise InputError(f"column {str(column)!r} of {name} has {dtype} numbers: {advice}")


def _to_arrow(data: Any, name: str) -> pa.Table:
    """Convert a data frame or a dictionary, or say in one sentence why it cannot be."""
    _check_numpy_types(data, name)
    try:
        if isinstance(data, pa.Table):
            return data
        if nw.dependencies.is_pandas_dataframe(data):
            data = _without_pandas_types(data)
        if isinstance(data, dict):
            data = {
                column: _from_objects(sheet, str(column)) if isinstance(sheet, list) else sheet
                for column, sheet in data.items()
            }
        frame = nw.from_native(data, eager_only=True, pass_through=True)
        return frame.to_arrow() if isinstance(frame, nw.DataFrame) else pa.table(data)
    except UnicodeEncodeError as error:
        text = error.object[max(error.start - 10, 0) : error.end]
        raise InputError(f"{name} has text that is no Unicode, {text!r}") from error
    except OverflowError as error:
        raise InputError(
            f"{name} has whole numbers that need more than 64 bits: give them as text"
        ) from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = " ".join(" ".join(map(str, error.args[:2])).split()) or type(error).__name__
        check_unique_names(column_names(data), name)
        advice = ""
        if "Unsupported numpy type" in reason:
            advice = "; convert numbers of other types with .astype('float32')"
        raise InputError(f"{name} cannot be taken for a table: {reason[:200]}{advice}") from error
