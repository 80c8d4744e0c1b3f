"""What landmarks resolve: how far a posterior's kernels reach beside the distances between them."""

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

#: k at the next landmark, over its height, below which it reaches less far: one lengthscale away.
NEXT = float(np.exp(-0.5))
#: k between most landmarks above which these look alike: half a lengthscale away.
ALIKE = float(np.exp(-0.125))
#: Posterior mass of such kernels that is worth a note.
MUCH = 0.1
#: Draws that are looked at.
DRAWS = 64


@jax.jit
def reach(kernel: Any, landmarks: jax.Array) -> jax.Array:
    """Medians, (2,), of |k| over its height: at the next landmark, and over all pairs of them.

    NaN of one landmark.
    """
    gram = kernel.matrix(landmarks, landmarks)
    height = jnp.sqrt(jnp.diagonal(gram))
    share = jnp.abs(gram) / (height[:, None] * height)
    count = len(landmarks)
    nearest = jnp.max(jnp.where(jnp.eye(count, dtype=bool), 0.0, share), axis=1)
    pairs = share[np.triu_indices(count, 1)]
    if not len(pairs):
        return jnp.full(2, jnp.nan)
    return jnp.stack([jnp.median(nearest), jnp.median(pairs)])


def in_words(reaches: np.ndarray, mass: np.ndarray) -> list[str]:
    """Notes on kernels whose :func:`reach` (k, 2) has the ``mass`` (k,) that lies outside."""
    nearest, pairs = np.asarray(reaches).T
    notes = []
    change = (
        "take more or other landmarks, another noise variance, or, where the rows are at hand, the "
        "model that has no landmarks (likelihood='auto', --likelihood auto)"
    )
    for far, value, told in (
        (
            nearest < NEXT,
            nearest,
            "are shorter than the way from a landmark to the next, where k is down to {} of its "
            "height: between landmarks the model knows little, and its posterior says little of "
            "the data",
        ),
        (
            pairs > ALIKE,
            pairs,
            "are long beside the distances between landmarks, over which k keeps {} of its height: "
            "it hardly tells them apart, and the witness is hardly more than a slope",
        ),
    ):
        share = float(mass[far].sum() / mass.sum())
        if share > MUCH:
            typical = float(np.average(value[far], weights=mass[far]))
            notes.append(
                f"the lengthscales of {100 * share:.0f} % of the posterior "
                f"{told.format(f'{typical:.2g}')}; {change}"
            )
    return notes


def notes_on_run(run: OpenRun, modes: Modes) -> list[str]:
    """Sentences on lengthscales that the landmarks of a run do not resolve; none without such."""
    if read_record(run.tree.attrs)["model"]["likelihood"] != "landmark":
        return []
    try:
        target = run.target
    except InputError:  # a prior that no file keeps
        return []
    flat = unconstrained_draws(run.tree)
    flat = flat.reshape(-1, flat.shape[-1])
    weight = draw_weights(run.tree, modes, "chains").ravel()
    used = np.flatnonzero(weight)
    chosen = used[np.linspace(0, len(used) - 1, min(len(used), DRAWS)).round().astype(int)]
    with computing():
        every = target.constrain(unflatten(flat[chosen], target.shapes))
        landmarks = jnp.asarray(target.landmarks)
        found = [
            reach(target.kernel_at({k: v[i] for k, v in every.items()}), landmarks)
            for i in range(len(chosen))
        ]
        reaches = np.asarray(found)
    return [f"NOT RESOLVED: {note}." for note in in_words(reaches, weight[chosen])]
