"""Batches of draws, so long that they hardly hang on each other: what tests of chains go by.

Under a null hypothesis by which chains are stationary the means of batches many autocorrelation
times long are nearly independent and nearly normal, so symmetric about their expectation: signs of
whole batches may be flipped, and batches dealt out to other chains, as single rows may be where
rows are independent (Canay, Romano and Shaikh 2017). That needs neither the spectrum at frequency
zero nor a bandwidth that grows, as multipliers of an autoregression do, whose null is too narrow
for short chains. Some draws between two batches are left out, for neighbouring batches would still
hang on each other by one part in forty.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import arviz_stats
import numpy as np
from scipy.stats import norm, rankdata

from ..core.errors import InputError
from .normal_scores import normal_scores

#: Autocorrelation times that a batch is long, and of them those that are left out.
TIMES, APART = 10.0, 1.5
#: Below this autocorrelation time draws count as independent: sampling moves it by so much.
INDEPENDENT = 1.3
#: Quantiles that the tails lie beyond.
TAILS = (0.1, 0.9)
#: A chain is slower than others where its time is longer by this over the root of its effective
#: size: of 25 sets of 4 or 8 alike autoregressions in 3 to 20 columns one at most had such a chain.
SLOWER = 18.0
#: Batches in all chains: at least so many, or nothing can be told; and at most.
FEWEST, MOST = 16, 1000
#: How often independent rows seem to depend on each other.
RARE = 1e-3
#: Batches of each chain, at least.
FEWEST_EACH = 4


@dataclasses.dataclass(frozen=True)
class Batches:
    """How chains are cut.

    Attributes:
        length: draws of a batch.
        gap: draws before each batch, which are left out.
        each: batches of each chain.
        chains: how many.
        time: the longest autocorrelation time, in draws.
        slow: the chains that mix clearly more slowly than the others, counted from 0.
    """

    length: int
    gap: int
    each: int
    chains: int
    time: float
    slow: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Batches of all chains."""
        return self.each * self.chains

    @property
    def short(self) -> bool:
        """Whether a batch is shorter than it should be, for there are too few draws."""
        return self.time > INDEPENDENT and self.length + self.gap < TIMES * self.time

    def kept(self, values: np.ndarray) -> np.ndarray:
        """Draws (C, n, ...) of all batches, one below the other, as rows (N, ...).

        The first draws of a chain, that fill no batch, are left out.
        """
        whole = self.length + self.gap
        last = values[:, values.shape[1] - self.each * whole :]
        cut = last.reshape(self.chains, self.each, whole, *values.shape[2:])[:, :, self.gap :]
        return cut.reshape(-1, *values.shape[2:])

    def blocks(self, entries: int) -> Iterator[tuple[slice, slice]]:
        """Batches, and their rows, of which a block of a matrix has ``entries`` beside all rows.

        All blocks are of one size, so that one program does; the last may overlap the one before.
        """
        size = min(self.count, max(1, entries // (self.count * self.length**2)))
        for start in range(0, self.count, size):
            begin = min(start, self.count - size)
            end = begin + size
            yield slice(begin, end), slice(begin * self.length, end * self.length)

    def thinned(self, most: int) -> tuple[np.ndarray, Batches]:
        """Which of the rows to keep, (N',), evenly in every batch: ``most``, three of each time."""
        step = max(int(self.time / 3.0), -(-self.count * self.length // most), 1)
        step = min(step, self.length)
        inside = np.arange(0, self.length, step)
        rows = (np.arange(self.count)[:, None] * self.length + inside).reshape(-1)
        return rows, dataclasses.replace(self, length=len(inside))


def batches(values: np.ndarray, *, in_order: bool, most: int = MOST) -> Batches:
    """Cut chains into batches of ten of their longest autocorrelation times.

    Where draws are independent each is one, unless there are more than ``most``. Where chains are
    too short for sixteen of that length they are shorter, see :attr:`Batches.short`.

    Args:
        values: (C, n, k), all that a batch must forget.
        in_order: whether neighbours may depend on each other.
        most: batches of all chains.

    Raises:
        InputError: there are too few draws for sixteen batches at all.
    """
    chains, draws, _ = values.shape
    if chains * draws < FEWEST:
        raise InputError(f"at least {FEWEST} draws are needed, and there are {chains * draws}")
    time, slow = mixing(values) if in_order else Mixing(1.0, ())
    least = -(-chains * draws // most)
    wanted = 1 if time < INDEPENDENT else int(np.ceil(TIMES * time))
    longest = max(1, draws // max(FEWEST_EACH, -(-FEWEST // chains)))
    whole = max(1, min(max(wanted, least), longest))
    gap = int(whole * APART / TIMES) if wanted > 1 else 0
    return Batches(whole - gap, gap, draws // whole, chains, time, slow)


def depend(values: np.ndarray) -> bool:
    """Whether neighbouring rows of (n, k) seem to depend on each other.

    By the autocorrelation of neighbours' ranks, the largest of all columns: of independent rows one
    in a thousand seems so.
    """
    n, columns = values.shape
    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(axis=0)
    spread = np.sum(ranks**2, axis=0)
    together = np.sum(ranks[1:] * ranks[:-1], axis=0) / np.where(spread > 0.0, spread, 1.0)
    return bool(np.abs(together).max() * np.sqrt(n) > norm.isf(0.5 * RARE / columns))


class Mixing(NamedTuple):
    """How fast chains mix.

    Attributes:
        time: the longest integrated autocorrelation time, in draws.
        slow: the chains that mix clearly more slowly than the others, counted from 0.
    """

    time: float
    slow: tuple[int, ...]


def mixing(values: np.ndarray) -> Mixing:
    """The longest integrated autocorrelation time of (C, n, k), in draws: n over the ESS.

    Within chains, whose means may differ: the effective sizes, of the bulk and of the tails, are of
    one chain each, and added up, for that of one chain alone is a rough estimate. Of a chain that
    is slower than the others by more than that, it is its own.
    """
    draws, longest, slow = values.shape[1], 1.0, set()
    for column in np.moveaxis(values, 2, 0):
        moving = np.flatnonzero(np.ptp(column, axis=1))
        if not len(moving):
            continue
        for method, prob in (("bulk", None), ("tail", TAILS)):
            size = sum(_ess(chain, method, prob) for chain in column[moving])
            longest = max(longest, len(moving) * draws / max(size, 1e-300))
        for sizes in _each(column[moving]) if len(moving) > 1 else ():
            several = float(sizes.mean())
            slower = several / sizes > 1.0 + SLOWER / np.sqrt(several)
            if slower.any():
                longest = max(longest, draws / float(sizes.min()))
                slow |= set(moving[slower].tolist())
    return Mixing(longest, tuple(sorted(slow)))


def _each(chains: np.ndarray) -> Iterator[np.ndarray]:
    """The effective sizes (C,) of every chain (C, n) by itself, of the bulk and of both tails.

    Of quarters, added up: a chain that has once gone elsewhere drifts, which is for the test to
    tell, and is slow in one of them alone.
    """
    quarters = np.array_split(chains, min(4, max(1, chains.shape[1] // 8)), axis=1)
    kinds: list[Callable[[np.ndarray], np.ndarray]] = [_scores]
    kinds += [functools.partial(_below, tail=tail) for tail in TAILS]
    for told in kinds:
        yield np.sum([[_size(told(one)) for one in part] for part in quarters], axis=0)


def _scores(values: np.ndarray) -> np.ndarray:
    return normal_scores(values[:, np.newaxis])[:, 0]


def _below(values: np.ndarray, tail: float) -> np.ndarray:
    return np.asarray(values <= np.quantile(values, tail), dtype=float)


def _size(values: np.ndarray) -> float:
    """The effective size as it is, not in halves; one draw where all are the same."""
    return _ess(values, "identity") if np.ptp(values) else 1.0


def _ess(chain: np.ndarray, method: str, prob: tuple[float, float] | None = None) -> float:
    """The effective sample size of one chain (n,)."""
    return float(
        arviz_stats.ess(chain[np.newaxis], method=method, prob=prob, chain_axis=0, draw_axis=1)
    )
