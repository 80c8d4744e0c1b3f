"""Columns of mixed tables as numbers, always by what the reference's columns are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Levels of a category that are watched one by one, at most.
LEVELS = 6


class Columns(NamedTuple):
    """What the columns of values (n, C) are.

    Attributes:
        names: (C,).
        levels: (C,), of each column its levels in the reference, whose index is a row's value;
            beyond the last of them is any other. Of numbers none.
        shown: (C,), indices of the levels that are watched one by one.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    shown: tuple[tuple[int, ...], ...] = ()

    @property
    def numbers(self) -> np.ndarray:
        """Which columns (C,) are numbers."""
        return np.array([not levels for levels in self.levels], dtype=bool)

    def showing(self, values: np.ndarray) -> Columns:
        """Watch the most frequent levels of rows (n, C) one by one.

        The rows are not ranked later: of levels of all of the reference none would be new to the
        rows of it that are, as some always are to those of a stream.
        """
        shown = []
        for column, levels in zip(values.T, self.levels, strict=True):
            codes = column[~np.isnan(column)].astype(int) if levels else np.empty(0, dtype=int)
            counts = np.bincount(codes)
            order = np.argsort(-counts, kind="stable")[:LEVELS]
            shown.append(tuple(int(one) for one in order if counts[one]))
        return self._replace(shown=tuple(shown))

    @property
    def indicated(self) -> list[tuple[int, int | None, str]]:
        """The indicators in order: column, level and what it says; no level is any other."""
        found: list[tuple[int, int | None, str]] = []
        for column, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            if levels:
                found += [(column, one, f"{name} = {levels[one]}") for one in self.shown[column]]
                found.append((column, None, f"{name} of a rare or a new level"))
        return found

    def indicators(self, values: np.ndarray) -> np.ndarray:
        """Which rows (n, C) have each of the levels: (n, i) of 0 and 1."""
        found = np.empty((len(values), len(self.indicated)))
        for at, (column, level, _) in enumerate(self.indicated):
            cells = values[:, column]
            if level is None:
                found[:, at] = ~np.isnan(cells) & ~np.isin(cells, self.shown[column])
            else:
                found[:, at] = cells == level
        return found
