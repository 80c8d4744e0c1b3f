"""Samples of numbers, read from the same files as tables."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..core.errors import InputError, nearest
from ..data.checks import check_ordered, default_names, normalize_text
from ..data.equality import stored_size
from .columns import column_array
from .formats import (
    DECIMAL_COMMAS,
    PLAIN,
    THOUSANDS,
    AmbiguousError,
    Parsed,
    as_numpy,
    parse_numbers,
    unparsed_cell,
)
from .tables import Table, read_table
from .text import NotDecodedError
from .types import (
    IDENTIFIER,
    ColumnError,
    are_identifiers,
    are_integers,
    check_currencies,
    check_exact,
    check_thousands,
    describe_identifier,
    describe_sentinel,
    find_sentinels,
    has_same_values,
    is_numeric,
    note_on_thousands,
    read_columns,
    take_values,
)

#: Advice where a column holds no numbers.
CHOOSE = "; columns= or --columns leaves columns of text out"
#: First number that may be a year, and rows with fractions below a first row of whole numbers.
FIRST_YEAR, LEAST_ROWS_BELOW = 1000, 10
#: Years that are likely names of columns.
YEARS = (1900.0, 2100.0)
#: Proportion of rows equal to the first one up to which that may name the columns; proportion of
#: fractions below years, since one in a hundred numbers with two decimals is whole. Not tuned.
RARE, MOST_FRACTIONS = 0.03, 0.95


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

    Files are those of :func:`~bke.inference.compare_tables`, and .npy. The first row of a text file
    is a header if it holds text; one that holds both text and numbers is refused, since taking it
    either way could lose or invent a row.

    Args:
        path: a .csv, .tsv, .txt, .jsonl, .ndjson (each also .gz, .zst or .bz2), .parquet, .pq,
            .arrow, .feather, .ipc, .xlsx or .npy file.
        columns: the columns to use, by name or by index counted from 0; all by default. The other
            columns may hold text.

    Returns:
        The sample, (n, D) with n >= 1.

    Raises:
        InputError: the file cannot be read as a table of finite numbers; names file, line, column.
    """
    return read_samples([path], columns=columns)[0]


def read_samples(
    paths: Sequence[str | os.PathLike[str]], *, columns: Sequence[str | int] | None = None
) -> list[Sample]:
    """Read samples from files as :func:`read_sample`, each column in one format of numbers.

    Columns match by name if all files have the same names, else by position.

    Raises:
        InputError: see :func:`read_sample`; or a column has other formats in other files.
    """
    tables = [_read_table(path) for path in paths]
    chosen = []
    for path, table in zip(paths, tables, strict=True):
        known = table.data.column_names
        chosen.append([known[index] for index in choose_columns(Path(path), known, columns)])
    parsed = [_parse_columns(table, names) for table, names in zip(tables, chosen, strict=True)]
    if len(paths) > 1 and len({len(names) for names in chosen}) == 1:
        by_name = all(sorted(names) == sorted(chosen[0]) for names in chosen)
        for position, first in enumerate(chosen[0]):
            names = [first if by_name else names[position] for names in chosen]
            _use_common_format(tables, names, parsed)
    samples = []
    for path, table, names, numbers in zip(paths, tables, chosen, parsed, strict=True):
        for name in names:
            if numbers[name].format not in ("", DECIMAL_COMMAS.name):
                _warn(f"{path}: {name!r} is read as numbers with {numbers[name].format}")
            if re.match(THOUSANDS, numbers[name].pointed):
                texts = pc.unique(column_array([table], name, ()).array)
                for note in note_on_thousands(name, numbers[name], texts, [table], "remove them"):
                    _warn(f"{path}: {note}")
        values = np.column_stack([numbers[name].values for name in names])
        without_header = table.line_of is not None and not table.has_header
        first_row = [str(column[0]).strip() for column in table.data.select(names).columns]
        if without_header and all(map(str.isdigit, first_row)) and _may_be_names(values):
            row = ", ".join(f"{value:.15g}" for value in values[0, :3]) + ", ..." * (len(names) > 3)
            _warn(
                f"{path}: its first row, {row}, is read as numbers; leave it out, or write names "
                "in its place, where it names the columns"
            )
        if _is_total(values):
            _warn(f"{path}: its last row is the sum of the others: leave it out if it is a total")
        sizes = tuple(stored_size(table.data.schema.field(name).type) for name in names)
        samples.append(Sample(values, tuple(names), Path(path), sizes))
    for sample in samples:
        others = [other for other in samples if other is not sample]
        warn_of_non_measurements(sample.path, sample.columns, sample.values, others)
    return samples


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def _read_table(path: str | os.PathLike[str]) -> Table:
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path must be the path of a file, got {type(path).__name__}")
    try:
        table = read_table(Path(path), header=False)
    except NotDecodedError:
        table = read_table(Path(path), "latin-1", header=False)
        _warn(
            f"{path} is not UTF-8, so the names of its columns are read as Latin-1: numbers are "
            "the same either way"
        )
    for note in table.notes:
        _warn(note)
    return table


