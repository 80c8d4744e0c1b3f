"""Bayes factors of a Gaussian process regression on the labels, at many scales.

Let f be the density of the pooled rows, c the fraction of the first sample, p = f (1 + (1 - c) h)
and q = f (1 - c h). A row at z is from P with probability ``c + c (1 - c) h(z)``, so that its
standardized label is ``g(z) = sqrt(c (1 - c)) h(z)`` plus noise of variance 1, approximately. With
``g ~ GP(0, s^2 k)``, centered over the rows, the labels are N(0, I + s^2 Q), and N(0, I) if P = Q:

    log BF(l, s) = 1/2 sum_i (b_i^2 s^2 lambda_i / (1 + s^2 lambda_i) - log(1 + s^2 lambda_i))

with the eigenvalues lambda of the centered kernel matrix Q and the labels b along its
eigenvectors. Only the labels given the rows are modeled: there is no Jacobian factor, and the
number of columns and ties do not matter. As s -> 0 it is the squared MMD of the kernel. With
larger s it whitens, and detects small differences in directions where the rows vary little.

The kernel is approximated by features (Nystrom), linear combinations of its values at nodes. With
the moments z, Q and T of these features (:mod:`bke.inference.permutation.moments`), a difference
with coefficients c gives z the mean ``Q c`` and the covariance T. The directions in which errors
are independent are the eigenvectors of ``Q T^-1 Q``, which is Q for independent rows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from threading import Event
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpstrf, dtrtri

from ..core.machine import side_by_side
from ..permutation.moments import Moments
from ..permutation.null_distribution import generalized_mean, standardize
from ..permutation.pooled_sample import FeatureSums, PooledSample, Request, RowSubset
from .base import Evaluation, NullOptions, Statistic
from .kernels import (
    LARGE_SAMPLE,
    MAX_GAUSSIAN_ONLY,
    KernelFamily,
    KernelFeatures,
    KernelFunction,
    KernelScale,
    choose_nodes,
    choose_scales,
)

#: Prior variances s^2 of a difference.
VARIANCES = np.geomspace(1e-4, 1e4, 5)
#: Order of the generalized mean of p-values over all scales, with opposite sign.
SCALES_ORDER = 2.0
#: Number of nodes of the kernel for one column, and for more. Not tuned: the time is about
#: proportional to their number, and more of them do not change the power by much.
LINE_NODES, NODES = 128, 192
#: Number of rows up to which all are nodes, in more than :data:`MAX_GAUSSIAN_ONLY` columns, whose
#: kernels have a rank near the number of rows. With at most 192 nodes of 200 rows p-values in three
#: open settings of ``benchmarks/referee.py`` were larger (D = 10, 50 and 250). In the open setting
#: of 600 rows (D = 3) 192 nodes had smaller p-values than 512.
MAX_EXACT_ROWS = 512
#: Number of rows that give the products of features of very many rows.
PRODUCT_ROWS = 2**13
#: Eigenvalues below this, relative to the largest, are rounding errors, and so are differences of
#: the kernel of a node from linear combinations of those of others.
RESOLUTION = 1e-10
#: Eigenvalues with a smaller relative difference are equal up to rounding errors.
TIED = 1e-6
#: Number of pairs, or of effective rows, per eigenfunction whose covariance is estimated.
ROWS_PER_EIGENFUNCTION = 5


class Eigendecomposition(NamedTuple):
    """Eigenvalues of the centered kernel matrix, and the labels along its eigenvectors.

    The eigenfunctions f, with ``K(x, z) = sum_i f_i(x) f_i(z)`` after centering, are
    ``features(x) @ rotation - mean``.

    Attributes:
        eigenvalues: (r,), positive.
        loadings: (r, 1 + B), sqrt(eigenvalue) times the standardized labels along the eigenvector.
        rotation: (k, r), see above.
        mean: (r,), mean of the eigenfunctions over all rows, before centering.
        excess: (r,), excess of the squared observed loadings because of the errors of single rows,
            for weighted rows; otherwise ``None``.
    """

    eigenvalues: np.ndarray
    loadings: np.ndarray
    rotation: np.ndarray
    mean: np.ndarray
    excess: np.ndarray | None = None

    def combine(self, coefficients: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Evaluate linear combinations of eigenfunctions, (c, n).

        A few combinations do not require the values of all eigenfunctions.

        Args:
            coefficients: (c, r).
            features: of points, (n, k).
        """
        rotated = coefficients @ self.rotation.T
        return np.asarray(rotated @ features.T - (coefficients @ self.mean)[:, None])


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """Return R (nodes, q) with R R' a generalized inverse of a kernel matrix of nodes.

    It is the inverse of a Cholesky factor with pivoting, which takes a tenth of the time of an
    eigendecomposition. Rows of nodes that are no pivots are zero.
    """
    largest = matrix.diagonal().max()
    factor, pivots, rank, _ = dpstrf(matrix, tol=RESOLUTION * largest, lower=1)
    root = np.zeros((len(matrix), rank))
    root[pivots[:rank] - 1] = np.tril(dtrtri(factor[:rank, :rank], lower=1)[0]).T
    return root


