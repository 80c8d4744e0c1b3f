"""Draws from a kernel Student-t density by NUTS, started at an importance sample of it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models.student_t.density import KernelStudentT
from bke.models.student_t.normaliser import Bounds
from scipy.spatial.distance import cdist
from scipy.special import logit, logsumexp

from ..core.errors import InputError, SamplingError
from ..core.machine import computing
from ..core.progress import chain_progress
from ..data.weighted import systematic
from ..diagnostics.convergence import RHAT_LIMIT, Convergence
from ..sampling.algorithms.no_u_turn import NutsProgram, Progress
from .box import box_for
from .learning import LearnedStudentT
from .run import agreement, check_iterations, recorded

#: Points that starts are chosen from, by their weights.
CANDIDATES = 4096
#: Effective sample size of these below which a run says that starts are few in truth.
FEW_STARTS = 50
WARMUP = 200


class Target(NamedTuple):
    """A density on a box, as the sampler sees it."""

    density: KernelStudentT
    low: Any  # (D,)
    high: Any  # (D,), infinite where there is no box


def constrain(u: jax.Array, target: Target) -> jax.Array:
    """Map any points (..., D) to low + (high - low) / (1 + exp(-u)), or to u without a box."""
    bounded = jnp.isfinite(target.low)
    width = jnp.where(bounded, target.high - target.low, 1.0)
    inside = jnp.where(bounded, target.low, 0.0) + width * jax.nn.sigmoid(u)
    return jnp.where(bounded, inside, u)


class InBox:
    """The density of u where x is :func:`constrain` of it."""

    def __init__(self, dimension: int) -> None:
        self.shapes = {"x": (dimension,)}

    def log_density(self, z: dict[str, jax.Array], target: Target) -> jax.Array:
        """Evaluate the log density at ``z``, up to a constant."""
        u = z["x"]
        bounded = jnp.isfinite(target.low)
        stretch = jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        value = target.density.log_density(constrain(u, target)[None])[0]
        return value + jnp.sum(jnp.where(bounded, stretch, 0.0))


@functools.lru_cache(maxsize=16)
def sampler(dimension: int, warmup: int) -> NutsProgram:
    """Keep NUTS for densities of a dimension, compiled for each kernel and number of rows."""
    problem: Any = InBox(dimension)
    return NutsProgram(problem, warmup)


def sample_student_t(
    density: KernelStudentT | LearnedStudentT,
    *,
    bounds: Bounds | None = None,
    draws: int = 250,
    chains: int = 16,
    warmup: int = WARMUP,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Draw from the predictive density by NUTS.

    Chains start at an importance sample of the density, from a mixture of a kernel density estimate
    of the rows and the uniform distribution on the box. So they are spread over its modes about as
    its mass is, even where none crosses from one mode to another; then R-hat is above 1.01, which
    the run says.

    Args:
        density: the density, or what :func:`~bke.inference.learn_student_t` returned.
        bounds: lower and upper corner of the box it is restricted to, each (D,) or a number. By
            default that of what was learned, if it has one; else the range of the rows and half of
            it more at each side, or all of R^D for kernels that are not of x - y.
        draws: per chain.
        chains: how many; where modes are far apart, the more the better are their shares.
        warmup: iterations before.
        seed: of everything.
        progress: whether bars are shown.

    Returns:
        ``posterior_predictive`` with ``x`` (chain, draw, column), ``sample_stats`` as of ``fit``;
        attributes say R-hat, effective sample sizes, that of the starts and ``notes``.

    Raises:
        InputError: for arguments that make no sense.
        SamplingError: the density is zero at all points tried.
    """
    check_iterations(chains, warmup, draws)
    if isinstance(density, LearnedStudentT):
        known = density.normaliser
        if bounds is None and known is not None:
            bounds = (known.low, known.high)
        density = density.density
    if not isinstance(density, KernelStudentT):
        raise InputError(f"density must be a kernel Student-t density, got {density!r}")
    low, high = box_for(np.asarray(density.rows.data), density.kernel, bounds)
    with computing():
        target = Target(density, low, high)
        start, effective = starts(target, chains, np.random.default_rng(seed))
        with chain_progress(chains, warmup + draws, shown=progress) as bars:
            points, stats = run_nuts(target, start, draws, warmup, seed, bars)
    names: dict[Any, Any] = {"x": ["column"]}
    drawn = dict_to_dataset({"x": points[:, warmup:]}, dims=names)
    agreed = agreement(drawn)
    return recorded(
        "posterior_predictive",
        drawn,
        stats,
        density.rows.data,
        warmup=warmup,
        notes=_notes(agreed, draws, chains, effective),
        agreed=agreed,
        box=(low, high),
        density=repr(density),
        seed=seed,
        effective_starts=effective,
    )


