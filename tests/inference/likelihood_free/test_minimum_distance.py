"""Minimum MMD of normal location models against closed forms, and the MMD posterior bootstrap.

For rows N(theta, I) and the squared exponential kernel with lengthscale l, E k(X, y) is
proportional to exp(-|y - theta|^2 / (2 s^2)) with s^2 = l^2 + 1: the estimate is the location
M-estimate of Welsch, with known derivatives. Simulators with the quantiles of the normal
distribution in place of random numbers leave the error of a quadrature.
"""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    jax_simulator,
    minimum_mmd,
    mmd_posterior_bootstrap,
    posterior_table,
    vectorize,
)
from bke.inference.core.errors import PosteriorWarning
from bke.inference.likelihood_free import minimum_distance
from bke.inference.likelihood_free.simulators import Stream, seed_sequence
from bke.models import SquaredExponential
from scipy.optimize import brentq
from scipy.stats import norm

LENGTHSCALE = 1.0
S2 = LENGTHSCALE**2 + 1.0
KERNEL = SquaredExponential(LENGTHSCALE)
PRIOR = {"mu": dist.Normal(0.0, 3.0)}
ROWS = 200
GRID = norm.ppf((np.arange(ROWS) + 0.5) / ROWS)
OPTIONS = {"kernel": KERNEL, "simulations_per_point": 1, "num_starts": 50}
CONTAMINATED = np.append(np.random.default_rng(0).normal(1.0, 1.0, 90), np.full(10, 10.0))


@vectorize
def quantiles(rng, theta):
    return theta["mu"][:, None] + GRID


def normal(n):
    @vectorize
    def simulate(rng, theta):
        return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), n))

    return simulate


def welsch(y, weights):
    """Root of the derivative of sum w exp(-(y - theta)^2 / (2 s^2)) next to 1."""

    def derivative(theta):
        return np.sum(weights * (y - theta) * np.exp(-((y - theta) ** 2) / (2.0 * S2)))

    return brentq(derivative, -0.5, 2.5, xtol=1e-12)


def sandwich(rows, theta):
    """Covariance H^-1 V H^-1 / n of the M-estimate of Welsch, for rows (n, D)."""
    difference = rows - theta
    value = np.exp(-np.sum(difference**2, axis=1) / (2.0 * S2))
    H = np.mean(value) * np.eye(rows.shape[1]) / S2
    H -= (difference * value[:, None]).T @ difference / S2**2 / len(rows)
    V = np.cov((difference * value[:, None] / S2).T, bias=True)
    return np.linalg.solve(H, np.linalg.solve(H, np.atleast_2d(V)).T) / len(rows)


@pytest.mark.parametrize(
    ("y", "rtol"), [(1.0 + GRID[::2] * 1.5, 0.03), (CONTAMINATED, 0.03), (CONTAMINATED[70:], 0.06)]
)
def test_a_location_is_the_m_estimate_of_welsch(y, rtol):
    result = minimum_mmd(y, quantiles, PRIOR, rows=ROWS, **OPTIONS)
    expected = welsch(y, np.ones(len(y)))
    error = np.sqrt(sandwich(y[:, None], expected)[0, 0])
    assert result.parameters["mu"] == pytest.approx(expected, abs=0.02 * error)
    # Differences over two standard errors are not derivatives: less so for 30 rows than for 100.
    row = result.to_dataframe(0.95).iloc[0]
    assert row["standard_error"] == pytest.approx(error * np.sqrt(1.0 + len(y) / ROWS), rel=rtol)
    assert row["upper"] - row["lower"] == pytest.approx(2.0 * 1.959964 * row["standard_error"])


