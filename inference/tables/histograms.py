"""How the values of a column are spread in both tables, for a small picture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.weighted import weighted_quantiles
from ..io.types import Column

#: Bins at most.
BINS = 40
#: The share of rows at each end that is counted into the last bin.
TAIL = 0.005


class Histogram(NamedTuple):
    """Shares of rows in bins; what is beyond the last ones is counted into them.

    Attributes:
        edges: (b + 1,), of the bins.
        shares: (2, b), among the rows of each table that have a value.
    """

    edges: np.ndarray
    shares: np.ndarray


def histogram(column: Column, rows: int, weights: np.ndarray) -> Histogram | None:
    """Count the values of numbers and dates, and the lengths of texts; ``None`` of others.

    Args:
        column: of both tables.
        rows: of the first table.
        weights: (N,), how many rows each row counts for.
    """
    values = column.values
    if column.kind == "text":
        values = column.lengths
    elif column.kind not in ("number", "integer", "datetime"):
        return None
    there = ~np.isnan(values) & (weights > 0.0)
    known = values[there]
    if not len(known) or known.min() == known.max():
        return None
    edges = _edges(known, weights[there])
    index = np.searchsorted(edges, values, side="right") - 1
    index = index.clip(0, len(edges) - 2)
    shares = []
    for part in (slice(None, rows), slice(rows, None)):
        there = ~np.isnan(values[part])
        counts = np.bincount(
            index[part][there], weights=weights[part][there], minlength=len(edges) - 1
        )
        shares.append(counts / max(counts.sum(), 1.0))
    return Histogram(edges, np.array(shares))


def _edges(known: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Equally far apart in the central part, around whole numbers or as many for each bin."""
    low, high = weighted_quantiles(known, weights, (TAIL, 1.0 - TAIL), method="inverted_cdf")
    if low == high:
        low, high = known.min(), known.max()
    if (known == np.floor(known)).all():
        low, high = np.floor(low), np.ceil(high)
        step = np.ceil((high - low + 1.0) / BINS)
        return np.arange(low - 0.5, high + step, step)
    return np.linspace(low, high, BINS + 1)