def _parse_columns(
    table: Table, names: Sequence[str], formats: Sequence[str] = ()
) -> dict[str, Parsed]:
    """Parse columns as finite numbers.

    Raises:
        InputError: names the first column that cannot be parsed.
    """
    parsed, problems = read_columns(
        names, lambda name, formats: _parse_column(name, table, formats), formats
    )
    known = table.data.column_names
    for name, problem in problems.items():
        label = repr(name) if table.has_header else f"{known.index(name) + 1} (the first is 1)"
        is_missing = problem.startswith("has a missing value")
        advice = "" if len(known) < 2 or is_missing else CHOOSE
        raise InputError(
            f"{table.source}: column {label} {problem}{advice}; tables with text or missing values "
            "are for `bke drift`"
        )
    return parsed


def _use_common_format(
    tables: Sequence[Table], names: Sequence[str], parsed: Sequence[dict[str, Parsed]]
) -> None:
    """Parse a column of text again if its cells in all files together have another format."""
    columns = [columns_by_name[name] for columns_by_name, name in zip(parsed, names, strict=True)]
    formats = [column.format for column in columns]
    # One cell decides for most files: all points must look like those between thousands.
    may_be_thousands = any(re.match(THOUSANDS, column.pointed) for column in columns)
    if len(set(formats)) == 1 and (formats[0] or not may_be_thousands):
        return
    arrays = [
        column_array([table], name, ()).array for table, name in zip(tables, names, strict=True)
    ]
    if not all(pa.types.is_string(array.type) for array in arrays):
        return
    pooled = pa.concat_arrays(arrays)
    described = " and ".join(
        f"{format_ or PLAIN.name} in {table.source}"
        for format_, table in zip(formats, tables, strict=True)
    )
    error = InputError(f"column {names[0]!r} has {described}: write it in one format")
    try:
        numbers = parse_numbers(pc.unique(pooled).drop_null())
        if len(tables) == 2 and not any(formats):
            check_thousands(names[0], *(pc.unique(array).drop_null() for array in arrays))
    except AmbiguousError:
        raise error from None
    except ColumnError as problem:
        raise InputError(f"column {names[0]!r} {problem}") from None
    if numbers is None:
        raise error
    for table, name, columns_by_name in zip(tables, names, parsed, strict=True):
        if columns_by_name[name].format != numbers.format:
            columns_by_name |= _parse_columns(table, [name], [numbers.format or PLAIN.name])


def choose_columns(
    path: Path, names: Sequence[str], columns: Sequence[str | int] | None
) -> list[int]:
    """Find the chosen columns by index; a name comes before an index that is written the same.

    Raises:
        InputError: there is no such column, none is chosen, or one twice.
    """
    count, names = len(names), list(map(normalize_text, names))
    counts = collections.Counter(names)
    if columns is None:
        if "" in names:
            raise InputError(
                f"{path} has no name for column {names.index('') + 1} in its header (row "
                "numbers?): name it, or choose the columns to use"
            )
        chosen = list(range(count))
    else:
        check_ordered(columns, "columns")
        chosen = []
        indices = {name: index for index, name in enumerate(names)}
        for column in [columns] if isinstance(columns, (str, int)) else columns:
            text = normalize_text(str(column).strip())
            if counts[text] == 1:
                chosen.append(indices[text])
            elif not counts[text] and re.fullmatch("[0-9]+", text) and int(text) < count:
                chosen.append(int(text))
            elif not counts[text]:
                known = ", ".join(map(repr, names[:12])) + (", ..." if count > 12 else "")
                raise InputError(
                    f"{path} has no column {text!r}: there are {known}, "
                    f"or by index {'0' if count == 1 else f'0 to {count - 1}'}"
                    f"{nearest(text, names)}"
                )
            else:
                raise InputError(f"{path} has more than one column {text!r}")
        if not chosen or len(set(chosen)) < len(chosen):
            fault = "a column is chosen twice" if chosen else "no column is chosen"
            raise InputError(f"{path}: {fault}")
    for name in (names[index] for index in chosen):
        if counts[name] > 1:
            raise InputError(f"{path} has more than one column {name!r}")
    return chosen


