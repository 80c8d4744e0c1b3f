"""Runs of NUTS for kernel Student-t densities: their trees, and whether chains agree."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models import kernel_student_t
from bke.models.kernels.base import Covariance, no_kernel
from bke.models.linalg.padding import padded
from bke.models.student_t.density import KernelStudentT
from bke.models.student_t.quadrature import Bounds
from scipy.spatial.distance import cdist
from scipy.special import logit, logsumexp

from ..core.errors import InputError, SamplingError
from ..core.machine import computing
from ..core.progress import chain_progress, progress_bar
from ..data.checks import check_chain_count, check_count, check_positive
from ..data.weighted import systematic
from ..diagnostics.convergence import RHAT_LIMIT, Convergence, convergence
from ..sampling.algorithms.no_u_turn import NutsProgram, Progress
from .learning import LearnedStudentT, box_for

Box = tuple[np.ndarray, np.ndarray]


def check_iterations(chains: int, warmup: int, draws: int) -> None:
    """Refuse numbers of chains, warm-up iterations and draws that make no sense."""
    check_chain_count(chains)
    for count, name, least in ((warmup, "warmup", 1), (draws, "draws", 4)):
        check_count(count, name, least)


def agreement(drawn: xr.Dataset) -> Convergence | None:
    """How well chains agree; of one chain alone there is no R-hat."""
    chains = drawn.sizes["chain"]
    return convergence(drawn, range(chains)) if chains > 1 else None


def recorded(
    group: str,
    drawn: xr.Dataset,
    stats: Mapping[str, np.ndarray],
    rows: np.ndarray,
    *,
    warmup: int,
    notes: Sequence[str],
    agreed: Convergence | None,
    box: Box,
    **attributes: Any,
) -> xr.DataTree:
    """Put what a run has drawn in a tree, beside what it was drawn from.

    Args:
        group: of the draws, such as ``"posterior"``.
        drawn: (chain, draw, ...), without the warm-up.
        stats: of every iteration, (chain, warmup + draw).
        rows: of the density, (N, D).
        warmup: iterations before the draws.
        notes: what could mislead the reader.
        agreed: see :func:`agreement`.
        box: that the density is restricted to.
        **attributes: of this kind of run, plain data.
    """
    kept = {name: values[:, warmup:] for name, values in stats.items()}
    run = xr.DataTree.from_dict(
        {
            f"/{group}": drawn,
            "/sample_stats": dict_to_dataset(kept),
            "/observed_data": xr.Dataset({"X": (("row", "column"), rows)}),
        }
    )
    low, high = box
    run.attrs.update(
        creation_library="bke",
        low=low.tolist(),
        high=high.tolist(),
        warmup=warmup,
        notes=json.dumps(list(notes)),
        **attributes,
    )
    if agreed is not None:
        run.attrs.update(rhat=agreed.rhat, ess_bulk=agreed.ess_bulk, ess_tail=agreed.ess_tail)
    return run


def notes_of(run: xr.DataTree) -> list[str]:
    """What could mislead the reader of a run."""
    notes: list[str] = json.loads(run.attrs["notes"])
    return notes


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
        known = density.normalizer
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


#: Chains of :func:`~bke.inference.sample_student_t`, and the fewest draws that each makes: fewer
#: would not tell whether they agree.
CHAINS, LEAST = 16, 250


def new_rows(
    learned: LearnedStudentT, count: int, *, seed: int = 0, progress: bool = True
) -> tuple[np.ndarray, list[str]]:
    """``count`` rows (count, D) of all chains alike, and what could mislead their reader."""
    draws = max(LEAST, -(-count // CHAINS))
    sampled = sample_student_t(learned, draws=draws, chains=CHAINS, seed=seed, progress=progress)
    return pooled(sampled, count), notes_of(sampled)


#: Iterations of NUTS for each row, from a start that is a draw already.
ITERATIONS = 60


def fantasy_data(
    kernel: Covariance,
    n: int,
    bounds: Bounds,
    *,
    dimension: int | None = None,
    noise_variance: Any = 1.0,
    alpha: Any = 1.0,
    beta: Any = 0.01,
    first: Any = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> np.ndarray:
    """Draw rows from the generative model, each from the predictive density of those before it.

    With a kernel of x - y the first row would be uniform on the box; it is fixed, as there.

    Args:
        kernel: k.
        n: how many rows, the first included.
        bounds: the box that rows are drawn in, lower and upper corner, each (D,) or a number.
        dimension: D; by default the most numbers that a corner or ``first`` has.
        noise_variance: sigma_0^2, see :func:`~bke.models.kernel_student_t`.
        alpha: likewise.
        beta: likewise.
        first: x_1, (D,) or a number for every column.
        seed: of the draws.
        progress: whether a bar is shown.

    Returns:
        (n, D), each row by NUTS from a start that is drawn by importance.

    Raises:
        InputError: for arguments that make no sense.
    """
    check_count(n, "n", 1)
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InputError(f"bounds must be a lower and an upper corner, got {bounds!r}")
    if not isinstance(kernel, Covariance):
        raise InputError(no_kernel(kernel, "a kernel, such as SquaredExponential(1.0)"))
    prior = {
        name: check_positive(value, name)
        for name, value in (("noise_variance", noise_variance), ("alpha", alpha), ("beta", beta))
    }
    sizes = max(np.size(one) for one in (*bounds, first))
    D = sizes if dimension is None else check_count(dimension, "dimension", 1)
    rows = np.empty((n, D))
    try:
        rows[0] = np.broadcast_to(np.asarray(first, dtype=float), (D,))
    except (TypeError, ValueError):
        raise InputError(f"first must be a number or {D} of them, and is {first!r}") from None
    low, high = box_for(rows[:1], kernel, bounds)
    rng = np.random.default_rng(seed)
    with computing(), progress_bar("rows", n, shown=progress) as advance:
        advance(1)
        for count in range(1, n):
            density = kernel_student_t(padded(rows[:count], n), kernel, **prior)
            target = Target(density, low, high)
            start, _ = starts(target, 1, rng)
            path, _ = run_nuts(target, start, 1, ITERATIONS, int(rng.integers(2**31)))
            rows[count] = path[0, -1]
            advance(1)
    return rows
