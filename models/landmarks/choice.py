"""Where to put landmarks: at the centres of clusters."""

from __future__ import annotations

import operator

import numpy as np
from jax.typing import ArrayLike
from scipy.cluster.vq import kmeans2
from scipy.spatial import cKDTree

from ..kernels.base import as_points
from ..linalg.precision import double_precision
from ..linalg.seeding import spread_seeds

#: Rows, drawn at random, from which centres are found.
MOST_ROWS = 20_000
#: A landmark is kept this share of the way to its nearest neighbour off any observation.
OFF = 0.1


@double_precision
def choose_landmarks(X: ArrayLike, count: int, *, seed: int = 0) -> np.ndarray:
    """Find ``count`` centres (count, D) of clusters of (n, D) data, none of several on a row.

    k-means from k-means++ starts (Arthur and Vassilvitskii, 2007), on up to 20 000 rows with every
    column over its standard deviation. A centre on an observation, as of a cluster of one, has no
    gradient there: it is moved a little towards the next centre.

    Raises:
        ValueError: where ``count`` is no whole number, below D, or above the number of different
            rows.
    """
    points = np.asarray(as_points(X))
    try:
        count = operator.index(count)
    except TypeError:
        raise ValueError(f"count must be a whole number, got {count!r}") from None
    dimension = points.shape[1]
    rng = np.random.default_rng(seed)
    rows = looked_at(points, rng)
    different = len(np.unique(rows, axis=0))
    if not dimension <= count <= different:
        raise ValueError(
            f"count must be at least {dimension}, one for each column, and at most {different}, "
            f"the number of different rows among the {len(rows)} looked at, got {count}"
        )
    # Squares of 1e-200 would be zero. By powers of two, which change no digit.
    extent = 2.0 ** np.frexp(np.ptp(points, axis=0))[1]
    scale = extent * (points / extent).std(axis=0)
    scale[scale == 0.0] = 1.0
    starts = (rows / scale)[spread_seeds(rows / scale, count, rng)]
    centres, _ = kmeans2(rows / scale, starts, minit="matrix")
    if count > 1:
        gap, nearest = (np.asarray(each) for each in cKDTree(centres).query(centres, k=[2]))
        off, _ = cKDTree(points / scale).query(centres)
        on_data = off < 1e-3 * gap[:, 0]
        centres[on_data] += OFF * (centres[nearest[on_data, 0]] - centres[on_data])
    return np.asarray(centres * scale)


def looked_at(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the rows from which centres are found, all where they are few."""
    n = len(points)
    return points if n <= MOST_ROWS else points[rng.choice(n, MOST_ROWS, replace=False)]
