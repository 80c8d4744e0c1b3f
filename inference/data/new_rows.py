"""Rows, points and weights given to a learned model: columns matched by name, masks refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError
from .checks import column_names, default_names, first_fault, from_objects, plain_array


def column_order(
    names: Sequence[str] | None,
    columns: Sequence[str] | None,
    name: str,
    *,
    optional: Sequence[str] | None = (),
) -> list[int] | None:
    """Return the indices that bring new columns into the order of a model's columns.

    Without names on one of the two sides columns are taken by position. So they are where the
    names of one side are the labels 0, 1, ... that pandas gives to columns without names, and the
    two sides have no name in common.

    Args:
        names: of the new rows' columns, or ``None``.
        columns: names of the columns that the model was learned from, or ``None``.
        name: what messages call the new rows.
        optional: names of further columns that new rows may have, which are left out; ``None``
            allows any.

    Returns:
        Indices (D,), or ``None`` where columns are taken by position.

    Raises:
        InputError: columns are missing, unknown or there twice; the message names them.
    """
    if names is None or columns is None or tuple(names) == tuple(columns):
        return None
    missing = [column for column in columns if column not in names]
    unknown = [one for one in names if optional is not None and one not in (*columns, *optional)]
    twice = [column for column in columns if list(names).count(column) > 1]
    if not (missing or unknown or twice):
        return [list(names).index(column) for column in columns]
    unlabelled = _are_positions(names) or _are_positions((*columns, *(optional or ())))
    if unlabelled and not set(names) & set(columns):
        return None
    faults = [
        f"{'columns' if len(which) > 1 else 'column'} {', '.join(map(repr, which))} {what}"
        for which, what in ((missing, "missing"), (unknown, "unknown"), (twice, "given twice"))
        if which
    ]
    raise InputError(
        f"{name}: {'; '.join(faults)}: the columns must be {', '.join(map(repr, columns))}, in "
        "any order"
    )


def known_names(columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of a run's columns, or ``None`` where the data had none of their own."""
    names = tuple(map(str, columns))
    return None if names == tuple(default_names(len(names))) else names


def _are_positions(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, ..., in any order."""
    return set(names) == set(map(str, range(len(names))))


def ordered_rows(
    X: ArrayLike, columns: Sequence[str] | None, name: str, *, optional: Sequence[str] = ()
) -> NDArray[np.float64]:
    """Convert new rows to float64, with columns in the order of the model's, see ``column_order``.

    Args:
        X: shape (m, D) or (m,), or one row (D,), of which a pandas Series has the columns' names
            as labels.
        columns: names of the columns that the model was learned from, or ``None``.
        name: what messages call the new rows.
        optional: see :func:`column_order`.

    Returns:
        Numbers of the shape of ``X``, NaN where cells are missing or masked.

    Raises:
        InputError: columns do not match, or a cell is no number.
    """
    array, names = plain_array(X, name), column_names(X)
    if columns is not None and len(columns) > 1 and array.shape == (len(columns),):
        names = _row_labels(X)
    order = column_order(names, columns, name, optional=optional)
    if order is not None:
        array, names = array[..., order], tuple(columns or ())
    if array.dtype.kind not in "iuf" and array.ndim in (1, 2):

        def column(at: int) -> str:
            return f"column {names[at]!r}" if names else f"column {at + 1}"

        flat = array if array.ndim == 2 else array[:, np.newaxis]
        array = from_objects(flat, name, column).reshape(array.shape)
    return np.asarray(array, dtype=np.float64)


def _row_labels(X: Any) -> tuple[str, ...] | None:
    """Labels of the entries of a pandas Series; of anything else ``None``."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) else tuple(map(str, index))


def as_evaluation_points(
    at: ArrayLike,
    dimension: int,
    name: str = "at",
    columns: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
) -> NDArray[np.float64]:
    """Check points that are finite numbers, none beyond 1e150.

    Args:
        at: shape (k, dimension), or (k,) of one dimension.
        dimension: D.
        name: what messages call them.
        columns: names of the D columns that the model was learned from, by which those of data
            frames are matched, see :func:`column_order`.
        optional: see :func:`column_order`.

    Returns:
        Points (k, dimension), columns in the order of the model's.

    Raises:
        InputError: for anything else; names the row, or the columns that do not match.
    """
    points = ordered_rows(at, columns, name, optional=optional)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dimension or not len(points):
        raise InputError(f"{name} must have shape (k, {dimension}), got {np.shape(at)}")
    bad = first_fault(points)
    if bad is not None:
        row, _, fault = bad
        raise InputError(f"{name} has {fault} in row {row + 1}")
    return points


def as_weights(
    weights: ArrayLike, rows: int, name: str = "weights", *, sample: Any = None
) -> NDArray[np.float64]:
    """Check weights (rows,) that are positive or 0, and finite; not all 0.

    Args:
        weights: one number for each row; a data frame of one column is fine.
        rows: how many rows there are.
        name: what messages call the weights.
        sample: the rows, whose labels those of the weights must equal where both are of pandas.

    Raises:
        InputError: for anything else, masked and missing weights too, in one sentence.
    """
    given = plain_array(getattr(weights, "values", weights), name)  # of match_weights, of pandas
    if given.shape == (rows, 1):
        given = given[:, 0]
    if given.dtype.kind == "O" and given.shape == (rows,):
        given = from_objects(given[:, np.newaxis], name, lambda _: "column 1")[:, 0]
    if given.dtype.kind not in "fiu" or given.shape != (rows,):
        what = f"{given.dtype} of shape {given.shape}"
        raise InputError(f"{name} must be {rows} numbers, one for each row, got {what}")
    labels, expected = _row_labels(weights), _row_labels(sample)
    if labels is not None and expected is not None and labels != expected:
        row = next(at for at in range(rows) if labels[at] != expected[at])
        raise InputError(
            f"{name} and the rows have different row labels: {labels[row]} and {expected[row]} in "
            f"row {row + 1}. Align them by labels, as weights.loc[rows.index], or give "
            "weights.to_numpy() if they are in the order of the rows"
        )
    found = given.astype(float)
    if not (found >= 0.0).all() or not np.isfinite(found).all():
        row = int(np.flatnonzero(~((found >= 0.0) & np.isfinite(found)))[0])
        raise InputError(
            f"{name} must be positive or 0 and finite, and row {row + 1} has {found[row]}"
        )
    if not found.any():
        raise InputError(f"{name} are all 0")
    return found / found.max()
