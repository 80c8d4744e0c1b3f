"""Witness function and density ratio of a difference, with pointwise and simultaneous bands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..permutation.pooled_sample import BLOCK, PSEUDO_ROWS, PairedSample, PooledSample, tie_groups
from ..statistics.kernels import squared_exponential
from ..statistics.label_bayes_factor import KernelAtNodes
from .difference_posterior import DifferenceDraws

#: Density ratios are clipped to this and its inverse.
MAX_RATIO, TINY = 1e3, np.finfo(float).tiny


@dataclasses.dataclass(frozen=True)
class Bands:
    """The mean of a function with two bands.

    Attributes:
        mean, lower, upper: (m,); the band contains each point with probability ``level``.
        wide_lower, wide_upper: (m,); the band contains all points together with probability
            ``wide_level``.
        level: probability of the pointwise band.
        wide_level: probability of the simultaneous band.
        posterior: true for the posterior given a difference, false for the empirical function with
            its sampling errors.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    wide_lower: np.ndarray
    wide_upper: np.ndarray
    level: float
    wide_level: float
    posterior: bool

    @classmethod
    def from_draws(
        cls, draws: np.ndarray, level: float, wide_level: float, *, posterior: bool = True
    ) -> Bands:
        """Summarize draws (n_draws, m): equal-tailed for each point, and wider for all points."""
        mean, deviation = draws.mean(axis=0), draws.std(axis=0)
        lower, upper = np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        divisor = np.where(deviation > 0.0, deviation, 1.0)
        factor = np.quantile(np.abs((draws - mean) / divisor).max(axis=1), wide_level)
        reach = factor * deviation
        return cls(mean, lower, upper, mean - reach, mean + reach, level, wide_level, posterior)


