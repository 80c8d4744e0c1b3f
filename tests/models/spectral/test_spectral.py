"""Sums of waves beside the n x n matrices: both terms, every point, the gradient, the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Gaussian, Matern, SquaredExponential, log_marginal_likelihood, log_volume
from bke.models.dense_likelihood import dense_terms
from bke.models.spectral import MOST_DENSE, spectral_index, spectral_terms
from bke.models.spectral import isolated as isolated_module
from bke.models.spectral.cells import cells_over, evaluate, taylor, wave_sums, waves_over
from bke.models.spectral.isolated import _least_slope, isolated_points

#: Mathematics that no other Python changes: left out of the fast tests.
pytestmark = pytest.mark.slow


def skewed(n=600, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


DATA = {
    "skewed": skewed(),
    "outliers": np.concatenate([skewed(320), [60.0, -40.0, -40.3, 21.0, 1e5]]),
    "heavy": np.random.default_rng(1).standard_cauchy(size=320),
    "ties": np.concatenate([np.repeat(skewed(160), 2), [30.0, 30.0, 30.0, 31.0]]),
    "close": np.concatenate([skewed(320), [40.0, 40.0 + 1e-9, 80.0, 80.0 + 1e-12]]),
}
#: Over the shortest lengthscale of the index.
RATIOS = [1.001, 1.6, 4.0, 30.0, 1e3, 1e6]


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@jax.jit
def dense(X, lengthscale, noise_variance=0.1):
    kernel = SquaredExponential(lengthscale)
    return dense_terms(X, kernel, noise_variance, "unit", low_rank=False)


@jax.jit
def spectral(index, lengthscale, noise_variance=0.1):
    return spectral_terms(index, SquaredExponential(lengthscale), noise_variance, "unit")


@jax.jit
def volumes(index, lengthscale):
    """log gamma at every point, by whichever range it is."""
    kernel = SquaredExponential(lengthscale)
    each = [part.terms(kernel, 0.1, "unit")[1] for part in index.ranges]
    return jnp.stack(each)[index.range_of(lengthscale)]


@pytest.fixture(params=DATA, name="name")
def name_fixture(request):
    return request.param


def prepared(name):
    index = jax.tree.map(jnp.asarray, spectral_index(DATA[name][:, None]))
    return index, float(index.ranges[-1].shortest)


def test_both_terms_and_every_point_agree_with_the_matrices(name):
    index, shortest = prepared(name)
    for ratio in RATIOS:
        lengthscale = ratio * shortest
        gaussian, volume = spectral(index, lengthscale)
        exact = dense(index.points, lengthscale)
        assert gaussian == pytest.approx(float(exact.gaussian), rel=1e-9, abs=1e-8), ratio
        assert volume == pytest.approx(float(exact.volume), rel=1e-9, abs=1e-6), ratio
        expected = log_volume(index.points, SquaredExponential(lengthscale))
        error = np.abs(volumes(index, lengthscale) - expected)
        assert np.all(error <= 1e-6 * np.maximum(1.0, np.abs(expected))), ratio


def test_gradient_agrees_with_that_of_the_matrices(name):
    index, shortest = prepared(name)
    by_waves = jax.jit(jax.grad(lambda *at: sum(spectral(index, *at)), argnums=(0, 1)))
    by_matrices = jax.jit(jax.grad(lambda *at: sum(dense(index.points, *at)), argnums=(0, 1)))
    for ratio in (1.001, 4.0, 1e3):
        at = ratio * shortest, 0.3
        np.testing.assert_allclose(by_waves(*at), by_matrices(*at), rtol=1e-6, err_msg=str(ratio))


def test_too_short_lengthscales_go_to_the_matrices():
    index, shortest = prepared("skewed")
    lengthscale = 0.5 * shortest
    exact = dense(index.points, lengthscale)
    assert sum(spectral(index, lengthscale)) == pytest.approx(float(sum(exact)), rel=1e-12)
    slope = jax.grad(lambda at: sum(spectral(index, at)))(lengthscale)
    expected = jax.grad(lambda at: sum(dense(index.points, at)))(lengthscale)
    assert slope == pytest.approx(float(expected), rel=1e-9)


def test_lebesgue_measure():
    index, shortest = prepared("skewed")
    for lengthscale in (2.0 * shortest, 3.0):
        kernel = SquaredExponential(lengthscale)
        found = spectral_terms(index, kernel, 0.1, "lebesgue")
        expected = dense_terms(index.points, kernel, 0.1, "lebesgue", low_rank=False)
        assert found.gaussian == pytest.approx(float(expected.gaussian), rel=1e-9)


def test_isolated_points_need_their_pairs(monkeypatch):
    """Without them the waves' rounding error would stand for gamma."""
    monkeypatch.setattr(isolated_module, "SLOPE", 0.0)
    index, shortest = prepared("outliers")
    lengthscale = 4.0 * shortest
    expected = log_volume(index.points, SquaredExponential(lengthscale))
    error = np.abs(volumes(index, lengthscale) - expected)
    assert np.any(error > 1e-2 * np.abs(expected))


