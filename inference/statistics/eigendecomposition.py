"""Eigendecomposition of a difference: directions of kernel features with independent errors.

The kernel is approximated by features (Nystrom), linear combinations of its values at nodes. With
the moments z, Q and T of these features (:mod:`bke.inference.permutation.moments`), a difference
with coefficients c gives z the mean ``Q c`` and the covariance T. The directions are the
eigenvectors of ``Q T^-1 Q``, which is Q for independent rows.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpstrf, dtrtri

from ..permutation.moments import Moments
from ..permutation.pooled_sample import PooledSample
from .kernels import KernelFunction

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
    # No more eigenfunctions than the rows can estimate the covariance of. Those with the eigenvalue
    # of one that is left out are left out too: rounding errors would decide between them.
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
