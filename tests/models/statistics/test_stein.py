"""Stein's kernel: JAX's own derivatives, an integral that is zero, parts that add up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Laplace,
    Matern,
    RationalQuadratic,
    SquaredExponential,
    squared_stein_discrepancy,
    stein_matrix,
)
from bke.models.linalg.precision import double_precision
from bke.models.statistics.stein import squared_distances, stein_column, stein_terms

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
S, T = RNG.normal(size=X.shape), RNG.normal(size=Y.shape)
KERNELS = [
    RationalQuadratic(0.5, [0.9, 2.0, 1.3]),
    SquaredExponential(0.7),
    Matern(2.5, [1.1, 0.8, 3.0]),
]


@double_precision
def twin(kernel, x, s, y, t):
    """By the derivatives of k at one pair."""

    def value(a, b):
        rho = jnp.sum(((a - b) / jnp.asarray(kernel.lengthscale)) ** 2)
        terms = kernel.value_and_decay(rho[None, None])
        return (jnp.exp(terms.log_scale) * terms.value)[0, 0]

    x, y = jnp.asarray(x), jnp.asarray(y)
    first, second = jax.grad(value, (0, 1))(x, y)
    mixed = jnp.trace(jax.jacfwd(jax.grad(value, 0), 1)(x, y))
    return float(s @ t * value(x, y) + s @ second + t @ first + mixed)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.one_in(4)
def test_matrix_consists_of_derivatives(kernel):
    expected = [
        [twin(kernel, X[i], S[i], Y[j], T[j]) for j in range(len(Y))] for i in range(len(X))
    ]
    np.testing.assert_allclose(stein_matrix(X, S, kernel, Y, T), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_equal_points_have_the_limit_of_near_ones(kernel):
    near = stein_matrix(X, S, kernel, X + 1e-5, S)
    np.testing.assert_allclose(stein_matrix(X, S, kernel), near, rtol=2e-3, atol=1e-3)
    matrix = np.asarray(stein_matrix(X, S, kernel))
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-10


@pytest.mark.parametrize("kernel", [RationalQuadratic(0.5, 0.8), Matern(2.5, 1.7)], ids=str)
def test_its_mean_under_the_density_is_zero(kernel):
    """An integral on a grid, of a mixture that is not symmetric; under a wider one it is not."""
    grid = np.linspace(-14.0, 14.0, 4001)

    def mixture(x):
        parts = np.array([0.3, 0.7])[:, None]
        at = (x - np.array([-1.0, 1.5])[:, None]) / np.array([0.5, 1.2])[:, None]
        densities = parts * np.exp(-0.5 * at**2) / np.array([0.5, 1.2])[:, None]
        slope = np.sum(-densities * at / np.array([0.5, 1.2])[:, None], axis=0) / densities.sum(
            axis=0
        )
        return densities.sum(axis=0) / np.sqrt(2.0 * np.pi), slope

    density, slope = mixture(grid)
    points = np.array([-2.0, 0.3, 4.0])
    result = stein_matrix(grid, slope, kernel, points, mixture(points)[1])
    step = grid[1] - grid[0]
    np.testing.assert_allclose(density @ np.asarray(result) * step, 0.0, atol=1e-6)
    wider = np.exp(-0.5 * (grid / 2.5) ** 2) / 2.5 / np.sqrt(2.0 * np.pi)
    assert np.abs(wider @ np.asarray(result) * step).max() > 0.05


@double_precision
def test_contributions_of_columns_add_up():
    kernel = KERNELS[0]
    lengths = np.array(kernel.lengthscale)
    terms = stein_terms(
        kernel, squared_distances(jnp.asarray(X / lengths), jnp.asarray(Y / lengths))
    )
    parts = [stein_column(terms, X[:, d], S[:, d], Y[:, d], T[:, d], lengths[d]) for d in range(3)]
    np.testing.assert_allclose(sum(parts), stein_matrix(X, S, kernel, Y, T), rtol=1e-10)


def test_discrepancy_is_the_mean_over_different_rows():
    matrix = np.asarray(stein_matrix(X, S, KERNELS[1]))
    pairs = [matrix[i, j] for i in range(6) for j in range(6) if i != j]
    result = squared_stein_discrepancy(X, S, KERNELS[1])
    assert result == pytest.approx(np.mean(pairs), rel=1e-12)


def test_no_cancellation_at_a_distance_from_the_origin():
    shifted = stein_matrix(X + 1e6, S, KERNELS[0])
    np.testing.assert_allclose(shifted, stein_matrix(X, S, KERNELS[0]), rtol=1e-6, atol=1e-8)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="the scores of X must have the shape of X"):
        stein_matrix(X, S[:, :2], KERNELS[0])
    with pytest.raises(ValueError, match="the scores of Y"):
        stein_matrix(X, S, KERNELS[0], Y)
    with pytest.raises(ValueError, match="of the distance over its lengthscale"):
        stein_matrix(X, S, Laplace(1.0))
    with pytest.raises(ValueError, match="at least 2 rows"):
        squared_stein_discrepancy(X[:1], S[:1], KERNELS[0])
