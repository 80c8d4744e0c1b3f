"""The kernel matrix of pooled rows by its eigenvalues, and every labelling along its eigenvectors.

The centred matrix of a kernel at all rows, ``Q = H K H``, has eigenvalues ``lambda`` and
eigenvectors ``U``; with standardised labels y (mean 0, mean square 1) everything about a difference
at that scale follows from ``lambda`` and ``b = U'y``. Of many rows K is taken at nodes (Nystrom),
chosen without looking at labels, and rows are gone through in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from bke.models.arrays.seeding import spread_seeds
from scipy.spatial.distance import cdist

from ..data.canonical import random_part
from ..relabelling.relabelled import LabelSums, Relabelled
from .decomposition import RESOLUTION, Noise, Spectrum, decomposed, of_pairs, of_weights

#: Points that are very many: the test looks at fewer places, nodes and products of features then.
VERY_MANY = 2**14
#: Columns from which distances are a matrix product, if their squares are less than this.
MANY_COLUMNS, LONGEST = 8, 1e6
#: A kernel between points (k, D) and (l, D) at a lengthscale: (k, l).
Values: TypeAlias = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
#: Several kernels between points (k, D) and (l, D): each (k, l), one after the other.
Kernels: TypeAlias = Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]]


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
    """The squared exponential between points (k, D) and others (l, D), with a length or (l,)."""
    found = squared_distances(first, second)
    found *= -0.5 / np.square(lengthscale)
    return np.asarray(np.exp(found, out=found))


def squared_distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Squared distances (k, l) between points (k, D) and others (l, D)."""
    if first.shape[1] >= MANY_COLUMNS:
        a, b = (np.einsum("ij,ij->i", one, one) for one in (first, second))
        if a.max(initial=0.0) + b.max(initial=0.0) < LONGEST:
            # |x|^2 + |z|^2 - 2 x'z as one matrix product.
            left = np.column_stack([first, a, np.ones(len(a))])
            return np.asarray(left @ np.column_stack([-2.0 * second, np.ones(len(b)), b]).T)
    return np.asarray(cdist(first, second, "sqeuclidean"))


def spectrum(
    rows: Relabelled,
    at: np.ndarray,
    lengthscale: float,
    values: Values = kernel,
    *,
    part: int | None = None,
) -> Spectrum:
    """Decompose the centred matrix of a kernel at a lengthscale, by ``at``, the nodes.

    Args:
        rows: independent ones, pairs or weighted ones.
        at: (k, D).
        lengthscale: of the kernel.
        values: the kernel.
        part: see :func:`spectra`.
    """
    return spectra(rows, at, lambda points, others: [values(points, others, lengthscale)], part)[0]


def spectra(
    rows: Relabelled, at: np.ndarray, kernels: Kernels, part: int | None = None
) -> list[Spectrum]:
    """Decompose the centred matrices of several kernels, going through rows once.

    Args:
        rows: independent ones, pairs or weighted ones.
        at: the nodes (k, D).
        kernels: evaluates all of them between points.
        part: so many of independent rows at random tell the products of features, which costs most
            where rows are very many: good for a test, which is exact with any; by default all do.
    """
    roots = [_root(one) for one in kernels(at, at)]
    if rows.partners is not None:
        signs = 2.0 * rows.labels[rows.partners[:, 0]] - 1.0
        return [
            of_pairs(root, *((near @ root)[one] for one in rows.partners.T), signs)
            for near, root in zip(kernels(rows.points, at), roots, strict=True)
        ]
    some = None if part is None or rows.weighted else Part.of(rows, part)
    rows = rows.in_bins
    sums = [_Sums(rows, root, some is None) for root in roots]
    for block in rows.blocks():
        for own, near in zip(sums, kernels(rows.points[block], at), strict=True):
            own.add(block, near)
    if some is None:
        return [own.decomposed(own.within) for own in sums]
    seen = kernels(some.points, at)
    return [
        own.decomposed(some.products(near @ own.root) + np.outer(own.total, own.total) / rows.rows)
        for own, near in zip(sums, seen, strict=True)
    ]


def _root(among: np.ndarray) -> np.ndarray:
    """What turns a kernel's values at the nodes (k) into features (r), by its matrix (k, k)."""
    own, vectors = scipy.linalg.eigh(among, driver="evd")
    kept = own > own[-1] * RESOLUTION
    return np.asarray(vectors[:, kept] / np.sqrt(own[kept]))


class _Sums:
    """What a kernel's spectrum needs of all rows, a block at a time.

    Args:
        rows: the rows, in bins where they are.
        root: (k, r), see :func:`_root`.
        whole: add up products of features, too.
    """

    def __init__(self, rows: Relabelled, root: np.ndarray, whole: bool) -> None:
        self.rows, self.root, self._whole = rows, root, whole
        count, rank = root.shape
        self._near, self.within = np.zeros(count), np.zeros((rank, rank))
        self._noise = self._own_noise = Noise.none(rank)
        self._of_labels = LabelSums(rows, count)

    @property
    def total(self) -> np.ndarray:
        """The sum of features (r,) over rows."""
        return np.asarray(self._near @ self.root)

    def add(self, block: slice, near: np.ndarray) -> None:
        """Add a block of rows, by the kernel between them and the nodes (b, k)."""
        rows = self.rows
        self._near += rows.counts[block] @ near
        self._of_labels.add(block, near)
        if not self._whole:
            return
        features = near @ self.root
        self.within += (features * rows.counts[block, None]).T @ features
        if rows.weighted:
            weights = rows.weights[block]
            self._noise = self._noise.plus(features, weights, rows.expected[block])
            self._own_noise = self._own_noise.plus(features, weights, rows.squares[block])

    def decomposed(self, within: np.ndarray) -> Spectrum:
        """The spectrum, by products of features (r, r) over all rows."""
        rows, total = self.rows, self.total
        apart = rows.apart(self.root.T @ self._of_labels.found(), total)
        if rows.weighted:
            return of_weights(self.root, within, total, apart, self._noise, self._own_noise)
        return decomposed(self.root, within, total, apart, rows.rows, rows.shares)


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
        chosen = random_part(np.arange(len(rows.points)), most, 0)
        return cls(rows.points[chosen], rows.counts[chosen], rows.rows)

    def products(self, features: np.ndarray) -> np.ndarray:
        """The sum of products of centred features over all rows, by those (k, q) of these."""
        whole = self.counts.sum()
        features = features - self.counts @ features / whole
        products = (features * self.counts[:, None]).T @ features
        return np.asarray(products * (self.rows / whole))
