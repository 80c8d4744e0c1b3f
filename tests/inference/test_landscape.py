"""The profile smoothed over its dips, and barriers between chains, on densities known exactly."""

import jax
import numpy as np
import pytest
from bke.inference import landscape
from bke.inference.landscape import SMOOTHING, batch_log_density, profile, saddles, smooth
from bke.inference.problem import Problem
from bke.models import SquaredExponential, log_marginal_likelihood
from scipy.special import logsumexp

STEP = 0.01
GRID = np.arange(-6.0, 6.0, STEP)


def maxima(values):
    """Indices of interior local maxima."""
    return np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) + 1


# The smoothed profile


def test_smoothing_a_parabola_lowers_it_by_a_known_constant():
    """E (z + s e)^2 = z^2 + s^2."""
    parabola = -30.0 * (GRID - 0.7) ** 2
    inner = slice(100, -100)
    found = smooth(parabola, STEP)[inner]
    np.testing.assert_allclose(found, parabola[inner] - 30.0 * SMOOTHING**2, atol=1e-3)


def test_smoothing_ignores_narrow_dips_to_minus_infinity():
    parabola = -30.0 * (GRID - 0.7) ** 2
    dipped = parabola.copy()
    dipped[np.random.default_rng(0).choice(len(GRID), 120, replace=False)] = -np.inf
    inner = slice(100, -100)
    np.testing.assert_allclose(smooth(dipped, STEP)[inner], smooth(parabola, STEP)[inner], atol=0.1)


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
    depth = smoothed[window].max() - smoothed[maxima(smoothed)]
    assert np.sum(depth < 5.0) >= 1


def test_smoothing_keeps_two_modes_and_their_barrier():
    density = np.logaddexp(-12.0 * (GRID + 1.5) ** 2, -3.0 - 30.0 * (GRID - 1.0) ** 2)
    density[::17] = -np.inf
    smoothed = smooth(density, STEP)
    tops = maxima(smoothed)
    tops = tops[smoothed[tops] > -10.0]
    np.testing.assert_allclose(GRID[tops], [-1.5, 1.0], atol=0.05)
    low = smoothed[tops[0] : tops[1]].min()
    assert low == pytest.approx(density[np.isfinite(density) & (np.abs(GRID) < 1.0)].min(), abs=4.0)


def test_smoothing_does_not_depend_on_the_step():
    coarse, fine = 0.02, 0.005
    values = [
        smooth(-30.0 * np.arange(-3, 3, step) ** 2, step)[round(3 / step)]
        for step in (coarse, fine)
    ]
    assert values[0] == pytest.approx(values[1], abs=0.02)


def test_the_profile_is_the_density_of_the_problem():
    X = np.random.default_rng(2).gamma(2.0, size=(20, 1))
    problem = Problem.checked(SquaredExponential, None, 0.1, "unit", "auto")
    with jax.enable_x64(True):
        prior_z = np.asarray(problem.prior_draws(jax.random.key(0), 500)["lengthscale"])
        found = profile(problem, X, np.array([-0.5, 4.0]), prior_z, batch_log_density(problem))
    grid = found["unconstrained"].values
    assert grid[0] <= np.quantile(prior_z, 0.002)
    assert grid[-1] >= 4.0  # a draw beyond the prior draws
    assert np.diff(grid).max() <= 0.0101
    np.testing.assert_allclose(found["value"], np.exp(grid))
    np.testing.assert_allclose(found["log_prior"], grid - np.exp(grid), rtol=1e-12)
    for index in (0, 200, len(grid) - 1):
        likelihood = log_marginal_likelihood(X, SquaredExponential(float(np.exp(grid[index]))))
        expected = float(found["log_prior"][index]) + likelihood
        assert float(found["log_density"][index]) == pytest.approx(expected, rel=1e-9)
    assert found.attrs["site"] == "lengthscale"


def test_batches_in_threads_keep_the_order(monkeypatch):
    for cores in (1, 3):
        monkeypatch.setattr(landscape, "cores", lambda cores=cores: cores)
        for total in (1, 5, landscape.BATCH, 3 * landscape.BATCH + 1):
            z = {"a": np.arange(total, dtype=float), "b": np.ones((total, 2))}
            found = landscape.log_densities(
                lambda z, X: z["a"] * z["b"].sum(-1) + X.sum(), z, np.ones((2, 1))
            )
            np.testing.assert_array_equal(found, 2.0 * np.arange(total) + 2.0)


# Saddles


def two_gaussians(z, centres=((-4.0, 0.0), (5.0, 1.0)), weights=(0.8, 0.2), width=(1.0, 1.5)):
    """Log density of an asymmetric mixture in the plane, at z["x"] (k,) and z["y"] (k,)."""
    points = np.stack([z["x"], z["y"]], axis=-1)
    parts = [
        np.log(w) - np.sum((points - c) ** 2, axis=-1) / (2 * s**2) - np.log(2 * np.pi * s**2)
        for c, w, s in zip(centres, weights, width, strict=True)
    ]
    return logsumexp(parts, axis=0)


def chains_of(points, log_density):
    """As z by site and lp, from (chain, draw, 2)."""
    z = {"x": points[..., 0], "y": points[..., 1]}
    flat = {name: values.ravel() for name, values in z.items()}
    return z, log_density(flat).reshape(points.shape[:2])


def true_saddle():
    """The lowest point of the segment between the centres, on which the best path lies."""
    t = np.linspace(0.0, 1.0, 4001)
    segment = {"x": -4.0 + 9.0 * t, "y": t}
    return two_gaussians(segment).min()


