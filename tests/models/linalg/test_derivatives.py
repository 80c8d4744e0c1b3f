"""Batches one by one, under any order of transformations."""

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.linalg.derivatives import sequential_vmap


@sequential_vmap
def branching(x, both):
    return jax.lax.cond(x > 0, lambda: x**3 * both["scale"], lambda: jnp.sin(x))


X = jnp.array([-1.0, 0.5, 2.0])
PARAMETERS = {"scale": jnp.array(3.0)}


def expected(x, scale=3.0):
    return np.where(x > 0, x**3 * scale, np.sin(x))


def test_batched_in_a_single_argument_or_both():
    np.testing.assert_allclose(
        jax.vmap(branching, (0, None))(X, PARAMETERS), expected(X), rtol=1e-6
    )
    scales = {"scale": jnp.array([1.0, 2.0, 4.0])}
    result = jax.vmap(branching)(X, scales)
    np.testing.assert_allclose(result, expected(X, scales["scale"]), rtol=1e-6)
    nested = jax.vmap(jax.vmap(branching, (0, None)), (None, 0))(X, scales)
    np.testing.assert_allclose(nested[2], expected(X, 4.0), rtol=1e-6)


def test_only_the_selected_branch_is_evaluated():
    """Every entry through both branches would make two ``select``s of this."""
    text = str(jax.make_jaxpr(jax.vmap(branching, (0, None)))(X, PARAMETERS))
    assert "cond[" in text
    assert "select" not in text


def test_forward_derivatives_in_and_around_a_batch():
    exact = [np.cos(-1.0), 9 * 0.25, 9 * 4.0]
    inside = jax.vmap(jax.jacfwd(branching), (0, None))(X, PARAMETERS)
    np.testing.assert_allclose(inside, exact, rtol=1e-6)
    around = jax.jacfwd(lambda x: jax.vmap(branching, (0, None))(x, PARAMETERS))(X)
    np.testing.assert_allclose(around, np.diag(exact), rtol=1e-6)
    # A batch of tangents at one point.
    tangents = jax.vmap(lambda dot: jax.jvp(lambda x: branching(x, PARAMETERS), (2.0,), (dot,))[1])
    np.testing.assert_allclose(tangents(X), 36.0 * X, rtol=1e-6)
