"""Checks of the user's arrays and numbers, the same for the Python API and the command line."""

from __future__ import annotations

import datetime
import decimal
import inspect
import numbers
import operator
import os
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError, check_choice
from ..core.machine import available_memory
from .equality import DOUBLE, equalize, stored_sizes

if TYPE_CHECKING:
    from bke.models import SamplingNoise

#: Largest absolute value of data. Squares of larger values overflow.
MAX_ABS_VALUE = 1e150
#: Largest range of a column that is refused. Squares of smaller differences underflow to zero.
MIN_RANGE = 1e-150
#: Description of integers that double precision rounds, for messages.
INEXACT_INTEGERS = (
    "whole numbers beyond 2^53, which double precision does not distinguish: subtract a common "
    "number"
)
#: Number of n x n matrices that one thread of the witness holds at once.
WITNESS_MATRICES = 14
#: Proportion of the free memory above which :func:`check_memory` warns.
WARNING_PROPORTION = 0.5
#: Likelihood of several samples: that of their union, or the product of their likelihoods.
Samples: TypeAlias = Literal["pooled", "product"]
SAMPLES: tuple[str, ...] = get_args(Samples)
#: Scale of columns: a standard deviation for each, or one number for all.
Standardize: TypeAlias = Literal["column", "pooled"]
STANDARDIZATIONS: tuple[str | None, ...] = (*get_args(Standardize), None)
#: Hints for objects that are not arrays, by an attribute of the object.
CONVERSION_HINTS = {
    "toarray": ": pass the result of .toarray()",
    "fetchdf": ": pass the result of .df()",  # DuckDB, whose rows are not an array
    "collect": ": pass the result of .collect()",
    "keys": ": pass np.column_stack of its values, or a data frame",
    "__next__": ": pass a list of its rows, or open_blocks of its blocks",
    "over": ": pass the result of .select() of it from its data frame",  # an expression of Polars
    "values": ": pass .values of it",
    "decode": ": pass numpy.frombuffer of it with the type of its numbers",
}
#: Names of non-numeric types of columns of Polars and Arrow.
NON_NUMERIC_TYPES = re.compile(r"(Date|Time|Duration|Boolean|timestamp|date|time|duration|bool)")


def plain_array(X: ArrayLike, name: str) -> NDArray[Any]:
    """Convert data to an array, with NaN for masked cells and objects for mixed types.

    Raises:
        InputError: if ``X`` is a string, has rows of different lengths or is not array-like.
    """
    if isinstance(X, (str, os.PathLike)):
        path = os.fspath(X)
        raise InputError(
            f"{name} is the string {path!r}, where numbers are needed: for a file pass "
            f"open_rows({path!r}) or read_sample({path!r}).values"
        )
    _check_column_types(X, name)
    try:
        if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
            X = np.ma.array(X)
        if isinstance(X, np.ma.MaskedArray):  # np.asarray would return the masked values
            return np.asarray(np.ma.filled(X.astype(np.float64), np.nan))
        array = np.asarray(X)
        # NumPy converts numbers to strings if one cell is a string. The message shows that cell.
        array = np.array(X, dtype=object) if array.dtype.kind in "SU" else array
    except (ValueError, TypeError) as error:
        lengths = []
        if isinstance(X, (list, tuple)) and not any(map(_is_nested, X)):
            lengths = [np.size(row) for row in X]
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                raise InputError(
                    f"{name} has {length} values in row {row + 1} but {lengths[0]} in row 1"
                ) from error
        reason = _conversion_hint(X) or f": {str(error).splitlines()[0]}"
        raise InputError(f"{name} is not an array of numbers{reason}") from error
    if array.ndim == 0 and array.dtype == object:
        raise InputError(
            f"{name} must be an array or a data frame, got {type(X).__name__}{_conversion_hint(X)}"
        )
    return array


def _conversion_hint(X: Any) -> str:
    """Return a hint on the conversion of an object to an array, or an empty string."""
    hints = (hint for attribute, hint in CONVERSION_HINTS.items() if hasattr(X, attribute))
    return next(hints, "")


