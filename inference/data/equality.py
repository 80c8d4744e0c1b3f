"""Equality of numbers that were stored in different types, or computed in different ways.

Permutation tests see every difference between two numbers, however small, where values are tied:
0.3 in single precision, 0.3 in double precision and 0.1 + 0.2 would be three values, each of which
may occur in one sample alone. Two rules make them one.

1. A column is compared at the precision of its narrowest floating-point type: where one sample is
   in single precision, the other is rounded to single precision. So 0.1 is equal to
   ``np.float32(0.1)``, and 16777217 to ``np.float32(16777217)``, which is 16777216. The shortest
   decimal representation of the narrower value would not do: of 0.123456789 it is 0.12345679 in
   single precision.
2. Values within a few units in the last place of double precision are one value, if all others are
   farther away; see :func:`merge_rounding`. Values that were stored in a narrower type are not
   merged by its precision: neighbors there may be the steps of a measurement.

Both treat the pooled rows alike, so that permutation tests stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

#: Bytes of a number in double precision, and of the narrower types by their names in NumPy, pandas,
#: Polars and Arrow (where single precision is "float").
DOUBLE = 8
NARROWER = (
    (2, re.compile(r"float16|halffloat", re.IGNORECASE)),
    (4, re.compile(r"float32|^float(\[pyarrow\])?$", re.IGNORECASE)),
)
#: Values are merged up to this many times the relative precision apart, and only if they are so
#: much farther from all others. A sum of a few terms is off by less than 16; not tuned.
MERGED, SEPARATE = 16.0, 64.0


def stored_sizes(X: Any, dimension: int) -> np.ndarray:
    """Return how many bytes the floating-point numbers of each column take where they are stored.

    Args:
        X: an array, a data frame or a column of one, or anything that NumPy makes an array of.
        dimension: D.

    Returns:
        (D,) of 2, 4 and 8; whole numbers, decimals and Python's numbers count for 8.
    """
    types = getattr(getattr(X, "schema", None), "types", None)  # of an Arrow table
    if types is None:
        types = getattr(X, "dtypes", None)  # of a data frame; of a pandas Series it is its own
    if types is None or np.ndim(types) == 0 or len(types) != dimension:
        one = getattr(X, "dtype", None)
        if one is None and isinstance(X, (list, tuple)):
            one = np.result_type(*_types_within(X)) if _types_within(X) else None
        types = [one] * dimension
    return np.array([stored_size(one) for one in types])


def stored_size(of: Any) -> int:
    """Return how many bytes a floating-point number takes of a type of any library, by its name."""
    name = getattr(of, "name", None) or str(of)
    return next((size for size, pattern in NARROWER if pattern.search(str(name))), DOUBLE)


def _types_within(X: Sequence[Any]) -> list[np.dtype[Any]]:
    """Return the types of the arrays or NumPy numbers that a sequence consists of, if all have."""
    found = [getattr(one, "dtype", None) for one in X]
    return [] if any(not isinstance(one, np.dtype) for one in found) else list(set(found))  # type: ignore[arg-type]


def round_to(values: np.ndarray, size: int) -> np.ndarray:
    """Round float64 values to what a type of ``size`` bytes holds; beyond its range they stay."""
    if size >= DOUBLE:
        return values
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(f"f{size}").astype(np.float64)
    return np.where(np.isinf(rounded), values, rounded)


def merge_rounding(values: np.ndarray) -> np.ndarray:
    """Give values that differ by rounding alone one value, the smallest of them.

    Values are merged that are within :data:`MERGED` times the precision of each other, relative to
    their own magnitude or the column's (the median of absolute values, zeros left out), and more
    than :data:`SEPARATE` times from all others, if each of them is there twice on average. Numbers
    without ties that come so close by chance, or go on at such steps, are measured and stay, and so
    do whole numbers, which are exact.

    Args:
        values: (n,), of all rows that are compared; NaN where there is none.

    Returns:
        (n,); the same array where nothing is merged.
    """
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered) or not ordered[0] < ordered[-1]:
        return values
    steps = np.diff(ordered)
    unit = np.finfo(np.float64).eps * np.maximum(
        np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1])), magnitude(ordered)
    )
    near = steps <= SEPARATE * unit
    if not (near & (steps > 0.0)).any() or _are_exact(ordered):
        return values
    first = np.flatnonzero(np.append(True, ~near))
    last = np.append(first[1:], len(ordered)) - 1
    distinct = np.add.reduceat(np.append(1, steps > 0.0), first)
    merged = ordered[last] - ordered[first] <= MERGED * np.append(0.0, unit)[last]
    merged &= (distinct > 1) & (last - first + 1 >= 2 * distinct)
    if not merged.any():
        return values
    low, high = ordered[first[merged]], ordered[last[merged]]
    group = np.searchsorted(low, values, side="right") - 1  # NaN is beyond the last
    inside = (group >= 0) & (values <= high[group])
    return np.where(inside, low[group], values)


def magnitude(values: np.ndarray) -> float:
    """Return the median of absolute values, those that are zero or missing left out."""
    sizes = np.abs(values)
    sizes = sizes[sizes > 0.0]
    return float(np.median(sizes)) if len(sizes) else 0.0


def _are_exact(values: np.ndarray) -> bool:
    """Return whether all values are whole numbers, which are exact."""
    return bool((values == np.rint(values)).all())


def equalize(
    samples: Sequence[np.ndarray], sizes: Sequence[ArrayLike] | None = None
) -> list[np.ndarray]:
    """Give equal values of several samples one value; see the module's two rules.

    Args:
        samples: (n_i, D) each, of float64.
        sizes: (D,) each, the bytes in which columns were stored; by default double precision.

    Returns:
        The samples, copied where a value changes.
    """
    dimension = samples[0].shape[1]
    narrowest = np.full(dimension, DOUBLE) if sizes is None else np.min(np.array(sizes), axis=0)
    ends = np.cumsum([len(sample) for sample in samples])[:-1]
    found = list(samples)
    for column, size in enumerate(narrowest):
        pooled = np.concatenate([sample[:, column] for sample in samples])
        merged = round_to(merge_rounding(pooled), int(size))
        if merged is pooled or np.array_equal(merged, pooled, equal_nan=True):
            continue
        for index, part in enumerate(np.split(merged, ends)):
            if found[index] is samples[index]:
                found[index] = samples[index].copy()
            found[index][:, column] = part
    return found


def snap(values: np.ndarray, known: np.ndarray, size: int = DOUBLE) -> np.ndarray:
    """Replace values by the nearest of known ones from which they differ by rounding alone.

    Args:
        values: (n,), NaN where there is none.
        known: (k,) ascending.
        size: bytes of the narrower type of both.
    """
    if not len(known):
        return values
    rounded, targets = round_to(known, size), round_to(values, size)
    above = np.searchsorted(rounded, targets).clip(max=len(known) - 1)
    below = (above - 1).clip(min=0)
    closer = np.abs(targets - rounded[below]) < np.abs(targets - rounded[above])
    index = np.where(closer, below, above)
    unit = np.finfo(np.float64).eps * np.maximum(np.abs(rounded[index]), magnitude(rounded))
    return np.where(np.abs(targets - rounded[index]) <= MERGED * unit, known[index], values)


def positive_distances(distances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distances that are more than rounding of the coordinates; or those above zero.

    Args:
        distances: (k,), between some of the points.
        points: (n, D).
    """
    rounding = SEPARATE * np.finfo(np.float64).eps * magnitude(points)
    found = distances[distances > rounding]
    return found if len(found) else distances[distances > 0.0]
