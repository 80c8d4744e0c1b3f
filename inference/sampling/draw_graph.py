"""Paths between draws: with several hyperparameters, what stands in for a profile of the density.

Some draws of every chain are the nodes of a graph of near neighbours. An edge is as high as the
lowest of a few points on it, so a path is as high as its lowest edge. Two groups of draws belong to
different modes where the best path between them is far below both: clustering by persistence as in
Chazal, Guibas, Oudot and Skraba, *Persistence-based clustering in Riemannian manifolds* (2013),
with the median of a group in place of its top, which in many dimensions few draws come near.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform

from . import profile, programs
from .profile import LogDensity
from .target import flatten, unflatten

#: Least height of a barrier between modes, in nats.
BARRIER = 5.0
DRAWS_PER_CHAIN = 20
MOST_NODES = 3000
NEIGHBOURS = 4
#: Spacing of the points along an edge, in standard deviations within a chain.
EDGE_STEP = 0.5
POINTS_PER_EDGE = (2, 40)
#: Rounds of looking for a better path between groups that are apart.
ROUNDS = 3


class Groups(NamedTuple):
    """Nodes of a graph by the mode they are in."""

    label: np.ndarray  # (nodes,), 0 to k - 1
    saddle: np.ndarray  # (k, k), height of the best path between two modes, inf on the diagonal


def standard_deviations(flat: np.ndarray) -> np.ndarray:
    """Unit of each coordinate: its standard deviation within a chain, the median over chains."""
    within = np.median(flat.std(axis=1), axis=0)
    return np.where(within > 0, within, 1.0)


def groups(height: np.ndarray, edges: np.ndarray, low: np.ndarray) -> Groups:
    """Join nodes along the highest edges first, unless a barrier stands between two groups.

    A barrier is how far the best path is below the lower of the two groups' median heights.

    Args:
        height: log density of each node, (nodes,).
        edges: pairs of nodes, (edges, 2), that connect them all.
        low: lowest log density along each edge, (edges,).
    """
    label = np.arange(len(height))
    for edge in np.argsort(-low, kind="stable"):
        a, b = label[edges[edge]]
        if a == b:
            continue
        lower = min(np.median(height[label == a]), np.median(height[label == b]))
        if lower - low[edge] < BARRIER:
            label[label == b] = a
    label = np.unique(label, return_inverse=True)[1]
    return Groups(label, bottlenecks(edges, low, label))


def bottlenecks(edges: np.ndarray, low: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Highest possible lowest edge between the nodes of every two owners (Kruskal's order)."""
    owners = owner.max() + 1
    saddle = np.full((owners, owners), -np.inf)
    np.fill_diagonal(saddle, np.inf)
    component = np.arange(len(owner))
    for edge in np.argsort(-low, kind="stable"):
        a, b = component[edges[edge]]
        if a == b:
            continue
        pairs = np.ix_(np.unique(owner[component == a]), np.unique(owner[component == b]))
        saddle[pairs] = np.maximum(saddle[pairs], low[edge])
        component[component == b] = a
    return np.maximum(saddle, saddle.T)


