"""Distances between rows, and the lengthscales that they suggest."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from ..data.canonical import random_part

#: Rows whose distances give the median and the bandwidth_grid.
DISTANCE_ROWS = 1000
#: Lengthscales of the bandwidth_grid, from half a small quantile of the distances to a large one.
RUNGS = 12
LADDER = (0.05, 0.95)


def pairwise_distances(points: np.ndarray, seed: int) -> np.ndarray:
    """Distances between some rows, zeros left out; between different rows where all are zero.

    Args:
        points: (N, D) in canonical order.
        seed: of the rows taken, where there are many.

    Returns:
        (k,), of every pair of the rows taken.
    """
    distances = pdist(random_part(points, DISTANCE_ROWS, seed))
    if not distances.any():
        distances = pdist(random_part(np.unique(points, axis=0), DISTANCE_ROWS, seed))
    return np.asarray(distances[distances > 0.0])


def bandwidth_grid(points: np.ndarray, seed: int) -> np.ndarray:
    """Lengthscales (:data:`RUNGS`,) for scaled points (N, D), short to long."""
    low, high = np.quantile(pairwise_distances(points, seed), LADDER)
    return np.geomspace(0.5 * low, high, RUNGS)
