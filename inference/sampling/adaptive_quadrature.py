"""Adaptive quadrature of a log density over one or two coordinates, with its own error estimate.

Simpson's rule on boxes that are halved where the rule on the halves differs from that on the box.
The density of one hyperparameter has narrow zeros (|log gamma| diverges where a slope of the
empirical embedding changes sign), and rules of high order gain little at its kinks.

The rule gk15 of :func:`scipy.integrate.cubature` over the same range takes 1.3 to 1.8 times as many
evaluations for the same tolerance, and its error estimate holds (``benchmarks/quadrature.py``). It
does not return the nodes with their weights, from which draws, masses of modes and the profile of
the density follow here. It needs a range, which is found here, and a density that is
not a number counts as zero.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import SamplingError

#: Each iteration halves the boxes that have this fraction of the error, so that there are few
#: iterations with large batches.
ERROR_FRACTION = 0.9
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
) -> IntegratedDensity:
    """Integrate a density over d = 1 or 2 unbounded coordinates.

    Args:
        log_density: log density of points (k, d), shape (k,).
        low: lower end of the first range, (d,), widened until the density is negligible outside.
        high: upper end, (d,).
        tolerance: for the error of the log of the integral.
        max_evaluations: number after which to stop, whatever the error.

    Raises:
        SamplingError: where the density is zero everywhere, does not fall off,
            or is not a number where it matters.
    """
    grid = Grid(log_density, np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    boxes = grid.first_boxes()
    while True:
        weight = _weights(boxes, grid.top)
        with np.errstate(over="ignore"):  # a peak that only its flanks show may be much higher
            relative = np.exp(boxes["log_error"] - grid.top) / weight.sum()
        error = float(relative.sum())
        if error <= tolerance or len(grid.known) >= max_evaluations:
            break
        order = np.argsort(-relative)
        largest = np.cumsum(relative[order]) < ERROR_FRACTION * error
        new_points = 5 ** len(low) - 3 ** len(low)  # points per box that is halved
        num_boxes = max(1, (max_evaluations - len(grid.known)) // new_points)
        worst = order[: min(int(largest.sum()) + 1, num_boxes)]
        boxes = np.concatenate([np.delete(boxes, worst), grid.split(boxes[worst])])
    grid.check_numbers(boxes)
    corners = grid.coordinates(boxes["corner"])
    points = _nodes(boxes, 3).reshape(weight.size, -1)
    points, index = np.unique(points, axis=0, return_inverse=True)
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
        widths=grid.coordinates(boxes["corner"] + boxes["size"][:, None]) - corners,
        values=np.exp(boxes["log_density"] - grid.top),
        first_step=0.5 * UNITS * grid.unit,
    )


def _boxes(corner: np.ndarray, size: Any, log_density: np.ndarray, log_volume: Any) -> np.ndarray:
    """Return m cubes with the log density at their 3^d Simpson nodes, as a structured array.

    Args:
        corner: the lower one, in units, (m, d).
        size: length of the sides, in units.
        log_density: (m, 3, ..., 3).
        log_volume: log volume of each box, in the units of the coordinates.

    Their field ``log_error``, the log of the estimated error of each box's integral, is zero.
    """
    fields = {
        "corner": (corner, int),
        "size": (np.broadcast_to(size, len(corner)), int),
        "log_density": (log_density, float),
        "log_volume": (np.broadcast_to(log_volume, len(corner)), float),
        "log_error": (np.zeros(len(corner)), float),
    }
    dtype = [(name, kind, values.shape[1:]) for name, (values, kind) in fields.items()]
    boxes = np.empty(len(corner), dtype)
    for name, (values, _) in fields.items():
        boxes[name] = values
    return boxes


def _nodes(boxes: np.ndarray, along: int) -> np.ndarray:
    """Return a grid of ``along`` points per axis over each box, in units, (m, along^d, d)."""
    steps = np.array(list(itertools.product(range(along), repeat=boxes["corner"].shape[1])))
    return boxes["corner"][:, None] + (boxes["size"] // (along - 1))[:, None, None] * steps


def _weights(boxes: np.ndarray, top: Any) -> np.ndarray:
    """Return the contribution of every node, (m, 3^d); densities relative to ``top``."""
    dimension = boxes["corner"].shape[1]
    rule = functools.reduce(np.multiply.outer, [SIMPSON] * dimension).ravel()
    density = np.exp(boxes["log_density"].reshape(len(boxes), -1) - top)
    return density * rule * np.exp(boxes["log_volume"])[:, None]


class Grid:
    """Points with integer coordinates in a unit of length, and the log density where evaluated.

    Args:
        log_density: log density of points (k, d), shape (k,).
        low: lower end of the first range, (d,).
        high: upper end, (d,).

    Attributes:
        unit: length of the unit, (d,).
        known: log density by point, ``-inf`` where it is not a number.
    """

    def __init__(
        self, log_density: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
    ) -> None:
        self._log_density = log_density
        self._low = low
        line = len(low) == 1
        self._count = (
            max(2, int(np.ceil((high[0] - low[0]) / FIRST_WIDTH))) if line else FIRST_BOXES
        )
        self.unit = (high - low) / self._count / UNITS
        self.known: dict[tuple[int, ...], float] = {}
        self._not_numbers: set[tuple[int, ...]] = set()

    @property
    def top(self) -> float:
        """Highest log density so far."""
        return max(self.known.values())

    def coordinates(self, points: np.ndarray) -> np.ndarray:
        """Return the coordinates of points in units."""
        return self._low + self.unit * points

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

    def first_boxes(self) -> np.ndarray:
        """Return boxes over the range, widened until the density is negligible at its border."""
        d = len(self._low)
        start, stop = np.zeros(d, dtype=int), np.full(d, self._count)
        log_volume = np.log(UNITS * self.unit).sum()
        for _ in range(WIDENINGS + 1):
            axes = [np.arange(*ends) * UNITS for ends in zip(start, stop, strict=True)]
            corner = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
            boxes = _boxes(corner, UNITS, np.zeros((len(corner), *[3] * d)), log_volume)
            values = self.at(_nodes(boxes, 3).reshape(-1, d)).reshape(-1, *[3] * d)
            boxes["log_density"], boxes["log_error"] = (
                values,
                _upper_log_density(values) + log_volume,
            )
            if self.top == -np.inf:
                raise SamplingError("the density is zero everywhere over the range of the prior")
            # Whether the density is negligible at the lower and the upper end of every axis.
            low, high = (
                np.array(
                    [
                        np.moveaxis(values, axis + 1, 1)[corner[:, axis] == end[axis] * UNITS][
                            :, node
                        ].max()
                        > self.top - NEGLIGIBLE
                        for axis in range(d)
                    ]
                )
                for end, node in ((start, 0), (stop - 1, -1))
            )
            if not (low.any() or high.any()):
                return boxes
            half = (stop - start) // 2
            start, stop = start - np.where(low, half, 0), stop + np.where(high, half, 0)
        raise SamplingError(
            f"the posterior density does not fall off within {self.coordinates(start * UNITS)} to "
            f"{self.coordinates(stop * UNITS)} (unconstrained coordinates): is the prior proper?"
        )

    def split(self, parents: np.ndarray) -> np.ndarray:
        """Halve boxes; the change of their integrals is the error."""
        m, d = parents["corner"].shape
        fine = self.at(_nodes(parents, 5).reshape(-1, d)).reshape(m, *[5] * d)
        half = parents["size"] // 2
        parts = list(itertools.product((0, 1), repeat=d))
        children = _boxes(
            np.concatenate([parents["corner"] + half[:, None] * np.array(part) for part in parts]),
            np.tile(half, len(parts)),
            np.concatenate(
                [fine[(slice(None), *(slice(2 * p, 2 * p + 3) for p in part))] for part in parts]
            ),
            np.tile(parents["log_volume"] - d * np.log(2.0), len(parts)),
        )
        # Relative to the top of the parent: far below the top of all, everything would underflow.
        top = fine.reshape(m, -1).max(axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        coarse = _weights(parents, top).sum(axis=1)
        finer = _weights(children, np.tile(top, (len(parts), 1))).sum(axis=1).reshape(-1, m)
        with np.errstate(divide="ignore"):
            log_error = np.log(np.abs(finer.sum(axis=0) - coarse) / len(parts)) + top[:, 0]
        log_error = np.tile(log_error, len(parts))
        # Both integrals miss a ridge between the nodes; the curvature of the log density shows it.
        highest = children["log_density"].reshape(len(log_error), -1).max(axis=1)
        potential = _upper_log_density(children["log_density"])
        children["log_error"] = np.where(
            potential > highest + HIDDEN,
            np.maximum(log_error, potential + children["log_volume"]),
            log_error,
        )
        return children

    def check_numbers(self, boxes: np.ndarray) -> None:
        """Raise :class:`SamplingError` where the density is not a number near its mode."""
        high = boxes["log_density"].reshape(len(boxes), -1).max(axis=1) > self.top - NEGLIGIBLE
        for point in _nodes(boxes[high], 3).reshape(-1, len(self._low)):
            if tuple(point.tolist()) in self._not_numbers:
                raise SamplingError(
                    f"the density is not a number at {self.coordinates(point)} "
                    "(unconstrained coordinates), where it should not be negligible: "
                    "noise_variance is too small compared with R, or the data are not finite"
                )


def _upper_log_density(values: np.ndarray) -> np.ndarray:
    """Return an upper estimate of the log density in each box: its nodes, or the top of a parabola.

    A peak much narrower than a box shows only in the curvature at its nodes.
    """
    flat = values.reshape(len(values), -1)
    highest, middle = flat.max(axis=1), flat.shape[1] // 2
    # Lines through the center: along every axis and diagonal, each in one direction.
    for step in range(1, middle + 1):
        left, center, right = (flat[:, middle + t * step] for t in (-1, 0, 1))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            curvature = 2.0 * center - left - right
            at = (right - left) / (2.0 * curvature)
            top = center + (right - left) ** 2 / (8.0 * curvature)
        inside = np.isfinite(top) & (curvature > 0.0) & (np.abs(at) <= 1.0)
        highest = np.where(inside, np.maximum(highest, top), highest)
    return highest
