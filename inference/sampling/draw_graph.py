"""Log density around the draws of a run: its profile, or a graph of draws with several parameters.

Some draws of every chain are the nodes of a graph of nearest neighbors. The height of an edge is
the lowest log density at a few points on it, and the height of a path that of its lowest edge. Two
clusters of draws belong to different modes if the best path between them is far below both. This is
clustering by persistence as in Chazal, Guibas, Oudot and Skraba, *Persistence-based clustering in
Riemannian manifolds* (2013), with the median log density of a cluster in place of its maximum,
which few draws approach in many dimensions. SciPy and scikit-learn have no clustering that
evaluates a density between the points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform

from . import densities
from .densities import LogDensity
from .target import flatten, unflatten

if TYPE_CHECKING:
    from .adaptive_quadrature import IntegratedDensity
    from .target import Target, Task


def density_groups(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> dict[str, xr.Dataset]:
    """Return the group of a run from which modes are found.

    This is ``profile`` with one hyperparameter and ``paths`` with several.

    Args:
        task: the sampled posterior.
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
    """
    if not task.target.is_scalar:
        return {"paths": density_graph(z, lp, task.density)}
    (draws,), (prior_draws,) = z.values(), task.prior_draws.values()
    grid = densities.scan(
        task.target, task.points, draws.ravel(), prior_draws.ravel(), task.density
    )
    return {
        "profile": densities.as_profile(task.target, *grid, densities.compile_prior(task.target))
    }


def profile_of_nodes(target: Target, integrated: IntegratedDensity) -> xr.Dataset:
    """Return the evenly spaced nodes of a quadrature's first grid as a profile."""
    nodes = integrated.nodes[:, 0]
    count = round((nodes[-1] - nodes[0]) / integrated.first_step[0]) + 1
    grid = np.linspace(nodes[0], nodes[-1], count)
    nearest = np.searchsorted(0.5 * (nodes[1:] + nodes[:-1]), grid)
    log_prior = densities.compile_prior(target)
    return densities.as_profile(target, nodes[nearest], integrated.log_density[nearest], log_prior)


def chain_standard_deviations(flat: np.ndarray) -> np.ndarray:
    """Compute the median over chains of the standard deviations within chains, (p,).

    Args:
        flat: draws, (chain, draw, p). Coordinates that never change get 1.
    """
    within = np.median(flat.std(axis=1), axis=0)
    return np.where(within > 0, within, 1.0)


def cluster_nodes(
    height: np.ndarray, edges: np.ndarray, low: np.ndarray, min_barrier: float = 5.0
) -> tuple[np.ndarray, np.ndarray]:
    """Join nodes along the highest edges first, unless a barrier separates two clusters.

    A barrier is the difference between the best path and the lower of the median heights of the two
    clusters.

    Args:
        height: log density of each node, (nodes,).
        edges: pairs of nodes, (edges, 2), which connect all nodes.
        low: lowest log density along each edge, (edges,).
        min_barrier: smallest barrier between modes, a difference of log densities. Not tuned.

    Returns:
        The cluster of each node, (nodes,), 0 to k - 1, and the height of the best path between any
        two clusters, (k, k), infinite on the diagonal.
    """
    label = np.arange(len(height))
    for edge in np.argsort(-low, kind="stable"):
        a, b = label[edges[edge]]
        if a == b:
            continue
        lower = min(np.median(height[label == a]), np.median(height[label == b]))
        if lower - low[edge] < min_barrier:
            label[label == b] = a
    label = np.unique(label, return_inverse=True)[1]
    return label, bottlenecks(edges, low, label)


