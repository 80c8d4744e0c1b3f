"""Equality of numbers that were stored in different types, or computed in different ways.

Permutation tests use every difference between two numbers, however small. The numbers 0.3 in single
precision, 0.3 in double precision and 0.1 + 0.2 would be three values, and each of them might occur
in one sample only. Two rules make them equal.

1. A column is compared at the precision of its narrowest floating-point type. If one sample is in
   single precision, the other is rounded to single precision. So 0.1 equals ``np.float32(0.1)``,
   and 16777217 equals ``np.float32(16777217)``, which is 16777216. The shortest decimal
   representation of the narrower value would not be enough: 0.123456789 is 0.12345679 in single
   precision.
2. Values within a few units in the last place of double precision are merged if all other values
   are farther away and each occurs twice on average; see :func:`merge_rounding`. Values stored in a
   narrower type are not merged at its precision, because neighbors there may be consecutive values
   of a measurement.

Both rules treat the pooled rows equally, so permutation tests stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Bytes of a number in double precision.
DOUBLE = 8
#: Bytes of the narrower types, with patterns for their names in NumPy, pandas, Polars and Arrow,
#: where single precision is "float".
NARROWER = (
    (2, re.compile(r"float16|halffloat", re.IGNORECASE)),
    (4, re.compile(r"float32|^float(\[pyarrow\])?$", re.IGNORECASE)),
)
#: Largest number of decimals that are counted.
MAX_DECIMALS = 12
#: Largest difference of merged values, and smallest difference from all other values, as multiples
#: of the precision, which is relative. Sums of a few terms have errors below 16. Not tuned.
MERGE_TOLERANCE, MIN_SEPARATION = 16.0, 64.0


def stored_sizes(X: Any, dimension: int) -> np.ndarray:
    """Return the storage size in bytes of the floating-point numbers of each column.

    Args:
        X: an array, a data frame, a column of a data frame, or any array-like object.
        dimension: D.

    Returns:
        (D,) sizes 2, 4 or 8; 8 for integers, decimals and numbers of Python.
    """
    types = getattr(getattr(X, "schema", None), "types", None)  # Arrow table
    if types is None:
        types = getattr(X, "dtypes", None)  # data frame; a pandas Series has a single type here
    if types is None or np.ndim(types) == 0 or len(types) != dimension:
        dtype = getattr(X, "dtype", None)
        if dtype is None and isinstance(X, (list, tuple)):
            dtypes = _element_types(X)
            dtype = np.result_type(*dtypes) if dtypes else None
        types = [dtype] * dimension
    return np.array([stored_size(dtype) for dtype in types])


def stored_size(dtype: Any) -> int:
    """Return the size in bytes of a floating-point type of any library, from its name."""
    name = getattr(dtype, "name", None) or str(dtype)
    return next((size for size, pattern in NARROWER if pattern.search(str(name))), DOUBLE)


def _element_types(X: Sequence[Any]) -> list[np.dtype[Any]]:
    """Return the types of a sequence of arrays or NumPy numbers, or ``[]`` for other elements."""
    types = [getattr(element, "dtype", None) for element in X]
    return [] if any(not isinstance(dtype, np.dtype) for dtype in types) else list(set(types))  # type: ignore[arg-type]


def round_to(values: np.ndarray, size: int) -> np.ndarray:
    """Round float64 values to a type of ``size`` bytes; values beyond its range are unchanged."""
    if size >= DOUBLE:
        return values
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(f"f{size}").astype(np.float64)
    return np.where(np.isinf(rounded), values, rounded)


def merge_rounding(values: np.ndarray) -> np.ndarray:
    """Merge values that differ only by rounding into the smallest of them.

    A group of values is merged under three conditions:

    - They differ by at most :data:`MERGE_TOLERANCE` times the precision. This is the precision at
      their own magnitude or at that of the column (:func:`magnitude`), if that is larger.
    - They differ from all other values by more than :data:`MIN_SEPARATION` times the precision.
    - Each of them occurs at least twice on average.

    So measurements without ties are unchanged, even if they are this close or form a sequence with
    such steps. Integers are exact and unchanged, too.

    Args:
        values: (n,) values of all compared rows; NaN if missing.

    Returns:
        (n,); the same array if nothing is merged.
    """
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered) or not ordered[0] < ordered[-1]:
        return values
    steps = np.diff(ordered)
    unit = np.finfo(np.float64).eps * np.maximum(
        np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1])), magnitude(ordered)
    )
    near = steps <= MIN_SEPARATION * unit
    if not (near & (steps > 0.0)).any() or (ordered == np.rint(ordered)).all():
        return values
    first = np.flatnonzero(np.append(True, ~near))
    last = np.append(first[1:], len(ordered)) - 1
    distinct = np.add.reduceat(np.append(1, steps > 0.0), first)
    merged = ordered[last] - ordered[first] <= MERGE_TOLERANCE * np.append(0.0, unit)[last]
    merged &= (distinct > 1) & (last - first + 1 >= 2 * distinct)
    if not merged.any():
        return values
    low, high = ordered[first[merged]], ordered[last[merged]]
    group = np.searchsorted(low, values, side="right") - 1  # NaN sorts last
    inside = (group >= 0) & (values <= high[group])
    return np.where(inside, low[group], values)


def magnitude(values: np.ndarray) -> float:
    """Return the median of the absolute values that are neither zero nor missing."""
    sizes = np.abs(values)
    sizes = sizes[sizes > 0.0]
    return float(np.median(sizes)) if len(sizes) else 0.0


def equalize(
    samples: Sequence[np.ndarray], sizes: Sequence[ArrayLike] | None = None
) -> list[np.ndarray]:
    """Make equal values of several samples identical, by the two rules of this module.

    Args:
        samples: float64 arrays (n_i, D).
        sizes: for each sample, (D,) bytes in which its columns were stored. The default is double
            precision.

    Returns:
        The samples; a sample is copied if one of its values changes.
    """
    dimension = samples[0].shape[1]
    narrowest = np.full(dimension, DOUBLE) if sizes is None else np.min(np.array(sizes), axis=0)
    ends = np.cumsum([len(sample) for sample in samples])[:-1]
    equalized = list(samples)
    for column, size in enumerate(narrowest):
        pooled = np.concatenate([sample[:, column] for sample in samples])
        merged = round_to(merge_rounding(pooled), int(size))
        if merged is pooled or np.array_equal(merged, pooled, equal_nan=True):
            continue
        for index, part in enumerate(np.split(merged, ends)):
            if equalized[index] is samples[index]:
                equalized[index] = samples[index].copy()
            equalized[index][:, column] = part
    return equalized


def snap(values: np.ndarray, known: np.ndarray, size: int = DOUBLE) -> np.ndarray:
    """Replace each value by the nearest known value if the two differ by rounding only.

    Args:
        values: (n,); NaN if missing.
        known: (k,) ascending.
        size: bytes of the narrower of both types.

    Returns:
        (n,).
    """
    if not len(known):
        return values
    rounded, targets = round_to(known, size), round_to(values, size)
    above = np.searchsorted(rounded, targets).clip(max=len(known) - 1)
    below = (above - 1).clip(min=0)
    closer = np.abs(targets - rounded[below]) < np.abs(targets - rounded[above])
    index = np.where(closer, below, above)
    unit = np.finfo(np.float64).eps * np.maximum(np.abs(rounded[index]), magnitude(rounded))
    return np.where(
        np.abs(targets - rounded[index]) <= MERGE_TOLERANCE * unit, known[index], values
    )


def positive_distances(distances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distances that exceed the rounding errors of the coordinates.

    Args:
        distances: (k,) distances between some of the points.
        points: (n, D).

    Returns:
        The distances above the rounding errors, or all positive distances if there are none.
    """
    rounding = MIN_SEPARATION * np.finfo(np.float64).eps * magnitude(points)
    large = distances[distances > rounding]
    return large if len(large) else distances[distances > 0.0]


def count_decimals(values: NDArray[np.float64], tolerance: float) -> int | None:
    """Count the decimals of all values up to 12; ``tolerance`` of one value is relative."""
    for decimals in range(MAX_DECIMALS + 1):
        scaled = values * 10.0**decimals
        if np.all(np.abs(scaled - np.rint(scaled)) <= tolerance * np.abs(scaled)):
            return decimals
    return None
