"""Rows that come block by block, put down on disk as they come."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.arrays import from_objects, plain_array
from ..data.checks import column_names, counted, first_fault
from ..data.file_table import default_names
from .source import ArrayRows, Rows

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
