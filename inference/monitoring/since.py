"""Since when a score is distributed otherwise: a change point from its bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from .bins import BINS, binned

#: Ranks at which bins are parted, which are taken together between: finer at both ends.
PARTED = np.array([0.004, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.996])
#: What the interval holds of the posterior.
LEVEL = 0.9
#: Rows that the prior of the distribution after the change counts for, over the number of bins: it
#: is not far from the one before, as far as that is known, by this many rows half.
NEAR, KNOWN = 3.0, 100.0
#: Rows of a bin that the prior of the distribution before counts for, and of that after at least.
FLAT = 0.5
#: The power of the likelihood. The score is the loudest of many at the row of an alarm, which
#: chance has helped: intervals of the posterior itself held 0.73 to 0.90 of changes; see
#: benchmarks/results/monitoring-delays.md for those with this power.
POWER = 0.7


class Since(NamedTuple):
    """When a change came, in rows of the stream, counted from 1.

    Attributes:
        row: the first row after the change, where its posterior is largest.
        low: where the interval begins, which has 90 % of the posterior.
        high: where it ends.
        cut: whether the change may be older than all rows that are kept.
    """

    row: int
    low: int
    high: int
    cut: bool

    def __str__(self) -> str:
        before = "at or before row" if self.cut else "row"
        told = f"{before} {self.row}"
        return told if self.low == self.high else f"{told} (90 %: {self.low} to {self.high})"


def since(reference: np.ndarray, stream: np.ndarray, edges: np.ndarray, first: int) -> Since:
    """Find the change point of a score by the rows of a stream up to an alarm.

    One change at a row that is as probable as any other: before it rows have the reference's
    distribution over bins, after it another, both unknown with Dirichlet priors, that of the other
    around the reference's, whose marginal likelihoods are ratios of Gamma functions, to the power
    ``POWER``.

    Args:
        reference: (r,) scores of rows before the stream.
        stream: (n,) scores of the last rows.
        edges: (BINS - 1,), of the score's bins.
        first: the row of ``stream[0]``, counted from 1.
    """
    bins = [binned(part[:, np.newaxis], edges[np.newaxis])[:, 0] for part in (reference, stream)]
    counts = np.bincount(bins[0], minlength=BINS)
    # Bins that fill a share together; ranks of their middle keep ties together.
    ranks = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1)
    coarse = np.unique(np.searchsorted(PARTED, ranks), return_inverse=True)[1]
    size = int(coarse.max()) + 1
    before = np.bincount(coarse, weights=counts, minlength=size)
    rows = float(before.sum())
    near = NEAR * size * rows / (rows + KNOWN) * (before + FLAT) / (rows + FLAT * size)
    each = np.zeros((len(bins[1]) + 1, size))
    each[1:] = np.cumsum(np.eye(size)[coarse[bins[1]]], axis=0)
    # A change before row t, for each row t of the stream.
    unchanged, changed = before + each[:-1], each[-1] - each[:-1]
    flat = np.full(size, FLAT)
    log = POWER * (_marginal(unchanged, flat) + _marginal(changed, flat + near))
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    low, high = _shortest(weight)
    top = int(np.argmax(weight))
    return Since(first + top, first + low, first + high, first > 1 and low == 0)


def _marginal(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Log marginal likelihoods (n,) of rows with these counts (n, K) under a Dirichlet prior."""
    total = gammaln(counts.sum(axis=1) + prior.sum())
    return np.asarray(np.sum(gammaln(counts + prior), axis=1) - total)


def _shortest(weight: np.ndarray) -> tuple[int, int]:
    """The first and the last of the fewest consecutive indices with a weight of LEVEL."""
    total = np.append(0.0, np.cumsum(weight))
    wanted = np.minimum(total[:-1] + LEVEL, total[-1])
    ends = np.searchsorted(total, wanted - 1e-12)
    ends = np.where(total[:-1] + LEVEL > total[-1] + 1e-9, len(weight) * 2, ends)
    start = int(np.argmin(ends - np.arange(len(weight))))
    return start, int(min(ends[start], len(weight))) - 1
