"""t at places: how far the mean weights of two samples are apart, by sums over rows.

What rows weigh at a place is a feature (:class:`~.asked.Features`); t needs sums of features and of
their squares, over all rows and over those of each sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..permutation.permutation import TIE
from ..permutation.relabelled import BLOCK, MORE_ROWS, Relabelled
from .asked import Asked, Features, Sums
from .spectrum import FARTHEST

#: The least number of rows that a cell's weights are worth, (sum k)^2 / sum k^2.
LEAST_ROWS = 20.0


class Local(NamedTuple):
    """t of those of some cells where rows are enough.

    Attributes:
        kept: (k,), which cells.
        t: (k, 1 + B).
        means: (k, 2), of the weights over P and over Q.
        errors: (k, 2), standard errors of ``means``; of less than one row those of one.
        covariance: (k,), of the two means: 0 unless rows belong together.
    """

    kept: np.ndarray
    t: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray


def local_t(rows: Relabelled, weights: Features, count: int) -> Asked[Local]:
    """Ask for t at so many cells, at which rows weigh what a feature tells."""
    return Asked(weights, count, lambda found: _told(rows, found, weights), squares=True)


def _told(rows: Relabelled, found: Sums, weights: Features) -> Local:
    """Tell t by the sums that :func:`local_t` asks for."""
    each, combine = rows.measures
    # Measures, and beside them that which weighs every different point alike.
    combine = scipy.linalg.block_diag(combine, np.ones((1, 1)))
    sums, squares = found.of_measures.T @ combine, found.of_squares.T @ combine
    total = np.append(each.sum(axis=0), 1.0) @ combine
    # What is beyond the farthest is not there.
    mean, means = sums[:, 0], np.where(sums[:, 1:3] > np.exp(FARTHEST / 2.0), sums[:, 1:3], 0.0)
    variance = np.maximum(squares[:, 0] - mean**2, 0.0)
    # Of each sample's mean: the sum of squares of weighted deviations from it.
    spread = squares[:, 3:5] - 2.0 * means * sums[:, 3:5] + means**2 * total[3:5]
    others = squares[:, 7:] - 2.0 * means * sums[:, 7:] + means**2
    enough = mean**2 * (1.0 + TIE) >= LEAST_ROWS * squares[:, 3:5] @ _shares(rows) ** 2
    # Beyond, all rows weigh the same.
    kept = np.flatnonzero(enough & (variance > 1e-12 * mean**2))
    apart, together = _of_partners(rows, weights, kept)
    least = 1e-12 * mean[kept] ** 2 / rows.rows
    if rows.partners is not None:
        noise = np.maximum(apart, least)[:, None] / len(rows.partners)
    elif rows.weighted:
        about = squares[:, 5:7] - 2.0 * mean[:, None] * sums[:, 5:7]
        about += mean[:, None] ** 2 * total[5:7]
        noise = np.maximum(about[kept].sum(axis=1), least)[:, None]
    else:
        share = rows.shares
        lost = np.maximum(share * (1.0 - share), 1.0 / rows.rows**2) * (rows.rows - 1.0)
        noise = variance[kept, None] / lost
    return Local(
        kept,
        rows.apart(found.of_labels, mean * rows.rows)[kept] / np.sqrt(noise),
        means[kept],
        _errors(rows, means[kept], spread[kept], others[kept], together),
        together,
    )


def _errors(
    rows: Relabelled, means: np.ndarray, own: np.ndarray, others: np.ndarray, together: np.ndarray
) -> np.ndarray:
    """Standard errors (k, 2) of both samples' means, as if a few more rows had been anywhere.

    A sample's own rows tell of no error where all of them are equal.

    Args:
        rows: the points.
        means: (k, 2), of the weights.
        own: (k, 2), their variances by each sample's own rows.
        others: (k, 2), the mean squares of deviations of all points from ``means``.
        together: (k,), the covariance of the two means.
    """
    own = np.maximum(own, 0.0)
    both = np.sqrt(own.prod(axis=1))
    alike = np.divide(together, both, out=np.zeros_like(both), where=both > 0.0)
    # Of pairs those rows would be as alike as the others are, or all differences were lost in them.
    apart = 1.0 - np.clip(alike, 0.0, 1.0)[:, None]
    # Of a sample with less than a row's weight there, as if one more row could have been there.
    floor = np.where(means * rows.worth < 1.0, rows.worth**-2.0, 0.0)
    return np.sqrt(np.maximum(own + MORE_ROWS * apart * others / rows.worth**2, floor))


def _shares(rows: Relabelled) -> np.ndarray:
    return np.array([rows.share, 1.0 - rows.share])


def _of_partners(
    rows: Relabelled, weights: Features, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean square of differences of partners' weights, and the covariance of the two means.

    Each (k,), of the cells that are kept, 0 where rows are independent.
    """
    apart, together = np.zeros(len(kept)), np.zeros(len(kept))
    if rows.partners is None:
        return apart, together
    for pairs in np.array_split(rows.partners, -(-len(rows.partners) // BLOCK)):
        a, b = (weights(rows.points[one])[:, kept] for one in pairs.T)
        apart += np.square(a - b).sum(axis=0)
        together += (a * b).sum(axis=0)
    m = len(rows.partners)
    ends = (weights(rows.points[one]).mean(axis=0)[kept] for one in rows.partners.T)
    return apart / m, (together / m - np.prod(list(ends), axis=0)) / m
