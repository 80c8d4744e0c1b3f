"""Bins of scores, by which rows are ranked in bounded memory."""

from __future__ import annotations

import numpy as np

#: Bins of a score, whose indices fit a byte.
BINS = 128
#: Shares of rows below the first edges, and above the last: far rows are told apart better.
TAILS = np.array([0.0005, 0.001, 0.002, 0.003, 0.004, 0.006])
WITHIN = 0.008


def edges_of(scores: np.ndarray) -> np.ndarray:
    """Choose where bins of scores (n, J), in single precision, meet.

    What is beyond the smallest and the largest has bins of its own. Others have about equal shares
    of the rows, but narrower ones at both ends, or are the values themselves, where these are few.

    Returns:
        (J, BINS - 1) ascending, infinite beyond the last.
    """
    found = np.full((scores.shape[1], BINS - 1), np.inf, dtype=np.float32)
    between = BINS - 3 - 2 * len(TAILS)
    shares = np.concatenate([TAILS, np.linspace(WITHIN, 1.0 - WITHIN, between), 1.0 - TAILS[::-1]])
    for one, column in zip(found, scores.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        ends = [values[0], np.nextafter(values[-1], np.float32(np.inf))]
        if len(values) > BINS - 2:
            values = values[np.searchsorted(np.cumsum(counts), shares * counts.sum())]
        edges = np.unique(np.append(values, ends))
        one[: len(edges)] = edges
    return found


def binned(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Find the bins (n, J) of scores (n, J), of the edges' precision."""
    found = np.empty(scores.shape, dtype=np.int8)
    for column, of in enumerate(edges):
        found[:, column] = np.searchsorted(of, scores[:, column], side="right")
    return found


def counts_of(bins: np.ndarray) -> np.ndarray:
    """Count rows in bins (n, J): (J, BINS)."""
    return np.stack([np.bincount(column, minlength=BINS) for column in bins.T])
