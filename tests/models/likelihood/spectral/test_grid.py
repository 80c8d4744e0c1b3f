"""Parts of the grid and the bands of one column."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.likelihood.spectral.grid import eliminate, grid_tables


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
def test_elimination_of_a_block_tridiagonal_system():
    rng = np.random.default_rng(0)
    b, blocks = 5, 4
    root = np.triu(np.tril(rng.normal(size=(2, b * blocks, b * blocks)), 0), -b)
    inside = np.kron(np.eye(blocks), np.ones((b, b))) + np.kron(
        np.eye(blocks, k=-1), np.ones((b, b))
    )
    root = root * inside
    z = rng.normal(size=(2, b * blocks))

    def pieces(t):
        L = root[0] + t * root[1] + 3.0 * np.eye(b * blocks)
        return L @ L.T, z[0] + t * z[1]

    def eliminated(t):
        M, right = pieces(t)
        M = M.reshape(blocks, b, blocks, b)
        left = M[0, :, 0], right[:b], 0.0, 0.0
        for i in range(1, blocks + 1):
            last = i == blocks
            edge = jnp.zeros((b, b)) if last else M[i, :, i - 1]
            block = jnp.eye(b) if last else M[i, :, i]
            rest = jnp.zeros(b) if last else right[i * b : (i + 1) * b]
            left = eliminate(left, edge, block, rest)
        return jnp.stack([left[3], left[2]])

    def whole(t):
        M, right = pieces(t)
        return jnp.stack([jnp.linalg.slogdet(M)[1], right @ jnp.linalg.solve(M, right)])

    np.testing.assert_allclose(eliminated(0.2), whole(0.2), rtol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(eliminated)(0.2), jax.jacfwd(whole)(0.2), rtol=1e-11)


def test_cells_of_several_grids():
    scaled = np.sort(np.random.default_rng(0).uniform(0.0, 60.0, size=(2, 300)))
    scaled[1] *= 2.0
    powers, slots, num_slots, first, count = grid_tables(list(scaled), 3, 300)
    assert list(first) == [0, 7]
    assert list(count) == [2, 3]
    for points, block in zip(scaled, first, strict=True):
        u = points[np.floor(points) == 50] - 50.5
        result = powers[block + 1, 2]
        np.testing.assert_allclose(result, [np.sum(u**p) for p in range(35)], atol=1e-13)
        assert slots[block + 1, 2] == len(np.unique(np.floor(points[points < 50])))
    assert not powers[2:7].any()
    assert (slots[2:7] == num_slots).all()