def _check_column_types(X: Any, name: str) -> None:
    """Refuse dates, durations and booleans of Polars and Arrow, which NumPy reads as numbers."""
    schema = getattr(X, "schema", None)
    if not hasattr(X, "__arrow_c_stream__") or schema is None or callable(schema):
        return
    types = (
        schema.items() if hasattr(schema, "items") else zip(schema.names, schema.types, strict=True)
    )
    for column, dtype in types:
        if NON_NUMERIC_TYPES.match(str(dtype)):
            is_time = "bool" not in str(dtype).lower()
            hint = ", such as seconds since one date for both samples" if is_time else ""
            raise InputError(
                f"{name} has the type {dtype} in column {column!r}, where real numbers are needed: "
                f"convert it to numbers{hint}"
            )


def _is_nested(row: Any) -> bool:
    return isinstance(row, (list, tuple)) and any(isinstance(cell, (list, tuple)) for cell in row)


def _number_hint(cell: Any) -> str:
    """Return a hint on the conversion of a cell to a number, or an empty string."""
    if isinstance(cell, (bool, np.bool_)):
        return ": convert it with .astype(int)"
    if isinstance(cell, (np.datetime64, datetime.date)):
        return ": convert it to days or seconds since one date for both samples"
    if isinstance(cell, (np.timedelta64, datetime.timedelta)):
        return ": convert it to seconds, in pandas with .dt.total_seconds()"
    if isinstance(cell, Mapping):
        return ": pass pandas.DataFrame of the rows"
    if isinstance(cell, complex):
        return ": make columns of the real and of the imaginary part"
    if isinstance(cell, bytes):
        return ": decode the cells, or convert numbers with .astype(float)"
    if isinstance(cell, str):
        return (
            "; compare two tables with text by compare_tables (`bke drift`), or make columns of 0 "
            "and 1 with pandas.get_dummies"
        )
    return ""


def convert_objects(
    array: NDArray[Any], name: str, column: Callable[[int], str]
) -> NDArray[np.float64]:
    """Convert an array of objects, such as a table of mixed types, to float64.

    Args:
        array: (n, D) objects.
        name: name of the array in messages.
        column: function that returns the label of a column in messages.

    Returns:
        (n, D); NaN for missing values.

    Raises:
        InputError: if a cell is neither a real number nor missing.
    """
    values = np.empty(array.shape)
    for index, cell in np.ndenumerate(array):
        is_number = isinstance(cell, (numbers.Real, decimal.Decimal))
        is_number = is_number and not isinstance(cell, (bool, np.timedelta64))
        if not (is_number or cell is None or str(cell) == "<NA>"):  # pandas.NA
            raise InputError(
                f"{name} has {str(cell)[:40]!r} in row {index[0] + 1}, {column(index[1])}, "
                f"where a real number is needed (type {array.dtype}){_number_hint(cell)}"
            )
        values[index] = float(cell) if is_number else np.nan
    return values


