"""Eigendecomposition of a difference: directions of kernel features with independent errors.

The kernel is approximated by features at nodes (Nystrom). With the moments z, Q and T of these
features (:mod:`bke.inference.permutation.moments`), a difference with coefficients c gives z the
mean ``Q c`` and the covariance T. The directions are the eigenvectors of ``Q T^-1 Q``, which is Q
for independent rows.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..permutation.moments import Moments
from ..permutation.pooled_sample import PooledSample
from .kernels import KernelFunction, squared_exponential

#: Eigenvalues below this, relative to the largest, are rounding errors.
RESOLUTION = 1e-10
#: Eigenvalues with a smaller relative difference are equal up to rounding errors.
TIED = 1e-6
#: Number of pairs, or of effective rows, per eigenfunction whose covariance is estimated.
ROWS_PER_EIGENFUNCTION = 5


class Eigendecomposition(NamedTuple):
    """Eigenvalues of the centered kernel matrix, and the labels along its eigenvectors.

    The eigenfunctions f, with ``K(x, z) = sum_i f_i(x) f_i(z)`` after centering, are
    ``k(x, nodes) @ root @ rotation - mean``.

    Attributes:
        eigenvalues: (r,), positive.
        loadings: (r, 1 + B), sqrt(eigenvalue) times the standardized labels along the eigenvector.
        root: (nodes, q), see above.
        rotation: (q, r), see above.
        mean: (r,), mean of the eigenfunctions over all rows, before centering.
        excess: (r,), excess of the squared observed loadings because of the errors of single rows,
            for weighted rows; otherwise ``None``.
    """

    eigenvalues: np.ndarray
    loadings: np.ndarray
    root: np.ndarray
    rotation: np.ndarray
    mean: np.ndarray
    excess: np.ndarray | None = None

    def combine(self, coefficients: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Evaluate linear combinations of eigenfunctions, (k, n).

        A few combinations do not require the values of all eigenfunctions.

        Args:
            coefficients: (k, r).
            features: ``k(., nodes) @ root`` at points, (n, q).
        """
        rotated = coefficients @ self.rotation.T
        return np.asarray(rotated @ features.T - (coefficients @ self.mean)[:, None])


@dataclasses.dataclass(frozen=True)
class NodeFeatures:
    """Features of a kernel at nodes, whose inner products approximate it."""

    function: KernelFunction
    nodes: np.ndarray
    lengthscale: float
    root: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate the features (r, q) of rows (r, D)."""
        return self.function(points, self.nodes, self.lengthscale) @ self.root


def inverse_root(matrix: np.ndarray) -> np.ndarray:
    """Return R (nodes, q) with R R' the pseudo-inverse of a kernel matrix of nodes."""
    eigenvalues, vectors = scipy.linalg.eigh(matrix, driver="evd")
    retained = eigenvalues > eigenvalues[-1] * RESOLUTION
    return np.asarray(vectors[:, retained] / np.sqrt(eigenvalues[retained]))


def decompose_kernel(
    sample: PooledSample,
    nodes: np.ndarray,
    lengthscale: float,
    function: KernelFunction = squared_exponential,
) -> Eigendecomposition:
    """Decompose the centered matrix of a kernel at a lengthscale.

    Args:
        sample: pooled rows.
        nodes: (k, D).
        lengthscale: of the kernel.
        function: the kernel.
    """
    root = inverse_root(function(nodes, nodes, lengthscale))
    features = NodeFeatures(function, nodes, lengthscale, root)
    return decompose(root, sample.moments(features, root.shape[1]))


def decompose(root: np.ndarray, moments: Moments) -> Eigendecomposition:
    """Decompose the difference of two samples by the moments of features.

    Args:
        root: (nodes, q); the features are ``k(., nodes) @ root``.
        moments: of these features.
    """
    eigenvalues, vectors = scipy.linalg.eigh(moments.products, driver="evd")
    retained = np.flatnonzero(eigenvalues > eigenvalues[-1] * RESOLUTION)
    if moments.error_covariance is None:
        eigenvalues, rotation = eigenvalues[retained], vectors[:, retained]
        loadings = rotation.T @ moments.differences
        return Eigendecomposition(eigenvalues, loadings, root, rotation, rotation.T @ moments.mean)
    # No more eigenfunctions than the rows can estimate the covariance of. Those with the eigenvalue
    # of one that is left out are left out too: rounding errors would decide between them.
    count = max(1, int(moments.n_known / ROWS_PER_EIGENFUNCTION))
    if count < len(retained):
        distinct = eigenvalues[retained] > eigenvalues[retained[-count - 1]] * (1.0 + TIED)
        retained = retained[distinct] if distinct.any() else retained[-count:]
    eigenvalues, vectors = eigenvalues[retained], vectors[:, retained]
    covariance = vectors.T @ moments.error_covariance @ vectors
    covariance[np.diag_indices(len(retained))] += RESOLUTION * max(
        np.trace(covariance), eigenvalues[-1]
    )
    weighted = eigenvalues[:, None] * scipy.linalg.inv(covariance)  # Q T^-1
    eigenvalues, rotation = scipy.linalg.eigh(weighted * eigenvalues, driver="evd")
    retained = np.flatnonzero(eigenvalues > eigenvalues[-1] * RESOLUTION)
    projection = rotation[:, retained].T @ weighted @ vectors.T
    rotation = vectors @ rotation[:, retained]
    excess = None
    if moments.observed_excess is not None:
        excess = np.sum((projection @ moments.observed_excess) * projection, axis=1)
    return Eigendecomposition(
        eigenvalues[retained],
        projection @ moments.differences,
        root,
        rotation,
        rotation.T @ moments.mean,
        excess,
    )
