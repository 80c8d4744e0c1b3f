"""Rows of a file, read when they are asked for."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..data.checks import first_fault
from ..data.file_table import default_names
from ..data.read import CHOOSE, check_there, choose_columns, load_npy, read_sample
from ..data.suspects import warn_of_suspects
from .zarr_array import open_zarr

#: Rows that are looked at when a file is opened.
LOOKED_AT = 4096


class Rows(abc.ABC):
    """Rows of numbers (n, D) in a file, see :func:`open_rows`.

    Attributes:
        path: the file.
        columns: the D names.
        shape: (n, D).
    """

    def __init__(self, path: Path, columns: tuple[str, ...], count: int) -> None:
        self.path = path
        self.columns = columns
        self.shape = count, len(columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.columns)} in {self.path}>"

    def block(self, start: int, stop: int) -> np.ndarray:
        """Read rows ``start`` to ``stop - 1``, float64.

        Raises:
            InputError: for a value that is missing, not finite or beyond 1e150, naming its row; for
                rows that there are not; for a file that cannot be read any more.
        """
        if not 0 <= start < stop <= len(self):
            raise InputError(
                f"{self.path} has no rows from {start} to {stop - 1}: they are counted from 0 to "
                f"{len(self) - 1}"
            )
        try:
            values = np.ascontiguousarray(self._read(start, stop), dtype=np.float64)
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.path}: rows {start + 1} to {stop} cannot be read: {error}"
            ) from error
        if values.shape != (stop - start, self.shape[1]):
            raise InputError(
                f"{self.path}: rows {start + 1} to {stop} have the shape {values.shape}, where "
                f"{(stop - start, self.shape[1])} is needed: has the file changed?"
            )
        bad = first_fault(values)
        if bad is not None:
            row, at, fault = bad
            raise InputError(
                f"{self.path} has {fault} in row {start + row + 1}, column "
                f"{self.columns[at]!r}: fill in or leave out that row"
            )
        return values

    def fingerprint(self) -> list[Any]:
        """What tells this file and its columns from others, without reading it."""
        files = [self.path]
        if self.path.is_dir():  # of zarr: what is in it changes, the folder does not
            files = sorted(path for path in self.path.rglob("*") if path.is_file())
        stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        told = hashlib.sha256(json.dumps([list(map(str, files)), stats]).encode()).hexdigest()
        return [str(self.path.resolve()), told, list(self.columns), *self.shape]

    @abc.abstractmethod
    def _read(self, start: int, stop: int) -> Any: ...


class ArrayRows(Rows):
    """Rows of anything that is sliced like an array: in memory, mapped into it, or in chunks."""

    def __init__(
        self, array: Any, path: Path, columns: tuple[str, ...], chosen: list[int] | None = None
    ) -> None:
        super().__init__(path, columns, array.shape[0])
        self._array, self._chosen = array, chosen

    def _read(self, start: int, stop: int) -> Any:
        block = np.asarray(self._array[start:stop])
        block = block.reshape(len(block), -1)
        return block if self._chosen is None else block[:, self._chosen]


class ParquetRows(Rows):
    """Rows of a Parquet file, by row groups; the last one read is kept."""

    def __init__(self, path: Path, columns: Sequence[str | int] | None) -> None:
        parquet = _imported(path, "pyarrow.parquet", "parquet")
        try:
            self._file = parquet.ParquetFile(path)
        except Exception as error:  # pyarrow has many kinds of error for a broken file
            raise InputError(f"{path} is not a readable Parquet file") from error
        names = _without_index(self._file.schema_arrow)
        self._names = [names[index] for index in choose_columns(path, names, columns)]
        for name in self._names:
            kind = str(self._file.schema_arrow.field(name).type)
            if not kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal")):
                raise InputError(
                    f"{path} has the type {kind} in column {name!r}, where numbers are needed"
                    f"{CHOOSE}"
                )
        sizes = [
            self._file.metadata.row_group(group).num_rows
            for group in range(self._file.num_row_groups)
        ]
        self._ends = np.cumsum(sizes, dtype=int)
        self._kept: tuple[int, np.ndarray] = -1, np.empty(0)
        super().__init__(path, tuple(self._names), int(self._ends[-1]) if sizes else 0)

    def _read(self, start: int, stop: int) -> np.ndarray:
        pieces = []
        first, last = np.searchsorted(self._ends, [start, stop - 1], side="right")
        for group in range(int(first), int(last) + 1):
            begin = int(self._ends[group - 1]) if group else 0
            pieces.append(self._group(group)[max(start - begin, 0) : stop - begin])
        return np.concatenate(pieces)

    def _group(self, group: int) -> np.ndarray:
        if self._kept[0] != group:
            try:
                table = self._file.read_row_group(group, columns=self._names)
            except Exception as error:  # pyarrow has many kinds of error for a broken file
                raise InputError(
                    f"{self.path} is not a readable Parquet file: its group of rows {group + 1} is "
                    "damaged"
                ) from error
            columns = [table.column(name).to_numpy().astype(np.float64) for name in self._names]
            self._kept = group, np.column_stack(columns)
        return self._kept[1]


def _without_index(schema: Any) -> list[str]:
    """The columns of a table of pyarrow, less those in which pandas keeps its index."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def open_rows(path: str | os.PathLike[str], *, columns: Sequence[str | int] | None = None) -> Rows:
    """Open the rows of a file, for data that need not fit into memory.

    :func:`~bke.inference.fit` goes through them some times in one column, in several for quadrature
    of the landmark model. NPY files are mapped into memory,
    Parquet files read by row groups, zarr arrays by chunks; the text files of
    :func:`~bke.inference.read_sample` are read as a whole.

    Args:
        path: a .npy, .parquet, .pq, .zarr, .csv, .tsv or .txt file.
        columns: the columns to use, by name or by index counted from 0; all by default.

    Raises:
        InputError: the file is no table of numbers.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _OPENERS:
        sample = read_sample(path, columns=columns)
        return ArrayRows(sample.values, path, sample.columns)
    if not path.is_dir():
        check_there(path)
    rows = _OPENERS[suffix](path, columns)
    if not len(rows):
        raise InputError(f"{path} has no rows")
    with contextlib.suppress(InputError):  # told when these rows are read
        warn_of_suspects(path, rows.columns, rows.block(0, min(len(rows), LOOKED_AT)))
    return rows


def _open_npy(path: Path, columns: Sequence[str | int] | None) -> Rows:
    return _of_array(load_npy(path, mmap_mode="r"), path, columns)


def _open_zarr(path: Path, columns: Sequence[str | int] | None) -> Rows:
    array = open_zarr(path, _imported(path, "zarr", "zarr"))
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2):
        raise InputError(
            f"{path} has the type {array.dtype} and {array.ndim} dimensions, where real numbers in "
            "1 or 2 are needed"
        )
    return _of_array(array, path, columns)


def _of_array(array: Any, path: Path, columns: Sequence[str | int] | None) -> Rows:
    names = default_names(1 if array.ndim == 1 else array.shape[1])
    chosen = choose_columns(path, names, columns)
    every = chosen == list(range(len(names)))
    return ArrayRows(
        array, path, tuple(names[index] for index in chosen), None if every else chosen
    )


def _imported(path: Path, module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f'reading {path} needs pip install "bke[{extra}]"') from error


_OPENERS: dict[str, Callable[[Path, Sequence[str | int] | None], Rows]] = {
    ".npy": _open_npy,
    ".parquet": ParquetRows,
    ".pq": ParquetRows,
    ".zarr": _open_zarr,
}
