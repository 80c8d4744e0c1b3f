"""Conformal p-values of rows by their scores, from counts in bins: bounded memory, exact with ties.

A row's p-value is its rank among all rows seen before and itself, ties broken at random. If these
are exchangeable, p-values of one score are independent and uniform, whatever the score and however
coarse its bins (Vovk, Gammerman and Shafer 2005, theorem 2).
"""

from __future__ import annotations

import dataclasses

import numpy as np

#: Bins of a score, whose indices fit a byte: pairs of rows are compared several times as fast.
BINS = 128
#: Rows that are ranked in one go.
TOGETHER = 32


@dataclasses.dataclass
class Ranks:
    """Where scores fall among those seen before.

    Attributes:
        edges: (J, BINS - 1) ascending, between bins; infinite beyond the last.
        counts: (J, BINS) of rows in each bin so far.
    """

    edges: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray) -> Ranks:
        """Choose the bins by scores (n, J) of rows that are not ranked."""
        edges = np.full((scores.shape[1], BINS - 1), np.inf)
        for one, column in zip(edges, scores.T, strict=True):
            between = _edges(column)
            one[: len(between)] = between
        return cls(edges, np.zeros((scores.shape[1], BINS), dtype=np.int64))

    def bins(self, scores: np.ndarray) -> np.ndarray:
        """The bins (n, J) of scores (n, J)."""
        found = np.empty(scores.shape, dtype=np.int8)
        for column, edges in enumerate(self.edges):
            found[:, column] = np.searchsorted(edges, scores[:, column], side="right")
        return found

    def add(self, bins: np.ndarray) -> None:
        """Count rows with these bins (n, J) without ranking them."""
        for counts, column in zip(self.counts, bins.T, strict=True):
            counts += np.bincount(column, minlength=BINS)

    def pvalues(self, bins: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Rank rows one after the other and count them: p-values (n, J), large scores small ones.

        Args:
            bins: (n, J), n at most ``TOGETHER``.
            uniform: (n, J) on [0, 1), that break ties.
        """
        columns = np.arange(bins.shape[1])
        at_least = np.cumsum(self.counts[:, ::-1], axis=1)[:, ::-1]
        equal = self.counts[columns, bins]
        above = at_least[columns, bins] - equal
        if len(bins) > 1:
            before = np.tri(len(bins), k=-1, dtype=bool)[:, :, np.newaxis]
            above = above + _pairs((bins > bins[:, np.newaxis]) & before)
            equal = equal + _pairs((bins == bins[:, np.newaxis]) & before)
        seen = at_least[:, 0] + np.arange(1, len(bins) + 1)[:, np.newaxis]
        self.add(bins)
        return np.asarray((above + uniform * (equal + 1)) / seen)


def _pairs(held: np.ndarray) -> np.ndarray:
    """For how many rows of the second axis it holds; a byte has room for ``TOGETHER``."""
    return np.asarray(held.view(np.int8).sum(axis=1, dtype=np.int8))


def _edges(column: np.ndarray) -> np.ndarray:
    """Where bins of about equal shares meet, or between values where these are few."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) > BINS:
        at = np.searchsorted(np.cumsum(counts), np.arange(1, BINS) / BINS * counts.sum())
        return np.unique(values[at])
    return np.asarray(values[1:])