@dataclasses.dataclass(frozen=True)
class KernelAtNodes:
    """Values of a kernel at nodes, whose linear combinations approximate it.

    Attributes:
        function: the kernel.
        nodes: (q, D), without those whose kernels are linear combinations of others.
        lengthscale: lengthscale of the kernel.
        root: (q, q), :func:`inverse_root` of the kernel matrix of the nodes.
    """

    function: KernelFunction
    nodes: np.ndarray
    lengthscale: float
    root: np.ndarray

    @classmethod
    def of(cls, function: KernelFunction, nodes: np.ndarray, lengthscale: float) -> Self:
        """Choose those of some nodes (k, D) that are needed at a lengthscale."""
        root = inverse_root(function(nodes, nodes, lengthscale))
        used = root.any(axis=1)
        return cls(function, nodes[used], lengthscale, root[used])

    def features(self, points: np.ndarray) -> np.ndarray:
        """Evaluate features (r, q) of rows (r, D), whose inner products approximate the kernel."""
        return self.function(points, self.nodes, self.lengthscale) @ self.root


def decompose_kernel(sample: PooledSample, kernel: KernelAtNodes) -> Eigendecomposition:
    """Decompose the centered matrix of a kernel over pooled rows, by its features."""
    return decompose(sample.moments(kernel.features, len(kernel.nodes)))


def decompose(moments: Moments) -> Eigendecomposition:
    """Decompose the difference of two samples by the moments of the features of a kernel."""
    eigenvalues, vectors = scipy.linalg.eigh(moments.products, driver="evd")
    retained = np.flatnonzero(eigenvalues > eigenvalues[-1] * RESOLUTION)
    if moments.error_covariance is None:
        rotation = vectors[:, retained]
        loadings, mean = rotation.T @ moments.differences, rotation.T @ moments.mean
        return Eigendecomposition(eigenvalues[retained], loadings, rotation, mean)
    # The rows can estimate the covariance of so few eigenfunctions only. Tied eigenvalues are left
    # out together, because rounding errors would decide between them.
    count = max(1, int(moments.n_known / ROWS_PER_EIGENFUNCTION))
    if count < len(retained):
        distinct = eigenvalues[retained] > eigenvalues[retained[-count - 1]] * (1.0 + TIED)
        retained = retained[distinct] if distinct.any() else retained[-count:]
    eigenvalues, basis = eigenvalues[retained], vectors[:, retained]
    covariance = basis.T @ moments.error_covariance @ basis
    covariance[np.diag_indices(len(retained))] += RESOLUTION * max(
        np.trace(covariance), eigenvalues[-1]
    )
    weighted = eigenvalues[:, None] * scipy.linalg.inv(covariance)  # Q T^-1
    eigenvalues, vectors = scipy.linalg.eigh(weighted * eigenvalues, driver="evd")
    retained = np.flatnonzero(eigenvalues > eigenvalues[-1] * RESOLUTION)
    projection = vectors[:, retained].T @ weighted @ basis.T
    rotation = basis @ vectors[:, retained]
    excess = None
    if moments.observed_excess is not None:
        excess = np.sum((projection @ moments.observed_excess) * projection, axis=1)
    return Eigendecomposition(
        eigenvalues[retained],
        projection @ moments.differences,
        rotation,
        rotation.T @ moments.mean,
        excess,
    )


def label_log_bayes_factors(decomposition: Eigendecomposition, variances: np.ndarray) -> np.ndarray:
    """Evaluate log BF at one lengthscale for all variances s^2 and labels, (S, 1 + B), nats."""
    determinants = np.log1p(np.outer(variances, decomposition.eigenvalues)).sum(
        axis=1, keepdims=True
    )
    return label_fits(decomposition, variances) - 0.5 * determinants


