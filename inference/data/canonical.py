"""Canonical order of rows, hashes of rows and columns, and generators of random numbers.

The order of rows may carry information about their labels. No result should depend on it, nor on
the order or the units of columns. Columns are identified by their values, which are scaled to
integers between the smallest and the largest one.
"""

from __future__ import annotations

import hashlib
from threading import Event

import numpy as np

from ..core.machine import side_by_side

#: Number of steps from the smallest value of a column to the largest. It is large enough to
#: separate columns, and so small that rounding in other units rarely moves a value to another step.
COARSE_STEPS = 2**20
#: Number of steps that separates values on the same coarse step.
FINE_STEPS = 2**45
#: Smallest number of values that several threads sort faster than one.
PARALLEL_MIN_SIZE = 2**18


def canonical_order(points: np.ndarray) -> np.ndarray:
    """Return indices (N,) that sort rows (N, D), the same for any order of rows and columns."""
    steps = _quantize(points)
    return _row_order(points, _column_order(steps))


def random_part(points: np.ndarray, max_rows: int, seed: int) -> np.ndarray:
    """Draw at most ``max_rows`` rows of ``points``, which must be in canonical order."""
    if len(points) <= max_rows:
        return points
    chosen = np.random.default_rng(seed).choice(len(points), max_rows, replace=False)
    return np.asarray(points[np.sort(chosen)])


def fingerprint(sample: np.ndarray) -> int:
    """Compute a hash of rows (N, D) that does not depend on their order."""
    rows = sample[_row_order(sample, np.arange(sample.shape[1]))] + 0.0  # -0.0 becomes 0.0
    return _digest(np.asarray(rows, dtype=float))


def pairs_fingerprints(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int]:
    """Compute the fingerprints of two samples and of their pairs of rows."""
    both = np.concatenate([first, second], axis=1)
    return fingerprint(first), fingerprint(second), fingerprint(both)


def checksum(sample: np.ndarray) -> int:
    """Compute a hash of rows (N, D), the same for any order of rows and columns and any units.

    Constant columns are ignored.
    """
    return order_and_checksum(sample)[1]


def order_and_checksum(points: np.ndarray) -> tuple[np.ndarray, int]:
    """Compute both the :func:`canonical_order` and the :func:`checksum` of rows (N, D)."""
    steps = _quantize(points)
    columns = _column_order(steps)
    order = _row_order(points, columns)
    varying = columns[np.ptp(steps, axis=0)[columns] > 0]
    if not len(varying):
        return order, len(steps)
    return order, _digest(steps[_row_order(steps, varying)][:, varying])


def column_hashes(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, previous: np.ndarray | None = None
) -> np.ndarray:
    """Compute hashes (D,) uint64 of the columns of rows (N, D), for any order of rows.

    The hashes of all rows are the sums of the hashes of disjoint subsets.

    Args:
        points: a subset of the rows.
        low: (D,) smallest value of each column in all rows.
        high: (D,) largest value of each column in all rows.
        previous: (D,) hashes of all rows, computed without this argument. If given, the rest of a
            row enters the hash of each of its values, which separates most columns with equal
            hashes.
    """
    salt = np.uint64(0) if previous is None else row_hashes(points, low, high, previous)[:, 0]
    hashes = np.zeros(points.shape[1], dtype=np.uint64)
    for column, (minimum, maximum) in enumerate(zip(low, high, strict=True)):
        steps = _quantize(points[:, column], minimum, maximum).astype(np.uint64) + np.uint64(1)
        hashes[column] = mix_bits(steps ^ salt).sum(dtype=np.uint64)
    return hashes


def has_duplicates(hashes: np.ndarray) -> bool:
    """Return whether two of the hashes (D,) are equal."""
    return len(np.unique(hashes)) < len(hashes)


