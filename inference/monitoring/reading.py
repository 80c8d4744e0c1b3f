"""Rows of tables and arrays as values, read as the reference was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError, nearest
from ..data.checks import column_names, counted, default_names, plain_array
from ..data.equality import equalize, snap, stored_size, stored_sizes
from ..data.new_rows import column_order
from ..data.unicode import normalize_text
from ..tables.cells import column_cells
from ..tables.frames import Table
from ..tables.kinds import KINDS, Column, ProblemError, as_truths, typed
from ..tables.numerals import PLAIN, AmbiguousError, as_floats, matching, numbers
from ..tables.pooled import no_column
from .columns import Columns

#: Kinds whose values are watched as numbers, and as levels.
AS_NUMBERS, AS_LEVELS = ("number", "integer", "text"), ("category", "boolean")
#: Values of a tied column that are remembered at most, so that a monitor's file stays small.
MOST_TIED = 2000


class Reading(NamedTuple):
    """How rows are read.

    Attributes:
        columns: that are watched.
        kinds: (C,), of each.
        written: (C,), how the numbers of each are written as text, nothing as programs do.
        missing: cells that stand for a missing value.
        table: whether rows have names of columns, or are arrays.
        given: all columns of the reference, in its order.
        notes: how the reference was read.
        sizes: (C,), bytes of a number of each in the reference, as of
            :func:`~bke.inference.data.equality.stored_sizes`.
        tied: (C,), the values of each number that is tied in the reference, ascending: numbers that
            differ from one of them by rounding alone are that value.
    """

    columns: Columns
    kinds: tuple[str, ...]
    written: tuple[str, ...]
    missing: tuple[str | float, ...] = ()
    table: bool = True
    given: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    tied: tuple[np.ndarray, ...] = ()

    def values(self, rows: Any) -> tuple[np.ndarray, list[str]]:
        """Read an array (n, D) or a :class:`Table`: values (n, C), and what was odd.

        Raises:
            InputError: columns are missing, or an array has others or holds infinite numbers.
        """
        if not self.table:
            values = self._of_array(rows)
            names = column_names(rows) or self.columns.names
            stored = stored_sizes(rows, len(names))
            sizes = dict(zip(names, stored, strict=True))
            for at, name in enumerate(self.columns.names):
                size = int(sizes.get(name, stored[at]))
                values[:, at] = self._snapped(values[:, at], at, size)
            return values, []
        found, notes = np.empty((rows.data.num_rows, len(self.columns.names))), []
        for at, name in enumerate(self.columns.names):
            if name not in rows.data.column_names:
                raise no_column(name, rows)
            found[:, at], told = self._column(rows, at)
            notes += told
        return found, notes

    def _snapped(self, values: np.ndarray, at: int, size: int) -> np.ndarray:
        """Numbers (n,) of a column, stored in so many bytes, as equal to those of the reference."""
        if not self.tied:
            return values
        return snap(values, self.tied[at], min(size, self.sizes[at]))

    def _of_array(self, rows: Any) -> np.ndarray:
        """Values of an array, or of rows with names: by these where the reference has any."""
        wanted = self.columns.names
        if isinstance(rows, Mapping):
            rows = {normalize_text(name): cells for name, cells in rows.items()}
        known = tuple(rows) if isinstance(rows, Mapping) else column_names(rows)
        named = wanted != tuple(default_names(len(wanted)))
        if known is None or not (named or isinstance(rows, Mapping)):
            return array_values(rows, "rows", len(wanted))
        order = column_order(known, wanted, "rows", optional=None)
        if isinstance(rows, Mapping):
            rows, order = np.column_stack([np.atleast_1d(rows[name]) for name in wanted]), None
        if order is None:
            return array_values(rows, "rows", len(wanted))
        return array_values(rows, "rows", None)[:, order]

    def _column(self, rows: Table, at: int) -> tuple[np.ndarray, list[str]]:
        name, kind = self.columns.names[at], self.kinds[at]
        cells = column_cells([rows], name, self.missing).array
        if kind in AS_LEVELS:
            return _coded(cells, kind, self.columns.levels[at]), []
        if kind == "text":
            lengths = pc.cast(pc.utf8_length(pc.cast(cells, pa.string())), pa.float64())
            return np.asarray(lengths.to_numpy(zero_copy_only=False)), []
        values, odd = _numbers(cells, self.written[at])
        infinite = np.isinf(values)
        values[infinite] = np.nan
        values = self._snapped(values, at, stored_size(cells.type))
        told = []
        if odd:
            such = f"{odd[0]!r}" if len(odd) == 1 else f"{counted(len(odd), 'cell')} as {odd[0]!r}"
            told.append(f"{name!r} has {such}, no number: taken for missing.")
        if infinite.any():
            told.append(f"{name!r} has an infinite number: taken for missing.")
        return values, told


def of_array(given: Any, columns: Sequence[str] | None) -> tuple[Reading, np.ndarray]:
    """Read a reference that is an array (n, D) or (n,): how its rows are read, and its values."""
    values = array_values(given, "reference", None)
    names = tuple(default_names(values.shape[1]) if columns is None else columns)
    names = tuple(map(normalize_text, names))
    if len(names) != values.shape[1] or len(set(names)) < len(names):
        raise InputError(f"columns must be {values.shape[1]} different names")
    count = len(names)
    columns_ = Columns(names, ((),) * count)
    reading = Reading(columns_, ("number",) * count, ("",) * count, table=False, given=names)
    sizes = tuple(map(int, stored_sizes(given, count)))
    (values,) = equalize([values], [np.array(sizes)])
    return reading._replace(sizes=sizes, tied=tuple(map(_tied, values.T))), values


def array_values(given: Any, name: str, columns: int | None) -> np.ndarray:
    """Check an array of numbers, (n, D) or (n,); NaN is a missing value.

    Raises:
        InputError: it is none, has other columns, or an infinite number.
    """
    array = plain_array(given, name)
    if array.ndim == 1:
        # Of several columns it is one row.
        array = array[np.newaxis] if columns is not None and columns > 1 else array[:, np.newaxis]
    if array.dtype.kind == "c":
        raise InputError(f"{name} must be real numbers, and are complex")
    if array.ndim != 2:
        raise InputError(f"{name} must be (n, D) or (n,), got {array.ndim} dimensions")
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{name} has {array.shape[1]} columns, and the reference {columns}")
    try:
        values = np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, or a data frame for mixed columns") from None
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise InputError(f"{name} has an infinite value in row {row + 1}, column {column + 1}")
    return values


def of_table(
    table: Table,
    exclude: Sequence[str],
    kinds: Mapping[str, str],
    missing: Sequence[str | float],
    written: Sequence[str],
) -> tuple[Reading, np.ndarray]:
    """Tell the kinds of a reference's columns: how rows are read, and its values (n, C).

    Args:
        table: the reference.
        exclude: columns that are not watched; names that there are not are refused.
        kinds: of columns whose cells do not tell.
        missing: cells that stand for a missing value.
        written: how numbers are written where cells can be read in several ways.

    Raises:
        InputError: names the columns that cannot be read, or says that none can be watched.
    """
    exclude = list(map(normalize_text, exclude))
    kinds = {normalize_text(name): kind for name, kind in kinds.items()}
    _check_names(table, exclude, kinds)
    kept: list[tuple[Column, str]] = []
    problems: list[str] = []
    notes: list[str] = []
    sizes: list[int] = []
    for name in table.data.column_names:
        if name in exclude:
            continue
        try:
            cells, _, more = column_cells([table], name, missing, written)
            found = typed(name, cells, len(cells), kinds.get(name), (table.source,) * 2, written)
        except ProblemError as problem:
            problems.append(f"column {name!r} {problem}")
            continue
        notes += (*more, *found.notes)
        if found.column.kind in (*AS_NUMBERS, *AS_LEVELS) and not _empty(found.column):
            if found.column.kind == "text":
                notes.append(f"{name!r} is watched by the length of its text.")
            kept.append((found.column, _way(cells, written)))
            sizes.append(stored_size(cells.type))
        else:
            notes.append(f"{name!r} is not watched: {_why(found.column)}.")
    if problems:
        raise InputError("; ".join(problems))
    if not kept:
        raise InputError(f"{table.source} has no column that can be watched: {' '.join(notes)}")
    reading, values = _reading(kept, missing, notes)
    tied = tuple(
        _tied(cells) if kind in ("number", "integer") else np.empty(0)
        for kind, cells in zip(reading.kinds, values.T, strict=True)
    )
    given = tuple(table.data.column_names)
    return reading._replace(given=given, sizes=tuple(sizes), tied=tied), values


def _tied(values: np.ndarray) -> np.ndarray:
    """The distinct values of numbers (n,) most of which are tied; none of others."""
    known = values[~np.isnan(values)]
    distinct = np.unique(known)
    few = len(distinct) <= MOST_TIED and 2 * len(distinct) <= len(known)
    return distinct if few else np.empty(0)


def _check_names(table: Table, exclude: Sequence[str], kinds: Mapping[str, str]) -> None:
    for name in (*exclude, *kinds):
        if name not in table.data.column_names:
            raise no_column(name, table)
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise InputError(
                f"{name!r} cannot be {kind!r}: a kind is one of {', '.join(KINDS)}"
                f"{nearest(kind, KINDS)}"
            )


def _reading(
    kept: list[tuple[Column, str]], missing: Sequence[str | float], notes: list[str]
) -> tuple[Reading, np.ndarray]:
    names, values = [], []
    levels: list[tuple[str, ...]] = []
    for column, _ in kept:
        names.append(column.name)
        if column.kind not in AS_LEVELS:
            levels.append(())
            values.append(column.lengths if column.kind == "text" else column.values)
            continue
        levels.append(column.levels)
        values.append(column.values)
    kinds = tuple(column.kind for column, _ in kept)
    reading = Reading(
        Columns(tuple(names), tuple(levels)),
        kinds,
        tuple(way for _, way in kept),
        tuple(missing),
        notes=tuple(notes),
    )
    return reading, np.stack(values, axis=1)


def _empty(column: Column) -> bool:
    return bool(np.isnan(column.values).all())


def _why(column: Column) -> str:
    if _empty(column):
        return "it has no values"
    if column.kind == "datetime":
        return "dates go on in every stream"
    return "it tells rows apart, an identifier"


def _way(cells: pa.Array, written: Sequence[str]) -> str:
    """How numbers are written as text, nothing as every program does."""
    if not pa.types.is_string(cells.type):
        return ""
    try:
        found = numbers(pc.unique(cells).drop_null(), written)
    except AmbiguousError:
        return ""
    return found.words if found else ""


def _numbers(cells: pa.Array, way: str) -> tuple[np.ndarray, list[str]]:
    """Numbers (n,), NaN where there is none, and distinct cells that are none."""
    if not pa.types.is_string(cells.type):
        if pa.types.is_boolean(cells.type):
            cells = pc.cast(cells, pa.int8())
        try:
            found = as_floats(cells)
        except pa.ArrowNotImplementedError:
            return np.full(len(cells), np.nan), [str(cells.type)]
        return np.array(found.to_numpy(zero_copy_only=False), dtype=float), []
    distinct = pc.unique(cells).drop_null()
    read, odd = _read(distinct, way), []
    if read is None:  # one by one: a stream goes on whatever a cell holds
        each = [_read(distinct.slice(at, 1), way) for at in range(len(distinct))]
        odd = [distinct[at].as_py() for at, one in enumerate(each) if one is None]
        read = np.array([np.nan if one is None else one[0] for one in each])
    index = pc.index_in(cells, distinct).to_numpy(zero_copy_only=False).astype(float)
    return np.where(np.isnan(index), np.nan, np.append(read, np.nan)[_at(index)]), odd


def _as_levels(words: pa.Array, levels: tuple[str, ...]) -> pa.Array:
    """Return truths, however they are written, as the levels of the reference are written."""
    written = {as_truths(pa.array([level])) == [True]: level for level in levels}
    distinct = pc.unique(words).drop_null()
    truths = [as_truths(distinct.slice(at, 1)) for at in range(min(len(distinct), 100))]
    if len(truths) < len(distinct):
        return words
    same = [
        one if truth is None or one in levels else written.get(truth[0], one)
        for one, truth in zip(distinct.to_pylist(), truths, strict=True)
    ]
    return pa.array(same, pa.string()).take(pc.index_in(words, distinct))


def _read(distinct: pa.Array, way: str) -> np.ndarray | None:
    if not way and not matching(distinct, PLAIN.pattern).all():
        return None
    try:
        found = numbers(distinct, [way] if way else [])
    except AmbiguousError:
        return None
    return None if found is None else found.values


def _at(index: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(index), -1, index).astype(int)


def _coded(cells: pa.Array, kind: str, levels: tuple[str, ...]) -> np.ndarray:
    """Indices (n,) of levels, beyond the last of others, NaN where there is no cell."""
    if pa.types.is_floating(cells.type):
        plain = [None if one is None else f"{one + 0.0:.15g}" for one in cells.to_pylist()]
        words = pa.array(plain, pa.string())
    else:
        words = pc.cast(cells, pa.string())
    if pa.types.is_integer(cells.type) and all(map(str.isdigit, levels)):
        # Codes with leading zeros, which numbers lose.
        widths = {len(level) for level in levels}
        words = pc.utf8_lpad(words, widths.pop(), "0") if len(widths) == 1 else words
    if kind == "boolean":
        words = _as_levels(words, levels)
    index = pc.index_in(words, pa.array(levels, pa.string())).to_numpy(zero_copy_only=False)
    coded = np.asarray(index, dtype=float)
    coded[np.isnan(coded)] = len(levels)
    coded[words.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return coded
