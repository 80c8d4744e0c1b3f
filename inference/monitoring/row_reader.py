"""Convert the rows of a stream to numbers, by the types and formats of the reference's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError
from ..data.checks import (
    as_matrix,
    check_column_names,
    column_names,
    default_names,
    normalize_text,
    plain_array,
    pluralize,
)
from ..data.equality import equalize, snap, stored_size, stored_sizes
from ..data.new_rows import column_order, names_of_row
from ..io.columns import (
    MAX_NAMES,
    ReadOptions,
    as_column_types,
    as_values,
    column_array,
    no_column,
    typed_columns,
    unused_notes,
)
from ..io.formats import (
    NUMBER_FORMATS,
    PLAIN,
    as_numpy,
    matches,
    normalize_signs,
    normalize_words,
    parse_format,
    strip_zeros,
)
from ..io.tables import Table, column_name
from ..io.types import (
    DURATIONS,
    FALSE_WORDS,
    TRUE_WORDS,
    Column,
    ColumnError,
    check_exact,
    check_finite,
    describe_sentinel,
    find_sentinels,
    is_numeric,
    may_be_codes,
    note_on_equal_numbers,
    number_texts,
    take_values,
    value_text,
)
from .scores import Columns

#: Types of columns whose values are watched as levels.
LEVEL_TYPES = ("category", "boolean")
#: Distinct values of a tied column that are stored at most, so that a monitor's file stays small.
MOST_TIED = 2000


class RowReader(NamedTuple):
    """Types and formats of the columns that are watched.

    Attributes:
        columns: the columns.
        types: (C,), their types.
        formats: (C,), names of the formats of numbers in text, "" for decimal points.
        na_values: cells that stand for a missing value.
        is_table: whether rows have columns of names and types; else they are arrays.
        all_columns: names of all columns of the reference, in its order.
        notes: notes on how the reference was read.
        sizes: (C,), bytes of a number of each column in the reference, as of
            :func:`~bke.inference.data.equality.stored_sizes`.
        tied: (C,), ascending values of every column whose numbers are tied in the reference:
            numbers that differ from one of them by rounding alone are that value.
    """

    columns: Columns
    types: tuple[str, ...]
    formats: tuple[str, ...]
    na_values: tuple[str | float, ...] = ()
    is_table: bool = True
    all_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    tied: tuple[np.ndarray, ...] = ()

    def values(self, rows: Any) -> tuple[np.ndarray, list[str]]:
        """Convert an array (n, D) or a :class:`Table` to values (n, C), and return notes.

        Raises:
            InputError: columns are missing, an array has others, or numbers are infinite or whole
                numbers beyond double precision.
        """
        names = self.columns.names
        if not self.is_table:
            values = self._array_values(rows)
            row_names = column_names(rows) or names
            stored = stored_sizes(rows, len(row_names))
            if isinstance(rows, Mapping):
                stored = np.concatenate([stored_sizes(rows[name], 1) for name in names])
            sizes = dict(zip(row_names, stored, strict=True))
            for at, name in enumerate(names):
                values[:, at] = self._snap(values[:, at], at, int(sizes.get(name, stored[at])))
            return values, []
        values, notes = np.empty((rows.data.num_rows, len(names))), []
        known, present = set(self.all_columns), set(rows.data.column_names)
        if unknown := [name for name in rows.data.column_names if name not in known]:
            more = ", ..." if len(unknown) > MAX_NAMES else ""
            notes.append(
                "Rows have columns that are not in the reference, and not watched: "
                f"{', '.join(map(repr, unknown[:MAX_NAMES]))}{more}."
            )
        for at, name in enumerate(names):
            if name not in present:
                raise no_column(name, rows)
            values[:, at], column_notes = self._column_values(rows, at)
            notes += column_notes
        return values, notes

    def _snap(self, values: np.ndarray, at: int, size: int) -> np.ndarray:
        """Make numbers (n,) that are stored in ``size`` bytes equal to those of the reference."""
        return snap(values, self.tied[at], min(size, self.sizes[at])) if self.tied else values

    def _note_on_equal_numbers(self, array: pa.Array, at: int) -> tuple[str, ...]:
        """Note texts such as the version 1.10 that are a number of the reference, such as 1.1."""
        if not self.tied or not len(self.tied[at]) or not pa.types.is_string(array.type):
            return ()
        distinct = pc.unique(array).drop_null()
        if not may_be_codes(distinct):
            return ()
        known = pa.concat_arrays([distinct, number_texts(self.tied[at])])
        return note_on_equal_numbers(self.columns.names[at], known, as_numbers=True)

    def _is_binary(self, at: int) -> bool:
        """Return whether a column of numbers is 0 and 1 alone in the reference."""
        return bool(len(self.tied[at])) and set(self.tied[at]) <= {0.0, 1.0}

    def _array_values(self, rows: Any) -> np.ndarray:
        """Return values of an array, with columns by their names where both have names."""
        wanted = self.columns.names
        if isinstance(rows, Mapping):
            rows = {normalize_text(name): np.atleast_1d(array) for name, array in rows.items()}
            column_order(tuple(rows), wanted, "rows", optional=None)
            if len({len(array) for array in rows.values()}) > 1:
                raise InputError("rows has columns of different lengths")
            rows = np.column_stack([rows[name] for name in wanted])
            return array_values(rows, "rows", len(wanted))
        is_row = len(wanted) > 1 and getattr(rows, "ndim", 2) == 1
        names = names_of_row(rows) if is_row else column_names(rows)
        if names is None or wanted == tuple(default_names(len(wanted))):
            return array_values(rows, "rows", len(wanted))
        order = column_order(names, wanted, "rows", optional=None)
        if order is None:
            return array_values(rows, "rows", len(wanted))
        return array_values(rows, "rows", len(names) if is_row else None)[:, order]

    def _column_values(self, rows: Table, at: int) -> tuple[np.ndarray, list[str]]:
        name, type_ = self.columns.names[at], self.types[at]
        array = column_array([rows], name, self.na_values, [self.formats[at]]).array
        if type_ in LEVEL_TYPES:
            return _level_indices(array, type_, self.columns.levels[at]), []
        if type_ == "text":
            return as_numpy(pc.utf8_length(pc.cast(array, pa.string()))), []
        if pa.types.is_boolean(array.type) and not self._is_binary(at):
            array = pc.cast(array, pa.string())
        if pa.types.is_duration(array.type) and self.formats[at] != DURATIONS:
            note = f"{name!r} has durations, and numbers in the reference: read as missing."
            return np.full(len(array), np.nan), [note]
        values, invalid, count = _numbers(array, self.formats[at])
        try:
            check_finite(values, [rows])
            if not invalid:  # other cells are missing
                check_exact(array, values)
        except ColumnError as problem:
            raise InputError(f"column {name!r} {problem}") from None
        notes = list(self._note_on_equal_numbers(array, at))
        if invalid:
            such = f"{invalid[0]!r}"
            such = such if count == 1 else f"{pluralize(count, 'cell')} such as {such}"
            format_ = self.formats[at] or PLAIN.name
            notes.append(
                f"{name!r} has {such}, no number with {format_} as in the reference: read as "
                "missing."
            )
        notes += [
            f"{describe_sentinel(name, sentinel, 'some rows of the stream')} say so with "
            f"--na-value={sentinel:.10g} (na_values=)."
            for sentinel in find_sentinels(values[~np.isnan(values)])
        ]
        return self._snap(values, at, stored_size(array.type)), notes


def array_reader(reference: Any, columns: Sequence[str] | None) -> tuple[RowReader, np.ndarray]:
    """Return the reader of a reference that is an array (n, D) or (n,), and its values."""
    values = array_values(reference, "reference", None)
    known = column_names(reference) or default_names(values.shape[1])
    names = check_column_names(columns, known)
    count = len(names)
    sizes = stored_sizes(reference, count)
    notes = tuple(
        f"{describe_sentinel(name, sentinel, 'some rows of the reference')} give NaN."
        for name, column in zip(names, values.T, strict=True)
        for sentinel in find_sentinels(column[~np.isnan(column)])
    )
    (values,) = equalize([values], [sizes])
    reader = RowReader(
        Columns(names, ((),) * count),
        ("number",) * count,
        ("",) * count,
        is_table=False,
        all_columns=names,
        notes=notes,
        sizes=tuple(map(int, sizes)),
        tied=tuple(map(_tied_values, values.T)),
    )
    return reader, values


def array_values(data: Any, name: str, columns: int | None) -> np.ndarray:
    """Check an array of numbers, (n, D) or (n,); NaN is a missing value.

    Raises:
        InputError: it holds something else, has other columns, or an infinite number.
    """
    array = plain_array(data, name)
    if array.ndim == 1 and columns is not None and columns > 1:
        array = array[np.newaxis]  # one row
    values = as_matrix(array, name)
    if columns is not None and values.shape[1] != columns:
        raise InputError(f"{name} has {values.shape[1]} columns, and the reference {columns}")
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        names = column_names(data)
        label = repr(names[column]) if names else column + 1
        raise InputError(f"{name} has an infinite value in row {row + 1}, column {label}")
    return values


def table_reader(
    table: Table,
    exclude: Sequence[str],
    column_types: Mapping[str, str] | None,
    na_values: Sequence[str | float],
    formats: Sequence[str],
) -> tuple[RowReader, np.ndarray]:
    """Infer the types of a reference's columns: the reader of rows, and values (n, C).

    Args:
        table: the reference.
        exclude: columns that are not watched; unknown names are refused.
        column_types: types of columns, in place of those that are inferred.
        na_values: cells that stand for a missing value.
        formats: names of preferred formats of numbers and dates.

    Raises:
        InputError: names the columns that cannot be read, or says that none can be watched.
    """
    exclude = list(map(column_name, as_values(exclude)))
    na_values, formats = as_values(na_values), as_values(formats)
    column_types = as_column_types(column_types)
    for name in (*exclude, *column_types):
        if name not in table.data.column_names:
            raise no_column(name, table)
    names = [name for name in table.data.column_names if name not in exclude]
    columns = typed_columns([table], names, ReadOptions(column_types, na_values, formats))
    notes = [*table.notes, *unused_notes([table], na_values, formats)]
    watched = []
    for name, typed in columns.items():
        notes += typed.notes
        notes += [
            f"{describe_sentinel(name, text, 'some rows of the reference')} say so with "
            f"--na-value={text} (na_values=)."
            for text in (value_text(typed.column, sentinel) for sentinel in typed.sentinels)
        ]
        if reason := _unwatched_reason(typed.column):
            notes.append(f"{name!r} is not watched: {reason}.")
            continue
        if typed.column.kind == "text":
            notes.append(f"{name!r} is watched by the length of its text.")
        watched.append(typed)
    if not watched:
        raise InputError(f"{table.source} has no column that can be watched: {' '.join(notes)}")
    used = [typed.column for typed in watched]
    values = [column.lengths if column.kind == "text" else column.values for column in used]
    reader = RowReader(
        Columns(
            tuple(column.name for column in used),
            tuple(column.levels if column.kind in LEVEL_TYPES else () for column in used),
        ),
        tuple(column.kind for column in used),
        tuple(typed.format for typed in watched),
        tuple(na_values),
        all_columns=tuple(table.data.column_names),
        notes=tuple(notes),
        sizes=tuple(stored_size(table.data.schema.field(column.name).type) for column in used),
        tied=tuple(
            _tied_values(column.values) if column.kind in ("number", "integer") else np.empty(0)
            for column in used
        ),
    )
    return reader, np.stack(values, axis=1)


def _tied_values(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of numbers (n,) most of which are tied; none of others."""
    known = values[~np.isnan(values)]
    distinct = np.unique(known)
    tied = len(distinct) <= MOST_TIED and 2 * len(distinct) <= len(known)
    return distinct if tied else np.empty(0)


