"""Groups of rows, however they are given, as one array with its groups beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.arrays import from_objects, plain_array
from ..data.checks import column_names, counted
from ..data.file_table import default_names
from ..errors import InputError


class Groups(NamedTuple):
    """Rows of G groups.

    Attributes:
        rows: (N, D), those of a group beside each other.
        counts: (G,), rows of each.
        labels: (G,), what they are called.
        columns: names of the D columns.
    """

    rows: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    columns: tuple[str, ...]

    @property
    def starts(self) -> np.ndarray:
        """The first row of each group, (G,)."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])


def as_groups(X: Any, groups: Any = None) -> Groups:
    """Take groups of rows.

    Args:
        X: a sequence of groups, each (n, D), (n,) or a data frame; or one array (N, D) or data
            frame with ``groups``.
        groups: (N,), the label of each row's group, or the name of a column of ``X``; groups come
            in the order of their first rows.

    Raises:
        InputError: one sentence that names the group, and the row and column.
    """
    if groups is None:
        return _of_sequence(X)
    if isinstance(groups, str):
        if groups not in (column_names(X) or ()):
            raise InputError(f"X has no column {groups!r}")
        labels = np.asarray(X[groups])
        X = X.drop(columns=groups) if hasattr(X, "drop") else X
    else:
        labels = np.asarray(groups)
    columns = column_names(X)
    rows = _rows(X, "X", columns)
    if labels.shape != (len(rows),):
        raise InputError(f"groups has shape {labels.shape}, and X {counted(len(rows), 'row')}")
    if any(label is None or label != label for label in labels.tolist()):
        raise InputError("groups has a missing label")
    _, first, index = np.unique(labels, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first, kind="stable"), kind="stable")[index]
    order = np.argsort(place, kind="stable")
    return Groups(
        rows[order],
        np.bincount(place),
        tuple(labels[np.sort(first)].tolist()),
        columns or tuple(default_names(rows.shape[1])),
    )


def _of_sequence(X: Any) -> Groups:
    if isinstance(X, (str, bytes, Mapping)) or not hasattr(X, "__len__") or column_names(X):
        raise InputError("X must be a sequence of groups of rows, or rows with groups=")
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim < 3:
        raise InputError(
            f"X has {X.ndim} dimensions: give a sequence of groups of rows, or rows with groups="
        )
    if not len(X):
        raise InputError("X has no groups")
    columns = column_names(X[0])
    parts = [_rows(part, f"group {at} of X", columns) for at, part in enumerate(X)]
    for at, part in enumerate(parts):
        if part.shape[1] != parts[0].shape[1]:
            raise InputError(
                f"group {at} of X has {counted(part.shape[1], 'column')}, and group 0 "
                f"{parts[0].shape[1]}"
            )
    return Groups(
        np.concatenate(parts),
        np.array([len(part) for part in parts]),
        tuple(range(len(parts))),
        columns or tuple(default_names(parts[0].shape[1])),
    )


def _rows(given: Any, name: str, columns: Sequence[str] | None) -> np.ndarray:
    """Rows (n, D) of finite numbers, n at least 1."""
    array = plain_array(given, name)
    array = array[:, np.newaxis] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size:
        raise InputError(f"{name} has shape {array.shape}, where rows (n, D) are needed")
    if array.dtype.kind not in "iuf":
        array = from_objects(array, name, lambda at: f"column {columns[at] if columns else at + 1}")
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        where = repr(columns[column]) if columns else column + 1
        raise InputError(f"{name} has a missing or infinite value in row {row + 1}, column {where}")
    return values


def as_targets(y: Any, groups: Groups, of_rows: Any = None) -> np.ndarray:
    """Take one number for each group, (G,).

    Args:
        y: (G,) in the order of the groups; a mapping or pandas Series by their labels; or (N,), a
            number for each row that is the same within a group, in the order of ``of_rows``.
        groups: the groups.
        of_rows: labels of the rows as they were given, where they have labels.

    Raises:
        InputError: they are not as many, differ within a group, or are no finite numbers.
    """
    if isinstance(y, Mapping):
        if missing := [label for label in groups.labels if label not in y]:
            raise InputError(f"y has no value for group {missing[0]!r}")
        y = [y[label] for label in groups.labels]
    elif of_rows is not None and _has_labels(y, groups):
        y = y.loc[list(groups.labels)]
    values = np.asarray(plain_array(y, "y"), dtype=float)
    count, rows = len(groups.labels), len(groups.rows)
    if values.shape == (rows,) != (count,) and of_rows is not None:
        values = _constant(values, groups, np.asarray(of_rows))
    if values.shape != (count,):
        raise InputError(f"y has shape {values.shape}, and there are {counted(count, 'group')}")
    if not np.isfinite(values).all():
        label = groups.labels[int(np.argmin(np.isfinite(values)))]
        raise InputError(f"y of group {label!r} is missing or infinite")
    return values


def _has_labels(y: Any, groups: Groups) -> bool:
    """Whether y is a pandas Series by the labels of the groups."""
    if not (hasattr(y, "index") and hasattr(y, "loc")):
        return False
    return len(y) == len(groups.labels) and set(y.index) >= set(groups.labels)


def _constant(values: np.ndarray, groups: Groups, of_rows: np.ndarray) -> np.ndarray:
    """Each group's value of y, which all of its rows have."""
    found = np.empty(len(groups.labels))
    for at, label in enumerate(groups.labels):
        of_group = values[of_rows == label]
        if not (of_group == of_group[0]).all():
            raise InputError(f"y differs between rows of group {label!r}")
        found[at] = of_group[0]
    return found
