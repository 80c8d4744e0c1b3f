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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError, check_choice
from ..core.machine import available_memory
from .equality import equalize, stored_sizes

#: How to make an array of what is none, by a method that it has.
INSTEAD = {
    "toarray": ": give .toarray() of it",
    "fetchdf": ": give .df() of it",  # of DuckDB, whose rows are not an array
    "collect": ": give .collect() of it",
    "keys": ": give np.column_stack of its values, or a data frame of it",
    "__next__": ": give a list of its rows, or open_blocks of its blocks",
}
#: Types of columns of polars and Arrow that are not numbers, by the beginning of their names.
NOT_NUMBERS = re.compile(r"(Date|Time|Duration|Boolean|timestamp|date|time|duration|bool)")


def plain_array(X: ArrayLike, name: str) -> NDArray[Any]:
    """Make an array of what is one, masked cells as NaN and cells beside strings as objects.

    Raises:
        InputError: a text, rows of several lengths, or something that is no array.
    """
    if isinstance(X, (str, os.PathLike)):
        raise InputError(
            f"{name} is the text {os.fspath(X)!r}, where numbers are needed: if it is a file, give "
            "open_rows of it, or read_sample of it and .values"
        )
    _check_column_types(X, name)
    try:
        if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
            X = np.ma.array(X)
        if isinstance(X, np.ma.MaskedArray):  # np.asarray would show what the mask hides
            return np.asarray(np.ma.filled(X.astype(np.float64), np.nan))
        array = np.asarray(X)
        # NumPy makes strings of numbers that stand beside a string; the message must show which.
        array = np.array(X, dtype=object) if array.dtype.kind in "SU" else array
    except (ValueError, TypeError) as error:
        flat = isinstance(X, (list, tuple)) and not any(map(_holds_sequences, X))
        lengths = [np.size(row) for row in X] if flat and isinstance(X, (list, tuple)) else []
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                raise InputError(
                    f"{name} has {length} values in row {row + 1} but {lengths[0]} in row 1"
                ) from error
        advice = next((way for has, way in INSTEAD.items() if hasattr(X, has)), "")
        reason = advice or f": {str(error).splitlines()[0]}"
        raise InputError(f"{name} is not an array of numbers{reason}") from error
    if array.ndim == 0 and array.dtype == object:
        advice = next((way for has, way in INSTEAD.items() if hasattr(X, has)), "")
        raise InputError(f"{name} must be an array or a data frame, got {type(X).__name__}{advice}")
    return array


def _check_column_types(X: Any, name: str) -> None:
    """Refuse dates, durations and booleans of polars and Arrow, which NumPy takes for numbers."""
    schema = getattr(X, "schema", None)
    if not hasattr(X, "__arrow_c_stream__") or schema is None or callable(schema):
        return
    types = (
        schema.items() if hasattr(schema, "items") else zip(schema.names, schema.types, strict=True)
    )
    for column, dtype in types:
        if NOT_NUMBERS.match(str(dtype)):
            seconds = (
                "take the seconds since the first, or " if "bool" not in str(dtype).lower() else ""
            )
            raise InputError(
                f"{name} has the type {dtype} in column {column!r}, where real numbers are needed: "
                f"{seconds}convert it to numbers"
            )


def _holds_sequences(row: Any) -> bool:
    return isinstance(row, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in row)


def _advice(cell: Any) -> str:
    """Advise how to make a number of what is none."""
    if isinstance(cell, (bool, np.bool_)):
        return ": .astype(int) makes 0 and 1 of it"
    if isinstance(cell, (np.datetime64, datetime.date)):
        return ": take the days or seconds since the first"
    if isinstance(cell, (np.timedelta64, datetime.timedelta)):
        return ": take the seconds, as with .dt.total_seconds() in pandas"
    if isinstance(cell, str):
        return "; two tables with words are for compare_tables (`bke drift`)"
    return ""


