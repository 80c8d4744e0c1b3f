"""Pairwise distances of rows, and the bandwidth grid that they suggest; imported without JAX."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from ..data.canonical import random_part
from ..data.equality import positive_distances


def pairwise_distances(points: np.ndarray, seed: int, *, max_rows: int = 1000) -> np.ndarray:
    """Return the distances between rows of a random subsample that are larger than rounding.

    If all distances of the subsample are zero, distinct rows are sampled instead.

    Args:
        points: (N, D) in canonical order.
        seed: seed of the subsample.
        max_rows: size of the subsample; not tuned.

    Returns:
        (k,), one for each pair of different rows.
    """
    distances = pdist(random_part(points, max_rows, seed))
    if not distances.any():
        distances = pdist(random_part(np.unique(points, axis=0), max_rows, seed))
    return positive_distances(distances, points)


def bandwidth_grid(
    points: np.ndarray,
    seed: int,
    *,
    count: int = 12,
    quantiles: tuple[float, float] = (0.05, 0.95),
) -> np.ndarray:
    """Return a geometric grid of lengthscales for scaled points, ascending.

    Args:
        points: (N, D) in canonical order, each column over its scale.
        seed: seed of the subsample whose distances are taken.
        count: number of lengthscales; not tuned.
        quantiles: the grid goes from half the first quantile of the pairwise distances to the
            second; not tuned.

    Returns:
        (count,).
    """
    low, high = np.quantile(pairwise_distances(points, seed), quantiles)
    return np.geomspace(0.5 * low, high, count)
