"""What an embedding is conditioned on: all rows, by matrices or by waves, or landmarks."""

from __future__ import annotations

import functools
import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import EmbeddingPosterior, embedding_posterior
from bke.models.embeddings.fourier_posterior import (
    FourierSample,
    fourier_posterior,
    fourier_sample,
    supports_fourier,
)
from bke.models.embeddings.posterior import landmark_posterior
from bke.models.kernels.base import Kernel
from bke.models.likelihood.landmark import LandmarkData
from bke.models.likelihood.spectral import MOST_DENSE
from bke.models.linalg.pivoted_cholesky import pivoted_cholesky
from bke.models.measures import Measure

from ..comparison.belief import belief
from ..core.errors import InputError
from ..core.jit import jit
from ..core.machine import cores
from ..data.units import Units
from ..permutation.pair import Pair
from ..permutation.pooling import relabelled
from ..permutation.relabelled import MORE_ROWS
from ..sampling.target import Target

#: Different rows, at most, by which a sample could have had more rows.
MOST_MORE = 1000
#: (n, D) points, or these prepared for sums of waves, or with the landmarks they are seen from.
Sample: TypeAlias = jax.Array | FourierSample | LandmarkData


def rows_of_matrices(sample: np.ndarray, kernel: Kernel, measure: Measure | str) -> int:
    """Size of the matrices that a sample (n, D) may need where there are no landmarks, n or 0."""
    by_waves_alone = len(sample) > MOST_DENSE and supports_fourier(sample, kernel, measure)
    return 0 if by_waves_alone else len(sample)


def by_waves(
    samples: tuple[np.ndarray, ...], at: np.ndarray, kernel: Kernel, measure: Measure | str
) -> tuple[Sample, ...]:
    """Samples (n, D) for questions at the points ``at`` (m, D), prepared where that pays."""
    everything = np.concatenate([*samples, at])
    low, high = float(everything.min()), float(everything.max())
    return tuple(
        jax.tree.map(jnp.asarray, fourier_sample(sample, low, high))
        if supports_fourier(sample, kernel, measure)
        else jnp.asarray(sample)
        for sample in samples
    )


def posterior_of_sample(
    X: Sample, kernel: Kernel, at: jax.Array, *, noise: Any, measure: Measure | str = "unit"
) -> EmbeddingPosterior:
    """Given the empirical embedding at all rows, by matrices or waves, or at landmarks."""
    if isinstance(X, FourierSample):
        return fourier_posterior(X, kernel, at, noise=noise, measure=measure)
    if isinstance(X, LandmarkData):
        return landmark_posterior(X, kernel, at, noise=noise, measure=measure)
    return embedding_posterior(X, kernel, at, noise=noise, measure=measure)


def different_rows(samples: tuple[np.ndarray, ...]) -> np.ndarray:
    """The different rows (k, D) of all samples, or as many of them as are enough, evenly."""
    found = np.unique(np.concatenate(samples), axis=0)
    if len(found) <= MOST_MORE:
        return found
    return np.asarray(found[np.linspace(0, len(found) - 1, MOST_MORE).round().astype(int)])


def errors_of_more_rows(
    kernel: Kernel, different: jax.Array, at: jax.Array, mean: jax.Array, size: float | jax.Array
) -> jax.Array:
    """The covariance (m, m) of an embedding's error by a few more rows that could have been.

    A sample's own rows tell of no sampling error where all of them happen to be equal, as of a rare
    event: see :attr:`~bke.inference.permutation.relabelled.Relabelled.more`.

    Args:
        kernel: the kernel.
        different: rows (k, D) of both samples, each once.
        at: points of evaluation (m, D).
        mean: (m,), of the embedding there.
        size: how many rows the sample has.
    """
    apart = kernel.matrix(different, at) - mean
    return MORE_ROWS / (len(different) * size**2) * (apart.T @ apart)


#: Hyperparameter draws per compiled call; fewer where each takes so many kernel values.
BATCH, BATCH_ENTRIES = 25, 2**28
#: Variance of a draw that its factor may drop, over the total.
DROPPED_VARIANCE = 1e-9


class More(NamedTuple):
    """What more rows could have been, in the units of the model, and how many each sample has."""

    different: jax.Array  # (k, D)
    sizes: tuple[float, float]


def check_noise(noise: Any) -> None:
    """Refuse what is neither ``"clt"`` nor a positive number."""
    number = isinstance(noise, numbers.Real) and not isinstance(noise, bool)
    if noise != "clt" and not (number and np.isfinite(noise) and noise > 0):
        raise InputError(f"noise must be 'clt' or a positive number, got {noise!r}")


