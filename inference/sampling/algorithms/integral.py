"""Adaptive quadrature of a log density over one or two coordinates, with its own error estimate.

The density of one hyperparameter has genuine narrow zeros (|log gamma| diverges where a slope of
the empirical embedding changes sign), so it has kinks everywhere and rules of high order gain
nothing. Simpson's rule on cells that are halved where it disagrees with itself converges at each
kink by itself; what is left of the disagreement is the error estimate.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from .cells import Cells, Grid

#: A round splits the cells with this share of the error, so that rounds are few and batches full.
SHARE = 0.9
#: Points that halving a cell adds, by dimension.
NEW_POINTS = {1: 2, 2: 16}


@dataclasses.dataclass(frozen=True)
class IntegratedDensity:
    """A density as weighted nodes and as cells, see :func:`integrate`.

    Attributes:
        nodes: where the density was evaluated, (k, d), in order of the first coordinate.
        log_density: there, (k,); ``-inf`` where it is zero.
        weight: posterior probability of each node, (k,), sums to one.
        log_normalizer: log of the integral.
        error: estimated absolute error of ``log_normalizer``, that is relative of the integral.
        evaluations: how many there were.
        corners: lower corner of every cell, (m, d).
        widths: of the cells, (m, d).
        first_step: distance of the nodes of the first grid, (d,).
        values: density at the 3^d nodes of each cell over its largest value, (m, 3, ..., 3).
    """

    nodes: np.ndarray
    log_density: np.ndarray
    weight: np.ndarray
    log_normalizer: float
    error: float
    evaluations: int
    corners: np.ndarray
    widths: np.ndarray
    values: np.ndarray
    first_step: np.ndarray

    def draws(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Independent draws (count, d) by inversion, and the log density at them (count,).

        A part of a cell is drawn by its mass and a point within it from the density between its
        corners, which is linear along each axis.
        """
        d = self.corners.shape[1]
        half = 0.5 * self.widths
        parts = list(itertools.product((0, 1), repeat=d))
        corners = np.concatenate([self.corners + half * np.array(part) for part in parts])
        sides = np.concatenate([half] * len(parts))
        values = np.concatenate(
            [self.values[(slice(None), *(slice(p, p + 2) for p in part))] for part in parts]
        )
        mass = values.reshape(len(values), -1).mean(axis=1) * np.prod(sides, axis=1)
        total = np.cumsum(mass)
        chosen = np.searchsorted(total, rng.uniform(size=count) * total[-1], side="right")
        values, result = values[chosen], np.empty((count, d))
        for axis in range(d):
            ends = values.reshape(count, 2, -1).mean(axis=2)
            at = _linear(ends[:, 0], ends[:, 1], rng.uniform(size=count))
            result[:, axis] = corners[chosen, axis] + sides[chosen, axis] * at
            shape = (count, *[1] * (values.ndim - 2))
            values = values[:, 0] * (1 - at).reshape(shape) + values[:, 1] * at.reshape(shape)
        with np.errstate(divide="ignore"):
            return result, np.log(values) + self.log_density.max()


def _linear(left: np.ndarray, right: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The u-quantile on (0, 1) of a density that runs linearly from ``left`` to ``right``."""
    squared = (1 - u) * left**2 + u * right**2
    # Rationalised: (sqrt(squared) - left) / (right - left) loses everything where they are equal.
    denominator = np.sqrt(squared) + left
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, u * (left + right) / safe, u)


def integrate(
    log_density: Callable[[np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *,
    tolerance: float,
    most: int,
    progress: Callable[[int, float], None] = lambda evaluations, error: None,
) -> IntegratedDensity:
    """Integrate a density over d = 1 or 2 unbounded coordinates.

    Args:
        log_density: of points (k, d), (k,).
        low: where to start, (d,); the range is widened until the density is negligible beyond.
        high: likewise.
        tolerance: for the error of the log normaliser.
        most: evaluations after which to stop; the error then is what it is.
        progress: called with the evaluations so far and the error.

    Raises:
        SamplingError: where the density is zero everywhere, cannot be told from an improper one,
            or is not a number where it matters.
    """
    grid = Grid(log_density, np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    cells = grid.first_cells()
    while True:
        relative = cells.relative_error(grid.top)
        error = float(relative.sum())
        progress(len(grid.known), error)
        if error <= tolerance or len(grid.known) >= most:
            return _result(cells, grid, error)
        order = np.argsort(-relative)
        largest = np.cumsum(relative[order]) < SHARE * error
        room = max(1, (most - len(grid.known)) // NEW_POINTS[len(grid.first_step)])
        worst = order[: min(int(largest.sum()) + 1, room)]
        cells = cells.split(worst, grid)


def _result(cells: Cells, grid: Grid, error: float) -> IntegratedDensity:
    grid.check_numbers(cells)
    corners, widths = grid.place(cells.corner), grid.place(cells.corner + cells.size[:, None])
    weight = cells.weights(grid.top)
    points, index = np.unique(cells.points().reshape(weight.size, -1), axis=0, return_inverse=True)
    summed = np.bincount(index.ravel(), weight.ravel())
    total = summed.sum()
    return IntegratedDensity(
        nodes=grid.place(points),
        log_density=grid.at(points),
        weight=summed / total,
        log_normalizer=float(grid.top + np.log(total)),
        error=error,
        evaluations=len(grid.known),
        corners=corners,
        widths=widths - corners,
        values=np.exp(cells.log_density - grid.top),
        first_step=grid.first_step,
    )
