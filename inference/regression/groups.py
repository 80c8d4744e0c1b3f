"""Groups of rows, however they are given, as one array with its groups beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError, nearest
from ..data.arrays import from_objects, plain_array
from ..data.checks import column_names, counted
from ..data.new_rows import column_order
from ..data.unicode import normalize_text


class Groups(NamedTuple):
    """Rows of G groups.

    Attributes:
        rows: (N, D), those of a group beside each other.
        counts: (G,), rows of each.
        labels: (G,), what they are called.
        columns: names of the D columns, where they have names.
        order: (N,), where each row was among the rows as they were given with labels.
        labelled: whether the labels are the user's.
    """

    rows: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    columns: tuple[str, ...] | None
    order: np.ndarray | None = None
    labelled: bool = True

    @property
    def starts(self) -> np.ndarray:
        """The first row of each group, (G,)."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])


def as_groups(X: Any, groups: Any = None, columns: Sequence[str] | None = None) -> Groups:
    """Take groups of rows.

    Args:
        X: a sequence of groups, each (n, D), (n,) or a data frame, or a mapping to them by labels;
            or one array (N, D) or data frame with ``groups``.
        groups: (N,), the label of each row's group, or the name of a column of ``X``; groups come
            in the order of their first rows.
        columns: the names that columns of data frames must have, in whatever order; by default
            those of the first.

    Raises:
        InputError: one sentence that names the group, and the row and column.
    """
    columns = None if columns is None else [normalize_text(name) for name in columns]
    if groups is None:
        return _of_sequence(X, columns)
    if isinstance(groups, str):
        X, groups = _without(X, groups)
    columns = columns or column_names(X)
    rows = _rows(X, "X", columns)
    if np.shape(groups) != (len(rows),):
        raise InputError(f"groups has shape {np.shape(groups)}, and X {counted(len(rows), 'row')}")
    places: dict[Any, int] = {}
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    place = np.array([places.setdefault(label, len(places)) for label in values])
    if any(_is_missing(label) for label in places):
        raise InputError("groups has a missing label")
    order = np.argsort(place, kind="stable")
    named = tuple(columns) if columns else None
    return Groups(rows[order], np.bincount(place), tuple(places), named, order)


def _without(X: Any, name: str) -> tuple[Any, Any]:
    """A data frame without a column, and that column."""
    import narwhals.stable.v1 as nw

    known, name = column_names(X) or (), normalize_text(name)
    if name not in known:
        raise InputError(f"X has no column {name!r}{nearest(name, known)}")
    name = X.columns[known.index(name)]
    return nw.from_native(X, eager_only=True).drop(name).to_native(), X[name]


def _is_missing(label: Any) -> bool:
    return label is None or (not isinstance(label, str) and str(label) in ("nan", "NaT", "<NA>"))


def _of_sequence(X: Any, columns: Sequence[str] | None) -> Groups:
    labelled = isinstance(X, Mapping)
    labels, X = (tuple(X), list(X.values())) if labelled else ((), X)
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__") or column_names(X):
        raise InputError("X must be a sequence of groups of rows, or rows with groups=")
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim < 3:
        raise InputError(
            f"X has {X.ndim} dimensions: give a sequence of groups of rows, or rows with groups="
        )
    given = list(X)
    if not given:
        raise InputError("X has no groups")
    labels = labels or tuple(range(len(given)))
    columns = columns or column_names(given[0])
    parts = [
        _rows(part, f"X[{label!r}]", columns) for label, part in zip(labels, given, strict=True)
    ]
    for label, part in zip(labels, parts, strict=True):
        if part.shape[1] != parts[0].shape[1]:
            raise InputError(
                f"X[{label!r}] has {counted(part.shape[1], 'column')}, and X[{labels[0]!r}] "
                f"{parts[0].shape[1]}"
            )
    counts = np.array([len(part) for part in parts])
    named = tuple(columns) if columns else None
    return Groups(np.concatenate(parts), counts, labels, named, labelled=labelled)


def _rows(given: Any, name: str, columns: Sequence[str] | None) -> np.ndarray:
    """Rows (n, D) of finite numbers, n at least 1, with columns in the order of their names."""
    array = plain_array(given, name)
    array = array[:, np.newaxis] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size:
        raise InputError(f"{name} has shape {array.shape}, where rows (n, D) are needed")
    own = column_names(given)
    order = column_order(own, columns, name)
    if order is not None:
        array = array[:, order]
    if array.dtype.kind not in "iuf":
        array = from_objects(array, name, lambda at: f"column {columns[at] if columns else at + 1}")
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        where = repr(columns[column]) if columns else column + 1
        raise InputError(
            f"{name} has a missing or infinite value in row {row + 1}, column {where} (counted "
            "from 1)"
        )
    return values