def _parse_column(name: str, table: Table, formats: Sequence[str]) -> Parsed:
    """Parse a column as finite numbers (n,).

    Raises:
        ColumnError: a cell is no number, or missing, or infinite; names its place.
    """
    array = column_array([table], name, ()).array
    parsed: Parsed | None
    if pa.types.is_string(array.type):
        distinct = pc.unique(array).drop_null()
        try:
            parsed = parse_numbers(distinct, formats)
        except AmbiguousError as error:
            cell, *candidates = error.args
            raise ColumnError(
                f"has {cell!r} in {table.label(pc.index(array, cell).as_py())}, which may be "
                f"written with {' or with '.join(candidates)}: write numbers with decimal points, "
                "and nothing between thousands"
            ) from None
        if parsed is None:
            cell = unparsed_cell(distinct)
            raise ColumnError(_no_number(cell, table, pc.index(array, cell).as_py()))
        check_currencies(name, distinct)
        parsed = parsed._replace(values=take_values(array, distinct, parsed.values))
    elif pa.types.is_null(array.type):
        parsed = Parsed(np.full(len(array), np.nan))
    elif is_numeric(array.type) and not pa.types.is_duration(array.type):
        parsed = Parsed(as_numpy(array))
    else:
        row = int(np.argmin(array.is_null()))
        raise ColumnError(
            f"{_no_number(array[row].as_py(), table, row)} (its type is {array.type})"
        )
    bad = np.flatnonzero(~np.isfinite(parsed.values))
    if bad.size:
        fault = "a missing value" if np.isnan(parsed.values[bad[0]]) else "an infinite value"
        raise ColumnError(f"has {fault} in {table.label(int(bad[0]))} ({bad.size} in all)")
    check_exact(array, parsed.values)
    return parsed


def _may_be_names(values: np.ndarray) -> bool:
    """Return whether a first row of whole numbers may name the columns (n, D): 0, 1, ... or years.

    It does so if it counts on, and no or few other rows are equal; if its numbers differ, and all
    numbers below it in one of the columns have fractions; if it is years outside the numbers below
    it, or above fractions; or if it is far from all numbers below.
    """
    first, below = values[0], values[1:]
    equal, is_short = (below == first).all(axis=1), len(below) < LEAST_ROWS_BELOW
    are_row_numbers = (np.diff(values[:, 0]) == 1.0).all()
    counts_on = len(first) > 1 and (np.diff(first) == 1.0).all() and not are_row_numbers
    if counts_on and (first[0] == 0.0 or (len(first) > 2 and first[0] >= FIRST_YEAR)):
        return bool(equal.sum() <= (0 if is_short else RARE * len(equal)))
    if is_short or len(np.unique(first)) < len(first):
        return False
    # As pandas names a column that has no name.
    if (counts_on and first[0] == 1.0) or (len(first) == 1 and first[0] == 0.0):
        return bool(equal.mean() <= RARE)
    fractions = (below % 1.0 != 0.0).mean(axis=0)
    low, high = below.min(axis=0), below.max(axis=0)
    distances = np.maximum(low - first, first - high)  # negative within the range
    if (first >= YEARS[0]).all() and (first <= YEARS[1]).all():
        steps = np.diff(np.sort(below, axis=0), axis=0).max(axis=0)
        if (distances > steps).all() or (fractions >= MOST_FRACTIONS).all():
            return True
    return bool((fractions == 1.0).any() or ((distances > high - low).all() and (low < high).all()))


def _is_total(values: np.ndarray) -> bool:
    """Return whether the last row (D,) of many (n, D) is the sum of the others, and not zero."""
    total, last = values[:-1].sum(axis=0), values[-1]
    equal = np.allclose(total, last, 1e-9, 0.0)
    return bool(len(values) > LEAST_ROWS_BELOW and equal and last.all())


def _no_number(cell: object, table: Table, row: int) -> str:
    text = cell if isinstance(cell, str) else str(cell)
    text = text if len(text) <= 40 else text[:36] + "..."
    if text.lstrip("+-").lower() in ("inf", "infinity"):
        return f"has an infinite value ({text}) in {table.label(row)}"
    return f"has {text!r} in {table.label(row)}, where a number is needed"


def warn_of_non_measurements(
    path: Path, names: Sequence[str], values: np.ndarray, others: Sequence[Sample] = ()
) -> None:
    """Warn of columns (n, D) of a file that are probably no measurements, or identify pairs."""
    for name, column in zip(names, values.T, strict=True):
        # Years are dense too; row numbers start at 0 or 1.
        starts = IDENTIFIER.search(name) is not None or column.min() in (0.0, 1.0)
        if are_integers(column) and are_identifiers(name, [column]) and starts:
            twins = [
                other.values[:, other.columns.index(name)]
                for other in others
                if name in other.columns
            ]
            advice = ": leave it out with columns= (--columns), unless it is measured"
            if has_same_values(column, *twins):
                advice = "; leave it out with columns= (--columns)"
            warnings.warn(
                f"{path}: {describe_identifier(name, column, *twins)}{advice}", stacklevel=3
            )
    warn_of_sentinels(str(path), names, values)


def warn_of_sentinels(source: str, names: Sequence[str] | None, values: np.ndarray) -> None:
    """Warn of numbers (n, D) that may stand for a missing value."""
    for name, column in zip(names or default_names(values.shape[1]), values.T, strict=True):
        for sentinel in find_sentinels(column):
            where = f"{int(np.sum(column == sentinel))} rows"
            warnings.warn(
                f"{source}: {describe_sentinel(name, sentinel, where)} leave these rows out",
                stacklevel=4,
            )