def from_objects(
    array: NDArray[Any], name: str, column: Callable[[int], str]
) -> NDArray[np.float64]:
    """Read numbers out of an array that NumPy holds as objects, such as a table of mixed types."""
    values = np.empty(array.shape)
    for index, cell in np.ndenumerate(array):
        number = isinstance(cell, (numbers.Real, decimal.Decimal))
        number = number and not isinstance(cell, (bool, np.timedelta64))
        if not (number or cell is None or str(cell) == "<NA>"):  # the last is pandas.NA
            raise InputError(
                f"{name} has {str(cell)[:40]!r} in row {index[0] + 1}, {column(index[1])}, "
                f"where a real number is needed (type {array.dtype}){_advice(cell)}"
            )
        values[index] = float(cell) if number else np.nan
    return values


if TYPE_CHECKING:
    from bke.models import SamplingNoise

#: n x n matrices that one thread of the witness holds at once.
WITNESS_MATRICES = 14
LARGEST = 1e150  # squares of anything larger overflow
#: Several samples: the likelihood of their union, or the product of their likelihoods.
Samples: TypeAlias = Literal["pooled", "product"]
SAMPLES: tuple[str, ...] = get_args(Samples)
#: What columns are divided by: each by its own standard deviation, or all by one number.
Standardize: TypeAlias = Literal["column", "pooled"]
STANDARDIZATIONS: tuple[str | None, ...] = (*get_args(Standardize), None)
SMALLEST_SPREAD = 1e-150  # and squares of anything smaller underflow to zero


