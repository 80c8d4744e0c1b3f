"""Residuals of regressions, innovations, and conditional independence tests."""

import numpy as np
import pytest
from bke.inference import InputError, conditional_independence_test, regress_out

pytest.importorskip("sklearn")
RNG = np.random.default_rng(0)
N = 120
Z = RNG.normal(size=(N, 2))
X = np.sin(2 * Z[:, 0]) + 0.5 * RNG.normal(size=N)
Y = Z[:, 0] ** 2 + 0.5 * RNG.normal(size=N)
QUIET = {"progress": False, "n_resamples": 99}


def test_residuals_are_those_of_scikit_learn_s_posterior_mean():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    x = (X - X.mean()) / X.std()
    kernel = ConstantKernel() * RBF([1.0, 1.0], (1e-2, 1e3)) + WhiteKernel(0.5)
    regressor = GaussianProcessRegressor(kernel).fit(z, x)
    expected = (x - regressor.predict(z)) * X.std()
    residuals = regress_out(X, Z)[:, 0]
    assert np.abs(residuals - expected).max() < 1e-3 * expected.std()
    assert residuals.std() == pytest.approx(0.5, rel=0.2)


def test_units_and_the_order_of_rows():
    residuals = regress_out(X, Z)
    np.testing.assert_allclose(
        regress_out(100.0 + 7.0 * X, 3.0 * Z - 5.0), 7.0 * residuals, atol=1e-4
    )
    order = RNG.permutation(N)
    np.testing.assert_allclose(regress_out(X[order], Z[order]), residuals[order], atol=1e-6)
    both = regress_out(np.column_stack([X, Y]), Z)
    np.testing.assert_allclose(both[:, :1], residuals, atol=1e-6)


def test_innovations_of_an_autoregression_are_white():
    """Coefficient 0.8, 300 steps: its innovations are e_t over their deviation 0.6."""
    rng = np.random.default_rng(1)
    noise, series = rng.normal(size=300), np.zeros(300)
    for step in range(1, 300):
        series[step] = 0.8 * series[step - 1] + 0.6 * noise[step]
    assert np.corrcoef(series, noise)[0, 1] < 0.8
    innovations = regress_out(series, np.arange(300.0), smoothness=0.5, innovations=True)[:, 0]
    assert np.corrcoef(innovations[10:], noise[10:])[0, 1] > 0.95
    assert innovations.std() == pytest.approx(1.0, rel=0.1)
    shuffled = rng.permutation(300)
    again = regress_out(series[shuffled], shuffled * 1.0, smoothness=0.5, innovations=True)[:, 0]
    np.testing.assert_allclose(again, innovations[shuffled], atol=1e-6)


