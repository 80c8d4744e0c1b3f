"""Sums of squared exponentials in one column: their parts and kinds against explicit sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import Nuts, fit
from bke.models import GaussianMixture, Scaled, SquaredExponential, log_marginal_likelihood
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import base as base_module, spectral_index
from bke.models.likelihood.spectral.line import LineIndex
from bke.models.likelihood.spectral.mixture import MixtureIndex

SE = SquaredExponential


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


def test_terms_agree_with_r_by_quadrature():
    """The model by BKE (2), (4), (12) and (13), without functions of the package."""
    x = np.append(skewed(299), 25.0)
    kernel = 2.0 * (SE(0.4) + 0.3 * SE(1.1)) + SE(9.0)
    parts = [(2.0, 0.4), (0.6, 1.1), (1.0, 9.0)]

    def k(difference):
        return sum(w * np.exp(-0.5 * (difference / at) ** 2) for w, at in parts)

    difference = x[:, None] - x
    embedding = k(difference).mean(axis=1)
    gradients = sum(
        -w * difference / at**2 * np.exp(-0.5 * (difference / at) ** 2) for w, at in parts
    )
    u = np.arange(-80.0, 110.0, 0.1)
    to_u, at_zero = k(x[:, None] - u), k(u)
    R = to_u @ to_u.T / (at_zero @ at_zero)
    covariance = R + 0.2 * np.eye(300)
    gaussian = -0.5 * (
        embedding @ np.linalg.solve(covariance, embedding)
        + np.linalg.slogdet(covariance)[1]
        + 300 * np.log(2 * np.pi)
    )
    volume = np.sum(np.log(np.abs(gradients.mean(axis=1))))
    index = spectral_index(x[:, None], kernel)
    assert isinstance(index, MixtureIndex)
    terms = jax.jit(lambda index: index.likelihood_terms(kernel, 0.2, "unit"))
    result = terms(jax.tree.map(jnp.asarray, index))
    np.testing.assert_allclose(result, (gaussian, volume), rtol=1e-10)


def test_types_of_sums():
    X = skewed(705)[:, None]
    for kernel in (
        0.5 * SE(2.0) + 1.5 * (SE(0.7) + SE(0.7)),
        Scaled(GaussianMixture(np.array([2.0, 0.7, 0.7]), np.array([1.0, 3.0, 3.0])), 0.5),
        0.5 * SE(2.0) + GaussianMixture(np.array([0.7, 0.7]), np.array([1.5, 1.5])),
        0.5 * SE(2.0) + 3.0 * GaussianMixture(np.array([[0.7], [0.7]])),
    ):
        index = spectral_index(X, kernel)
        assert isinstance(index, MixtureIndex)
        assert index.shortest_of(kernel) == pytest.approx(0.7, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_a_number_times_a_squared_exponential(measure, monkeypatch):
    """By waves and on the grid, as for the squared exponential itself."""
    monkeypatch.setattr(base_module, "MAX_DENSE", 0)  # half the time to compile
    X = skewed(400)[:, None]
    index = jax.tree.map(jnp.asarray, spectral_index(X, 2.0 * SE()))
    assert isinstance(index, LineIndex)

    def kernel(t):
        return 2.0 * Scaled(SE(t[0]), t[1])

    value = jax.jit(lambda t: sum(index.likelihood_terms(kernel(t), t[2], measure)))
    gradients = jax.jit(jax.grad(value))
    exact = jax.jit(lambda t: sum(dense_terms(X, kernel(t), t[2], measure, low_rank=False)))
    for lengthscale in float(index.long.shortest) * np.array([4.0, 0.7]):
        t = jnp.array([lengthscale, 1.7, 0.2])
        assert value(t) == pytest.approx(float(exact(t)), rel=1e-11)
        if measure == "unit":
            step = jnp.array([0.0, 1e-4, 1e-4])  # gamma has zeros along the lengthscale
            difference = (value(t + step) - value(t - step)) / 2e-4
            assert gradients(t)[1:].sum() == pytest.approx(float(difference), rel=1e-6)


# The parts


@pytest.mark.slow
def test_fit_takes_it():
    X = np.concatenate([skewed(200), 8.0 + 0.3 * skewed(120, seed=1)])
    options = {
        "method": Nuts(num_chains=1, num_warmup=20, num_samples=4),
        "seed": 1,
        "progress": False,
    }
    run = fit(X, kernel=SE() + SE(), likelihood="spectral", standardize=None, **options)
    sites = ("lengthscale_0", "lengthscale_1")
    at = np.array([run["posterior"][site].values[-1, -1] for site in sites])
    expected = log_marginal_likelihood(X, SE(at[0]) + SE(at[1]), likelihood="dense")
    log_prior = np.sum(np.log(at) - at)  # Gamma(1, 1), of log lengthscale
    result = run["sample_stats"]["lp"].values[-1, -1]
    assert result == pytest.approx(float(expected) + log_prior, rel=1e-8)
