"""Matern kernels in one column against n x n matrices, and a slow implementation of the parts."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Gaussian,
    Laplace,
    Matern,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.base import Parameters
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.markov import (
    embedding_and_log_jacobian,
    filtered,
    predict,
    stationary_covariance,
)


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


#: Of one size, so that they share programs.
DATA = {
    "skewed": skewed(325),
    "outliers": np.concatenate([skewed(320), [60.0, -40.0, -40.3, 21.0, 1e5]]),
    "heavy": np.random.default_rng(1).standard_cauchy(size=325),
    "ties": np.concatenate([np.repeat(skewed(160), 2), [30.0, 30.0, 30.0, 31.0, 31.0]]),
    "close": np.concatenate([skewed(321), [40.0, 40.0 + 1e-9, 80.0, 80.0 + 1e-12]]),
    "clusters": np.concatenate([1e-3 * skewed(165), 1e4 + skewed(160)]),
}
#: Lengthscales over the extent of the data.
RATIOS = [1e-5, 1e-3, 0.02, 0.3, 30.0, 1e3]
ORDERS = [0.5, 1.5, 2.5]


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=ORDERS, name="nu")
def nu_fixture(request):
    return request.param


def prepared(X):
    return jax.tree.map(jnp.asarray, spectral_index(X[:, None], Matern(0.5)))


def by_matrices(nu, measure="unit"):
    def terms(X, lengthscale, noise_variance):
        kernel = Matern(nu, lengthscale)
        return jnp.stack(dense_terms(X, kernel, noise_variance, measure, low_rank=False))

    return terms


def by_filter(nu, measure="unit"):
    def terms(index, lengthscale, noise_variance):
        kernel = Matern(nu, lengthscale)
        parameters = Parameters.of(kernel, noise_variance, measure)
        volumes = index.sums(kernel, noise_variance).log_jacobian
        return jnp.stack(index.value(parameters)), volumes

    return terms


@functools.cache
def compiled_filter(nu):
    """One program for all data of the size of :data:`DATA`."""
    return jax.jit(by_filter(nu))


@pytest.mark.one_in(3)
def test_both_terms_and_every_point_agree_with_the_matrices(nu):
    result, exact = compiled_filter(nu), jax.jit(by_matrices(nu))
    points = jax.jit(lambda X, lengthscale: log_jacobian(X, Matern(nu, lengthscale)))
    for name, X in DATA.items():
        index = prepared(X)
        for ratio in RATIOS:
            at = ratio * np.ptp(X), 0.1
            terms, volumes = result(index, *at)
            where = f"{name}, {ratio}"
            np.testing.assert_allclose(
                terms, exact(index.rows.data, *at), rtol=1e-11, err_msg=where
            )
            expected = points(index.rows.data, at[0])
            assert np.all(np.isfinite(expected)), where
            error = np.abs(volumes[: len(expected)] - expected) / np.maximum(1.0, np.abs(expected))
            assert np.max(error) < 1e-10, where


@pytest.mark.one_in(2)
@pytest.mark.parametrize("nu", [0.5, 2.5])
def test_gradient_agrees_with_that_of_the_matrices(nu):
    jacobian = jax.jit(jax.jacfwd(lambda *given: by_filter(nu)(*given)[0], argnums=(1, 2)))
    expected = jax.jit(jax.jacfwd(by_matrices(nu), argnums=(1, 2)))
    for name in ("outliers", "ties"):
        index = prepared(DATA[name])
        for ratio in (1e-4, 0.02, 1e3):
            at = ratio * np.ptp(DATA[name]), 0.3
            for slope, exact in zip(
                jacobian(index, *at), expected(index.rows.data, *at), strict=True
            ):
                np.testing.assert_allclose(slope, exact, rtol=1e-8, err_msg=f"{name}, {ratio}")


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_a_laplace_kernel_is_a_matern_one(measure):
    X = DATA["skewed"]
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


def test_lebesgue_measure():
    index = prepared(DATA["skewed"])
    result = jax.jit(by_filter(2.5, "lebesgue"))(index, 3.0, 0.1)[0]
    expected = jax.jit(by_matrices(2.5, "lebesgue"))(index.rows.data, 3.0, 0.1)
    np.testing.assert_allclose(result, expected, rtol=1e-11)


@pytest.mark.slow
def test_rows_in_any_order_and_transformations():
    X = skewed(5001)  # of which no matrices are compiled
    shuffled = np.random.default_rng(0).permutation(X)
    at = jnp.array([1e-4, 0.7, 5.0])

    @jax.jit
    @jax.vmap
    @jax.value_and_grad
    def value(lengthscale):
        kernel = Matern(1.5, lengthscale)
        return log_marginal_likelihood(shuffled, kernel, likelihood="spectral")

    result, gradients = value(at)
    expected = [jnp.sum(by_filter(1.5)(prepared(X), item, 0.1)[0]) for item in at]
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    step = 1e-6 * at
    differences = (value(at + step)[0] - value(at - step)[0]) / (2 * step)
    np.testing.assert_allclose(gradients, differences, rtol=1e-5)


@pytest.mark.one_in(3)
def test_balanced_neighbours_have_density_zero(nu):
    X = np.repeat([1.0, 1.0, 2.0, 3.0, 3.0], 65)
    volumes = compiled_filter(nu)
    result = volumes(prepared(X), 0.4, 0.1)[1]
    np.testing.assert_array_equal(np.isneginf(result[: len(X)]), np.sort(X) == 2.0)
    X[-1] += 0.5
    index = prepared(X)
    result = volumes(index, 0.4, 0.1)[1]
    expected = jax.jit(log_jacobian)(index.rows.data, Matern(nu, 0.4))
    np.testing.assert_allclose(result[: len(X)], expected, rtol=1e-9)


def test_what_is_left_of_a_balance_below_rounding_is_zero():
    """The two sides of a lattice differ by what lies beyond its nearer end."""
    X = np.arange(325.0)
    result = compiled_filter(0.5)(prepared(X), 3.0, 0.1)[1]
    left = np.exp(-np.minimum(X, X[::-1]) / 3.0)
    result = result[: len(X)]
    assert np.sum(left < 2.0**-51) > 100
    np.testing.assert_array_equal(np.isneginf(result[left < 2.0**-51]), True)
    assert np.all(np.isfinite(result[left > 2.0**-45]))


def test_hardly_any_noise_takes_the_matrices():
    """The filter alone is off in the eighth digit."""
    X = np.sort(DATA["skewed"])
    options = {"measure": "lebesgue", "noise_variance": 1e-9}
    values = [
        log_marginal_likelihood(X, Matern(0.5, 50.0), likelihood=route, **options)
        for route in ("spectral", "dense")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


@pytest.mark.slow
def test_hardly_any_noise_and_many_rows_are_an_error():
    """Without a number in place of the slope either."""
    X = skewed(5001)
    with pytest.raises(ArithmeticError, match="too small compared with the diagonal"):
        log_marginal_likelihood(X, Matern(1.5), noise_variance=1e-9)
    index = prepared(X)
    slope = jax.jacfwd(lambda at: index.likelihood_terms(Matern(1.5, at), 1e-9, "unit").jacobian)(
        1.0
    )
    assert np.isnan(slope)


@pytest.mark.parametrize(
    ("X", "kernel", "options", "reason"),
    [
        (np.ones((300, 2)) * skewed(300)[:, None], Matern(1.5), {}, "2 columns, and it takes one"),
        (skewed(300), Matern(1.5), {"measure": Gaussian(1.0)}, "no smoothed kernel"),
        (skewed(300), Matern(1.5), {"noise_variance": "clt"}, "sampling covariance"),
        (skewed(300), 2.0 * Matern(1.5), {}, "the kernel is Scaled"),
        (skewed(249), Matern(1.5), {}, "249 rows are too few"),
        (np.ones(300), Laplace(), {}, "all rows are equal"),
    ],
)
def test_refusals_name_the_reason(X, kernel, options, reason):
    with pytest.raises(ValueError, match=reason):
        log_marginal_likelihood(X, kernel, likelihood="spectral", **options)


def test_data_prepared_for_another_kernel():
    with pytest.raises(ValueError, match="not prepared for SquaredExponential"):
        prepared(DATA["skewed"]).likelihood_terms(SquaredExponential(1.0), 0.1, "unit")
    index = spectral_index(DATA["skewed"][:, None], SquaredExponential())
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


def test_slopes_of_a_step_of_the_filter(nu):
    m = round(2 * nu + 1)
    rng = np.random.default_rng(0)
    root = jnp.asarray(rng.normal(size=(m, m)))
    state = (root @ root.T, jnp.asarray(rng.normal(size=m)))

    @jax.jit
    def explained(gap):
        return jnp.concatenate([item.ravel() for item in predict(state, gap)])

    for gap in (0.0, 0.7, 30.0):
        step = 1e-5
        difference = (explained(gap + step) - explained(gap - step)) / (2 * step)
        slope = jax.jvp(explained, (gap,), (1.0,))[1]
        np.testing.assert_allclose(slope, difference, rtol=1e-7, atol=1e-8)


def test_the_stationary_covariance_stays(nu):
    """dP_inf/dt has nothing but the noise of the last state."""
    m = round(2 * nu + 1)
    F, P = np.eye(m, k=1) - np.eye(m), stationary_covariance(m)
    change = F @ P + P @ F.T
    np.testing.assert_allclose(change.ravel()[:-1], 0.0, atol=1e-13)
    assert change[-1, -1] < 0.0
    assert P[0, 0] == 1.0


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
