"""Adaptive quadrature of a log density over one or two coordinates, with its own error estimate.

The density of one hyperparameter has genuine narrow zeros (|log gamma| diverges where a slope of
the empirical embedding changes sign), so it has kinks everywhere and rules of high order gain
nothing. Simpson's rule on cells that are halved where it disagrees with itself converges at each
kink by itself; what is left of the disagreement is the error estimate.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np

from ..core.errors import SamplingError

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


#: Log density this far below the top is of no account: e^-40 is below rounding.
NEGLIGIBLE = 40.0
#: Width of the first cells on a line, and their number along each axis of a plane.
FIRST_WIDTH = 0.08
FIRST_CELLS = 16
#: How often the range may be widened by half before the density counts as improper.
WIDENINGS = 8
#: Units along a first cell: it can be halved 28 times.
UNITS = 2**30
#: A parabola that rises this many nats above the nodes shows that they miss what matters.
HIDDEN = 1.0
SIMPSON = np.array([1.0, 4.0, 1.0]) / 6.0


@dataclasses.dataclass(frozen=True)
class Cells:
    """Cubes with the log density at their 3^d Simpson nodes.

    Attributes:
        corner: the lower one, in units, (m, d).
        size: length of the sides, in units, (m,).
        log_density: (m, 3, ..., 3).
        log_volume: of each cell, in the units of the coordinates, (m,).
        log_error: log of the estimated error of each cell's integral, (m,).
    """

    corner: np.ndarray
    size: np.ndarray
    log_density: np.ndarray
    log_volume: np.ndarray
    log_error: np.ndarray

    @property
    def dimension(self) -> int:
        """The number of coordinates d."""
        return int(self.corner.shape[1])

    def points(self) -> np.ndarray:
        """The Simpson nodes in units, (m, 3^d, d)."""
        return _nodes(self.corner, self.size, 3)

    def weights(self, top: float) -> np.ndarray:
        """Integral over each node's share of the cell, (m, 3^d); densities relative to ``top``."""
        rule = functools.reduce(np.multiply.outer, [SIMPSON] * self.dimension).ravel()
        density = np.exp(self.log_density.reshape(len(self.size), -1) - top)
        return density * rule * np.exp(self.log_volume)[:, None]

    def relative_error(self, top: float) -> np.ndarray:
        """The error of each cell over the integral of all."""
        with np.errstate(over="ignore"):  # a peak that only its flanks show may be much higher
            return np.exp(self.log_error - top) / self.weights(top).sum()

    def split(self, chosen: np.ndarray, grid: Grid) -> Cells:
        """Halve the ``chosen`` cells along each axis and see how much their integrals change."""
        d, m = self.dimension, len(chosen)
        parents = self._some(chosen)
        fine = grid.at(_nodes(parents.corner, parents.size, 5).reshape(-1, d))
        fine = fine.reshape(m, *[5] * d)
        half = parents.size // 2
        parts = list(itertools.product((0, 1), repeat=d))
        children = Cells(
            np.concatenate([parents.corner + half[:, None] * np.array(part) for part in parts]),
            np.tile(half, len(parts)),
            np.concatenate(
                [fine[(slice(None), *(slice(2 * p, 2 * p + 3) for p in part))] for part in parts]
            ),
            np.tile(parents.log_volume - d * np.log(2.0), len(parts)),
            np.zeros(m * len(parts)),
        )
        # Each family relative to its own top: far below the grid's top all would be zero.
        top = fine.reshape(m, -1).max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        coarse = parents._integrals(top)
        finer = children._integrals(np.tile(top, len(parts))).reshape(len(parts), m)
        with np.errstate(divide="ignore"):
            share = np.log(np.abs(finer.sum(axis=0) - coarse) / len(parts)) + top
        share = np.tile(share, len(parts))
        # A ridge between the nodes leaves both integrals at nothing; its flanks give it away.
        highest = children.log_density.reshape(len(share), -1).max(axis=1)
        potential = _potential(children.log_density)
        hidden = potential > highest + HIDDEN
        share = np.where(hidden, np.maximum(share, potential + children.log_volume), share)
        children = dataclasses.replace(children, log_error=share)
        kept = np.ones(len(self.size), dtype=bool)
        kept[chosen] = False
        return _joined(self._some(kept), children)

    def _integrals(self, top: np.ndarray) -> np.ndarray:
        relative = dataclasses.replace(
            self, log_density=self.log_density - top.reshape(-1, *[1] * self.dimension)
        )
        return relative.weights(0.0).sum(axis=1)

    def _some(self, index: np.ndarray) -> Cells:
        return Cells(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def _joined(first: Cells, second: Cells) -> Cells:
    names = [field.name for field in dataclasses.fields(Cells)]
    return Cells(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))


def _nodes(corner: np.ndarray, size: np.ndarray, along: int) -> np.ndarray:
    """A grid of ``along`` points per axis over each cell, (m, along^d, d)."""
    steps = np.array(list(itertools.product(range(along), repeat=corner.shape[1])))
    step = size // (along - 1)
    return corner[:, None, :] + step[:, None, None] * steps


