"""Draws of the witness by the posterior of the difference itself, not of two embeddings.

Conditioned on each sample alone, two embeddings differ by their sampling errors even where P = Q.
The difference h of two samples that are a tilt of their pooled rows z has a posterior of its own
(:mod:`bke.inference.comparison.belief`), with a scale of its own, and gives the witness of any
kernel as ``w(x) = 1/n sum_i k(x, z_i) h(z_i)``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

import jax
import numpy as np

from ..comparison.belief import belief
from ..core.jit import jit
from ..data.units import Units
from ..permutation.pair import Pair
from ..permutation.pooling import relabelled
from ..sampling.target import Target


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
