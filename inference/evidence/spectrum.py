"""The kernel matrix of pooled rows by its eigenvalues, and every labelling along its eigenvectors.

The centred matrix of a kernel at all rows, ``Q = H K H``, has eigenvalues ``lambda`` and
eigenvectors ``U``; with standardised labels y (mean 0, mean square 1) everything about a difference
at that scale follows from ``lambda`` and ``b = U'y``. Of many rows K is taken at nodes (Nystrom),
chosen without looking at labels, and rows are gone through in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.linalg
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.spatial.distance import cdist

from ..data.canonical import random_part
from ..permutation.relabelled import LabelSums, Relabelled
from .asked import Asked, Features, Sums
from .decomposition import RESOLUTION, Noise, Spectrum, decomposed, of_pairs, of_weights

#: Points that are very many: the test looks at fewer places, nodes and products of features then.
VERY_MANY = 2**14
#: Columns from which distances are a matrix product, if their squares are less than this.
MANY_COLUMNS, LONGEST = 8, 1e6
#: What is farther, exp(-345) and less, is as near as that: where numbers end a processor takes ten
#: times as long, and so small ones, or their squares, are nothing beside any other.
FARTHEST = -345.0
#: A kernel between points (k, D) and (l, D) at a lengthscale: (k, l).
Values: TypeAlias = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]


def nodes(rows: Relabelled, most: int) -> np.ndarray:
    """Where kernels are taken at, (k, D): quantiles of one column, or rows that are spread."""
    chosen = rows.choosing
    points = chosen.points
    if len(points) <= most:
        return points
    if points.shape[1] == 1:
        below = (np.cumsum(chosen.counts) - 0.5 * chosen.counts) / chosen.rows
        return np.unique(np.interp((np.arange(most) + 0.5) / most, below, points[:, 0]))[:, None]
    rng = np.random.default_rng(0)
    part = np.sort(rng.choice(len(points), min(len(points), 8 * most), replace=False))
    spread = part[kmeans_plusplus(points[part], most // 2, rng)]
    others = rng.choice(part, most - most // 2, replace=False)
    return np.asarray(points[np.unique(np.concatenate([spread, others]))])


def kernel(first: np.ndarray, second: np.ndarray, lengthscale: float | np.ndarray) -> np.ndarray:
    """The squared exponential between points (k, D) and others (l, D), with a length or (l,)."""
    scale = -0.5 / np.square(np.broadcast_to(lengthscale, len(second)))
    if first.shape[1] >= MANY_COLUMNS:
        a, b = (np.einsum("ij,ij->i", one, one) for one in (first, second))
        if a.max(initial=0.0) + b.max(initial=0.0) < LONGEST:
            # |x|^2 + |z|^2 - 2 x'z as one matrix product.
            left = np.column_stack([first, a, np.ones(len(a))])
            right = np.column_stack([-2.0 * second, np.ones(len(b)), b]) * scale[:, None]
            return nearness(left @ right.T)
    found = cdist(first, second, "sqeuclidean")
    found *= scale
    return nearness(found)


def nearness(exponents: np.ndarray) -> np.ndarray:
    """Evaluate exp of numbers that are zero at most, in their place."""
    np.maximum(exponents, FARTHEST, out=exponents)
    return np.exp(exponents, out=exponents)


def squared(near: np.ndarray) -> np.ndarray:
    """Square how near points are, in its place."""
    np.square(near, out=near)
    return np.maximum(near, math.exp(FARTHEST), out=near)


class Several(Features, Protocol):
    """Values of several kernels between rows and places (k, D), one after the other."""

    @property
    def places(self) -> np.ndarray:
        """Where kernels are taken at."""

    def each(self, points: np.ndarray) -> Iterator[np.ndarray]:
        """Evaluate each kernel (r, k) between rows (r, D) and places."""


def spectrum(
    rows: Relabelled,
    at: np.ndarray,
    lengthscale: float,
    values: Values = kernel,
) -> Spectrum:
    """Decompose the centred matrix of a kernel at a lengthscale, by ``at``, the nodes.

    Args:
        rows: independent ones, pairs or weighted ones.
        at: (k, D).
        lengthscale: of the kernel.
        values: the kernel.
    """
    root = _root(values(at, at, lengthscale))
    if rows.partners is not None:
        features = values(rows.points, at, lengthscale) @ root
        first, second = (features[one] for one in rows.partners.T)
        return of_pairs(root, first, second, 2.0 * rows.labels[rows.partners[:, 0]] - 1.0)
    rank = root.shape[1]
    total, within = np.zeros(rank), np.zeros((rank, rank))
    noise = own_noise = Noise.none(rank)
    rows = rows.in_bins
    of_labels = LabelSums(rows, rank)
    for block in rows.blocks():
        features = values(rows.points[block], at, lengthscale) @ root
        total += rows.counts[block] @ features
        of_labels.add(block, features)
        within += (features * rows.counts[block, None]).T @ features
        if rows.weighted:
            noise = noise.plus(features, rows.weights[block], rows.expected[block])
            own_noise = own_noise.plus(features, rows.weights[block], rows.squares[block])
    apart = rows.apart(of_labels.found(), total)
    if rows.weighted:
        return of_weights(root, within, total, apart, noise, own_noise)
    return decomposed(root, within, total, apart, rows.rows, rows.shares)


def spectra_asked(rows: Relabelled, features: Several, part: int) -> Asked[list[Spectrum]]:
    """Ask for what :func:`spectrum` tells of independent rows, by several kernels.

    Args:
        rows: the rows.
        features: values of the kernels.
        part: so many rows at random tell the products of features, which cost most where rows are
            very many: good for a test, which is exact with any.
    """
    at, count = features.places, len(features.places)
    roots = [_root(one) for one in features.each(at)]
    some = Part.of(rows, part)

    def told(sums: Sums) -> list[Spectrum]:
        found = []
        for index, (root, near) in enumerate(zip(roots, features.each(some.points), strict=True)):
            own = slice(index * count, (index + 1) * count)
            total = sums.of_counts[own] @ root
            apart = rows.apart(root.T @ sums.of_labels[own], total)
            within = some.products(near @ root) + np.outer(total, total) / rows.rows
            found.append(decomposed(root, within, total, apart, rows.rows, rows.shares))
        return found

    return Asked(features, count * len(roots), told)


def _root(matrix: np.ndarray) -> np.ndarray:
    """The matrix (nodes, q) that makes features of the kernel at nodes independent there."""
    own, vectors = scipy.linalg.eigh(matrix, driver="evd")
    kept = own > own[-1] * RESOLUTION
    return np.asarray(vectors[:, kept] / np.sqrt(own[kept]))


class Part(NamedTuple):
    """Some rows at random, in the place of all.

    Attributes:
        points: (k, D).
        counts: (k,), rows at each.
        rows: how many all are.
    """

    points: np.ndarray
    counts: np.ndarray
    rows: float

    @classmethod
    def of(cls, rows: Relabelled, most: int) -> Part:
        """Draw at most ``most`` points, the same whatever the labels."""
        from_these = rows.choosing
        chosen = random_part(np.arange(len(from_these.points)), most, 0)
        return cls(from_these.points[chosen], from_these.counts[chosen], rows.rows)

    def products(self, features: np.ndarray) -> np.ndarray:
        """The sum of products of centred features over all rows, by those (k, q) of these."""
        whole = self.counts.sum()
        features = features - self.counts @ features / whole
        products = (features * self.counts[:, None]).T @ features
        return np.asarray(products * (self.rows / whole))