def as_sample(
    X: ArrayLike,
    name: str = "X",
    *,
    may_be_constant: bool = False,
    columns: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Check a sample and copy it to float64.

    Args:
        X: (n, D), or (n,) for D = 1: lists, a NumPy or JAX array, or a pandas object.
        name: name of the sample in messages.
        may_be_constant: allow constant columns.
        columns: names of the columns in messages; by default those of a data frame.

    Returns:
        A copy (n, D) with n >= 2 and D >= 1, finite and without constant columns.

    Raises:
        InputError: if the sample is invalid. The message has the row and the column, both counted
            from 1.
    """
    column = _column_label(X, columns)
    values = as_matrix(X, name, columns=columns)
    n = len(values)
    if n < 2:
        raise InputError(f"{name} needs at least two rows, and has {n}")
    _check_numbers(values, name, column)
    if may_be_constant:
        return values
    if (values == values[0]).all():
        raise InputError(f"{name} has {n} rows and all are equal: at least two must differ")
    check_ranges(values.min(axis=0), values.max(axis=0), name, column)
    return values


def as_matrix(
    X: ArrayLike, name: str, *, columns: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """Convert rows (n, D) or (n,) to float64 (n, D), a copy, with NaN for missing values.

    Raises:
        InputError: if ``X`` is not a matrix of numbers. Any number of rows and any value is valid.
    """
    array = plain_array(X, name)
    check_unique_names(column_names(X), name)
    if array.dtype.names:
        raise InputError(f"{name} is a structured array: pass pandas.DataFrame of it")
    if array.ndim not in (1, 2):
        raise InputError(
            f"{name} has {array.ndim} dimensions: pass an array of shape (rows,) or (rows, columns)"
        )
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns")
    if array.dtype.kind == "V":  # such as bfloat16
        raise InputError(f"{name} has the type {array.dtype}: convert it with .astype('float32')")
    exact = array
    if array.dtype.kind not in "iuf":
        array = convert_objects(array, name, _column_label(X, columns))
    values = np.array(array, dtype=np.float64)
    # Floating-point numbers and narrower integers are exact.
    if exact.dtype.kind in "iuO" and exact.dtype.itemsize >= DOUBLE and loses_digits(exact, values):
        raise InputError(f"{name} has {INEXACT_INTEGERS}")
    if array.dtype.itemsize > DOUBLE and len(array) and array.dtype.kind == "f":
        differ = (array != array[0]).any(axis=0) & (values == values[0]).all(axis=0)
        if differ.any():
            label = _column_label(X, columns)(int(np.argmax(differ)))
            raise InputError(
                f"{name} has numbers in {label} that are not equal in {array.dtype}, and equal in "
                "double precision: subtract a common number"
            )
    return values


def loses_digits(integers: NDArray[Any], values: NDArray[np.float64]) -> bool:
    """Return whether some whole numbers are not equal to their values in double precision.

    Of arrays of objects only the integers and decimals are considered.
    """
    large = np.abs(values) >= 2.0**53
    return bool(large.any()) and any(
        isinstance(integer, (numbers.Integral, decimal.Decimal)) and int(integer) != int(value)
        for integer, value in zip(integers[large], values[large], strict=True)
    )


def _column_label(X: Any, columns: Sequence[str] | None) -> Callable[[int], str]:
    names = columns or column_names(X) or ()
    return lambda index: f"column {names[index]!r}" if names else f"column {index + 1}"


def _check_numbers(values: np.ndarray, name: str, column: Callable[[int], str]) -> None:
    """Refuse values (n, D) that are missing, infinite or too large to be squared."""
    for invalid in (np.isnan(values), np.isinf(values), np.abs(values) > MAX_ABS_VALUE):
        if invalid.any():
            row, index = map(int, np.argwhere(invalid)[0])
            description = describe_invalid_value(values[row, index])
            rows = pluralize(int(invalid.any(axis=1).sum()), "row")
            advice, hint = f"fill in or drop {rows}", ""
            if np.isfinite(values[row, index]):
                advice = "divide the column by a power of ten"
            if name in ("P", "Q") and np.isnan(values[row, index]):
                hint = "; for two tables with missing values use compare_tables (`bke drift`)"
            raise InputError(
                f"{name} has {description} in row {row + 1}, {column(index)} "
                f"({invalid.sum()} in all): {advice}{hint}"
            )


def describe_invalid_value(value: float) -> str:
    """Describe a number that is missing, infinite or too large, for a message."""
    if np.isnan(value):
        return "a missing value (NaN)"
    if np.isinf(value):
        return "an infinite value"
    return f"a value beyond {MAX_ABS_VALUE:g}, whose square would overflow"


def first_invalid_value(rows: NDArray[np.float64]) -> tuple[int, int, str] | None:
    """Find the first missing, infinite or too large number of rows (n, D).

    Returns:
        Its row, its column and its description, or ``None`` if all numbers are valid.
    """
    invalid = ~(np.abs(rows) <= MAX_ABS_VALUE)
    if not invalid.any():
        return None
    row, column = map(int, np.argwhere(invalid)[0])
    return row, column, describe_invalid_value(rows[row, column])


def check_ranges(
    low: NDArray[np.float64], high: NDArray[np.float64], name: str, column: Callable[[int], str]
) -> None:
    """Refuse columns that are constant or vary too little.

    Args:
        low: (D,) smallest value of each column.
        high: (D,) largest value of each column.
        name: name of the sample in messages.
        column: function that returns the label of a column in messages.

    Raises:
        InputError: if a column is constant, or the squares of its differences underflow.
    """
    for index, extent in enumerate(high - low):
        if extent == 0.0:
            raise InputError(
                f"{name} has the same value ({low[index]:g}) in every row of {column(index)}: "
                "drop that column"
            )
        if extent <= MIN_RANGE:
            raise InputError(
                f"{name} varies by only {extent:.2g} in {column(index)}, too little for squares in "
                "double precision: use smaller units, or drop that column"
            )


def as_pair(
    P: ArrayLike, Q: ArrayLike, *, may_be_constant: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two samples, (n, D) and (m, D), with the same columns; see :func:`as_sample`.

    If both are data frames with the same names, the columns of Q are brought into the order of P.
    Values that differ by their storage type or by rounding only become equal; see :mod:`.equality`.
    """
    p, q = (as_sample(Z, name, may_be_constant=may_be_constant) for Z, name in ((P, "P"), (Q, "Q")))
    if p.shape[1] != q.shape[1]:
        check_same_columns(column_names(P), column_names(Q))  # the message has the names
        raise InputError(
            f"P has {pluralize(p.shape[1], 'column')} and Q has {pluralize(q.shape[1], 'column')}, "
            "where the same number is needed"
        )
    sizes = [stored_sizes(Z, p.shape[1]) for Z in (P, Q)]
    q, sizes[1] = (
        reorder_columns(column_names(P), column_names(Q), Z) for Z in (q, sizes[1][None])
    )
    p, q = equalize([p, q], [sizes[0], sizes[1][0]])
    return p, q


def reorder_columns(
    wanted: tuple[str, ...] | None, names: tuple[str, ...] | None, rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the columns of ``rows`` (n, D) in the order ``wanted`` if they have these names."""
    if wanted is None or names is None or wanted == names or sorted(wanted) != sorted(names):
        return rows
    return rows[:, [names.index(name) for name in wanted]]


def as_tested_pair(P: ArrayLike, Q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two samples for a test; at least one column must vary in their union."""
    p, q = as_pair(P, Q, may_be_constant=True)
    if p.shape[1] > 1:  # single columns are compared whatever their names
        check_same_columns(column_names(P), column_names(Q))
    pooled, names = np.concatenate([p, q]), column_names(P)
    varying = np.flatnonzero(np.ptp(pooled, axis=0) > 0.0)
    sizes = np.concatenate([stored_sizes(Z, p.shape[1]) for Z in (P, Q)])
    if not len(varying) and min(sizes) < DOUBLE:
        dtype = f"float{8 * min(sizes)}"
        step = np.spacing(np.abs(pooled).max().astype(dtype))
        raise InputError(
            f"P and Q have equal rows in {dtype}, which rounds their numbers to multiples of "
            f"{step:g}: give float64, or subtract a common number before"
        )
    if not len(varying):  # as_sample raises the error
        varying = np.arange(p.shape[1])
    labels = None if names is None else [names[index] for index in varying]
    as_sample(pooled[:, varying], "the union of P and Q", columns=labels)
    return p, q


def as_samples(X: ArrayLike | tuple[ArrayLike, ...], samples: str) -> list[NDArray[np.float64]]:
    """Check one or several samples, and pool them unless each has its own likelihood.

    Args:
        X: a sample, or a tuple of samples.
        samples: ``"pooled"`` for the union of several samples, ``"product"`` for separate samples.

    Returns:
        The samples, or a single one if they are pooled.
    """
    check_choice(samples, "samples", SAMPLES)
    several = isinstance(X, tuple) and all(_is_sequence(part) for part in X)
    if isinstance(X, list) and any(len(getattr(part, "shape", ())) > 0 for part in X):
        raise InputError("a list of arrays could be rows or samples: pass samples as a tuple")
    if not several or not isinstance(X, tuple) or len(X) < 2:
        if samples == "product":
            raise InputError("samples='product' needs a tuple of samples, as in fit((P, Q), ...)")
        return [as_sample(X, "X")]  # type: ignore[arg-type]
    checked = [as_sample(part, f"X[{index}]") for index, part in enumerate(X)]
    widths = [sample.shape[1] for sample in checked]
    if len(set(widths)) > 1:
        raise InputError(
            f"the samples have {', '.join(map(str, widths))} columns: pass samples with the same "
            "columns"
        )
    check_same_columns(*map(column_names, X))
    first = column_names(X[0])
    ordered = [
        reorder_columns(first, column_names(part), sample)
        for part, sample in zip(X, checked, strict=True)
    ]
    return ordered if samples == "product" else [np.concatenate(ordered)]


def _is_sequence(part: Any) -> bool:
    return isinstance(part, (list, tuple)) or len(getattr(part, "shape", ())) > 0


Value = TypeVar("Value")


def normalize_text(value: Value) -> Value:
    """Return a string in Unicode normal form C, and other values unchanged."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value  # type: ignore[return-value]


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame, or of the first one of a tuple.

    Those of a matrix of xarray are the coordinates of its last dimension, if these are strings.
    """
    if isinstance(X, tuple):
        return column_names(X[0]) if X else None
    if _is_xarray(X):
        if len(X.dims) != 2 or X.dims[1] not in X.coords:
            return None
        labels = X.coords[X.dims[1]].values.tolist()
        are_names = all(isinstance(label, str) for label in labels)
        return tuple(map(normalize_text, labels)) if are_names else None
    # Arrow tables have ``column_names``; their ``columns`` are arrays.
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return None if names is None else tuple(normalize_text(str(name)) for name in names)


def _is_xarray(X: Any) -> bool:
    return hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "to_dataset")


def row_labels(X: Any) -> dict[str, list[Any]]:
    """Return the labels of rows by their name: the index of pandas, coordinates of xarray.

    The name of the index of pandas, and of the coordinate of the first dimension, is empty.
    """
    if _is_xarray(X):
        first = X.dims[:1]
        return {
            "" if name == first[0] else str(name): list(coordinate.to_index())
            for name, coordinate in X.coords.items()
            if first and coordinate.dims == first
        }
    index = getattr(X, "index", None)
    return {} if index is None or callable(index) else {"": list(index)}


def describe_index(X: Any) -> str:
    """Describe an index of pandas with a meaning; return "" for numbers of rows without a name."""
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "nlevels"):
        return ""
    if index.nlevels == 1 and index.name is None and index.dtype.kind in "iu":
        return ""
    names = ", ".join(repr(level) for level in index.names if level is not None)
    return f"the index {names}".rstrip()


