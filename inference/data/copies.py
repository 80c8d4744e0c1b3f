"""Detection of duplicate rows, which inflate the size of a sample."""

from __future__ import annotations

import numpy as np

from .checks import pluralize

#: Smallest number of distinct rows for a note. The counts of 20 distinct rows are all even with a
#: probability of about 2^-20 if rows are independent.
MIN_DISTINCT = 20
#: Largest number of rows that are checked. Sorting more takes seconds.
MAX_ROWS = 50_000
#: Proportion of distinct rows with different values in one column, above which this column is taken
#: for an identifier.
MIN_UNIQUE = 0.9
#: Proportion of distinct rows with duplicates, above which they are noted. Below it, a single
#: frequent row, such as one of zeros, may be the cause.
MIN_DUPLICATED = 0.05


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
