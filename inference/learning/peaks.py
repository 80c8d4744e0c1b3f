"""The highest place of every mode of an objective, by a kept optimiser from many starts.

The density has narrow genuine zeros at which a gradient step stops. So each mode is found on the
*smoothed* density first, and the optimiser is started at many places around its top.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.stats.qmc import MultivariateNormalQMC

from ..core.errors import SamplingError
from ..core.machine import side_by_side
from ..core.progress import progress_bar
from ..diagnostics.profile_modes import basins
from ..sampling import profile, programs
from ..sampling.barriers import connect, groups
from ..sampling.profile import SMOOTHING, smooth
from ..sampling.target import Points, Target, flatten, unflatten

#: Of the profile that says where to start: a third of the smoothing apart over the range of the
#: default prior. Three times as many find the same peaks.
GRID_POINTS = 250
#: Starts are where the smoothed objective is this close to the top of its basin, in nats.
WINDOW = 5.0
#: Stands for a value that is not finite: an optimiser steps back from it.
NONE = 1e15
#: Places around a peak that a quadratic is fitted to, with one hyperparameter and with more, and at
#: least so many for each of its coefficients. With 400 the curvature of two lengthscales is known
#: to a tenth of the largest.
CLOUDS, CLOUD_PER_COEFFICIENT = (100, 400), 20
#: Modes that get the second round of starts, the highest ones.
MOST_POLISHED = 6
#: Bounds of the optimiser: the range of the prior draws and this much more, unconstrained.
MARGIN = 1.0


@dataclasses.dataclass(frozen=True)
class Top:
    """The highest unconstrained place of a mode."""

    z: np.ndarray
    value: float
    middle: np.ndarray | None  # where its curvature is taken; None at the end of the range
    basin: tuple[float, float] | None
    starts: int
    at_bound: bool


class PeakSearch:
    """The objective of one target on one data set, and the ways to its peaks."""

    def __init__(
        self,
        target: Target,
        points: Points,
        prior_draws: Mapping[str, np.ndarray],
        evaluate: profile.BatchLogDensity,
        objective: str,
        progress: bool,
    ) -> None:
        self.target = target
        self.points = points
        self.prior = flatten(prior_draws)
        self.low, self.high = self.prior.min(axis=0) - MARGIN, self.prior.max(axis=0) + MARGIN
        self.evaluate = evaluate
        self.likelihood = evaluate if objective == "ml" else programs.objectives(target, "ml")
        self.slopes = programs.objective_slopes(target, objective)
        self.progress = progress

    def values(self, flat: np.ndarray, points: Points | None = None) -> np.ndarray:
        """The objective (k,) at places (k, p); of other points than its own, where given."""
        points = self.points if points is None else points
        return profile.log_densities(self.evaluate, unflatten(flat, self.target.shapes), points)

    def _density(self, z: Mapping[str, np.ndarray]) -> np.ndarray:
        return profile.log_densities(self.evaluate, z, self.points)

    def climb(
        self, starts: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends (k, p) and values (k,) of L-BFGS-B from ``starts`` (k, p), within bounds (k, p)."""
        points = jax.tree.map(jnp.asarray, self.points)
        stop = Event()

        def negative(flat: np.ndarray) -> tuple[float, np.ndarray]:
            if stop.is_set():
                raise SamplingError("stopped before a peak was reached")
            z = unflatten(jnp.asarray(flat), self.target.shapes)
            value, slope = self.slopes(z, points)
            gradient = flatten(slope, leading=0)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return NONE, np.zeros_like(flat)
            return -float(value), -gradient

        def one(index: int) -> tuple[np.ndarray, float]:
            with jax.enable_x64(True):  # the setting belongs to the thread
                bounds = list(zip(low[index], high[index], strict=True))
                found = minimize(
                    negative, starts[index], jac=True, method="L-BFGS-B", bounds=bounds
                )
                advance(1)
                return found.x, -float(found.fun)

        with progress_bar("starts", len(starts), shown=self.progress) as advance:
            first = one(0)  # compiles, before the threads would each do it
            rest = side_by_side(lambda index: one(index + 1), len(starts) - 1, stop)
        ends, values = zip(first, *rest, strict=True)
        return np.array(ends), np.array(values)

    def by_profile(self, starts: int) -> list[Top]:
        """With one hyperparameter: every basin of the smoothed objective over the prior's range."""
        flat = self.prior[:, 0]
        grid, raw = profile.scan(self.target, self.points, flat, flat, self._density, GRID_POINTS)
        step = grid[1] - grid[0]
        smoothed = smooth(raw, step)
        tops, _, borders = basins(smoothed)
        edges = [grid[0], *grid[borders], grid[-1]]
        begin, low, high = [], [], []
        for index, top in enumerate(tops):
            inside = (grid >= edges[index]) & (grid <= edges[index + 1])
            near = np.flatnonzero(inside & (smoothed > smoothed[top] - WINDOW))
            filled = np.where(np.isfinite(raw), raw, -np.inf)
            for part in np.array_split(near, min(starts, len(near))):
                begin.append([grid[part[np.argmax(filled[part])]]])
                low.append([edges[index]])
                high.append([edges[index + 1]])
        ends, values = self.climb(np.array(begin), np.array(low), np.array(high))
        owner = np.searchsorted(np.array(edges[1:-1]), np.array(begin)[:, 0])
        found = []
        for index, top in enumerate(tops):
            mine = np.flatnonzero(owner == index)
            best = mine[np.argmax(values[mine])]
            middle = grid[[top]] if 0 < top < len(grid) - 1 else None
            basin = (edges[index], edges[index + 1])
            # A cell between two zeros may stop the optimiser short of the end.
            at_bound = bool(top in (0, len(grid) - 1) or ends[best, 0] in (grid[0], grid[-1]))
            found.append(Top(ends[best], float(values[best]), middle, basin, len(mine), at_bound))
        return found

    def by_paths(self, starts: int) -> list[Top]:
        """With several: the groups of ends between which no path is high."""
        heights = self.values(self.prior)
        if not np.isfinite(heights).any():
            raise SamplingError("the density is zero everywhere over the range of the prior")
        heights = np.where(np.isfinite(heights), heights, -np.inf)
        order = np.argsort(self.prior.mean(axis=1), kind="stable")
        parts = np.array_split(order, min(starts, len(order)))
        begin = self.prior[[part[np.argmax(heights[part])] for part in parts]]
        ends, values = self._climb_freely(begin)
        label = self._modes(ends, values)
        # A cell between two zeros holds an optimiser back: again from around each mode's best.
        rng = np.random.default_rng(len(ends))
        tops = [
            max(np.flatnonzero(label == mode), key=values.__getitem__)
            for mode in range(label.max() + 1)
        ]
        tops = sorted(tops, key=values.__getitem__)[-MOST_POLISHED:]
        again = [ends[top] + SMOOTHING * rng.normal(size=(starts, ends.shape[1])) for top in tops]
        more, more_values = self._climb_freely(np.concatenate(again))
        ends, values = np.concatenate([ends, more]), np.concatenate([values, more_values])
        label = self._modes(ends, values)
        found = []
        for mode in range(label.max() + 1):
            mine = np.flatnonzero(label == mode)
            best = mine[np.argmax(values[mine])]
            z = ends[best]
            at_bound = bool(((z == self.low) | (z == self.high)).any())
            found.append(Top(z, float(values[best]), z, None, len(mine), at_bound))
        return found

    def _climb_freely(self, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Within the range of the prior; without the climbs that found no number."""
        low, high = (np.tile(bound, (len(begin), 1)) for bound in (self.low, self.high))
        ends, values = self.climb(np.clip(begin, low, high), low, high)
        reached = values > -NONE
        return ends[reached], values[reached]

    def _modes(self, ends: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Group (k,) of every end."""
        if len(ends) == 1:
            return np.zeros(1, dtype=int)
        unit = np.full(ends.shape[1], 2.0 * SMOOTHING)  # points on an edge are SMOOTHING apart
        edges, low = connect(ends, values, unit, self.values)
        return groups(values, edges, low).label

    def curvature(self, top: Top) -> np.ndarray:
        """Curvature (p, p) of the quadratic fitted to the objective within the smoothing window."""
        p = len(top.z)
        if top.middle is None:
            return np.full((p, p), np.nan)
        pairs = np.triu_indices(p)
        coefficients = 1 + p + len(pairs[0])
        count = max(CLOUDS[min(p, len(CLOUDS)) - 1], CLOUD_PER_COEFFICIENT * coefficients)
        count = 2 ** math.ceil(math.log2(count))  # as Sobol's points need
        # Quasi-random: with independent places the kinks of the density leave twice the error.
        offsets = MultivariateNormalQMC(np.zeros(p), rng=np.random.default_rng(p)).random(count)
        heights = self.values(top.middle + SMOOTHING * offsets)
        finite = np.isfinite(heights)
        products = offsets[:, pairs[0]] * offsets[:, pairs[1]]
        design = np.column_stack([np.ones(len(offsets)), offsets, products])[finite]
        if len(design) < coefficients:
            return np.full((p, p), np.nan)
        quadratic = np.linalg.lstsq(design, heights[finite], rcond=None)[0][1 + p :]
        hessian = np.zeros((p, p))
        hessian[pairs] = quadratic
        return -(hessian + hessian.T) / SMOOTHING**2