def row_hashes(
    points: np.ndarray, low: np.ndarray, high: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Compute two hashes of every row (N, D), the same for any order of columns.

    The first hash is the same in any units, and :func:`combine_hashes` adds it over rows. The
    second one separates rows that differ little. Constant columns are ignored.

    Args:
        points: a subset of the rows.
        low: (D,) smallest value of each column in all rows.
        high: (D,) largest value of each column in all rows.
        columns: (D,) hashes of the columns in all rows, see :func:`column_hashes`.

    Returns:
        (N, 2) uint64.
    """
    total = np.zeros((2, len(points)), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in np.flatnonzero(high > low):
            for index, count in enumerate((COARSE_STEPS, FINE_STEPS)):
                steps = _quantize(points[:, column], low[column], high[column], count)
                total[index] += mix_bits(steps.astype(np.uint64) ^ columns[column])
    return mix_bits(total).T


def combine_hashes(hashes: np.ndarray) -> int:
    """Combine the first hashes (N,) of rows into one, for any order of rows."""
    return int(hashes.sum(dtype=np.uint64))


def generator(seed: int, *samples: np.ndarray, stream: int = 1) -> np.random.Generator:
    """Create a generator from ``seed`` and the :func:`checksum` of each of ``samples``.

    The order of ``samples`` does not matter. A generator from the seed alone would give all samples
    of one size the same B permutations, and in one dimension the same permutations of ranks. Such a
    test has a level with an error of about sqrt(alpha (1 - alpha) / B). The level is exact only on
    average over draws of the permutations.
    """
    return generator_from_checksums(seed, *map(checksum, samples), stream=stream)


def generator_from_checksums(seed: int, *checksums: int, stream: int = 1) -> np.random.Generator:
    """Create the same generator as :func:`generator` from known checksums of the samples."""
    # The stream separates these numbers from those that ``seed`` gives for the choice of a kernel.
    return np.random.default_rng((seed, stream, *sorted(checksums)))


def mix_bits(bits: np.ndarray) -> np.ndarray:
    """Mix bits (N,) as splitmix64 does (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(bits ^ (bits >> np.uint64(31)))


def unique_rows(rows: np.ndarray, max_unique: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Find the unique rows of ``rows`` (N, D) and their counts.

    Returns:
        Indices (k,) of the first occurrence of every unique row and its counts (k,), or ``None``
        if there are more than ``max_unique``.
    """
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in bits.T:
        hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(32)
    # A few rows are enough to see most samples with too many unique rows, without a long sort.
    if len(np.unique(hashes[: 2 * max_unique])) > max_unique:
        return None
    _, index, counts = np.unique(hashes, return_index=True, return_counts=True)
    return (index, counts) if len(index) <= max_unique else None


def _quantize(
    points: np.ndarray,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    steps: int = COARSE_STEPS,
) -> np.ndarray:
    """Scale values (N, D) to integers from 0 at the minimum of their column to ``steps``."""
    if low is None or high is None:
        low, high = points.min(axis=0), points.max(axis=0)
    half_range = 0.5 * high - 0.5 * low  # does not overflow
    scaled = (0.5 * points - 0.5 * low) / np.where(half_range > 0.0, half_range, 1.0)
    return np.rint(steps * scaled).astype(np.int64)


def _column_order(steps: np.ndarray) -> np.ndarray:
    """Return indices (D,) that sort columns by a hash of their values."""
    if steps.shape[1] == 1:
        return np.zeros(1, dtype=np.intp)

    def digest(column: int) -> int:
        return _digest(np.sort(steps[:, column]))

    hashes = side_by_side(digest, steps.shape[1], Event(), serial=steps.size < PARALLEL_MIN_SIZE)
    if len(set(hashes)) < len(hashes):  # the other values of a row separate columns of equal values
        bits = steps.astype(np.uint64)
        rows = mix_bits(bits).sum(axis=1, dtype=np.uint64)
        joint = [_digest(np.sort(mix_bits(column ^ rows))) for column in bits.T]
        hashes = [a ^ b for a, b in zip(hashes, joint, strict=True)]
    return np.array(sorted(range(len(hashes)), key=hashes.__getitem__))


def _row_order(points: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return indices (N,) that sort rows by ``columns``, of which the first is the primary key."""
    key = points[:, columns[0]]
    if len(columns) == 1:
        return np.argsort(key, kind="stable")
    if points.dtype.kind == "i":  # one integer holds the steps of three columns
        for column in columns[1:3]:
            key = key * (COARSE_STEPS + 1) + points[:, column]
    order = np.argsort(key)
    # This key nearly always has no ties, and sorts several times faster than all columns do.
    if (np.diff(key[order]) > 0).all():
        return order
    return np.lexsort(points.T[columns[::-1]])


def _digest(values: np.ndarray) -> int:
    content = np.ascontiguousarray(values).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")
