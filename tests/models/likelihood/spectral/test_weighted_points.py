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
    """A hump and rows that hardly any other is near."""
    rng = np.random.default_rng(3)
    return np.sort(np.concatenate([rng.normal(size=n - 4), [7.0, 7.3, -9.0, 30.0]]))


@jax.jit
def terms(index, lengthscale):
    return index.likelihood_terms(SquaredExponential(lengthscale), 0.1, "unit")


@pytest.mark.parametrize("lengthscale", [5.0, 0.4, 0.03, 0.004])
@pytest.mark.slow
def test_rows_that_are_there_several_times(lengthscale):
    """Waves, grids, and pairs of what is far out; every row once, twice or three times."""
    x = rows(6001)
    times = 1 + np.arange(len(x)) % 3
    weighted = jax.tree.map(jnp.asarray, weighted_line_index(x, times.astype(float), 0.001))
    repeated = spectral_index(np.repeat(x, times)[:, None])
    one, other = (terms(item, lengthscale) for item in (weighted, repeated))
    np.testing.assert_allclose(one.gaussian, other.gaussian, rtol=1e-11)
    np.testing.assert_allclose(one.jacobian, other.jacobian, rtol=1e-11)
    assert np.isfinite(one.jacobian)


@pytest.mark.slow
def test_slopes_and_a_variance():
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
    """Points for ``x``, with the rows of bins that ``keep`` (bins,) says."""
    place, u = find_bins(x, WIDTH)
    bins, place, counts = np.unique(place, return_inverse=True, return_counts=True)
    many = counts > MAX_UNBINNED
    inside = many[place]
    own = (np.cumsum(many) - 1)[place]
    moments = bin_moments(own[inside], u[inside], int(many.sum()))
    kept = np.zeros(len(moments), dtype=bool) | keep
    return weighted_points(bins[many], moments, WIDTH, kept, x[~inside | kept[own]])


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", [1.0, 0.3])
def test_the_error_by_nodes_is_told(lengthscale):
    """As long as no zero of mu_hat' is near; the rows there leave only rounding."""
    x = rows(60_000)
    whole = terms(spectral_index(x[:, None]), lengthscale)
    keep = False
    estimated = []
    for _ in range(2):
        points = binned(x, keep)
        index = weighted_line_index(points.x, points.weights, WIDTH)
        index = jax.tree.map(jnp.asarray, index)
        result = terms(index, lengthscale)
        np.testing.assert_allclose(result.gaussian, whole.gaussian, rtol=1e-11)
        log_jacobian = index.log_jacobian(SquaredExponential(lengthscale))
        errors = np.asarray(volume_errors(log_jacobian, points.nodes, points.counts))
        assert abs(result.jacobian - whole.jacobian) <= errors.sum() + 1e-6
        estimated.append(errors.sum())
        keep = errors > 1e-9
    assert estimated[0] > 1.0
    assert estimated[1] < 1e-5
    assert len(points.x) < 0.5 * len(x)
