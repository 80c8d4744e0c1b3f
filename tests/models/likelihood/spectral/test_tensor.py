"""Weights at nodes, basis and grid of two and three columns, against sums and matrices."""

import numpy as np
import pytest
from bke.models.likelihood.spectral.tensor import nodes_over, weights_at_nodes


def normal(columns, n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


@pytest.mark.parametrize("columns", [2, 3])
def test_weights_at_nodes_represent_the_points(columns):
    X = np.abs(normal(columns, n=300))
    axes = tuple(nodes_over(x.max(), 0.5) for x in X.T)
    weights = weights_at_nodes(axes, X)
    centers = normal(columns, n=5, seed=1)
    factors = [
        np.exp(-(((nodes - c[:, None]) / 0.5) ** 2))
        for nodes, c in zip(axes, centers.T, strict=True)
    ]
    letters = "abc"[:columns]
    result = np.einsum(f"{letters},{','.join(f'k{x}' for x in letters)}->k", weights, *factors)
    expected = np.exp(-(((X - centers[:, None]) / 0.5) ** 2).sum(axis=2)).sum(axis=1)
    np.testing.assert_allclose(result, expected, atol=1e-12)
