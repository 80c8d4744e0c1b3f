"""Posterior of the witness function mu_P - mu_Q, BKE section 5: where two samples differ."""

from __future__ import annotations

import dataclasses
import functools
import json
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models.arrays.pivoted_cholesky import pivoted_cholesky
from bke.models.embeddings.waves import LineSample
from bke.models.landmarks import LandmarkView, in_parts
from bke.models.likelihood.spectral import MOST_DENSE
from numpy.typing import ArrayLike

from ..data.checks import (
    WITNESS_MATRICES,
    as_evaluation_points,
    as_pair,
    check_count,
    check_memory,
    check_same_columns,
    column_names,
)
from ..data.units import Units
from ..diagnosis.masses import draw_weights, unconstrained_draws
from ..diagnosis.modes import Modes, find_modes
from ..diagnosis.reweight import reweight
from ..errors import InputError, SamplingError
from ..posterior.landmarks import places_for
from ..posterior.run import target_of
from ..posterior.samplers.quadrature import MOST_EVALUATIONS
from ..posterior.target import Target
from ..runtime.jit import jit
from ..runtime.machine import computing, cores
from ..runtime.progress import progress_bar
from .conditioning import Sample, by_waves, posterior_of_sample, rows_of_matrices

#: Hyperparameter draws per compiled call; fewer where each takes so many kernel values.
BATCH, BATCH_ENTRIES = 25, 2**28
LINE_POINTS = 200
MESH_SIDE = 30
#: The line or mesh extends beyond the data by this part of their range.
MARGIN = 0.1
#: Variance of a draw that its factor may drop, over the total.
DROPPED_VARIANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Band:
    """Mean and equal-tailed band of the witness at every point.

    Attributes:
        mean, lower, upper: shape (m,).
        level: posterior probability inside, pointwise.
        draws: how many draws it rests on.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    draws: int


def default_points(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Where to evaluate: a line (D = 1), a mesh (D = 2) over the data, else the data points."""
    pooled = np.concatenate([P, Q])
    if pooled.shape[1] > 2:
        return pooled
    low, high = pooled.min(axis=0), pooled.max(axis=0)
    margin = MARGIN * (high - low)
    side = LINE_POINTS if pooled.shape[1] == 1 else MESH_SIDE
    axes = [np.linspace(a, b, side) for a, b in zip(low - margin, high + margin, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def sample_witness(
    run: xr.DataTree,
    P: ArrayLike,
    Q: ArrayLike,
    at: ArrayLike | None = None,
    *,
    noise: str | float = "clt",
    weights: str = "posterior",
    landmarks: int | ArrayLike | None = None,
    thin: int = 1,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """One joint draw of the witness mu_P - mu_Q per posterior draw of the hyperparameters.

    Given the hyperparameters, mu_P and mu_Q are independent Gaussian processes conditioned on the
    two samples separately (:func:`~bke.models.embedding_posterior`), one column and a squared
    exponential by sums of waves, whatever n. Other samples too large for n x n matrices are seen
    through ``landmarks`` (:func:`~bke.models.landmark_embedding_posterior`).

    Args:
        run: from :func:`~bke.inference.fit` on the samples, pooled or joint.
        P: first sample, shape (n, D) or (n,), in the units of the data.
        Q: second sample, shape (m, D) or (m,).
        at: points of evaluation, shape (k, D) or (k,); by default a line, a mesh or, in more than
            two columns, the landmarks or the data points.
        noise: ``"clt"``, the sampling covariance of the empirical embedding, so that bands mean
            what they say; or a number, the sigma^2 of the paper (0.1 there: its bands never
            exclude 0).
        weights: ``"posterior"`` gives each mode its posterior mass, see
            :func:`~bke.inference.reweight`, which is called where the run has none; ``"chains"``
            gives all chains the same, as BKE Figure 5 (C) does.
        landmarks: condition on the empirical embeddings at these places, (m, D) in the units of the
            data, or at so many centres of clusters, instead of at all observations: the cost is
            linear in n, and bands are as wide as the prior where no landmark is near. By default
            those of a run of the landmark model, else none.
        thin: condition on the samples for every ``thin``-th posterior draw only, and draw so many
            witnesses from each: for large samples, whose posterior is narrow.
        seed: of the draws.
        progress: show a progress bar.

    Returns:
        A group with ``witness`` (chain, draw, point), ``mode`` (chain, draw: index into
        ``diagnose(run).modes.modes``, -1 for a stuck chain), ``weight`` (chain, draw), which
        :func:`band` uses, and the coordinates ``at`` (point, column).

    Raises:
        InputError: for samples that make no sense or do not fit the run.
    """
    target, units = target_of(run)
    first, second = as_pair(P, Q)
    check_same_columns(column_names(P), column_names(Q))
    dimension = len(units.columns)
    for names in (column_names(P), column_names(Q)):
        if names is not None and set(names) == set(units.columns):
            check_same_columns(units.columns, names)
    if first.shape[1] != dimension:
        raise InputError(f"P and Q have {first.shape[1]} columns, but the run has {dimension}")
    check_noise(noise)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_count(thin, "thin", 1, run["posterior"].sizes["draw"])
    places = target.landmarks
    if landmarks is not None:
        pooled = np.concatenate([first, second])
        places = places_for(landmarks, units, pooled, seed)
    if at is not None:
        points = as_evaluation_points(at, dimension)
    elif places is not None and dimension > 2:
        points = places * units.scale
    else:
        points = default_points(first, second)
    family = target.kernel, target.measure
    largest = max(rows_of_matrices(sample, *family) for sample in (first, second))
    rows = largest if places is None else len(places)
    check_memory(
        max(rows, len(points)),
        dimension,
        matrices=WITNESS_MATRICES * cores(),
        instead="landmarks (--landmarks)" if rows >= len(points) else "fewer points (--at)",
    )
    modes = find_modes(run)
    # With one or two hyperparameters quadrature also sees what no chain visited.
    seen_by_quadrature = unconstrained_draws(run).shape[-1] in MOST_EVALUATIONS
    several = len(modes.modes) > 1
    if weights == "posterior" and (several or seen_by_quadrature) and not modes.weighed:
        run = reweight(run, seed=seed, progress=progress)
        modes = find_modes(run)
    z = {str(k): v.values for k, v in run["unconstrained_posterior"].data_vars.items()}
    chains, draws = next(iter(z.values())).shape[:2]
    modes = _thinned(modes, thin)
    of_weights = draw_weights(run, modes, weights)
    with computing(), progress_bar("witness", chains * draws, shown=progress) as advance:
        kept = {name: values[:, ::thin] for name, values in z.items()}
        P_seen, Q_seen = _seen(
            (units.to_model(first), units.to_model(second)), units.to_model(points), places, *family
        )
        _check_lengthscales((P_seen, Q_seen), target, kept, units)
        witness = _draw_all(
            target,
            P_seen,
            Q_seen,
            jnp.asarray(units.to_model(points)),
            {name: values.reshape(-1, *values.shape[2:]) for name, values in kept.items()},
            thin,
            noise,
            seed,
            advance,
        )
        # The last of each chain may give fewer.
        witness = witness.reshape(chains, -1, len(points))[:, :draws]
    if np.isnan(witness).any():
        lost = np.isnan(witness).any(axis=2).sum()
        raise SamplingError(
            f"{lost} of {chains * draws} draws of the witness are not finite: the noise is too "
            "small beside the prior covariance for double precision; use noise='clt', or "
            "measure='unit'"
        )
    of_draws = np.array(modes.of_draws)
    of_draws[list(modes.stuck)] = -1
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), witness),
            "mode": (("chain", "draw"), of_draws),
            "weight": (("chain", "draw"), of_weights),
        },
        coords={"at": (("point", "column"), points), "column": list(units.columns)},
        attrs={
            "method": run.attrs["method"],
            "noise": str(noise),
            "weights": weights,
            "landmarks": 0 if places is None else len(places),
            "thin": thin,
            "seed": seed,
            "sizes": [len(first), len(second)],
        },
    )
    return xr.DataTree(dataset, name="witness")