def equal_draws(
    values: np.ndarray,
    points: np.ndarray,
    columns: Sequence[str],
    inside: np.ndarray,
    attrs: Mapping[str, Any],
) -> xr.DataTree:
    """The group that :func:`~bke.inference.sample_witness` returns, of equal draws (k, m)."""
    shape = 1, len(values)
    weights = np.full(len(values), 1.0 / len(values))
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), values[None]),
            "mode": (("chain", "draw"), np.zeros(shape, dtype=int)),
            "weight": (("chain", "draw"), weights[None]),
        },
        coords={
            "at": (("point", "column"), points),
            "column": list(columns),
            "in_range": ("point", inside),
        },
        attrs=attrs,
    )
    return xr.DataTree(dataset, name="witness")


def draws_at(
    target: Target,
    samples: tuple[Sample, Sample],
    more: More,
    at: jax.Array,
    z: dict[str, np.ndarray],
    each: int,
    noise: Any,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Draws of the witness for k hyperparameter draws, ``each`` for every one, (k, each, m).

    In threads; how many there are only matters to rounding. By sampling errors (``"clt"``) those of
    ``more`` rows count too. ``advance`` is told of every hyperparameter draw that is done.
    """
    total = len(next(iter(z.values())))
    keys = jax.random.split(jax.random.key(seed), total * each).reshape(total, each)
    known = FourierSample, LandmarkData
    entries = max(X.entries if isinstance(X, known) else len(X) ** 2 for X in samples)
    batch = max(1, min(BATCH, BATCH_ENTRIES // entries))
    compiled = _compiled(json.dumps(target.describe()), noise)

    def work(start: int) -> np.ndarray:
        with jax.enable_x64(True):
            # The last batch repeats its last draw: another shape would be compiled again.
            rows = np.minimum(np.arange(start, start + batch), total - 1)
            part = {name: jnp.asarray(values[rows]) for name, values in z.items()}
            found = np.asarray(compiled(keys[rows], part, *samples, more, at))
        advance(min(batch, total - start))
        return found

    first, *rest = range(0, total, batch)
    pieces = [work(first)]  # compiles, before the threads would each do it
    with ThreadPoolExecutor(cores()) as pool:
        pieces += pool.map(work, rest)
    return np.concatenate(pieces)[:total]


@functools.lru_cache(maxsize=16)
def _compiled(description: str, noise: Any) -> Callable[..., jax.Array]:
    """Draws of the witness for a batch of hyperparameters, kept for the next call."""
    target = Target.restore(json.loads(description))

    @jit
    def draws(
        keys: jax.Array, z: Any, P: Sample, Q: Sample, more: More, at: jax.Array
    ) -> jax.Array:
        def one(keys_and_z: Any) -> jax.Array:
            keys, z = keys_and_z
            values = target.constrain(z)
            kernel, measure = target.kernel_at(values), target.measure_at(values)
            posterior_P, posterior_Q = both = [
                posterior_of_sample(X, kernel, at, noise=noise, measure=measure) for X in (P, Q)
            ]
            covariance = posterior_P.covariance + posterior_Q.covariance
            if noise == "clt":
                for posterior, size in zip(both, more.sizes, strict=True):
                    covariance += errors_of_more_rows(
                        kernel, more.different, at, posterior.mean, size
                    )
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


def difference_draws(
    target: Target,
    units: Units,
    samples: tuple[np.ndarray, np.ndarray],
    at: np.ndarray,
    z: dict[str, np.ndarray],
    each: int,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Draws of the witness for k hyperparameter draws, ``each`` for every one, (k, each, m).

    Args:
        target: of the run.
        units: of the run.
        samples: in the units of the data.
        at: (m, D), likewise.
        z: k hyperparameter draws, unconstrained.
        each: how many of every one.
        seed: of the draws.
        advance: told of hyperparameter draws that are done.
    """
    rng = np.random.default_rng(seed)
    rows = relabelled(Pair.checked(*samples), 0, rng)
    total = len(next(iter(z.values())))
    drawn = belief(rows).drawn(total * each, rng)
    kernel, where = _kernel(json.dumps(target.describe())), units.to_model(at)
    found = np.zeros((total, each, len(at)))
    for block in rows.blocks():
        here = units.to_model(rows.points[block] * rows.unit)
        weighted = (drawn.at(rows.points[block]) * rows.counts[block]).reshape(total, each, -1)
        for index in range(total):
            one = {name: values[index] for name, values in z.items()}
            with jax.enable_x64(True):
                found[index] += weighted[index] @ np.asarray(kernel(one, here, where))
    advance(total)
    return found / rows.rows


@functools.lru_cache(maxsize=16)
def _kernel(description: str) -> Callable[..., jax.Array]:
    """The kernel of a run between points (n, D) and (m, D), at a draw of its hyperparameters."""
    target = Target.restore(json.loads(description))

    @jit
    def between(z: dict[str, jax.Array], X: jax.Array, Y: jax.Array) -> jax.Array:
        return target.kernel_at(target.constrain(z))(X, Y)

    return between
