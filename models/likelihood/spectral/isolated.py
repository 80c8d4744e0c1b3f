"""Points that no other is near: their volume factor is a sum over few pairs, in log space.

A sum over a grid is right to rounding error beside its largest terms, and gamma of an isolated
point lies far below these. What its nearest neighbours contribute is summed pair by pair instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import lambertw

from ...kernels.squared_exponential import SquaredExponential
from .prepared import TooLargeError

#: A point is isolated where sum |k'| over the others, in units of 1 / lengthscale, may be below
#: this times n: the waves' rounding error is some 1e-16 n.
SLOPE = 1e-8
#: One neighbour alone reaches at most 0.607, at a distance of one lengthscale.
MOST_ASKED = 0.5
#: Neighbours that together contribute less than exp(-this) are left out.
NEGLIGIBLE = 25.0
#: Room for isolated points and their pairs: more of it compiles anew.
LEAST_ROWS, LEAST_PAIRS = 128, 1024
#: Pairs beyond which the matrices take less memory.
MOST_PAIRS = 250_000
#: Points by which is known how many others are usually near.
SAMPLE = 100


class Isolated(NamedTuple):
    """Pairs of an isolated point and a neighbour, filled up with pairs of no point."""

    rows: jax.Array  # (k,), which points; n where there is none
    until: jax.Array  # (k,), the lengthscale from which on a sum over all will do
    owner: jax.Array  # (pairs,), whose neighbour it is, an index into ``rows``; k: nobody's
    delta: jax.Array  # (pairs,), x - neighbour
    weight: jax.Array  # (pairs,), how many rows the neighbour stands for


def isolated_points(
    x: np.ndarray, shortest: float, longest: float, weights: np.ndarray | None = None
) -> Isolated:
    """Which entries of the ascending ``x`` (n,) are isolated at the ``shortest`` lengthscale.

    Their neighbours are those that count at any lengthscale up to the ``longest``. Points with
    ``weights`` (n,) stand for as many rows each.

    Raises:
        ValueError: where so many are so near each other, beside the lengthscale, that there are
            more than 250 000 such pairs.
    """
    weights = np.ones(len(x)) if weights is None else weights
    n = np.sum(weights)
    asked = min(SLOPE * n, MOST_ASKED)
    rows = may_be_isolated(x, shortest, asked, weights)
    upto = np.searchsorted(x, x, side="right")  # ranks of equal points count once
    before = np.searchsorted(x, x, side="left")
    until = np.minimum(_not_isolated_from(x, rows, asked), longest)
    rows, until = rows[until > shortest], until[until > shortest]
    beside = np.concatenate([[-np.inf], x, [np.inf]])
    nearest = np.minimum(x[rows] - beside[before[rows]], beside[upto[rows] + 1] - x[rows])
    reach = np.sqrt(nearest**2 + 2.0 * (math.log(n) + NEGLIGIBLE) * until**2)
    reach += 4.0 * np.finfo(float).eps * (np.abs(x[rows]) + nearest)  # the nearest is among them
    owner, neighbour, delta = pairs_within(x, rows, reach, MOST_PAIRS)
    return Isolated(rows, until, owner, delta, weights[neighbour])  # type: ignore[arg-type]


def pairs_within(
    x: np.ndarray, rows: np.ndarray, reach: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of the ``rows`` (k,) of the ascending ``x`` and the points within ``reach`` (k,).

    Those that are equal are none.

    Returns:
        Whose neighbour it is, an index into ``rows``; which of ``x`` it is; and x - neighbour:
        (pairs,) each.

    Raises:
        TooLargeError: where there are more than ``most``.
    """
    begin = np.searchsorted(x, x[rows] - reach)
    count = np.searchsorted(x, x[rows] + reach, side="right") - begin
    if np.sum(count) > most:
        raise TooLargeError("too many rows are far nearer each other than the data are wide")
    owner = np.repeat(np.arange(len(rows)), count)
    neighbour = np.arange(len(owner)) + np.repeat(begin - np.cumsum(count) + count, count)
    delta = x[rows[owner]] - x[neighbour]
    others = delta != 0.0
    return owner[others], neighbour[others], delta[others]


