"""The area under the curve of scores, of rows that may have weights, with its interval.

DeLong, DeLong and Clarke-Pearson (1988): a row's share of rows of the other sample that it is
above is a term of the mean, and the variance of the area is that of the two means of such terms.
Scores of rules that were learned from nearly the same rows are not independent, by which the
variance is larger (Nadeau and Bengio 2003).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtrit

from ..permutation.null_distribution import TIE

FOLDS = 5
#: By how much rules that share rows widen an interval: the square root of 1 + rows held out, times
#: the folds, over rows that teach.
SHARED = math.sqrt(1.0 + FOLDS / (FOLDS - 1.0))


class Single(NamedTuple):
    """Rows one by one.

    Attributes:
        points: (n, D).
        of_first: (n,), whether each is of the first sample.
        weights: (n,), by which they count in their sample; ``None`` where all count for one.
        squares: (n,), the sums of squares of the weights of rows that share a cell.
    """

    points: np.ndarray
    of_first: np.ndarray
    weights: np.ndarray | None = None
    squares: np.ndarray | None = None

    def each(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights and their squares, (n,) each, 1 where all count for one."""
        ones = np.ones(len(self.points))
        return (
            ones if self.weights is None else self.weights,
            ones if self.squares is None else self.squares,
        )


class Effect(NamedTuple):
    """The area under the curve, cross-fitted, with its interval."""

    auc: float
    interval: tuple[float, float]


def area(scores: np.ndarray, single: Single, fold: np.ndarray, alpha: float) -> Effect:
    """The area under the curve of scores (n,), with DeLong's interval.

    Rows are held against those of their own fold, which the same rows taught: against others they
    would come off too badly, what they themselves taught being left out of their score alone.
    """
    weights, squares = single.each()
    scores = tied_ranks(scores)
    wins, own, spread = np.zeros(len(fold)), np.zeros(len(fold)), np.zeros(len(fold))
    for one in np.unique(fold):
        sides = [
            np.flatnonzero((fold == one) & (single.of_first == label)) for label in (True, False)
        ]
        if min(map(len, sides)) == 0:
            continue
        for mine, others in (sides, sides[::-1]):
            wins[mine] = _above(scores[mine], scores[others], weights[others])
            own[mine], spread[mine] = weights[mine], squares[mine]
    shares, variance, worth = [], 0.0, []
    for label in (True, False):
        mine = (single.of_first == label) & (own > 0.0)
        total = own[mine].sum()
        mean = own[mine] @ wins[mine] / total
        worth.append(total**2 / spread[mine].sum())
        deviations = spread[mine] @ np.square(wins[mine] - mean) / total**2
        variance += deviations * worth[-1] / max(worth[-1] - 1.0, 1.0)
        shares.append(mean if label else 1.0 - mean)
    return with_interval(np.mean(shares), SHARED * math.sqrt(variance), min(worth), alpha)


def tied_ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks (n,) of scores, of which those that only rounding tells apart are equal.

    Rows that are equal have scores that are nearly so, for they are products of matrices.
    """
    order = np.argsort(scores)
    gaps = np.diff(scores[order]) > TIE * np.ptp(scores)
    ranks = np.zeros(len(scores))
    ranks[order[1:]] = np.cumsum(gaps)
    return ranks


def _above(scores: np.ndarray, others: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of ``others`` (n,) with ``weights`` below each of ``scores`` (m,); ties half."""
    order = np.argsort(others)
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = (np.searchsorted(others[order], scores, side=side) for side in ("left", "right"))
    return np.asarray(sum(below[end] for end in ends) / (2.0 * below[-1]))


def with_interval(share: float, error: float, rows: float, alpha: float) -> Effect:
    """The interval of a share on the scale of log odds.

    Args:
        share: of wins.
        error: its standard error.
        rows: how many of one weight it is known by.
        alpha: one less the confidence.
    """
    auc = float(share)
    # Where all rows are told apart, or all alike, there is no deviation to go by, but so many rows
    # that agree; and few rows may agree by chance.
    least = 1.0 - (0.5 * alpha) ** (1.0 / rows)
    inner, outer = max(auc - least, 0.0), min(auc + least, 1.0)
    if error == 0.0 or not 0.0 < auc < 1.0:
        return Effect(auc, (inner, outer))
    quantile = -stdtrit(max(rows - 1.0, 1.0), 0.5 * alpha)
    reach = quantile * error / (auc * (1.0 - auc))
    low, high = expit(logit(auc) + np.array([-reach, reach]))
    return Effect(auc, (min(float(low), inner), max(float(high), outer)))
