"""One column and a squared exponential against n x n matrices: terms, points, gradient, limits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Gaussian,
    RationalQuadratic,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import line as line_module, spectral_index
from bke.models.likelihood.spectral.pairs import isolated_in_column
from bke.models.measures import Lebesgue, Unit


def skewed(n=600, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


#: Of one size, so that they share programs.
DATA = {
    "skewed": skewed(325),
    "outliers": np.concatenate([skewed(320), [60.0, -40.0, -40.3, 21.0, 1e5]]),
    "heavy": np.random.default_rng(1).standard_cauchy(size=325),
    "ties": np.concatenate([np.repeat(skewed(160), 2), [30.0, 30.0, 30.0, 31.0, 31.0]]),
    "close": np.concatenate([skewed(321), [40.0, 40.0 + 1e-9, 80.0, 80.0 + 1e-12]]),
}
#: Over the shortest lengthscale of the waves.
RATIOS = [1.001, 4.0, 30.0, 1e3, 1e6]


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
    return index.likelihood_terms(SquaredExponential(lengthscale), noise_variance, "unit")


@jax.jit
def dense_volumes(X, lengthscale):
    return log_jacobian(X, SquaredExponential(lengthscale))


@jax.jit
def volumes(index, lengthscale):
    """log gamma at every point, by whichever range it is."""
    return index.log_jacobian(SquaredExponential(lengthscale))


@pytest.fixture(params=DATA, name="name")
def name_fixture(request):
    return request.param


def prepared(name):
    index = jax.tree.map(jnp.asarray, spectral_index(DATA[name][:, None]))
    return index, float(index.long.shortest)


def lengthscales(index):
    """Of the waves, and near both ends of every range of the grids."""
    long = [ratio * float(index.long.shortest) for ratio in RATIOS]
    ranges = [shortest for shortest in np.asarray(index.short.shortest) if shortest > 0.0]
    short = [ratio * shortest for shortest in ranges for ratio in (1.001, 1.99)]
    return [*long, *short]


@pytest.mark.one_in(5)
def test_both_terms_and_every_point_agree_with_the_matrices(name):
    index, _ = prepared(name)
    assert np.sum(np.asarray(index.short.shortest) > 0.0) >= 2
    for lengthscale in lengthscales(index):
        gaussian, volume = spectral(index, lengthscale)
        exact = dense(index.rows.data, lengthscale)
        assert gaussian == pytest.approx(float(exact.gaussian), rel=1e-9, abs=1e-8), lengthscale
        assert volume == pytest.approx(float(exact.jacobian), rel=1e-9, abs=1e-6), lengthscale
        expected = dense_volumes(index.rows.data, lengthscale)
        error = np.abs(volumes(index, lengthscale)[: len(expected)] - expected)
        assert np.all(error <= 1e-6 * np.maximum(1.0, np.abs(expected))), lengthscale


@pytest.mark.slow
def test_gradient_agrees_with_that_of_the_matrices(name):
    index, shortest = prepared(name)
    by_waves = jax.jit(jax.grad(lambda *at: sum(spectral(index, *at)), argnums=(0, 1)))
    by_matrices = jax.jit(jax.grad(lambda *at: sum(dense(index.rows.data, *at)), argnums=(0, 1)))
    for ratio in (0.26, 0.99, 1.001, 4.0, 1e3):
        at = ratio * shortest, 0.3
        np.testing.assert_allclose(by_waves(*at), by_matrices(*at), rtol=1e-6, err_msg=str(ratio))


@pytest.mark.slow
def test_more_rows_at_short_lengthscales():
    X = np.concatenate([skewed(1500), 3.0 + 0.01 * skewed(500, seed=1)])
    index = jax.tree.map(jnp.asarray, spectral_index(X[:, None]))
    for lengthscale in (0.03, 0.004):
        assert lengthscale > index.shortest
        exact = dense(index.rows.data, lengthscale)
        result = spectral(index, lengthscale)
        np.testing.assert_allclose(result, exact, rtol=1e-10)


@pytest.mark.slow
def test_very_short_lengthscales(name):
    """Down to where log gamma is -1e14 and no point sees another."""
    index, _ = prepared(name)
    longest = float(index.banded)
    assert 0.0 < longest < index.long.shortest
    for lengthscale in longest * np.array([1.0, 0.3, 1e-2, 1e-7]):
        assert index.is_accurate(SquaredExponential(lengthscale), 0.1)
        np.testing.assert_allclose(
            spectral(index, lengthscale), dense(index.rows.data, lengthscale), rtol=1e-12
        )
        expected = log_jacobian(index.rows.data, SquaredExponential(lengthscale))
        result = volumes(index, lengthscale)[: len(expected)]
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-10)
        at = lengthscale, 0.3
        for route, other in zip(
            jax.jacfwd(spectral, argnums=(1, 2))(index, *at),
            jax.jacfwd(dense, argnums=(1, 2))(index.rows.data, *at),
            strict=True,
        ):
            np.testing.assert_allclose(route, other, rtol=1e-9)


@pytest.mark.slow
def test_very_short_lengthscales_of_a_scaled_kernel_and_with_hardly_any_noise():
    index, _ = prepared("skewed")
    kernel = SquaredExponential(0.5 * float(index.banded)) * 3.0
    for measure in ("unit", "lebesgue"):
        # A unit in the last place of 1 + 1e-9 changes the first term by 3e-6 of its 600: neither
        # side is more accurate than that.
        for noise_variance, tolerance in ((0.2, 1e-12), (1e-9, 1e-7)):
            at = kernel, noise_variance, measure
            expected = dense_terms(index.rows.data, *at, low_rank=False)
            np.testing.assert_allclose(index.likelihood_terms(*at), expected, rtol=tolerance)


@pytest.mark.slow
def test_too_short_lengthscales_go_to_the_matrices():
    """Bands take none where more points than a block has are equal."""
    X = np.append(skewed(265), np.full(60, 2.0))
    index = jax.tree.map(jnp.asarray, spectral_index(X[:, None]))
    assert index.banded == 0.0
    lengthscale = 0.5 * index.shortest
    exact = dense(index.rows.data, lengthscale)
    assert sum(spectral(index, lengthscale)) == pytest.approx(float(sum(exact)), rel=1e-12)
    slope = jax.grad(lambda at: sum(spectral(index, at)))(lengthscale)
    expected = jax.grad(lambda at: sum(dense(index.rows.data, at)))(lengthscale)
    assert slope == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.slow
def test_lebesgue_measure():
    index, shortest = prepared("skewed")
    for lengthscale in (2.0 * shortest, 3.0):
        kernel = SquaredExponential(lengthscale)
        result = index.likelihood_terms(kernel, 0.1, "lebesgue")
        expected = dense_terms(index.rows.data, kernel, 0.1, "lebesgue", low_rank=False)
        assert result.gaussian == pytest.approx(float(expected.gaussian), rel=1e-9)


def test_isolated_points_need_their_pairs(monkeypatch):
    """Without them the waves' rounding error would stand for gamma."""
    none = partial(isolated_in_column, min_slope=0.0)
    monkeypatch.setattr(line_module, "isolated_in_column", none)
    index, shortest = prepared("outliers")
    lengthscale = 4.0 * shortest
    expected = dense_volumes(index.rows.data, lengthscale)
    error = np.abs(volumes(index, lengthscale)[: len(expected)] - expected)
    assert np.any(error > 1e-2 * np.abs(expected))