def may_be_isolated(
    x: np.ndarray, lengthscale: float, asked: float, weights: np.ndarray
) -> np.ndarray:
    """Which entries of the ascending ``x`` (n,) may have less than ``asked`` of sum |k'|.

    Each stands for as many rows as its entry of ``weights`` (n,) says.
    """
    n = len(x)
    upto = np.searchsorted(x, x, side="right")
    before = np.searchsorted(x, x, side="left")
    rows = np.arange(n)
    # Most points have enough some way off, as far as there usually are points: one look there.
    sample = rows[:: max(1, n // SAMPLE)]
    usual = np.searchsorted(x, x[sample] + 0.5 * lengthscale) - sample
    right, left = (np.append(0.0, np.cumsum(each)) for each in (weights, weights[::-1]))
    back = -x[::-1], n - before[::-1]
    for step in (max(1, int(np.median(usual))), 1):
        slope = _least_slope(x, upto, rows, step, lengthscale, asked, right)
        slope += _least_slope(*back, n - 1 - rows, step, lengthscale, asked, left)
        rows = rows[slope < asked]
    return rows


def _least_slope(
    x: np.ndarray,
    upto: np.ndarray,
    rows: np.ndarray,
    step: int,
    lengthscale: float,
    enough: float,
    before: np.ndarray,
) -> np.ndarray:
    """A lower bound of sum |k'| lengthscale over the points to the right, where not ``enough``.

    Of the squared exponential, that rises and then falls: points between two others contribute
    at least what one of these does.

    Args:
        x: ascending (n,).
        upto: (n,), how many points are not to the right of each.
        rows: (k,), those asked about.
        step: the first points to the right that are looked at: the ``step // 2``-th next to the
            ``step``-th, then as many again, and so on.
        lengthscale: of the kernel.
        enough: points with so much are not looked at further.
        before: (n + 1,), how many rows the points to the left of each place stand for.
    """
    n = len(x)
    bound = np.zeros(len(rows))
    open_ = np.arange(len(rows))
    while len(open_) and step // 2 < n:
        at = rows[open_]
        begin, end = upto[at] + step // 2, np.minimum(upto[at] + step, n)  # ranks begin .. end - 1
        some = begin < n
        open_, at, begin, end = open_[some], at[some], begin[some], end[some]
        first, last = ((x[rank] - x[at]) / lengthscale for rank in (begin, end - 1))
        least = np.minimum(first * np.exp(-0.5 * first**2), last * np.exp(-0.5 * last**2))
        bound[open_] += (before[end] - before[begin]) * least
        open_ = open_[bound[open_] < enough]
        step *= 2
    return bound


def _not_isolated_from(x: np.ndarray, rows: np.ndarray, asked: float) -> np.ndarray:
    """The lengthscale from which on one neighbour or another contributes what is ``asked``.

    One at distance d does while ``t exp(-t^2 / 2) >= asked`` for t = d / lengthscale.
    """
    steps = 2 ** np.arange(len(x).bit_length() + 1)
    places = np.clip(rows[:, None] + np.concatenate([-steps, steps]), 0, len(x) - 1)
    distances = np.sort(np.abs(x[places] - x[rows, None]), axis=1)[:, ::-1]
    near, far = (math.sqrt(-lambertw(-(asked**2), branch).real) for branch in (0, -1))
    # From the farthest on inwards, as long as their ranges of lengthscales overlap.
    closer = np.pad(distances[:, 1:], ((0, 0), (0, 1)))
    last = np.argmax(closer / near < distances / far, axis=1)
    return np.asarray(distances[np.arange(len(rows)), last] / far)


def stacked(each: list[Isolated], n: int) -> Isolated:
    """Several ranges' in one, (ranges, k) and (ranges, pairs), of sizes that most data share."""
    k = shared_size(max(len(one.rows) for one in each), LEAST_ROWS)
    pairs = shared_size(max(len(one.owner) for one in each), LEAST_PAIRS)

    def filled(values: jax.Array, size: int, filler: float) -> np.ndarray:
        return np.pad(values, (0, size - len(values)), constant_values=filler)

    return Isolated(
        *(
            np.stack([filled(one[field], size, filler) for one in each])  # type: ignore[arg-type]
            for field, (size, filler) in enumerate(
                [(k, n), (k, 0.0), (pairs, k), (pairs, 1.0), (pairs, 0.0)]
            )
        )
    )


def shared_size(length: int, least: int) -> int:
    """``least`` times a power of four: another size would compile anew."""
    return least * 4 ** max(0, math.ceil(math.log(max(length, 1) / least, 4)))


def with_isolated(
    log_volume: jax.Array, n: jax.Array, isolated: Isolated, kernel: SquaredExponential
) -> jax.Array:
    """``log_volume`` (N,) of ``n`` points with the isolated ones' sums over pairs."""
    k = len(isolated.rows)
    terms = kernel.value_and_grad_at(isolated.delta[None, None])
    log_scale, gradient = terms.log_scale[0], terms.gradient[0, 0]
    largest = jax.lax.stop_gradient(jax.ops.segment_max(log_scale, isolated.owner, k + 1))
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    weighted = isolated.weight * gradient * jnp.exp(log_scale - largest[isolated.owner])
    slope = jax.ops.segment_sum(weighted, isolated.owner, k + 1)[:k]
    alone = largest[:k] + jnp.log(jnp.abs(slope)) - jnp.log(n)
    rows = jnp.where(kernel.lengthscale < isolated.until, isolated.rows, len(log_volume))
    return log_volume.at[rows].set(alone, mode="drop")
