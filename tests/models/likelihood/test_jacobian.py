"""Lengths of vectors as logarithms, which neither overflow nor vanish."""

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.likelihood.jacobian import log_length


def test_log_lengths_by_hand():
    vectors = np.array([[3.0, -4.0], [0.0, 0.0], [3e200, 4e200], [3e-200, -4e-200], [0.0, 7.0]])
    with jax.enable_x64(True):
        log_lengths = np.asarray(jax.jit(log_length)(jnp.asarray(vectors)))
        gradients = jax.jit(jax.jacobian(log_length))(jnp.asarray(vectors[:1]))
    expected = [np.log(5.0), -np.inf, np.log(5e200), np.log(5e-200), np.log(7.0)]
    np.testing.assert_allclose(log_lengths, expected, rtol=1e-14)
    np.testing.assert_allclose(gradients[0, 0], vectors[0] / 25.0, rtol=1e-12)
