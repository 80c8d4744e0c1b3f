"""The embedding's posterior in a Fourier basis and by matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import SquaredExponential, embedding_posterior
from bke.models.embeddings import fourier_posterior as embedding
from bke.models.embeddings.fourier_posterior import (
    fourier_posterior,
    fourier_sample,
    supports_fourier,
)

RNG = np.random.default_rng(0)
# Skewed, with a far cluster, away from zero, not in order.
X = RNG.permutation(np.concatenate([RNG.gamma(2.0, 1.0, 280), RNG.normal(30.0, 1.0, 20)]))[:, None]
X = X + 100.0
LOW, HIGH = X.min() - 5.0, X.max() + 3.0
AT = np.linspace(LOW, HIGH, 60)[:, None]


def compiled_posterior(sample, lengthscale, **options):
    with jax.enable_x64(True):
        compiled = jax.jit(
            lambda scale: fourier_posterior(sample, SquaredExponential(scale), AT, **options)
        )
        return jax.tree.map(np.asarray, compiled(jnp.float64(lengthscale)))


# Where there are no data the nugget of 1e-8 and the rounding of R meet: 1e-5 of the variance there.
@pytest.mark.slow
@pytest.mark.parametrize(("noise", "tolerance"), [("clt", 1e-5), (0.1, 1e-10), (1e-4, 1e-8)])
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_posterior_agrees_with_matrices(noise, tolerance, measure):
    sample = fourier_sample(X, LOW, HIGH)
    options = {"noise": noise, "measure": measure}
    for lengthscale in (1.001 * sample.shortest, 3.0, 50.0):
        kernel = SquaredExponential(lengthscale)
        result = compiled_posterior(sample, lengthscale, **options)
        expected = embedding_posterior(X, kernel, AT, **options)
        largest = np.diagonal(expected.covariance).max()
        assert np.abs(result.mean - expected.mean).max() < 0.01 * tolerance + 1e-12
        assert np.abs(result.covariance - expected.covariance).max() < tolerance * largest
    # The tolerance is much smaller than the effect.
    assert np.abs(expected.mean).max() > 0.5


def test_small_variances_are_accurate():
    """By matrices 1e-10 is the difference of two numbers of the order of 1: wrong at 1e-16."""
    sample = fourier_sample(X, LOW, HIGH)
    result = compiled_posterior(sample, 1e7, noise=0.1, measure="unit")
    again = compiled_posterior(sample, 1e7, noise=0.1 * (1 + 1e-6), measure="unit")
    variance = np.diagonal(result.covariance)
    assert (variance > 0).all()
    # At such a lengthscale it is that of one number observed 300 times.
    np.testing.assert_allclose(variance, 0.1 / (300 + 0.1), rtol=1e-6)
    np.testing.assert_allclose(np.diagonal(again.covariance) / variance, 1 + 1e-6, rtol=1e-8)


@pytest.mark.slow
def test_short_lengthscales_use_matrices_or_raise(monkeypatch):
    kernel = SquaredExponential(0.2)
    assert fourier_sample(X, LOW, HIGH).shortest > 0.2
    expected = embedding_posterior(X, kernel, AT)
    result = compiled_posterior(fourier_sample(X, LOW, HIGH), 0.2, noise="clt", measure="unit")
    np.testing.assert_allclose(result.mean, expected.mean, atol=1e-9)
    # As if these rows were too many for matrices: shorter ones by more waves, then nothing.
    monkeypatch.setattr(embedding, "MAX_DENSE", 200)
    sample = fourier_sample(X, LOW, HIGH)
    assert sample.shortest == pytest.approx(0.25 * sample.extent / 45.0)
    finer = compiled_posterior(sample, 0.3, noise="clt", measure="unit")
    monkeypatch.undo()
    expected = embedding_posterior(X, SquaredExponential(0.3), AT)
    np.testing.assert_allclose(finer.mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(finer.covariance, expected.covariance, atol=1e-5)
    monkeypatch.setattr(embedding, "MAX_DENSE", 200)
    assert np.isnan(compiled_posterior(sample, 0.1, noise="clt", measure="unit").mean).all()
    with (
        pytest.raises(ArithmeticError, match="too short for all of 300 rows"),
        jax.enable_x64(True),
    ):
        fourier_posterior(sample, SquaredExponential(0.1), AT, noise="clt", measure="unit")


def test_supported_data_and_kernels():
    kernel = SquaredExponential(1.0)
    assert supports_fourier(X, kernel, "unit")
    assert not supports_fourier(X[:100], kernel, "unit")
    assert not supports_fourier(np.hstack([X, X]), kernel, "unit")
    assert not supports_fourier(X, 2.0 * kernel, "unit")
