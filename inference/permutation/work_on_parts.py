"""What is done with the rows of a part, wherever it is: the work of the passes of a survey."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..data.canonical import column_hashes, row_hashes, unique_rows
from .halves import Halves


class Extent(NamedTuple):
    """Number and range of some rows.

    Attributes:
        rows: their number.
        low: (D,), the smallest value of every column; infinite without rows.
        high: (D,), the largest.
    """

    rows: int
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> Extent:
        """Return the extent of rows (n, D)."""
        low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
        return cls(len(rows), low, high)

    @classmethod
    def union(cls, extents: Sequence[Extent]) -> Extent:
        """Return the extent of the rows of several partitions.

        Raises:
            InputError: the partitions have different numbers of columns.
        """
        widths = {len(extent.low) for extent in extents}
        if len(widths) > 1:
            raise InputError(f"partitions have {' and '.join(map(str, sorted(widths)))} columns")
        low = np.min([extent.low for extent in extents], axis=0)
        high = np.max([extent.high for extent in extents], axis=0)
        return cls(sum(extent.rows for extent in extents), low, high)


class Different(NamedTuple):
    """Rows that differ, and how often each is there.

    Attributes:
        rows: (k, D).
        counts: (k,).
    """

    rows: np.ndarray
    counts: np.ndarray


class First(NamedTuple):
    """What the first pass finds of a part; ``different`` is ``None`` where too many rows are."""

    extent: Extent
    different: Different | None


@dataclasses.dataclass(frozen=True)
class OfVarying:
    """Work on the varying columns of parts."""

    work: Callable[[Any, np.ndarray], Any]
    varying: np.ndarray

    def __call__(self, beside: Any, rows: np.ndarray) -> Any:
        """Work on a part."""
        return self.work(beside, rows[:, self.varying])


@dataclasses.dataclass(frozen=True)
class FirstPass:
    """Finds the extent of a part, and up to so many rows that differ."""

    most: int

    def __call__(self, index: int, rows: np.ndarray) -> First:
        """Work on a part."""
        return First(Extent.of_rows(rows), _different(rows, self.most))


@dataclasses.dataclass(frozen=True)
class ColumnsPass:
    """Finds what columns are known by."""

    low: np.ndarray
    high: np.ndarray
    known: np.ndarray | None

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Work on a part."""
        return column_hashes(rows, self.low, self.high, self.known)


@dataclasses.dataclass(frozen=True)
class MarksPass:
    """Finds what rows are known by."""

    low: np.ndarray
    high: np.ndarray
    columns: np.ndarray

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Work on a part."""
        return row_hashes(rows, self.low, self.high, self.columns)


@dataclasses.dataclass(frozen=True)
class TakePass:
    """Takes some rows."""

    def __call__(self, chosen: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Work on a part, of which those rows are taken that are ``chosen``."""
        return rows[chosen]


@dataclasses.dataclass(frozen=True)
class CellsPass:
    """Counts rows in cells."""

    halves: Halves
    unit: np.ndarray

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Work on a part."""
        return np.bincount(self.halves.cells(rows / self.unit), minlength=self.halves.number)


def total(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Add arrays that two parts tell; a function, for engines take no ufunc."""
    return first + second


def _different(rows: np.ndarray, most: int) -> Different | None:
    """Find at most so many rows that differ; ``None`` where there are more."""
    found = unique_rows(rows, most)
    return None if found is None else Different(rows[found[0]] + 0.0, found[1])
