import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.linalg.halves import Halves
from bke.models.linalg.inverse import inverse_of_halves
from bke.models.linalg.rows import columns_of, maximum


def symmetric(n, seed=0):
    """Positive definite, with nothing that two entries share but by symmetry."""
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


@pytest.mark.parametrize(("n", "most"), [(1, 192), (7, 192), (2, 1), (7, 3), (300, 192)])
@pytest.mark.one_in(3)
def test_halves_do_what_the_whole_matrix_does(n, most):
    matrix, vector = symmetric(n), np.arange(1.0, n + 1.0)
    with jax.enable_x64(True):
        halves = Halves.of_matrix(jnp.asarray(matrix), most)
        assert (halves.rest is None) == (n <= most)
        np.testing.assert_array_equal(halves.matrix(), matrix)
        np.testing.assert_array_equal(halves.diagonal(), np.diagonal(matrix))
        np.testing.assert_allclose(halves.times(vector), matrix @ vector, rtol=1e-12)
        np.testing.assert_array_equal(halves.plus(2.0).matrix(), matrix + 2.0 * np.eye(n))
        covered = np.zeros((n, n))
        for part in halves.parts():
            np.testing.assert_array_equal(part.block, matrix[part.rows, part.columns])
            covered[part.rows, part.columns] += part.copies
        np.testing.assert_array_equal(covered + covered.T, 2.0)


@pytest.mark.parametrize("n", [50, 300, pytest.param(1100, marks=pytest.mark.slow)])
def test_the_inverse_of_halves(n):
    """Of 1100 rows symmetric products are halved as well."""
    matrix = symmetric(n)
    with jax.enable_x64(True):
        inverse, log_determinant = jax.jit(inverse_of_halves)(Halves.of_matrix(jnp.asarray(matrix)))
        whole = inverse.matrix()
    np.testing.assert_allclose(whole, np.linalg.inv(matrix), rtol=0, atol=1e-11)
    assert float(log_determinant) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-11)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_the_largest_of_a_row(n):
    values = np.random.default_rng(1).normal(size=n)
    for place in (0, n // 2, n - 1):
        values[place] += 10.0
        assert float(maximum(jnp.asarray(values))) == np.float32(values.max())
    assert float(maximum(jnp.full(n, -jnp.inf))) == -np.inf


@pytest.mark.parametrize("dimension", [1, 3])
def test_columns_are_those_of_the_points(dimension):
    points = np.random.default_rng(2).normal(size=(5, dimension)).astype(np.float32)
    np.testing.assert_array_equal(columns_of(jnp.asarray(points)), points.T)
