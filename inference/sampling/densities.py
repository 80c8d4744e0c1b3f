"""Log densities of a model: compiled, in batches, and as a profile over one hyperparameter.

Compiled functions are cached for models with the same description. Data are arguments, and each
function is compiled once for every shape of them. The classes of the kernel are compared too, since
a notebook may redefine them under the same name. A model with a prior that has no description is
not cached.

Chains show only the modes that they visit. The profile covers the range of the prior, and so shows
the others too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models.likelihood.jacobian import embedding_and_log_jacobian
from bke.models.likelihood.spectral import line
from bke.models.likelihood.spectral.line import LineIndex
from bke.models.linalg.rows import PaddedRows, map_rows
from scipy.ndimage import gaussian_filter1d

from ..core.compilation import jit
from ..core.distributed import on_devices
from ..core.errors import SamplingError
from .record import identity_of
from .target import Points, Target

#: Standard deviation of the smoothing, in the unconstrained coordinate (log lengthscale). It
#: bridges the narrow zeros of the one-dimensional density; a mode is wider.
SMOOTHING = 0.1
GRID_STEP = 0.01
#: Number of matrix entries for one profile, which limits the grid for large n.
PROFILE_BUDGET = 4e8
MIN_GRID_POINTS = 250
#: Number of points per compiled call of the density, and a divisor of that of the prior.
BATCH, PADDING = 16, 256

#: Number of models whose compiled functions are kept, for each function.
MAX_PROGRAMS = 16

T = TypeVar("T")
LogDensity = Callable[[dict[str, Any]], np.ndarray]
BatchLogDensity = Callable[[Any, Points], jax.Array]


def log_densities(evaluate: BatchLogDensity, z: Mapping[str, Any], X: Points) -> np.ndarray:
    """Return the log density (k,) at k unconstrained points, on all devices, in equal batches."""
    arrays = {name: np.asarray(values) for name, values in z.items()}
    total = len(next(iter(arrays.values())))
    points = jax.tree.map(jnp.asarray, X)

    def batch(start: int) -> np.ndarray:
        with jax.enable_x64(True):  # the setting belongs to the thread
            # The last batch repeats its last point: another shape would be compiled again.
            rows = np.minimum(np.arange(start, start + BATCH), total - 1)
            z_batch = {name: jnp.asarray(values[rows]) for name, values in arrays.items()}
            return np.asarray(evaluate(z_batch, points))

    first, *rest = range(0, total, BATCH)
    batches = [batch(first)]  # compiles, before each thread would
    batches += on_devices(lambda index: batch(rest[index]), len(rest), Event(), points)
    return np.concatenate(batches)[:total]


def smooth(log_density: np.ndarray, step: float) -> np.ndarray:
    """Average a log density over a Gaussian window of :data:`SMOOTHING`.

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
    max_points: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate the log density of one hyperparameter over its prior range and all draws.

    Args:
        target: model with one scalar site.
        X: data as the likelihood needs them, or a tuple of samples.
        z: every draw, flattened, unconstrained.
        prior_z: draws from the prior, unconstrained.
        density: log density of a batch of unconstrained points.
        max_points: number of grid points; by default as :data:`PROFILE_BUDGET` allows.

    Returns:
        An evenly spaced grid (k,), unconstrained, and the log density there (k,).
    """
    (name,) = target.sites
    low = min(np.quantile(prior_z, 0.002), z.min() - 5 * SMOOTHING)
    high = max(np.quantile(prior_z, 0.9995), z.max() + 5 * SMOOTHING)
    samples = X if isinstance(X, tuple) else (X,)
    entries = sum(x.entries for x in samples)
    max_points = max_points or max(MIN_GRID_POINTS, int(PROFILE_BUDGET / entries))
    points = int(min(max_points, np.ceil((high - low) / GRID_STEP))) + 1
    grid = np.linspace(low, high, points)
    return grid, density({name: grid})


def as_profile(
    target: Target,
    grid: np.ndarray,
    log_density: np.ndarray,
    prior: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
) -> xr.Dataset:
    """Return the result of :func:`scan` as a dataset.

    Args:
        target: model with one scalar site.
        grid: evenly spaced (k,), unconstrained.
        log_density: (k,), of the unconstrained coordinate.
        prior: from :func:`compile_prior`.

    Returns:
        Variables over ``grid``: ``unconstrained``, ``value`` (model units), ``log_density``,
        ``smoothed``, ``log_prior``.
    """
    (name,) = target.sites
    # Filled up to a multiple of the padding: another shape would be compiled again.
    filled = np.pad(grid, (0, -len(grid) % PADDING), mode="edge")
    values, log_prior = (np.asarray(array)[: len(grid)] for array in prior(jnp.asarray(filled)))
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


def cached(build: Callable[..., T]) -> Callable[..., T]:
    """Cache a function of a model and further hashable arguments."""

    @functools.lru_cache(maxsize=MAX_PROGRAMS)
    def restored(description: str, kernel: tuple[Any, ...], *arguments: Any) -> T:
        return build(Target.restore(json.loads(description)), *arguments)

    @functools.wraps(build)
    def either(target: Target, *arguments: Any) -> T:
        description = target.describe()
        if "unrecorded" in str(description):
            return build(target, *arguments)
        return restored(json.dumps(description), identity_of(target.kernel), *arguments)

    return either


@cached
def compile_log_density(target: Target) -> BatchLogDensity:
    """Compile the log density at a batch of unconstrained points, evaluated sequentially."""
    return _batched(target.log_density)


def _batched(at_point: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Compile a function of an unconstrained point and of data at a batch of points."""

    @jit
    def evaluate(z: dict[str, jax.Array], *data: Any) -> jax.Array:
        return jax.lax.map(lambda point: at_point(point, *data), z)

    return evaluate