def _unwatched_reason(column: Column) -> str:
    if np.isnan(column.values).all():
        return "it has no values"
    if column.kind == "datetime":
        return "dates increase in every stream"
    if column.kind == "identifier":
        return "its cells are identifiers"
    return ""


def _numbers(array: pa.Array, format_: str) -> tuple[np.ndarray, list[str], int]:
    """Return numbers (n,), NaN where a cell is none, and the distinct cells and number of those.

    Text is parsed in the format of the reference, whatever else is in the batch.
    """
    if pa.types.is_string(array.type):
        distinct = pc.unique(array).drop_null()
        number_format = {known.name: known for known in NUMBER_FORMATS}.get(format_, PLAIN)
        texts = normalize_signs(distinct)
        valid = matches(texts, number_format.pattern)
        values = np.full(len(distinct), np.nan)
        values[valid] = parse_format(texts.filter(pa.array(valid)), number_format)
        invalid = distinct.filter(pa.array(~valid))
        count = pc.sum(pc.is_in(array, invalid)).as_py() if len(invalid) else 0
        return take_values(array, distinct, values), invalid.to_pylist(), count
    if pa.types.is_boolean(array.type):
        array = pc.cast(array, pa.int8())
    try:
        return as_numpy(array), [], 0
    except pa.ArrowNotImplementedError:
        return np.full(len(array), np.nan), [str(array.type)], 1


