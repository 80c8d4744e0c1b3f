"""Two and three columns, and the points of tensor products, against n x n matrices."""

from functools import partialmethod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Matern, SquaredExponential, log_jacobian, log_marginal_likelihood
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.marginal import likelihood_solver
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.box import box_index
from bke.models.likelihood.spectral.pairs import DistinctPoints

N = 1000


def normal(columns, n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def skewed():
    """Heavy tails, a near pair and a tied one far off, and one row beyond all others."""
    X = np.random.default_rng(1).gamma(2.0, size=(N, 2))
    X[:7] = [[40, 40], [40.3, 40], [-9, 7], [-9, 7], [21, 0], [13, -12], [3e3, 1]]
    return X


def clusters():
    """On a line but for rounding, in columns of unlike scale."""
    x = 0.3 * normal(1) + 8.0 * np.random.default_rng(2).integers(0, 3, size=(N, 1))
    return x * [1.0, -0.02] + 1e-9 * normal(2, seed=3)


DATA = {
    "skewed": skewed(),
    "clusters": clusters(),
    "rounded": np.round(normal(2), 1) + np.array([1e4, 0.0]),
    "three": np.round(normal(3) @ [[1.0, 0.9, 0.0], [0.0, 0.2, 0.5], [0.0, 0.0, 1.0]], 2),
}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@jax.jit
def dense(X, lengthscale, noise_variance):
    return both(
        lambda *at: dense_terms(X, *at, "unit", low_rank=False), lengthscale, noise_variance
    )


@jax.jit
def spectral(index, lengthscale, noise_variance):
    return both(lambda *at: index.likelihood_terms(*at, "unit"), lengthscale, noise_variance)


def both(terms, *at):
    """Values (2,) and gradients (2, 2) in the lengthscale and the noise variance."""

    def stacked(theta):
        value = jnp.stack(terms(SquaredExponential(theta[0]), theta[1]))
        return value, value

    gradients, value = jax.jacfwd(stacked, has_aux=True)(jnp.stack(at))
    return value, gradients


@jax.jit
def volumes(index, lengthscale):
    return index.sums(SquaredExponential(lengthscale), 0.1).log_jacobian


def as_arrays(index):
    return jax.tree.map(jnp.asarray, index)


@pytest.fixture(scope="module", params=DATA, name="index")
def index_fixture(request):
    with jax.enable_x64(True):
        return as_arrays(spectral_index(DATA[request.param]))


def lengthscales(index):
    """Near both ends of every range."""
    for i, item in enumerate(index.ranges):
        for ratio in (1.001, 1.4) if i else (1.001, 1.4, 30.0, 1e4):
            yield ratio * float(item.shortest)


@pytest.mark.slow
def test_both_terms_every_point_and_the_slopes_agree_with_the_matrices(index):
    agrees_with_the_matrices(index)


@pytest.mark.slow
def test_few_rows_and_two_ranges_agree_with_the_matrices():
    index = as_arrays(box_index(DATA["skewed"][:240], min_rows=100, max_ranges=2))
    assert len(index.ranges) == 2
    agrees_with_the_matrices(index)


def agrees_with_the_matrices(index):
    for lengthscale in lengthscales(index):
        value, gradients = spectral(index, lengthscale, 0.1)
        exact, exact_slopes = dense(index.rows.data, lengthscale, 0.1)
        np.testing.assert_allclose(value, exact, rtol=1e-8, err_msg=str(lengthscale))
        # A slope of nearly nothing is the difference of terms as large as the value.
        scale = np.abs(exact)[:, None] / [lengthscale, 0.1]
        error = np.abs(gradients - exact_slopes) / np.maximum(np.abs(exact_slopes), 0.01 * scale)
        assert np.all(error <= 1e-6), (lengthscale, error)
        expected = np.asarray(log_jacobian(index.rows.data, SquaredExponential(lengthscale)))
        result = np.asarray(volumes(index, lengthscale))
        zero = np.isneginf(expected)
        assert np.array_equal(zero, np.isneginf(result)), lengthscale
        error = np.abs(result - expected)[~zero]
        assert np.all(error <= 1e-6 * np.maximum(1.0, np.abs(expected[~zero]))), lengthscale


@pytest.mark.slow
def test_less_noise_and_the_lebesgue_measure():
    index = as_arrays(spectral_index(DATA["skewed"]))
    kernel = SquaredExponential(1.3 * float(index.ranges[-1].shortest))
    for measure, noise in (("unit", 1e-4), ("lebesgue", 0.3)):
        result = index.likelihood_terms(kernel, noise, measure)
        exact = dense_terms(index.rows.data, kernel, noise, measure, low_rank=False)
        np.testing.assert_allclose(result, exact, rtol=1e-6)


@pytest.mark.slow
def test_what_the_basis_is_not_exact_enough_for_takes_the_matrices():
    index = as_arrays(spectral_index(DATA["skewed"]))
    for lengthscale, noise in ((0.9 * float(index.shortest), 0.1), (float(index.shortest), 1e-8)):
        value, gradients = spectral(index, lengthscale, noise)
        exact, exact_slopes = dense(index.rows.data, lengthscale, noise)
        np.testing.assert_allclose(value, exact, rtol=1e-12)
        np.testing.assert_allclose(gradients, exact_slopes, rtol=1e-9)


@pytest.mark.slow
def test_a_lengthscale_that_no_route_takes_is_an_error():
    X = normal(2, n=5100)
    with pytest.raises(ArithmeticError, match="too short for 5100 rows"):
        log_marginal_likelihood(X, SquaredExponential(1e-3))


@pytest.mark.slow
def test_isolated_points_need_their_pairs(monkeypatch):
    """Without them rounding error would stand for gamma."""
    none = partialmethod(DistinctPoints.isolated, min_slope=0.0)
    monkeypatch.setattr(DistinctPoints, "isolated", none)
    index = as_arrays(spectral_index(DATA["skewed"]))
    lengthscale = float(index.shortest)
    expected = log_jacobian(index.rows.data, SquaredExponential(lengthscale))
    error = np.abs(volumes(index, lengthscale) - expected)
    assert not np.all(error <= 1e-2 * np.abs(expected))


@pytest.mark.slow
def test_balanced_neighbours_have_density_zero():
    side = np.arange(33.0)
    X = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    index = as_arrays(spectral_index(X))
    log_gamma = np.asarray(volumes(index, 9.0))
    middle = np.flatnonzero(np.all(np.asarray(index.rows.data) == 16.0, axis=1))
    assert np.flatnonzero(np.isneginf(log_gamma)) == middle


@pytest.mark.parametrize(
    ("X", "kernel", "reason"),
    [
        (normal(4), SquaredExponential(), "4 columns, and it takes up to 3"),
        (normal(2), Matern(1.5), "Matern"),
        (normal(2), SquaredExponential([1.0, 2.0]), "a lengthscale for each column"),
        (normal(2)[:999], SquaredExponential(), "999 rows are too few"),
        (np.ones((N, 2)), SquaredExponential(), "all rows are equal"),
    ],
)
def test_refusals_name_the_reason(X, kernel, reason):
    with pytest.raises(ValueError, match=reason):
        log_marginal_likelihood(X, kernel, likelihood="spectral")


@pytest.mark.slow
def test_auto_takes_it_where_it_can():
    ready = likelihood_solver(normal(2), SquaredExponential(1.0), 0.1, "unit", "auto")
    assert len(ready.ranges) >= 2
    item = [
        likelihood_solver(normal(2), SquaredExponential([1.0, 2.0]), 0.1, "unit", "auto"),
        likelihood_solver(normal(2)[:500], SquaredExponential(1.0), 0.1, "unit", "auto"),
        likelihood_solver(normal(4), SquaredExponential(1.0), 0.1, "unit", "auto"),
    ]
    assert [len(x.rows) for x in item] == [N, 512, N]


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.0, 1e-7, 1e-2])
def test_a_column_that_hardly_varies_takes_little_memory(width):
    """As long as one column, the box has as many functions along it: their pairs once filled it."""
    X = np.random.default_rng(0).normal(size=(1001, 2)) * [1.0, width]
    index = as_arrays(spectral_index(X))
    for item in index.ranges:
        assert max(f.shape[0] * f.shape[1] ** 2 for f in item.basis.functions) < 1.1e8
    lengthscale = 1.01 * float(index.ranges[-1].shortest)
    kernel = SquaredExponential(lengthscale)
    expected = dense_terms(index.rows.data, kernel, 0.1, "unit", low_rank=False)
    result = index.likelihood_terms(kernel, 0.1, "unit")
    np.testing.assert_allclose(result.gaussian, expected.gaussian, rtol=1e-8)
