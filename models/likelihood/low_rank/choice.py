"""Landmarks for the Nystrom approximation: centres of clusters, or all rows."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2

from ...linalg.clustering import kmeans_plusplus

#: Rows, drawn at random, from which centres are found.
MOST_ROWS = 20_000
ITERATIONS = 5


def spread_rows(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Find ``count`` places (count, D) spread like (n, D) ``points``, whose order does not matter.

    A few steps of k-means from k-means++ starts (Arthur and Vassilvitskii, 2007), every column over
    its standard deviation; where there are not more different rows than that, these themselves. On
    samples of 2000 rows in 10 columns what 300 centres leave of the trace of R is three quarters of
    what 300 random rows do; pivots of a Cholesky factorisation, drawn by what is left, are in
    between, and greedy ones no better than random rows. Zhang, Tsang and Kwok (2008) bound the
    error of the Nystrom approximation by that of the clustering.
    """
    different = np.unique(points, axis=0)  # sorted
    if count >= len(different):
        return different
    scale = points.std(axis=0)
    scale[scale == 0.0] = 1.0
    rows = different / scale
    if len(rows) > MOST_ROWS:
        rows = rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]
    starts = rows[kmeans_plusplus(rows, count, rng)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cluster that loses its rows keeps its place
        centres, _ = kmeans2(rows, starts, iter=ITERATIONS, minit="matrix")
    return np.asarray(centres * scale)
