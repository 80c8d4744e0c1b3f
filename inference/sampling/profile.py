"""The posterior density itself, beside the draws: in batches, and as a profile.

Chains see only where they have been. With one hyperparameter the density is evaluated over the
whole prior range, so modes that no chain visited show up as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.ndimage import gaussian_filter1d

from ..core.distributed import on_devices
from ..core.errors import SamplingError
from ..core.jit import jit
from .target import Points, Target

#: Standard deviation of the smoothing, in the unconstrained coordinate (log lengthscale). It
#: bridges the narrow zeros of the one-dimensional density; a mode is wider.
SMOOTHING = 0.1
GRID_STEP = 0.01
#: Entries of matrices one profile may cost; fewer grid points for large n.
PROFILE_BUDGET = 4e8
FEWEST_GRID_POINTS = 250
#: Points per compiled call of the density, and a divisor of that of the prior.
BATCH, PADDING = 16, 256

LogDensity = Callable[[dict[str, Any]], np.ndarray]
BatchLogDensity = Callable[[Any, Points], jax.Array]


def batch_log_density(target: Target) -> BatchLogDensity:
    """Compiled log density at :data:`BATCH` unconstrained points, one after the other."""

    @jit
    def evaluate(z: dict[str, jax.Array], X: Points) -> jax.Array:
        return jax.lax.map(lambda one: target.log_density(one, X), z)

    return evaluate


def log_densities(evaluate: BatchLogDensity, z: Mapping[str, Any], X: Points) -> np.ndarray:
    """Log density (k,) at k unconstrained points, on all devices, in batches of one shape."""
    arrays = {name: np.asarray(values) for name, values in z.items()}
    total = len(next(iter(arrays.values())))
    points = jax.tree.map(jnp.asarray, X)

    def one(start: int) -> np.ndarray:
        with jax.enable_x64(True):  # the setting belongs to the thread
            # The last batch repeats its last point: another shape would be compiled again.
            rows = np.minimum(np.arange(start, start + BATCH), total - 1)
            piece = {name: jnp.asarray(values[rows]) for name, values in arrays.items()}
            return np.asarray(evaluate(piece, points))

    first, *rest = range(0, total, BATCH)
    pieces = [one(first)]  # compiles, before the threads would each do it
    pieces += on_devices(lambda index: one(rest[index]), len(rest), Event(), points)
    return np.concatenate(pieces)[:total]


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


def scan(
    target: Target,
    X: Points,
    z: np.ndarray,
    prior_z: np.ndarray,
    density: LogDensity,
    most: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Log density of the one hyperparameter over its prior range and all draws.

    Args:
        target: with one scalar site.
        X: the likelihood's view of the data, or a tuple of such.
        z: every draw, flattened, unconstrained.
        prior_z: draws from the prior, unconstrained.
        density: log density of a batch of unconstrained points.
        most: grid points; by default as many as :data:`PROFILE_BUDGET` allows.

    Returns:
        An evenly spaced grid (k,), unconstrained, and the log density there (k,).
    """
    (name,) = target.sites
    low = min(np.quantile(prior_z, 0.002), z.min() - 5 * SMOOTHING)
    high = max(np.quantile(prior_z, 0.9995), z.max() + 5 * SMOOTHING)
    samples = X if isinstance(X, tuple) else (X,)
    entries = sum(x.entries for x in samples)
    most = most or max(FEWEST_GRID_POINTS, int(PROFILE_BUDGET / entries))
    points = int(min(most, np.ceil((high - low) / GRID_STEP))) + 1
    grid = np.linspace(low, high, points)
    return grid, density({name: grid})


def prior_along(target: Target) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Compiled: the one hyperparameter (k,) and its log prior at unconstrained places (k,)."""
    (name,) = target.sites

    @jit
    @jax.vmap
    def along(one: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = {name: one}
        return target.constrain(z)[name], target.log_prior(z)

    return along


def as_profile(
    target: Target,
    grid: np.ndarray,
    log_density: np.ndarray,
    prior: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
) -> xr.Dataset:
    """What :func:`scan` found as a dataset.

    Args:
        target: with one scalar site.
        grid: evenly spaced (k,), unconstrained.
        log_density: (k,), of the unconstrained coordinate.
        prior: from :func:`prior_along`.

    Returns:
        Variables over ``grid``: ``unconstrained``, ``value`` (model units), ``log_density``,
        ``smoothed``, ``log_prior``.
    """
    (name,) = target.sites
    # Filled up to a multiple of the padding: another shape would be compiled again.
    filled = np.pad(grid, (0, -len(grid) % PADDING), mode="edge")
    values, log_prior = (np.asarray(each)[: len(grid)] for each in prior(jnp.asarray(filled)))
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
