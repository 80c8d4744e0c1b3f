"""Notes on rows that tests misread: duplicates, serial dependence, and rounding of one sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .checks import pluralize
from .equality import count_decimals

#: Smallest number of distinct rows for a note. The counts of 20 distinct rows are all even with a
#: probability of about 2^-20 if rows are independent.
MIN_DISTINCT = 20
#: Largest number of rows that are checked for duplicates. Sorting more takes seconds.
MAX_ROWS = 50_000
#: Proportion of distinct rows with different values in one column, above which this column is taken
#: for an identifier.
MIN_UNIQUE = 0.9
#: Proportion of distinct rows with duplicates, above which they are noted. Below it, a single
#: frequent row, such as one of zeros, may be the cause.
MIN_DUPLICATED = 0.05
#: Probability of a note on independent rows, over all columns, and the smallest correlation that is
#: noted: below it the variance of a mean is larger by less than a quarter. Neither is tuned.
FALSE_NOTES, LEAST_CORRELATION = 0.01, 0.1
#: Rows that a sample needs for that note, and how many of its first rows are used at most.
MIN_SERIAL_ROWS, MAX_SERIAL_ROWS = 20, 20_000


def duplicate_rows_note(rows: np.ndarray, name: str) -> tuple[str, ...]:
    """Write a note about duplicate rows of a sample, which tests treat as independent.

    Rows are noted in two cases. In the first one, the counts of all distinct rows have a common
    divisor. In the second one, rows are equal in all columns although the values of one column
    identify the distinct rows.

    Args:
        rows: (n, D).
        name: name of the sample in the note.

    Returns:
        One note, or none.
    """
    if not 2 * MIN_DISTINCT <= len(rows) <= MAX_ROWS:
        return ()
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    if len(distinct) < MIN_DISTINCT:
        return ()
    divisor = int(np.gcd.reduce(counts))
    if divisor > 1:
        finding = f"every row of {name} occurs {divisor} times or a multiple of that"
    elif np.mean(counts > 1) > MIN_DUPLICATED and _has_identifier(distinct):
        finding = f"{pluralize(len(rows) - len(distinct), 'row')} of {name} are duplicates"
    else:
        return ()
    return (f"{finding}: tests treat all rows as independent, which duplicates are not",)


def shared_rows_note(
    first: np.ndarray, second: np.ndarray, names: tuple[str, str]
) -> tuple[str, ...]:
    """Write a note about rows that are in both samples, which tests treat as independent.

    Rows are noted if the values of one column nearly identify them.

    Args:
        first: (m, D).
        second: (n, D).
        names: names of the samples in the note.

    Returns:
        One note, or none.
    """
    if len(first) + len(second) > MAX_ROWS:
        return ()
    distinct = [np.unique(rows, axis=0) for rows in (first, second)]
    union = np.unique(np.concatenate(distinct), axis=0)
    shared = len(distinct[0]) + len(distinct[1]) - len(union)
    if shared == len(union):  # the samples are the same, which their p-value shows
        return ()
    if shared < max(MIN_DISTINCT, MIN_DUPLICATED * min(map(len, distinct))):
        return ()
    if first.shape[1] == 1:
        integral = (union == np.round(union)).all()
        unique = all(
            len(values) > MIN_UNIQUE * len(rows)
            for values, rows in zip(distinct, (first, second), strict=True)
        )
        identified = unique and not integral
    else:
        identified = _has_identifier(union)
    if not identified:
        return ()
    return (
        f"{shared} rows are in both {names[0]} and {names[1]}: tests treat all rows as "
        "independent, which shared rows are not",
    )


def _has_identifier(distinct: np.ndarray) -> bool:
    """Return whether one of several columns has nearly unique values in ``distinct`` (k, D)."""
    if distinct.shape[1] == 1:
        return False
    return any(len(np.unique(column)) > MIN_UNIQUE * len(distinct) for column in distinct.T)


def decimals_note(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    column: str,
    names: tuple[str, str],
    min_merged: float = 0.05,
) -> tuple[str, ...]:
    """Write a note if a column has fewer decimals in one sample, and rounding merges its values.

    A test then detects the rounding of values that are tied in each sample.

    Args:
        first: (m,) values of the first sample; missing values are ignored.
        second: (n,) values of the second sample.
        column: name of the column in the note.
        names: names of the samples.
        min_merged: there is a note if rounding to the smaller number of decimals reduces the number
            of distinct values of both samples by more than this proportion, and if the samples then
            share more than this proportion of the values of one; not tuned.
    """
    # Most columns are no decimal numbers, which a few values show.
    if all(count is None for count in _decimals([part[:100] for part in (first, second)])):
        return ()
    parts = [np.unique(part[~np.isnan(part)]) for part in (first, second)]
    decimals = _decimals(parts)
    known = [count for count in decimals if count is not None]
    if not known or decimals[0] == decimals[1]:
        return ()
    count = min(known)
    coarse = decimals.index(count)
    distinct = len(np.unique(np.concatenate(parts)))
    a, b = (np.unique(np.round(part, count)) for part in parts)
    merged, shared = len(np.union1d(a, b)), len(np.intersect1d(a, b))
    if merged >= (1.0 - min_merged) * distinct or shared <= min_merged * min(len(a), len(b)):
        return ()
    number = f"at most {pluralize(count, 'decimal')}" if count else "no decimals"
    return (
        f"{column} has {number} in {names[coarse]} and {'more' if count else 'some'} in "
        f"{names[1 - coarse]}: round both alike, for the rounding alone may explain a difference",
    )


def serial_note(samples: Sequence[np.ndarray], columns: Sequence[str]) -> tuple[str, ...]:
    """Return a note if rows, in the order given, seem to depend on their predecessors.

    The statistic of a column is the lag-1 correlation of its ranks within each sample, over all
    samples; under exchangeable rows its mean and standard error follow from the number of rows. A
    column that is sorted in a sample says nothing there.

    Args:
        samples: (n, D) each, in order; NaN where a value is missing.
        columns: names of the D columns.

    Returns:
        The note, of the column with the largest correlation, or nothing.
    """
    sums, counts, cubes = np.zeros((3, len(columns)))
    for sample, rows in enumerate(samples):
        if any(np.array_equal(rows, other, equal_nan=True) for other in samples[:sample]):
            continue
        for column, values in enumerate(rows[:MAX_SERIAL_ROWS].T):
            known = values[~np.isnan(values)]
            steps = np.diff(known)
            if len(known) < MIN_SERIAL_ROWS or (steps >= 0.0).all() or (steps <= 0.0).all():
                continue
            _, index, ties = np.unique(known, return_inverse=True, return_counts=True)
            ranks = (np.cumsum(ties) - 0.5 * ties)[index]
            scores = (ranks - ranks.mean()) / ranks.std()
            # One is the mean of the sum under exchangeability, with the sign reversed.
            sums[column] += scores[1:] @ scores[:-1] + 1.0
            counts[column] += len(known)
            cubes[column] += len(known) * np.mean(scores**3) ** 2
    counts = np.maximum(counts, 1.0)
    quantile = -ndtri(FALSE_NOTES / len(columns))
    # Cornish and Fisher's correction for the skewness of the sum, which rare values have.
    quantiles = quantile + (quantile**2 - 1.0) / 6.0 * cubes / counts**1.5
    correlations = sums / counts
    noted = correlations >= np.maximum(quantiles / np.sqrt(counts), LEAST_CORRELATION)
    if not noted.any():
        return ()
    column = int(np.argmax(np.where(noted, correlations, 0.0)))
    return (
        f"rows seem to depend on their predecessors (lag-1 correlation {correlations[column]:.2f} "
        f"of {columns[column]!r}): p-values assume independent rows, and are too small otherwise; "
        "rows that were sorted after they were observed may be independent",
    )


def _decimals(parts: Sequence[np.ndarray]) -> list[int | None]:
    """Count the decimals of values (n,) of each part, up to rounding of their precision."""
    parts = [part[~np.isnan(part)] for part in parts]
    with np.errstate(over="ignore"):
        single = all(np.array_equal(part, part.astype(np.float32)) for part in parts)
    tolerance = 4.0 * 2.0 ** (-23 if single else -52)
    return [count_decimals(part, tolerance) for part in parts]
