"""The kernel matrix of pooled rows by its eigenvalues, and every labelling along its eigenvectors.

The centred matrix of a kernel at all rows, ``Q = H K H``, has eigenvalues ``lambda`` and
eigenvectors ``U``; with standardised labels y (mean 0, mean square 1) everything about a difference
at that scale follows from ``lambda`` and ``b = U'y``. Of many rows K is taken at nodes (Nystrom),
chosen without looking at labels, and rows are gone through in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg
from bke.models.arrays.seeding import spread_seeds
from scipy.spatial.distance import cdist

from ..relabelling.relabelled import Relabelled
from .decomposition import RESOLUTION, Noise, Spectrum, decomposed, of_pairs, of_weights

#: A kernel between points (k, D) and (l, D) at a lengthscale: (k, l).
Values: TypeAlias = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def nodes(rows: Relabelled, most: int) -> np.ndarray:
    """Where kernels are taken at, (k, D): quantiles of one column, or rows that are spread."""
    points = rows.points
    if len(points) <= most:
        return points
    if points.shape[1] == 1:
        below = (np.cumsum(rows.counts) - 0.5 * rows.counts) / rows.rows
        return np.unique(np.interp((np.arange(most) + 0.5) / most, below, points[:, 0]))[:, None]
    rng = np.random.default_rng(0)
    part = np.sort(rng.choice(len(points), min(len(points), 8 * most), replace=False))
    spread = part[spread_seeds(points[part], most // 2, rng)]
    others = rng.choice(part, most - most // 2, replace=False)
    return np.asarray(points[np.unique(np.concatenate([spread, others]))])


def kernel(first: np.ndarray, second: np.ndarray, lengthscale: float | np.ndarray) -> np.ndarray:
    """The squared exponential between points (k, D), with lengths (k, 1), and (l, D)."""
    return np.asarray(np.exp(-0.5 / lengthscale**2 * cdist(first, second, "sqeuclidean")))


def spectrum(
    rows: Relabelled, at: np.ndarray, lengthscale: float, values: Values = kernel
) -> Spectrum:
    """Decompose the centred matrix of a kernel at a lengthscale, by ``at``, the nodes."""
    own, vectors = scipy.linalg.eigh(values(at, at, lengthscale), driver="evd")
    kept = own > own[-1] * RESOLUTION
    root = vectors[:, kept] / np.sqrt(own[kept])
    if rows.partners is not None:
        features = values(rows.points, at, lengthscale) @ root
        first, second = (features[one] for one in rows.partners.T)
        return of_pairs(root, first, second, 2.0 * rows.labels[rows.partners[:, 0]] - 1.0)
    rank, labellings = root.shape[1], rows.labels.shape[1]
    total, within = np.zeros(rank), np.zeros((rank, rank))
    of_labels = np.zeros((rank, labellings))
    noise = own_noise = Noise.none(rank)
    for block in rows.blocks():
        features = values(rows.points[block], at, lengthscale) @ root
        each = features * rows.counts[block, None]
        total += each.sum(axis=0)
        within += features.T @ each
        of_labels += features.T @ rows.labels[block].astype(float)
        if rows.weighted:
            noise = noise.plus(features, rows.weights[block], rows.expected[block])
            own_noise = own_noise.plus(features, rows.weights[block], rows.squares[block])
    apart = rows.apart(of_labels, total)
    if rows.weighted:
        return of_weights(root, within, total, apart, noise, own_noise)
    return decomposed(root, within, total, apart, rows.rows, rows.shares)
