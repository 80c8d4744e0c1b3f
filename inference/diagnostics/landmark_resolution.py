"""Resolution of landmarks: lengthscales of the posterior compared with distances of landmarks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.errors import InputError
from ..core.machine import computing
from ..sampling.open_run import OpenRun
from ..sampling.record import read_record
from ..sampling.target import unflatten
from .modes import Modes, draw_weights, unconstrained_draws


@jax.jit
def correlation_medians(kernel: Any, landmarks: jax.Array) -> jax.Array:
    """Compute the medians, (2,), of |k| / sqrt(k k) to the next landmark, and over all pairs.

    They are NaN for a single landmark.
    """
    gram = kernel.matrix(landmarks, landmarks)
    scale = jnp.sqrt(jnp.diagonal(gram))
    correlation = jnp.abs(gram) / (scale[:, None] * scale)
    count = len(landmarks)
    nearest = jnp.max(jnp.where(jnp.eye(count, dtype=bool), 0.0, correlation), axis=1)
    pairs = correlation[np.triu_indices(count, 1)]
    if not len(pairs):
        return jnp.full(2, jnp.nan)
    return jnp.stack([jnp.median(nearest), jnp.median(pairs)])


def resolution_notes(
    medians: np.ndarray,
    mass: np.ndarray,
    *,
    min_nearest: float = float(np.exp(-0.5)),
    max_pairs: float = float(np.exp(-0.125)),
    min_mass: float = 0.1,
) -> list[str]:
    """Describe lengthscales that are too short or too long for the landmarks.

    With too short ones the model nearly ignores the data between landmarks; with too long ones
    it cannot distinguish the landmarks, and the witness is nearly linear.

    Args:
        medians: :func:`correlation_medians` of kernels, (k, 2).
        mass: posterior mass of each kernel, (k,).
        min_nearest: lengthscales are too short if the correlation with the next landmark is below
            this value, that of a squared exponential kernel at one lengthscale. Not tuned.
        max_pairs: they are too long if the correlation of the median pair is above this value, that
            at half a lengthscale. Not tuned.
        min_mass: smallest proportion of the posterior that is reported. Not tuned.
    """
    nearest, pairs = medians.T
    notes = []
    for values, outside, problem in (
        (nearest, nearest < min_nearest, "too short for the distances to the next landmark"),
        (pairs, pairs > max_pairs, "too long for the distances between landmarks"),
    ):
        proportion = float(mass[outside].sum() / mass.sum())
        if proportion > min_mass:
            typical = np.average(values[outside], weights=mass[outside])
            notes.append(
                f"{100 * proportion:.0f} % of the posterior has lengthscales {problem} (kernel "
                f"correlation {typical:.2g}); use more or other landmarks, another noise variance, "
                "or, if all rows are available, likelihood='auto' (--likelihood auto)"
            )
    return notes


def landmark_notes(run: OpenRun, modes: Modes, max_draws: int = 64) -> list[str]:
    """Describe lengthscales of a run that its landmarks do not resolve, from a part of its draws.

    Args:
        run: the run; without landmarks there are no notes.
        modes: modes of the run.
        max_draws: number of draws whose kernels are evaluated. Not tuned.
    """
    if read_record(run.tree.attrs)["model"]["likelihood"] != "landmark":
        return []
    try:
        target = run.target
    except InputError:  # a prior that files cannot hold
        return []
    flat = unconstrained_draws(run.tree)
    flat = flat.reshape(-1, flat.shape[-1])
    weight = draw_weights(run.tree, modes, "chains").ravel()
    used = np.flatnonzero(weight)
    picks = used[np.linspace(0, len(used) - 1, min(len(used), max_draws)).round().astype(int)]
    with computing():
        values = target.constrain(unflatten(flat[picks], target.shapes))
        landmarks = jnp.asarray(target.landmarks)
        medians = jax.lax.map(
            lambda value: correlation_medians(target.kernel_at(value), landmarks), values
        )
    return [
        f"NOT RESOLVED: {note}." for note in resolution_notes(np.asarray(medians), weight[picks])
    ]
