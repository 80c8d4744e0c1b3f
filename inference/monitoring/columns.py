"""Columns of mixed tables as numbers, always by what the reference's columns are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Levels of a category that are watched one by one.
LEVELS = 6


class Columns(NamedTuple):
    """What the columns of values (n, C) are.

    Attributes:
        names: (C,).
        levels: (C,), of each column its levels in the reference, the most frequent first, whose
            index is a row's value; beyond the last of them is any other. Of numbers none.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]

    @property
    def numbers(self) -> np.ndarray:
        """Which columns (C,) are numbers."""
        return np.array([not levels for levels in self.levels], dtype=bool)

    @property
    def indicated(self) -> list[tuple[int, int, str]]:
        """The indicators in order: column, level and what it says; the last level is any other."""
        found = []
        for column, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            if levels:
                shown = levels[:LEVELS]
                found += [(column, at, f"{name} = {level}") for at, level in enumerate(shown)]
                rare = "of a rare or a new level" if len(levels) > LEVELS else "of a new level"
                found.append((column, len(shown), f"{name} {rare}"))
        return found

    def indicators(self, values: np.ndarray) -> np.ndarray:
        """Which rows (n, C) have each of the levels: (n, i) of 0 and 1."""
        found = np.empty((len(values), len(self.indicated)))
        for at, (column, level, _) in enumerate(self.indicated):
            last = level == min(len(self.levels[column]), LEVELS)
            held = values[:, column] >= level if last else values[:, column] == level
            found[:, at] = held
        return found
