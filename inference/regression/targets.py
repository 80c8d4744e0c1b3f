"""One number for every group, however it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..data.arrays import from_objects, plain_array
from ..data.checks import counted
from .groups import Groups


def as_targets(y: Any, groups: Groups) -> np.ndarray:
    """Take one number for each group, (G,).

    Args:
        y: (G,) in the order of the groups; a mapping or pandas Series by their labels; or (N,), a
            number for each row as rows were given with labels, that is the same within a group.
        groups: the groups.

    Raises:
        InputError: they are not as many, differ within a group, or are no finite numbers.
    """
    values = _numbers(_by_label(y, groups))
    count, rows = len(groups.labels), len(groups.rows)
    if values.shape == (rows,) != (count,) and groups.order is not None:
        values = _constant(values[groups.order], groups)
    if values.shape != (count,):
        raise InputError(f"y has shape {values.shape}, and there are {counted(count, 'group')}")
    if not np.isfinite(values).all():
        label = groups.labels[int(np.argmin(np.isfinite(values)))]
        raise InputError(f"y of group {label!r} is missing or infinite")
    return values


def _by_label(y: Any, groups: Groups) -> Any:
    """Values in the order of the groups where y has labels, and else y."""
    advice = ""
    if not isinstance(y, Mapping):
        if not (groups.labelled and hasattr(y, "loc") and np.ndim(y) == 1):
            return y
        of_rows = groups.order is not None and len(y) == len(groups.rows) != len(groups.labels)
        if of_rows or not set(y.index) & set(groups.labels):
            return y
        if not y.index.is_unique:
            raise InputError(f"y has label {y.index[y.index.duplicated()][0]!r} twice")
        y, advice = y.to_dict(), ": give y.to_numpy() if it is in their order"
    if missing := [label for label in groups.labels if label not in y]:
        raise InputError(f"y has no value for group {missing[0]!r}{advice}")
    return [y[label] for label in groups.labels]


def _numbers(y: Any) -> np.ndarray:
    if isinstance(y, str):
        raise InputError(
            f"y is the text {y!r}, where numbers are needed: of a data frame's column give X[{y!r}]"
        )
    array = plain_array(y, "y")
    if array.ndim == 1 and array.dtype.kind not in "iufb":
        array = from_objects(array[:, np.newaxis], "y", lambda _: "its only column")[:, 0]
    return np.asarray(array, dtype=float)


def _constant(values: np.ndarray, groups: Groups) -> np.ndarray:
    """Each group's value, which all of its rows (N,), beside each other, have."""
    low, high = (one.reduceat(values, groups.starts) for one in (np.minimum, np.maximum))
    if (differ := low < high).any():
        raise InputError(f"y differs between rows of group {groups.labels[np.argmax(differ)]!r}")
    return np.asarray(low)
