"""The posterior of the embedding against plain NumPy, the exact embedding against integrals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Gaussian,
    Matern,
    SquaredExponential,
    embedding_posterior,
    empirical_embedding,
    gaussian_mixture_embedding,
)

ELL = np.array([0.8, 1.5])
WEIGHTS = np.array([0.2, 0.5, 0.3])
MEANS = np.array([[-2.0, 0.5], [0.3, -1.0], [1.9, 1.2]])
DEVIATIONS = np.array([0.4, 1.1, 0.7])


def data(n, D, seed=0):
    """Draws from the mixture, rows independent."""
    rng = np.random.default_rng(seed)
    components = rng.choice(3, size=n, p=WEIGHTS)
    return MEANS[components, :D] + DEVIATIONS[components, None] * rng.normal(size=(n, D))


def squared(X, Y):
    return ((X[:, None] - Y[None]) ** 2 / ELL[: X.shape[1]] ** 2).sum(-1)


def k(X, Y):
    return np.exp(-0.5 * squared(X, Y))


def r(X, Y, measure="unit"):
    D = X.shape[1]
    fall = np.exp(-0.25 * squared(X, Y))
    if measure == "unit":
        return fall
    if measure == "lebesgue":
        return np.pi ** (D / 2) * ELL[:D].prod() * fall
    m = 0.5 * (X[:, None] + Y[None]) - measure.center
    constant = (2 * np.pi) ** (D / 2) / np.sqrt(np.prod(2 / ELL[:D] ** 2 + measure.scale**-2))
    drop = np.exp(-0.5 * (m**2 / (ELL[:D] ** 2 / 2 + measure.scale**2)).sum(-1))
    return constant * fall * drop


def plain_posterior(X, at, noise, measure):
    n = len(X)
    if noise == "clt":
        # n - 1 for an unbiased covariance, n for the variance of a mean.
        N = np.cov(k(X, X), rowvar=False, ddof=1) / n + 1e-8 * np.eye(n)
    else:
        N = noise * np.eye(n)
    gain = np.linalg.solve(r(X, X, measure) + N, r(X, at, measure)).T
    mu_hat = np.array([np.mean(k(X, x[None])) for x in X])
    return gain @ mu_hat, r(at, at, measure) - gain @ r(X, at, measure)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("noise", ["clt", 0.1, 1e-3])
@pytest.mark.parametrize("measure", ["unit", "lebesgue", Gaussian(2.5, 0.3)], ids=str)
def test_posterior_agrees_with_plain_numpy(D, noise, measure):
    X, at = data(25, D), data(7, D, seed=1)
    kernel = SquaredExponential(ELL[:D])
    result = embedding_posterior(X, kernel, at, noise=noise, measure=measure)
    mean, covariance = plain_posterior(X, at, noise, measure)
    # R + C/n has condition 1e8 or more: digits are lost on both sides.
    tolerance = 1e-6 if noise == "clt" else 1e-11
    assert result.mean.shape == (7,)
    assert result.covariance.shape == (7, 7)
    np.testing.assert_allclose(result.mean, mean, atol=tolerance)
    np.testing.assert_allclose(result.covariance, covariance, atol=tolerance)


@pytest.mark.slow
def test_posterior_mean_tends_to_the_truth():
    """Root mean squared error falls as 1 / sqrt(n); 8 data sets each."""
    at = np.linspace(-3.5, 3.5, 40)
    truth = gaussian_mixture_embedding(WEIGHTS, MEANS[:, 0], DEVIATIONS, ELL[0], at)
    errors = []
    for n in (40, 360):
        squares = [
            np.mean(
                (embedding_posterior(data(n, 1, seed), SquaredExponential(ELL[0]), at).mean - truth)
                ** 2
            )
            for seed in range(8)
        ]
        errors.append(np.sqrt(np.mean(squares)))
    assert errors[0] < 0.07
    assert 1.8 < errors[0] / errors[1] < 5.0  # sqrt(360 / 40) = 3


def test_empirical_embedding_is_the_mean_of_the_kernel():
    X, at = data(9, 2), data(4, 2, seed=2)
    expected = k(at, X).mean(axis=1)
    np.testing.assert_allclose(empirical_embedding(X, SquaredExponential(ELL), at), expected)
    t = np.sqrt(3) * np.abs(X[:, 0] - 0.2) / 0.7
    result = empirical_embedding(X[:, 0], Matern(1.5, 0.7), [0.2])
    np.testing.assert_allclose(result, [np.mean((1 + t) * np.exp(-t))])


# The exact embedding of a Gaussian mixture


@pytest.mark.parametrize(("D", "step"), [(1, 0.002), (2, 0.03)])
def test_mixture_embedding_by_integration(D, step):
    at = np.array([[-1.0, 0.5], [0.9, -2.0], [2.2, 1.4]])[:, :D]
    U = np.stack(np.meshgrid(*[np.arange(-11.0, 11.0, step)] * D, indexing="ij"), axis=-1)
    density = sum(
        w * np.exp(-((U - m) ** 2).sum(-1) / (2 * s**2)) / (2 * np.pi * s**2) ** (D / 2)
        for w, m, s in zip(WEIGHTS, MEANS[:, :D], DEVIATIONS, strict=True)
    )
    kernels = (np.exp(-0.5 * ((U - t) ** 2 / ELL[:D] ** 2).sum(-1)) for t in at)
    expected = [np.sum(density * kernel) * step**D for kernel in kernels]
    result = gaussian_mixture_embedding(WEIGHTS, MEANS[:, :D], DEVIATIONS, ELL[:D], at)
    np.testing.assert_allclose(result, expected, rtol=1e-9)


# JAX and refusals


@pytest.mark.slow
def test_eager_calls_are_double_and_traced_ones_need_double():
    X, at = data(10, 1), np.array([0.1, 0.7])
    with jax.enable_x64(False):
        result = embedding_posterior(X, SquaredExponential(0.5), at)
        truth = gaussian_mixture_embedding(WEIGHTS, MEANS, DEVIATIONS, 1.0, np.zeros((1, 2)))
        assert jax.config.jax_enable_x64 is False
        with pytest.raises(RuntimeError, match="jax_enable_x64"):
            jax.jit(lambda ell: embedding_posterior(X, SquaredExponential(ell), at).mean)(0.5)
    for array in (*result, truth):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
    with jax.enable_x64(True):
        traced = jax.jit(lambda ell: embedding_posterior(X, SquaredExponential(ell), at))(
            jnp.asarray(0.5)
        )
    np.testing.assert_allclose(traced.mean, result.mean, atol=1e-7)


@pytest.mark.parametrize("noise", [0.0, -0.1, np.nan, "CLT", "paper"])
def test_invalid_noise(noise):
    with pytest.raises(ValueError, match="noise"):
        embedding_posterior([0.0, 1.0, 2.5], SquaredExponential(1.0), [0.5], noise=noise)


def test_columns_must_agree():
    with pytest.raises(ValueError, match="X has 2 columns but at has 1"):
        embedding_posterior(data(5, 2), SquaredExponential(1.0), [0.5])
