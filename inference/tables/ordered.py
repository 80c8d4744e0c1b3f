"""Values of a column in order: quantiles and shares, of rows that count for several too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Sorted(NamedTuple):
    """The values of a column in one table, ascending, (n,), and how many rows each counts for."""

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> Sorted:
        """Leave out what is missing."""
        kept = ~np.isnan(values) & (weights > 0.0)
        values, weights = values[kept], weights[kept]
        if len(weights) and (weights == weights[0]).all():
            return cls(np.sort(values), weights)  # several times faster than their order
        order = np.argsort(values, kind="stable")
        return cls(values[order], weights[order])

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return float(self.weights.sum())

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """Quantiles (levels,): the mean of both values where a level is between two."""
        below = np.cumsum(self.weights) / self.rows
        near = 1e-9 / len(self.values)
        last = len(self.values) - 1
        ends = [
            np.searchsorted(below, np.asarray(levels) + sign * near).clip(max=last)
            for sign in (-1, 1)
        ]
        return np.asarray(0.5 * (self.values[ends[0]] + self.values[ends[1]]))

    def share_below(self, at: np.ndarray) -> np.ndarray:
        """The share of values below each of ``at`` (n,), ties counting half."""
        total = np.append(0.0, np.cumsum(self.weights))
        left, right = (np.searchsorted(self.values, at, side) for side in ("left", "right"))
        return np.asarray(0.5 * (total[left] + total[right]) / self.rows)

    def share_at_most(self, at: np.ndarray) -> np.ndarray:
        """The share of values at most each of ``at`` (n,): the empirical distribution function."""
        total = np.append(0.0, np.cumsum(self.weights))
        return np.asarray(total[np.searchsorted(self.values, at, "right")] / self.rows)
