"""The evidence that rows as wholes have changed: the tilt with a kernel of all columns.

It is a squared exponential of features of every column, each column of variance 1.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.spatial.distance import pdist

from ..data.canonical import random_part
from ..data.equality import positive_distances
from ..evidence.decomposition import RESOLUTION, decomposed
from ..evidence.tilt import fits
from .features import Features
from .fitted import Fitted
from .labelling import Labelling

#: Nodes of the joint kernel, rows from which they and their spectrum are chosen.
NODES, SOME = 256, 20_000
#: The longest lengthscale of the joint kernel over the median distance, how many there are, each
#: half of the one before, and sizes.
LONGEST, LENGTHSCALES, SIZES = 2.0, 4, np.geomspace(1e-4, 1e2, 4)
#: Rows of which distances are taken.
ROWS = 1000


def joint(columns: list[Features | None], labelling: Labelling) -> Fitted | None:
    """Evaluate the tilt of rows as wholes at all scales; ``None`` where fewer than two vary.

    Args:
        columns: their features.
        labelling: of the rows.
    """
    used = [column for column in columns if column is not None]
    if len(used) < 2:
        return None
    rng = np.random.default_rng(0)
    chosen = random_part(np.argsort(labelling.marks, kind="stable"), SOME, 0)
    part = _positions(used, chosen)
    at = np.unique(part[kmeans_plusplus(part, min(NODES, len(part)), rng)], axis=0)
    distances = pdist(part[:: max(1, len(part) // ROWS)])
    longest = LONGEST * float(np.median(positive_distances(distances, part)))

    def kernels(rows: np.ndarray) -> np.ndarray:
        return _kernels(_positions(used, rows), at, longest)

    totals = np.split(labelling.totals(kernels), LENGTHSCALES, axis=1)
    known = np.split(_kernels(part, at, longest), LENGTHSCALES, axis=1)
    among = np.split(_kernels(at, at, longest), LENGTHSCALES, axis=1)
    weights = labelling.weights
    weight = weights[chosen] * (weights.sum() / weights[chosen].sum())
    found = [_joint(*one, weight, labelling) for one in zip(among, known, totals, strict=True)]
    return Fitted(np.concatenate(found))


def _positions(columns: list[Features], rows: np.ndarray) -> np.ndarray:
    return np.concatenate([column.positions(rows) for column in columns], axis=1)


def _kernels(points: np.ndarray, nodes: np.ndarray, longest: float) -> np.ndarray:
    """Kernels (r, k) at the longest lengthscale, then at halves of it, side by side.

    At half the lengthscale a squared exponential is its own fourth power.
    """
    count = len(nodes)
    found = np.empty((len(points), LENGTHSCALES * count))
    first = found[:, :count]
    squares = [np.einsum("ij,ij->i", one, one) for one in (points, nodes)]
    np.matmul(points, nodes.T / longest**2, out=first)
    first -= np.add.outer(squares[0], squares[1]) / (2.0 * longest**2)
    np.exp(np.minimum(first, 0.0, out=first), out=first)
    for index in range(1, LENGTHSCALES):
        last, new = (found[:, at * count : (at + 1) * count] for at in (index - 1, index))
        np.square(np.square(last, out=new), out=new)
    return found


def _joint(
    among: np.ndarray,
    known: np.ndarray,
    totals: np.ndarray,
    weight: np.ndarray,
    labelling: Labelling,
) -> np.ndarray:
    """What of log BF the labels change, at one lengthscale and all sizes, (S, 1 + B).

    Args:
        among: the kernel of the nodes (k, k).
        known: of some rows and the nodes, (r, k).
        totals: sums over every unit of that of all rows, (M, k).
        weight: (r,), how many rows each of the some stands for.
        labelling: of the units.
    """
    own, vectors = scipy.linalg.eigh(among, driver="evd")
    kept = own > own[-1] * RESOLUTION
    root = vectors[:, kept] / np.sqrt(own[kept])
    known, totals = known @ root, totals @ root
    total = weight.sum()
    first, every = labelling.sums(totals), totals.sum(axis=0)
    share = labelling.sizes / total
    between = total * share * (1.0 - share)  # 0 where weights leave a table without rows
    apart = first - share * every[:, None]
    apart = np.divide(apart, between, out=np.zeros_like(apart), where=between > 0.0)
    second = (known * weight[:, None]).T @ known
    found = decomposed(root, second, weight @ known, apart, total, share)
    return fits(found, SIZES)