def equal_draws(
    values: np.ndarray,
    points: np.ndarray,
    columns: Sequence[str],
    attrs: Mapping[str, Any],
    weights: np.ndarray | None = None,
) -> xr.DataTree:
    """The group of :func:`sample_witness` for draws (k, m) of one mode.

    They count alike, or by ``weights`` (k,) with sum one.
    """
    shape = 1, len(values)
    if weights is None:
        weights = np.full(len(values), 1.0 / len(values))
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), values[None]),
            "mode": (("chain", "draw"), np.zeros(shape, dtype=int)),
            "weight": (("chain", "draw"), weights[None]),
        },
        coords={"at": (("point", "column"), points), "column": list(columns)},
        attrs=attrs,
    )
    return xr.DataTree(dataset, name="witness")


def check_noise(noise: Any) -> None:
    """Refuse what is neither ``"clt"`` nor a positive number."""
    number = isinstance(noise, numbers.Real) and not isinstance(noise, bool)
    if noise != "clt" and not (number and np.isfinite(noise) and noise > 0):
        raise InputError(f"noise must be 'clt' or a positive number, got {noise!r}")


def _seen(
    samples: tuple[np.ndarray, ...], at: np.ndarray, landmarks: np.ndarray | None, *family: Any
) -> tuple[Sample, ...]:
    if landmarks is None:
        return by_waves(samples, at, *family)
    return tuple(in_parts(sample, landmarks) for sample in samples)


