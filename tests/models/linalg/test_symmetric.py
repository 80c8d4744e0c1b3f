import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.linalg.symmetric import SymmetricBlocks, inverse_and_log_determinant, invert_blocks


def symmetric(n, seed=0):
    """Return a positive definite matrix without equal entries other than by symmetry."""
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


@pytest.mark.parametrize(("n", "unsplit"), [(1, 192), (7, 192), (2, 1), (7, 3), (300, 192)])
@pytest.mark.one_in(3)
def test_blocks_agree_with_the_full_matrix(n, unsplit):
    matrix, vector = symmetric(n), np.arange(1.0, n + 1.0)
    with jax.enable_x64(True):
        blocks = SymmetricBlocks.from_matrix(jnp.asarray(matrix), unsplit)
        assert (blocks.second is None) == (n <= unsplit)
        np.testing.assert_array_equal(blocks.matrix(), matrix)
        np.testing.assert_array_equal(blocks.diagonal(), np.diagonal(matrix))
        np.testing.assert_allclose(blocks.matvec(vector), matrix @ vector, rtol=1e-12)
        np.testing.assert_array_equal(
            blocks.add_to_diagonal(2.0).matrix(), matrix + 2.0 * np.eye(n)
        )
        covered = np.zeros((n, n))
        for rows, columns, block, copies in blocks.blocks():
            np.testing.assert_array_equal(block, matrix[rows, columns])
            covered[rows, columns] += copies
        np.testing.assert_array_equal(covered + covered.T, 2.0)


@pytest.mark.parametrize("n", [50, 300, pytest.param(1100, marks=pytest.mark.slow)])
def test_inverse_by_blocks(n):
    """With 1100 rows symmetric products are split as well."""
    matrix = symmetric(n)
    with jax.enable_x64(True):
        inverse, log_determinant = jax.jit(invert_blocks)(
            SymmetricBlocks.from_matrix(jnp.asarray(matrix))
        )
        full = inverse.matrix()
    np.testing.assert_allclose(full, np.linalg.inv(matrix), rtol=0, atol=1e-11)
    assert float(log_determinant) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-11)


SIZES = [1, 5, 127, 129, 300, 515]
compiled = jax.jit(inverse_and_log_determinant)


def positive_definite(n, seed=0, smallest=0.1):
    """Return a matrix of eigenvalues from ``smallest`` to 10, its eigenvectors and eigenvalues."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    eigenvalues = np.geomspace(smallest, 10.0, n)
    return (Q * eigenvalues) @ Q.T, Q, eigenvalues


@pytest.mark.parametrize("n", SIZES)
def test_agrees_with_lapack(n):
    matrix, Q, eigenvalues = positive_definite(n)
    with jax.enable_x64(True):
        inverse, log_determinant = compiled(jnp.asarray(matrix))
    assert inverse.dtype == np.float64
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=0, atol=1e-11)
    np.testing.assert_allclose(inverse, (Q / eigenvalues) @ Q.T, rtol=0, atol=1e-11)
    assert float(log_determinant) == pytest.approx(
        np.sum(np.log(eigenvalues)), rel=1e-11, abs=1e-11
    )


@pytest.mark.parametrize("n", [129, 300])
def test_an_ill_conditioned_matrix(n):
    """Condition 1e8: the errors allowed are condition times rounding, for n terms of each sum.

    So much is lost when the matrix is put together, by more or less with the threads of the BLAS.
    """
    matrix, _, eigenvalues = positive_definite(n, seed=1, smallest=1e-7)
    with jax.enable_x64(True):
        inverse, log_determinant = compiled(jnp.asarray(matrix))
    assert np.abs(np.asarray(inverse) @ matrix - np.eye(n)).max() < 1e-5
    allowed = n * 1e8 * np.finfo(float).eps
    assert float(log_determinant) == pytest.approx(np.sum(np.log(eigenvalues)), abs=allowed)


@pytest.mark.parametrize("n", [5, 300])
def test_a_matrix_that_is_not_positive_definite_gives_nan(n):
    matrix, _, _ = positive_definite(n)
    for position in (0, n // 2, n - 1):  # the bad direction in either block
        bad = matrix - 20.0 * np.outer(np.eye(n)[position], np.eye(n)[position])
        assert np.linalg.eigvalsh(bad)[0] < 0
        with jax.enable_x64(True):
            inverse, log_determinant = compiled(jnp.asarray(bad))
        assert np.isnan(log_determinant)
        assert np.all(np.isnan(inverse))


@pytest.mark.parametrize("n", [7, 150])
def test_derivatives(n):
    """d log det = tr(A^-1 dA) and d A^-1 = -A^-1 dA A^-1."""
    matrix, _, _ = positive_definite(n, seed=2)
    change = positive_definite(n, seed=3)[0]
    with jax.enable_x64(True):
        _, (inverse_dot, log_determinant_dot) = jax.jvp(
            inverse_and_log_determinant, (jnp.asarray(matrix),), (jnp.asarray(change),)
        )
    inverse = np.linalg.inv(matrix)
    np.testing.assert_allclose(inverse_dot, -inverse @ change @ inverse, atol=1e-8)
    assert float(log_determinant_dot) == pytest.approx(np.trace(inverse @ change), rel=1e-10)
