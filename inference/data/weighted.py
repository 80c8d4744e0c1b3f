"""Quantiles of weighted values, and systematic resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np


def weighted_quantiles(
    values: np.ndarray,
    weights: np.ndarray,
    levels: Sequence[float],
    *,
    method: Literal["linear", "inverted_cdf"] = "linear",
) -> np.ndarray:
    """Compute quantiles of weighted values.

    Args:
        values: (k, ...).
        weights: (k,).
        levels: probabilities of the quantiles.
        method: named as in :func:`numpy.quantile`. ``"linear"`` interpolates the distribution
            function between the values. Each value is at the middle of its weight, and the
            function is rescaled to 0 at the smallest value and 1 at the largest. With equal weights
            this is NumPy's default. ``"inverted_cdf"`` takes the smallest value at which the
            cumulative weight reaches the level.

    Returns:
        Quantiles (levels, ...).
    """
    if len(weights) and (weights == weights[0]).all():  # saves the sort of a million rows
        return np.asarray(np.quantile(values, levels, axis=0, method=method))
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0)
    steps = weights[order]
    cumulative = np.cumsum(steps, axis=0)
    columns = [flat[order[:, index], index] for index in range(flat.shape[1])]
    if method == "inverted_cdf":
        quantiles = [
            column[np.searchsorted(cdf, np.asarray(levels) * cdf[-1]).clip(max=len(column) - 1)]
            for column, cdf in zip(columns, cumulative.T, strict=True)
        ]
    else:
        middle = cumulative - 0.5 * steps
        middle = (middle - middle[0]) / np.where(len(values) > 1, middle[-1] - middle[0], 1.0)
        quantiles = [
            np.interp(levels, cdf, column) for column, cdf in zip(columns, middle.T, strict=True)
        ]
    return np.stack(quantiles, axis=-1).reshape(len(levels), *values.shape[1:])


def systematic(weight: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw indices (count,) in proportion to weights (M,) by systematic resampling.

    One random number determines all indices. The count of each index is its expected count, rounded
    up or down.

    References:
        Kitagawa (1996), Monte Carlo filter and smoother for non-Gaussian nonlinear state space
        models, Journal of Computational and Graphical Statistics 5.
    """
    points = (np.arange(count) + rng.random()) / count
    edges = np.cumsum(weight)
    # Rounding may leave the last edge below the last point.
    return np.minimum(np.searchsorted(edges / edges[-1], points, side="right"), len(weight) - 1)
