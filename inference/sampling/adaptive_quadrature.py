"""Adaptive quadrature of a log density over one or two coordinates, with its own error estimate.

Simpson's rule on boxes that are halved where the rule on the halves differs from that on the box.
The density of one hyperparameter has narrow zeros (|log gamma| diverges where a slope of the
empirical embedding changes sign), and rules of high order gain little at its kinks.

The rule gk15 of :func:`scipy.integrate.cubature` over the same range takes 1.3 to 1.8 times as many
evaluations for the same tolerance, and its error estimate holds (``benchmarks/quadrature.py``). It
does not return the nodes with their weights, from which draws, masses of modes and the profile of
the density follow here. It needs a range, which is found here, and takes a density that is
not a number for one that is zero.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np

from ..core.errors import SamplingError

#: Each iteration halves the boxes that have this fraction of the error, so that there are few
#: iterations with large batches.
ERROR_FRACTION = 0.9
#: Number of points that halving a box adds, by dimension.
NEW_POINTS = {1: 2, 2: 16}


@dataclasses.dataclass(frozen=True)
class IntegratedDensity:
    """A density as weighted nodes and as boxes, see :func:`integrate`.

    Attributes:
        nodes: where the density was evaluated, (k, d), in order of the first coordinate.
        log_density: there, (k,); ``-inf`` where it is zero.
        weight: posterior probability of each node, (k,), sums to one.
        log_normalizer: log of the integral.
        error: estimated absolute error of ``log_normalizer``, that is relative of the integral.
        evaluations: number of evaluations.
        corners: lower corner of every box, (m, d).
        widths: widths of the boxes, (m, d).
        first_step: distance of the nodes of the first grid, (d,).
        values: density at the 3^d nodes of each box over its largest value, (m, 3, ..., 3).
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
        """Return independent draws (count, d) by inversion, and their log density (count,).

        A part of a box is drawn by its mass and a point within it from the density between its
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
    """Return the u-quantile on (0, 1) of a density linear from ``left`` to ``right``."""
    squared = (1 - u) * left**2 + u * right**2
    # Rationalized: (sqrt(squared) - left) / (right - left) is 0 / 0 where they are equal.
    denominator = np.sqrt(squared) + left
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, u * (left + right) / safe, u)


def integrate(
    log_density: Callable[[np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    *,
    tolerance: float,
    max_evaluations: int,
    progress: Callable[[int, float], None] = lambda evaluations, error: None,
) -> IntegratedDensity:
    """Integrate a density over d = 1 or 2 unbounded coordinates.

    Args:
        log_density: log density of points (k, d), shape (k,).
        low: lower end of the first range, (d,), widened until the density is negligible outside.
        high: upper end, (d,).
        tolerance: for the error of the log of the integral.
        max_evaluations: number after which to stop, whatever the error.
        progress: called with the evaluations so far and the error.

    Raises:
        SamplingError: where the density is zero everywhere, does not fall off,
            or is not a number where it matters.
    """
    grid = Grid(log_density, np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    boxes = grid.first_boxes()
    while True:
        relative = boxes.relative_error(grid.top)
        error = float(relative.sum())
        progress(len(grid.known), error)
        if error <= tolerance or len(grid.known) >= max_evaluations:
            return _result(boxes, grid, error)
        order = np.argsort(-relative)
        largest = np.cumsum(relative[order]) < ERROR_FRACTION * error
        num_boxes = max(1, (max_evaluations - len(grid.known)) // NEW_POINTS[len(grid.first_step)])
        worst = order[: min(int(largest.sum()) + 1, num_boxes)]
        boxes = boxes.split(worst, grid)


def _result(boxes: Boxes, grid: Grid, error: float) -> IntegratedDensity:
    grid.check_numbers(boxes)
    corners, widths = (
        grid.coordinates(boxes.corner),
        grid.coordinates(boxes.corner + boxes.size[:, None]),
    )
    weight = boxes.weights(grid.top)
    points, index = np.unique(boxes.points().reshape(weight.size, -1), axis=0, return_inverse=True)
    summed = np.bincount(index.ravel(), weight.ravel())
    total = summed.sum()
    return IntegratedDensity(
        nodes=grid.coordinates(points),
        log_density=grid.at(points),
        weight=summed / total,
        log_normalizer=float(grid.top + np.log(total)),
        error=error,
        evaluations=len(grid.known),
        corners=corners,
        widths=widths - corners,
        values=np.exp(boxes.log_density - grid.top),
        first_step=grid.first_step,
    )


#: Log density this far below the top is of no account: e^-40 is below rounding.
NEGLIGIBLE = 40.0
#: Width of the first boxes on a line, and their number along each axis of a plane.
FIRST_WIDTH = 0.08
FIRST_BOXES = 16
#: Number of times that the range may be widened by half before the density counts as improper.
WIDENINGS = 8
#: Units along a first box: it can be halved 28 times.
UNITS = 2**30
#: A parabola that rises this many nats above the nodes shows that they miss what matters.
HIDDEN = 1.0
SIMPSON = np.array([1.0, 4.0, 1.0]) / 6.0


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Cubes with the log density at their 3^d Simpson nodes.

    Attributes:
        corner: the lower one, in units, (m, d).
        size: length of the sides, in units, (m,).
        log_density: (m, 3, ..., 3).
        log_volume: log volume of each box, in the units of the coordinates, (m,).
        log_error: log of the estimated error of each box's integral, (m,).
    """

    corner: np.ndarray
    size: np.ndarray
    log_density: np.ndarray
    log_volume: np.ndarray
    log_error: np.ndarray

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return int(self.corner.shape[1])

    def points(self) -> np.ndarray:
        """Return the Simpson nodes in units, (m, 3^d, d)."""
        return _nodes(self.corner, self.size, 3)

    def weights(self, top: float) -> np.ndarray:
        """Return the contribution of every node, (m, 3^d); densities relative to ``top``."""
        rule = functools.reduce(np.multiply.outer, [SIMPSON] * self.dimension).ravel()
        density = np.exp(self.log_density.reshape(len(self.size), -1) - top)
        return density * rule * np.exp(self.log_volume)[:, None]

    def relative_error(self, top: float) -> np.ndarray:
        """Return the error of each box over the integral of all."""
        with np.errstate(over="ignore"):  # a peak that only its flanks show may be much higher
            return np.exp(self.log_error - top) / self.weights(top).sum()

    def split(self, chosen: np.ndarray, grid: Grid) -> Boxes:
        """Halve the ``chosen`` boxes; the change of their integrals is the error."""
        d, m = self.dimension, len(chosen)
        parents = self._select(chosen)
        fine = grid.at(_nodes(parents.corner, parents.size, 5).reshape(-1, d))
        fine = fine.reshape(m, *[5] * d)
        half = parents.size // 2
        parts = list(itertools.product((0, 1), repeat=d))
        children = Boxes(
            np.concatenate([parents.corner + half[:, None] * np.array(part) for part in parts]),
            np.tile(half, len(parts)),
            np.concatenate(
                [fine[(slice(None), *(slice(2 * p, 2 * p + 3) for p in part))] for part in parts]
            ),
            np.tile(parents.log_volume - d * np.log(2.0), len(parts)),
            np.zeros(m * len(parts)),
        )
        # Relative to the top of the parent: far below the top of all, everything would underflow.
        top = fine.reshape(m, -1).max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        coarse = parents._integrals(top)
        finer = children._integrals(np.tile(top, len(parts))).reshape(len(parts), m)
        with np.errstate(divide="ignore"):
            log_error = np.log(np.abs(finer.sum(axis=0) - coarse) / len(parts)) + top
        log_error = np.tile(log_error, len(parts))
        # Both integrals miss a ridge between the nodes; the curvature of the log density shows it.
        highest = children.log_density.reshape(len(log_error), -1).max(axis=1)
        potential = _potential(children.log_density)
        hidden = potential > highest + HIDDEN
        log_error = np.where(
            hidden, np.maximum(log_error, potential + children.log_volume), log_error
        )
        children = dataclasses.replace(children, log_error=log_error)
        unsplit = np.ones(len(self.size), dtype=bool)
        unsplit[chosen] = False
        return _joined(self._select(unsplit), children)

    def _integrals(self, top: np.ndarray) -> np.ndarray:
        relative = dataclasses.replace(
            self, log_density=self.log_density - top.reshape(-1, *[1] * self.dimension)
        )
        return relative.weights(0.0).sum(axis=1)

    def _select(self, index: np.ndarray) -> Boxes:
        return Boxes(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def _joined(first: Boxes, second: Boxes) -> Boxes:
    names = [field.name for field in dataclasses.fields(Boxes)]
    return Boxes(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))


