"""Groups of rows, their targets, and their mean embeddings at landmarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from bke.models import SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.linalg.clustering import column_scale, kmeans_plusplus

from ..core.errors import InputError, nearest
from ..data.canonical import canonical_order, random_part
from ..data.checks import (
    check_same_rows,
    column_names,
    convert_objects,
    first_invalid_value,
    normalize_text,
    plain_array,
    pluralize,
)
from ..data.new_rows import ordered_rows
from ..learning.bandwidths import pairwise_distances


class GroupedRows(NamedTuple):
    """Rows of G groups.

    Attributes:
        rows: (N, D), sorted by group.
        counts: (G,), rows of each group.
        labels: (G,), labels of the groups.
        columns: names of the D columns, where they have names.
        order: (N,), the index of each row in the user's rows, where these came with labels.
        has_labels: whether the labels are the user's.
    """

    rows: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    columns: tuple[str, ...] | None
    order: np.ndarray | None = None
    has_labels: bool = True

    @property
    def starts(self) -> np.ndarray:
        """The first row of each group, (G,)."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]])


def as_groups(X: Any, groups: Any = None, columns: Sequence[str] | None = None) -> GroupedRows:
    """Convert the user's groups of rows to one array.

    Args:
        X: a sequence of groups, each (n, D), (n,) or a data frame, or a mapping to them by labels;
            or one array (N, D) or data frame with ``groups``.
        groups: (N,), the label of each row's group, or the name of a column of ``X``; groups are
            ordered by their first rows.
        columns: the names that columns of data frames must have, in any order; by default those of
            the first.

    Raises:
        InputError: for invalid groups; the message names the group, and the row and column.
    """
    columns = None if columns is None else [normalize_text(name) for name in columns]
    if groups is None:
        return _from_sequence(X, columns)
    if isinstance(groups, str):
        import narwhals.stable.v1 as nw

        known, name = column_names(X) or (), normalize_text(groups)
        if name not in known:
            raise InputError(f"X has no column {name!r}{nearest(name, known)}")
        label = X.columns[known.index(name)]
        X, groups = nw.from_native(X, eager_only=True).drop(label).to_native(), X[label]
    columns = columns or column_names(X)
    rows = _rows(X, "X", columns)
    if np.shape(groups) != (len(rows),):
        raise InputError(
            f"groups has shape {np.shape(groups)}, and X {pluralize(len(rows), 'row')}"
        )
    check_same_rows(X=X, groups=groups)
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    indices: dict[Any, int] = {}
    group = np.array([indices.setdefault(label, len(indices)) for label in values])
    for label in indices:
        if label is None or (not isinstance(label, str) and str(label) in ("nan", "NaT", "<NA>")):
            raise InputError("groups has a missing label")
    order = np.argsort(group, kind="stable")
    names = tuple(columns) if columns else None
    return GroupedRows(rows[order], np.bincount(group), tuple(indices), names, order)


def _from_sequence(X: Any, columns: Sequence[str] | None) -> GroupedRows:
    has_labels = isinstance(X, Mapping)
    labels, X = (tuple(X), list(X.values())) if has_labels else ((), X)
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__") or column_names(X):
        raise InputError("X must be a sequence of groups of rows, or rows with groups=")
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim < 3:
        raise InputError(
            f"X has {X.ndim} dimensions: pass a sequence of groups of rows, or rows with groups="
        )
    samples = list(X)
    if not samples:
        raise InputError("X has no groups")
    labels = labels or tuple(range(len(samples)))
    columns = columns or column_names(samples[0])
    parts: list[np.ndarray] = []
    for label, sample in zip(labels, samples, strict=True):
        part = _rows(sample, f"X[{label!r}]", columns)
        if parts and part.shape[1] != parts[0].shape[1]:
            raise InputError(
                f"X[{label!r}] has {pluralize(part.shape[1], 'column')}, and X[{labels[0]!r}] "
                f"{parts[0].shape[1]}"
            )
        parts.append(part)
    counts = np.array([len(part) for part in parts])
    names = tuple(columns) if columns else None
    return GroupedRows(np.concatenate(parts), counts, labels, names, has_labels=has_labels)


