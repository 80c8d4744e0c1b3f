"""Maxima and columns of arrays, in the layout that compiled loops read fast."""

import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.linalg.rows import contiguous_columns, maximum


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_maximum(n):
    values = np.random.default_rng(1).normal(size=n)
    for index in (0, n // 2, n - 1):
        values[index] += 10.0
        assert float(maximum(jnp.asarray(values))) == np.float32(values.max())
    assert float(maximum(jnp.full(n, -jnp.inf))) == -np.inf


@pytest.mark.parametrize("dimension", [1, 3])
def test_contiguous_columns(dimension):
    points = np.random.default_rng(2).normal(size=(5, dimension)).astype(np.float32)
    np.testing.assert_array_equal(contiguous_columns(jnp.asarray(points)), points.T)
