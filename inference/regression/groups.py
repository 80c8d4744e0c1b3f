"""Groups of rows, however they are given, as one array with its groups beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from bke.models import SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.linalg.seeding import spread_seeds

from ..core.errors import InputError, nearest
from ..data.arrays import from_objects, plain_array
from ..data.canonical import canonical_order, random_part
from ..data.checks import column_names, counted
from ..learning.bandwidths import pairwise_distances


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

    if name not in (column_names(X) or ()):
        raise InputError(f"X has no column {name!r}{nearest(name, column_names(X) or ())}")
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
    if columns is not None and own is not None and own != tuple(columns):
        if sorted(own) != sorted(columns) or len(set(own)) < len(own):
            raise InputError(
                f"{name} has the columns {', '.join(own)}, where {', '.join(columns)} are needed"
            )
        array = array[:, [own.index(column) for column in columns]]
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


#: Lengthscales of the default kernel, as shares of the median distance.
SCALES = (0.5, 1.0, 2.0)
#: Rows among which landmarks are chosen, and rows whose features are held at a time.
MOST_ROWS, BLOCK = 4000, 32_768
#: Rows to which fewer are filled up.
FEWEST = 64


class Features(NamedTuple):
    """Kernels at landmarks, of columns over their deviations; and by default the columns.

    Attributes:
        centre: (D,), means of the columns.
        unit: (D,), what they are divided by.
        landmarks: (L, D), in these units.
        kernels: of these units.
        linear: whether the columns themselves are features.
    """

    centre: np.ndarray
    unit: np.ndarray
    landmarks: np.ndarray
    kernels: tuple[Kernel, ...]
    linear: bool

    @classmethod
    def of(cls, groups: Groups, kernel: Kernel | None, landmarks: int, seed: int) -> Features:
        """Choose landmarks, and a kernel's lengthscales where none is given, by all rows.

        What is given is a kernel of the data's own units.
        """
        rows = random_part(groups.rows[canonical_order(groups.rows)], MOST_ROWS, seed)
        centre, unit = rows.mean(axis=0), rows.std(axis=0)
        unit = np.where(unit > 0.0, unit, 1.0)
        if kernel is not None:
            centre, unit = np.zeros_like(centre), np.ones_like(unit)
        scaled = (rows - centre) / unit
        spread = scaled / np.where(scaled.std(axis=0) > 0.0, scaled.std(axis=0), 1.0)
        chosen = spread_seeds(spread, landmarks, np.random.default_rng([seed, 37]))
        if kernel is not None:
            return cls(centre, unit, scaled[chosen], (kernel,), linear=False)
        distances = pairwise_distances(scaled, seed)
        median = float(np.median(distances)) if len(distances) else 1.0
        kernels = tuple(SquaredExponential(share * median) for share in SCALES)
        return cls(centre, unit, scaled[chosen], kernels, linear=True)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The features (n, m) of rows (n, D)."""
        scaled = (rows - self.centre) / self.unit
        # Few different numbers of rows: for each, a kernel's program is compiled.
        size = max(FEWEST, 2 ** math.ceil(math.log2(len(scaled))))
        padded = np.pad(scaled, ((0, size - len(scaled)), (0, 0)))
        parts = [scaled] if self.linear else []
        for kernel in self.kernels:
            parts.append(np.asarray(kernel(padded, self.landmarks))[: len(scaled)])
        return np.concatenate(parts, axis=1)


class Means(NamedTuple):
    """What groups are by their features.

    Attributes:
        values: (G, m), means.
        counts: (G,), of rows.
        variances: (m,), eigenvalues of the covariance of features within groups, pooled.
        directions: (m, m), its eigenvectors, a column each.
        freedom: its degrees of freedom: rows less groups.
    """

    values: np.ndarray
    counts: np.ndarray
    variances: np.ndarray
    directions: np.ndarray
    freedom: int

    def of(self, some: np.ndarray) -> Means:
        """Take some groups, with the covariance within all."""
        return self._replace(values=self.values[some], counts=self.counts[some])


def means_of(groups: Groups, features: Features) -> Means:
    """Mean features of every group, and their covariance within, in blocks of rows."""
    count = features.at(groups.rows[:1]).shape[1]
    values, squares = np.empty((len(groups.counts), count)), np.zeros((count, count))
    for some in _blocks(groups.counts):
        counts = groups.counts[some]
        start = int(groups.counts[: some.start].sum())
        rows = groups.rows[start : start + int(counts.sum())]
        if len(rows) > BLOCK:  # one group
            parts = range(0, len(rows), BLOCK)
            each = [features.at(rows[at : at + BLOCK]).sum(axis=0) for at in parts]
            values[some] = np.sum(each, axis=0) / len(rows)
            for at in parts:
                apart = features.at(rows[at : at + BLOCK]) - values[some]
                squares += apart.T @ apart
            continue
        apart = features.at(rows)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        values[some] = np.add.reduceat(apart, starts, axis=0) / counts[:, np.newaxis]
        apart -= np.repeat(values[some], counts, axis=0)
        squares += apart.T @ apart
    freedom = int(groups.counts.sum() - len(groups.counts))
    return Means(values, groups.counts, *np.linalg.eigh(squares / max(freedom, 1)), freedom)


def _blocks(counts: np.ndarray) -> Iterator[slice]:
    """Groups whose rows are about as many as a block."""
    start, ends = 0, np.cumsum(counts)
    while start < len(counts):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + BLOCK, side="right")), start + 1)
        yield slice(start, end)
        start = end


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
