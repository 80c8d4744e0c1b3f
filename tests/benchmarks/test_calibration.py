"""Simulation-based calibration of the samplers, and whether it detects a wrong posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import SquaredExponential, log_marginal_likelihood
from numpyro.distributions import Gamma
from scipy import integrate, stats


@pytest.fixture(scope="module")
def calibration(load):
    return load("calibration")


@pytest.mark.slow
def test_joint_draws_have_the_density_of_the_model(calibration):
    """2000 draws, seed 0, against a grid at lengthscale one; tests at 0.001."""
    lengthscales, rows, effective_sample_size = calibration.joint_draws(2000)
    prior_over_lengthscale = stats.gamma(2.0, scale=1 / 3.0)
    assert stats.kstest(lengthscales, prior_over_lengthscale.cdf).pvalue > 1e-3
    assert not rows[:, 0].any()
    assert effective_sample_size > 10_000
    grid = np.linspace(-5.0, 5.0, 61)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    points = np.stack([np.zeros_like(x), x, y], axis=-1).reshape(-1, 3, 1)
    kernel = SquaredExponential(1.0)
    with jax.enable_x64(True):
        density = jnp.exp(
            jax.jit(jax.vmap(lambda X: log_marginal_likelihood(X, kernel, noise_variance=0.1)))(
                points
            )
        ).reshape(61, 61)
    cdf = integrate.cumulative_trapezoid(np.asarray(density).sum(axis=1), grid, initial=0.0)
    first = rows[:, 1, 0] / lengthscales
    assert stats.kstest(first, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quadrature", "NUTS", "SMC"])
def test_lengthscales_are_calibrated(calibration, name):
    """100 data sets, seed 2; fails by chance with probability 0.001."""
    lengthscales, rows, _ = calibration.joint_draws(100, seed=2)
    values = calibration.ranks(calibration.METHODS[name], lengthscales, rows)
    assert values.min() >= 0
    assert values.max() <= calibration.NUM_DRAWS
    assert calibration.uniformity_pvalue(values) > 1e-3


@pytest.mark.slow
def test_calibration_detects_a_wrong_prior(calibration, monkeypatch):
    """A prior with half the lengthscale: 60 data sets, seed 0."""
    lengthscales, rows, _ = calibration.joint_draws(60)
    monkeypatch.setattr(calibration, "Gamma", lambda shape, rate: Gamma(shape, 2.0 * rate))
    values = calibration.ranks(calibration.METHODS["quadrature"], lengthscales, rows)
    assert calibration.uniformity_pvalue(values) < 1e-3