def _rows(X: Any, name: str, columns: Sequence[str] | None) -> np.ndarray:
    """Rows (n, D) of finite numbers, n at least 1, with columns in the order of their names."""
    values = ordered_rows(X, columns, name)
    values = values[:, np.newaxis] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise InputError(f"{name} has shape {values.shape}, where rows (n, D) are needed")
    if fault := first_invalid_value(values):
        row, column, description = fault
        where = repr(columns[column]) if columns else column + 1
        raise InputError(
            f"{name} has {description} in row {row + 1}, column {where} (counted from 1)"
        )
    return values


def as_targets(y: Any, groups: GroupedRows) -> np.ndarray:
    """Convert the user's targets to one number for each group, (G,).

    Args:
        y: (G,) in the order of the groups; a mapping or pandas Series by their labels; or (N,), a
            number for each of the user's rows with labels, constant within a group.
        groups: the groups.

    Raises:
        InputError: their number is wrong, they differ within a group, or are not finite numbers.
    """
    if isinstance(y, str):
        raise InputError(
            f"y is the text {y!r}, where numbers are needed: pass X[{y!r}] for a column of X"
        )
    array = plain_array(_by_label(y, groups), "y")
    if array.ndim == 1 and array.dtype.kind not in "iufb":
        array = convert_objects(array[:, np.newaxis], "y", lambda _: "its only column")[:, 0]
    values = np.asarray(array, dtype=float)
    count, rows = len(groups.labels), len(groups.rows)
    if values.shape == (rows,) != (count,) and groups.order is not None:
        values = values[groups.order]
        low = np.minimum.reduceat(values, groups.starts)
        differs = low < np.maximum.reduceat(values, groups.starts)
        if differs.any():
            label = groups.labels[np.argmax(differs)]
            raise InputError(f"y differs between rows of group {label!r}")
        values = low
    if values.shape != (count,):
        raise InputError(f"y has shape {values.shape}, and there are {pluralize(count, 'group')}")
    if not np.isfinite(values).all():
        label = groups.labels[int(np.argmin(np.isfinite(values)))]
        raise InputError(f"y of group {label!r} is missing or infinite")
    return values


def as_classes(y: Any, groups: GroupedRows) -> Any:
    """Convert the user's classes, as for :func:`as_targets`, to one for each group, (G,).

    Raises:
        InputError: their number is wrong, or they differ within a group.
    """
    values = np.asarray(_by_label(y, groups))
    count, rows = len(groups.labels), len(groups.rows)
    if values.shape[:1] == (rows,) != (count,) and groups.order is not None:
        values = values[groups.order]
        first = values[groups.starts]
        differs = values != np.repeat(first, groups.counts)
        if differs.any():
            label = groups.labels[int(np.repeat(np.arange(count), groups.counts)[differs][0])]
            raise InputError(f"y differs between rows of group {label!r}")
        return first
    if values.shape[:1] != (count,):
        raise InputError(f"y has shape {values.shape}, and there are {pluralize(count, 'group')}")
    return values


def _by_label(y: Any, groups: GroupedRows) -> Any:
    """Return the values of a mapping or Series in the order of the groups; other targets as is."""
    advice = ""
    if not isinstance(y, Mapping):
        if not (groups.has_labels and hasattr(y, "loc") and np.ndim(y) == 1):
            return y
        by_row = groups.order is not None and len(y) == len(groups.rows) != len(groups.labels)
        if by_row or not set(y.index) & set(groups.labels):
            return y
        if not y.index.is_unique:
            raise InputError(f"y has label {y.index[y.index.duplicated()][0]!r} twice")
        y, advice = y.to_dict(), ": pass y.to_numpy() if it is in their order"
    if missing := [label for label in groups.labels if label not in y]:
        raise InputError(f"y has no value for group {missing[0]!r}{advice}")
    return [y[label] for label in groups.labels]


