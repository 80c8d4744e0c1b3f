"""Checks of rows, points and weights for a fitted model, with columns matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .checks import (
    column_names,
    convert_objects,
    default_names,
    first_invalid_value,
    plain_array,
    row_labels,
)


def column_order(
    names: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str,
    *,
    optional: Sequence[str] | None = (),
) -> list[int] | None:
    """Return the indices that bring new columns into the order of the columns of a model.

    Columns are matched by position if the new rows or the model have no names. This includes the
    labels 0, 1, ... of pandas for columns without names, if the new rows and the model have no name
    in common.

    Args:
        names: names of the columns of the new rows, or ``None``.
        columns: names of the columns of the training data, or ``None``.
        name: name of the new rows in messages.
        optional: names of further columns that new rows may have; they are dropped. ``None``
            allows any.

    Returns:
        Indices (D,), or ``None`` if columns are matched by position.

    Raises:
        InputError: if columns are missing, unknown or repeated.
    """
    if names is None or columns is None or tuple(names) == tuple(columns):
        return None
    missing = [column for column in columns if column not in names]
    unknown = []
    if optional is not None:
        unknown = [column for column in names if column not in (*columns, *optional)]
    repeated = [column for column in columns if list(names).count(column) > 1]
    if not (missing or unknown or repeated):
        return [list(names).index(column) for column in columns]
    unnamed = _are_positions(names) or _are_positions((*columns, *(optional or ())))
    if unnamed and not set(names) & set(columns):
        return None
    problems = [
        f"{'columns' if len(group) > 1 else 'column'} {', '.join(map(repr, group))} {problem}"
        for group, problem in ((missing, "missing"), (unknown, "unknown"), (repeated, "repeated"))
        if group
    ]
    raise InputError(
        f"{name}: {'; '.join(problems)}; pass the columns {', '.join(map(repr, columns))}, in "
        "any order"
    )


def known_names(columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the columns of a run, or ``None`` if they are the default names."""
    names = tuple(map(str, columns))
    return None if names == tuple(default_names(len(names))) else names


def _are_positions(names: Sequence[str]) -> bool:
    """Return whether the names are 0, 1, ..., in any order."""
    return set(names) == set(map(str, range(len(names))))


def ordered_rows(
    X: ArrayLike, columns: Sequence[str] | None, name: str, *, optional: Sequence[str] = ()
) -> NDArray[np.float64]:
    """Convert new rows to float64, with columns in the order of those of the model.

    Args:
        X: rows (m, D) or (m,), or one row (D,). If one row is a pandas Series, its labels are the
            names of the columns.
        columns: names of the columns of the training data, or ``None``.
        name: name of the new rows in messages.
        optional: see :func:`column_order`.

    Returns:
        Numbers of the shape of ``X``; NaN for missing or masked cells.

    Raises:
        InputError: if columns do not match, or a cell is not a number.
    """
    array, names = plain_array(X, name), column_names(X)
    if columns is not None and len(columns) > 1 and array.shape == (len(columns),):
        names = names_of_row(X)
    order = column_order(names, columns, name, optional=optional)
    if order is not None:
        array, names = array[..., order], tuple(columns or ())
    if array.dtype.kind not in "iuf" and array.ndim in (1, 2):

        def column(index: int) -> str:
            return f"column {names[index]!r}" if names else f"column {index + 1}"

        flat = array if array.ndim == 2 else array[:, np.newaxis]
        array = convert_objects(flat, name, column).reshape(array.shape)
    return np.asarray(array, dtype=np.float64)


def names_of_row(X: Any) -> tuple[str, ...] | None:
    """Return the names of the cells of one row of pandas or xarray, or ``None`` without names."""
    labels = row_labels(X).get("")
    return None if labels is None else tuple(map(str, labels))


def as_evaluation_points(
    at: ArrayLike,
    dimension: int,
    name: str = "at",
    columns: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
) -> NDArray[np.float64]:
    """Check that points are finite numbers of absolute value at most 1e150.

    Args:
        at: points (k, dimension), or (k,) in one dimension.
        dimension: D.
        name: name of the points in messages.
        columns: names of the D columns of the training data, with which the columns of data frames
            are matched; see :func:`column_order`.
        optional: see :func:`column_order`.

    Returns:
        Points (k, dimension), with columns in the order of those of the model.

    Raises:
        InputError: if the shape, a value or the names of columns are invalid.
    """
    points = ordered_rows(at, columns, name, optional=optional)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dimension or not len(points):
        raise InputError(f"{name} must have shape (k, {dimension}), got {np.shape(at)}")
    invalid = first_invalid_value(points)
    if invalid is not None:
        row, _, description = invalid
        raise InputError(f"{name} has {description} in row {row + 1}")
    return points


def as_weights(
    weights: ArrayLike, rows: int, name: str = "weights", *, sample: Any = None
) -> NDArray[np.float64]:
    """Check that weights are finite, nonnegative and not all 0.

    Args:
        weights: one number for each row, or a data frame of one column.
        rows: number of rows.
        name: name of the weights in messages.
        sample: the rows. If both are of pandas or xarray, the weights must have their row labels.

    Returns:
        Weights (rows,), of which the largest is 1.

    Raises:
        InputError: if the weights are invalid, which includes masked and missing ones.
    """
    # Pandas objects and the result of match_weights have values.
    array = plain_array(getattr(weights, "values", weights), name)
    if array.shape == (rows, 1):
        array = array[:, 0]
    if array.dtype.kind == "O" and array.shape == (rows,):
        array = convert_objects(array[:, np.newaxis], name, lambda _: "column 1")[:, 0]
    if array.dtype.kind not in "fiu" or array.shape != (rows,):
        raise InputError(
            f"{name} must be {rows} numbers, one for each row, got {array.dtype} of shape "
            f"{array.shape}"
        )
    of_sample = row_labels(sample)
    for key, labels in row_labels(weights).items():
        expected = of_sample.get(key, labels)
        row = next((at for at in range(rows) if str(labels[at]) != str(expected[at])), None)
        if row is not None:
            raise InputError(
                f"{name} and the rows have different row labels: {labels[row]} and {expected[row]} "
                f"in row {row + 1}; align them by labels, as weights.loc[rows.index], or pass "
                "weights.to_numpy() if they are in the order of the rows"
            )
    values = array.astype(float)
    invalid = np.flatnonzero(~((values >= 0.0) & np.isfinite(values)))
    if invalid.size:
        row = int(invalid[0])
        raise InputError(
            f"{name} must be finite and nonnegative, got {values[row]} in row {row + 1}"
        )
    if not values.any():
        raise InputError(f"{name} are all 0: pass at least one positive weight")
    return values / values.max()
