"""Which shift of a column the test would have found: what "no difference was found" leaves open.

Labels are dealt out anew, a row going to one sample the sooner the larger its normal score in a
column is (the normal quantile of its rank), which moves the mean score and leaves it normal; of
pairs, by how far apart the two scores are. Whether the test of these labels among relabellings
rejects is seen, at several tilts. All at the points that the samples have. A column that is normal
moves as its scores do, by so many standard deviations.

All dealt labels are held against the same relabellings in one go
(:func:`~bke.inference.permutation.null_distribution.with_each_observed`), which comes to the
same as one by one for all but one in thirty at most.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, logit

from ..data.canonical import checksum
from ..permutation.null_distribution import p_value
from ..permutation.pooled_sample import PairedSample, PooledSample
from ..statistics.combined import CombinedStatistic
from ..statistics.location import NormalScores
from .probit import reached

POWER = 0.9
#: Shifts that are tried, in standard errors of a mean difference, and how often each.
SHIFTS, TRIALS = np.geomspace(1.0, 10.0, 9), 20
#: Relabellings that each is tested by.
RELABELLINGS = 199
#: The least part of a column's variance that is within the samples.
LEAST_WITHIN = 1e-3


def detectable_shift(rows: PooledSample, alpha: float) -> float | None:
    """The shift of one column's normal scores found with probability ``POWER``.

    Args:
        rows: the pooled rows with their relabellings.
        alpha: level of the test.

    Returns:
        The shift, in standard deviations within a sample, all columns alike; ``None`` where the
        largest that could be dealt out is not found so often.
    """
    rng = np.random.default_rng(0)
    varying = rows.points[:, np.ptp(rows.points, axis=0) > 0.0]
    scores = NormalScores.of(varying, rows.counts)(varying).T
    # Those of tied rows have a smaller variance than 1.
    scores = scores / np.sqrt(np.average(scores**2, axis=1, weights=rows.counts))[:, None]
    turned = _turned(rows)
    leaning = scores / _noise(rows, scores)[:, None]
    dealt, shifts = [], []
    for tilt in SHIFTS * math.sqrt(np.sum(1.0 / rows.effective_sizes)):
        for trial in range(TRIALS):
            score = scores[trial % len(scores)]
            first = _dealt(rows, tilt * leaning[trial % len(scores)], rng, turned=turned)
            dealt.append(first)
            alone = rows.with_labels(first[:, None])
            shifts.append(
                alone.mean_differences((score @ first)[None, None], (score @ rows.counts)[None])
            )
    nulls = rows.point_labels(slice(1, 1 + RELABELLINGS))
    labels = np.concatenate([np.stack(dealt, axis=1).astype(nulls.dtype), nulls], axis=1)
    every = rows.with_labels(labels)
    found = CombinedStatistic.evaluate(every).values(n_observed=len(dealt))
    each, others = found[: len(dealt), None], found[len(dealt) :]
    seen = np.array([p_value(np.append(one, others)) <= alpha for one in each])
    size = np.array(shifts).reshape(len(SHIFTS), TRIALS).mean(axis=1) * (-1.0 if turned else 1.0)
    # Over the deviation of either sample, which is less than that of both together.
    within = 1.0 - rows.first_fraction * (1.0 - rows.first_fraction) * size**2
    size = size / np.sqrt(np.maximum(within, LEAST_WITHIN))
    if not (size > 0.0).all() or seen[-TRIALS:].mean() < POWER:
        return None
    return reached(np.repeat(size, TRIALS), seen, POWER, alpha)[0]


def _noise(rows: PooledSample, scores: np.ndarray) -> np.ndarray:
    """The deviation (D,) that a difference of means of scores (D, C) has, 1 of independent rows.

    Of pairs whose rows are alike it is smaller, and rows must lean the more to move as far.
    """
    if not isinstance(rows, PairedSample):
        return np.ones(len(scores))
    a, b = rows.partners.T
    apart = np.square(scores[:, a] - scores[:, b]).mean(axis=1)
    return np.sqrt(np.where(apart > 0.0, 0.5 * apart, 1.0))


def _turned(rows: PooledSample) -> bool:
    """Whether labels are dealt as if the second sample were the first: by what is in them."""
    first = rows.first_counts
    each = np.stack([first, rows.counts - first], axis=1).astype(float)
    one, other = (checksum(np.column_stack([rows.points, part])) for part in each.T)
    return one > other


def _dealt(
    rows: PooledSample, tilts: np.ndarray, rng: np.random.Generator, *, turned: bool
) -> np.ndarray:
    """Labels (C,) by which a row goes to one sample the sooner, the larger its tilt."""
    if rows.permutation_type == "signs":
        # What weights in proportion to exp(tilt) make of all rows, with errors of some relabelling.
        sign, share = (-1.0, 1.0 - rows.first_fraction) if turned else (1.0, rows.first_fraction)
        chance = rows.counts * expit(logit(share) + tilts)
        moved, others = chance / chance.sum(), (rows.counts - chance) / (rows.counts - chance).sum()
        return sign * (moved - others) + rows.labels[:, rng.integers(1, rows.labels.shape[1])]
    if isinstance(rows, PairedSample):
        a, b = rows.partners.T[::-1] if turned else rows.partners.T
        first = rng.logistic(size=len(a)) < tilts[a] - tilts[b]
        dealt = np.bincount(np.where(first, a, b), minlength=len(tilts))
    else:
        # The largest of moved Gumbel variables: sampling without replacement by exp(tilt).
        of_row = np.repeat(np.arange(len(rows.counts)), rows.counts)
        keys, size = -(tilts[of_row] + rng.gumbel(size=len(of_row))), rows.sizes[int(turned)]
        order = np.argpartition(keys, size - 1)
        dealt = np.bincount(of_row[order[:size]], minlength=len(tilts))
    return rows.counts - dealt if turned else dealt
