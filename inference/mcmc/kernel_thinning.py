"""Kernel thinning by goodpoints, with any kernel, and of many rows after Compress++."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .draws import evenly

#: Of two arrays of points.
OfPoints: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
#: Failure probability of kernel thinning's guarantee.
DELTA = 0.5


def kernel_thinned(
    kernel: OfPoints,
    points: np.ndarray,
    count: int,
    most: int,
    seed: int,
) -> np.ndarray:
    """Choose ``count`` rows of (n, D) whose mean embedding is near that of all.

    Args:
        kernel: of two arrays of points.
        points: all of them.
        count: how many.
        most: rows of a Gram matrix; more are compressed first.
        seed: of the halvings.
    """
    from goodpoints import kt

    kept = np.arange(len(points))
    if len(points) > most:
        kept = _compressed(kernel, points, count, most, seed)
    rounds = int(math.log2(len(kept) / count))
    if rounds:
        kept = kept[evenly(len(kept), count * 2**rounds)]
        gram = kernel(points[kept], points[kept])
        return np.asarray(kept[kt.thin_K(gram, gram, rounds, delta=DELTA, seed=seed, unique=True)])
    gram = kernel(points[kept], points[kept])
    return np.asarray(kept[kt.refine_K(gram, evenly(len(kept), count), unique=True)])


def _compressed(
    kernel: OfPoints,
    points: np.ndarray,
    count: int,
    most: int,
    seed: int,
) -> np.ndarray:
    """So many rows that at least ``count`` are left, by halvings of small parts."""
    from goodpoints import compress, kt

    size = compress.largest_power_of_four(len(points))
    kept = evenly(len(points), size)
    root = math.isqrt(size)
    # As many as kernel thinning can choose from.
    oversampling = int(math.log2(max(most / root, 1.0)))
    seeds = np.random.default_rng([seed, 19])

    def halve(some: np.ndarray) -> np.ndarray:
        gram = kernel(some, some)
        return np.asarray(kt.halve_K(gram, delta=DELTA, seed=int(seeds.integers(2**31)))[0])

    symmetric = compress.symmetrize(halve, seed=int(seeds.integers(2**31)))
    return np.asarray(kept[compress.compress(points[kept], symmetric, oversampling)])