def two_mode_chains(chains=(0, 0, 1, 1), draws=200, seed=0):
    rng = np.random.default_rng(seed)
    centres, widths = np.array([[-4.0, 0.0], [5.0, 1.0]]), np.array([1.0, 1.5])
    return np.stack([centres[c] + widths[c] * rng.normal(size=(draws, 2)) for c in chains])


@pytest.mark.parametrize("seed", range(4))
def test_the_barrier_between_two_gaussians(seed):
    z, lp = chains_of(two_mode_chains(seed=seed), two_gaussians)
    found = saddles(z, lp, two_gaussians, seed)
    saddle = found["saddle"].values
    np.testing.assert_array_equal(saddle, saddle.T)
    assert np.all(np.isinf(np.diagonal(saddle)))
    expected, top = true_saddle(), np.median(lp, axis=1)
    np.testing.assert_array_equal(found["height"], top)
    barrier = np.minimum(top[0], top[2]) - expected
    assert barrier > 4.0
    for a in (0, 1):
        for b in (2, 3):
            # No path is better than the best one, but its lowest point may lie between the three
            # that are looked at.
            assert saddle[a, b] <= expected + 0.2 * barrier
            assert saddle[a, b] >= expected - 0.4 * barrier
    assert saddle[0, 1] > top[0] - 3.0  # no barrier within a mode
    assert saddle[2, 3] > top[2] - 3.0


def banana(z):
    """A ridge y = x^2 of width 0.1, |x| between -2 and 2: the straight line is 600 nats low."""
    return -0.5 * ((z["y"] - z["x"] ** 2) / 0.1) ** 2 - 0.5 * (z["x"] / 1.2) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_there_is_no_barrier_along_a_curved_ridge(seed):
    rng = np.random.default_rng(seed)
    ranges = [(-2.0, -0.5), (-1.0, 0.6), (0.2, 1.3), (0.9, 2.0)]  # each chain sees a part
    x = np.stack([rng.uniform(*ends, size=100) for ends in ranges])
    points = np.stack([x, x**2 + 0.1 * rng.normal(size=x.shape)], axis=-1)
    z, lp = chains_of(points, banana)
    assert banana({"x": 0.0, "y": 4.0}) < -600.0
    found = saddles(z, lp, banana, seed)
    height = found["height"].values
    for a in range(4):
        for b in range(4):
            if a != b:
                assert found["saddle"].values[a, b] > min(height[a], height[b]) - 5.0


def test_a_path_through_a_third_chain_is_found():
    """Chains at three stations of a line; the way from first to last leads over the second."""
    rng = np.random.default_rng(0)
    points = np.stack([[c, 0.0] + 0.6 * rng.normal(size=(100, 2)) for c in (0.0, 2.0, 4.0)])

    def line(z):
        return logsumexp([-((z["x"] - c) ** 2 + z["y"] ** 2) / 0.72 for c in (0, 2, 4)], axis=0)

    z, lp = chains_of(points, line)
    found = saddles(z, lp, line, 0)["saddle"].values
    assert found[0, 2] == min(found[0, 1], found[1, 2])


def test_a_density_of_zero_between_chains_is_a_wall():
    def walled(z):
        with np.errstate(divide="ignore"):
            return np.where(np.abs(z["x"]) < 1.0, -np.inf, two_gaussians(z))

    z, lp = chains_of(two_mode_chains(), two_gaussians)
    found = saddles(z, lp, walled, 0)["saddle"].values
    assert found[0, 2] < -1e200
    assert found[0, 1] > -20.0


def test_vector_valued_sites_are_taken_apart_and_put_together():
    points = two_mode_chains()
    z, lp = chains_of(points, two_gaussians)

    def of_vectors(one):
        return two_gaussians({"x": one["v"][:, 0], "y": one["v"][:, 1]})

    together = saddles({"v": points}, lp, of_vectors, 5)["saddle"]
    np.testing.assert_array_equal(together, saddles(z, lp, two_gaussians, 5)["saddle"])


def test_coinciding_draws_do_not_break_the_graph():
    points = two_mode_chains(draws=30)
    points[0] = points[0, :1]  # a stuck chain
    points[1] = points[0]
    z, lp = chains_of(points, two_gaussians)
    found = saddles(z, lp, two_gaussians, 0)["saddle"].values
    assert found[0, 1] == pytest.approx(lp[0, 0])
    assert np.all(np.isfinite(found[~np.eye(4, dtype=bool)]))


@pytest.mark.parametrize("seed", range(3))
def test_bottlenecks_agree_with_exhaustive_relaxation(seed):
    """Floyd and Warshall's recursion for the widest path, on a random connected graph."""
    rng = np.random.default_rng(seed)
    count, chains = 14, 4
    owner = rng.permutation(np.arange(count) % chains)
    path = rng.permutation(count)
    extra = rng.integers(count, size=(12, 2))
    edges = np.concatenate(
        [np.stack([path[:-1], path[1:]], axis=1), extra[extra[:, 0] != extra[:, 1]]]
    )
    low = rng.normal(size=len(edges))
    width = np.full((count, count), -np.inf)
    for (a, b), height in zip(edges, low, strict=True):
        width[a, b] = width[b, a] = max(width[a, b], height)
    for via in range(count):
        width = np.maximum(width, np.minimum(width[:, via, None], width[None, via]))
    found = landscape._bottlenecks(count, edges, low, owner, chains)
    for a in range(chains):
        for b in range(chains):
            if a != b:
                assert found[a, b] == width[np.ix_(owner == a, owner == b)].max()
