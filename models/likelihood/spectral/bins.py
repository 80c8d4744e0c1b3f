"""One column of rows as weighted points: a few nodes for each narrow bin, or the rows themselves.

In a bin much narrower than the lengthscale, a smooth function is its interpolant at Chebyshev
nodes. So a sum over the rows of a bin is one over its nodes, with weights from the sums of as many
Chebyshev polynomials over the rows, which are gathered in one pass in any order: (13) needs no row.
All sums of the Gaussian term are smooth. The volume term, the sum of log |mu_hat'|, is not near the
zeros of mu_hat', where there is one: there rows are to be kept. How far the other bins are from
any is told by the last coefficients of the interpolants of log |mu_hat'|.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Nodes of a bin.
ORDER = 8
#: Rows of a bin up to which they are kept themselves.
FEWEST = 2 * ORDER
_ANGLES = np.pi * (np.arange(ORDER) + 0.5) / ORDER
#: Ascending in a bin from -1 to 1.
NODES = np.cos(_ANGLES)[::-1]
#: Chebyshev coefficients (rows) of an interpolant from its values at the nodes (columns).
COEFFICIENTS = 2.0 / ORDER * np.cos(np.arange(ORDER)[:, None] * _ANGLES[::-1])
COEFFICIENTS[0] *= 0.5
#: Coefficients beyond which the interpolant is told to be right, and how wrong log |mu_hat'| of a
#: row counts where the coefficients are no numbers.
LAST, NO_NUMBER = 2, 10.0


class WeightedPoints(NamedTuple):
    """What stands for n rows."""

    x: np.ndarray  # (N,), ascending
    weights: np.ndarray  # (N,): a sum over the rows is one over these; they add up to n
    nodes: np.ndarray  # (bins, ORDER), which of the points are the nodes of each bin
    counts: np.ndarray  # (bins,), how many rows these stand for; 0 where rows are kept instead


def bins_of(x: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The bin of every entry of ``x`` (n,), counted from 0 upwards, and where in it, -1 to 1.

    Args:
        x: the rows, of the bins' units.
        width: of a bin; exact where it is a power of two.
    """
    scaled = x / width
    bins = np.floor(scaled)
    return bins.astype(np.int64), 2.0 * (scaled - bins) - 1.0


def moments_of(place: np.ndarray, u: np.ndarray, count: int) -> np.ndarray:
    """Sums over rows of T_0(u), ..., T_7(u), for every one of ``count`` bins, (count, ORDER).

    Args:
        place: (n,), which of these bins each row is in.
        u: (n,), where in it, from -1 to 1.
        count: how many bins there are.
    """
    moments = np.empty((count, ORDER))
    before, last = u, np.ones_like(u)  # T_-1 = T_1
    for k in range(ORDER):
        moments[:, k] = np.bincount(place, last, minlength=count)
        before, last = last, 2.0 * u * last - before
    return moments


def weighted_points(
    bins: np.ndarray, moments: np.ndarray, width: float, kept: np.ndarray, rows: np.ndarray
) -> WeightedPoints:
    """Nodes of bins, and rows, as points in ascending order.

    Args:
        bins: (bins,), ascending.
        moments: (bins, ORDER), of their rows, see :func:`moments_of`.
        width: of a bin.
        kept: (bins,), of which bins all rows are among ``rows``.
        rows: (k,), all that are not in the other bins.
    """
    some = ~kept
    at_nodes = (bins[some, None] + 0.5 + 0.5 * NODES) * width
    x = np.concatenate([at_nodes.ravel(), rows])
    weights = np.concatenate([(moments[some] @ COEFFICIENTS).ravel(), np.ones(len(rows))])
    order = np.argsort(x, kind="stable")
    place = np.empty(len(x), dtype=np.int64)
    place[order] = np.arange(len(x))
    nodes = np.zeros((len(bins), ORDER), dtype=np.int64)
    nodes[some] = place[: at_nodes.size].reshape(-1, ORDER)
    return WeightedPoints(x[order], weights[order], nodes, np.where(some, moments[:, 0], 0.0))


def volume_errors(log_volume: jax.Array, nodes: jax.Array, counts: jax.Array) -> jax.Array:
    """Estimate how wrong the volume term is by the nodes of every bin, (bins,), in nats.

    The coefficients of an interpolant fall off geometrically the faster, the farther the next
    zero of mu_hat' is; what is beyond the last ones is less than these as long as they halve.

    Args:
        log_volume: (N,), log gamma at the points.
        nodes: (bins, ORDER), which of them are nodes of a bin.
        counts: (bins,), its rows.
    """
    last = jnp.abs(log_volume[nodes] @ COEFFICIENTS[-LAST:].T)
    error = jnp.sum(last, axis=1)
    return counts * jnp.where(jnp.isfinite(error), error, NO_NUMBER)
