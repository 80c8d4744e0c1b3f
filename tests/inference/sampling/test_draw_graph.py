"""Modes are separated by the best paths between draws, on densities known exactly."""

import numpy as np
import pytest
import xarray as xr
from bke.inference.sampling.draw_graph import bottlenecks, cluster_nodes, density_graph
from scipy.special import logsumexp


def two_gaussians(z, centers=((-6.0, 0.0), (7.0, 1.0)), weights=(0.8, 0.2), width=(1.0, 1.5)):
    """Log density of an asymmetric mixture in the plane, at z["x"] (k,) and z["y"] (k,)."""
    points = np.stack([z["x"], z["y"]], axis=-1)
    parts = [
        np.log(w) - np.sum((points - c) ** 2, axis=-1) / (2 * s**2) - np.log(2 * np.pi * s**2)
        for c, w, s in zip(centers, weights, width, strict=True)
    ]
    return logsumexp(parts, axis=0)


def chains_of(points, log_density):
    """As z by site and lp, from (chain, draw, 2)."""
    z = {"x": points[..., 0], "y": points[..., 1]}
    flat = {name: values.ravel() for name, values in z.items()}
    return z, log_density(flat).reshape(points.shape[:2])


def true_saddle():
    """The lowest point of the segment between the centers, on which the best path lies."""
    t = np.linspace(0.0, 1.0, 4001)
    segment = {"x": -6.0 + 13.0 * t, "y": t}
    return two_gaussians(segment).min()


def two_mode_chains(chains=(0, 0, 1, 1), draws=200, seed=0):
    rng = np.random.default_rng(seed)
    centers, widths = np.array([[-6.0, 0.0], [7.0, 1.0]]), np.array([1.0, 1.5])
    return np.stack([centers[c] + widths[c] * rng.normal(size=(draws, 2)) for c in chains])


def grouped(points, log_density=two_gaussians):
    """Groups of the nodes, with labels as (chain, node)."""
    z, lp = chains_of(points, log_density)
    paths = density_graph(z, lp, log_density)
    height = paths["height"].values.ravel()
    label, saddle = cluster_nodes(height, paths["edge"].values, paths["low"].values)
    return label.reshape(paths["draw"].shape), saddle


@pytest.mark.parametrize("seed", range(4))
def test_the_barrier_between_two_gaussians(seed):
    points = two_mode_chains(seed=seed)
    _, lp = chains_of(points, two_gaussians)
    label, saddle = grouped(points)
    assert label[0].tolist() == label[1].tolist() == [label[0, 0]] * label.shape[1]
    assert label[2].tolist() == label[3].tolist() == [label[2, 0]] * label.shape[1]
    assert saddle.shape == (2, 2)
    np.testing.assert_array_equal(saddle, saddle.T)
    assert np.all(np.isinf(np.diagonal(saddle)))
    expected, top = true_saddle(), np.median(lp, axis=1)
    barrier = np.minimum(top[0], top[2]) - expected
    assert barrier > 10.0
    # No path is better than the best one, but its lowest point may lie between the points that are
    # looked at.
    assert saddle[0, 1] <= expected + 0.2 * barrier
    assert saddle[0, 1] >= expected - 0.4 * barrier


@pytest.mark.parametrize("dimension", [2, 10])
@pytest.mark.parametrize("seed", range(3))
def test_a_gaussian_is_a_single_group(dimension, seed):
    """Draws in ten dimensions stay five nats below the top, and tails much further."""
    scales = np.geomspace(0.1, 10.0, dimension)
    points = np.random.default_rng(seed).normal(0.0, scales, size=(8, 200, dimension))

    def density(z):
        return -0.5 * np.sum((z["v"] / scales) ** 2, axis=-1)

    z = {"v": points}
    paths = density_graph(z, density(z), density)
    height = paths["height"].values.ravel()
    label, saddle = cluster_nodes(height, paths["edge"].values, paths["low"].values)
    assert saddle.shape == (1, 1)
    assert not label.any()


