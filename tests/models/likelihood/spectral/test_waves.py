"""Sums of waves over the cells of a column."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.likelihood.spectral.waves import (
    cell_moments,
    evaluate,
    taylor,
    wave_sums,
    waves_over,
)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def test_sums_of_waves_and_their_derivative():
    rng = np.random.default_rng(0)
    x = np.sort(rng.gamma(2.0, size=300))
    x -= x[0]
    cells = jax.tree.map(jnp.asarray, cell_moments(x, x[-1] / 40, 40))
    spacing, m = 0.4, 37
    frequencies = spacing * np.arange(m + 1)
    phases = frequencies[:, None] * x

    @jax.jit
    def sums(cells):
        return wave_sums(cells, waves_over(cells, spacing, m), jnp.asarray(frequencies))

    @jax.jit
    def derivative(cells, a, b):
        waves = waves_over(cells, spacing, m)
        series = taylor(cells, waves, jnp.asarray(frequencies), a, b)
        return evaluate(cells, series, jnp.asarray(x))

    cosines, sines = sums(cells)
    np.testing.assert_allclose(cosines, np.cos(phases).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(sines, np.sin(phases).sum(axis=1), atol=1e-9)
    a, b = rng.normal(size=(2, m + 1)) * np.exp(-0.02 * frequencies**2)
    result = derivative(cells, a, b)
    expected = (-frequencies * a) @ np.sin(phases) + (frequencies * b) @ np.cos(phases)
    np.testing.assert_allclose(result, expected, atol=1e-11)
