"""The log Bayes factor of a difference against normal densities and differences, and its model."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from bke.models import (
    Laplace,
    SquaredExponential,
    bke_model,
    log_difference_evidence,
    two_scale_model,
)
from numpyro.infer.util import log_density

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(12, 2)), RNG.normal(0.5, 1.4, size=(20, 2))


def reference(kernel, size):
    n, proportion = 32, 12 / 32
    labels = (np.arange(n) < 12) - proportion
    labels = labels / np.sqrt(proportion * (1 - proportion))
    points = np.concatenate([P, Q])
    H = np.eye(n) - 1 / n
    covariance = np.eye(n) + size**2 * H @ kernel(points, points) @ H
    alternative = scipy.stats.multivariate_normal(np.zeros(n), covariance)
    return alternative.logpdf(labels) - scipy.stats.multivariate_normal(np.zeros(n)).logpdf(labels)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.8), Laplace(np.array([0.5, 2.0]))])
@pytest.mark.parametrize("size", [0.1, 2.0])
def test_is_the_ratio_of_two_normal_densities(kernel, size):
    assert log_difference_evidence(P, Q, kernel, size) == pytest.approx(reference(kernel, size))


@pytest.mark.slow
def test_gradient_against_differences():
    def value(theta):
        kernel = SquaredExponential(jnp.exp(theta[:2]))
        return log_difference_evidence(P, Q, kernel, jnp.exp(theta[2]))

    theta = np.array([-0.3, 0.4, -0.2])
    with jax.enable_x64(True):
        slope, forward = jax.grad(value)(theta), jax.jacfwd(value)(theta)
        steps = 1e-5 * np.eye(3)
        numerical = [(value(theta + h) - value(theta - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(slope, numerical, rtol=1e-6)
    np.testing.assert_allclose(forward, slope, rtol=1e-10)


def test_symmetric_in_the_samples():
    kernel = SquaredExponential(0.8)
    expected = log_difference_evidence(P, Q, kernel, 0.7)
    assert log_difference_evidence(Q, P, kernel, 0.7) == pytest.approx(expected)


@pytest.mark.slow
def test_model_is_the_sum_of_its_parts():
    values = {"lengthscale": 1.3, "difference_lengthscale": 0.6, "difference_size": 0.2}
    shape = {"noise_variance": 0.05}
    with jax.enable_x64(True):
        total, trace = log_density(two_scale_model, (P, Q), shape, values)
        rows = np.concatenate([P, Q])
        shape_density, _ = log_density(bke_model, (rows,), shape, {"lengthscale": 1.3})
        total, shape_density = float(total), float(shape_density)
    log_bayes_factor = log_difference_evidence(P, Q, SquaredExponential(0.6), 0.2)
    prior = scipy.stats.gamma(1).logpdf(0.6) + scipy.stats.loguniform(0.01, 1.0).logpdf(0.2)
    assert total == pytest.approx(shape_density + log_bayes_factor + prior)
    assert float(trace["log_difference"]["value"]) == pytest.approx(log_bayes_factor)


@pytest.mark.slow
def test_model_takes_a_lengthscale_per_column_and_a_prior_of_the_size():
    prior = dist.LogNormal(np.zeros(2), 1.0)
    with jax.enable_x64(True), numpyro.handlers.seed(rng_seed=0):
        trace = numpyro.handlers.trace(two_scale_model).get_trace(
            P, Q, difference_prior=prior, size_prior=dist.HalfNormal(0.5)
        )
    assert trace["difference_lengthscale"]["value"].shape == (2,)
    assert float(trace["difference_size"]["value"]) > 0


def test_rows_of_different_columns_are_refused():
    with pytest.raises(ValueError, match="P has 2 columns and Q has 1"):
        log_difference_evidence(P, Q[:, 0], SquaredExponential(1.0), 0.1)
    with pytest.raises(ValueError, match="P has 1 columns and Q has 2"):
        log_difference_evidence(P[:, 0], Q, SquaredExponential(1.0), 0.1)
