"""Arrays out of what users hand over as samples: lists, masked arrays, tables of mixed types."""

from __future__ import annotations

import datetime
import decimal
import numbers
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError


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
    try:
        if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
            X = np.ma.array(X)
        if isinstance(X, np.ma.MaskedArray):  # np.asarray would show what the mask hides
            return np.asarray(np.ma.filled(X.astype(np.float64), np.nan))
        array = np.asarray(X)
        # NumPy makes strings of numbers that stand beside a string; the message must show which.
        return np.array(X, dtype=object) if array.dtype.kind in "SU" else array
    except (ValueError, TypeError) as error:
        flat = isinstance(X, (list, tuple)) and not any(map(_holds_sequences, X))
        lengths = [np.size(row) for row in X] if flat and isinstance(X, (list, tuple)) else []
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                raise InputError(
                    f"{name} has {length} values in row {row + 1} but {lengths[0]} in row 1"
                ) from error
        reason = str(error).splitlines()[0]
        raise InputError(f"{name} is not an array of numbers: {reason}") from error


def _holds_sequences(row: Any) -> bool:
    return isinstance(row, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in row)


def _advice(cell: Any) -> str:
    """Advise how to make a number of what is none."""
    if isinstance(cell, (bool, np.bool_)):
        return ": .astype(int) makes 0 and 1 of it"
    if isinstance(cell, (np.datetime64, datetime.date)):
        return ": take the days or seconds since the first"
    if isinstance(cell, str):
        return "; two tables with words are for compare_tables (`bke drift`)"
    return ""


def from_objects(
    array: NDArray[Any], name: str, column: Callable[[int], str]
) -> NDArray[np.float64]:
    """Read numbers out of an array that NumPy holds as objects, such as a table of mixed types."""
    values = np.empty(array.shape)
    for index, cell in np.ndenumerate(array):
        number = isinstance(cell, (numbers.Real, decimal.Decimal)) and not isinstance(cell, bool)
        if not (number or cell is None or str(cell) == "<NA>"):  # the last is pandas.NA
            raise InputError(
                f"{name} has {str(cell)[:40]!r} in row {index[0] + 1}, {column(index[1])}, "
                f"where a real number is needed (type {array.dtype}){_advice(cell)}"
            )
        values[index] = float(cell) if number else np.nan
    return values
