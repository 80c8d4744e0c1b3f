"""Evidence that one sample is further along the columns: its rows' normal scores are larger.

Kernels hear a shift at long lengthscales, as one scale of many; here it is heard by itself. In
place of its value a row has that quantile of the standard normal distribution at which it is in
the order of the column (van der Waerden's scores; Hajek, Sidak and Sen 1999, section 4.1): of
normal rows as powerful as a comparison of means, and of rows with heavy tails or a skew more so.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.special import ndtri

from ..permutation.permutation import without_rounding
from ..permutation.relabelled import Relabelled
from .asked import Asked, Sums, answered

#: Values of a column at most at which scores are evaluated; between them they are interpolated.
MOST_VALUES = 4096


def location(rows: Relabelled) -> np.ndarray:
    """Evaluate the squared distance of the samples' mean scores for every labelling, (1 + B,).

    Args:
        rows: the pooled rows with their relabellings.
    """
    return answered(location_asked(rows), rows)


def normal_scores(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate the normal quantile of the middle rank of different values.

    Args:
        values: (C,).
        counts: (C,), of their rows.

    Returns:
        Values in order and their scores, (k,) each: of very many those evenly spaced in rank, of
        which those that many rows have are some.
    """
    distinct, which = np.unique(values, return_inverse=True)
    weight = np.bincount(which, weights=counts, minlength=len(distinct))
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    if len(distinct) > MOST_VALUES:
        even = np.searchsorted(middle, (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES)
        kept = np.unique(np.concatenate([[0], even, [len(distinct) - 1]]))
        distinct, middle = distinct[kept], middle[kept]
    return distinct, ndtri(middle)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Normal scores of rows, column by column.

    Attributes:
        known: of each column values in order and their scores, (k,) each.
    """

    known: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def of(cls, points: np.ndarray, counts: np.ndarray) -> Scores:
        """The scores of points (C, D) with the counts (C,) of their rows."""
        return cls(tuple(normal_scores(column, counts) for column in points.T))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate scores (r, D) of rows (r, D)."""
        return np.stack(
            [np.interp(column, *one) for column, one in zip(points.T, self.known, strict=True)],
            axis=1,
        )


def location_asked(rows: Relabelled) -> Asked[np.ndarray]:
    """Ask for what :func:`location` tells."""
    chosen = rows.choosing
    dimension = chosen.points.shape[1]

    def told(sums: Sums) -> np.ndarray:
        apart = rows.apart(sums.of_labels, sums.of_counts)
        return without_rounding(np.square(apart).sum(axis=0), float(dimension))

    return Asked(Scores.of(chosen.points, chosen.counts), dimension, told)
