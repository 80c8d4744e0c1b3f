"""The kernel matrix of pooled rows by its eigenvalues, and every labelling along its eigenvectors.

The centred matrix of a kernel at all rows, ``Q = H K H``, has eigenvalues ``lambda`` and
eigenvectors ``U``; with standardised labels y (mean 0, mean square 1) everything about a difference
at that scale follows from ``lambda`` and ``b = U'y``. Of many rows K is taken at nodes (Nystrom),
chosen without looking at labels, and rows are gone through in blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from bke.models.arrays.seeding import spread_seeds
from scipy.spatial.distance import cdist

from .relabelled import Relabelled

#: Eigenvalues of the kernel at its nodes below this, over the largest, are rounding.
RESOLUTION = 1e-10
#: Pairs to each eigenfunction whose covariance they tell.
PAIRS_EACH = 5


class Spectrum(NamedTuple):
    """Eigenvalues of the centred kernel matrix, and the labels along its eigenvectors.

    Eigenfunctions f, with ``K(x, z) = sum_i f_i(x) f_i(z)`` once centred, are
    ``k(x, nodes) @ root @ turn - mean``.

    Attributes:
        values: (r,), lambda > 0.
        loadings: (r, 1 + B), ``sqrt(lambda) U'y`` for every labelling.
        root: (nodes, q), see above.
        turn: (q, r), see above.
        mean: (r,), see above: over all rows.
    """

    values: np.ndarray
    loadings: np.ndarray
    root: np.ndarray
    turn: np.ndarray
    mean: np.ndarray


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


def kernel(first: np.ndarray, second: np.ndarray, lengthscale: float) -> np.ndarray:
    """The squared exponential between points (k, D) and (l, D)."""
    return np.asarray(np.exp(-0.5 / lengthscale**2 * cdist(first, second, "sqeuclidean")))


def spectrum(rows: Relabelled, at: np.ndarray, lengthscale: float) -> Spectrum:
    """Decompose the centred kernel matrix at a lengthscale, by ``at``, the nodes."""
    own, vectors = scipy.linalg.eigh(kernel(at, at, lengthscale), driver="evd")
    kept = own > own[-1] * RESOLUTION
    root = vectors[:, kept] / np.sqrt(own[kept])
    if rows.partners is not None:
        return _of_pairs(rows, rows.partners, at, lengthscale, root)
    rank, labellings = root.shape[1], rows.first.shape[1]
    total, within = np.zeros(rank), np.zeros((rank, rank))
    first = np.zeros((rank, labellings))
    for block in rows.blocks():
        features = kernel(rows.points[block], at, lengthscale) @ root
        weighted = features * rows.counts[block, None]
        total += weighted.sum(axis=0)
        within += features.T @ weighted
        first += features.T @ rows.first[block].astype(float)
    return decomposed(root, within, total, first, rows.rows, rows.share)


def _of_pairs(
    rows: Relabelled, partners: np.ndarray, at: np.ndarray, lengthscale: float, root: np.ndarray
) -> Spectrum:
    """Decompose what pairs tell of the same difference, whose errors are those of pairs.

    Along eigenfunctions e the sum of ``e(z) - e(z')`` over pairs has the mean ``lambda c`` as for
    independent rows, c being the coefficient of the difference there, but the covariance ``T =
    sum (e(z) - e(z')) (e(z) - e(z'))'``, which swaps do not change; that of independent rows is
    lambda. So eigenvalues are those of ``lambda T^-1 lambda``. Few enough eigenfunctions are kept
    for T to be well determined.
    """
    features = kernel(rows.points, at, lengthscale) @ root
    mean = features.mean(axis=0)
    products = features.T @ features - len(features) * np.outer(mean, mean)
    within, vectors = scipy.linalg.eigh(products, driver="evd")
    kept = np.flatnonzero(within > within[-1] * RESOLUTION)[-max(1, len(partners) // PAIRS_EACH) :]
    within, vectors = within[kept], vectors[:, kept]
    apart = (features[partners[:, 0]] - features[partners[:, 1]]) @ vectors
    spread = apart.T @ apart
    spread[np.diag_indices(len(spread))] += RESOLUTION * max(np.trace(spread), within[-1])
    signs = 2.0 * rows.first[partners[:, 0]] - 1.0
    whitened = within[:, None] * scipy.linalg.inv(spread)
    values, turn = scipy.linalg.eigh(whitened * within, driver="evd")
    loadings = turn.T @ (whitened @ (apart.T @ signs))
    turn = vectors @ turn
    kept = np.flatnonzero(values > values[-1] * RESOLUTION)
    return Spectrum(values[kept], loadings[kept], root, turn[:, kept], turn[:, kept].T @ mean)


def decomposed(
    root: np.ndarray,
    within: np.ndarray,
    total: np.ndarray,
    first: np.ndarray,
    rows: int,
    share: float,
) -> Spectrum:
    """Decompose what sums over rows tell of features ``k(., nodes) @ root``.

    Args:
        root: (nodes, q).
        within: (q, q), the sum of their products.
        total: (q,), their sum.
        first: (q, 1 + B), their sum over the first sample, for every labelling.
        rows: how many there are.
        share: of the first sample.
    """
    values, turn = scipy.linalg.eigh(within - np.outer(total, total) / rows, driver="evd")
    kept = values > values[-1] * RESOLUTION
    values, turn = values[kept], turn[:, kept]
    deviation = np.sqrt(share * (1.0 - share))
    loadings = turn.T @ ((first - share * total[:, None]) / deviation)
    return Spectrum(values, loadings, root, turn, turn.T @ total / rows)