def index_notes(samples: Sequence[Any], names: Sequence[str]) -> tuple[str, ...]:
    """Write notes on indexes of pandas that are numbers with a name, or have several levels.

    Different whole numbers are labels of rows.
    """
    sources: dict[str, list[str]] = {}
    for X, name in zip(samples, names, strict=True):
        if not (description := describe_index(X)):
            continue
        index = X.index
        are_labels = index.dtype.kind not in "iuf" or index.name is None
        are_labels |= index.dtype.kind in "iu" and index.is_unique
        if index.nlevels > 1 or not are_labels:
            sources.setdefault(description, []).append(name)
    return tuple(
        f"{description} of {' and '.join(named)} is not compared: .reset_index() makes it a column"
        for description, named in sources.items()
    )


def check_ordered(values: Any, name: str) -> None:
    """Refuse a set where the order of the values matters."""
    if isinstance(values, (set, frozenset)):
        raise InputError(f"{name} must be in an order, and a set has none: pass a list or a tuple")


def as_names(values: Any, name: str) -> tuple[str, ...]:
    """Return names in their order; a string is one name.

    Raises:
        InputError: if ``values`` is neither a string nor an iterable with an order.
    """
    check_ordered(values, name)
    if isinstance(values, bytes) or not hasattr(values, "__iter__"):
        raise InputError(f"{name} must be names, got {values!r}")
    return tuple(normalize_text(str(n)) for n in ([values] if isinstance(values, str) else values))


