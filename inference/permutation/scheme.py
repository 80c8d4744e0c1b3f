"""Permutation schemes: rearrangements of data that are equally probable under a null hypothesis.

The names are those of :func:`scipy.stats.permutation_test`, and ``"signs"`` for sign flips. A test
that compares its statistic with those of rearrangements drawn from a scheme has an exact level,
whatever the statistic (Hemerik and Goeman 2018, theorem 2); with ``"signs"`` only if the errors are
symmetric.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, Self, TypeAlias

import numpy as np

PermutationType: TypeAlias = Literal["independent", "samples", "pairings", "signs"]
#: Largest number of labels that are drawn one by one; otherwise counts are drawn for tied rows.
MAX_LABELS = 2**28
#: Number of units from which permutations are counted as if no more could move. Those of a hundred
#: units are enough for every level.
MAX_COUNTED = 100


@dataclasses.dataclass(frozen=True)
class PermutationScheme:
    """A set of rearrangements of units: rows, clusters of rows, pairs, or bins of rows.

    Attributes:
        permutation_type: ``"independent"``, where the labels of units are permuted, within strata
            if there are any; ``"samples"``, where the two rows of a pair exchange their labels;
            ``"pairings"``, where units of y are matched anew with those of x; or ``"signs"``, where
            the signs of errors are flipped.
        n_units: number of units.
        labels: (M,) of whole numbers, such as 1 for units of the first sample and 0 for others;
            ``"independent"`` only.
        strata: (M,), stratum of each unit; ``None`` for a single stratum. A unit that is alone in
            its stratum keeps its label.
    """

    permutation_type: PermutationType
    n_units: int
    labels: np.ndarray | None = None
    strata: np.ndarray | None = None

    @classmethod
    def independent(cls, labels: np.ndarray, strata: np.ndarray | None = None) -> Self:
        """Permute labels (M,), truth values or whole numbers, within strata (M,)."""
        dtype = np.int8 if labels.max(initial=0) <= np.iinfo(np.int8).max else np.int64
        return cls("independent", len(labels), labels.astype(dtype), strata)

    @property
    def n_distinct(self) -> int:
        """Number of distinct rearrangements, up to the names of two samples or the sign of all.

        More than :data:`MAX_COUNTED` units, in the smaller sample if there are two, are counted as
        that many.
        """
        if self.permutation_type == "pairings":
            return math.factorial(min(self.n_units, MAX_COUNTED))
        if self.permutation_type != "independent":
            return 2 ** (min(self.n_units, MAX_COUNTED) - 1)
        assert self.labels is not None
        is_first = self.labels == self.labels.max()
        stratum = np.zeros(self.n_units, dtype=int)
        if self.strata is not None:
            stratum = np.unique(self.strata, return_inverse=True)[1]
        sizes = np.stack([np.bincount(stratum, rows) for rows in (is_first, ~is_first)], axis=1)
        pairs = sizes.astype(int).tolist()
        count = math.prod(math.comb(m + n, min(m, n, MAX_COUNTED)) for m, n in pairs)
        return count // 2 if (sizes[:, 0] == sizes[:, 1]).all() else count

    def draw(self, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rearrangements, each with the same probability.

        Returns:
            (M, B): labels of the units, or 1 and 0 for the first row of each pair; for
            ``"pairings"`` the indices of units; for ``"signs"`` 1 and -1.
        """
        match self.permutation_type:
            case "independent":
                return self._draw_labels(n_resamples, rng)
            case "samples":
                return 1 - rng.integers(2, size=(self.n_units, n_resamples), dtype=np.int8)
            case "pairings":
                units = np.tile(np.arange(self.n_units), (n_resamples, 1))
                return rng.permuted(units, axis=1, out=units).T
            case "signs":
                flips = rng.integers(2, size=(self.n_units, n_resamples), dtype=np.int8)
                return 1 - 2 * flips

    def _draw_labels(self, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
        """Permute labels within strata. A row of the array in memory is one permutation."""
        assert self.labels is not None
        labels = np.tile(self.labels, (n_resamples, 1))
        strata = np.zeros(self.n_units, dtype=int) if self.strata is None else self.strata
        _, stratum, sizes = np.unique(strata, return_inverse=True, return_counts=True)
        if len(sizes) == 1:
            rng.permuted(labels, axis=1, out=labels)
        elif np.count_nonzero(sizes > 1) == 1:
            free = np.flatnonzero(sizes[stratum] > 1)
            labels[:, free] = rng.permuted(labels[:, free], axis=1)
        else:
            order = np.argsort(stratum, kind="stable")
            for permuted in labels:
                permuted[order] = self.labels[np.lexsort((rng.random(self.n_units), stratum))]
        return np.ascontiguousarray(labels.T)


def draw_counts(
    counts: np.ndarray, n_first: int, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw how many of the tied rows at each point are in the first sample, (C, B).

    The distribution is the same for permuted labels and for counts drawn directly.

    Args:
        counts: (C,), rows at each point.
        n_first: rows of the first sample.
        n_resamples: B.
        rng: random number generator.
    """
    n_rows = counts.sum()
    if n_rows * n_resamples > MAX_LABELS and len(counts) < n_rows:
        drawn = rng.multivariate_hypergeometric(counts, n_first, n_resamples, method="marginals")
        return np.asarray(drawn.T)
    labels = np.zeros((n_resamples, n_rows), dtype=np.int8)
    labels[:, :n_first] = 1
    rng.permuted(labels, axis=1, out=labels)
    if len(counts) == n_rows:
        return labels.T
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(labels, starts, axis=1, dtype=np.int32).T
