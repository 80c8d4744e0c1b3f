"""Joint draws of the witness at given hyperparameters, and the group that holds draws."""

from __future__ import annotations

import functools
import json
import numbers
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models.embeddings.fourier_posterior import FourierSample
from bke.models.likelihood.landmark import LandmarkData
from bke.models.linalg.pivoted_cholesky import pivoted_cholesky

from ..core.errors import InputError
from ..core.jit import jit
from ..core.machine import cores
from ..sampling.target import Target
from .conditioning import Sample, errors_of_more_rows, posterior_of_sample

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