def _check_lengthscales(
    samples: Iterable[Sample], target: Target, z: Mapping[str, np.ndarray], units: Units
) -> None:
    lines = [sample for sample in samples if isinstance(sample, LineSample)]
    least = max((line.least_lengthscale for line in lines), default=0.0)
    if not least:
        return
    lengthscales = np.asarray(target.constrain(z)["lengthscale"])  # type: ignore[arg-type]
    if short := int(np.sum(lengthscales < least)):
        raise InputError(
            f"{short} of {lengthscales.size} draws have a lengthscale below "
            f"{least * float(units.scale[0]):.3g}, too short for all of {MOST_DENSE + 1} rows or "
            "more: give landmarks (--landmarks)"
        )


def _thinned(modes: Modes, thin: int) -> Modes:
    """Every draw in the mode of the one that gives its hyperparameters."""
    if thin == 1:
        return modes
    before = modes.of_draws
    of_draws = before[:, np.arange(before.shape[1]) // thin * thin]
    if lost := set(np.unique(before)) - set(np.unique(of_draws)):
        raise InputError(f"thin={thin} leaves no draw of mode {min(lost) + 1}: take less")
    return dataclasses.replace(modes, of_draws=of_draws)


def _draw_all(
    target: Target,
    P: Sample,
    Q: Sample,
    at: jax.Array,
    z: dict[str, np.ndarray],
    each: int,
    noise: Any,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """``each`` draws for k hyperparameter draws, (k each, m), in threads.

    How many threads only matters to rounding.
    """
    total = len(next(iter(z.values())))
    keys = jax.random.split(jax.random.key(seed), total * each).reshape(total, each)
    known = LineSample, LandmarkView
    entries = max(X.entries if isinstance(X, known) else len(X) ** 2 for X in (P, Q))
    batch = max(1, min(BATCH, BATCH_ENTRIES // entries))
    compiled = _compiled(json.dumps(target.describe()), noise)

    def work(start: int) -> np.ndarray:
        with jax.enable_x64(True):
            # The last batch repeats its last draw: another shape would be compiled again.
            rows = np.minimum(np.arange(start, start + batch), total - 1)
            part = {name: jnp.asarray(values[rows]) for name, values in z.items()}
            found = np.asarray(compiled(keys[rows], part, P, Q, at))
        advance(min(batch, total - start) * each)
        return found

    first, *rest = range(0, total, batch)
    pieces = [work(first)]  # compiles, before the threads would each do it
    with ThreadPoolExecutor(cores()) as pool:
        pieces += pool.map(work, rest)
    return np.concatenate(pieces)[:total].reshape(total * each, -1)


@functools.lru_cache(maxsize=16)
def _compiled(description: str, noise: Any) -> Callable[..., jax.Array]:
    """Draws of the witness for a batch of hyperparameters, kept for the next call."""
    target = Target.restore(json.loads(description))

    @jit
    def draws(keys: jax.Array, z: Any, P: Sample, Q: Sample, at: jax.Array) -> jax.Array:
        def one(keys_and_z: Any) -> jax.Array:
            keys, z = keys_and_z
            values = target.constrain(z)
            kernel, measure = target.kernel_at(values), target.measure_at(values)
            posterior_P, posterior_Q = (
                posterior_of_sample(X, kernel, at, noise=noise, measure=measure) for X in (P, Q)
            )
            covariance = posterior_P.covariance + posterior_Q.covariance
            around = jax.vmap(gaussian_draw, in_axes=(0, None))(keys, covariance)
            return posterior_P.mean - posterior_Q.mean + around

        return jax.lax.map(one, (keys, z))

    return draws


def gaussian_draw(key: jax.Array, covariance: jax.Array) -> jax.Array:
    """A draw from N(0, covariance), numerically singular for a smooth process; call it in jit."""
    # Cancellation leaves tiny negative variances; the pivoted factor stops before them.
    diagonal = jnp.maximum(jnp.diagonal(covariance), 0.0)
    factor = pivoted_cholesky(
        lambda i: covariance[i], diagonal, len(covariance), DROPPED_VARIANCE * jnp.sum(diagonal)
    ).factor
    return jax.random.normal(key, (len(factor),), covariance.dtype) @ factor


def band(witness: xr.DataTree, level: float = 0.8, mode: int | None = None) -> Band:
    """Mean and equal-tailed band of :func:`sample_witness`'s draws.

    Args:
        witness: the group that :func:`sample_witness` returned.
        level: posterior probability of the band at each point.
        mode: index of a mode; ``None`` for all draws with the weights of the witness: modes by
            their posterior mass unless :func:`sample_witness` was told otherwise. Stuck chains are
            left out, unless all are stuck.
    """
    if not isinstance(level, numbers.Real) or not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, got {level}")
    if not isinstance(witness, xr.DataTree) or "witness" not in witness.data_vars:
        raise InputError("band needs what sample_witness returned")
    dataset = witness.to_dataset()
    draws, labels = dataset["witness"].values, dataset["mode"].values
    used = dataset["weight"].values > 0 if mode is None else labels == mode
    chosen = draws[used]
    if not len(chosen):
        raise InputError(f"no draw is in mode {mode}")
    weights = dataset["weight"].values[used] if mode is None else np.ones(len(chosen))
    weights = weights / weights.sum()
    lower, upper = weighted_quantiles(chosen, weights, ((1 - level) / 2, (1 + level) / 2))
    return Band(weights @ chosen, lower, upper, level, len(chosen))


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, levels: Sequence[float]
) -> np.ndarray:
    """Quantiles (levels, ...) of ``values`` (k, ...) with ``weights`` (k,).

    The distribution function is linear between the values, each at the middle of its weight, from 0
    at the smallest to 1 at the largest: for equal weights NumPy's default.
    """
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0)
    steps = weights[order]
    middle = np.cumsum(steps, axis=0) - 0.5 * steps
    middle = (middle - middle[0]) / np.where(len(values) > 1, middle[-1] - middle[0], 1.0)
    found = [
        np.interp(levels, middle[:, column], flat[order[:, column], column])
        for column in range(flat.shape[1])
    ]
    return np.stack(found, axis=-1).reshape(len(levels), *values.shape[1:])
