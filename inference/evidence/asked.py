"""Sums of features over rows: what a statistic asks of them, and what it makes of the answer.

Statistics choose where they look by a part of the rows, ask for sums of features over all of them
and over those of each bin or labelling, and have then seen enough: rows may be anywhere, and are
gone through once for whatever is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ..permutation.relabelled import LabelSums, Relabelled

T = TypeVar("T")


class Features(Protocol):
    """Features of rows; it can be pickled, to be taken where rows are."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate features (r, k) of rows (r, D)."""


class Sums(NamedTuple):
    """Sums of features over rows.

    Attributes:
        of_labels: (k, 1 + B), with every labelling.
        of_counts: (k,), over all.
        of_measures: (b + 1, k), with the columns of :attr:`Relabelled.measures`, and
            :attr:`Relabelled.evenly`; zero unless squares are asked for.
        of_squares: (b + 1, k), of their squares likewise; zero unless they are asked for.
    """

    of_labels: np.ndarray
    of_counts: np.ndarray
    of_measures: np.ndarray
    of_squares: np.ndarray


class Asked(NamedTuple, Generic[T]):
    """Sums that a statistic asks for.

    Attributes:
        features: of rows.
        width: k, how many.
        told: what the sums tell.
        squares: whether sums of their squares are needed.
    """

    features: Features
    width: int
    told: Callable[[Sums], T]
    squares: bool = False


def answered(asked: Asked[T], rows: Relabelled) -> T:
    """Go through rows in memory, and tell what a statistic asks for."""
    rows = rows.in_bins
    in_bins = rows.bins is not None
    each = rows.measures[0] if asked.squares else np.zeros((1, 0))
    if asked.squares and not in_bins:
        each = np.column_stack([each, rows.evenly])
    of_labels = LabelSums(rows, asked.width)
    of_counts = np.zeros(asked.width)
    sums, squares = np.zeros((2, each.shape[1], asked.width))
    for block in rows.blocks():
        features = asked.features(rows.points[block])
        of_counts += rows.counts[block] @ features
        of_labels.add(block, features)
        if asked.squares:
            own = each[block].T
            if not in_bins:
                sums += own @ features
            squares += own @ np.square(features, out=features)
    found = of_labels.found()
    if asked.squares and in_bins:
        return asked.told(summed_in_bins(rows, found, of_counts, squares))
    return asked.told(Sums(found, of_counts, sums, squares))


def summed_in_bins(
    rows: Relabelled, of_labels: np.ndarray, of_counts: np.ndarray, squares: np.ndarray
) -> Sums:
    """Sums over rows in bins by fewer: the first labelling is that of the samples as they are.

    Every row is a point of its own, so that all are weighed alike.

    Args:
        rows: the rows.
        of_labels: see :class:`Sums`.
        of_counts: likewise.
        squares: (2, k), over all rows and over those of the first sample.
    """
    even = 1.0 / rows.rows
    return Sums(
        of_labels,
        of_counts,
        np.stack([of_counts, of_labels[:, 0], even * of_counts]),
        np.concatenate([squares, even * squares[:1]]),
    )
