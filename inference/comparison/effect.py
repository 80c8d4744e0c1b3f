"""How much two samples differ: how often a row of P is told from a row of Q by what others taught.

A row's score is the posterior mean of the difference given the rows of the other folds, lengthscale
and size averaged over their posterior given those rows. The area under the curve is the chance
that of one row of each sample that of P has the higher score, ties counting half: 1/2 where nothing
tells them apart, and below 1/2 by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from scipy.special import softmax

from ..data.canonical import checksum
from ..data.weighted import systematic
from ..permutation.moments import Moments, WeightedSums
from ..permutation.null_distribution import TIE
from ..permutation.pooled_sample import PairedSample, PooledSample
from ..statistics.eigendecomposition import Eigendecomposition, decompose
from ..statistics.label_bayes_factor import label_log_bayes_factors
from .area import FOLDS, SHARED, Effect, Single, area, tied_ranks, with_interval
from .belief import Belief

#: What rows outside of each fold teach, by their features, their root, themselves and the folds.
Teach: TypeAlias = Callable[
    [np.ndarray, np.ndarray, Single, np.ndarray], Iterator[Eigendecomposition | None]
]
#: Rows that are looked at; with so many of each sample the standard error is below 0.005.
MOST_ROWS = 20_000


def effect(believed: Belief, rows: PooledSample, alpha: float) -> Effect:
    """The chance that a row is told from its sample, by the posterior given other rows.

    Args:
        believed: the posterior of the difference, whose grid and nodes are used.
        rows: the pooled rows.
        alpha: one less the confidence of the interval (DeLong, DeLong and Clarke-Pearson 1988, on
            the scale of log odds).
    """
    rng = np.random.default_rng(0)
    if isinstance(rows, PairedSample):
        return _of_pairs(believed, rows, rows.partners, alpha, rng)
    weighted = rows.permutation_type == "signs"
    single = _weighted_rows(rows, rng) if weighted else _single_rows(rows, rng)
    fold = _folds(single, rng)
    scores = _held_out(believed, single, fold, _by_weights if weighted else _by_rows)
    return area(scores, single, fold, alpha)


def _of_pairs(
    believed: Belief,
    rows: PooledSample,
    partners: np.ndarray,
    alpha: float,
    rng: np.random.Generator,
) -> Effect:
    """The chance that of a pair the row of P has the higher score, pairs held out together."""
    chosen = partners if len(partners) <= MOST_ROWS // 2 else rng.permutation(partners)
    chosen = chosen[: MOST_ROWS // 2]
    of_first = np.repeat([True, False], len(chosen))
    fold = np.tile(rng.permutation(np.arange(len(chosen)) % FOLDS), 2)
    single = Single(rows.points[chosen.T.ravel()], of_first)
    scores = _held_out(believed, single, fold, _by_pairs)
    first, second = tied_ranks(scores).reshape(2, -1)
    wins = 0.5 * (1.0 + np.sign(first - second))
    error = SHARED * wins.std() / len(wins) ** 0.5
    return with_interval(wins.mean(), error, len(wins), alpha)


def _single_rows(rows: PooledSample, rng: np.random.Generator) -> Single:
    """At most MOST_ROWS of the rows."""
    first = rows.first_counts.astype(int)
    points = [np.repeat(np.arange(len(first)), count) for count in (first, rows.counts - first)]
    most = MOST_ROWS / rows.n_rows
    if most < 1.0:
        points = [
            one[systematic(np.ones(len(one)), max(FOLDS, round(most * len(one))), rng)]
            for one in points
        ]
    labels = np.concatenate([np.full(len(one), index == 0) for index, one in enumerate(points)])
    return Single(rows.points[np.concatenate(points)], labels)


def _weighted_rows(rows: PooledSample, rng: np.random.Generator) -> Single:
    """At most MOST_ROWS of the weighted rows, or of what cells have of a sample."""
    point, sample = np.nonzero(rows.weights)
    if len(point) > MOST_ROWS:
        chosen = rng.choice(len(point), MOST_ROWS, replace=False)
        point, sample = point[chosen], sample[chosen]
    weights, squares = rows.weights[point, sample], rows.squared_weights[point, sample]
    # A cell of several rows is held out in parts, as if each row were: of fewer parts than rows
    # the others would lack more than chance takes, and rows would be told worse than they are.
    parts = _parts(np.maximum((weights**2 / squares * (1.0 + TIE)).astype(int), 1))
    part = np.repeat(np.arange(len(point)), parts)
    of_first = sample[part] == 0
    return Single(
        rows.points[point[part]], of_first, (weights / parts)[part], (squares / parts)[part]
    )


def _parts(worth: np.ndarray) -> np.ndarray:
    """In how many parts cells worth so many rows, (k,), are held out: MOST_ROWS in all at most."""
    most, too_many = 1, int(worth.max()) + 1
    while too_many - most > 1:
        middle = (most + too_many) // 2
        fits = np.minimum(worth, middle).sum() <= MOST_ROWS
        most, too_many = (middle, too_many) if fits else (most, middle)
    return np.minimum(worth, most)


def _folds(single: Single, rng: np.random.Generator) -> np.ndarray:
    """The fold (n,) of every row, as many of each sample in each as can be.

    Whichever sample is named first: their order is by what is in them.
    """
    fold = np.empty(len(single.of_first), dtype=int)
    each = (np.flatnonzero(single.of_first), np.flatnonzero(~single.of_first))
    for mine in sorted(each, key=lambda rows: checksum(single.points[rows])):
        fold[rng.permutation(mine)] = np.arange(len(mine)) % FOLDS
    return fold


def _held_out(believed: Belief, single: Single, fold: np.ndarray, teach: Teach) -> np.ndarray:
    """The score (n,) of every row, by the rows of other folds."""
    grid = believed.weights.shape
    logs, means = np.empty((FOLDS, *grid)), np.empty((grid[0], grid[1], len(fold)))
    inside = fold == np.arange(FOLDS)[:, None]
    for index, lengthscale in enumerate(believed.lengthscales):
        root = believed.spectra[index].root
        features = believed.values(single.points, believed.nodes, lengthscale) @ root
        for f, found in enumerate(teach(features, root, single, inside)):
            if found is None:  # nothing was taught: all scores are equal
                logs[f, index], means[index][:, inside[f]] = believed.log_prior[index], 0.0
                continue
            logs[f, index] = (
                label_log_bayes_factors(found, believed.variances)[:, 0] + believed.log_prior[index]
            )
            left = believed.variances[:, None] / (
                1.0 + np.outer(believed.variances, found.eigenvalues)
            )
            means[index][:, inside[f]] = found.combine(
                left * found.loadings[:, 0], features[inside[f]]
            )
    weights = softmax(logs.reshape(FOLDS, -1), axis=1).reshape(logs.shape)
    scores = np.empty(len(fold))
    for f, one in enumerate(inside):
        scores[one] = np.tensordot(weights[f], means[:, :, one], axes=2)
    return scores


def _by_rows(
    features: np.ndarray, root: np.ndarray, single: Single, inside: np.ndarray
) -> Iterator[Eigendecomposition]:
    """What the rows outside of each fold teach: sums over all less those over the fold."""
    within = np.array([features[one].T @ features[one] for one in inside])
    total = np.array([features[one].sum(axis=0) for one in inside])
    first = np.array([features[one & single.of_first].sum(axis=0) for one in inside])
    for f, one in enumerate(inside):
        rows, share = int((~one).sum()), float(single.of_first[~one].mean())
        every, mine = total.sum(axis=0) - total[f], first.sum(axis=0) - first[f]
        apart = (mine - share * every) / (rows * share * (1.0 - share))
        products = within.sum(axis=0) - within[f]
        yield decompose(root, Moments.of_rows(apart[:, None], every, products, rows, share))


def _by_pairs(
    features: np.ndarray, root: np.ndarray, single: Single, inside: np.ndarray
) -> Iterator[Eigendecomposition]:
    """What the pairs outside of each fold teach: rows of the first sample, then their partners."""
    first, second = np.split(features, 2)
    for one in inside[:, : len(first)]:
        signs = np.ones((int((~one).sum()), 1))
        yield decompose(root, Moments.of_pairs(first[~one], second[~one], signs))


def _by_weights(
    features: np.ndarray, root: np.ndarray, single: Single, inside: np.ndarray
) -> Iterator[Eigendecomposition | None]:
    """What the weighted rows outside of each fold teach."""
    sides = np.stack([single.of_first, ~single.of_first], axis=1)
    weights, squares = (one[:, None] * sides for one in single.each())
    for one in inside:
        here, totals = features[~one], weights[~one].sum(axis=0)
        if not totals.all() or not np.ptp(here, axis=0).any():
            yield None  # one sample alone, or equal rows alone
            continue
        own, of_squares = weights[~one] / totals, squares[~one] / totals**2
        sums = WeightedSums.empty(features.shape[1]).plus(here, own, of_squares)
        each = (own @ sums.effective_sizes)[:, None] * here
        apart = (sums.means[0] - sums.means[1])[:, None]
        yield decompose(root, sums.moments(apart, each.sum(axis=0), here.T @ each))
