"""mu_hat and gamma of a Matern kernel in one column, from sums over the points on either side.

There k is a polynomial in t times exp(-t), for the distance t in units of the rate, so everything
is made of ``M_k = sum_j t_j^k exp(-t_j)`` over the points to the left, and over those to the right.
Over a gap h, t_j becomes t_j + h and all M_k follow from one another; every term is positive, and
none cancels. At a point itself M_0 is at least 1: nothing that counts underflows, and the slope at
the next one is exp(-h) times a polynomial in h, which is left in log space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .markov_filter import LONGEST_GAP
from .prepared import RESOLUTION

#: Coefficients of k(t) exp(t) and of -k'(t) exp(t) in 1, t, t^2, by the order nu.
VALUE = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}
SLOPE = {0.5: (1.0,), 1.5: (0.0, 1.0), 2.5: (0.0, 1.0 / 3.0, 1.0 / 3.0)}


class Side(NamedTuple):
    """What lies on one side of each of the n points, nearest first."""

    gaps: Any  # (n,), to the next point on that side, 0 to one that is equal; of the last one 0
    other: Any  # (n,), which is the next that is not equal; any where there is none
    distance: Any  # (n,), from that; inf where there is none


def moved(sums: Sequence[jax.Array], gap: jax.Array) -> list[jax.Array]:
    """M_0, M_1, ... over exp(-gap), seen from ``gap`` further on."""
    return [
        sum((math.comb(k, j) * gap ** (k - j) * sums[j] for j in range(k + 1)), jnp.zeros_like(gap))
        for k in range(len(sums))
    ]


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def sums_upto(
    gaps: jax.Array, rate: jax.Array, powers: int, reverse: bool
) -> tuple[jax.Array, ...]:
    """M_k for k < ``powers`` at every point, (n,) each, that point and its equals among them.

    Over the points to the left, or with ``reverse`` to the right, of which ``gaps`` (n,) are.
    """

    def step(
        before: tuple[jax.Array, ...], gap: jax.Array
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        sums = [jnp.exp(-gap) * each for each in moved(before, gap)]
        at = (sums[0] + 1.0, *sums[1:])
        return at, at

    scaled = jnp.minimum(rate * gaps, LONGEST_GAP)
    nothing = (jnp.zeros((), gaps.dtype),) * powers
    return jax.lax.scan(step, nothing, scaled, reverse=reverse)[1]


@sums_upto.defjvp
def _sums_upto_jvp(
    powers: int, reverse: bool, primals: Any, tangents: Any
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Along the rate: it times dM_k / drate is k M_k - M_(k+1)."""
    gaps, rate = primals
    sums = sums_upto(gaps, rate, powers + 1, reverse)
    share = tangents[1] / rate
    return sums[:-1], tuple(share * (k * sums[k] - sums[k + 1]) for k in range(powers))


def pushforward(
    left: Side, right: Side, rate: jax.Array, nu: float, n: Any
) -> tuple[jax.Array, jax.Array]:
    """mu_hat, BKE (2), and log gamma, BKE (12), at every point, ``n`` of them data: (N,) each.

    At equal points k' counts as 0. ``-inf`` where the two sides balance to rounding error.
    """
    value = VALUE[nu]
    each = [
        sums_upto(side.gaps, rate, len(value), reverse)
        for side, reverse in ((left, False), (right, True))
    ]
    total = sum(jnp.asarray(p) * (a + b) for p, a, b in zip(value, *each, strict=True))
    embedding = (total - 1.0) / n  # both sides have the point itself
    slopes, logs = zip(
        *(_slope(side, sums, rate, nu) for side, sums in zip((left, right), each, strict=True)),
        strict=True,
    )
    # Any finite constant may be taken out; without a gradient of its own it cancels exactly.
    largest = jax.lax.stop_gradient(jnp.maximum(*logs))
    from_left, from_right = (
        slope * jnp.exp(log - largest) for slope, log in zip(slopes, logs, strict=True)
    )
    slope = from_right - from_left
    resolved = jnp.abs(slope) > RESOLUTION * (from_left + from_right)
    log_slope = largest + jnp.log(jnp.abs(jnp.where(resolved, slope, 1.0)))
    return embedding, jnp.where(resolved, log_slope + jnp.log(rate / n), -jnp.inf)


def _slope(
    side: Side, sums: tuple[jax.Array, ...], rate: jax.Array, nu: float
) -> tuple[jax.Array, jax.Array]:
    """Sum of -k' over the points of one side as a factor and the log of another, (n,) each."""
    some = jnp.isfinite(side.distance)
    gap = rate * jnp.where(some, side.distance, 0.0)
    powers = moved([each[side.other] for each in sums], gap)
    slope = sum(g * power for g, power in zip(SLOPE[nu], powers, strict=True))
    return jnp.where(some, slope, 0.0), jnp.where(some, -gap, -jnp.inf)
