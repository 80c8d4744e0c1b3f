"""Weights at nodes, basis and grid of two and three columns, against sums and matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.likelihood.spectral.tensor import (
    nodes_over,
    tensor_basis,
    tensor_grid,
    weights_at_nodes,
)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def normal(columns, n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def as_arrays(index):
    return jax.tree.map(jnp.asarray, index)


@pytest.mark.parametrize("columns", [2, 3])
def test_weights_at_nodes_stand_for_the_points(columns):
    X = np.abs(normal(columns, n=300))
    axes = tuple(nodes_over(x.max(), 0.5) for x in X.T)
    weights = weights_at_nodes(axes, X)
    centres = normal(columns, n=5, seed=1)
    factors = [
        np.exp(-(((nodes - c[:, None]) / 0.5) ** 2))
        for nodes, c in zip(axes, centres.T, strict=True)
    ]
    letters = "abc"[:columns]
    result = np.einsum(f"{letters},{','.join(f'k{x}' for x in letters)}->k", weights, *factors)
    expected = np.exp(-(((X - centres[:, None]) / 0.5) ** 2).sum(axis=2)).sum(axis=1)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [2, 3])
def test_basis_and_cells_against_matrices_of_numpy(columns):
    n, shortest, lengthscale, noise = 300, 1.0, 1.3, 0.2
    X = normal(columns, n=n) - normal(columns, n=n).min(axis=0)
    axes = tuple(nodes_over(x.max(), shortest) for x in X.T)
    weights = weights_at_nodes(axes, X)
    basis = as_arrays(tensor_basis(axes, weights, shortest, 4096, 1536))
    apart = X[:, None] - X
    square = np.sum(apart**2, axis=2) / lengthscale**2
    k = np.exp(-0.5 * square)
    covariance = np.exp(-0.25 * square) + noise * np.eye(n)
    mean = k.mean(axis=1)
    expected = mean @ np.linalg.solve(covariance, mean), np.linalg.slogdet(covariance)[1]
    np.testing.assert_allclose(basis.terms(lengthscale, noise, n), expected, rtol=1e-9)

    inside = np.arange(n) != 7
    grid, offsets = tensor_grid(X, inside, shortest)
    grid, offsets, weights = as_arrays((grid, offsets, weights))
    polynomials = grid.polynomials(axes, weights, lengthscale, n)
    result = offsets.gradients(jnp.pad(polynomials, ((0, 1), (0, 0))))
    gradients = -np.einsum("ij,ijd->id", k, apart) / lengthscale**2 / n
    np.testing.assert_allclose(result, gradients * inside[:, None], atol=3e-15)
