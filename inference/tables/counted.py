"""Rows that stand for several, or for more or less of a population than others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..io.types import Column

#: Rows that counts may add up to.
MOST = 50_000_000
#: By what factor weights may make rows of one table worth less than those of the other before it is
#: said that they differ in kind.
ALIKE = 1.25
#: Weights that differ less are equal.
ROUNDING = 1e-9


class Counted(NamedTuple):
    """How much each row counts.

    Attributes:
        counts: (N,), how often each row is there; ``None`` of rows that are there once.
        weights: (N,), what each row counts for in all sums, such that they add up to as many rows
            as they are worth (Kish 1965); ``None`` of rows that weigh alike.
        given: the weights on a scale on which those above 0 are 1 on average in each table.
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

    def of_each(self, rows: int, first: int) -> np.ndarray:
        """How many rows each counts for, (N,), those of each table by how alike its own weigh."""
        found = self.of(rows)
        if self.weights is None:
            return found
        return np.concatenate([_worth(part) for part in (found[:first], found[first:])])

    def notes(self, rows: int, first: int) -> list[str]:
        """Tell of weights that vary far more in one table than in the other."""
        if self.weights is None:
            return []
        each = self.of_each(rows, first)
        one, other = float(each[:first].mean()), float(each[first:].mean())
        if max(one, other) <= ALIKE * min(one, other):
            return []
        return [
            f"The weights make 100 rows of the first table worth {100 * one:.0f} of equal weight, "
            f"and of the second {100 * other:.0f}: where weights vary so differently p-values may "
            "be far too small or too large."
        ]


#: Rows that are there once and weigh alike.
NOT_COUNTED = Counted()


def counted_rows(counts: Column | None, weights: Column | None, rows: int) -> Counted:
    """Check the column that says how much each row counts.

    Weights are on a scale of their own in each table, on which those above 0 are 1 on average.

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
    # Of rows that weigh anything: others are not there.
    there = weights.values > 0.0
    found = np.concatenate([part * (np.count_nonzero(part) / math.fsum(part)) for part in tables])
    if np.ptp(found[there]) <= ROUNDING:
        return NOT_COUNTED if there.all() else Counted(counts=there.astype(np.int64))
    return Counted(weights=_worth(found), given=weights._replace(values=np.round(found, 9)))


def _worth(weights: np.ndarray) -> np.ndarray:
    """Weights that add up to as many rows as they are worth (Kish 1965)."""
    return np.asarray(weights * (math.fsum(weights) / math.fsum(np.square(weights))))


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
            raise InputError(
                f"column {column.name!r} has {what} in row {row + 1} of the {table} table"
            )
    for part, table in ((values[:rows], "first"), (values[rows:], "second")):
        if not part.sum():
            raise InputError(f"column {column.name!r} is 0 in all rows of the {table} table")