def bottlenecks(edges: np.ndarray, low: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Compute the height of the widest path between any two clusters, (k, k), in Kruskal's order.

    Args:
        edges: pairs of nodes, (edges, 2).
        low: height of each edge, (edges,).
        label: cluster of each node, (nodes,), 0 to k - 1.
    """
    count = label.max() + 1
    saddle = np.full((count, count), -np.inf)
    np.fill_diagonal(saddle, np.inf)
    component = np.arange(len(label))
    for edge in np.argsort(-low, kind="stable"):
        a, b = component[edges[edge]]
        if a == b:
            continue
        pairs = np.ix_(np.unique(label[component == a]), np.unique(label[component == b]))
        saddle[pairs] = np.maximum(saddle[pairs], low[edge])
        component[component == b] = a
    return np.maximum(saddle, saddle.T)


def density_graph(
    z: dict[str, np.ndarray],
    lp: np.ndarray,
    log_density: LogDensity,
    *,
    nodes_per_chain: int = 20,
    min_nodes: int = 160,
    max_nodes: int = 3000,
) -> xr.Dataset:
    """Build a graph of draws with the lowest log density along each edge.

    The graph follows a curved ridge between draws. It does not search for paths that leave the
    draws, and misses a barrier narrower than the distance between the points of an edge: barriers
    are estimates, not bounds.

    Args:
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
        log_density: log density of a batch of unconstrained points.
        nodes_per_chain: number of nodes of each chain. Not tuned.
        min_nodes: smallest number of nodes, which is that of eight chains: fewer chains get more
            nodes each, up to the number of their draws.
        max_nodes: largest number of nodes. The distances between all of them are computed.

    Returns:
        ``draw`` (chain, node): the draws of each chain that are nodes, evenly spaced in time;
        ``height`` (chain, node): their log density; ``edge`` (edge, end): pairs of nodes, which
        are numbered through all chains; ``low`` (edge): lowest log density of each edge.
    """
    chains, draws = lp.shape
    flat = flatten(z, leading=2)
    shapes = {name: values.shape[2:] for name, values in z.items()}
    wanted = max(nodes_per_chain, -(-min_nodes // chains))
    count = min(wanted, draws, max(2, max_nodes // chains))
    picks = np.linspace(0, draws - 1, count).round().astype(int)
    nodes = flat[:, picks].reshape(-1, flat.shape[-1])
    height = lp[:, picks]
    edges, low = connect_nodes(
        nodes,
        height.ravel(),
        chain_standard_deviations(flat),
        lambda points: log_density(unflatten(points, shapes)),
    )
    return xr.Dataset(
        {
            "draw": (("chain", "node"), np.tile(picks, (chains, 1))),
            "height": (("chain", "node"), height),
            "edge": (("edge", "end"), edges),
            "low": ("edge", low),
        }
    )


def connect_nodes(
    nodes: np.ndarray,
    height: np.ndarray,
    scale: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    *,
    rounds: int = 3,
) -> tuple[np.ndarray, np.ndarray]:
    """Connect nodes with their nearest neighbors, and the highest nodes of clusters.

    Args:
        nodes: unconstrained points, (k, p).
        height: log density of the nodes, (k,).
        scale: length scale of each coordinate, (p,); points on an edge are at a distance of
            half of it.
        log_density: log density (k,) of points (k, p).
        rounds: number of searches for a better path between separate clusters. Not tuned.

    Returns:
        Edges, (e, 2), and the lowest log density on each, (e,).
    """
    scaled = nodes / scale
    edges = _neighbor_edges(scaled)
    low = _edge_minima(edges, nodes, scaled, log_density)
    for _ in range(rounds):
        # Edges between neighbors in the tails may miss the path between the maxima.
        label, _ = cluster_nodes(height, edges, low)
        if label.max() == 0:
            break
        members = [np.flatnonzero(label == k) for k in range(label.max() + 1)]
        tops = np.array([inside[np.argmax(height[inside])] for inside in members])
        between = np.sort(tops[_neighbor_edges(scaled[tops])], axis=1)
        new = between[~(between[:, None] == edges).all(-1).any(1)]
        if not len(new):
            break
        new_low = _edge_minima(new, nodes, scaled, log_density)
        edges, low = np.concatenate([edges, new]), np.concatenate([low, new_low])
    return edges, low


def _neighbor_edges(points: np.ndarray, neighbors: int = 4) -> np.ndarray:
    """Return edges (e, 2) to nearest neighbors, and those of the minimum spanning tree."""
    count = min(neighbors + 1, len(points))
    nearest = np.asarray(cKDTree(points).query(points, count)[1])[:, 1:]
    near = np.stack([np.repeat(np.arange(len(points)), count - 1), nearest.ravel()], axis=1)
    # Equal draws have distance zero, which the sparse format would drop.
    tree = minimum_spanning_tree(squareform(pdist(points)) + 1e-12).nonzero()
    return np.unique(np.sort(np.concatenate([near, np.stack(tree, axis=1)]), axis=1), axis=0)


def _edge_minima(
    edges: np.ndarray,
    nodes: np.ndarray,
    scaled: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    *,
    step: float = 0.5,
    max_points: int = 40,
) -> np.ndarray:
    """Compute the lowest log density at points between the ends of each edge, (e,).

    Args:
        edges: pairs of nodes, (e, 2).
        nodes: (k, p).
        scaled: nodes in units of the standard deviations of chains, (k, p).
        log_density: log density (k,) of points (k, p). Values that are not finite count as -1e300.
        step: distance between the points of an edge, in the same units. Not tuned.
        max_points: largest number of points of an edge; the smallest is 2.
    """
    length = np.linalg.norm(scaled[edges[:, 0]] - scaled[edges[:, 1]], axis=1)
    counts = np.clip(np.ceil(length / step), 2, max_points).astype(int)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    fraction = (np.arange(counts.sum()) - np.repeat(first, counts) + 1) / np.repeat(
        counts + 1, counts
    )
    start, end = (np.repeat(nodes[edges[:, side]], counts, axis=0) for side in (0, 1))
    heights = log_density(start + fraction[:, None] * (end - start))
    return np.minimum.reduceat(np.where(np.isfinite(heights), heights, -1e300), first)
