"""The Gaussian term by two routes beside the normal density, and its sensitivity to R."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.likelihood import dense
from bke.models.linalg.pivoted_cholesky import PivotedCholesky
from bke.models.linalg.rows import PaddedRows
from bke.models.linalg.symmetric import SymmetricBlocks
from scipy.stats import multivariate_normal

NOISE, N, RANK = 0.3, 9, 3
RNG = np.random.default_rng(4)
FACTOR = np.concatenate([RNG.normal(size=(RANK, N)), np.zeros((2, N))])
EMBEDDING = RNG.normal(size=N)


@pytest.fixture
def low_rank():
    with jax.enable_x64(True):
        pivots = jnp.arange(len(FACTOR))
        factorisation = PivotedCholesky(jnp.asarray(FACTOR), pivots, jnp.asarray(RANK), 0.0)
        yield dense.low_rank_term(jnp.asarray(EMBEDDING), factorisation, jnp.asarray(NOISE))


def twin(R):
    """log N and its derivatives by the mean and by R, where R stays symmetric."""
    inverse = np.linalg.inv(R + NOISE * np.eye(N))
    weights = inverse @ EMBEDDING
    value = multivariate_normal(np.zeros(N), R + NOISE * np.eye(N)).logpdf(EMBEDDING)
    return value, weights, 0.5 * (np.outer(weights, weights) - inverse)


def test_the_low_rank_route(low_rank):
    log_density, a, V = low_rank
    value, weights, sensitivity = twin(FACTOR.T @ FACTOR)
    assert float(log_density) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(a, weights, rtol=1e-10)
    W = np.random.default_rng(5).normal(size=(4, N))
    with jax.enable_x64(True):
        found = dense.low_rank_sensitivity(a, V, NOISE, jnp.asarray(W))
    np.testing.assert_allclose(found, W @ sensitivity, rtol=1e-9, atol=1e-12)


def test_the_dense_routes():
    R = FACTOR.T @ FACTOR
    value, weights, sensitivity = twin(R)
    with jax.enable_x64(True):
        embedding, matrix, noise = jnp.asarray(EMBEDDING), jnp.asarray(R), jnp.asarray(NOISE)
        plain = dense.dense_term(embedding, matrix, noise)
        log_density, a, inverse = dense.dense_with_inverse(
            embedding, SymmetricBlocks.from_matrix(matrix), noise
        )
        found = dense.dense_sensitivity(inverse.matrix()[2:5, 1:], a[2:5], a[1:])
    for result in (plain, (log_density, a)):
        assert float(result[0]) == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(result[1], weights, rtol=1e-10)
    np.testing.assert_allclose(found, sensitivity[2:5, 1:], rtol=1e-9)


def test_noise_that_rounding_hides_beside_the_matrix_has_no_value():
    R = 1e12 * np.eye(N)
    with jax.enable_x64(True):
        resolved = dense.dense_term(jnp.asarray(EMBEDDING), jnp.asarray(R), jnp.asarray(1e-2))
        lost = dense.dense_term(jnp.asarray(EMBEDDING), jnp.asarray(R), jnp.asarray(1e-4))
    assert np.isfinite(float(resolved[0]))
    assert np.isnan(float(lost[0]))


@pytest.mark.parametrize("rows", [3, 7])
def test_what_matrices_of_all_rows_take(rows):
    points = jnp.asarray(np.random.default_rng(0).normal(size=(rows, 2)))
    view = dense.DenseSolver(PaddedRows(points))
    assert view.entries == rows**2
    assert view.matrix_size == rows
