"""Rows in an order of their own, and random numbers that go with them, however they came.

The order in which rows came may tell their labels. Nor is an answer to hang on the order of the
columns or on their units: columns are known by what is in them, from the smallest value to the
largest.
"""

from __future__ import annotations

import hashlib
from threading import Event

import numpy as np

from ..core.machine import side_by_side

#: Steps from the smallest value of a column to the largest: fine enough to tell columns apart, and
#: so coarse that rounding in other units moves hardly any value to another.
STEPS = 2**20
#: The same where values that agree so far are to be told apart.
FINE_STEPS = 2**45
#: Values that one thread sorts sooner than several start.
FEW = 2**18


def canonical_order(points: np.ndarray) -> np.ndarray:
    """Find indices (N,) that sort rows (N, D), the same for any order of rows and columns."""
    return _sorting(points, _columns(_steps(points)))


def random_part(points: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Draw at most ``most`` rows of ``points``, which must be in canonical order."""
    if len(points) <= most:
        return points
    chosen = np.random.default_rng(seed).choice(len(points), most, replace=False)
    return np.asarray(points[np.sort(chosen)])


def fingerprint(sample: np.ndarray) -> int:
    """The fingerprint of rows (N, D), in whatever order."""
    rows = sample[_sorting(sample, np.arange(sample.shape[1]))] + 0.0  # -0.0 is 0.0
    return _digest(np.asarray(rows, dtype=float))


def pairs_fingerprints(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int]:
    """The fingerprints of each sample's rows, and of the pairs that they make."""
    both = np.concatenate([first, second], axis=1)
    return fingerprint(first), fingerprint(second), fingerprint(both)


def mark(sample: np.ndarray) -> int:
    """What rows (N, D) are known by in any order of rows and columns and in any units.

    Columns of one value do not count.
    """
    return order_and_mark(sample)[1]


def order_and_mark(points: np.ndarray) -> tuple[np.ndarray, int]:
    """Find both the :func:`canonical_order` of rows (N, D) and their :func:`mark`."""
    steps = _steps(points)
    columns = _columns(steps)
    order = _sorting(points, columns)
    told = columns[np.ptp(steps, axis=0)[columns] > 0]  # a column of one value tells nothing
    return order, _digest(steps[_sorting(steps, told)][:, told]) if len(told) else len(steps)


def column_marks(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """Mark every column of rows (N, D) by what is in it, in whatever order of rows, (D,) uint64.

    Marks of parts of the rows add up to those of all.

    Args:
        points: some of the rows.
        low: (D,), the smallest value of every column in all of them.
        high: (D,), the largest.
        known: (D,), the marks of all rows: columns in which they are alike are told apart by what
            is beside them, as far as they can be.
    """
    beside = np.uint64(0) if known is None else row_marks(points, low, high, known)[:, 0]
    found = np.zeros(points.shape[1], dtype=np.uint64)
    for one, (least, most) in enumerate(zip(low, high, strict=True)):
        steps = _steps(points[:, one], least, most).astype(np.uint64) + np.uint64(1)
        found[one] = mixed(steps ^ beside).sum(dtype=np.uint64)
    return found


def alike(columns: np.ndarray) -> bool:
    """Whether marks (D,) of columns leave some of them alike."""
    return len(np.unique(columns)) < len(columns)


def row_marks(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Mark every row (N, D), the same for any order of columns, (N, 2) uint64.

    The first marks are the same in any units, and by the second rows are told apart that hardly
    differ. The sum of the first of many rows tells these from others, whichever part of them is
    where. A column of one value does not count.

    Args:
        points: some of the rows.
        low: (D,), the smallest value of every column in all of them.
        high: (D,), the largest.
        columns: (D,), of all rows, see :func:`column_marks`.
    """
    total = np.zeros((2, len(points)), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for one in np.flatnonzero(high > low):
            for at, steps in enumerate((STEPS, FINE_STEPS)):
                found = _steps(points[:, one], low[one], high[one], steps)
                total[at] += mixed(found.astype(np.uint64) ^ columns[one])
    return mixed(total).T


def known_by(marks: np.ndarray) -> int:
    """What rows with (first) marks (N,) are known by, in whatever order."""
    return int(marks.sum(dtype=np.uint64))


def generator(seed: int, *samples: np.ndarray, stream: int = 1) -> np.random.Generator:
    """Random numbers by ``seed`` and the :func:`mark` of each of ``samples``, in whatever order.

    From the seed alone all samples of one size would have the same B permutations, of ranks even in
    one dimension; these have a level of their own, off by about sqrt(alpha (1 - alpha) / B), and
    only its average over draws of the permutations is exact.
    """
    return marked_generator(seed, *map(mark, samples), stream=stream)


def marked_generator(seed: int, *marks: int, stream: int = 1) -> np.random.Generator:
    """Random numbers as of :func:`generator`, of samples of which the :func:`mark` is known."""
    # The stream sets it apart from what ``seed`` gave for the choice of a kernel.
    return np.random.default_rng((seed, stream, *sorted(marks)))


def _steps(
    points: np.ndarray,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    steps: int = STEPS,
) -> np.ndarray:
    """Values (N, D) as steps from the smallest of their column to the largest, whole numbers."""
    if low is None or high is None:
        low, high = points.min(axis=0), points.max(axis=0)
    half = 0.5 * high - 0.5 * low  # which does not overflow
    scaled = (0.5 * points - 0.5 * low) / np.where(half > 0.0, half, 1.0)
    return np.rint(steps * scaled).astype(np.int64)


def _columns(steps: np.ndarray) -> np.ndarray:
    """Indices (D,) that sort columns by what is in them."""
    if steps.shape[1] == 1:
        return np.zeros(1, dtype=np.intp)

    def one(index: int) -> int:
        return _digest(np.sort(steps[:, index]))

    marks = side_by_side(one, steps.shape[1], Event(), alone=steps.size < FEW)
    if len(set(marks)) < len(marks):  # alike by themselves: told by what is beside them in rows
        bits = steps.astype(np.uint64)
        beside = mixed(bits).sum(axis=1, dtype=np.uint64)
        alone = [_digest(np.sort(mixed(column ^ beside))) for column in bits.T]
        marks = [mark ^ other for mark, other in zip(marks, alone, strict=True)]
    return np.array(sorted(range(len(marks)), key=marks.__getitem__))


def mixed(bits: np.ndarray) -> np.ndarray:
    """Mix bits (N,) as splitmix64 does (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(bits ^ (bits >> np.uint64(31)))


def _sorting(points: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Indices (N,) that sort rows by their columns, the first of which counts most."""
    key = points[:, columns[0]]
    if len(columns) == 1:
        return np.argsort(key, kind="stable")
    if points.dtype.kind == "i":  # steps, of which three columns are one number
        for column in columns[1:3]:
            key = key * (STEPS + 1) + points[:, column]
    order = np.argsort(key)
    # Nearly always that is all; several times faster than by every column.
    if (np.diff(key[order]) > 0).all():
        return order
    return np.lexsort(points.T[columns[::-1]])


def different(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Find a row (k,) of every kind of rows (N, D), and how many of it are there, (k,).

    ``None`` where there are more than ``most`` kinds.
    """
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # -0.0 is 0.0
    hashed = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        hashed = (hashed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(32)
    if len(np.unique(hashed[: 2 * most])) > most:  # so that few are sorted
        return None
    _, index, counts = np.unique(hashed, return_index=True, return_counts=True)
    return (index, counts) if len(index) <= most else None


def _digest(values: np.ndarray) -> int:
    content = np.ascontiguousarray(values).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
