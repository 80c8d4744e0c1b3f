"""The witness of a difference and its ratio, with pointwise and simultaneous bands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..permutation.pooled_sample import BLOCK, PSEUDO_ROWS, PairedSample, PooledSample, tie_groups
from ..statistics.kernels import squared_exponential as kernel
from .belief import Drawn

#: The largest ratio of densities that is told.
LARGEST, TINY = 1e3, np.finfo(float).tiny


@dataclasses.dataclass(frozen=True)
class Bands:
    """The mean of a function with two bands.

    Attributes:
        mean, lower, upper: (m,); the band holds each point with probability ``level``.
        wide_lower, wide_upper: (m,); the band holds all points together with probability
            ``wide_level``.
        posterior: whether they are of the posterior, given that there is a difference; else of the
            empirical function with its sampling errors.
        level: pointwise.
        wide_level: simultaneous.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    wide_lower: np.ndarray
    wide_upper: np.ndarray
    level: float
    wide_level: float
    posterior: bool


def witness_draws(
    drawn: Drawn, rows: PooledSample, points: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Evaluate the witness ``w(x) = 1/n sum_i k(x, z_i) h(z_i)`` of draws of h jointly at points.

    Args:
        drawn: draws of the difference h.
        rows: the pooled rows.
        points: (m, D), in standard deviations of the columns.
        scale: the lengthscale of the squared exponential k, (D,) or a number, likewise.

    Returns:
        (count, m).
    """
    found = np.zeros((drawn.count, len(points)))
    for block in rows.blocks():
        here, counts = rows.points[block], rows.counts[block]
        found += drawn.at(here) @ (kernel(here / scale, points / scale, 1.0) * counts[:, None])
    return found / rows.n_rows


def sampling_draws(
    rows: PooledSample, points: np.ndarray, scale: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the empirical witness with its sampling errors alone, (count, m).

    The errors of a mean are its rows' deviations with normal factors: the multiplier bootstrap. A
    sample's own rows tell of no error where all happen to be equal, as of a rare event that none
    of them shows; so each sample's errors are those of :data:`PSEUDO_ROWS` more rows too
    (:attr:`~bke.inference.permutation.pooled_sample.PooledSample.pseudo_squared_weights`),
    of pairs :func:`_more_pairs`.

    Args:
        rows: the pooled rows.
        points: (m, D), in standard deviations of the columns.
        scale: of the kernel, (D,) or a number, likewise.
        count: of draws.
        rng: of the draws.
    """

    def weights(of: np.ndarray) -> np.ndarray:
        return kernel(of / scale, points / scale, 1.0)

    if isinstance(rows, PairedSample):
        more, size = _more_pairs(rows, rows.partners), len(rows.partners)
        a, b = (rows.points[one] for one in np.concatenate([rows.partners, more]).T)
        each = np.repeat([1.0 / size, 0.0], [size, len(more)])
        squares = np.repeat([size**-2.0, PSEUDO_ROWS / len(more) * size**-2.0], [size, len(more)])
        mean, errors = _mean_with_errors(
            lambda block: weights(a[block]) - weights(b[block]), each, squares, count, rng
        )
        return mean + errors
    (of_p, errors_p), (of_q, errors_q) = (
        _mean_with_errors(lambda block: weights(rows.points[block]), own, squares, count, rng)
        for own, squares in zip(
            rows.weights.T, (rows.squared_weights + rows.pseudo_squared_weights).T, strict=True
        )
    )
    return of_p - of_q + errors_p - errors_q


def _more_pairs(rows: PooledSample, partners: np.ndarray) -> np.ndarray:
    """Points (k, 2) of pairs that could have been: every different pair, either way round.

    Where no pair differs, those of rows half way from each other.
    """
    cells = tie_groups(rows.points)
    place = np.unique(cells, return_index=True)[1]
    found = np.unique(np.sort(cells[partners], axis=1), axis=0)
    if (found[:, 0] == found[:, 1]).all():
        every = np.arange(len(place))
        found = np.stack([every, np.roll(every, len(every) // 2)], axis=1)
    return np.asarray(place[np.concatenate([found, found[:, ::-1]])])


def _mean_with_errors(
    values: Callable[[slice], np.ndarray],
    weights: np.ndarray,
    squares: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (m,) of values (C, m), and draws (count, m) of its error.

    Weights (C,) are 1 in all; ``squares`` (C,) are the sums of those of single rows.
    """
    total, spread, factors = 0.0, 0.0, np.zeros(count)
    for start in range(0, len(weights), BLOCK):
        block = slice(start, start + BLOCK)
        here = values(block)
        drawn = rng.normal(size=(count, len(here))) * np.sqrt(squares[block])
        total, spread = total + weights[block] @ here, spread + drawn @ here
        factors += drawn.sum(axis=1)
    mean = np.asarray(total)
    errors = np.asarray(spread - np.outer(factors, mean))
    return mean, errors - errors.mean(axis=0)


def log_ratio_draws(drawn: Drawn, points: np.ndarray) -> np.ndarray:
    """Evaluate log p/q of draws of h at points (m, D), (count, m), cut off at ``LARGEST``.

    Beyond, or below its inverse, and where Gaussian labels let a density be negative, it is that.
    """
    h, share = drawn.at(points), drawn.believed.share
    of_p, of_q = (np.maximum(one, TINY) for one in (1.0 + (1.0 - share) * h, 1.0 - share * h))
    return np.clip(np.log(of_p) - np.log(of_q), -math.log(LARGEST), math.log(LARGEST))


def bands_of(
    draws: np.ndarray, level: float, wide_level: float, *, posterior: bool = True
) -> Bands:
    """Summarise draws (count, m): equal-tailed pointwise, and wide enough for all points."""
    mean, deviation = draws.mean(axis=0), draws.std(axis=0)
    lower, upper = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    unit = np.where(deviation > 0.0, deviation, 1.0)
    reach = np.quantile(np.abs((draws - mean) / unit).max(axis=1), wide_level) * deviation
    return Bands(mean, lower, upper, mean - reach, mean + reach, level, wide_level, posterior)
