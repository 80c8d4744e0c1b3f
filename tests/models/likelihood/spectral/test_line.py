"""Limits that apply only to one column and a squared exponential."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import SquaredExponential, log_jacobian
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import spectral_index
from bke.models.measures import Lebesgue, Unit


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


@jax.jit
def dense(X, lengthscale, noise_variance=0.1):
    kernel = SquaredExponential(lengthscale)
    return dense_terms(X, kernel, noise_variance, "unit", low_rank=False)


@jax.jit
def spectral(index, lengthscale, noise_variance=0.1):
    return index.likelihood_terms(SquaredExponential(lengthscale), noise_variance, "unit")


@jax.jit
def volumes(index, lengthscale):
    """log gamma at every point, by whichever range it is."""
    return index.log_jacobian(SquaredExponential(lengthscale))


@pytest.mark.slow
def test_very_short_lengthscales_of_a_scaled_kernel_and_with_hardly_any_noise():
    index = jax.tree.map(jnp.asarray, spectral_index(skewed(325)[:, None]))
    kernel = SquaredExponential(0.5 * float(index.banded)) * 3.0
    for measure in ("unit", "lebesgue"):
        # A unit in the last place of 1 + 1e-9 changes the first term by 3e-6 of its 600: neither
        # side is more accurate than that.
        for noise_variance, tolerance in ((0.2, 1e-12), (1e-9, 1e-7)):
            at = kernel, noise_variance, measure
            expected = dense_terms(index.rows.data, *at, low_rank=False)
            np.testing.assert_allclose(index.likelihood_terms(*at), expected, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("lengthscale", "center"), [(10.0, 300.0), (3.0, 100.0), (0.5, 30.0)])
def test_distant_neighbors_that_nearly_balance(lengthscale, center):
    """Their difference five lengthscales away is lost compared with the terms of the others."""
    for unbalance in (1e-6, 1e-10):
        three = center + 5.0 * lengthscale * np.array([-1.0, 0.0, 1.0 + unbalance])
        X = np.concatenate([skewed(322), three])[:, None]
        index = jax.tree.map(jnp.asarray, spectral_index(X))
        expected = log_jacobian(index.rows.data, SquaredExponential(lengthscale))
        error = np.abs(volumes(index, lengthscale)[: len(expected)] - expected)
        assert np.all(error <= 1e-6 * np.maximum(1.0, np.abs(expected)))
        # Without them the three would be at exp(-12.5) and more.
        assert expected[-2] < np.log(unbalance) - 12.0


@pytest.mark.slow
def test_a_program_without_matrices_is_undefined_where_it_needs_them():
    X = np.random.default_rng(7).normal(size=600)[:, None]
    index = spectral_index(X)
    short = jax.tree.map(jnp.asarray, index.specialized(0.1, Unit()))
    assert not short.has_matrices
    at = 1.5 * float(index.short.shortest[0])
    np.testing.assert_allclose(spectral(short, at), dense(X, at), rtol=1e-9)
    assert np.isnan(spectral(short, at, 1e-12).gaussian)  # too little noise for a grid
    for noise_variance, measure in ((1e-12, Unit()), (0.1, Lebesgue())):
        assert index.specialized(noise_variance, measure).has_matrices
    # Of half as many rows, some lengthscales have neither a grid nor a band.
    assert spectral_index(X[:300]).specialized(0.1, Unit()).has_matrices


@pytest.mark.slow
def test_points_without_a_value_have_no_gradient():
    X = np.append(skewed(5940), np.full(60, 2.0))
    index = jax.tree.map(jnp.asarray, spectral_index(X[:, None]))
    assert index.shortest > 0.0
    slope = jax.jacfwd(lambda at: sum(spectral(index, at)))(0.5 * index.shortest)
    assert np.isnan(slope)
