"""Eigendecompositions of a difference, compared with dense matrices of single rows."""

import itertools

import numpy as np
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.kernels import squared_exponential
from bke.inference.statistics.label_bayes_factor import KernelAtNodes, decompose_kernel

RNG = np.random.default_rng(0)
#: Rounded, so that rows are tied.
P = np.round(RNG.normal(size=(30, 2)), 0)
Q = np.round(RNG.normal(0.4, 1.3, size=(45, 2)), 0)


def test_eigenfunctions_of_independent_rows_reproduce_the_centered_kernel():
    sample = pool_rows(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))
    kernel = KernelAtNodes.of(squared_exponential, sample.points, 0.7)
    decomposition = decompose_kernel(sample, kernel)
    rows = np.repeat(sample.points, sample.counts, axis=0)
    H = np.eye(len(rows)) - 1.0 / len(rows)
    centered = H @ squared_exponential(rows, rows, 0.7) @ H
    eigenvalues = np.linalg.eigvalsh(centered)[-len(decomposition.eigenvalues) :]
    np.testing.assert_allclose(decomposition.eigenvalues, eigenvalues, rtol=1e-6, atol=1e-9)
    functions = decomposition.combine(np.eye(len(eigenvalues)), kernel.features(rows))
    np.testing.assert_allclose(functions.T @ functions, centered, atol=1e-8)


def test_loadings_of_pairs_are_uncorrelated_over_all_swaps():
    """10 pairs, all 1024 swaps: the covariance of the loadings is that of the eigenvalues."""
    samples = TwoSamples.checked(RNG.normal(size=(10, 1)), RNG.normal(0.5, size=(10, 1)))
    sample = pool_pairs(samples, 9, np.random.default_rng(1))
    swaps = np.array(list(itertools.product((0, 1), repeat=10)), dtype=np.int8).T
    labels = np.empty((20, 1024), dtype=np.int8)
    labels[sample.partners[:, 0]], labels[sample.partners[:, 1]] = swaps, 1 - swaps
    decomposition = decompose_kernel(
        sample.with_labels(labels), KernelAtNodes.of(squared_exponential, sample.points, 0.7)
    )
    assert len(decomposition.eigenvalues) == 2  # five pairs for each
    loadings = decomposition.loadings
    np.testing.assert_allclose(loadings.mean(axis=1), 0.0, atol=1e-9)
    covariance = loadings @ loadings.T / loadings.shape[1]
    np.testing.assert_allclose(covariance, np.diag(decomposition.eigenvalues), rtol=1e-6, atol=1e-6)