def _notes(agreed: Convergence | None, draws: int, chains: int, effective: float) -> list[str]:
    """What could mislead the reader of a run."""
    notes = []
    if agreed is not None and not agreed.rhat <= RHAT_LIMIT:
        notes.append(
            f"the chains do not agree ({agreed.told}): {draws} draws each are few, or "
            f"they do not cross between modes, whose shares are those of {chains} starts"
        )
    if effective < FEW_STARTS:
        notes.append(
            f"the starts are from an importance sample worth {effective:.1f} draws: modes may be "
            "missing"
        )
    return notes


def pooled(run: xr.DataTree, count: int) -> np.ndarray:
    """Take ``count`` draws (count, D) of all chains alike, evenly spaced in each."""
    drawn = np.asarray(run["posterior_predictive"]["x"])  # (chain, draw, D)
    each = -(-count // len(drawn))
    kept = np.linspace(0, drawn.shape[1] - 1, each).astype(int)
    return np.swapaxes(drawn[:, kept], 0, 1).reshape(-1, drawn.shape[2])[:count]


def run_nuts(
    target: Target,
    start: np.ndarray,
    draws: int,
    warmup: int,
    seed: int,
    progress: Progress | None = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Run chains from starts (chain, D): points (chain, warmup + draws, D) and statistics."""
    nuts = sampler(start.shape[1], warmup)
    bounded = np.isfinite(target.low)
    with np.errstate(invalid="ignore"):  # without a box
        share = (start - target.low) / (target.high - target.low)
    initial = {"x": jnp.asarray(np.where(bounded, logit(share), start))}
    run = nuts.run(
        target, initial=initial, draws=draws, key=jax.random.key(seed), progress=progress
    )
    return np.asarray(constrain(jnp.asarray(run.z["x"]), target)), run.stats


def starts(target: Target, count: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Choose starts (count, D) by their weights among :data:`CANDIDATES` points.

    The effective sample size of the weights comes with them.

    Raises:
        SamplingError: the density is zero at all of them.
    """
    candidates, log_proposal = _proposed(target, rng)
    log_weights = np.asarray(target.density.log_density(candidates)) - log_proposal
    if not np.any(np.isfinite(log_weights)):
        raise SamplingError("the density is zero at all points tried as starts")
    weights = np.exp(log_weights - logsumexp(log_weights))
    # Systematic in the order of the first column: the shares of modes are then near the weights'.
    order = np.argsort(candidates[:, 0], kind="stable")
    chosen = order[systematic(weights[order], count, rng)]
    return candidates[chosen], float(1.0 / np.sum(weights**2))


def _proposed(target: Target, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Propose points in the open box (m, D), with the log density they were drawn from, (m,).

    Half of them uniform on the box, where there is one; the others at rows with a normal deviate in
    every column, of Scott's bandwidth.
    """
    data = np.asarray(target.density.rows.data)
    n, D = data.shape
    spread = data.std(axis=0)
    width = np.where(np.isfinite(target.low), target.high - target.low, 1.0)
    bandwidth = np.where(spread > 0, spread, 0.1 * width) * n ** (-1.0 / (D + 4))
    near = data[rng.integers(n, size=CANDIDATES)] + bandwidth * rng.normal(size=(CANDIDATES, D))
    bounded = bool(np.all(np.isfinite(target.low)))
    if bounded:
        uniform = rng.random(CANDIDATES) < 0.5
        anywhere = target.low + width * rng.random((CANDIDATES, D))
        near = np.where(uniform[:, None], anywhere, near)
        near = near[np.all((near > target.low) & (near < target.high), axis=1)]
    squares = cdist(near / bandwidth, data / bandwidth, "sqeuclidean")
    around = logsumexp(-0.5 * squares, axis=1) - np.log(n)
    around -= np.sum(np.log(np.sqrt(2.0 * np.pi) * bandwidth))
    if not bounded:
        return near, around
    return near, np.logaddexp(around, -np.sum(np.log(width))) + np.log(0.5)
