"""Evidence that means differ: how far they are apart, in standard deviations of the columns.

Kernels hear a shift at long lengthscales, as one scale of many; here it is heard by itself.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..relabelling.permutation import without_rounding
from ..relabelling.relabelled import Relabelled
from .asked import Asked, Sums, answered


def means(rows: Relabelled) -> np.ndarray:
    """Evaluate the squared distance of the samples' means for every labelling, (1 + B,).

    Args:
        rows: the pooled rows with their relabellings.
    """
    return answered(means_asked(rows), rows)


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of rows as they are, counted from a centre (D,)."""

    centre: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate columns (k, D) of rows (k, D)."""
        return np.asarray(points - self.centre)


def means_asked(rows: Relabelled) -> Asked[np.ndarray]:
    """Ask for what :func:`means` tells."""
    chosen = rows.choosing
    centre = chosen.counts @ chosen.points / chosen.rows
    spread = float(chosen.counts @ np.square(chosen.points - centre).sum(axis=1)) / chosen.rows

    def told(sums: Sums) -> np.ndarray:
        apart = rows.apart(sums.of_labels, sums.of_counts)
        return without_rounding(np.square(apart).sum(axis=0), spread)

    return Asked(Columns(centre), len(centre), told)