def _nodes(corner: np.ndarray, size: np.ndarray, along: int) -> np.ndarray:
    """Return a grid of ``along`` points per axis over each box, (m, along^d, d)."""
    steps = np.array(list(itertools.product(range(along), repeat=corner.shape[1])))
    step = size // (along - 1)
    return corner[:, None, :] + step[:, None, None] * steps


class Grid:
    """Points with integer coordinates in a unit of length, and the log density where evaluated.

    Args:
        log_density: log density of points (k, d), shape (k,).
        low: lower end of the first range, (d,).
        high: upper end, (d,).
    """

    def __init__(
        self, log_density: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
    ) -> None:
        self._log_density = log_density
        self._low = low
        line = len(low) == 1
        boxes = max(2, int(np.ceil((high[0] - low[0]) / FIRST_WIDTH))) if line else FIRST_BOXES
        self._shape = np.full(len(low), boxes)
        self._unit = (high - low) / boxes / UNITS
        self.known: dict[tuple[int, ...], float] = {}
        self._not_numbers: set[tuple[int, ...]] = set()

    @property
    def top(self) -> float:
        """Highest log density so far."""
        return max(self.known.values())

    @property
    def first_step(self) -> np.ndarray:
        """Distance of neighboring nodes of the first boxes, (d,)."""
        return 0.5 * UNITS * self._unit

    def coordinates(self, points: np.ndarray) -> np.ndarray:
        """Return the coordinates of points in units."""
        return self._low + self._unit * points

    def at(self, points: np.ndarray) -> np.ndarray:
        """Return the log density at points in units, (k, d); each is evaluated once."""
        keys = [tuple(point) for point in points.tolist()]
        new = [key for key in dict.fromkeys(keys) if key not in self.known]
        if new:
            values = self._log_density(self.coordinates(np.array(new)))
            for key, value in zip(new, values.tolist(), strict=True):
                number = value < np.inf  # neither NaN nor a density that overflowed
                if not number:
                    self._not_numbers.add(key)
                self.known[key] = value if number else -np.inf
        return np.array([self.known[key] for key in keys])

    def first_boxes(self) -> Boxes:
        """Return boxes over the range, widened until the density is negligible at its border."""
        start, stop = np.zeros(len(self._low), dtype=int), self._shape.copy()
        for _ in range(WIDENINGS + 1):
            boxes = self._boxes_over(start, stop)
            if self.top == -np.inf:
                raise SamplingError("the density is zero everywhere over the range of the prior")
            wide = stop - start
            open_low, open_high = self._open_faces(boxes, start, stop)
            if not (open_low.any() or open_high.any()):
                return boxes
            start = start - np.where(open_low, wide // 2, 0)
            stop = stop + np.where(open_high, wide // 2, 0)
        raise SamplingError(
            f"the posterior density does not fall off within {self.coordinates(start * UNITS)} to "
            f"{self.coordinates(stop * UNITS)} (unconstrained coordinates): is the prior proper?"
        )

    def check_numbers(self, boxes: Boxes) -> None:
        """Raise :class:`SamplingError` where the density is not a number near its mode."""
        if not self._not_numbers:
            return
        high = boxes.log_density.reshape(len(boxes.size), -1).max(axis=1) > self.top - NEGLIGIBLE
        for point in boxes.points()[high].reshape(-1, boxes.dimension).tolist():
            if tuple(point) in self._not_numbers:
                raise SamplingError(
                    f"the density is not a number at {self.coordinates(np.array(point))} "
                    "(unconstrained coordinates), where it should not be negligible: "
                    "noise_variance is too small compared with R, or the data are not finite"
                )

    def _boxes_over(self, start: np.ndarray, stop: np.ndarray) -> Boxes:
        axes = [np.arange(a, b) * UNITS for a, b in zip(start, stop, strict=True)]
        corner = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        size = np.full(len(corner), UNITS)
        d = corner.shape[1]
        values = self.at(_nodes(corner, size, 3).reshape(-1, d)).reshape(-1, *[3] * d)
        log_volume = np.full(len(corner), np.log(UNITS * self._unit).sum())
        return Boxes(corner, size, values, log_volume, _potential(values) + log_volume)

    def _open_faces(
        self, boxes: Boxes, start: np.ndarray, stop: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the axes with a density that is not negligible at the lower and upper end."""
        low, high = [], []
        for axis in range(boxes.dimension):
            values = np.moveaxis(boxes.log_density, axis + 1, 1)
            limit = self.top - NEGLIGIBLE
            low.append(values[boxes.corner[:, axis] == start[axis] * UNITS][:, 0].max() > limit)
            last = (stop[axis] - 1) * UNITS
            high.append(values[boxes.corner[:, axis] == last][:, -1].max() > limit)
        return np.array(low), np.array(high)


def _potential(values: np.ndarray) -> np.ndarray:
    """Return an upper estimate of the log density in each box: its nodes, or the top of a parabola.

    A peak much narrower than a box shows only in the curvature at its nodes.
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
    """Return the index of the node ``t`` steps from the center along ``line``."""
    index = 0
    for step in line:
        index = 3 * index + 1 + t * step
    return index
