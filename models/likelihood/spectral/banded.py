"""Lengthscales so short that every point has few others near: R is block tridiagonal.

Where the :data:`BLOCK`-th point after each is 12 lengthscales away or more, blocks of as many
points, in ascending order, have r with themselves and the next ones only: it is below 3e-16 of its
height beyond. Sums over the block of a point and those beside it are mu_hat and, in log space,
gamma: what is farther is exp(-72) of the nearest neighbour, however far that is. So no point is
isolated, and there is no grid.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.squared_exponential import SquaredExponential
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Measure
from .elimination import eliminate
from .prepared import RESOLUTION, at_zero

#: Points of a block: those of twice as many take longer than a pass over the grid does.
BLOCK = 48
#: In lengthscales, from where on r and k are nothing.
REACH = 12.0

Terms = tuple[jax.Array, jax.Array]


class _Places(NamedTuple):
    """Points of a block, of the one before and of the one behind."""

    x: jax.Array  # (3, BLOCK)
    known: jax.Array  # (3, BLOCK), which are data


@register_dataclass
@dataclasses.dataclass(frozen=True)
class VeryShortLengthscales:
    """Those up to the ``longest``."""

    longest: Any  # ()

    def terms(
        self,
        rows: PaddedRows,
        kernel: SquaredExponential,
        noise_variance: jax.Array,
        measure: Measure,
        log_amplitude: jax.Array | None = None,
    ) -> Terms:
        """Both terms of BKE (13) for ascending ``rows``."""
        n, lengthscale = rows.number, jnp.asarray(kernel.lengthscale)
        height = at_zero(kernel, measure)
        blocks = -(-len(rows) // BLOCK)
        # An empty block before the first and two behind the last.
        room = (BLOCK, (blocks + 2) * BLOCK - len(rows))
        x = jnp.pad(rows.points[:, 0], room).reshape(-1, BLOCK)
        place = jnp.arange(-BLOCK, (blocks + 2) * BLOCK).reshape(-1, BLOCK)
        known = (place >= 0) & (place < n)
        one = jnp.eye(BLOCK)

        def covariance(x: jax.Array, y: jax.Array, both: jax.Array) -> jax.Array:
            delta = (x[:, None] - y) / lengthscale
            return jnp.where(both, height * jnp.exp(-0.25 * delta**2), 0.0)

        def step(carried: Any, i: jax.Array) -> tuple[Any, jax.Array]:
            pivot, remainder, explained, log_determinant = carried
            at = _Places(*(jax.lax.dynamic_slice_in_dim(each, i, 3) for each in (x, known)))
            embedding, log_volume = _pushforward(at, lengthscale, n)
            (before, own, _), (before_known, own_known, _) = at
            edge = covariance(own, before, own_known[:, None] & before_known)
            block = covariance(own, own, own_known[:, None] & own_known) + noise_variance * one
            left = eliminate(pivot, remainder, edge, block, jnp.where(own_known, embedding, 0.0))
            explained = explained + left.explained
            log_determinant = log_determinant + left.log_determinant
            return (left.pivot, left.remainder, explained, log_determinant), log_volume

        nothing = jnp.zeros((), x.dtype)
        # No block before the first: nothing in the log determinant.
        start = one, jnp.zeros(BLOCK, x.dtype), nothing, nothing
        # The block behind the last takes that one's pivot into the sums, but has none itself.
        found, log_volume = jax.lax.scan(step, start, jnp.arange(blocks + 1))
        *_, quadratic, log_determinant = found
        if log_amplitude is not None:
            quadratic = quadratic * jnp.exp(2.0 * log_amplitude)
        log_determinant = log_determinant + (n - blocks * BLOCK) * jnp.log(noise_variance)
        gaussian = -0.5 * (quadratic + log_determinant + n * math.log(2.0 * math.pi))
        return gaussian, log_volume.reshape(-1)[: len(rows)]


def _pushforward(at: _Places, lengthscale: jax.Array, n: Any) -> Terms:
    """mu_hat and log gamma at the points of the middle block, (BLOCK,) each."""
    delta = (at.x[1][:, None] - at.x.reshape(-1)) / lengthscale
    known = at.known.reshape(-1)
    tied = delta == 0.0
    others = known & ~tied
    log_scale = jnp.where(others, -0.5 * delta**2, -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(log_scale, axis=1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    exponent = jnp.where(others, -0.5 * delta**2 - largest[:, None], 0.0)
    weight = jnp.where(others, jnp.exp(exponent), 0.0)
    ties = jnp.sum(known & tied, axis=1)
    embedding = (ties + jnp.exp(largest) * jnp.sum(weight, axis=1)) / n
    slope = jnp.sum(delta * weight, axis=1)
    resolved = jnp.abs(slope) > RESOLUTION * jnp.sum(jnp.abs(delta) * weight, axis=1)
    log_slope = jnp.log(jnp.abs(jnp.where(resolved, slope, 1.0)))
    log_volume = largest + log_slope - jnp.log(n * lengthscale)
    return embedding, jnp.where(resolved, log_volume, -jnp.inf)


def very_short(x: np.ndarray, weights: np.ndarray | None = None) -> VeryShortLengthscales:
    """The bands that the ascending points ``x`` (n,) allow, more than there are in a block.

    Points with ``weights`` stand for rows that are too near each other to allow any.
    """
    if weights is not None:
        return VeryShortLengthscales(np.float64(0.0))
    return VeryShortLengthscales(np.float64(np.min(x[BLOCK:] - x[:-BLOCK]) / REACH))
