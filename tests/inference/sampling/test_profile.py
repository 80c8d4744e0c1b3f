"""The profile smoothed over its dips, on densities known exactly."""

import functools

import jax
import numpy as np
import pytest
from bke.inference.core import machine
from bke.inference.sampling import densities
from bke.inference.sampling.densities import (
    SMOOTHING,
    as_profile,
    log_densities,
    scan,
    smooth,
)
from bke.inference.sampling.target import Target
from bke.models import SquaredExponential, log_marginal_likelihood

STEP = 0.01
GRID = np.arange(-6.0, 6.0, STEP)


def maxima(values):
    """Indices of interior local maxima."""
    return np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) + 1


PARABOLA = -30.0 * (GRID - 0.7) ** 2
INNER = slice(100, -100)


def test_smoothing_a_parabola_lowers_it_by_a_known_constant_for_any_step():
    """E (z + s e)^2 = z^2 + s^2."""
    expected = PARABOLA - 30.0 * SMOOTHING**2
    np.testing.assert_allclose(smooth(PARABOLA, STEP)[INNER], expected[INNER], atol=1e-3)
    coarse = smooth(PARABOLA[::2], 2 * STEP)[50:-50]
    np.testing.assert_allclose(coarse, expected[::2][50:-50], atol=0.02)


def test_smoothing_ignores_narrow_dips_to_minus_infinity():
    dipped = PARABOLA.copy()
    dipped[np.random.default_rng(0).choice(len(GRID), 120, replace=False)] = -np.inf
    smoothed, expected = smooth(dipped, STEP), smooth(PARABOLA, STEP)
    np.testing.assert_allclose(smoothed[INNER], expected[INNER], atol=0.1)


def test_smoothing_bridges_the_logarithmic_zeros_of_a_volume_factor():
    """sum_k log |z - z_k| has a zero in every gap, the smoothed profile one maximum."""
    zeros = np.sort(np.random.default_rng(1).uniform(-2.0, 3.0, size=40))
    with np.errstate(divide="ignore"):
        dips = np.sum(np.log(np.abs(GRID[:, None] - zeros)), axis=1)
    density = -20.0 * (GRID - 0.7) ** 2 + dips
    assert len(maxima(density)) > 30
    smoothed = smooth(density, STEP)
    window = np.abs(GRID - 0.7) < 2.0
    assert np.all(np.isfinite(smoothed))
    assert len(maxima(smoothed[window])) <= 3
    # The integral of the log over the window, on a grid fifty times as fine.
    offsets = SMOOTHING * np.linspace(-5.0, 5.0, 5001)
    weight = np.exp(-0.5 * (offsets / SMOOTHING) ** 2)
    for index in np.flatnonzero(window)[::25]:
        z = GRID[index] + offsets
        fine = -20.0 * (z - 0.7) ** 2 + np.sum(np.log(np.abs(z[:, None] - zeros)), axis=1)
        assert smoothed[index] == pytest.approx(weight @ fine / weight.sum(), abs=0.5)


def test_smoothing_keeps_two_modes_and_their_barrier():
    density = np.logaddexp(-12.0 * (GRID + 1.5) ** 2, -3.0 - 30.0 * (GRID - 1.0) ** 2)
    density[::17] = -np.inf
    smoothed = smooth(density, STEP)
    tops = maxima(smoothed)
    tops = tops[smoothed[tops] > -10.0]
    np.testing.assert_allclose(GRID[tops], [-1.5, 1.0], atol=0.05)
    low = smoothed[tops[0] : tops[1]].min()
    assert low == pytest.approx(density[np.isfinite(density) & (np.abs(GRID) < 1.0)].min(), abs=4.0)


def test_the_profile_is_the_density_of_the_problem():
    X = np.random.default_rng(2).gamma(2.0, size=(20, 1))
    target = Target.checked(SquaredExponential, None, 0.1, "unit", "auto")
    with jax.enable_x64(True):
        prior_z = target.prior_draws(np.random.default_rng(0), 500)["lengthscale"]
        points = target.prepared(X)
        density = functools.partial(log_densities, densities.compile_log_density(target), X=points)
        scanned = scan(target, points, np.array([-0.5, 4.0]), prior_z, density)
        profile = as_profile(target, *scanned, densities.compile_prior(target))
    grid = profile["unconstrained"].values
    assert grid[0] <= np.quantile(prior_z, 0.002)
    assert grid[-1] >= 4.0  # a draw beyond the prior draws
    assert np.diff(grid).max() <= 0.0101
    np.testing.assert_allclose(profile["value"], np.exp(grid))
    np.testing.assert_allclose(profile["log_prior"], grid - np.exp(grid), rtol=1e-12)
    for index in (0, 200, len(grid) - 1):
        likelihood = log_marginal_likelihood(X, SquaredExponential(float(np.exp(grid[index]))))
        expected = float(profile["log_prior"][index]) + likelihood
        assert float(profile["log_density"][index]) == pytest.approx(expected, rel=1e-9)
    assert profile.attrs["site"] == "lengthscale"


def test_batches_in_threads_keep_the_order(monkeypatch):
    for cores in (1, 3):
        monkeypatch.setattr(machine, "cores", lambda cores=cores: cores)
        for total in (1, 5, densities.BATCH, 3 * densities.BATCH + 1):
            z = {"a": np.arange(total, dtype=float), "b": np.ones((total, 2))}
            values = densities.log_densities(
                lambda z, X: z["a"] * z["b"].sum(-1) + X.sum(), z, np.ones((2, 1))
            )
            np.testing.assert_array_equal(values, 2.0 * np.arange(total) + 2.0)
