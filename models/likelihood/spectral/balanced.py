"""Points whose neighbours nearly balance: their slope is summed anew, neighbour by neighbour.

Sums of waves are right to rounding error beside the whole sample's largest terms: of what far
neighbours leave each other that may be all there is. The few points whose slope is that small
beside those terms, and whose neighbours are few, take these themselves.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.squared_exponential import SquaredExponential
from ...linalg.rows import PaddedRows
from .prepared import RESOLUTION

#: A slope below this, over the size of the sums, may be right to fewer than six digits.
DOUBT = 1e-9
#: Points that are summed anew at most, the most doubtful; and neighbours on either side.
MOST_POINTS, NEIGHBOURS = 32, 128
#: Points among which one is looked for at a time.
BLOCK = 512
#: Lengthscales within which all neighbours must be known.
REACH = 14.0


def with_balanced(
    log_volume: jax.Array,
    slopes: jax.Array,
    sizes: jax.Array,
    x: jax.Array,
    rows: PaddedRows,
    kernel: SquaredExponential,
) -> jax.Array:
    """``log_volume`` (N,) with the sums over neighbours in the doubtful points' places.

    Args:
        log_volume: log |slope|.
        slopes: (N,), of mu_hat.
        sizes: () or (N,), what the slopes are right beside.
        x: (N,), ascending.
        rows: which of these are data, and how many rows each stands for.
        kernel: its lengthscale is a number.
    """
    # XLA would work every slope out anew for each use.
    slopes, log_volume = jax.lax.optimization_barrier((jax.lax.stop_gradient(slopes), log_volume))
    doubtful = jnp.abs(slopes) < DOUBT * jax.lax.stop_gradient(sizes)
    doubtful &= rows.known

    def again() -> jax.Array:
        order = jnp.where(doubtful, jnp.abs(slopes), jnp.inf)
        places = _smallest(order, min(MOST_POINTS, len(x)))
        value, known = _by_neighbours(x, rows, places, kernel)
        places = jnp.where(doubtful[places] & known, places, len(x))
        return log_volume.at[places].set(value, mode="drop")

    return jax.lax.cond(jnp.any(doubtful), again, lambda: log_volume)


def _smallest(values: jax.Array, k: int) -> jax.Array:
    """Places of the ``k`` smallest; XLA would sort all ``values`` (N,)."""
    blocks = -(-len(values) // BLOCK)
    values = jnp.pad(values, (0, blocks * BLOCK - len(values)), constant_values=jnp.inf)
    values = values.reshape(blocks, BLOCK)
    # None is in a block whose smallest is not among the smallest.
    _, which = jax.lax.top_k(-jnp.min(values, axis=1), min(k, blocks))
    _, place = jax.lax.top_k(-values[which].reshape(-1), k)
    return which[place // BLOCK] * BLOCK + place % BLOCK


def _by_neighbours(
    x: jax.Array, data: PaddedRows, rows: jax.Array, kernel: SquaredExponential
) -> tuple[jax.Array, jax.Array]:
    """Log |slope| of mu_hat at ``rows`` (k,), and whether no neighbour is left out."""
    steps = np.concatenate([np.arange(-NEIGHBOURS, 0), np.arange(1, NEIGHBOURS + 1)])
    places = rows[:, None] + steps
    inside = jnp.clip(places, 0, len(x) - 1)
    there = (places == inside) & data.known[inside]
    delta = x[rows, None] - x[inside]
    farthest = jnp.abs(delta[:, [0, -1]]) > REACH * kernel.lengthscale
    known = jnp.all(farthest | ~there[:, [0, -1]], axis=1)
    terms = kernel.value_and_grad_at(delta.reshape(1, 1, -1))
    log_scale = jnp.where(there, terms.log_scale.reshape(delta.shape), -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(log_scale, axis=1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weighted = terms.gradient.reshape(delta.shape) * jnp.exp(log_scale - largest[:, None])
    if data.weights is not None:
        weighted = weighted * data.weights[inside]
    slope, size = jnp.sum(weighted, axis=1), jnp.sum(jnp.abs(weighted), axis=1)
    resolved = jnp.abs(slope) > RESOLUTION * size
    log_slope = jnp.log(jnp.abs(jnp.where(resolved, slope, 1.0)))
    return jnp.where(resolved, largest + log_slope - jnp.log(data.number), -jnp.inf), known
