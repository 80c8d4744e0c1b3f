"""Whether rows follow one another, which rows that are exchangeable do not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: The correlation of neighbours from which a note tells, and by how many errors it must be there.
LARGE, ERRORS = 0.1, 5.0
#: Rows that are so far apart are taken for unrelated: what they have in common, as after a change
#: of level, is no sign that neighbours follow one another.
APART = 50


class Serial(NamedTuple):
    """Sums over pairs of rows.

    Attributes:
        last: (at most APART, C), normal scores of the last rows.
        products: (C,), of neighbours less those of rows that are APART apart.
        squares: (C,).
        rows: over how many rows.
    """

    last: np.ndarray
    products: np.ndarray
    squares: np.ndarray
    rows: int = 0

    @classmethod
    def of(cls, columns: int) -> Serial:
        """Begin before the first row."""
        return cls(np.empty((0, columns)), np.zeros(columns), np.zeros(columns))

    def after(self, normal: np.ndarray) -> Serial:
        """Add rows by their normal scores (n, C)."""
        rows = np.concatenate([self.last, normal])
        late, early = rows[APART:], rows[:-APART]
        products = np.sum(late * (rows[APART - 1 : -1] - early), axis=0) if len(late) else 0.0
        return Serial(
            rows[-APART:],
            self.products + products,
            self.squares + np.sum(late**2, axis=0),
            self.rows + len(late),
        )

    def note(self, names: list[str]) -> str | None:
        """Tell of the column whose neighbours go together most, if they do."""
        if not self.rows or not names:
            return None
        correlation = self.products / np.where(self.squares > 0.0, self.squares, 1.0)
        at = int(np.argmax(np.abs(correlation)))
        if abs(correlation[at]) < max(LARGE, ERRORS / np.sqrt(self.rows)):
            return None
        return (
            f"Rows follow one another (neighbours of {names[at]!r} have correlation "
            f"{correlation[at]:.2f}): alarms are more frequent than they should be. Watch every "
            "k-th row, or what a forecast leaves."
        )
