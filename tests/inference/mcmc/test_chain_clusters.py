"""Masses of clusters of chains: mixtures whose masses are known, and a model's integral."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import InputError, compare_chains, score_of
from bke.inference.mcmc.chain_clusters import cluster_masses
from scipy.stats import multivariate_normal, norm

#: Two modes of other masses and other shapes, and the log of what the density integrates to.
MASS, LOG = np.array([0.85, 0.15]), 2.5
MODES = [
    multivariate_normal([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]]),
    multivariate_normal([7.0, -4.0], [[0.2, 0.0], [0.0, 2.0]]),
]


def log_density(points):
    log_densities = [
        np.log(mass) + mode.logpdf(points) for mass, mode in zip(MASS, MODES, strict=True)
    ]
    return LOG + np.logaddexp(*log_densities)


def test_masses_of_a_mixture():
    """Three chains are in the small mode and one in the large: masses are those of the density."""
    rng = np.random.default_rng(0)
    where = [1, 0, 1, 1]
    draws = np.stack([MODES[mode].rvs(800, random_state=rng) for mode in where])
    clusters, of_all = cluster_masses(
        draws, log_density, [[0, 2, 3], [1]], ["a", "b", "c", "d"], seed=0
    )
    assert [cluster.chains for cluster in clusters] == [("a", "c", "d"), ("b",)]
    for cluster, mass in zip(clusters, MASS[::-1], strict=True):
        assert abs(cluster.mass - mass) < 4.0 * cluster.error
        assert cluster.error < 0.02
        assert abs(cluster.log_integral - LOG - np.log(mass)) < 4.0 * cluster.log_integral_error
    assert abs(of_all.log - LOG) < 4.0 * of_all.error


def test_modes_that_overlap():
    """Regions partition the space, so that masses add up to the integral."""
    rng = np.random.default_rng(1)

    def overlapping(points):
        return np.logaddexp(
            np.log(0.7) + norm.logpdf(points[:, 0]), np.log(0.3) + norm.logpdf(points[:, 0], 3.0)
        )

    # Chains that stay left and right of the point where the fitted normals are equal.
    label = rng.random(40_000) < 0.3
    rows = np.where(label, 3.0, 0.0) + rng.normal(size=40_000)
    left, right = rows[rows < 1.5][:4000], rows[rows >= 1.5][:4000]
    draws = np.stack([left, right])[:, :, np.newaxis]
    _, of_all = cluster_masses(draws, overlapping, [[0], [1]], [0, 1], seed=0)
    # The fitted normals are equal near 1.5: points in between belong to neither chain, or both.
    assert abs(of_all.log) < 0.05


def two_modes(y):
    """The sign of mu is not expected by its square, but the prior leans to one side."""
    mu = numpyro.sample("mu", dist.Normal(0.5, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(mu**2, sigma), obs=y)


@pytest.mark.slow
def test_masses_of_a_model():
    """Chains of a NumPyro model in two modes, against a grid of its density."""
    y = 1.5 + 0.3 * np.random.default_rng(2).normal(size=12)
    with jax.enable_x64(True):
        score = score_of(two_modes, y)
        mu, t = np.meshgrid(np.linspace(-3, 3, 601), np.linspace(-3, 1.5, 451), indexing="ij")
        grid = np.stack([mu.ravel(), t.ravel()], axis=1)
        assert score.columns == ("mu", "sigma, unconstrained")
        log = score.log_density(grid)
        weight = np.exp(log - log.max())
        weight /= weight.sum()
        rng = np.random.default_rng(3)
        chains = []
        for side in (1.0, 1.0, -1.0, -1.0):
            inside = np.where(np.sign(grid[:, 0]) == side, weight, 0.0)
            rows = grid[rng.choice(len(grid), 600, p=inside / inside.sum())]
            chains.append(rows + 0.005 * (rng.random(rows.shape) - 0.5))
        draws = np.stack(chains)
        posterior = xr.Dataset(
            {
                "mu": (("chain", "draw"), draws[:, :, 0]),
                "sigma": (("chain", "draw"), np.exp(draws[:, :, 1])),
                "square": (("chain", "draw"), draws[:, :, 0] ** 2),  # which the model does not draw
            }
        )
        check = compare_chains(xr.DataTree.from_dict({"posterior": posterior}), score=score)
    assert check.names == ("mu", "sigma")
    assert check.clusters == ((0, 1), (2, 3))
    right = weight[grid[:, 0] > 0.0].sum()
    assert abs(check.masses[0].mass - right) < 4.0 * check.masses[0].error
    cell = 0.01 * 0.01
    total = np.log(np.exp(log - log.max()).sum() * cell) + log.max()
    assert abs(check.log_integral.log - total) < 4.0 * check.log_integral.error
    assert "Posterior mass by bridge sampling" in str(check)
    assert check.to_dict()["masses"][0]["chains"] == (0, 1)


def test_refusals():
    """Arrays have no names of sites, and few draws no region."""
    draws = np.random.default_rng(0).normal(size=(2, 60, 3))
    with jax.enable_x64(True):
        score = score_of(two_modes, np.zeros(3))
        with pytest.raises(InputError, match="an array"):
            compare_chains(draws, score=score)
    with pytest.raises(InputError, match="more draws"):
        cluster_masses(draws[:, :6], lambda x: -np.sum(x**2, axis=1), [[0], [1]], [0, 1], 0)
