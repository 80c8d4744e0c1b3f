"""Samples are read from CSV, Parquet and NPY files."""

from __future__ import annotations

import dataclasses
import decimal
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, nearest
from .equality import stored_size
from .file_table import FileTable
from .suspects import warn_of_suspects
from .text import read_text
from .unicode import normalize_text

#: Advice where a column holds no numbers.
CHOOSE = "; columns= or --columns leaves columns of text out"


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample as read from a file.

    Attributes:
        values: (n, D) float64, every value finite, in the units of the file.
        columns: the D column names; ``x`` or ``x0``, ``x1``, ... where the file has none.
        path: the file.
        sizes: (D,), bytes of a number of each column in the file, as of
            :func:`~bke.inference.data.equality.stored_sizes`.
    """

    values: NDArray[np.float64]
    columns: tuple[str, ...]
    path: Path
    sizes: tuple[int, ...]


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
            zarr = ": zarr is read by fit --stream and open_rows"
            known = zarr if path.suffix.lower() == ".zarr" else ""
            raise InputError(f"{path} is a folder, not a file{known}")
        check_there(path)
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
    names = tuple(table.names[index] for index in chosen)
    warn_of_suspects(path, names, values)
    sizes = (stored_size(getattr(table.columns[index], "dtype", None)) for index in chosen)
    return Sample(values, names, path, tuple(sizes))


def check_there(path: Path) -> None:
    """Refuse what is no file: a pipe would be waited for.

    Raises:
        InputError: there is none, or it is something else.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if not path.is_file():
        raise InputError(f"{path} is no regular file")


def choose_columns(
    path: Path, names: Sequence[str], columns: Sequence[str | int] | None
) -> list[int]:
    """Find the chosen columns by index; a name comes before an index that is written the same.

    Raises:
        InputError: where there is no such column, or none is chosen, or one twice.
    """
    count, names = len(names), list(map(normalize_text, names))
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
            text = normalize_text(str(column).strip())
            if names.count(text) == 1:
                chosen.append(names.index(text))
            elif text not in names and re.fullmatch("[0-9]+", text) and int(text) < count:
                chosen.append(int(text))
            elif text not in names:
                known = ", ".join(map(repr, names[:12])) + (", ..." if count > 12 else "")
                raise InputError(
                    f"{path} has no column {text!r}: there are {known}, "
                    f"or by index {'0' if count == 1 else f'0 to {count - 1}'}"
                    f"{nearest(text, names)}"
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


def _numbers(table: FileTable, index: int) -> NDArray[np.float64]:
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
                    f"where a number is needed{others}; tables with text are for `bke drift`"
                ) from None
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        kind = "a missing value (NaN)" if np.isnan(values[bad[0]]) else "an infinite value"
        raise InputError(
            f"{table.path} has {kind} in {table.place(bad[0], index)}; "
            f"values of this column that are not finite: {bad.size} in all; tables with missing "
            "values are for `bke drift`"
        )
    return values


def _cell(cell: Any) -> float:
    """Read a Parquet cell that is not of a numeric column: a number, or NaN for null."""
    if cell is None or str(cell) in ("nan", "NaN", "<NA>"):
        return np.nan
    if isinstance(cell, (int, float, decimal.Decimal)) and not isinstance(cell, bool):
        return float(cell)
    raise ValueError(cell)


def _read_parquet(path: Path) -> FileTable:
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
            size = stored_size(kind)
            columns.append(series.to_numpy(dtype=f"f{size}", na_value=np.nan))
        else:
            columns.append(series.tolist())
    return FileTable(path, columns, [str(name) for name in frame.columns], parse=_cell)


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


def _read_npy(path: Path) -> FileTable:
    array = load_npy(path)
    return FileTable(path, list(array.reshape(len(array), -1).T))


_READERS: dict[str, Callable[[Path], FileTable]] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npy": _read_npy,
}