def test_the_minimum_and_the_covariance_of_a_population():
    """The normal distribution itself as the data, by its quantiles; the model has mean mu, sd 1."""
    result = minimum_mmd(0.7 + GRID, quantiles, PRIOR, **OPTIONS)
    scale = LENGTHSCALE / np.sqrt(LENGTHSCALE**2 + 2.0)
    H = scale / (LENGTHSCALE**2 + 2.0)
    V = LENGTHSCALE**2 / S2**3 * (1.0 + 2.0 / S2) ** -1.5
    assert result.parameters["mu"] == pytest.approx(0.7, abs=1e-3)
    assert float(result.covariance.iloc[0, 0]) * ROWS / 2 == pytest.approx(V / H**2, rel=0.01)
    # The unbiased E k(X, X') less the V-statistics of the data: -(1 - mean k) / n.
    assert result.squared_mmd == pytest.approx(-(1.0 - scale) / ROWS, rel=0.02)


def test_a_vector_of_correlated_columns():
    """The model has independent columns and the data do not: H is not the metric of the model."""
    side = norm.ppf((np.arange(20) + 0.5) / 20)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    y = np.random.default_rng(1).normal(size=(300, 2)) @ [[1.0, 0.9], [0.0, 0.3]] + [1.0, -2.0]
    simulate = vectorize(lambda rng, theta: theta["mu"][:, None, :] + grid)
    prior = {"mu": dist.Normal(0.0, 3.0).expand([2])}
    result = minimum_mmd(y, simulate, prior, rows=400, **OPTIONS)
    expected = sandwich(y, result.parameters["mu"]) * (1.0 + 300 / 400)
    assert list(result.covariance.columns) == ["mu[0]", "mu[1]"]
    assert expected[0, 1] > 0.3 * expected[0, 0]
    np.testing.assert_allclose(result.covariance, expected, rtol=0.05)


def test_a_limited_range_changes_neither_the_estimate_nor_its_covariance():
    free = minimum_mmd(CONTAMINATED, quantiles, PRIOR, rows=ROWS, **OPTIONS)
    limited = minimum_mmd(
        CONTAMINATED, quantiles, {"mu": dist.Uniform(0.0, 5.0)}, rows=ROWS, **OPTIONS
    )
    assert limited.parameters["mu"] == pytest.approx(free.parameters["mu"], abs=2e-3)
    np.testing.assert_allclose(limited.covariance, free.covariance, rtol=0.03)


def test_contamination_moves_the_mean_and_hardly_the_estimate():
    clean = CONTAMINATED[:90]
    before, after = (
        minimum_mmd(y, normal(100), PRIOR, rows=100, num_starts=50).parameters["mu"]
        for y in (clean, CONTAMINATED)
    )
    assert CONTAMINATED.mean() - clean.mean() > 0.8
    assert abs(after - before) < 0.15


def test_a_simulator_by_jax():
    """Sampling error of 2000 simulated rows: 4 standard errors, false failures below 1e-4."""

    @jax_simulator
    def simulate(key, theta):
        return theta["mu"] + jax.random.normal(key, (100,))

    y = 1.0 + GRID[::2]
    result = minimum_mmd(y, simulate, PRIOR, kernel=KERNEL, simulations_per_point=20, num_starts=50)
    error = np.sqrt(sandwich(y[:, None], 1.0)[0, 0] * 100 / 2000)
    assert result.parameters["mu"] == pytest.approx(1.0, abs=4.0 * error)


def test_equal_weights_and_repeated_rows():
    """Weights 2/3 and 1/3 of two halves are equal weights of a sample with one half twice."""
    a, b = CONTAMINATED[:30, None], CONTAMINATED[60:90, None]
    repeated = np.concatenate([a, a, b])
    estimate = minimum_mmd(repeated, quantiles, PRIOR, rows=ROWS, **OPTIONS)
    shared = (KERNEL, 1, 50, ROWS, None, None, 0)
    with minimum_distance.start_minimizer("", repeated, quantiles, PRIOR, *shared) as fit:
        scale = np.eye(1) * 0.5
        equal = fit.minimize(np.full(90, 1.0 / 90), repeated, np.ones(1), scale, 0)
        weights = np.append(np.full(30, 2.0 / 90), np.full(30, 1.0 / 90))
        weighted = fit.minimize(weights, np.concatenate([a, b]), np.ones(1), scale, 0)
        other = fit.minimize(weights[::-1], np.concatenate([a, b]), np.ones(1), scale, 0)
    assert equal[0][0] == pytest.approx(estimate.parameters["mu"], abs=4e-3)
    assert equal[1] == pytest.approx(estimate.squared_mmd, abs=2e-5)
    np.testing.assert_allclose(weighted[0], equal[0], atol=1e-6)
    assert weighted[1] == pytest.approx(equal[1])
    assert abs(other[0] - weighted[0]) > 0.02