def draw_paths(z: dict[str, np.ndarray], lp: np.ndarray, log_density: LogDensity) -> xr.Dataset:
    """A graph of draws with the lowest log density along each edge.

    A curved ridge between draws is followed; a path that leaves the draws is not searched for, and
    a wall narrower than the points of an edge is missed: an estimate, not a bound.

    Args:
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
        log_density: of a batch of unconstrained points.

    Returns:
        ``draw`` (chain, node): which draws of each chain are nodes, evenly spaced in time;
        ``height`` (chain, node): their log density; ``edge`` (edge, end): nodes counted through
        all chains; ``low`` (edge): the lowest log density on it.
    """
    chains, draws = lp.shape
    flat = flatten(z, leading=2)
    shapes = {name: values.shape[2:] for name, values in z.items()}
    each = min(DRAWS_PER_CHAIN, draws, max(2, MOST_NODES // chains))
    picks = np.linspace(0, draws - 1, each).round().astype(int)
    nodes = flat[:, picks].reshape(-1, flat.shape[-1])
    height = lp[:, picks]
    edges, low = connect(
        nodes,
        height.ravel(),
        standard_deviations(flat),
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


def connect(
    nodes: np.ndarray,
    height: np.ndarray,
    unit: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Edges (e, 2) that connect all ``nodes`` (k, p), and the lowest log density (e,) on each.

    Args:
        nodes: places, unconstrained.
        height: log density there, (k,).
        unit: of each coordinate, (p,): points on an edge are :data:`EDGE_STEP` of it apart.
        log_density: of places (k, p).
    """
    scaled = nodes / unit
    edges = _neighbour_edges(scaled)
    low = _lowest(edges, nodes, scaled, log_density)
    for _ in range(ROUNDS):
        # Neighbours in the tails may miss the way that leads from top to top.
        label = groups(height, edges, low).label
        if label.max() == 0:
            break
        every = np.arange(len(nodes))
        tops = np.array(
            [max(every[label == k], key=height.__getitem__) for k in range(label.max() + 1)]
        )
        between = np.sort(tops[_neighbour_edges(scaled[tops])], axis=1)
        new = between[~(between[:, None] == edges).all(-1).any(1)]
        if not len(new):
            break
        more = _lowest(new, nodes, scaled, log_density)
        edges, low = np.concatenate([edges, new]), np.concatenate([low, more])
    return edges, low


def _neighbour_edges(points: np.ndarray) -> np.ndarray:
    """Edges (e, 2) to near neighbours, and of the spanning tree so that all are connected."""
    count = min(NEIGHBOURS + 1, len(points))
    neighbours = np.asarray(cKDTree(points).query(points, count)[1])[:, 1:]
    near = np.stack([np.repeat(np.arange(len(points)), count - 1), neighbours.ravel()], axis=1)
    # Coinciding draws have distance zero, which the sparse format would drop.
    tree = minimum_spanning_tree(squareform(pdist(points)) + 1e-12).nonzero()
    return np.unique(np.sort(np.concatenate([near, np.stack(tree, axis=1)]), axis=1), axis=0)


def _lowest(
    edges: np.ndarray,
    nodes: np.ndarray,
    scaled: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Lowest log density at points between the ends of each edge; no infinities."""
    length = np.linalg.norm(scaled[edges[:, 0]] - scaled[edges[:, 1]], axis=1)
    counts = np.clip(np.ceil(length / EDGE_STEP), *POINTS_PER_EDGE).astype(int)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    fraction = (np.arange(counts.sum()) - np.repeat(first, counts) + 1) / np.repeat(
        counts + 1, counts
    )
    start, end = (np.repeat(nodes[edges[:, side]], counts, axis=0) for side in (0, 1))
    heights = log_density(start + fraction[:, None] * (end - start))
    return np.minimum.reduceat(np.where(np.isfinite(heights), heights, -1e300), first)


if TYPE_CHECKING:
    from .algorithms.integral import IntegratedDensity
    from .samplers.base import Task
    from .target import Target


def surroundings(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> dict[str, xr.Dataset]:
    """The profile with one hyperparameter, the paths with several, as a group of the run.

    Args:
        task: what was sampled.
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
    """
    if not task.target.is_scalar:
        return {"paths": paths(task, z, lp)}
    (draws,), (prior_draws,) = z.values(), task.prior_draws.values()
    found = profile.scan(task.target, task.points, draws.ravel(), prior_draws.ravel(), task.density)
    return {"profile": profile.as_profile(task.target, *found, programs.prior_along(task.target))}


def paths(task: Task, z: dict[str, np.ndarray], lp: np.ndarray) -> xr.Dataset:
    """The graph of draws that :func:`~bke.inference.sampling.draw_graph.draw_paths` makes."""
    return draw_paths(z, lp, task.density)


def profile_of_nodes(target: Target, found: IntegratedDensity) -> xr.Dataset:
    """The nodes of a quadrature's first grid, which are evenly spaced, as a profile."""
    nodes = found.nodes[:, 0]
    count = round((nodes[-1] - nodes[0]) / found.first_step[0]) + 1
    grid = np.linspace(nodes[0], nodes[-1], count)
    nearest = np.searchsorted(0.5 * (nodes[1:] + nodes[:-1]), grid)
    along = programs.prior_along(target)
    return profile.as_profile(target, nodes[nearest], found.log_density[nearest], along)
