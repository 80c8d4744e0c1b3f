"""Sums of squared exponentials in one column against n x n matrices and explicit sums."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import Nuts, fit
from bke.models import (
    GaussianMixture,
    Scaled,
    SpectralMixture,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import (
    base as base_module,
    mixture as mixture_module,
    spectral_index,
)
from bke.models.likelihood.spectral.line import LineIndex
from bke.models.likelihood.spectral.mixture import (
    GAUSSIAN_WIDTH,
    ORDER,
    MixtureIndex,
    blocks_of,
    mixture_index,
    panels_over,
)
from bke.models.likelihood.spectral.pairs import isolated_in_column

SE = SquaredExponential


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


#: Of one size, so that they share programs.
DATA = {
    "skewed": skewed(705),
    "outliers": np.concatenate([skewed(700), [60.0, -40.0, -40.3, 21.0, 1e5]]),
    "heavy": np.random.default_rng(1).standard_cauchy(size=705),
    "ties": np.concatenate([np.repeat(skewed(350), 2), [30.0, 30.0, 30.0, 31.0, 31.0]]),
    "close": 1e4 + np.concatenate([skewed(701), [40.0, 40.0 + 1e-9, 80.0, 80.0 + 1e-10]]),
}
#: Of the lengthscales over the shortest.
RATIOS = [(1.0, 2.0, 10.0), (1.0, 1.0, 50.0), (1.0, 3.0, 1e4)]
WEIGHTS = np.array([0.7, 1.3, 0.4])


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def no_matrices(monkeypatch):
    """What is compiled takes only nodes: half the time."""
    monkeypatch.setattr(base_module, "MAX_DENSE", 0)


@jax.jit
def dense(X, lengthscales, weights, noise_variance=0.1):
    kernel = GaussianMixture(lengthscales, weights)
    return dense_terms(X, kernel, noise_variance, "unit", low_rank=False)


@jax.jit
def spectral(index, lengthscales, weights, noise_variance=0.1):
    return index.likelihood_terms(GaussianMixture(lengthscales, weights), noise_variance, "unit")


@jax.jit
def volumes(index, kernel):
    """Log gamma at every point."""
    return index.sums(kernel, 0.1).log_jacobian


def prepared(name):
    return jax.tree.map(jnp.asarray, mixture_index(DATA[name][:, None]))


def shortest_lengthscales(index):
    """Near both ends of every range."""
    return sorted(float(item.shortest) * f for item in index.ranges for f in (1.001, 2.3))


@pytest.mark.slow
@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("name", DATA)
def test_both_terms_and_every_point_agree_with_the_matrices(name):
    index = prepared(name)
    assert len(index.ranges) == 2
    for ratios, shortest in zip(2 * RATIOS, shortest_lengthscales(index), strict=False):
        at = shortest * np.array(ratios), WEIGHTS
        gaussian, volume = spectral(index, *at)
        exact = dense(index.rows.data, *at)
        assert gaussian == pytest.approx(float(exact.gaussian), rel=1e-11), at
        assert volume == pytest.approx(float(exact.jacobian), rel=1e-10), at
        kernel = GaussianMixture(*at)
        expected = log_jacobian(index.rows.data, kernel)
        error = np.abs(volumes(index, kernel)[: len(expected)] - expected)
        assert np.all(error <= 1e-8 * np.maximum(1.0, np.abs(expected))), at


@jax.jit
def spectral_slopes(index, *at):
    return jax.jacrev(lambda *at: jnp.stack(spectral(index, *at)), argnums=(0, 1, 2))(*at)


@jax.jit
def dense_slopes(X, *at):
    return jax.jacrev(lambda *at: jnp.stack(dense(X, *at)), argnums=(0, 1, 2))(*at)


@pytest.mark.slow
@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("name", ["outliers", "heavy"])
def test_gradient_agrees_with_that_of_the_matrices(name):
    index = prepared(name)
    for ratios, shortest in zip(RATIOS, shortest_lengthscales(index), strict=False):
        at = shortest * np.array(ratios), WEIGHTS, 0.3
        both = spectral_slopes(index, *at), dense_slopes(index.rows.data, *at)
        for result, expected in zip(*both, strict=True):
            # The slope along a long component is small beside the others'.
            atol = 1e-10 * np.abs(expected).max()
            np.testing.assert_allclose(result, expected, rtol=1e-8, atol=atol, err_msg=str(ratios))


def test_written_out_with_r_by_quadrature():
    """The model as BKE (2), (4), (12) and (13) have it, and nothing of the package."""
    x = np.append(skewed(299), 25.0)
    kernel = 2.0 * (SE(0.4) + 0.3 * SE(1.1)) + SE(9.0)
    parts = [(2.0, 0.4), (0.6, 1.1), (1.0, 9.0)]

    def k(apart):
        return sum(w * np.exp(-0.5 * (apart / at) ** 2) for w, at in parts)

    apart = x[:, None] - x
    embedding = k(apart).mean(axis=1)
    gradients = sum(-w * apart / at**2 * np.exp(-0.5 * (apart / at) ** 2) for w, at in parts)
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


def test_kinds_of_sums():
    X = DATA["skewed"][:, None]
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
@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_a_number_times_one_squared_exponential(measure):
    """By waves and on the grid, as for the squared exponential itself."""
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


@pytest.mark.slow
def test_transformations_and_lengthscales_that_are_too_short():
    X = skewed(300)
    shortest = mixture_index(X[:, None]).shortest

    def batch(likelihood):
        def value(short, long):
            kernel = SE(short) + 0.5 * SE(long)
            return log_marginal_likelihood(X[::-1], kernel, likelihood=likelihood)

        one = jax.value_and_grad(value, (0, 1))
        many = jax.vmap(one, (0, None)) if likelihood == "spectral" else one
        return jax.jit(many)

    # Nodes and matrices in one batch.
    at = jnp.array([0.3 * shortest, 2.0 * shortest, 0.7])
    values, gradients = batch("spectral")(at, 3.0)
    exact = batch("dense")
    for i, one in enumerate(at):
        expected, expected_slopes = exact(one, 3.0)
        assert values[i] == pytest.approx(float(expected), rel=1e-11)
        for result, item in zip(gradients, expected_slopes, strict=True):
            assert result[i] == pytest.approx(float(item), rel=1e-8)


@pytest.mark.slow
def test_a_lengthscale_that_no_route_takes_is_an_error():
    X = skewed(6000)
    with pytest.raises(ArithmeticError, match=f"too short for {len(X)} rows"):
        log_marginal_likelihood(X, SE(1e-6) + SE(1.0))


@pytest.mark.slow
def test_outliers_need_their_pairs(monkeypatch):
    none = partial(isolated_in_column, min_slope=0.0)
    monkeypatch.setattr(mixture_module, "isolated_in_column", none)
    index = prepared("outliers")
    kernel = GaussianMixture(index.shortest * np.array(RATIOS[0]), WEIGHTS)
    expected = log_jacobian(index.rows.data, kernel)
    assert not np.all(
        np.abs(volumes(index, kernel)[: len(expected)] - expected) < 1e-2 * np.abs(expected)
    )


def test_balanced_neighbours_have_density_zero():
    X = np.arange(705.0)
    index = jax.tree.map(jnp.asarray, mixture_index(X[:, None]))
    kernel = GaussianMixture(np.array([30.0, 90.0, 90.0]), WEIGHTS)
    (balanced,) = np.flatnonzero(np.isneginf(volumes(index, kernel)))
    assert balanced == 352


@pytest.mark.parametrize(
    ("X", "kernel", "reason"),
    [
        (np.random.default_rng(0).normal(size=(1200, 2)), SE() + SE(2.0), "in several columns"),
        (np.random.default_rng(0).normal(size=(1200, 2)), 2.0 * SE(), "in several columns"),
        (skewed(300), SpectralMixture(1.0, 0.3), "SpectralMixture"),
        (skewed(249), SE() + SE(2.0), "249 rows are too few"),
        (np.ones(300), SE() + SE(2.0), "all rows are equal"),
    ],
)
def test_refusals_name_the_reason(X, kernel, reason):
    with pytest.raises(ValueError, match=reason):
        log_marginal_likelihood(X, kernel, likelihood="spectral")


# The parts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["skewed", "ties", "close"])
def test_nodes_stand_for_the_points(name):
    x = np.sort(DATA[name])
    lengthscale, y = 0.3, x[::50]
    width = GAUSSIAN_WIDTH * lengthscale
    panels = panels_over(x, width, blocks_of(x, width) + 1)
    at = (panels.nodes.center + panels.nodes.offset).reshape(-1)

    def functions(x):
        return np.exp(-0.25 * ((x[:, None] - y) / lengthscale) ** 2)

    exact = functions(x)
    sums = functions(at).T @ panels.weights.reshape(-1)
    np.testing.assert_allclose(sums, exact.sum(axis=0), rtol=1e-11)
    blocks = functions(at).reshape(-1, ORDER, len(y))
    rooted = (panels.roots() @ blocks).reshape(-1, len(y))
    np.testing.assert_allclose(rooted.T @ rooted, exact.T @ exact, rtol=1e-9, atol=1e-11)
    result = np.stack(
        [
            jax.tree.map(jnp.asarray, panels.locations).interpolate(
                jnp.asarray(column.reshape(-1, ORDER))
            )
            for column in functions(at).T
        ]
    )
    np.testing.assert_allclose(result.T, exact, atol=1e-12)


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
