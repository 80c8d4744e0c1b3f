import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import SquaredExponential
from bke.models.likelihood.dense import low_rank_factor
from bke.models.linalg.pivoted_cholesky import (
    dense_pivoted_cholesky,
    pivoted_cholesky,
    rowwise_pivoted_cholesky,
)
from bke.models.linalg.rows import PaddedRows


def factorize(matrix, max_rank, tolerance):
    """As NumPy: factor (max_rank, n), rank, remainder."""
    with jax.enable_x64(True):
        matrix = jnp.asarray(matrix)
        result = pivoted_cholesky(lambda i: matrix[i], jnp.diagonal(matrix), max_rank, tolerance)
        return np.asarray(result.factor), int(result.rank), float(result.remainder)


def squared_exponential(n, lengthscale, seed=0):
    x = np.random.default_rng(seed).gamma(2.0, size=n)
    return np.exp(-0.5 * (x[:, None] - x) ** 2 / lengthscale**2)


def low_rank(n, rank, seed=0):
    B = np.random.default_rng(seed).normal(size=(n, rank))
    return B @ B.T


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", [1, 5, 127, 129, 300, 515])
def test_factor_reproduces_the_matrix_to_the_tolerance(n):
    matrix = squared_exponential(n, 0.8)
    factor, rank, remainder = factorize(matrix, min(n, 60), 1e-9)
    left = matrix - factor.T @ factor
    assert 0 <= remainder <= 1e-9
    assert np.abs(left).max() <= 2e-9
    assert np.linalg.eigvalsh(left)[0] > -1e-12
    if n >= 127:
        assert rank < n / 4
    assert not np.any(factor[rank:])
    assert np.all(np.any(factor[:rank] != 0, axis=1))


@pytest.mark.parametrize(("n", "rank"), [(5, 1), (129, 7), (300, 40)])
def test_a_rank_deficient_matrix_is_recovered_exactly(n, rank):
    matrix = low_rank(n, rank)
    factor, numerical_rank, remainder = factorize(matrix, rank + 5, 1e-9 * np.trace(matrix))
    assert numerical_rank == rank == np.linalg.matrix_rank(matrix)
    np.testing.assert_allclose(factor.T @ factor, matrix, atol=1e-11 * np.trace(matrix))
    assert remainder <= 1e-9 * np.trace(matrix)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("max_rank", [1, 4, 9])
def test_remainder_is_the_trace_of_the_error(max_rank):
    matrix = squared_exponential(150, 3.0)
    factor, rank, remainder = factorize(matrix, max_rank, 1e-15)
    assert rank == max_rank
    assert remainder == pytest.approx(np.trace(matrix - factor.T @ factor), rel=1e-9, abs=1e-12)
    assert remainder > 1e-10


def test_pivots_have_the_largest_remaining_variance():
    matrix = squared_exponential(60, 0.5, seed=1) * np.outer(*[np.linspace(1, 3, 60)] * 2)
    factor, rank, _ = factorize(matrix, 8, 0.0)
    left = matrix.copy()
    for row in factor[:rank]:
        pivot = np.argmax(np.diagonal(left))
        np.testing.assert_allclose(row, left[pivot] / np.sqrt(left[pivot, pivot]), atol=1e-10)
        left = left - np.outer(row, row)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1.0, 1e-3, 1e-6])
def test_it_stops_at_the_tolerance_and_not_before(tolerance):
    matrix = squared_exponential(200, 0.5)
    factor, rank, remainder = factorize(matrix, 100, tolerance)
    assert remainder <= tolerance
    lower_rank = factor[: rank - 1]
    assert np.trace(matrix - lower_rank.T @ lower_rank) > tolerance


def test_stops_halfway_when_half_the_trace_is_left():
    """The identity has no low rank: after max_rank / 2 pivots all but those are left."""
    factor, rank, remainder = factorize(np.eye(300), 40, 1e-9)
    assert rank == 20
    assert remainder == pytest.approx(280.0)
    assert np.trace(factor.T @ factor) == pytest.approx(20.0)


def test_does_not_stop_early_while_the_trace_falls():
    matrix = np.diag(np.r_[np.full(35, 10.0), np.full(100, 1e-14)])
    _, rank, remainder = factorize(matrix, 40, 1e-9)
    assert rank == 35
    assert remainder <= 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", [30.0, 1e3])
def test_a_factor_is_accepted_only_where_it_is_accurate(lengthscale):
    """The remainder of a large matrix is rounding error, which the trace must not hide."""
    noise_variance = 0.1
    X = np.random.default_rng(0).gamma(2.0, size=(260, 5))
    with jax.enable_x64(True):
        covariance = SquaredExponential(lengthscale).smoothed("lebesgue", 5)
        factorization, accepted = low_rank_factor(
            PaddedRows(jnp.asarray(X)), covariance, noise_variance
        )
        factor = np.asarray(factorization.factor)
        matrix = covariance(X)
    assert matrix.max() > 1e8
    error = np.abs(matrix - factor.T @ factor).max()
    assert not accepted or error < 1e-5 * noise_variance


def test_a_factor_is_accepted_where_the_rank_is_low():
    X = np.random.default_rng(0).gamma(2.0, size=(260, 1))
    with jax.enable_x64(True):
        covariance = SquaredExponential(0.8).smoothed("unit", 1)
        assert low_rank_factor(PaddedRows(jnp.asarray(X)), covariance, 0.1)[1]
        covariance = SquaredExponential(1e-3).smoothed("unit", 1)
        assert not low_rank_factor(PaddedRows(jnp.asarray(X)), covariance, 0.1)[1]


@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_factors_in_numpy_agree_mutually_and_with_the_matrix(tolerance):
    matrix = squared_exponential(90, 0.8) * np.linspace(1.0, 3.0, 90)[:, None]
    matrix = matrix * np.linspace(1.0, 3.0, 90)  # a diagonal that is not constant
    dense, pivots = dense_pivoted_cholesky(matrix, tolerance)
    rows, row_pivots = rowwise_pivoted_cholesky(
        lambda i: matrix[i], np.diagonal(matrix), tolerance, 90
    )
    np.testing.assert_array_equal(pivots, row_pivots)
    np.testing.assert_allclose(rows, dense, atol=1e-6)
    remainder = matrix - dense @ dense.T
    assert np.diagonal(remainder).min() > -1e-12
    assert np.diagonal(remainder).max() <= tolerance
    assert dense.shape[1] < 40
    # One pivot less leaves an entry above the tolerance.
    assert np.diagonal(matrix - dense[:, :-1] @ dense[:, :-1].T).max() > tolerance
    # The factor of the pivots is lower triangular.
    np.testing.assert_array_equal(np.triu(rows[row_pivots], 1), 0.0)
    first, _ = dense_pivoted_cholesky(matrix, tolerance, max_rank=4)
    np.testing.assert_array_equal(first, dense[:, :4])
    limited, _ = rowwise_pivoted_cholesky(
        lambda i: matrix[i], np.diagonal(matrix), tolerance, max_rank=4
    )
    np.testing.assert_array_equal(limited, rows[:, :4])