class Grid:
    """Where whole numbers of units lie, and the log density at those that were asked for.

    Args:
        log_density: of points (k, d), (k,).
        low: where to start, (d,).
        high: likewise.
    """

    def __init__(
        self, log_density: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
    ) -> None:
        self._log_density = log_density
        self._low = low
        line = len(low) == 1
        cells = max(2, int(np.ceil((high[0] - low[0]) / FIRST_WIDTH))) if line else FIRST_CELLS
        self._cells = np.full(len(low), cells)
        self._unit = (high - low) / cells / UNITS
        self.known: dict[tuple[int, ...], float] = {}
        self._not_numbers: set[tuple[int, ...]] = set()

    @property
    def top(self) -> float:
        """The highest log density so far."""
        return max(self.known.values())

    @property
    def first_step(self) -> np.ndarray:
        """Distance of neighbouring nodes of the first cells, (d,)."""
        return 0.5 * UNITS * self._unit

    def place(self, points: np.ndarray) -> np.ndarray:
        """Coordinates of points in units."""
        return self._low + self._unit * points

    def at(self, points: np.ndarray) -> np.ndarray:
        """Log density at points in units, (k, d); each is evaluated once."""
        keys = [tuple(point) for point in points.tolist()]
        new = [key for key in dict.fromkeys(keys) if key not in self.known]
        if new:
            values = self._log_density(self.place(np.array(new)))
            for key, value in zip(new, values.tolist(), strict=True):
                number = value < np.inf  # neither NaN nor a density that overflowed
                if not number:
                    self._not_numbers.add(key)
                self.known[key] = value if number else -np.inf
        return np.array([self.known[key] for key in keys])

    def first_cells(self) -> Cells:
        """Cells over the whole range, widened until the density is negligible at its border."""
        start, stop = np.zeros(len(self._low), dtype=int), self._cells.copy()
        for _ in range(WIDENINGS + 1):
            cells = self._cells_over(start, stop)
            if self.top == -np.inf:
                raise SamplingError("the density is zero everywhere over the range of the prior")
            wide = stop - start
            open_low, open_high = self._open_faces(cells, start, stop)
            if not (open_low.any() or open_high.any()):
                return cells
            start = start - np.where(open_low, wide // 2, 0)
            stop = stop + np.where(open_high, wide // 2, 0)
        raise SamplingError(
            f"the posterior density does not fall off within {self.place(start * UNITS)} to "
            f"{self.place(stop * UNITS)} (unconstrained coordinates): is the prior proper?"
        )

    def check_numbers(self, cells: Cells) -> None:
        """Raise :class:`SamplingError` where the density is not a number beside where it counts."""
        if not self._not_numbers:
            return
        high = cells.log_density.reshape(len(cells.size), -1).max(axis=1) > self.top - NEGLIGIBLE
        for point in cells.points()[high].reshape(-1, cells.dimension).tolist():
            if tuple(point) in self._not_numbers:
                raise SamplingError(
                    f"the density is not a number at {self.place(np.array(point))} (unconstrained "
                    "coordinates), where it should not be negligible: noise_variance is too small "
                    "beside R, or the data are not finite"
                )

    def _cells_over(self, start: np.ndarray, stop: np.ndarray) -> Cells:
        axes = [np.arange(a, b) * UNITS for a, b in zip(start, stop, strict=True)]
        corner = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        size = np.full(len(corner), UNITS)
        d = corner.shape[1]
        values = self.at(_nodes(corner, size, 3).reshape(-1, d)).reshape(-1, *[3] * d)
        log_volume = np.full(len(corner), np.log(UNITS * self._unit).sum())
        return Cells(corner, size, values, log_volume, _potential(values) + log_volume)

    def _open_faces(
        self, cells: Cells, start: np.ndarray, stop: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Along which axes the density is not yet negligible at the lower and the upper end."""
        low, high = [], []
        for axis in range(cells.dimension):
            values = np.moveaxis(cells.log_density, axis + 1, 1)
            limit = self.top - NEGLIGIBLE
            low.append(values[cells.corner[:, axis] == start[axis] * UNITS][:, 0].max() > limit)
            last = (stop[axis] - 1) * UNITS
            high.append(values[cells.corner[:, axis] == last][:, -1].max() > limit)
        return np.array(low), np.array(high)


def _potential(values: np.ndarray) -> np.ndarray:
    """How high the log density may be inside each cell: its nodes, or a parabola's top.

    A peak much narrower than a cell shows only in the curvature of what is left of its flanks.
    """
    d = values.ndim - 1
    highest = values.reshape(len(values), -1).max(axis=1)
    # Lines through the centre: along every axis and diagonal, each in one direction.
    lines = [line for line in itertools.product((-1, 0, 1), repeat=d) if line > (0,) * d]
    for line in lines:
        left, centre, right = (
            values.reshape(len(values), -1)[:, _node(line, t)] for t in (-1, 0, 1)
        )
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            curvature = 2.0 * centre - left - right
            at = (right - left) / (2.0 * curvature)
            top = centre + (right - left) ** 2 / (8.0 * curvature)
        inside = np.isfinite(top) & (curvature > 0.0) & (np.abs(at) <= 1.0)
        highest = np.where(inside, np.maximum(highest, top), highest)
    return highest


def _node(line: tuple[int, ...], t: int) -> int:
    """Index among the 3^d nodes of the one ``t`` steps from the centre along ``line``."""
    index = 0
    for step in line:
        index = 3 * index + 1 + t * step
    return index
