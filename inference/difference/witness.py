"""The posterior of the witness of a difference, with pointwise and simultaneous bands."""

from __future__ import annotations

import dataclasses

import numpy as np

from .belief import Belief
from .relabelled import Relabelled
from .spectrum import kernel


@dataclasses.dataclass(frozen=True)
class WitnessBands:
    """The posterior mean of a witness with two bands, given that there is a difference.

    Attributes:
        mean, lower, upper: (m,); the band holds each point with probability ``level``.
        wide_lower, wide_upper: (m,); the band holds all points together with probability
            ``wide_level``.
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


def witness_draws(
    believed: Belief, rows: Relabelled, points: np.ndarray, scale: np.ndarray, count: int, seed: int
) -> np.ndarray:
    """Draw the witness ``w(x) = 1/n sum_i k(x, z_i) h(z_i)`` jointly at points.

    Args:
        believed: the posterior of the difference h.
        rows: the pooled rows.
        points: (m, D), in standard deviations of the columns.
        scale: the lengthscale of the squared exponential k, (D,) or a number, likewise.
        count: of draws.
        seed: of the draws.

    Returns:
        (count, m).
    """
    found = np.empty((count, len(points)))
    for index, mine, coefficients in believed.coefficients(count, np.random.default_rng(seed)):
        one = believed.spectra[index]
        across = np.zeros((len(points), len(one.values)))
        for block in rows.blocks():
            here, counts = rows.points[block], rows.counts[block]
            functions = kernel(here, believed.nodes, believed.lengthscales[index]) @ one.root
            functions = functions @ one.turn - one.mean
            across += (kernel(points / scale, here / scale, 1.0) * counts) @ functions
        found[mine] = coefficients @ across.T / rows.rows
    return found


def witness_bands(draws: np.ndarray, level: float, wide_level: float) -> WitnessBands:
    """Summarise draws (count, m): equal-tailed pointwise, and wide enough for all points."""
    mean, deviation = draws.mean(axis=0), draws.std(axis=0)
    lower, upper = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    unit = np.where(deviation > 0.0, deviation, 1.0)
    reach = np.quantile(np.abs((draws - mean) / unit).max(axis=1), wide_level) * deviation
    return WitnessBands(mean, lower, upper, mean - reach, mean + reach, level, wide_level)