@cached
def volume_errors(target: Target) -> Callable[..., jax.Array]:
    """Return the errors of the Jacobian term by nodes of bins at a batch of points."""

    def at_point(
        z: dict[str, jax.Array], X: LineIndex, nodes: jax.Array, counts: jax.Array
    ) -> jax.Array:
        log_jacobian = X.log_jacobian(target.kernel_at(target.constrain(z)))
        return line.volume_errors(log_jacobian, nodes, counts)

    return _batched(at_point)


@cached
def compile_prior(target: Target) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Compile the hyperparameter (k,) and its log prior at unconstrained points (k,)."""
    (name,) = target.sites

    @jit
    @jax.vmap
    def along(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = {name: point}
        return target.constrain(z)[name], target.log_prior(z)

    return along


@cached
def objectives(target: Target, objective: str) -> BatchLogDensity:
    """Return the objective of :func:`~bke.inference.learn_kernel` at a batch of points."""
    return _batched(_objective(target, objective))


@cached
def objective_and_gradient(target: Target, objective: str) -> Callable[..., Any]:
    """Return the value and gradient of an objective at one unconstrained point."""
    return jit(jax.value_and_grad(_objective(target, objective)))


def _objective(target: Target, objective: str) -> Callable[[Any, Points], jax.Array]:
    """``"ml"``: log marginal likelihood; ``"map"``: plus the log prior density of the values."""

    def value(z: dict[str, jax.Array], X: Points) -> jax.Array:
        likelihood = target.log_density(z, X) - target.log_prior(z)
        if objective == "ml":
            return likelihood
        return likelihood + target.log_prior_density(target.constrain(z))

    return value


@cached
def cancelled_rows(
    target: Target, tolerance: float = 1e-12
) -> Callable[[Any, PaddedRows], jax.Array]:
    """Return a compiled function that marks rows whose Jacobian factor of BKE (12) is zero.

    It is where equal neighbors on both sides of a row cancel, as in rounded data.

    Args:
        target: the model.
        tolerance: abs(sum of terms) / sum of abs(terms) up to which the sum is rounding error.

    Returns:
        A function of unconstrained draws of the hyperparameters, along the leading axis, and the
        rows; it returns whether the factor of each row (N,) is zero at any of the draws.
    """

    @jit
    def cancelled(draws: dict[str, jax.Array], X: PaddedRows) -> jax.Array:
        def at_draw(z: dict[str, jax.Array]) -> jax.Array:
            kernel = target.kernel_at(target.constrain(z))
            remainder = map_rows(
                lambda x: embedding_and_log_jacobian(x, X, kernel)[2], X.points, len(X)
            )
            return remainder <= tolerance

        return jnp.any(jax.lax.map(at_draw, draws), axis=0)

    return cancelled