def test_balanced_neighbours_have_density_zero():
    X = np.arange(2001.0)
    kernel = SquaredExponential(30.0)
    assert log_marginal_likelihood(X, kernel, likelihood="spectral") == -np.inf
    assert log_marginal_likelihood(X, kernel, likelihood="dense") == -np.inf
    # One step off the balance all are positive again.
    X[-1] += 0.5
    values = [log_marginal_likelihood(X, kernel, likelihood=r) for r in ("spectral", "dense")]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_rows_in_any_order_and_transformations():
    X = DATA["skewed"]
    expected = log_marginal_likelihood(X, SquaredExponential(0.7), likelihood="dense")
    shuffled = np.random.default_rng(0).permutation(X)

    @jax.jit
    def value(lengthscale):
        kernel = SquaredExponential(lengthscale)
        return log_marginal_likelihood(shuffled, kernel, likelihood="spectral")

    assert value(0.7) == pytest.approx(float(expected), rel=1e-10)
    slope = jax.jacfwd(value)(0.7)
    assert slope == pytest.approx(float(jax.grad(value)(0.7)), rel=1e-12)
    several = jax.vmap(value)(jnp.array([0.01, 0.7, 5.0]))
    assert several[1] == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize(
    ("X", "kernel", "options", "reason"),
    [
        (np.ones((300, 2)) * skewed(300)[:, None], SquaredExponential(), {}, "2 columns"),
        (skewed(300), Matern(1.5), {}, "Matern"),
        (skewed(300), SquaredExponential(), {"measure": Gaussian(1.0)}, "Gaussian"),
        (skewed(300), SquaredExponential(), {"noise_variance": "clt"}, "sampling covariance"),
        (skewed(249), SquaredExponential(), {}, "249 rows are too few"),
        (np.ones(300), SquaredExponential(), {}, "all rows are equal"),
    ],
)
def test_refusals_name_the_reason(X, kernel, options, reason):
    with pytest.raises(ValueError, match=reason):
        log_marginal_likelihood(X, kernel, likelihood="spectral", **options)


def test_traced_data_are_refused():
    with pytest.raises(ValueError, match="close over them"):
        jax.jit(lambda X: log_marginal_likelihood(X, SquaredExponential(), likelihood="spectral"))(
            skewed(300)
        )


def test_a_lengthscale_that_no_route_takes_is_an_error():
    X = skewed(MOST_DENSE + 1)
    with pytest.raises(ArithmeticError, match=f"too short beside {len(X)} rows"):
        log_marginal_likelihood(X, SquaredExponential(1e-6))


def test_noise_lost_to_rounding_is_an_error():
    """As by the matrices: R grows with the lengthscale under the Lebesgue measure."""
    for likelihood in ("spectral", "dense"):
        with pytest.raises(ArithmeticError, match="too small beside the diagonal"):
            log_marginal_likelihood(
                skewed(300), SquaredExponential(1e13), measure="lebesgue", likelihood=likelihood
            )


# The parts


def test_sums_of_waves_and_their_derivative():
    rng = np.random.default_rng(0)
    x = np.sort(rng.gamma(2.0, size=300))
    x -= x[0]
    cells = jax.tree.map(jnp.asarray, cells_over(x, x[-1] / 40, 40))
    spacing, m = 0.4, 37
    frequencies = spacing * np.arange(m + 1)
    around = waves_over(cells, spacing, m)
    phases = frequencies[:, None] * x
    cosines, sines = wave_sums(cells, around, jnp.asarray(frequencies))
    np.testing.assert_allclose(cosines, np.cos(phases).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(sines, np.sin(phases).sum(axis=1), atol=1e-9)
    a, b = rng.normal(size=(2, m + 1)) * np.exp(-0.02 * frequencies**2)
    found = evaluate(cells, taylor(cells, around, jnp.asarray(frequencies), a, b), jnp.asarray(x))
    expected = (-frequencies * a) @ np.sin(phases) + (frequencies * b) @ np.cos(phases)
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_the_bound_that_tells_isolated_points_is_one():
    x = np.sort(np.concatenate([skewed(200), [9.0, 9.0, 30.0]]))
    upto = np.searchsorted(x, x, side="right")
    for lengthscale in (0.05, 0.7, 4.0):
        bound = _least_slope(x, upto, lengthscale, np.inf)
        scaled = (x - x[:, None]) / lengthscale
        right = np.where(scaled > 0.0, scaled * np.exp(-0.5 * scaled**2), 0.0).sum(axis=1)
        assert np.all(bound <= right * (1 + 1e-12))
        assert np.median(bound[:-5] / right[:-5]) > 0.2  # and not a trivial one


def test_points_are_isolated_until_a_neighbour_counts():
    x = np.sort(np.concatenate([skewed(400), [40.0]]))
    found = isolated_points(x, 0.5, np.inf)
    (row,) = found.rows[found.rows < len(x)]
    assert x[row] == 40.0
    gap = (40.0 - x[-2]) / found.until[0]
    assert gap * np.exp(-0.5 * gap**2) == pytest.approx(isolated_module.SLOPE * len(x), rel=1e-6)
