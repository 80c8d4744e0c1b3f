"""Two and three columns, and the points of tensor products, against n x n matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import SquaredExponential
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.marginal import likelihood_solver
from bke.models.likelihood.spectral import spectral_index

N = 1000


def normal(columns, n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def as_arrays(index):
    return jax.tree.map(jnp.asarray, index)


@pytest.mark.slow
def test_auto_takes_it_where_it_can():
    ready = likelihood_solver(normal(2), SquaredExponential(1.0), 0.1, "unit", "auto")
    assert len(ready.ranges) >= 2
    item = [
        likelihood_solver(normal(2), SquaredExponential([1.0, 2.0]), 0.1, "unit", "auto"),
        likelihood_solver(normal(2)[:500], SquaredExponential(1.0), 0.1, "unit", "auto"),
        likelihood_solver(normal(4), SquaredExponential(1.0), 0.1, "unit", "auto"),
    ]
    assert [len(x.rows) for x in item] == [N, 512, N]


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.0, 1e-7, 1e-2])
def test_a_column_that_hardly_varies_takes_little_memory(width):
    """As long as one column, the box has as many functions along it: their pairs once filled it."""
    X = np.random.default_rng(0).normal(size=(1001, 2)) * [1.0, width]
    index = as_arrays(spectral_index(X))
    for item in index.ranges:
        assert max(f.shape[0] * f.shape[1] ** 2 for f in item.basis.functions) < 1.1e8
    lengthscale = 1.01 * float(index.ranges[-1].shortest)
    kernel = SquaredExponential(lengthscale)
    expected = dense_terms(index.rows.data, kernel, 0.1, "unit", low_rank=False)
    result = index.likelihood_terms(kernel, 0.1, "unit")
    np.testing.assert_allclose(result.gaussian, expected.gaussian, rtol=1e-8)
