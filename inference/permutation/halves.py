"""Cells of rows in one or two columns: halves at medians, and halves of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Halves(NamedTuple):
    """Cells that any row belongs to one of, by the halves that some rows were cut into.

    Attributes:
        column: (K,), by which column rows are told apart at every cut.
        above: (K,), values from this one on are of the upper half.
        below: (K, 2), the cut that each half is cut by; of one that is a cell -1 less its index.
        number: how many cells there are.
    """

    column: np.ndarray
    above: np.ndarray
    below: np.ndarray
    number: int

    @classmethod
    def of(cls, points: np.ndarray, most: int) -> Halves:
        """Cut rows (N, D) at the median of their widest column, and the halves likewise.

        Args:
            points: the rows.
            most: cells are halved as long as they are fewer than this.
        """
        cuts: list[tuple[int, float]] = []
        below: list[list[int]] = []
        # Of each cell its rows, and whose half it is.
        parts: list[tuple[np.ndarray, int, int]] = [(np.arange(len(points)), -1, 0)]
        while len(parts) < most:
            halves = []
            for part, cut, side in parts:
                if (found := _cut(points[part])) is None:
                    halves.append((part, cut, side))
                    continue
                if cut >= 0:
                    below[cut][side] = len(cuts)
                upper = points[part, found[0]] >= found[1]
                halves += [(part[~upper], len(cuts), 0), (part[upper], len(cuts), 1)]
                cuts.append(found)
                below.append([0, 0])
            if len(halves) == len(parts):
                break
            parts = halves
        for index, (_, cut, side) in enumerate(parts):
            if cut >= 0:
                below[cut][side] = -1 - index
        columns, values = zip(*cuts, strict=True) if cuts else ((), ())
        children = np.array(below, dtype=int).reshape(-1, 2)
        return cls(np.array(columns, dtype=int), np.array(values), children, len(parts))

    def cells(self, points: np.ndarray) -> np.ndarray:
        """The cell (N,) of every row (N, D)."""
        at = np.full(len(points), 0 if len(self.column) else -1)
        moved = np.arange(len(points)) if len(self.column) else np.empty(0, dtype=int)
        while len(moved):
            cut = at[moved]
            upper = points[moved, self.column[cut]] >= self.above[cut]
            at[moved] = self.below[cut, upper.astype(int)]
            moved = moved[at[moved] >= 0]
        return -1 - at


def _cut(points: np.ndarray) -> tuple[int, float] | None:
    """By which column rows are told apart, from which value on; ``None`` where all are equal.

    By value, so that equal rows stay together whatever their order.
    """
    column = int(np.argmax(np.ptp(points, axis=0)))
    values = points[:, column]
    middle = np.median(values)
    larger = values[values > middle]
    if len(larger):
        return column, float(larger.min())
    return (column, float(middle)) if (values < middle).any() else None