def label_fits(decomposition: Eigendecomposition, variances: np.ndarray) -> np.ndarray:
    """Evaluate the terms of log BF that depend on the labels, (S, 1 + B)."""
    weights = 0.5 * variances[:, None] / (1.0 + np.outer(variances, decomposition.eigenvalues))
    squares = np.square(decomposition.loadings)
    if decomposition.excess is not None:
        squares[:, 0] -= decomposition.excess
    return np.asarray(weights @ squares)


@dataclasses.dataclass(frozen=True)
class LabelBayesFactors(Statistic):
    """Log Bayes factors of a difference for several kernels and variances.

    Attributes:
        scales: kernels; each is combined with all variances.
    """

    scales: tuple[KernelScale, ...]
    component_weights: ClassVar = (("at one scale", 1.0), ("at all scales together", 1.0))

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Choose the scales."""
        return cls(tuple(choose_scales(sample)))

    def most_significant(self, values: np.ndarray) -> KernelScale:
        """Return the kernel with the largest standardized value, for the observed labels."""
        return self.scales[int(np.argmax(standardize(values)[:, 0])) // len(VARIANCES)]

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Return the largest standardized value, and the generalized mean of all p-values.

        The largest standardized value favors long lengthscales, whose distribution has the longest
        tail, which helps to detect shifts. p-values favor no lengthscale.
        """
        largest = null.standardize(values).max(axis=0)
        return [largest, generalized_mean(null.neg_log_tails(values), SCALES_ORDER)]

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the terms of the Bayes factors that depend on the labels, (K S, 1 + B)."""
        if len(sample.points) > LARGE_SAMPLE and sample.is_independent:
            evaluation = super().evaluate(sample)
            if advance is not None:
                advance(len(self.scales))
            return evaluation
        nodes = self._nodes(sample)

        def fits(index: int) -> np.ndarray:
            family, lengthscale = self.scales[index]
            kernel = KernelAtNodes.of(family.function, nodes[family], lengthscale)
            decomposition = decompose_kernel(sample, kernel)
            if advance is not None:
                advance(1)
            return label_fits(decomposition, VARIANCES)

        return self.collect(side_by_side(fits, len(self.scales), Event()))

    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Request the sums of a few kernels of one family at a time, for independent rows.

        The products of features, which take most of the time, are those of some rows.
        """
        nodes = self._nodes(sample)
        subset = RowSubset.of(sample, PRODUCT_ROWS)
        return [
            _request(sample, family.at(nodes[family], *run), subset) for family, run in self._runs()
        ]

    def _runs(self) -> list[tuple[KernelFamily, tuple[float, ...]]]:
        """Return the lengthscales of each family that are evaluated together."""
        return [
            (family, run)
            for family, scales in itertools.groupby(self.scales, lambda scale: scale.family)
            for run in family.runs(scale.lengthscale for scale in scales)
        ]

    def _nodes(self, sample: PooledSample) -> dict[KernelFamily, np.ndarray]:
        """Choose the nodes of the kernels of each family."""
        count, dimension = sample.points.shape
        max_nodes = LINE_NODES if dimension == 1 else NODES
        if dimension > MAX_GAUSSIAN_ONLY and sample.n_rows <= MAX_EXACT_ROWS:
            max_nodes = count
        is_large = len(sample.points) > LARGE_SAMPLE
        return {
            family: choose_nodes(
                sample, int(max_nodes * family.node_fraction) if is_large else max_nodes
            )
            for family in dict.fromkeys(scale.family for scale in self.scales)
        }


def _request(
    sample: PooledSample, features: KernelFeatures, subset: RowSubset
) -> Request[np.ndarray]:
    """Request the Bayes factors of several kernels at the same nodes, (L S, 1 + B)."""
    count = len(features.nodes)
    roots = [inverse_root(values) for values in features.iterate(features.nodes)]

    def finish(sums: FeatureSums) -> np.ndarray:
        fits = []
        for index, (root, values) in enumerate(
            zip(roots, features.iterate(subset.points), strict=True)
        ):
            block = slice(index * count, (index + 1) * count)
            total = sums.total[block] @ root
            first = root.T @ sums.first[block]
            moments = subset.moments(sample, first, total, values @ root)
            fits.append(label_fits(decompose(moments), VARIANCES))
        return np.concatenate(fits)

    return Request(features, count * len(roots), finish)
