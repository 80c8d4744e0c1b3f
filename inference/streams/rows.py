"""Rows of files and of iterators of blocks, of which one block is in memory at a time."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import (
    INEXACT_INTEGERS,
    as_matrix,
    as_names,
    check_file,
    column_names,
    default_names,
    first_invalid_value,
    loses_digits,
    pluralize,
)
from ..io.samples import CHOOSE, choose_columns, read_sample, warn_of_non_measurements
from ..io.tables import load_npy, pandas_index


class Rows:
    """Rows of numbers (n, D) in a file, see :func:`open_rows`.

    Attributes:
        path: the file.
        columns: the D names.
        shape: (n, D).
    """

    def __init__(
        self, array: Any, path: Path, columns: tuple[str, ...], indices: Any = slice(None)
    ) -> None:
        """Take columns of anything that is sliced like an array (n, ...), by their indices."""
        self.path = path
        self.columns = columns
        self.shape = array.shape[0], len(columns)
        self._array, self._indices = array, indices

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.columns)} in {self.path}>"

    def block(self, start: int, stop: int) -> np.ndarray:
        """Read rows ``start`` to ``stop - 1`` as float64.

        Raises:
            InputError: for a value that is missing, not finite or beyond 1e150, naming its row; for
                rows outside of the file; for a file that can no longer be read.
        """
        if not 0 <= start < stop <= len(self):
            raise InputError(
                f"{self.path} has no rows from {start} to {stop - 1}: they are counted from 0 to "
                f"{len(self) - 1}"
            )
        try:
            stored = np.asarray(self._array[start:stop])
            stored = stored.reshape(len(stored), -1)[:, self._indices]
            values = np.ascontiguousarray(stored, dtype=np.float64)
        except InputError:
            raise
        except Exception as error:  # libraries raise errors of many types for a damaged file
            raise InputError(
                f"{self.path}: rows {start + 1} to {stop} cannot be read: {error}"
            ) from error
        if values.shape != (stop - start, self.shape[1]):
            raise InputError(
                f"{self.path}: rows {start + 1} to {stop} have the shape {values.shape}, where "
                f"{(stop - start, self.shape[1])} is needed: has the file changed?"
            )
        if stored.dtype.kind in "iu" and loses_digits(stored, values):
            raise InputError(f"{self.path} has {INEXACT_INTEGERS}")
        check_values(values, str(self.path), self.columns, lambda row: f"row {start + row + 1}")
        return values

    def chunks(
        self, size: int, indices: Sequence[int] | None = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Read chunks of ``size`` rows with their indices, the next one ahead of its use.

        Args:
            size: rows of a chunk; the last one may be smaller.
            indices: indices of chunks; by default all.
        """
        indices = range(-(-len(self) // size)) if indices is None else indices
        starts = [index * size for index in indices]
        with ThreadPoolExecutor(1) as reader:
            futures = (
                reader.submit(self.block, start, min(start + size, len(self))) for start in starts
            )
            future = next(futures, None)
            for index in indices:
                block = cast(Future[np.ndarray], future).result()
                future = next(futures, None)
                yield index, block

    def fingerprint(self) -> list[Any]:
        """Return plain data that identify the file and its columns, without reading the rows."""
        files = [self.path]
        if self.path.is_dir():  # zarr: a folder keeps its time when a chunk in it changes
            files = sorted(path for path in self.path.rglob("*") if path.is_file())
        stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        digest = hashlib.sha256(json.dumps([list(map(str, files)), stats]).encode()).hexdigest()
        return [str(self.path.resolve()), digest, list(self.columns), *self.shape]


class ParquetArray:
    """Columns of a Parquet file that are sliced like an array (n, D), by row groups.

    The row group last read stays in memory.
    """

    def __init__(self, path: Path, columns: Sequence[str | int] | None) -> None:
        import pyarrow.parquet as parquet  # slow to import

        try:
            self._path, self._file = path, parquet.ParquetFile(path)
        except Exception as error:  # pyarrow raises errors of many types for a damaged file
            raise InputError(f"{path} is not a readable Parquet file") from error
        schema, metadata = self._file.schema_arrow, self._file.metadata
        index = pandas_index(schema)
        names = [name for name in schema.names if name not in index]
        self.names = tuple(names[position] for position in choose_columns(path, names, columns))
        for name in self.names:
            dtype = str(schema.field(name).type)
            if not dtype.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
                raise InputError(
                    f"{path} has the type {dtype} in column {name!r}, where numbers are needed"
                    f"{CHOOSE}"
                )
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._ends = np.cumsum(sizes, dtype=int)
        self.shape = sum(sizes), len(self.names)
        self._group, self._values = -1, np.empty(0)

    def __getitem__(self, rows: slice) -> np.ndarray:
        pieces = []
        first, last = np.searchsorted(self._ends, [rows.start, rows.stop - 1], side="right")
        for group in range(int(first), int(last) + 1):
            if group != self._group:
                table = self._file.read_row_group(group, columns=list(self.names))
                stored = [table.column(name).to_numpy() for name in self.names]
                columns = [column.astype(np.float64) for column in stored]
                for name, exact, values in zip(self.names, stored, columns, strict=True):
                    if exact.dtype.kind in "iuO" and loses_digits(exact, values):  # or decimals
                        raise InputError(f"{self._path}: column {name!r} has {INEXACT_INTEGERS}")
                self._values = np.column_stack(columns)
                self._group = group
            begin = int(self._ends[group]) - len(self._values)
            pieces.append(self._values[max(rows.start - begin, 0) : rows.stop - begin])
        return np.concatenate(pieces)


def open_rows(path: str | os.PathLike[str], *, columns: Sequence[str | int] | None = None) -> Rows:
    """Open the rows of a file, for data that need not fit into memory.

    :func:`~bke.inference.fit` reads one column a few times, and several columns many times, for
    quadrature of the landmark model. NPY files are mapped into memory, Parquet files read by row
    groups, zarr arrays by chunks; the text files of :func:`~bke.inference.read_sample` are read
    into memory.

    Args:
        path: a .npy, .parquet, .pq, .zarr, .csv, .tsv or .txt file.
        columns: the columns to use, by name or by index counted from 0; all by default.

    Raises:
        InputError: the file is no table of numbers.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".parquet", ".pq", ".zarr"):
        sample = read_sample(path, columns=columns)
        return Rows(sample.values, path, sample.columns)
    if not path.is_dir():
        check_file(path)
    if suffix in (".parquet", ".pq"):
        parquet = ParquetArray(path, columns)
        rows = Rows(parquet, path, parquet.names)
    else:
        array = load_npy(path, mapped=True) if suffix == ".npy" else _open_zarr(path)
        names = default_names(1 if array.ndim == 1 else array.shape[1])
        indices = choose_columns(path, names, columns)
        rows = Rows(array, path, tuple(names[index] for index in indices), indices)
    if not len(rows):
        raise InputError(f"{path} has no rows")
    with contextlib.suppress(InputError):  # raised again when these rows are read
        warn_of_non_measurements(path, rows.columns, rows.block(0, min(len(rows), 4096)))
    return rows


def _open_zarr(path: Path, min_stored_proportion: float = 0.1, max_chunk_bytes: int = 2**31) -> Any:
    """Open a zarr array of numbers.

    A file names its codecs, and pickle as one would run code from the file. zarr refuses codecs of
    Python objects for a type of numbers (since 3.1), and other types are refused here.

    Args:
        path: its folder.
        min_stored_proportion: least proportion of chunks that must exist. Zarr leaves out chunks
            that hold the fill value alone, and reads a missing chunk as such; not tuned.
        max_chunk_bytes: a chunk, or shard, is in memory as a whole; not tuned.
    """
    zarr = import_optional("zarr", "zarr", f"reading {path} needs")
    files = check_store(path)
    try:
        array = zarr.open_array(path, mode="r")
        chunks = array.shards or array.chunks
        expected = math.prod(-(-n // k) for n, k in zip(array.shape, chunks, strict=True))
    except Exception as error:  # zarr raises errors of many types for damaged metadata
        raise InputError(f"{path} is not a readable zarr array: {error}") from error
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2):
        raise InputError(
            f"{path} has the type {array.dtype} and {array.ndim} dimensions, where real numbers in "
            "1 or 2 are needed"
        )
    if math.prod(chunks) * 8 > max_chunk_bytes:
        raise InputError(f"{path} has chunks of {chunks} values: write it in smaller ones")
    stored = sum(file.name != "zarr.json" and not file.name.startswith(".") for file in files)
    if stored < min_stored_proportion * expected:
        raise InputError(
            f"{path} should have {expected} chunks, and has {stored}: copy the array completely"
        )
    return array


def check_store(path: Path) -> list[Path]:
    """Return the files of a zarr store, which must be regular: reading a pipe would wait.

    Raises:
        InputError: one is a link, a pipe or a device.
    """
    files = [file for file in path.rglob("*") if not file.is_dir() or file.is_symlink()]
    for file in files:
        if file.is_symlink() or not file.is_file():
            raise InputError(
                f"{file} is a link or no regular file: copy the array with the files themselves"
            )
    return files


def open_blocks(
    blocks: Iterable[ArrayLike],
    *,
    columns: Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Rows:
    """Open rows that an iterator yields block by block, such as a reader of chunks.

    :func:`~bke.inference.fit` reads the rows several times, so they are written as float64 to a
    temporary file, 8 bytes for each number, which is removed with the returned object. Results do
    not depend on how the rows are cut into blocks, to the last digit.

    Args:
        blocks: arrays (k, D) or (k,), which means D = 1, data frames, or record batches of Arrow;
            k may differ, and may be 0.
        columns: D names; by default those of the first block.
        folder: for the temporary file; by default the system's.

    Raises:
        InputError: for a value that is missing, not finite or beyond 1e150, naming its row among
            all; for blocks of different columns; where there are no rows at all.
    """
    if isinstance(blocks, (str, bytes, os.PathLike)) or not isinstance(blocks, Iterable):
        raise InputError(
            f"blocks must be an iterator of arrays, got {type(blocks).__name__}: for a file there "
            "is open_rows"
        )
    names = None if columns is None else as_names(columns, "columns")
    first_names: tuple[str, ...] | None = None
    count = 0
    handle, file_name = tempfile.mkstemp(suffix=".rows", dir=folder)
    path = Path(file_name)
    try:
        with os.fdopen(handle, "wb") as file:
            for number, block in enumerate(blocks, start=1):
                values = as_matrix(block, f"block {number} of blocks")
                block_names = column_names(block)
                names = names or block_names or tuple(default_names(values.shape[1]))
                if values.shape[1] != len(names):
                    raise InputError(
                        f"blocks: block {number} has {pluralize(values.shape[1], 'column')}, where "
                        f"{len(names)} are needed"
                    )
                first_names = first_names or block_names
                if block_names and first_names and block_names != first_names:
                    raise InputError(
                        f"blocks: the columns of block {number} are {', '.join(block_names)}, and "
                        f"those of the first {', '.join(first_names)}"
                    )

                def row_label(row: int, total: int = count, number: int = number) -> str:
                    return f"row {total + row + 1} (row {row + 1} of block {number})"

                check_values(values, "blocks", names, row_label)
                file.write(values.tobytes())
                count += len(values)
        if not count or names is None:
            raise InputError("blocks has no rows: was the iterator used up before?")
        array = np.memmap(path, dtype=np.float64, mode="r", shape=(count, len(names)))
        rows = Rows(array, path, names)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    weakref.finalize(rows, path.unlink, missing_ok=True)
    return rows


def check_values(
    values: np.ndarray, name: str, columns: Sequence[str | int], row_label: Callable[[int], str]
) -> None:
    """Refuse values (k, D) that are missing, not finite or beyond 1e150.

    Args:
        values: rows.
        name: name of the file or the sample, for messages.
        columns: D names.
        row_label: description of a row, given its index.
    """
    fault = first_invalid_value(values)
    if fault is not None:
        row, column, description = fault
        raise InputError(
            f"{name} has {description} in {row_label(row)}, column {columns[column]!r}: fill in or "
            "leave out that row"
        )


def import_optional(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional dependency.

    Args:
        module: dotted name.
        extra: the extra of ``bke`` that installs it.
        purpose: beginning of the message, such as ``"reading x.zarr needs"``.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f'{purpose} pip install "bke[{extra}]"') from error
