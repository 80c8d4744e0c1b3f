"""Rows that are copies of others: a file that was written twice looks surer than it is."""

from __future__ import annotations

import numpy as np

from .checks import counted

#: Distinct rows from which counts that share a divisor are no accident: of so many one in 2^20.
FEWEST = 20
#: Of more rows nobody is told: counting them takes seconds.
MOST = 50_000
#: Share of distinct rows with a value of their own in a column from which that column tells rows
#: apart, and share of them with copies from which these are told: one row that is there often, as
#: of zeros, is none.
TELLING, WORTH_TELLING = 0.9, 0.05


def copies_note(rows: np.ndarray, name: str) -> tuple[str, ...]:
    """Tell of a sample whose rows are copies of others, which no test can know.

    Either every row is there as often as a common divisor of their counts says, or rows are alike
    in all columns although one column tells the distinct ones apart.

    Args:
        rows: (n, D).
        name: of the sample.
    """
    if not 2 * FEWEST <= len(rows) <= MOST:
        return ()
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    times, copies = int(np.gcd.reduce(counts)), len(rows) - len(distinct)
    if len(distinct) < FEWEST:
        return ()
    if times > 1:
        told = f"every row of {name} is there {times} times or a multiple of that"
    elif np.mean(counts > 1) > WORTH_TELLING and _tells_apart(distinct):
        told = f"{counted(copies, 'row')} of {name} are copies of others"
    else:
        return ()
    return (f"{told}: copies are no new evidence, and a test takes them for that",)


def _tells_apart(distinct: np.ndarray) -> bool:
    """Whether, of two columns or more, one has hardly a value twice in ``distinct`` (k, D) rows."""
    if distinct.shape[1] == 1:
        return False
    return any(len(np.unique(one)) > TELLING * len(distinct) for one in distinct.T)