@pytest.mark.slow
def test_balanced_neighbours_have_density_zero():
    X = np.arange(2001.0)
    kernel = SquaredExponential(30.0)
    assert log_marginal_likelihood(X, kernel, likelihood="spectral") == -np.inf
    assert log_marginal_likelihood(X, kernel, likelihood="dense") == -np.inf
    # One step off the balance all are positive again.
    X[-1] += 0.5
    values = [log_marginal_likelihood(X, kernel, likelihood=r) for r in ("spectral", "dense")]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("lengthscale", "centre"), [(10.0, 300.0), (3.0, 100.0), (0.5, 30.0)])
def test_far_neighbours_that_nearly_balance(lengthscale, centre):
    """Their difference five lengthscales away is lost compared with the terms of the others."""
    for unbalance in (1e-6, 1e-10):
        three = centre + 5.0 * lengthscale * np.array([-1.0, 0.0, 1.0 + unbalance])
        X = np.concatenate([DATA["skewed"][:322], three])[:, None]
        index = jax.tree.map(jnp.asarray, spectral_index(X))
        expected = log_jacobian(index.rows.data, SquaredExponential(lengthscale))
        error = np.abs(volumes(index, lengthscale)[: len(expected)] - expected)
        assert np.all(error <= 1e-6 * np.maximum(1.0, np.abs(expected)))
        # Without them the three would be at exp(-12.5) and more.
        assert expected[-2] < np.log(unbalance) - 12.0