def test_each_draw_is_the_m_estimate_with_its_weights():
    run = mmd_posterior_bootstrap(
        CONTAMINATED, quantiles, PRIOR, rows=ROWS, num_samples=20, seed=3, progress=False, **OPTIONS
    )
    draws = run["posterior"]["mu"].values
    assert draws.shape == (1, 20)
    seeds = [seed_sequence(3, Stream.MOVES, index) for index in range(1, 21)]
    weights = [np.random.default_rng(seed).dirichlet(np.ones(100)) for seed in seeds]
    expected = [welsch(CONTAMINATED, w) for w in weights]
    np.testing.assert_allclose(draws[0], expected, atol=5e-3)
    assert np.std(expected) > 0.05
    assert run.attrs["method"] == "mmd_posterior_bootstrap"
    assert posterior_table(run)["ess"].item() == 20
    assert run["prior"]["mu"].shape == (1, 50)
    # The squared MMD of a draw, with closed forms.
    w, theta = weights[4], expected[4]
    difference = CONTAMINATED[:, None] - CONTAMINATED
    scale = LENGTHSCALE / np.sqrt(LENGTHSCALE**2 + 2.0)
    embedding = np.sqrt(1.0 / S2) * np.exp(-((CONTAMINATED - theta) ** 2) / (2.0 * S2))
    value = scale - 2.0 * w @ embedding + w @ np.exp(-(difference**2) / 2.0) @ w
    assert run["sample_stats"]["squared_mmd"].values[0, 4] == pytest.approx(value, abs=3e-3)


def test_pseudo_samples_have_the_weight_of_their_concentration():
    """With a lengthscale much beyond the data the estimate is the weighted mean.

    Seed 0, 40 draws: the mean of the draws has expectation (n mean(y) + a m) / (n + a), 4 standard
    errors, false failures below 1e-4; a prior without weight is more than 20 of them away.
    """
    run = mmd_posterior_bootstrap(
        GRID[::5],
        quantiles,
        {"mu": dist.Normal(3.0, 0.5)},
        concentration=20.0,
        num_pseudo_samples=40,
        rows=ROWS,
        num_samples=40,
        progress=False,
        **OPTIONS | {"kernel": SquaredExponential(50.0)},
    )
    draws = run["posterior"]["mu"].values[0]
    error = draws.std() / np.sqrt(40)
    assert draws.mean() == pytest.approx(1.0, abs=4.0 * error)
    # A mixture of variance 2/3 1 + 1/3 1.25 + 2, over n + a + 1; the truncation adds to it.
    assert 0.7 < draws.var() / (3.08 / 61.0) < 1.8
    assert run.attrs["simulations"] > 40 * 40


def test_failures_are_left_out_and_counted():
    @vectorize
    def simulate(rng, theta):
        values = theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), 50))
        return np.where(rng.random((len(values), 1)) < 0.3, np.nan, values)

    result = minimum_mmd(GRID[::4], simulate, PRIOR, kernel=KERNEL, num_starts=50)
    assert 0.15 < result.failed / result.simulations < 0.45
    assert abs(result.parameters["mu"]) < 0.3
    run = mmd_posterior_bootstrap(
        GRID[::4], simulate, PRIOR, kernel=KERNEL, num_starts=50, num_samples=2, progress=False
    )
    assert 0 < int(run.attrs["failed"]) < int(run.attrs["simulations"])