class LandmarkFeatures(NamedTuple):
    """Kernel values at landmarks, and by default the standardized columns.

    Attributes:
        center: (D,), subtracted from the columns.
        scale: (D,), by which they are divided.
        landmarks: (L, D), of standardized columns.
        kernels: of standardized columns.
        linear: if true, the columns are features, too.
    """

    center: np.ndarray
    scale: np.ndarray
    landmarks: np.ndarray
    kernels: tuple[Kernel, ...]
    linear: bool

    @classmethod
    def choose(
        cls,
        groups: GroupedRows,
        kernel: Kernel | None,
        landmarks: int,
        seed: int,
        *,
        max_rows: int = 4000,
        multiples: tuple[float, ...] = (0.5, 1.0, 2.0),
    ) -> LandmarkFeatures:
        """Choose landmarks among the rows, and lengthscales by the median heuristic.

        Args:
            groups: the groups.
            kernel: in the units of the data; ``None`` for squared exponentials and the columns.
            landmarks: their number.
            seed: seed of the subsample and of the landmarks.
            max_rows: size of the subsample among which landmarks are chosen; not tuned.
            multiples: lengthscales of the default kernels over the median distance; not tuned.
        """
        rows = random_part(groups.rows[canonical_order(groups.rows)], max_rows, seed)
        center, scale = rows.mean(axis=0), column_scale(rows)
        if kernel is not None:
            center, scale = np.zeros_like(center), np.ones_like(scale)
        scaled = (rows - center) / scale
        rng = np.random.default_rng([seed, 37])
        indices = kmeans_plusplus(scaled / column_scale(scaled), landmarks, rng)
        if kernel is not None:
            return cls(center, scale, scaled[indices], (kernel,), linear=False)
        distances = pairwise_distances(scaled, seed)
        median = float(np.median(distances)) if len(distances) else 1.0
        kernels = tuple(SquaredExponential(multiple * median) for multiple in multiples)
        return cls(center, scale, scaled[indices], kernels, linear=True)

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the features (n, m) of rows (n, D)."""
        scaled = (rows - self.center) / self.scale
        padded = pad_rows(scaled)
        features = [scaled] if self.linear else []
        for kernel in self.kernels:
            features.append(np.asarray(kernel(padded, self.landmarks))[: len(scaled)])
        return np.concatenate(features, axis=1)


def pad_rows(rows: np.ndarray) -> np.ndarray:
    """Append zeros to rows (n, D) up to a power of two, of at least 64 rows.

    Each number of rows compiles a program of the kernel.
    """
    size = max(64, 2 ** math.ceil(math.log2(len(rows))))
    return np.pad(rows, ((0, size - len(rows)), (0, 0)))


class GroupMeans(NamedTuple):
    """Empirical mean embeddings of the groups at landmarks, and the within-group covariance.

    Attributes:
        values: (G, m), mean features.
        counts: (G,), rows of each group.
        variances: (m,), eigenvalues of the pooled covariance of features within groups.
        directions: (m, m), its eigenvectors, in columns.
        degrees_of_freedom: rows less groups.
    """

    values: np.ndarray
    counts: np.ndarray
    variances: np.ndarray
    directions: np.ndarray
    degrees_of_freedom: int

    def take(self, groups: np.ndarray) -> GroupMeans:
        """Select groups by index or mask, and keep the covariance within all groups."""
        return self._replace(values=self.values[groups], counts=self.counts[groups])


def group_means(
    groups: GroupedRows, features: LandmarkFeatures, *, block: int = 32_768
) -> GroupMeans:
    """Return the mean features of every group and their pooled covariance within groups.

    At most ``block`` rows (not tuned) have their features in memory at a time.
    """
    counts, ends = groups.counts, np.cumsum(groups.counts)
    size = features.transform(groups.rows[:1]).shape[1]
    values, scatter = np.empty((len(counts), size)), np.zeros((size, size))
    start = 0
    while start < len(counts):
        first = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, first + block, side="right")), start + 1)
        rows = groups.rows[first : ends[stop - 1]]
        part = slice(start, stop)
        if len(rows) > block:  # a single group
            blocks = [rows[at : at + block] for at in range(0, len(rows), block)]
            totals = [features.transform(rows_of_block).sum(axis=0) for rows_of_block in blocks]
            values[part] = np.sum(totals, axis=0) / len(rows)
            for rows_of_block in blocks:
                centered = features.transform(rows_of_block) - values[part]
                scatter += centered.T @ centered
        else:
            centered = features.transform(rows)
            sums = np.add.reduceat(centered, ends[part] - counts[part] - first, axis=0)
            values[part] = sums / counts[part, np.newaxis]
            centered -= np.repeat(values[part], counts[part], axis=0)
            scatter += centered.T @ centered
        start = stop
    degrees_of_freedom = int(counts.sum() - len(counts))
    variances, directions = np.linalg.eigh(scatter / max(degrees_of_freedom, 1))
    return GroupMeans(values, counts, variances, directions, degrees_of_freedom)
