"""Tables in memory: data frames of any library, and files, as one kind of table."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import pyarrow as pa

from ..core.errors import InputError
from ..data.unicode import normalize_text
from .files import OF, read_table

#: Characters in the names of columns that would break a line of text.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Table(NamedTuple):
    """A table whose columns have names that tell them apart.

    Attributes:
        data: the columns.
        source: what messages call it: the file, or the argument.
        of: how many rows there are, where not all of them were read.
    """

    data: pa.Table
    source: str
    of: int | None = None


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
        raise InputError(
            f"{name} must be a data frame or the path of a file, got {type(given).__name__}"
        )
    return _checked(data, name)


def _of_frame(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    try:
        return nw.from_native(frame, eager_only=True).to_arrow()
    except TypeError:
        return pa.table(frame)


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
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(part) for part in error.args[:2]) or str(error)
        raise InputError(f"{name} cannot be taken for a table: {reason.splitlines()[0]}") from error


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
    of = (data.schema.metadata or {}).get(OF.encode())
    kept = [name for name in names if not name.startswith("__index_level_")]
    bare = data.rename_columns(names).select(kept).replace_schema_metadata(None).combine_chunks()
    return Table(bare, source, None if of is None else int(of))