def test_a_chain_that_crosses_does_not_join_two_modes():
    points = two_mode_chains()
    points[0, 120:] = points[2, 120:]
    z, lp = chains_of(points, two_gaussians)
    label, saddle = grouped(points)
    assert saddle.shape == (2, 2)
    before = density_graph(z, lp, two_gaussians)["draw"].values[0] < 120
    np.testing.assert_array_equal(label[0], np.where(before, label[1, 0], label[2, 0]))


def test_a_single_chain_of_independent_draws_shows_a_mode_of_three_percent():
    """12 of 400 draws, of which 160 are nodes: none of the 12 is one in 2 of 1000 seeds."""
    order = np.random.default_rng(5).permutation(400)
    points = np.concatenate([two_mode_chains((0,), 388), two_mode_chains((1,), 12)], axis=1)
    label, _ = grouped(points[:, order])
    assert label.shape == (1, 160)
    is_rare = points[0, order, 0][np.linspace(0, 399, 160).round().astype(int)] > 0
    assert 0 < is_rare.sum() <= 12
    assert label.max() == 1
    np.testing.assert_array_equal(label[0] == label[0, is_rare][0], is_rare)


def banana(z):
    """A ridge y = x^2 of width 0.1, |x| between -2 and 2: the straight line is 600 nats low."""
    return -0.5 * ((z["y"] - z["x"] ** 2) / 0.1) ** 2 - 0.5 * (z["x"] / 1.2) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_a_curved_ridge_has_no_barrier(seed):
    rng = np.random.default_rng(seed)
    ranges = [(-2.0, -0.5), (-1.0, 0.6), (0.2, 1.3), (0.9, 2.0)]  # each chain visits a part
    x = np.stack([rng.uniform(*ends, size=100) for ends in ranges])
    points = np.stack([x, x**2 + 0.1 * rng.normal(size=x.shape)], axis=-1)
    assert banana({"x": 0.0, "y": 4.0}) < -600.0
    assert not grouped(points, banana)[0].any()


def test_paths_may_lead_through_a_third_chain():
    """Chains at three stations of a line; the way from first to last leads over the second."""
    rng = np.random.default_rng(0)
    points = np.stack([[c, 0.0] + 0.6 * rng.normal(size=(100, 2)) for c in (0.0, 2.0, 4.0)])

    def line(z):
        return logsumexp([-((z["x"] - c) ** 2 + z["y"] ** 2) / 0.72 for c in (0, 2, 4)], axis=0)

    z, lp = chains_of(points, line)
    paths = density_graph(z, lp, line)
    owner = np.repeat(np.arange(3), paths.sizes["node"])
    minima = bottlenecks(paths["edge"].values, paths["low"].values, owner)
    nearer = min(minima[0, 1], minima[1, 2])
    assert nearer - 0.5 < minima[0, 2] <= nearer


def test_a_density_of_zero_between_chains_is_a_wall():
    def walled(z):
        with np.errstate(divide="ignore"):
            return np.where(np.abs(z["x"]) < 1.0, -np.inf, two_gaussians(z))

    label, saddle = grouped(two_mode_chains(), walled)
    assert label.max() == 1
    assert saddle[0, 1] < -1e200


def test_vector_valued_sites_give_the_graph_of_their_entries():
    points = two_mode_chains()
    z, lp = chains_of(points, two_gaussians)

    def of_vectors(sites):
        return two_gaussians({"x": sites["v"][:, 0], "y": sites["v"][:, 1]})

    xr.testing.assert_identical(
        density_graph({"v": points}, lp, of_vectors), density_graph(z, lp, two_gaussians)
    )


def test_coinciding_draws_do_not_break_the_graph():
    points = two_mode_chains(draws=30)
    points[0] = points[0, :1]  # a stuck chain
    points[1] = points[0]
    label, saddle = grouped(points)
    assert np.unique(label[:2]).size == 1
    assert np.all(np.isfinite(saddle[~np.eye(len(saddle), dtype=bool)]))


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
    result = bottlenecks(edges, low, owner)
    for a in range(chains):
        for b in range(chains):
            if a != b:
                assert result[a, b] == width[np.ix_(owner == a, owner == b)].max()
