"""How many rows a test of this difference would need, by testing fresh rows of the posterior.

Rows are drawn from the pooled sample with probabilities in proportion to ``1 + (1 - share) h`` for
P and ``1 - share h`` for Q, a new draw of h from its posterior each time; so the size of the
difference is as uncertain as it is, and not exaggerated by what chance has added, as it would be if
both samples were resampled. Whether the test rejects is observed at several sizes; its probability
is taken for normal in the root of the number of rows, and a line is fitted (probit regression).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..testing.pair import Pair
from .belief import Belief
from .pooling import relabelled
from .probit import reached
from .relabelled import Relabelled
from .statistic import overall_pvalue

#: Tests at one number of rows, and how many numbers are tried one after the other.
TRIALS, ROUNDS = 16, 8
PERMUTATIONS = 199
#: Numbers of rows that are tried, over those of the samples; and the fewest.
FEWEST, MOST_TIMES = 24, 50.0


@dataclasses.dataclass(frozen=True)
class RowsNeeded:
    """How many rows the test needs to find this difference.

    Attributes:
        sizes: of P and Q, in the shares of the samples; ``None`` where 50 times as many rows would
            not do.
        interval: of the rows of both together, two standard errors of the estimate.
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
            f"{self.sizes[0]} + {self.sizes[1]} rows find it {chance} ({low} to {high} in all, "
            "by simulation)."
        )


def rows_needed(
    believed: Belief, rows: Relabelled, alpha: float, power: float, seed: int
) -> RowsNeeded:
    """Find the number of rows with which the test rejects with probability ``power``."""
    rng = np.random.default_rng(seed)
    drawn = believed.drawn(TRIALS * ROUNDS, rng).at(rows.points)
    share = rows.share
    chances = [np.clip(1.0 + factor * drawn, 0.0, None) * rows.counts
               for factor in (1.0 - share, -share)]  # fmt: skip
    trial = iter(range(len(drawn)))

    def rejects(total: float) -> bool:
        index, sizes = next(trial), _sizes(total, share)
        P, Q = (
            rows.points[rng.choice(len(one[index]), size, p=one[index] / one[index].sum())]
            for one, size in zip(chances, sizes, strict=True)
        )
        return _pvalue(P, Q, rng) <= alpha

    most = MOST_TIMES * rows.rows
    needed, error = _solve(rejects, power, alpha, start=float(rows.rows), most=most)
    if needed >= most:
        return RowsNeeded(None, (most, math.inf), power)
    ends = (needed * math.exp(-2.0 * error), needed * math.exp(2.0 * error))
    return RowsNeeded(_sizes(needed, share), ends, power)


def _sizes(total: float, share: float) -> tuple[int, int]:
    return max(2, math.ceil(share * total)), max(2, math.ceil((1.0 - share) * total))


def _pvalue(P: np.ndarray, Q: np.ndarray, rng: np.random.Generator) -> float:
    if np.all(np.concatenate([P, Q]) == P[0]):
        return 1.0
    rows = relabelled(Pair(P, Q), PERMUTATIONS, rng)
    return overall_pvalue(rows)


def _solve(
    rejects: Callable[[float], bool], power: float, alpha: float, *, start: float, most: float
) -> tuple[float, float]:
    """The number at which ``rejects`` has probability ``power``, and its relative error."""
    tried: list[float] = []
    seen: list[bool] = []
    total = start
    for _ in range(ROUNDS):
        tried += [total] * TRIALS
        seen += [rejects(total) for _ in range(TRIALS)]
        root, of_root = reached(np.sqrt(tried), np.array(seen), power, alpha)
        total, error = root**2, 2.0 * of_root
        # No further than a factor of four beyond what was tried.
        total = float(np.clip(total, min(tried) / 4.0, max(tried) * 4.0))
        total = float(np.clip(total, FEWEST, most))
    return total, error
