"""Weighted points give what the rows they stand for give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Scaled, SquaredExponential
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.line import (
    MAX_UNBINNED,
    bin_moments,
    find_bins,
    volume_errors,
    weighted_line_index,
    weighted_points,
)

WIDTH = 2.0**-7


def rows(n):
    """Return normal rows and a few isolated ones."""
    rng = np.random.default_rng(3)
    return np.sort(np.concatenate([rng.normal(size=n - 4), [7.0, 7.3, -9.0, 30.0]]))


@jax.jit
def terms(index, lengthscale):
    return index.likelihood_terms(SquaredExponential(lengthscale), 0.1, "unit")


@pytest.mark.parametrize("lengthscale", [5.0, 0.4, 0.03, 0.004])
@pytest.mark.slow
def test_weights_are_repeated_rows(lengthscale):
    """Waves, grids, and pairs of isolated points; rows occur one to three times."""
    x = rows(6001)
    times = 1 + np.arange(len(x)) % 3
    weighted = jax.tree.map(jnp.asarray, weighted_line_index(x, times.astype(float), 0.001))
    repeated = spectral_index(np.repeat(x, times)[:, None])
    by_weights, by_repetition = (terms(item, lengthscale) for item in (weighted, repeated))
    np.testing.assert_allclose(by_weights.gaussian, by_repetition.gaussian, rtol=1e-11)
    np.testing.assert_allclose(by_weights.jacobian, by_repetition.jacobian, rtol=1e-11)
    assert np.isfinite(by_weights.jacobian)


@pytest.mark.slow
def test_gradients_and_a_variance():
    x = rows(6001)
    weighted = jax.tree.map(jnp.asarray, weighted_line_index(x, np.full(len(x), 2.0), 0.001))
    repeated = spectral_index(np.repeat(x, 2)[:, None])

    def both(theta, index):
        kernel = Scaled(SquaredExponential(theta[0]), theta[1])
        return jnp.stack(index.likelihood_terms(kernel, theta[2], "lebesgue"))

    gradients = jax.jacfwd(both)
    theta = jnp.array([0.4, 1.3, 0.2])
    np.testing.assert_allclose(gradients(theta, weighted), gradients(theta, repeated), rtol=1e-8)


def binned(x, keep):
    """Return points for ``x``, with the rows of the bins in the mask ``keep`` (bins,)."""
    bin_of_row, u = find_bins(x, WIDTH)
    bins, bin_of_row, counts = np.unique(bin_of_row, return_inverse=True, return_counts=True)
    is_full = counts > MAX_UNBINNED
    inside = is_full[bin_of_row]
    index_of_full = (np.cumsum(is_full) - 1)[bin_of_row]
    moments = bin_moments(index_of_full[inside], u[inside], int(is_full.sum()))
    has_rows = np.zeros(len(moments), dtype=bool) | keep
    return weighted_points(
        bins[is_full], moments, WIDTH, has_rows, x[~inside | has_rows[index_of_full]]
    )


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", [1.0, 0.3])
def test_the_error_by_nodes_is_estimated(lengthscale):
    """As long as no zero of mu_hat' is near; the rows there leave only rounding."""
    x = rows(60_000)
    exact = terms(spectral_index(x[:, None]), lengthscale)
    keep = False
    estimated = []
    for _ in range(2):
        points = binned(x, keep)
        index = weighted_line_index(points.x, points.weights, WIDTH)
        index = jax.tree.map(jnp.asarray, index)
        result = terms(index, lengthscale)
        np.testing.assert_allclose(result.gaussian, exact.gaussian, rtol=1e-11)
        log_jacobian = index.log_jacobian(SquaredExponential(lengthscale))
        errors = np.asarray(volume_errors(log_jacobian, points.nodes, points.counts))
        assert abs(result.jacobian - exact.jacobian) <= errors.sum() + 1e-6
        estimated.append(errors.sum())
        keep = errors > 1e-9
    assert estimated[0] > 1.0
    assert estimated[1] < 1e-5
    assert len(points.x) < 0.5 * len(x)
