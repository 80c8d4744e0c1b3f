"""Batches of draws that are long enough to be nearly independent.

If chains are stationary, the means of batches of many autocorrelation times are nearly independent
and nearly normal, hence symmetric about their expectation. A test may then flip the signs of whole
batches, or permute batches between chains, as it would with independent rows (Canay, Romano and
Shaikh 2017). This needs neither the spectrum at frequency zero nor the bandwidth of an
autoregressive multiplier bootstrap, whose null distribution is too narrow for short chains. The
draws between two batches are dropped, because the means of adjacent batches would have a
correlation of about 1/40.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import arviz_stats
import numpy as np
from scipy.stats import norm, rankdata

from ..core.errors import InputError

#: Length of a batch including its gap, and length of the gap, in autocorrelation times.
BATCH_TIMES, GAP_TIMES = 10.0, 1.5
#: Draws with a shorter autocorrelation time are treated as independent. Estimates for independent
#: draws are up to this large.
INDEPENDENT_TIME = 1.3
#: Quantiles at which the tails begin.
TAILS = (0.1, 0.9)
#: Smallest number of batches of all chains, and of each chain.
MIN_BATCHES, MIN_BATCHES_PER_CHAIN = 16, 4


@dataclasses.dataclass(frozen=True)
class Batches:
    """Division of chains into batches of equal length.

    Attributes:
        length: number of draws per batch.
        gap: number of dropped draws before each batch.
        per_chain: number of batches per chain.
        num_chains: number of chains.
        autocorrelation_time: longest autocorrelation time, in draws.
        slow_chains: indices of the chains that mix clearly more slowly than the others.
    """

    length: int
    gap: int
    per_chain: int
    num_chains: int
    autocorrelation_time: float
    slow_chains: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of batches of all chains."""
        return self.per_chain * self.num_chains

    @property
    def times(self) -> float:
        """Length of a batch including its gap, in autocorrelation times."""
        return (self.length + self.gap) / self.autocorrelation_time

    @property
    def short(self) -> bool:
        """True if there are too few draws for batches of ten autocorrelation times."""
        time = self.autocorrelation_time
        return time > INDEPENDENT_TIME and self.length + self.gap < BATCH_TIMES * time

    def rows(self, values: np.ndarray) -> np.ndarray:
        """Concatenate the batches of values (C, n, ...) to rows (N, ...).

        The first draws of a chain are dropped if they do not fill a batch.
        """
        length = self.length + self.gap
        last = values[:, values.shape[1] - self.per_chain * length :]
        batches = last.reshape(self.num_chains, self.per_chain, length, *values.shape[2:])
        return batches[:, :, self.gap :].reshape(-1, *values.shape[2:])

    def blocks(self, entries: int) -> Iterator[tuple[slice, slice]]:
        """Yield slices of batches and of their rows, for blocks of an N x N matrix.

        All blocks have the same size, so that a function of them is compiled only once. The last
        block may overlap the one before.

        Args:
            entries: maximum number of entries of a block with N columns.
        """
        size = min(self.count, max(1, entries // (self.count * self.length**2)))
        for start in range(0, self.count, size):
            begin = min(start, self.count - size)
            end = begin + size
            yield slice(begin, end), slice(begin * self.length, end * self.length)

    def thin(self, max_rows: int) -> tuple[np.ndarray, Batches]:
        """Select equally spaced rows of each batch, three per autocorrelation time.

        Args:
            max_rows: approximate maximum number of rows.

        Returns:
            The indices (N',) of the selected rows, and their batches.
        """
        step = int(self.autocorrelation_time / 3.0)
        step = min(max(step, -(-self.count * self.length // max_rows), 1), self.length)
        inside = np.arange(0, self.length, step)
        rows = (np.arange(self.count)[:, None] * self.length + inside).reshape(-1)
        return rows, dataclasses.replace(self, length=len(inside))


def make_batches(values: np.ndarray, *, ordered: bool, max_batches: int = 1000) -> Batches:
    """Divide chains into batches of ten of their longest autocorrelation times.

    Independent draws are batches of one draw, unless there are more than ``max_batches``. If chains
    are too short for sixteen batches of ten times, the batches are shorter, see
    :attr:`Batches.short`.

    Args:
        values: (C, n, k) quantities between which batches must be nearly independent.
        ordered: ``True`` if draws are in order of time, so that they may be autocorrelated.
        max_batches: maximum number of batches of all chains.

    Raises:
        InputError: if there are fewer than sixteen draws.
    """
    chains, draws, _ = values.shape
    if chains * draws < MIN_BATCHES:
        raise InputError(f"at least {MIN_BATCHES} draws are needed, got {chains * draws}")
    time, slow_chains = autocorrelation_time(values) if ordered else (1.0, ())
    shortest = -(-chains * draws // max_batches)
    wanted = 1 if time < INDEPENDENT_TIME else int(np.ceil(BATCH_TIMES * time))
    longest = max(1, draws // max(MIN_BATCHES_PER_CHAIN, -(-MIN_BATCHES // chains)))
    length = max(1, min(max(wanted, shortest), longest))
    gap = int(length * GAP_TIMES / BATCH_TIMES) if wanted > 1 else 0
    return Batches(length - gap, gap, draws // length, chains, time, slow_chains)


def autocorrelation_time(values: np.ndarray) -> tuple[float, tuple[int, ...]]:
    """Estimate the longest integrated autocorrelation time, and find chains that mix slowly.

    The time of a column is the number of draws over the sum of the effective sample sizes of the
    chains, for the bulk or the tails. Means of chains may therefore differ. The sum is used because
    the size of a single chain is a rough estimate. For a chain that is slower by more than the
    error of that estimate, its own time is used.

    Args:
        values: (C, n, k).

    Returns:
        The time in draws, and the indices of the chains that are clearly slower than the others.
    """
    # With a factor of 18, at most 1 of 25 sets of 4 or 8 chains of equal speed, in 3 to 20 columns,
    # had a slow chain.
    slow_factor = 18.0
    draws, longest, slow_chains = values.shape[1], 1.0, set()
    for column in np.moveaxis(values, 2, 0):
        moving = np.flatnonzero(np.ptp(column, axis=1))
        if not len(moving):
            continue
        for method, prob in (("bulk", None), ("tail", TAILS)):
            size = sum(_effective_sizes(column[moving], method, prob).tolist())
            longest = max(longest, len(moving) * draws / max(size, 1e-300))
        for sizes in _sizes_per_chain(column[moving]) if len(moving) > 1 else ():
            mean = float(sizes.mean())
            slow = mean / sizes > 1.0 + slow_factor / np.sqrt(mean)
            if slow.any():
                longest = max(longest, draws / float(sizes.min()))
                slow_chains |= set(moving[slow].tolist())
    return longest, tuple(sorted(slow_chains))


def _sizes_per_chain(chains: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the effective sample sizes (C,) of chains (C, n), for the bulk and for each tail.

    Each size is a sum over four quarters. A chain that changes its location once drifts, which the
    test detects, but it is slow in one quarter only.
    """
    quarters = np.array_split(chains, min(4, max(1, chains.shape[1] // 8)), axis=1)
    for tail in (None, *TAILS):
        sizes = np.zeros(len(chains))
        for quarter in quarters:
            if tail is None:
                values = np.stack([normal_scores(chain[:, None])[:, 0] for chain in quarter])
            else:
                below = quarter <= np.quantile(quarter, tail, axis=1, keepdims=True)
                values = below.astype(float)
            # Constant values count as one draw.
            sizes += np.where(np.ptp(values, axis=1), _effective_sizes(values, "identity"), 1.0)
        yield sizes


def _effective_sizes(
    chains: np.ndarray, method: str, prob: tuple[float, float] | None = None
) -> np.ndarray:
    """Compute the effective sample size (C,) of each of the chains (C, n)."""
    data = chains[np.newaxis]
    return np.asarray(arviz_stats.ess(data, method=method, prob=prob, chain_axis=0, draw_axis=2))


def is_autocorrelated(values: np.ndarray) -> bool:
    """Test whether consecutive rows of (n, k) are dependent, at level 0.001.

    The statistic is the largest lag-one autocorrelation of the ranks of a column.
    """
    n, columns = values.shape
    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(axis=0)
    squares = np.sum(ranks**2, axis=0)
    products = np.sum(ranks[1:] * ranks[:-1], axis=0)
    autocorrelations = products / np.where(squares > 0.0, squares, 1.0)
    return bool(np.abs(autocorrelations).max() * np.sqrt(n) > norm.isf(0.5e-3 / columns))


def normal_scores(rows: np.ndarray) -> np.ndarray:
    """Compute the normal score of each value of rows (N, D) in its column; ties have mean ranks.

    The scores do not depend on the scale or the tails of a column.
    """
    ranks = rankdata(rows, axis=0)
    scores = norm.ppf((ranks - 0.375) / (len(rows) + 0.25))
    deviation = scores.std(axis=0)
    return np.asarray(scores / np.where(deviation > 0.0, deviation, 1.0))
