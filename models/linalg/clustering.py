"""Cluster centers by k-means, and its seeding."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2


def kmeans_plusplus(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Choose seeds of k-means at random by k-means++ (Arthur and Vassilvitskii, 2007).

    The first row is drawn uniformly, with one integer from ``rng``; every other one with
    probability proportional to its squared distance from the nearest row drawn before, with one
    uniform number. ``scipy.cluster.vq.kmeans2(minit="++")`` does not return the seeds themselves.

    Args:
        rows: shape (n, D), each column over its scale.
        count: number of seeds; fewer are drawn where there are fewer distinct rows.
        rng: random generator.

    Returns:
        Indices of distinct rows, shape (count,) or shorter.
    """
    chosen = [int(rng.integers(len(rows)))]
    squared = np.sum((rows - rows[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count and squared.any():
        total = np.cumsum(squared)
        index = np.searchsorted(total, rng.uniform() * total[-1], "right")
        # Rounding may put the index behind the last row with a positive distance.
        new = min(int(index), int(np.flatnonzero(squared)[-1]))
        chosen.append(new)
        squared = np.minimum(squared, np.sum((rows - rows[new]) ** 2, axis=1))
    return np.array(chosen)


def kmeans_centers(
    rows: np.ndarray, count: int, rng: np.random.Generator, *, iterations: int = 10
) -> np.ndarray:
    """Compute the centers of k-means clusters from k-means++ seeds, shape (count, D) or shorter."""
    seeds = rows[kmeans_plusplus(rows, count, rng)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cluster without rows keeps its center
        centers, _ = kmeans2(rows, seeds, iter=iterations, minit="matrix")
    return np.asarray(centers)


def column_scale(points: np.ndarray) -> np.ndarray:
    """Return the standard deviation of every column of (n, D) ``points``, 1 for a constant one."""
    # Squares of 1e-200 would be zero. Division by a power of two changes no digit.
    extent = 2.0 ** np.frexp(np.ptp(points, axis=0))[1]
    scale = extent * (points / extent).std(axis=0)
    scale[scale == 0.0] = 1.0
    return np.asarray(scale)
