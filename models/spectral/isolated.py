"""Points that no other is near: their volume factor is a sum over few pairs, in log space.

A sum of waves is right to rounding error beside its largest value, and gamma of an isolated point
lies far below that. What its nearest neighbours contribute is summed pair by pair instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import lambertw

from ..kernels import SquaredExponential

#: A point is isolated where sum |k'| over the others, in units of 1 / lengthscale, may be below
#: this times n: the waves' rounding error is some 1e-16 n.
SLOPE = 1e-8
#: One neighbour alone reaches at most 0.607, at a distance of one lengthscale.
MOST_ASKED = 0.5
#: Neighbours that together contribute less than exp(-this) are left out.
NEGLIGIBLE = 25.0
#: Room for isolated points and their pairs: more of it compiles anew.
LEAST_ROWS, LEAST_PAIRS = 32, 1024


class Isolated(NamedTuple):
    """Pairs of an isolated point and a neighbour, filled up with pairs of no point."""

    rows: jax.Array  # (k,), which points; n where there is none
    until: jax.Array  # (k,), the lengthscale from which on the waves will do
    owner: jax.Array  # (pairs,), whose neighbour it is, an index into ``rows``; k: nobody's
    delta: jax.Array  # (pairs,), x - neighbour


def isolated_points(x: np.ndarray, shortest: float, longest: float) -> Isolated:
    """Which entries of the ascending ``x`` (n,) are isolated at the ``shortest`` lengthscale.

    Their neighbours are those that count at any lengthscale up to the ``longest``.
    """
    n = len(x)
    asked = min(SLOPE * n, MOST_ASKED)
    upto = np.searchsorted(x, x, side="right")  # ranks of equal points count once
    before = np.searchsorted(x, x, side="left")
    slope = _least_slope(x, upto, shortest, asked)
    slope += _least_slope(-x[::-1], n - before[::-1], shortest, asked)[::-1]
    rows = np.flatnonzero(slope < asked).tolist()
    kept: list[int] = []
    until: list[float] = []
    owner, delta = [np.empty(0, dtype=int)], [np.empty(0)]
    for row in rows:
        lengthscale = min(_not_isolated_from(x, row, asked), longest)
        if lengthscale <= shortest:
            continue
        others = [x[place] for place in (before[row] - 1, upto[row]) if 0 <= place < n]
        nearest = min(abs(other - x[row]) for other in others)
        reach = math.sqrt(nearest**2 + 2.0 * (math.log(n) + NEGLIGIBLE) * lengthscale**2)
        begin = np.searchsorted(x, x[row] - reach)
        end = np.searchsorted(x, x[row] + reach, side="right")
        away = x[row] - x[begin:end]
        delta.append(away[away != 0.0])
        owner.append(np.full(len(delta[-1]), len(kept)))
        kept.append(row)
        until.append(lengthscale)
    return _filled(
        np.array(kept, dtype=int), np.array(until), np.concatenate(owner), np.concatenate(delta), n
    )


def _least_slope(x: np.ndarray, upto: np.ndarray, lengthscale: float, enough: float) -> np.ndarray:
    """A lower bound of sum |k'| lengthscale over the points to the right, where not ``enough``.

    Of the squared exponential, that rises and then falls: points between two others contribute
    at least what one of these does.

    Args:
        x: ascending (n,).
        upto: (n,), how many points are not to the right of each.
        lengthscale: of the kernel.
        enough: points with so much are not looked at further.
    """
    n = len(x)
    bound = np.zeros(n)
    at = np.arange(n)
    step = 1
    while len(at) and step // 2 < n:
        begin, end = (
            upto[at] + step // 2,
            np.minimum(upto[at] + step, n),
        )  # ranks begin, .., end - 1
        at, begin, end = (values[begin < n] for values in (at, begin, end))
        scaled = np.stack([x[begin] - x[at], x[end - 1] - x[at]]) / lengthscale
        bound[at] += (end - begin) * np.min(scaled * np.exp(-0.5 * scaled**2), axis=0)
        at = at[bound[at] < enough]
        step *= 2
    return bound


def _not_isolated_from(x: np.ndarray, row: int, asked: float) -> float:
    """The lengthscale from which on one neighbour or another contributes what is ``asked``.

    One at distance d does while ``t exp(-t^2 / 2) >= asked`` for t = d / lengthscale.
    """
    steps = 2 ** np.arange(len(x).bit_length() + 1)
    places = np.unique(np.clip(np.concatenate([row - steps, row + steps]), 0, len(x) - 1))
    distances = np.unique(np.abs(x[places] - x[row]))[::-1]
    distances = distances[distances > 0.0]
    near, far = (math.sqrt(-lambertw(-(asked**2), branch).real) for branch in (0, -1))
    # From the farthest on inwards, as long as their ranges of lengthscales overlap.
    apart = np.flatnonzero(distances[1:] / near < distances[:-1] / far)
    last = apart[0] if len(apart) else len(distances) - 1
    return float(distances[last] / far)


def _filled(
    rows: np.ndarray, until: np.ndarray, owner: np.ndarray, delta: np.ndarray, n: int
) -> Isolated:
    """To sizes that most data share: another size would compile anew."""
    k = _size(len(rows), LEAST_ROWS)
    points, pairs = (0, k - len(rows)), (0, _size(len(owner), LEAST_PAIRS) - len(owner))
    return Isolated(
        np.pad(rows, points, constant_values=n),  # type: ignore[arg-type]
        np.pad(until, points),  # type: ignore[arg-type]
        np.pad(owner, pairs, constant_values=k),  # type: ignore[arg-type]
        np.pad(delta, pairs, constant_values=1.0),  # type: ignore[arg-type]
    )


def _size(length: int, least: int) -> int:
    """``least`` times a power of four."""
    return least * 4 ** max(0, math.ceil(math.log(max(length, 1) / least, 4)))


def with_isolated(
    log_volume: jax.Array, isolated: Isolated, kernel: SquaredExponential
) -> jax.Array:
    """``log_volume`` (n,) with the isolated points' sums over pairs in place of the waves'."""
    k, n = len(isolated.rows), len(log_volume)
    terms = kernel.at(isolated.delta[None, None])
    log_scale, gradient = terms.log_scale[0], terms.gradient[0, 0]
    largest = jax.lax.stop_gradient(jax.ops.segment_max(log_scale, isolated.owner, k + 1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weighted = gradient * jnp.exp(log_scale - largest[isolated.owner])
    slope = jax.ops.segment_sum(weighted, isolated.owner, k + 1)[:k]
    alone = largest[:k] + jnp.log(jnp.abs(slope)) - math.log(n)
    rows = jnp.where(kernel.lengthscale < isolated.until, isolated.rows, n)
    return log_volume.at[rows].set(alone, mode="drop")
