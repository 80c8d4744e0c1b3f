"""Rows that are far from each other, as starts of clusters: the seeding of k-means++."""

from __future__ import annotations

import numpy as np


def kmeans_plusplus(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows, each by its squared distance to the nearest of those before it.

    The seeding of k-means++ (Arthur and Vassilvitskii, 2007). One whole number and one uniform
    number per further row are taken from ``rng``.

    Args:
        rows: (n, D), each column over its unit.
        count: how many; fewer where there are fewer different rows.
        rng: of the draws.

    Returns:
        Indices of different rows, (count,) or fewer.
    """
    chosen = [int(rng.integers(len(rows)))]
    squared = np.sum((rows - rows[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count and squared.any():
        total = np.cumsum(squared)
        place = np.searchsorted(total, rng.uniform() * total[-1], "right")
        # Rounding may put the place behind the last row that is left.
        new = min(int(place), int(np.flatnonzero(squared)[-1]))
        chosen.append(new)
        squared = np.minimum(squared, np.sum((rows - rows[new]) ** 2, axis=1))
    return np.array(chosen)