def test_innovations_of_rows_at_equal_times():
    """40 days of 10 rows: sorted within a day, each predicted from smaller ones, their mean is 12
    standard errors off; 4.5 are 1 in 150 000."""
    rng = np.random.default_rng(5)
    days = np.repeat(np.arange(40.0), 10)
    values = np.repeat(rng.normal(size=40), 10) + 0.5 * rng.normal(size=400)
    innovations = regress_out(values, days, smoothness=0.5, innovations=True)[:, 0]
    assert abs(innovations.mean()) < 4.5 / np.sqrt(400)
    order = rng.permutation(400)
    again = regress_out(values[order], days[order], smoothness=0.5, innovations=True)[:, 0]
    np.testing.assert_allclose(again, innovations[order], atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("coefficient", [0.3, 0.8])
def test_innovations_of_a_long_series_are_white(coefficient):
    """2000 steps, more than hyperparameters are fitted to: 0.1 is four standard errors and more."""
    rng = np.random.default_rng(2)
    series = np.zeros(2000)
    for step in range(1, 2000):
        series[step] = coefficient * series[step - 1] + rng.normal()
    innovations = regress_out(series, np.arange(2000.0), smoothness=0.5, innovations=True)[:, 0]
    assert abs(np.corrcoef(innovations[:-1], innovations[1:])[0, 1]) < 0.1
    assert np.corrcoef(series[:-1], series[1:])[0, 1] > 0.25


def test_seasons_without_the_weather():
    """A slow wave and a fast one of 8 steps: the shortest lengthscale keeps the fast one in."""
    days = np.arange(200.0)
    slow, fast = 3.0 * np.sin(days / 30.0), np.sin(2 * np.pi * days / 8.0)
    noise = 0.3 * np.random.default_rng(4).normal(size=200)
    both = regress_out(slow + fast + noise, days)[:, 0]
    seasons = regress_out(slow + fast + noise, days, shortest=15.0)[:, 0]
    assert np.corrcoef(seasons, fast)[0, 1] > 0.9
    assert abs(np.corrcoef(seasons, slow)[0, 1]) < 0.1
    assert np.abs(both).std() < 0.6 * seasons.std()


def test_a_wiggly_function_is_not_fitted_as_noise():
    """sin(8 z) has many periods: a search from one start calls it noise."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=200)
        assert regress_out(np.sin(8 * z) + 0.1 * rng.normal(size=200), z).std() < 0.15


def test_a_fit_without_noise_is_not_a_function():
    """A dozen rows of noise may be interpolated; that is no reason to refuse them."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        assert np.isfinite(regress_out(rng.normal(size=12), rng.normal(size=12))).all()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["bkl", "median"])
def test_only_dependence_that_z_does_not_explain_is_detected(kernel):
    result = conditional_independence_test(X, Y, Z, kernel=kernel, **QUIET)
    assert result.pvalue > 0.05
    assert not result.exact
    assert "given z" in str(result)
    direct = conditional_independence_test(X, Y + 0.7 * X, Z, kernel=kernel, **QUIET)
    assert direct.pvalue <= 0.05


@pytest.mark.slow
def test_the_level_is_near_its_name():
    """60 data sets of 60 rows, seed 6, level 0.1: at most 17, once in 10 000 at a level of 0.12."""
    rng, rejected = np.random.default_rng(6), 0
    for seed in range(60):
        z = rng.normal(size=60)
        x = np.sin(2 * z) + 0.5 * rng.normal(size=60)
        y = z**2 + 0.5 * rng.normal(size=60)
        result = conditional_independence_test(
            x, y, z, kernel="median", alpha=0.1, seed=seed, **QUIET
        )
        rejected += result.reject
    assert rejected <= 17


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: conditional_independence_test(Z[:, 0] ** 2, Y, Z, **QUIET),
            r"X given Z: .* nothing is left",
        ),
        (
            lambda: conditional_independence_test(X, Y[:10], Z, **QUIET),
            "Y has 10 rows but Z has 120",
        ),
        (lambda: conditional_independence_test(X, Y, np.ones(N), **QUIET), "all are equal"),
        (lambda: regress_out(X, Z, smoothness=1.0), "smoothness must be one of"),
        (lambda: regress_out(X, Z[:5]), "120 rows, but what they are regressed on 5"),
        (lambda: regress_out(X, Z, shortest=-1.0), "shortest"),
        (
            lambda: regress_out(np.sin(np.arange(300.0) / 30.0), np.arange(300.0)),
            "nothing is left",
        ),
    ],
)
def test_bad_input(act, message):
    with pytest.raises(InputError, match=message):
        act()


def autoregression(n, coefficient=0.9):
    noise = np.random.default_rng(0).normal(size=n)
    values = np.zeros(n)
    for step in range(1, n):
        values[step] = coefficient * values[step - 1] + noise[step]
    return values[:, None]


def test_innovations_are_independent_of_the_past():
    values = autoregression(200)

    def memory(series):
        return np.corrcoef(series[1:, 0], series[:-1, 0])[0, 1]

    assert memory(values) > 0.8
    innovations = regress_out(values, np.arange(200.0), smoothness=0.5, innovations=True)
    assert abs(memory(innovations)) < 0.2