def test_parameters_without_effect_have_no_covariance():
    prior = {**PRIOR, "other": dist.LogNormal(0.0, 1.0)}
    with pytest.warns(PosteriorWarning, match="no isolated minimum"):
        result = minimum_mmd(CONTAMINATED, quantiles, prior, rows=ROWS, **OPTIONS)
    assert result.covariance is None
    with pytest.raises(InputError, match="leave out parameters"):
        result.to_dataframe()
    with pytest.warns(PosteriorWarning, match="no isolated minimum"):
        run = mmd_posterior_bootstrap(
            CONTAMINATED, quantiles, prior, rows=ROWS, num_samples=2, progress=False, **OPTIONS
        )
    assert np.all(np.isfinite(run["posterior"]["other"]))


@pytest.mark.parametrize(
    ("y", "prior"),
    [
        (np.full(30, 2.0), PRIOR["mu"]),  # derivatives at equal rows have no covariance
        (GRID[::5], dist.Uniform(0.5, 3.0)),  # the minimum, 0, is out of the range of the prior
    ],
)
def test_equal_rows_and_an_edge_of_the_prior_have_no_covariance(y, prior):
    with pytest.warns(PosteriorWarning, match="no isolated minimum"):
        result = minimum_mmd(y, quantiles, {"mu": prior}, rows=ROWS, **OPTIONS)
    assert result.covariance is None
    assert result.parameters["mu"] == pytest.approx(max(y.mean(), 0.5), abs=0.01)


def test_a_prior_much_wider_than_the_kernel():
    """Differences over the spread of the best starts, about 70, are 0 for nearly all rows."""
    options = {**OPTIONS, "num_starts": 1000}
    prior = {"mu": dist.Normal(0.0, 1000.0)}
    result = minimum_mmd(CONTAMINATED, quantiles, prior, rows=ROWS, **options)
    expected = welsch(CONTAMINATED, np.ones(100))
    variance = sandwich(CONTAMINATED[:, None], expected)[0, 0] * 1.5
    assert result.parameters["mu"] == pytest.approx(expected, abs=0.02 * np.sqrt(variance))
    assert float(result.covariance.iloc[0, 0]) == pytest.approx(variance, rel=0.06)


def test_a_simulator_that_fails_where_the_search_starts():
    calls = []

    def simulate(rng, theta):
        calls.append(theta)
        if len(calls) > 50:
            raise ZeroDivisionError("no rows")
        return theta["mu"] + GRID[::10]

    with pytest.raises(InputError, match=r"all simulations failed near mu = .*narrower prior"):
        minimum_mmd(GRID[::10], simulate, PRIOR, kernel=KERNEL, num_starts=50)
    with pytest.raises(InputError, match=r"all 50 simulations failed, .*no rows"):
        minimum_mmd(GRID[::10], simulate, PRIOR, kernel=KERNEL, num_starts=50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": {"k": dist.Poisson(3.0)}}, "minimum_mmd moves parameters"),
        ({"simulations_per_point": 0}, "simulations_per_point must be at least 1"),
        ({"num_starts": 3}, "num_starts must be at least 10"),
        ({"rows": 1}, "at least 2 rows"),
        ({"observed": [1.0, np.nan, 2.0]}, "observed"),
    ],
)
def test_invalid_arguments(options, message):
    arguments = {"observed": GRID, "simulate": quantiles, "prior": PRIOR, **OPTIONS, **options}
    with pytest.raises(InputError, match=message):
        minimum_mmd(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concentration": -1.0}, "concentration must be a positive number"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"num_pseudo_samples": 0}, "num_pseudo_samples must be at least 1"),
    ],
)
def test_invalid_arguments_of_the_bootstrap(options, message):
    with pytest.raises(InputError, match=message):
        mmd_posterior_bootstrap(GRID, quantiles, PRIOR, **OPTIONS, **options)
