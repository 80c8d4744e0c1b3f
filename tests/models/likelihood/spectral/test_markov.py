"""Parts of the Matern likelihood in one column against slow twins; Laplace kernels."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Laplace, Matern, SquaredExponential, log_marginal_likelihood
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.markov import embedding_and_log_jacobian, filtered


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


ORDERS = [0.5, 1.5, 2.5]


@pytest.fixture(params=ORDERS, name="nu")
def nu_fixture(request):
    return request.param


def prepared(X):
    return jax.tree.map(jnp.asarray, spectral_index(X[:, None], Matern(0.5)))


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_a_laplace_kernel_is_a_matern_kernel(measure):
    X = skewed(325)
    values = [
        log_marginal_likelihood(X, kernel, measure=measure, likelihood=route)
        for kernel, route in (
            (Laplace(0.7), "spectral"),
            (Matern(0.5, 0.7), "spectral"),
            (Laplace(0.7), "dense"),
        )
    ]
    assert values[0] == values[1]
    assert values[0] == pytest.approx(values[2], rel=1e-12)


def test_a_remainder_of_a_balance_below_rounding_is_zero():
    """The two sides of a lattice differ by what lies beyond its nearer end."""
    X = np.arange(325.0)
    result = prepared(X).sums(Matern(0.5, 3.0), 0.1).log_jacobian
    left = np.exp(-np.minimum(X, X[::-1]) / 3.0)
    result = result[: len(X)]
    assert np.sum(left < 2.0**-51) > 100
    np.testing.assert_array_equal(np.isneginf(result[left < 2.0**-51]), True)
    assert np.all(np.isfinite(result[left > 2.0**-45]))


def test_data_prepared_for_another_kernel():
    with pytest.raises(ValueError, match="not prepared for SquaredExponential"):
        prepared(skewed(325)).likelihood_terms(SquaredExponential(1.0), 0.1, "unit")
    index = spectral_index(skewed(325)[:, None], SquaredExponential())
    with pytest.raises(ValueError, match="not prepared for Laplace"):
        index.likelihood_terms(Laplace(1.0), 0.1, "unit")


# The parts, compared with extended precision


def matern(t, p):
    """Of order p + 1/2, by the sum of its p + 1 terms (Rasmussen and Williams, 4.16)."""
    terms = (
        math.factorial(p + i)
        // (math.factorial(i) * math.factorial(p - i))
        * (2 * t) ** (p - i)
        * np.longdouble(1)
        for i in range(p + 1)
    )
    return math.factorial(p) * np.exp(-t) * sum(terms) / math.factorial(2 * p)


#: In units of 1 / rate: ties, pairs that nearly are, clusters far from one another.
HARD = np.sort(
    np.concatenate([skewed(40), [0.0, 0.0, 60.0, 60.0 + 1e-12, 900.0, 5e3, 5e3, 1e6, 1e6 + 1e-9]])
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("noise_variance", [0.1, 1e-5])
@pytest.mark.parametrize("spread", [1e-9, 1e-2, 1.0])
def test_the_filter_is_the_density(nu, spread, noise_variance, log_normal):
    p = round(2 * nu)
    x = spread * HARD.astype(np.longdouble)
    y = np.sin(HARD) + 2.0
    R = matern(np.abs(x[:, None] - x), p)
    covariance = R + np.longdouble(noise_variance) * np.eye(len(x))
    gaps = jnp.asarray(np.append(0.0, np.diff(x)), float)
    terms = jax.jit(filtered, static_argnums=3)(jnp.asarray(y), gaps, noise_variance, p + 1)
    result = -0.5 * (sum(terms) + len(x) * math.log(2.0 * math.pi))
    expected = log_normal(y.astype(np.longdouble), covariance)
    assert result == pytest.approx(float(expected), rel=1e-14 / noise_variance)


def test_sums_over_both_sides_in_extended_precision(nu):
    """An outlier at 900 / rate has terms of exp(-840), which double precision has no number for."""
    x = HARD
    t = np.abs(x.astype(np.longdouble)[:, None] - x)
    value = matern(t, round(nu - 0.5)).mean(axis=1)
    pull = {0.5: np.where(t > 0, 1.0, 0.0), 1.5: t, 2.5: (t + t**2) / 3}[nu] * np.exp(-t)
    slope = np.abs(np.sum(np.sign(x - x[:, None]) * pull, axis=1)) / len(x)
    reachable = slope > 0  # from 5e3 to 1e6 even extended precision has none
    before, after = np.searchsorted(x, x) - 1, np.searchsorted(x, x, side="right")
    beyond = np.concatenate([x, [np.inf, -np.inf]])
    gaps = np.concatenate([[0.0], np.diff(x), [0.0]])
    neighbors = np.stack([np.maximum(before, 0), np.minimum(after, len(x) - 1)])
    distances = np.stack([x - beyond[before], beyond[after] - x])
    embedding, log_gamma = jax.jit(embedding_and_log_jacobian, static_argnums=4)(
        *map(jnp.asarray, (gaps, neighbors, distances)), 1.0, nu, len(x)
    )
    np.testing.assert_allclose(embedding, value.astype(float), rtol=1e-14)
    expected = np.log(slope[reachable]).astype(float)
    np.testing.assert_allclose(log_gamma[reachable], expected, rtol=1e-12, atol=1e-12)
    assert np.sum(expected < -750.0) >= 1
    assert np.all(np.isfinite(log_gamma))