def _level_indices(array: pa.Array, type_: str, levels: tuple[str, ...]) -> np.ndarray:
    """Return indices (n,) of levels, beyond the last for other cells, NaN for missing ones."""
    numeric = is_numeric(array.type)
    floats = pa.types.is_floating(array.type)
    words = number_texts(as_numpy(array)) if floats else pc.cast(array, pa.string())
    words = normalize_words(words)
    widths = {len(level) for level in levels}
    if numeric and all(map(str.isdigit, levels)) and len(widths) == 1:
        words = pc.utf8_lpad(words, widths.pop(), "0")  # zeros that numbers lose
    if type_ == "boolean":
        words = _as_levels(words, levels)
    known = pa.array(levels, pa.string())
    if numeric and matches(known, PLAIN.pattern).all():
        known = strip_zeros(known)  # which numbers lose
    index = pc.fill_null(pc.index_in(words, known), len(levels))
    return np.where(words.is_null(), np.nan, np.asarray(index, dtype=float))


def _as_levels(words: pa.Array, levels: tuple[str, ...]) -> pa.Array:
    """Write words of true and false as the levels of the reference are written."""
    level_of = {
        word: level
        for level in levels
        for words_of in (TRUE_WORDS, FALSE_WORDS)
        if level.lower() in words_of
        for word in words_of
    }
    distinct = pc.unique(words).drop_null()
    replaced = [
        word if word in levels else level_of.get(word.lower(), word)
        for word in distinct.to_pylist()
    ]
    return pa.array(replaced, pa.string()).take(pc.index_in(words, distinct))
