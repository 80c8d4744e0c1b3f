"""Tables in memory: data frames of any library, and files, as one kind of table."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v1 as nw
import pyarrow as pa

from ..core.errors import InputError
from ..data.unicode import normalize_text
from .files import NOTE, OF, read_table

if TYPE_CHECKING:
    import pandas as pd

#: Characters in the names of columns that would break a line of text.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Table(NamedTuple):
    """A table whose columns have names that tell them apart.

    Attributes:
        data: the columns.
        source: what messages call it: the file, or the argument.
        of: how many rows there are, where not all of them were read.
        note: how it was read, if that needs to be known.
    """

    data: pa.Table
    source: str
    of: int | None = None
    note: str = ""


def as_table(given: Any, name: str, encoding: str | None = None) -> Table:
    """Take a data frame, or read a file, for a table.

    Args:
        given: a path; a pandas, polars or Arrow table, or anything else that narwhals reads or that
            exports the Arrow C stream; a dictionary of columns.
        name: what messages call a frame.
        encoding: of a text file.

    Raises:
        InputError: one sentence that names the file or argument, and the column.
    """
    if isinstance(given, (str, os.PathLike)):
        path = Path(given)
        return _checked(read_table(path, encoding), str(path))
    if isinstance(given, dict):
        data = _arrow(lambda: pa.table(given), name)
    elif hasattr(given, "__dataframe__") or hasattr(given, "__arrow_c_stream__"):
        data = _arrow(lambda: _of_frame(given), name)
    else:
        lazy = hasattr(given, "collect")  # of polars, dask and others
        raise InputError(
            f"{name} must be a data frame or the path of a file, got {type(given).__name__}"
            f"{': give .collect() of it' if lazy else ''}"
        )
    return _checked(data, name)


def _of_frame(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if "pandas" in sys.modules and isinstance(frame, sys.modules["pandas"].DataFrame):
        frame = _plain_pandas(frame)
    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        return pa.table(frame)


def _plain_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without types of pandas that Arrow does not have.

    Intervals are words, periods are their beginnings, and sparse columns dense.
    """
    import pandas as pd

    def plain(series: pd.Series) -> pd.Series:
        of = series.dtype
        if isinstance(of, pd.SparseDtype):
            return pd.Series(series.array.to_dense(), series.index)
        if isinstance(of, pd.PeriodDtype):
            return series.dt.to_timestamp()
        values = of.categories.dtype if isinstance(of, pd.CategoricalDtype) else of
        if isinstance(values, pd.IntervalDtype):
            return series.astype("object").map(str, na_action="ignore")
        return series

    kinds = (pd.SparseDtype, pd.PeriodDtype, pd.IntervalDtype, pd.CategoricalDtype)
    if frame.columns.has_duplicates or not any(isinstance(of, kinds) for of in frame.dtypes):
        return frame
    return frame.apply(plain)


def _arrow(make: Any, name: str) -> pa.Table:
    """An Arrow table, or one sentence why there is none."""
    try:
        return make()
    except UnicodeEncodeError as error:
        such = error.object[max(error.start - 10, 0) : error.end]
        raise InputError(f"{name} has text that is no Unicode, {such!r}") from error
    except OverflowError as error:
        raise InputError(
            f"{name} has whole numbers that need more than 64 bits: give them as text"
        ) from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = " ".join(" ".join(map(str, error.args[:2])).split()) or type(error).__name__
        raise InputError(f"{name} cannot be taken for a table: {reason[:200]}") from error


def _checked(data: pa.Table, source: str) -> Table:
    """Refuse tables without rows, and columns without a name of their own."""
    names = [
        " ".join(CONTROL.sub(" ", normalize_text(str(name))).split()) for name in data.column_names
    ]
    if not names:
        raise InputError(f"{source} has no columns")
    if not data.num_rows:
        raise InputError(f"{source} has columns and no rows")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{source} has {names.count(name)} columns named {name!r}")
    metadata = data.schema.metadata or {}
    of, note = metadata.get(OF.encode()), metadata.get(NOTE.encode(), b"").decode()
    kept = [name for name in names if not name.startswith("__index_level_")]
    bare = data.rename_columns(names).select(kept).replace_schema_metadata(None).combine_chunks()
    return Table(bare, source, None if of is None else int(of), note)