def witness_draws(
    difference: DifferenceDraws, sample: PooledSample, points: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Evaluate the witness ``w(x) = 1/n sum_i k(x, z_i) h(z_i)`` of draws of h (CMP-3).

    Args:
        difference: draws of the difference h.
        sample: pooled rows.
        points: (m, D), in standard deviations of the columns.
        scale: lengthscale of the squared exponential k, (D,) or a number, in the same units.

    Returns:
        Values (n_draws, m).
    """
    values = np.zeros((difference.n_draws, len(points)))
    for block in sample.blocks():
        rows, counts = sample.points[block], sample.counts[block]
        kernel = squared_exponential(rows / scale, points / scale, 1.0)
        values += difference.evaluate(rows) @ (kernel * counts[:, None])
    return values / sample.n_rows


def squared_mmd_draws(
    difference: DifferenceDraws, sample: PooledSample, lengthscale: float
) -> np.ndarray:
    """Compute the squared MMD (n_draws,) of a squared exponential for draws of the difference h.

    It is the squared norm ``1/n^2 h'K h`` of the witness.

    Args:
        difference: draws of the difference h.
        sample: pooled rows.
        lengthscale: lengthscale of the kernel, in standard deviations of the columns.
    """
    # The first kernel has the shortest lengthscale, hence the most nodes.
    nodes = difference.posterior.kernels[0].nodes
    kernel = KernelAtNodes.of(squared_exponential, nodes, lengthscale)
    projections = np.zeros((difference.n_draws, len(kernel.nodes)))
    for block in sample.blocks():
        points, counts = sample.points[block], sample.counts[block]
        projections += (difference.evaluate(points) * counts) @ kernel.features(points)
    return np.asarray(np.sum((projections / sample.n_rows) ** 2, axis=1))


def sampling_draws(
    sample: PooledSample,
    points: np.ndarray,
    scale: np.ndarray,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the empirical witness with its sampling errors, (n_draws, m), by a multiplier bootstrap.

    The errors of a mean are the deviations of its rows with normal factors. A sample whose rows are
    all equal has no error otherwise, for example if none of them shows a rare event. Therefore
    each sample has :data:`PSEUDO_ROWS` pseudo-observations
    (:attr:`~bke.inference.permutation.pooled_sample.PooledSample.pseudo_squared_weights`; for
    pairs, see :func:`_pseudo_pairs`).

    Args:
        sample: pooled rows.
        points: (m, D), in standard deviations of the columns.
        scale: lengthscale of the kernel, (D,) or a number, in the same units.
        n_draws: number of draws.
        rng: random numbers.
    """

    def kernel(rows: np.ndarray) -> np.ndarray:
        return squared_exponential(rows / scale, points / scale, 1.0)

    if isinstance(sample, PairedSample):
        pseudo, size = _pseudo_pairs(sample), len(sample.partners)
        a, b = (sample.points[rows] for rows in np.concatenate([sample.partners, pseudo]).T)
        weights = np.repeat([1.0 / size, 0.0], [size, len(pseudo)])
        squares = np.repeat(
            [size**-2.0, PSEUDO_ROWS / len(pseudo) * size**-2.0], [size, len(pseudo)]
        )
        mean, errors = _mean_with_errors(
            lambda block: kernel(a[block]) - kernel(b[block]), weights, squares, n_draws, rng
        )
        return mean + errors
    (mean_p, errors_p), (mean_q, errors_q) = (
        _mean_with_errors(
            lambda block: kernel(sample.points[block]), weights, squares, n_draws, rng
        )
        for weights, squares in zip(
            sample.weights.T,
            (sample.squared_weights + sample.pseudo_squared_weights).T,
            strict=True,
        )
    )
    return mean_p - mean_q + errors_p - errors_q


def _pseudo_pairs(sample: PairedSample) -> np.ndarray:
    """Return the points (k, 2) of the pseudo-observations: all different pairs, in both orders.

    If the rows of each pair are equal, they are pairs of other points.
    """
    groups = tie_groups(sample.points)
    point = np.unique(groups, return_index=True)[1]
    pairs = np.unique(np.sort(groups[sample.partners], axis=1), axis=0)
    if (pairs[:, 0] == pairs[:, 1]).all():
        indices = np.arange(len(point))
        pairs = np.stack([indices, np.roll(indices, len(indices) // 2)], axis=1)
    return np.asarray(point[np.concatenate([pairs, pairs[:, ::-1]])])


def _mean_with_errors(
    values: Callable[[slice], np.ndarray],
    weights: np.ndarray,
    squares: np.ndarray,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (m,) of values (C, m), and draws (n_draws, m) of its error.

    Args:
        values: values (k, m) of a block of points.
        weights: (C,), with sum 1.
        squares: (C,), sums of the squared weights of single rows.
        n_draws: number of draws.
        rng: random numbers.
    """
    total, deviations, factors = 0.0, 0.0, np.zeros(n_draws)
    for start in range(0, len(weights), BLOCK):
        block = slice(start, start + BLOCK)
        block_values = values(block)
        normal = rng.normal(size=(n_draws, len(block_values))) * np.sqrt(squares[block])
        total, deviations = (
            total + weights[block] @ block_values,
            deviations + normal @ block_values,
        )
        factors += normal.sum(axis=1)
    mean = np.asarray(total)
    errors = np.asarray(deviations - np.outer(factors, mean))
    return mean, errors - errors.mean(axis=0)


def log_ratio_draws(difference: DifferenceDraws, points: np.ndarray) -> np.ndarray:
    """Evaluate log p/q of draws of h at points (m, D), (n_draws, m) (CMP-4).

    It is clipped at the log of :data:`MAX_RATIO`. With Gaussian labels a density may be negative;
    then it is at this limit.
    """
    h, fraction = difference.evaluate(points), difference.posterior.first_fraction
    p, q = np.maximum(1.0 + (1.0 - fraction) * h, TINY), np.maximum(1.0 - fraction * h, TINY)
    return np.clip(np.log(p) - np.log(q), -math.log(MAX_RATIO), math.log(MAX_RATIO))