@pytest.mark.slow
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
    # Waves, grid and matrices in one batch, and a batch of directions.
    at = jnp.array([1e-4, 0.05, 0.7, 5.0])
    np.testing.assert_allclose(jax.vmap(value)(at), [value(one) for one in at], rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "kernel", "options", "reason"),
    [
        (np.ones((300, 4)) * skewed(300)[:, None], SquaredExponential(), {}, "4 columns"),
        (skewed(300), RationalQuadratic(1.0), {}, "the kernel is RationalQuadratic"),
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


@pytest.mark.slow
def test_a_lengthscale_that_no_route_takes_is_an_error():
    X = np.append(skewed(5940), np.full(60, 2.0))
    with pytest.raises(ArithmeticError, match=f"too short for {len(X)} rows"):
        log_marginal_likelihood(X, SquaredExponential(1e-6))
    # Shorter ones than some may be taken again.
    X[-60:] += 1e-9 * skewed(60, seed=2)
    with pytest.raises(ArithmeticError, match=r"between .* and .* is too short"):
        log_marginal_likelihood(X, SquaredExponential(1e-6))
    assert np.isfinite(log_marginal_likelihood(X, SquaredExponential(1e-11)))


def test_many_rows_far_nearer_each_other_than_the_data_are_wide():
    """Pairs of them would take memory that grows like n^2."""
    X = np.append(1e-10 * np.random.default_rng(0).normal(size=1999), 1.0)
    with pytest.raises(ValueError, match="far nearer each other"):
        log_marginal_likelihood(X, SquaredExponential(0.1), likelihood="spectral")


@pytest.mark.slow
def test_hardly_any_noise_takes_the_matrices():
    X = np.random.default_rng(7).normal(size=300)
    values = [
        log_marginal_likelihood(X, SquaredExponential(0.05), noise_variance=1e-12, likelihood=route)
        for route in ("spectral", "dense")
    ]
    # By the grid 2521, where extended precision gives 1564.118.
    assert values == pytest.approx([1564.118, 1564.118], rel=1e-4)


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
def test_where_there_is_no_value_there_is_no_slope():
    X = np.append(skewed(5940), np.full(60, 2.0))
    index = jax.tree.map(jnp.asarray, spectral_index(X[:, None]))
    assert index.shortest > 0.0
    slope = jax.jacfwd(lambda at: sum(spectral(index, at)))(0.5 * index.shortest)
    assert np.isnan(slope)


@pytest.mark.slow
def test_noise_lost_to_rounding_is_an_error():
    """As by the matrices: R grows with the lengthscale under the Lebesgue measure."""
    for likelihood in ("spectral", "dense"):
        with pytest.raises(ArithmeticError, match="too small compared with the diagonal"):
            log_marginal_likelihood(
                skewed(300), SquaredExponential(1e13), measure="lebesgue", likelihood=likelihood
            )
