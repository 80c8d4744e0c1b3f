"""The tilt: labels of pooled rows are noisy values of a Gaussian process if samples differ.

Let f be the density of the pooled rows, p = f (1 + (1 - share) h) and q = f (1 - share h). A row
at z is of P with probability ``share + share (1 - share) h(z)``, so its standardised label is
``g(z) = sqrt(share (1 - share)) h(z)`` and noise of variance 1, nearly. With ``g ~ GP(0, s^2 k)``,
centred over the rows, the labels are N(0, I + s^2 Q) against N(0, I) where P = Q:

    log BF(l, s) = 1/2 sum_i (b_i^2 s^2 lambda_i / (1 + s^2 lambda_i) - log(1 + s^2 lambda_i))

Only labels given rows are modelled: no volume factor, any number of columns, ties are harmless. As
s -> 0 it is the squared MMD of that kernel; with s it whitens, which sees small differences that
MMD drowns in large ones that are only noise.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..permutation.relabelled import Relabelled
from .spectrum import Spectrum


def log_bayes_factors(found: Spectrum, variances: np.ndarray) -> np.ndarray:
    """Evaluate log BF at one lengthscale for every s^2 and every labelling, (S, 1 + B), nats."""
    return fits(found, variances) - 0.5 * np.log1p(np.outer(variances, found.values)).sum(
        axis=1, keepdims=True
    )


def fits(found: Spectrum, variances: np.ndarray) -> np.ndarray:
    """Evaluate the part of log BF that depends on the labels, (S, 1 + B)."""
    weights = 0.5 * variances[:, None] / (1.0 + np.outer(variances, found.values))
    squares = np.square(found.loadings)
    if found.excess is not None:
        squares[:, 0] -= found.excess
    return np.asarray(weights @ squares)


def exact_fits(rows: Relabelled, gram: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Evaluate :func:`fits` of independent rows with every point as a node, by Cholesky factors.

    For some variances that is several times faster than eigenvalues, which serve any.

    Args:
        rows: the points (C, D) with their labels.
        gram: the kernel between all of them, (C, C).
        variances: s^2, (S,).
    """
    mean = gram @ rows.counts / rows.rows
    root = np.sqrt(rows.counts)[:, None]
    matrix = root * (gram - mean - mean[:, None] + rows.counts @ mean / rows.rows) * root.T
    share = rows.shares
    deviation = np.sqrt(share * (1.0 - share))
    labels = (rows.of_points(slice(None)) - share * rows.counts[:, None]) / (root * deviation)
    whole, diagonal = np.square(labels).sum(axis=0), np.diag_indices(len(matrix))
    found = np.empty((len(variances), labels.shape[1]))
    for index, variance in enumerate(variances):
        covariance = variance * matrix
        covariance[diagonal] += 1.0
        factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
        left = solve_triangular(factor, labels, lower=True, check_finite=False)
        found[index] = 0.5 * (whole - np.square(left).sum(axis=0))
    return found