def default_names(count: int) -> list[str]:
    """Return default names of columns: ``x``, or ``x0``, ``x1``, ..."""
    return ["x"] if count == 1 else [f"x{index}" for index in range(count)]


def check_column_names(columns: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Return ``columns`` as names, or the known names if ``columns`` is ``None``.

    Raises:
        InputError: if ``columns`` are not different names in an order, one for each column.
    """
    if columns is None:
        return tuple(map(str, known))
    names = as_names(columns, "columns")
    if len(names) != len(known):
        raise InputError(
            f"columns has {pluralize(len(names), 'name')}, but the data have "
            f"{pluralize(len(known), 'column')}"
        )
    if len(set(names)) < len(names):
        raise InputError(f"names of columns must differ, got {', '.join(names)}")
    return names


def check_unique_names(names: Sequence[str] | None, source: str) -> None:
    """Refuse names of columns that are not different."""
    counts = Counter(names or ()).items()
    if repeated := [f"{count} columns named {name!r}" for name, count in counts if count > 1]:
        raise InputError(f"{source} has {' and '.join(repeated)}: rename them")


def check_same_columns(*names: tuple[str, ...] | None) -> None:
    """Refuse data frames with different names of columns."""
    known = [sample for sample in names if sample is not None]
    for other in known[1:]:
        if sorted(other) != sorted(known[0]):
            raise InputError(
                f"the columns are {', '.join(known[0])} in one sample and {', '.join(other)} in "
                "another: give them the same names"
            )


def check_same_rows(**samples: Any) -> None:
    """Refuse samples that have row labels in common, but in different positions."""
    known: dict[str, tuple[str, list[Any]]] = {}
    for name, labels in ((name, row_labels(sample)) for name, sample in samples.items()):
        for key, actual in labels.items():
            first, expected = known.setdefault(key, (name, actual))
            _check_same_labels(first, expected, name, actual)


def _check_same_labels(first: str, expected: list[Any], name: str, actual: list[Any]) -> None:
    if len(actual) == len(expected) and actual != expected and set(actual) & set(expected):
        if set(actual) == set(expected):
            raise InputError(
                f"{first} and {name} have the same row labels in another order, and rows are "
                f"matched by position: bring both into one order, in pandas by "
                f"{name}.loc[{first}.index]"
            )
        row = next(index for index in range(len(expected)) if expected[index] != actual[index])
        raise InputError(
            f"{first} and {name} have different row labels: {expected[row]} and {actual[row]} in "
            f"row {row + 1}, and rows are matched by position: align them, or reset their indexes"
        )


def check_pairs(
    P: ArrayLike,
    Q: ArrayLike,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    columns: Sequence[str] | None = None,
) -> None:
    """Refuse pairs of rows with other labels, or with the same keys in another order.

    Args:
        P: first sample.
        Q: second sample, whose rows are paired with those of ``P`` by position.
        first: the values of ``P``, (m, D).
        second: the values of ``Q``, (n, D), in the columns of ``P``.
        columns: names of the columns of arrays.
    """
    check_same_rows(P=P, Q=Q)
    if first.shape == second.shape:
        names = column_names(P) or columns or default_names(first.shape[1])
        if len(names) == first.shape[1]:  # others are refused later
            check_same_keys(first, second, names)


def check_common_keys(X: Any, Y: Any, first: NDArray[Any], second: NDArray[Any]) -> None:
    """Refuse pairs of rows of two data frames that share a column of keys in another order.

    Args:
        X: first variable.
        Y: second variable, whose rows are paired with those of ``X`` by position.
        first: the values of ``X``, (n, D).
        second: the values of ``Y``, (n, E).
    """
    names, names_y = column_names(X) or (), column_names(Y) or ()
    common = [name for name in names if name in names_y]
    check_same_keys(
        first[:, [names.index(name) for name in common]],
        second[:, [names_y.index(name) for name in common]],
        common,
    )


def check_same_keys(first: NDArray[Any], second: NDArray[Any], columns: Sequence[str]) -> None:
    """Refuse pairs whose keys are the same in another order.

    Args:
        first: (n, D).
        second: (n, D), whose rows are paired with those of ``first`` by position.
        columns: names of the D columns.

    Raises:
        InputError: a column has different values in all rows, the same ones in both samples, and
            in another order.
    """
    for column, keys, second_keys in zip(columns, first.T, second.T, strict=True):
        moved = len(np.unique(keys)) == len(keys) and not np.array_equal(keys, second_keys)
        if moved and np.array_equal(np.sort(keys), np.sort(second_keys)):
            raise InputError(
                f"both samples have the same values of {column!r} in different orders, and rows "
                f"are paired by position: sort both by {column!r}, and leave it out after that, or "
                "in pandas make it the index, which is checked and not compared"
            )


def check_file(path: Path) -> None:
    """Check that ``path`` is a regular file; reading a pipe would block.

    Raises:
        InputError: if it does not exist or is not a regular file.
    """
    if not path.exists():
        if address := re.match(r"(\w{2,}):/+(.*)", str(path)):  # a path has one slash of two
            raise InputError(f"{address[1]}://{address[2]} is not a file: download it first")
        raise InputError(f"{path} does not exist")
    if not path.is_file():
        raise InputError(f"{path} is not a regular file: write a pipe or stream to a file first")


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 row`` or ``2 rows``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def check_count(value: Any, name: str, minimum: int, maximum: int | None = None) -> int:
    """Check that ``value`` is an integer from ``minimum`` to ``maximum``, and return it."""
    limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be a whole number {limits}, got {value!r}")
    if count < minimum or (maximum is not None and count > maximum):
        raise InputError(f"{name} must be {limits}, got {count}")
    return count


def check_options(options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse keyword arguments that ``function`` does not have."""
    if unknown := set(options) - set(inspect.signature(function).parameters):
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")


def check_positive(value: Any, name: str) -> float:
    """Check that ``value`` is a positive finite number, and return it as a float."""
    try:
        number = float("nan") if isinstance(value, (str, bool, np.bool_)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise InputError(f"{name} must be a positive number, got {value!r}")
    return number


def check_positive_numbers(values: Any, name: str) -> tuple[float, ...]:
    """Check that ``values`` are one or several positive numbers, and return them as floats."""
    entries = np.atleast_1d(np.asarray(values, object))
    if not len(entries):
        raise InputError(f"{name} must have at least one number")
    return tuple(check_positive(entry, name) for entry in entries)


def check_proportion(value: Any, name: str) -> float:
    """Check that ``value`` is strictly between 0 and 1, and return it as a float."""
    proportion = check_positive(value, name)
    if proportion >= 1.0:
        raise InputError(f"{name} must be between 0 and 1, got {value!r}")
    return proportion


def check_alpha(alpha: Any) -> float:
    """Check that the level of a test is above 0 and at most 0.5, and return it as a float."""
    is_number = isinstance(alpha, numbers.Real) and not isinstance(alpha, bool)
    level = float(alpha) if is_number else 0.0
    if not 0.0 < level < 1.0:
        raise InputError(f"alpha must be a number between 0 and 0.5, such as 0.05, got {alpha!r}")
    if level > 0.5:
        raise InputError(
            f"alpha is the probability of a false alarm, such as 0.05, got {level:g}: for a "
            f"confidence of {level:g} pass {1.0 - level:.3g}"
        )
    return level


def check_noise_variance(noise_variance: Any) -> float | SamplingNoise:
    """Check that the noise variance sigma^2 of BKE (5) is positive and finite.

    The name of a sampling covariance is replaced by the covariance.
    """
    from bke.models.likelihood.noise import (  # imports JAX, which would slow down --help
        SAMPLING_NOISES,
        SamplingNoise,
    )

    if isinstance(noise_variance, SamplingNoise):
        return noise_variance
    if isinstance(noise_variance, str):
        if noise_variance not in SAMPLING_NOISES:
            raise InputError(
                "noise_variance must be a positive number, "
                f"{' or '.join(map(repr, SAMPLING_NOISES))}, got {noise_variance!r}"
            )
        return SAMPLING_NOISES[noise_variance]
    return check_positive(noise_variance, "noise_variance")


def memory_needed(n: int, dimension: int, matrices: int) -> int:
    """Return the bytes of n x n float64 matrices and of n rows of ``dimension`` columns."""
    return 8 * (matrices * n * n + n * dimension)


def check_memory(n: int, dimension: int, *, matrices: int, alternative: str = "") -> None:
    """Refuse matrices that do not fit into the memory, before they are allocated.

    Warns if they need more than half of the free memory. Nothing happens if the operating system
    does not report its free memory.

    Args:
        n: number of rows of the (pooled) sample.
        dimension: number D of its columns.
        matrices: number of n x n float64 matrices that are allocated at once.
        alternative: an option that needs less memory, for the message.

    Raises:
        InputError: if more memory is needed than is free.
    """
    needed = memory_needed(n, dimension, matrices)
    available = available_memory()
    if available is None or needed <= WARNING_PROPORTION * available:
        return
    message = (
        f"n = {n} rows need about {needed / 2**30:,.1f} GiB of memory ({matrices} matrices of "
        f"{n} x {n}), and {available / 2**30:,.1f} GiB are free"
    )
    if needed > available:
        raise InputError(f"{message}: use {alternative or 'a random subset of the rows'}")
    warnings.warn(message, stacklevel=3)
