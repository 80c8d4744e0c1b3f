"""Values with weights: their quantiles, and draws in proportion to the weights."""

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
    """Quantiles (levels, ...) of ``values`` (k, ...) with ``weights`` (k,), by NumPy's names.

    ``"linear"``: the distribution function is linear between the values, each at the middle of its
    weight, from 0 at the smallest to 1 at the largest: for equal weights NumPy's default.
    ``"inverted_cdf"``: the smallest value up to which there is that much of the weight.
    """
    if len(weights) and (weights == weights[0]).all():  # nothing of a million rows is sorted
        return np.asarray(np.quantile(values, levels, axis=0, method=method))
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0)
    steps = weights[order]
    below = np.cumsum(steps, axis=0)
    sort = [flat[order[:, column], column] for column in range(flat.shape[1])]
    if method == "inverted_cdf":
        found = [
            one[np.searchsorted(mass, np.asarray(levels) * mass[-1]).clip(max=len(one) - 1)]
            for one, mass in zip(sort, below.T, strict=True)
        ]
    else:
        middle = below - 0.5 * steps
        middle = (middle - middle[0]) / np.where(len(values) > 1, middle[-1] - middle[0], 1.0)
        found = [np.interp(levels, mass, one) for one, mass in zip(sort, middle.T, strict=True)]
    return np.stack(found, axis=-1).reshape(len(levels), *values.shape[1:])


def systematic(weight: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Indices (count,) in proportion to weights (M,), by one random number.

    Each index comes up as often as its share says, rounded up or down: Kitagawa, *Monte Carlo
    filter and smoother for non-Gaussian nonlinear state space models* (1996).
    """
    points = (np.arange(count) + rng.random()) / count
    edges = np.cumsum(weight)
    # Rounding may leave the last edge below the last point.
    return np.minimum(np.searchsorted(edges / edges[-1], points, side="right"), len(weight) - 1)
