"""Rows of a file, read when they are asked for."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.arrays import from_objects, plain_array
from ..data.checks import column_names, counted, first_fault
from ..data.file_table import default_names
from ..data.read import CHOOSE, check_there, choose_columns, load_npy, read_sample
from ..data.suspects import warn_of_suspects

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


#: What the messages call them.
NAME = "blocks"


class BlockRows(ArrayRows):
    """Rows in a temporary file, which goes when nobody has them any more."""

    def __init__(self, path: Path, columns: tuple[str, ...], count: int) -> None:
        shape = count, len(columns)
        super().__init__(np.memmap(path, dtype=np.float64, mode="r", shape=shape), path, columns)
        self._remove = weakref.finalize(self, path.unlink, missing_ok=True)


def open_blocks(
    blocks: Iterable[ArrayLike],
    *,
    columns: Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Rows:
    """Open rows that an iterator gives block by block, such as a reader of chunks.

    One block is in memory at a time. :func:`~bke.inference.fit` goes through the rows several
    times, so they are put down as float64
    in a temporary file, 8 bytes for each number, which is removed with what is returned. How the
    rows are cut into blocks changes no digit of any result.

    Args:
        blocks: arrays (k, D) or (k,), which means D = 1, data frames, or record batches of Arrow;
            k may differ, and blocks without rows are passed over.
        columns: D names; by default those of the first block.
        folder: for the temporary file; by default where the system has such files.

    Raises:
        InputError: for a value that is missing, not finite or beyond 1e150, naming its row among
            all; for blocks of different columns; where there are no rows at all.
    """
    if isinstance(blocks, (str, bytes, os.PathLike)) or not isinstance(blocks, Iterable):
        raise InputError(
            f"blocks must be an iterator of arrays, got {type(blocks).__name__}: for a file there "
            "is open_rows"
        )
    handle, name = tempfile.mkstemp(suffix=".rows", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            names, count = _written(blocks, columns, file)
        return BlockRows(path, names, count)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _written(
    blocks: Iterable[ArrayLike], columns: Sequence[str] | None, file: BinaryIO
) -> tuple[tuple[str, ...], int]:
    """The names of the columns of all blocks, and how many rows are in the ``file`` now."""
    names = None if columns is None else tuple(map(str, columns))
    first: tuple[str, ...] | None = None
    count = 0
    for number, block in enumerate(blocks, start=1):
        own = column_names(block)
        values = _numbers(block, own, number)
        if names is None:
            names = own or tuple(default_names(values.shape[1]))
        if values.shape[1] != len(names):
            raise InputError(
                f"{NAME}: block {number} has {counted(values.shape[1], 'column')}, where "
                f"{len(names)} are needed"
            )
        first = first or own
        if own is not None and own != first:
            raise InputError(
                f"{NAME}: the columns of block {number} are {', '.join(own)}, and those of the "
                f"first {', '.join(first or names)}"
            )
        bad = first_fault(values)
        if bad is not None:
            row, at, fault = bad
            raise InputError(
                f"{NAME} has {fault} in row {count + row + 1} (row {row + 1} of block {number}), "
                f"column {names[at]!r}: fill in or leave out that row"
            )
        file.write(values.tobytes())
        count += len(values)
    if not count or names is None:
        raise InputError(f"{NAME} has no rows: was the iterator used up before?")
    return names, count


def _numbers(block: Any, names: tuple[str, ...] | None, number: int) -> np.ndarray:
    """A block as float64 (k, D), missing values as NaN."""
    told = f"block {number} of {NAME}"
    array = plain_array(block, told)
    if array.ndim not in (1, 2):
        raise InputError(f"{told} has {array.ndim} dimensions, where (k,) or (k, D) is needed")
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.shape[1] == 0:
        raise InputError(f"{told} has no columns")
    if array.dtype.kind not in "iuf":
        array = from_objects(
            array, told, lambda at: f"column {names[at]!r}" if names else f"column {at + 1}"
        )
    return np.ascontiguousarray(array, dtype=np.float64)


#: Codecs that make numbers of bytes and bytes of numbers, and nothing else.
CODECS = (
    {"bytes", "sharding_indexed", "transpose"}
    | {"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"}
    | {"blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zfpy", "zlib", "zstd"}
    | {"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"}
)
#: Before the names of codecs that are not zarr's own.
FOREIGN = "numcodecs."
#: The least share of chunks that must be there: others would be read as one value.
LEAST_THERE = 0.1
#: Bytes of the largest chunk, which is in memory as a whole.
LARGEST = 2**31
METADATA = (".zarray", "zarr.json")
DEEPEST = 8


class Layout(NamedTuple):
    """What the metadata of an array say.

    Attributes:
        shape: of the array.
        chunks: their shape.
        codecs: all that they name.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codecs: tuple[str, ...]

    @property
    def number(self) -> int:
        """How many chunks there should be."""
        return math.prod(-(-n // k) for n, k in zip(self.shape, self.chunks, strict=True))


def open_zarr(path: Path, zarr: Any) -> Any:
    """Open a zarr array.

    Args:
        path: its folder.
        zarr: the package.

    Raises:
        InputError: it is no such array; its metadata name a codec that is none of numbers; nearly
            all of its chunks are missing, or one does not fit into memory.
    """
    found = [path / name for name in METADATA if (path / name).is_file()]
    if not found:
        raise InputError(
            f"{path} is not a readable zarr array: it has no {' and no '.join(METADATA)}"
        )
    for file in found:
        _check(path, _layout(file, path))
    try:
        return zarr.open_array(path, mode="r")
    except Exception as error:  # of a broken store, or a group
        raise InputError(f"{path} is not a readable zarr array: {error}") from error


def _check(path: Path, layout: Layout) -> None:
    for codec in layout.codecs:
        if codec.removeprefix(FOREIGN) not in CODECS:
            raise InputError(
                f"{path} has the codec {codec!r}, which is none of numbers and might run code: "
                "write the array anew with another"
            )
    if math.prod(layout.chunks) * 8 > LARGEST:
        raise InputError(f"{path} has chunks of {layout.chunks} values: write it in smaller ones")
    there = sum(1 for _ in _chunks(path))
    if there < LEAST_THERE * layout.number:
        raise InputError(
            f"{path} says that it has {layout.number} chunks, and {there} are there: is it a part?"
        )


def _chunks(path: Path) -> Iterator[Path]:
    """Files of chunks; those of metadata are not."""
    for file in path.rglob("*"):
        if file.is_file() and not (file.name.startswith(".") or file.name == METADATA[1]):
            yield file


def _layout(file: Path, path: Path) -> Layout:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if file.name == METADATA[0]:
            chunks, named = record["chunks"], [record["compressor"], *(record["filters"] or [])]
        else:
            chunks = record["chunk_grid"]["configuration"]["chunk_shape"]
            named = record["codecs"]
        shapes = [tuple(int(size) for size in one) for one in (record["shape"], chunks)]
        if len(shapes[0]) != len(shapes[1]) or min(shapes[0], default=0) < 0 or 0 in shapes[1]:
            raise ValueError(f"the shape {shapes[0]} in chunks of {shapes[1]}")
        return Layout(shapes[0], shapes[1], tuple(_names(named, DEEPEST)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{file.name} lacks {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path} is not a readable zarr array: {said}") from error


def _names(codecs: Any, deepest: int) -> Iterator[str]:
    """The names of codecs, and of those within them."""
    if not deepest:
        raise ValueError("its codecs have codecs without end")
    for codec in codecs:
        if codec is None:
            continue
        record: dict[str, Any] = {"name": codec} if isinstance(codec, str) else codec
        yield str(record["id"] if "id" in record else record["name"])
        within = record.get("configuration") or {}
        for inner in ("codecs", "index_codecs"):
            yield from _names(within.get(inner, ()), deepest - 1)
