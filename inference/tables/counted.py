"""Rows that stand for several, or for more or less of a population than others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from .kinds import Column

#: Rows that counts may add up to.
MOST = 50_000_000


class Counted(NamedTuple):
    """How much each row counts.

    Attributes:
        counts: (N,), how often each row is there; ``None`` of rows that are there once.
        weights: (N,), what each row counts for in all sums, such that they add up to as many rows
            as they are worth (Kish 1965); ``None`` of rows that weigh alike.
        given: the weights as they were given.
    """

    counts: np.ndarray | None = None
    weights: np.ndarray | None = None
    given: Column | None = None

    def of(self, rows: int) -> np.ndarray:
        """How many rows each row counts for, (N,) of N = ``rows``."""
        for given in (self.counts, self.weights):
            if given is not None:
                return np.asarray(given, dtype=float)
        return np.ones(rows)


#: Rows that are there once and weigh alike.
NOT_COUNTED = Counted()


def counted_rows(counts: Column | None, weights: Column | None, rows: int) -> Counted:
    """Check the column that says how much each row counts.

    Weights are on a scale of their own in each table, on which they are 1 on average.

    Args:
        counts: whole numbers.
        weights: not both.
        rows: of the first table.

    Raises:
        InputError: they are missing, negative or, in a table, all 0; counts are no whole numbers.
    """
    if counts is not None:
        return Counted(counts=_whole(counts, rows))
    if weights is None:
        return NOT_COUNTED
    _check(weights, rows)
    tables = (weights.values[:rows], weights.values[rows:])
    found = np.concatenate([part * (len(part) / math.fsum(part)) for part in tables])
    scale = math.fsum(found) / math.fsum(np.square(found))
    return Counted(weights=found * scale, given=weights)


def _whole(counts: Column, rows: int) -> np.ndarray:
    _check(counts, rows)
    if (counts.values != np.floor(counts.values)).any():
        odd = counts.values[counts.values != np.floor(counts.values)][0]
        raise InputError(
            f"column {counts.name!r} holds {odd:g}, and counts are whole numbers: weights need not "
            "be"
        )
    if counts.values.sum() > MOST:
        raise InputError(
            f"column {counts.name!r} counts {counts.values.sum():.3g} rows, and at most {MOST:,} "
            "can be dealt out"
        )
    return counts.values.astype(np.int64)


def _check(column: Column, rows: int) -> None:
    values = column.values
    for wrong, what in ((np.isnan(values), "no number"), (values < 0.0, "a negative number")):
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            table, row = ("first", index) if index < rows else ("second", index - rows)
            raise InputError(f"column {column.name!r} has {what} in row {row + 1} of the {table}")
    for part, table in ((values[:rows], "first"), (values[rows:], "second")):
        if not part.sum():
            raise InputError(f"column {column.name!r} is 0 in all rows of the {table}")
