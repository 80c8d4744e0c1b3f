"""How many rows a test of this difference would need, by testing fresh rows of the posterior.

Differences h are drawn from their posterior, so that the size of the difference is as uncertain as
it is, and not exaggerated by what chance has added, as it would be if both samples were resampled.
For each h rows are drawn from the pooled sample with probabilities in proportion to ``1 + (1 -
share) h`` for P and ``1 - share h`` for Q, and tested, at a number of rows that goes to where that
h is found with the power that is asked for. What each h needs is seen through few tests only, so
its distribution over all h is that of largest likelihood (Laird 1978); told are its quantiles.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtri

from ..data.weighted import weighted_quantiles
from ..permutation.pool import pool_rows
from ..permutation.pooled_sample import PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.combined import combined_pvalue
from .belief import Belief

#: Differences that are drawn, and tests of each.
DRAWS, TESTS = 32, 6
PERMUTATIONS = 199
#: Numbers of rows that are thought of: the fewest, over those of the samples the most; how many.
FEWEST, MOST_TIMES, GRID = 24.0, 50.0, 80
#: Numbers that are tried: no further than so many times from one to the next.
STEP = 3.0
#: Steps of the expectation-maximisation, which starts from all numbers alike.
STEPS = 60
#: What is told of the distribution.
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9


@dataclasses.dataclass(frozen=True)
class RowsNeeded:
    """How many rows the test needs to find this difference.

    Attributes:
        sizes: of P and Q, in the shares of the samples, the posterior median; ``None`` where it is
            beyond 50 times as many rows.
        interval: of the rows of both together, with posterior probability 0.8; the difference being
            uncertain, and by simulation. Its end may be infinite. Of 20 data sets in each of four
            settings it held the true number in 0.6 to 0.8 (``benchmarks/rows_needed.py``): it is
            somewhat too narrow, and says too many rather than too few.
        power: with which probability the test then rejects.
    """

    sizes: tuple[int, int] | None
    interval: tuple[float, float]
    power: float

    def __str__(self) -> str:
        chance = f"with probability {self.power:g}"
        if self.sizes is None:
            return f"More than {MOST_TIMES:g} times as many rows are needed to find it {chance}."
        low, high = (f"{end:.0f}" if math.isfinite(end) else "any number" for end in self.interval)
        return (
            f"{sum(self.sizes)} rows in all, {self.sizes[0]} + {self.sizes[1]}, find it {chance} "
            f"(80 %: {low} to {high} in all, as far as the difference is known)."
        )


def rows_needed(
    believed: Belief, rows: PooledSample, alpha: float, power: float, seed: int
) -> RowsNeeded:
    """Find the number of rows with which the test rejects with probability ``power``."""
    rng = np.random.default_rng(seed)
    drawn = believed.drawn(DRAWS, rng).at(rows.points)
    share, most = rows.first_fraction, MOST_TIMES * rows.n_rows
    chances = [np.clip(1.0 + factor * drawn, 0.0, None) * rows.counts
               for factor in (1.0 - share, -share)]  # fmt: skip

    def rejects(index: int, total: float) -> bool:
        P, Q = (
            rows.points[rng.choice(len(one[index]), size, p=one[index] / one[index].sum())]
            for one, size in zip(chances, _sizes(total, share), strict=True)
        )
        return _pvalue(P, Q, rng) <= alpha

    needs = searched(rejects, power, alpha, start=float(rows.n_rows), most=most)
    low, middle, high = needs.quantiles(LOW, MIDDLE, HIGH)
    beyond = needs.grid[-2]  # the last of the grid stands for all that are more
    interval = (float(low), float(high) if high < beyond else math.inf)
    return RowsNeeded(_sizes(middle, share) if middle < beyond else None, interval, power)


def searched(
    rejects: Callable[[int, float], bool], power: float, alpha: float, *, start: float, most: float
) -> Needs:
    """Test every difference at numbers of rows ever nearer to what it needs.

    Args:
        rejects: whether a test of a difference, by its index, and of so many rows rejects.
        power: that is asked for.
        alpha: level of the test.
        start: the first number of rows.
        most: the largest number that is thought of.
    """
    grid = np.geomspace(FEWEST, most, GRID)
    needs = Needs(grid, np.zeros((DRAWS, GRID)), float(ndtri(alpha)), float(ndtri(power)))
    totals = np.full(DRAWS, start)
    for _ in range(TESTS):
        seen = np.array([rejects(index, total) for index, total in enumerate(totals)])
        needs = needs.after(totals, seen)
        totals = np.clip(needs.of_each(), totals / STEP, totals * STEP)
    return needs


@dataclasses.dataclass(frozen=True)
class Needs:
    """What is known of the rows that differences need, from tests that rejected or did not.

    A test of n rows rejects with probability ``Phi(a + (z - a) sqrt(n / needed))``: the level where
    there are none, the power that is asked for at as many as are needed.

    Attributes:
        grid: (G,), numbers of rows.
        logs: (K, G), log likelihoods of each difference's own number.
        level: a, the normal quantile of the level.
        wanted: z, that of the power.
    """

    grid: np.ndarray
    logs: np.ndarray
    level: float
    wanted: float

    def after(self, totals: np.ndarray, seen: np.ndarray) -> Needs:
        """Learn from one more test (K,) of each difference, of ``totals`` rows."""
        z = self.level + (self.wanted - self.level) * np.sqrt(totals[:, None] / self.grid)
        logs = self.logs + np.where(seen[:, None], log_ndtr(z), log_ndtr(-z))
        return dataclasses.replace(self, logs=logs)

    def _each(self) -> np.ndarray:
        """Of each difference the probabilities (K, G) of its number, given what all need."""
        likelihoods = np.exp(self.logs - self.logs.max(axis=1, keepdims=True))
        weights = np.full(len(self.grid), 1.0 / len(self.grid))
        for _ in range(STEPS):
            each = weights * likelihoods
            each /= each.sum(axis=1, keepdims=True)
            weights = each.mean(axis=0)
        return np.asarray(each)

    def of_each(self) -> np.ndarray:
        """The number (K,) that each difference needs, on average of its logarithm."""
        return np.asarray(np.exp(self._each() @ np.log(self.grid)))

    def quantiles(self, *probabilities: float) -> np.ndarray:
        """Quantiles of the numbers that differences need."""
        weights = self._each().mean(axis=0)
        found = weighted_quantiles(np.log(self.grid)[:, None], weights, probabilities)
        return np.asarray(np.exp(found))[:, 0]


def _sizes(total: float, share: float) -> tuple[int, int]:
    return max(2, math.ceil(share * total)), max(2, math.ceil((1.0 - share) * total))


def _pvalue(P: np.ndarray, Q: np.ndarray, rng: np.random.Generator) -> float:
    if np.all(np.concatenate([P, Q]) == P[0]):
        return 1.0
    rows = pool_rows(TwoSamples(P, Q), PERMUTATIONS, rng)
    return combined_pvalue(rows)
