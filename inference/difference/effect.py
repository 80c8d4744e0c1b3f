"""How much two samples differ: how often a row of P is told from a row of Q by what others taught.

A row's score is the posterior mean of the difference given the rows of the other folds, lengthscale
and size averaged over their posterior given those rows. The area under the curve is the chance
that of one row of each sample that of P has the higher score, ties counting half: 1/2 where nothing
tells them apart, and below 1/2 by chance alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, softmax
from scipy.stats import norm, rankdata

from ..data.weighted import systematic
from .belief import Belief
from .evidence import log_bayes_factors
from .relabelled import Relabelled
from .spectrum import decomposed, kernel

FOLDS = 5
#: Rows that are looked at; with so many of each sample the standard error is below 0.005.
MOST_ROWS = 20_000


class Effect(NamedTuple):
    """The area under the curve, cross-fitted, with its interval."""

    auc: float
    interval: tuple[float, float]


def effect(believed: Belief, rows: Relabelled, alpha: float) -> Effect:
    """The chance that a row is told from its sample, by the posterior given other rows.

    Args:
        believed: the posterior of the difference, whose grid and nodes are used.
        rows: the pooled rows.
        alpha: one less the confidence of the interval (DeLong, DeLong and Clarke-Pearson 1988, on
            the scale of log odds).
    """
    rng = np.random.default_rng(0)
    if rows.partners is not None:
        return _of_pairs(believed, rows, rows.partners, alpha, rng)
    point, of_first = _single_rows(rows, rng)
    fold = _folds(of_first, rng)
    scores = _held_out(believed, rows.points[point], of_first, fold)
    return _area(scores, of_first, fold, alpha)


def _of_pairs(
    believed: Belief, rows: Relabelled, partners: np.ndarray, alpha: float, rng: np.random.Generator
) -> Effect:
    """The chance that of a pair the row of P has the higher score, pairs held out together."""
    chosen = partners if len(partners) <= MOST_ROWS // 2 else rng.permutation(partners)
    chosen = chosen[: MOST_ROWS // 2]
    of_first = np.repeat([True, False], len(chosen))
    fold = np.tile(rng.permutation(np.arange(len(chosen)) % FOLDS), 2)
    scores = _held_out(believed, rows.points[chosen.T.ravel()], of_first, fold)
    first, second = scores.reshape(2, -1)
    wins = 0.5 * (1.0 + np.sign(first - second))
    return _with_interval(wins.mean(), wins.std() / len(wins) ** 0.5, len(wins), alpha)


def _single_rows(rows: Relabelled, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The point of every row and whether it is in the first sample, of at most MOST_ROWS rows."""
    first = rows.first[:, 0].astype(int)
    points = [np.repeat(np.arange(len(first)), count) for count in (first, rows.counts - first)]
    most = MOST_ROWS / rows.rows
    if most < 1.0:
        points = [
            one[systematic(np.ones(len(one)), max(FOLDS, round(most * len(one))), rng)]
            for one in points
        ]
    labels = np.concatenate([np.full(len(one), index == 0) for index, one in enumerate(points)])
    return np.concatenate(points), labels


def _folds(of_first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The fold (n,) of every row, as many of each sample in each as can be."""
    fold = np.empty(len(of_first), dtype=int)
    for label in (True, False):
        mine = np.flatnonzero(of_first == label)
        fold[rng.permutation(mine)] = np.arange(len(mine)) % FOLDS
    return fold


def _held_out(
    believed: Belief, points: np.ndarray, of_first: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """The score (n,) of every row, by the rows of other folds."""
    grid = believed.weights.shape
    logs, means = np.empty((FOLDS, *grid)), np.empty((grid[0], grid[1], len(points)))
    inside = fold == np.arange(FOLDS)[:, None]
    for index, lengthscale in enumerate(believed.lengthscales):
        root = believed.spectra[index].root
        features = kernel(points, believed.nodes, lengthscale) @ root
        # Sums over each fold; those over the others are what it leaves of all.
        within = np.array([features[one].T @ features[one] for one in inside])
        total = np.array([features[one].sum(axis=0) for one in inside])
        first = np.array([features[one & of_first].sum(axis=0) for one in inside])
        for f, one in enumerate(inside):
            kept = ~one
            share = of_first[kept].mean()
            found = decomposed(
                root,
                within.sum(axis=0) - within[f],
                total.sum(axis=0) - total[f],
                (first.sum(axis=0) - first[f])[:, None],
                int(kept.sum()),
                float(share),
            )
            logs[f, index] = (
                log_bayes_factors(found, believed.variances)[:, 0] + believed.log_prior[index]
            )
            turned = features[one] @ found.turn - found.mean
            left = believed.variances[:, None] / (1.0 + np.outer(believed.variances, found.values))
            means[index][:, one] = (left * found.loadings[:, 0]) @ turned.T
    weights = softmax(logs.reshape(FOLDS, -1), axis=1).reshape(logs.shape)
    return np.einsum("lsn,nls->n", means, weights[fold])


def _area(scores: np.ndarray, of_first: np.ndarray, fold: np.ndarray, alpha: float) -> Effect:
    """The area under the curve of scores (n,), with DeLong's interval.

    Rows are held against those of their own fold, which the same rows taught: against others they
    would come off too badly, what they themselves taught being left out of their score alone.
    """
    above, below = [], []
    for one in np.unique(fold):
        first, second = (scores[(fold == one) & (of_first == label)] for label in (True, False))
        m, n = len(first), len(second)
        if min(m, n) == 0:
            continue
        ranks = rankdata(np.concatenate([first, second]))
        above.append((ranks[:m] - rankdata(first)) / n)  # how many of the others each is above
        below.append(1.0 - (ranks[m:] - rankdata(second)) / m)
    sides = np.concatenate(above), np.concatenate(below)
    least = min(len(side) for side in sides)
    error = math.sqrt(sum(side.var(ddof=1) / len(side) for side in sides)) if least > 1 else 0.0
    share = 0.5 * (sides[0].mean() + sides[1].mean())
    return _with_interval(share, error, least, alpha)


def _with_interval(share: float, error: float, rows: int, alpha: float) -> Effect:
    """The interval of a share by its standard error, on the scale of log odds."""
    auc = float(share)
    if error == 0.0 or not 0.0 < auc < 1.0:
        # All rows told apart, or none: no deviation to go by, but so many rows agree.
        reach = 1.0 - (0.5 * alpha) ** (1.0 / rows)
        return Effect(auc, (max(auc - reach, 0.0), min(auc + reach, 1.0)))
    reach = norm.isf(0.5 * alpha) * error / (auc * (1.0 - auc))
    low, high = expit(logit(auc) + np.array([-reach, reach]))
    return Effect(auc, (float(low), float(high)))