def as_sample(
    X: ArrayLike,
    name: str = "X",
    *,
    may_be_constant: bool = False,
    columns: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Check a sample and copy it to float64.

    Args:
        X: (n, D) or (n,), which means D = 1: lists, a NumPy or JAX array, a pandas object.
        name: what the messages call it.
        may_be_constant: whether a column may hold one value only.
        columns: what the messages call the columns; by default as a data frame does.

    Returns:
        (n, D) float64, a copy, with n >= 2, D >= 1, finite, no constant column.

    Raises:
        InputError: one sentence that names ``name`` and the row and column, both counted from 1.
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
        raise InputError(f"{name} has {n} rows and all are equal, so there is nothing to learn")
    check_spread(values.min(axis=0), values.max(axis=0), name, column)
    return values


def as_matrix(
    X: ArrayLike, name: str, *, columns: Sequence[str] | None = None
) -> NDArray[np.float64]:
    """Convert rows (n, D) or (n,) to float64 (n, D), a copy, with NaN for missing values.

    Raises:
        InputError: see :func:`as_sample`; any number of rows and any value is accepted.
    """
    array = plain_array(X, name)
    if array.ndim not in (1, 2):
        raise InputError(
            f"{name} has {array.ndim} dimensions, where (n,) or (rows, columns) is needed"
        )
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns")
    if array.dtype.kind not in "iuf":
        array = from_objects(array, name, _column_label(X, columns))
    return np.array(array, dtype=np.float64)


def _column_label(X: Any, columns: Sequence[str] | None) -> Callable[[int], str]:
    headings = columns or column_names(X) or ()
    return lambda index: f"column {headings[index]!r}" if headings else f"column {index + 1}"


def _check_numbers(values: np.ndarray, name: str, column: Callable[[int], str]) -> None:
    """Refuse values (n, D) that are missing, infinite or too large to be squared."""
    for bad in (np.isnan(values), np.isinf(values), np.abs(values) > LARGEST):
        if bad.any():
            row, at = map(int, np.argwhere(bad)[0])
            rows = counted(int(bad.any(axis=1).sum()), "row")
            tables = "; two tables with missing values are for compare_tables (`bke drift`)"
            tables *= name in ("P", "Q") and bool(np.isnan(values[row, at]))
            raise InputError(
                f"{name} has {fault_of(values[row, at])} in row {row + 1}, {column(at)} "
                f"({bad.sum()} in all): fill in or leave out {rows}{tables}"
            )


def fault_of(value: float) -> str:
    """Tell what is wrong with a number that is not finite, or too large."""
    if np.isnan(value):
        return "a missing value (NaN)"
    if np.isinf(value):
        return "an infinite value"
    return f"a value beyond {LARGEST:g}, whose square would overflow"


def first_fault(rows: NDArray[np.float64]) -> tuple[int, int, str] | None:
    """Find the first number of rows (n, D) that no method takes: its row, its column, and why."""
    bad = ~(np.abs(rows) <= LARGEST)
    if not bad.any():
        return None
    row, column = map(int, np.argwhere(bad)[0])
    return row, column, fault_of(rows[row, column])


def check_spread(
    low: NDArray[np.float64], high: NDArray[np.float64], name: str, column: Callable[[int], str]
) -> None:
    """Refuse columns of which nothing can be learned.

    Args:
        low: (D,), the smallest value of each.
        high: (D,), the largest.
        name: what the message calls the sample.
        column: and what each column.

    Raises:
        InputError: a column is constant, or squares of its differences underflow.
    """
    for at, spread in enumerate(high - low):
        if spread == 0.0:
            raise InputError(
                f"{name} has the same value ({low[at]:g}) in every row of {column(at)}: "
                "leave that column out"
            )
        if spread <= SMALLEST_SPREAD:
            raise InputError(
                f"{name} varies by only {spread:.2g} in {column(at)}, too little for squares in "
                "double precision: take smaller units, or leave that column out"
            )


def as_pair(
    P: ArrayLike, Q: ArrayLike, *, may_be_constant: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two samples, (n, D) and (m, D), that must have the same columns; see ``as_sample``.

    Of two data frames with columns of the same names Q's come in the order of P's. Values
    that differ by their storage type or by rounding alone become equal; see :mod:`.equality`.
    """
    p, q = (as_sample(Z, name, may_be_constant=may_be_constant) for Z, name in ((P, "P"), (Q, "Q")))
    if p.shape[1] != q.shape[1]:
        check_same_columns(column_names(P), column_names(Q))  # tells more
        raise InputError(
            f"P has {counted(p.shape[1], 'column')} and Q has {counted(q.shape[1], 'column')}, "
            "where the same number is needed"
        )
    sizes = [stored_sizes(Z, p.shape[1]) for Z in (P, Q)]
    q, sizes[1] = (in_order_of(column_names(P), column_names(Q), Z) for Z in (q, sizes[1][None]))
    p, q = equalize([p, q], [sizes[0], sizes[1][0]])
    return p, q


def in_order_of(
    wanted: tuple[str, ...] | None, names: tuple[str, ...] | None, rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Take the columns of ``rows`` (n, D) in the order of ``wanted``, if these are their names."""
    if wanted is None or names is None or wanted == names or sorted(wanted) != sorted(names):
        return rows
    if len(set(names)) < len(names):
        return rows
    return rows[:, [names.index(name) for name in wanted]]


def as_tested_pair(P: ArrayLike, Q: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two samples for a test, in which not every column is one value in both alike."""
    p, q = as_pair(P, Q, may_be_constant=True)
    if p.shape[1] > 1:  # one column is that column, whatever its name
        check_same_columns(column_names(P), column_names(Q))
    pooled, names = np.concatenate([p, q]), column_names(P)
    varying = np.flatnonzero(np.ptp(pooled, axis=0) > 0.0)
    # Others say nothing of how samples differ; where there is no other, that is said.
    told = None if names is None or not len(varying) else [names[index] for index in varying]
    as_sample(
        pooled[:, varying] if len(varying) else pooled,
        "the union of P and Q",
        columns=told or names,
    )
    return p, q


def as_samples(X: ArrayLike | tuple[ArrayLike, ...], samples: str) -> list[NDArray[np.float64]]:
    """Check samples, and pool those that have no likelihood of their own.

    Args:
        X: one sample; or a tuple of several, which rows of one sample must not be.
        samples: ``"pooled"`` takes the union of several, ``"product"`` keeps them apart.
    """
    check_choice(samples, "samples", SAMPLES)
    several = isinstance(X, tuple) and all(_is_sequence(part) for part in X)
    if isinstance(X, list) and any(len(getattr(part, "shape", ())) > 0 for part in X):
        raise InputError("a list of arrays could be rows or samples: give samples as a tuple")
    if not several or not isinstance(X, tuple) or len(X) < 2:
        if samples == "product":
            raise InputError("samples='product' needs a tuple of samples, such as fit((P, Q), ...)")
        return [as_sample(X, "X")]  # type: ignore[arg-type]
    checked = [as_sample(part, f"X[{index}]") for index, part in enumerate(X)]
    widths = [sample.shape[1] for sample in checked]
    if len(set(widths)) > 1:
        raise InputError(f"the samples have {', '.join(map(str, widths))} columns: not the same")
    check_same_columns(*map(column_names, X))
    first = column_names(X[0])
    ordered = [
        in_order_of(first, column_names(part), sample)
        for part, sample in zip(X, checked, strict=True)
    ]
    return ordered if samples == "product" else [np.concatenate(ordered)]


def _is_sequence(part: Any) -> bool:
    return isinstance(part, (list, tuple)) or len(getattr(part, "shape", ())) > 0


Value = TypeVar("Value")


def normalize_text(value: Value) -> Value:
    """Return a text in Unicode normal form C, in which equal text is equal; other values as is."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value  # type: ignore[return-value]


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns; of a tuple of them, the first one's."""
    if isinstance(X, tuple):
        return column_names(X[0]) if X else None
    # Arrow's tables have ``column_names``; their ``columns`` are arrays.
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return None if names is None else tuple(normalize_text(str(name)) for name in names)


def default_names(count: int) -> list[str]:
    """Name columns that have no names: ``x``, or ``x0``, ``x1``, ..."""
    return ["x"] if count == 1 else [f"x{index}" for index in range(count)]


def named_columns(columns: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Return names given for columns, or those that are known.

    Raises:
        InputError: they are no names, as many as there are columns and all different.
    """
    if columns is None:
        return tuple(map(str, known))
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        raise InputError(f"columns must be {len(known)} names, got {columns!r}")
    names = tuple(normalize_text(str(name)) for name in columns)
    if len(names) != len(known):
        raise InputError(f"there are {len(known)} columns, and {len(names)} names are given")
    if len(set(names)) < len(names):
        raise InputError(f"names of columns must differ, got {', '.join(names)}")
    return names


def check_same_columns(*names: tuple[str, ...] | None) -> None:
    """Refuse data frames whose columns have different names, or one name twice in another order."""
    known = [one for one in names if one is not None]
    for other in known[1:]:
        twice = len(set(other)) < len(other)
        if sorted(other) != sorted(known[0]) or (twice and other != known[0]):
            raise InputError(
                f"the columns are {', '.join(known[0])} in one sample and {', '.join(other)} in "
                "another: give them the same names"
            )


def check_same_rows(**samples: Any) -> None:
    """Refuse data frames with common row labels in other places: rows go by their place."""
    labels = {
        name: list(index)
        for name, sample in samples.items()
        if (index := getattr(sample, "index", None)) is not None and not callable(index)
    }
    (first, known), *others = labels.items() or [("", [])]
    for name, other in others:
        if other == known or len(other) != len(known) or not set(other) & set(known):
            continue
        if set(other) != set(known):
            row = next(at for at in range(len(known)) if known[at] != other[at])
            raise InputError(
                f"{first} and {name} have other row labels, {known[row]} and {other[row]} in row "
                f"{row + 1}, and rows go by their place: align them, or reset their indexes"
            )
        else:
            raise InputError(
                f"{first} and {name} have the same row labels in another order, and rows go by "
                f"their place: give {name}.loc[{first}.index]"
            )


def check_file(path: Path) -> None:
    """Refuse anything but a regular file: reading a pipe would wait.

    Raises:
        InputError: there is no file, or it is something else.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if not path.is_file():
        raise InputError(f"{path} is no regular file")


def counted(count: int, what: str) -> str:
    """Tell a count in words, such as ``1 row`` and ``2 rows``."""
    return f"{count} {what}{'s' * (count != 1)}"


def check_count(value: Any, name: str, minimum: int, maximum: int | None = None) -> int:
    """Check that ``value`` is a whole number from ``minimum`` to ``maximum``, as an int."""
    limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be a whole number {limits}, and is {value!r}")
    if count < minimum or (maximum is not None and count > maximum):
        raise InputError(f"{name} must be {limits}, and is {count}")
    return count


def check_flag(value: Any, name: str) -> bool:
    """Check that ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_options(options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse keyword arguments that ``function``, to which they are handed on, does not have."""
    if unknown := set(options) - set(inspect.signature(function).parameters):
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}")


def check_positive(value: Any, name: str) -> float:
    """Check that ``value`` is a positive finite number, and make it a float."""
    try:
        number = float("nan") if isinstance(value, (str, bool, np.bool_)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise InputError(f"{name} must be a positive number, and is {value!r}")
    return number


def check_positive_numbers(values: Any, name: str) -> tuple[float, ...]:
    """Check that ``values`` are one or several positive numbers, and make them floats."""
    entries = np.atleast_1d(np.asarray(values, object))
    if not len(entries):
        raise InputError(f"{name} must hold at least one number")
    return tuple(check_positive(entry, name) for entry in entries)


def check_share(value: Any, name: str) -> float:
    """Check that ``value`` is a number between 0 and 1, neither of them, and make it a float."""
    share = check_positive(value, name)
    if share >= 1.0:
        raise InputError(f"{name} must be between 0 and 1, and is {value!r}")
    return share


def check_alpha(alpha: Any) -> float:
    """Return the level of a test, a number between 0 and 0.5, as a float."""
    number = isinstance(alpha, numbers.Real) and not isinstance(alpha, bool)
    level = float(alpha) if number else 0.0
    if not 0.0 < level < 1.0:
        raise InputError(f"alpha must be a number between 0 and 0.5, such as 0.05, got {alpha!r}")
    if level > 0.5:
        raise InputError(
            f"alpha is the probability of a false alarm, such as 0.05, and is {level:g}: for a "
            f"confidence of {level:g} give {1.0 - level:.3g}"
        )
    return level


def check_noise_variance(noise_variance: Any) -> float | SamplingNoise:
    """Check that the noise variance sigma^2 of BKE (5) is positive and finite.

    The names of a sampling covariance are resolved.
    """
    from bke.models.likelihood.noise import (  # JAX, which --help need not wait for
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


#: A share of the memory that is told of before it is taken.
MUCH = 0.5


def memory_needed(n: int, dimension: int, matrices: int) -> int:
    """Bytes of so many n x n float64 matrices and of n rows of ``dimension`` columns."""
    return 8 * (matrices * n * n + n * dimension)


def check_memory(n: int, dimension: int, *, matrices: int, instead: str = "") -> None:
    """Refuse a job whose matrices do not fit, before anything is allocated.

    Warns where they take more than half of what there is.

    Args:
        n: rows of the (pooled) sample.
        dimension: its columns D.
        matrices: how many n x n float64 matrices are alive at once.
        instead: what needs less memory, for the message.

    Raises:
        InputError: more is needed than there is; says how much of each. Nothing is raised where
            the operating system does not tell how much there is.
    """
    needed = memory_needed(n, dimension, matrices)
    available = available_memory()
    if available is None or needed <= MUCH * available:
        return
    told = (
        f"n = {n} rows need about {needed / 2**30:,.1f} GiB of memory ({matrices} matrices of "
        f"{n} x {n}), and {available / 2**30:,.1f} GiB are free"
    )
    if needed > available:
        raise InputError(f"{told}: take {instead or 'a random part of the rows'}")
    warnings.warn(told, stacklevel=3)
