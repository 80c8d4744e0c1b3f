"""The posterior density itself, beside the draws: its profile and the barriers between chains.

Chains see only where they have been. With one hyperparameter the density is evaluated over the
whole prior range, so modes that no chain visited show up as well. With several, the barrier
between two chains is the lowest point of the best path found through their draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.ndimage import gaussian_filter1d
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform

from .errors import SamplingError
from .machine import cores
from .problem import Problem

#: Standard deviation of the smoothing, in the unconstrained coordinate (log lengthscale). It
#: bridges the narrow zeros of the one-dimensional density; a mode is wider.
SMOOTHING = 0.1
GRID_STEP = 0.01
#: Entries of n x n matrices one profile may cost; fewer grid points for large n.
PROFILE_BUDGET = 4e8
FEWEST_GRID_POINTS = 250
DRAWS_PER_CHAIN = 15
MOST_NODES = 3000
NEIGHBOURS = 4
#: Spacing of the points along an edge, in standard deviations within a chain.
EDGE_STEP = 0.5
POINTS_PER_EDGE = (2, 40)

#: Points per compiled call.
BATCH = 16

LogDensity = Callable[[dict[str, Any]], np.ndarray]
BatchLogDensity = Callable[[Any, jax.Array], jax.Array]


def batch_log_density(problem: Problem) -> BatchLogDensity:
    """Compiled log density at :data:`BATCH` unconstrained points, one after the other."""

    @jax.jit
    def evaluate(z: dict[str, jax.Array], X: jax.Array) -> jax.Array:
        return jax.lax.map(lambda one: problem.log_density(one, X), z)

    return evaluate


def log_densities(evaluate: BatchLogDensity, z: Mapping[str, Any], X: np.ndarray) -> np.ndarray:
    """Log density (k,) at k unconstrained points, on all cores, in batches of one shape."""
    arrays = {name: np.asarray(values) for name, values in z.items()}
    total = len(next(iter(arrays.values())))
    points = jnp.asarray(X)

    def one(start: int) -> np.ndarray:
        with jax.enable_x64(True):  # the setting belongs to the thread
            # The last batch repeats its last point: another shape would be compiled again.
            rows = np.minimum(np.arange(start, start + BATCH), total - 1)
            piece = {name: jnp.asarray(values[rows]) for name, values in arrays.items()}
            return np.asarray(evaluate(piece, points))

    first, *rest = range(0, total, BATCH)
    pieces = [one(first)]  # compiles, before the threads would each do it
    with ThreadPoolExecutor(cores()) as pool:
        pieces += pool.map(one, rest)
    return np.concatenate(pieces)[:total]


def is_scalar(problem: Problem) -> bool:
    """Whether there is one hyperparameter, and that a number."""
    shapes = [prior.shape() for prior in problem.sites.values()]
    return len(shapes) == 1 and shapes[0] == ()


def smooth(log_density: np.ndarray, step: float) -> np.ndarray:
    """Log density averaged over a Gaussian window of :data:`SMOOTHING`.

    The log is averaged, not the density: its narrow dips to minus infinity are integrable, and an
    average over them is finite and stable. Values that are not finite are interpolated.
    """
    finite = np.isfinite(log_density)
    if not finite.any():
        raise SamplingError("the density is zero everywhere over the range of the prior")
    positions = np.arange(len(log_density))
    filled = np.interp(positions, positions[finite], log_density[finite])
    return gaussian_filter1d(filled, SMOOTHING / step, mode="nearest")


def profile(
    problem: Problem, X: np.ndarray, z: np.ndarray, prior_z: np.ndarray, evaluate: BatchLogDensity
) -> xr.Dataset:
    """Log density of the one hyperparameter over its prior range and all draws.

    Args:
        problem: with one scalar site.
        X: (n, D), model units.
        z: every draw, flattened, unconstrained.
        prior_z: draws from the prior, unconstrained.
        evaluate: from :func:`batch_log_density`.

    Returns:
        Variables over ``grid``: ``unconstrained``, ``value`` (model units), ``log_density`` of the
        unconstrained coordinate, ``smoothed``, ``log_prior``.
    """
    (name,) = problem.sites
    low = min(np.quantile(prior_z, 0.002), z.min() - 5 * SMOOTHING)
    high = max(np.quantile(prior_z, 0.9995), z.max() + 5 * SMOOTHING)
    most = max(FEWEST_GRID_POINTS, int(PROFILE_BUDGET / len(X) ** 2))
    points = int(min(most, np.ceil((high - low) / GRID_STEP))) + 1
    grid = np.linspace(low, high, points)
    log_density = log_densities(evaluate, {name: grid}, X)
    values = np.asarray(problem.constrain({name: jnp.asarray(grid)})[name])
    log_prior = np.asarray(jax.vmap(lambda one: problem.log_prior({name: one}))(jnp.asarray(grid)))
    return xr.Dataset(
        {
            "value": ("grid", values),
            "log_density": ("grid", log_density),
            "smoothed": ("grid", smooth(log_density, grid[1] - grid[0])),
            "log_prior": ("grid", log_prior),
        },
        coords={"unconstrained": ("grid", grid)},
        attrs={"site": name, "smoothing": SMOOTHING, "step": grid[1] - grid[0]},
    )


def saddles(
    z: dict[str, np.ndarray], lp: np.ndarray, log_density: LogDensity, seed: int
) -> xr.Dataset:
    """Lowest log density on the best path between every two chains.

    Draws of all chains are the nodes of a graph of near neighbours; an edge is as high as the
    lowest of a few points on it; the saddle between two chains is the lowest edge on the highest
    path. A curved ridge between chains is followed; a path that leaves the draws is not searched
    for, and a wall narrower than the points of an edge is missed: an estimate, not a bound.

    Args:
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
        log_density: of a batch of unconstrained points.
        seed: for the choice of draws.

    Returns:
        ``saddle`` (chain, other chain), ``height`` (chain): the median log density of a chain.
    """
    chains, draws = lp.shape
    rng = np.random.default_rng(seed)
    flat = np.concatenate([z[name].reshape(chains, draws, -1) for name in z], axis=-1)
    each = min(DRAWS_PER_CHAIN, draws, max(2, MOST_NODES // chains))
    picks = np.stack([rng.choice(draws, each, replace=False) for _ in lp])
    nodes = np.take_along_axis(flat, picks[:, :, None], axis=1).reshape(-1, flat.shape[-1])
    owner = np.repeat(np.arange(chains), picks.shape[1])
    within = np.median(flat.std(axis=1), axis=0)
    scaled = nodes / np.where(within > 0, within, 1.0)

    edges = _neighbour_edges(scaled)
    length = np.linalg.norm(scaled[edges[:, 0]] - scaled[edges[:, 1]], axis=1)
    counts = np.clip(np.ceil(length / EDGE_STEP), *POINTS_PER_EDGE).astype(int)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    fraction = (np.arange(counts.sum()) - np.repeat(first, counts) + 1) / np.repeat(
        counts + 1, counts
    )
    start, end = (np.repeat(nodes[edges[:, side]], counts, axis=0) for side in (0, 1))
    heights = log_density(_unflatten(start + fraction[:, None] * (end - start), z))
    low = np.minimum.reduceat(np.where(np.isfinite(heights), heights, -1e300), first)
    saddle = _bottlenecks(len(nodes), edges, low, owner, chains)
    return xr.Dataset(
        {"saddle": (("chain", "other_chain"), saddle), "height": ("chain", np.median(lp, axis=1))}
    )


def _neighbour_edges(points: np.ndarray) -> np.ndarray:
    """Edges (e, 2) to near neighbours, and of the spanning tree so that all are connected."""
    count = min(NEIGHBOURS + 1, len(points))
    neighbours = np.asarray(cKDTree(points).query(points, count)[1])[:, 1:]
    near = np.stack([np.repeat(np.arange(len(points)), count - 1), neighbours.ravel()], axis=1)
    # Coinciding draws have distance zero, which the sparse format would drop.
    tree = minimum_spanning_tree(squareform(pdist(points)) + 1e-12).nonzero()
    return np.unique(np.sort(np.concatenate([near, np.stack(tree, axis=1)]), axis=1), axis=0)


def _unflatten(flat: np.ndarray, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    pieces, start = {}, 0
    for name, values in like.items():
        shape = values.shape[2:]
        size = int(np.prod(shape))
        pieces[name] = flat[:, start : start + size].reshape(len(flat), *shape)
        start += size
    return pieces


def _bottlenecks(
    count: int, edges: np.ndarray, low: np.ndarray, owner: np.ndarray, chains: int
) -> np.ndarray:
    """Highest possible lowest edge between the nodes of every two owners (Kruskal's order)."""
    saddle = np.full((chains, chains), -np.inf)
    np.fill_diagonal(saddle, np.inf)
    component = np.arange(count)
    for edge in np.argsort(-low):
        a, b = component[edges[edge]]
        if a == b:
            continue
        pairs = np.ix_(np.unique(owner[component == a]), np.unique(owner[component == b]))
        saddle[pairs] = np.maximum(saddle[pairs], low[edge])
        component[component == b] = a
    return np.maximum(saddle, saddle.T)
