"""The highest place of every mode of an objective, by a kept optimiser from many starts.

The density has narrow genuine zeros at which a gradient step stops. So each mode is found on the
*smoothed* density first, and the optimiser is started at many places around its top.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, SquaredExponential
from bke.models.bayes.priors import Prior
from bke.models.kernels.base import Kernel
from bke.models.likelihood.way import Likelihood
from bke.models.measures.measure import Measure
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.stats.qmc import MultivariateNormalQMC

from ..core.errors import InputError, SamplingError, nearest
from ..core.machine import computing, side_by_side
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.checks import check_count
from ..data.observed import observe
from ..data.units import Units
from ..diagnostics.modes import as_text, numbers_of
from ..diagnostics.profile_modes import basins
from ..sampling import profile, programs
from ..sampling.barriers import connect, groups
from ..sampling.model import Model
from ..sampling.preparation import prepare
from ..sampling.profile import SMOOTHING, smooth
from ..sampling.run import in_data_units, kernel_in_data_units
from ..sampling.target import Points, Target, flatten, unflatten
from . import Objective, scikit_learn

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


if TYPE_CHECKING:
    import pandas as pd

OBJECTIVES: tuple[str, ...] = get_args(Objective)
#: Modes that are printed.
MOST_PRINTED = 8


@dataclasses.dataclass(frozen=True)
class Peak:
    """The highest point of one mode.

    Attributes:
        kernel: with its parameters there, in the units of the data.
        values: all hyperparameters there, by site, in the units of the data.
        log_marginal_likelihood: BKE (13) of the data in the model's units (over ``scale``).
        log_prior: log prior density of the hyperparameters, in the model's units.
        curvature: minus the second derivative of the smoothed objective in the unconstrained
            coordinates (log lengthscale), (p, p), nats; NaN at the end of the range. With one
            hyperparameter at the top of the smoothed profile, with several at the peak; an estimate
            from places around it.
        basin: lower and upper end of the mode, in the units of the data, with one hyperparameter,
            the outermost ones those of the range that was searched; ``None`` with several.
        starts: how many starts of the optimiser ended in this mode.
        at_bound: the objective still rises at the end of the range that was searched.
    """

    kernel: Kernel
    values: dict[str, np.ndarray]
    log_marginal_likelihood: float
    log_prior: float
    curvature: np.ndarray
    basin: tuple[np.ndarray, np.ndarray] | None
    starts: int
    at_bound: bool


@dataclasses.dataclass(frozen=True)
class LearnedKernel(Shown):
    """What :func:`learn_kernel` returns.

    Attributes:
        peaks: the best of every mode, the best of all first.
        objective: ``"ml"`` or ``"map"``.
        units: scale and dither of the data; the marginal likelihood is that of the data over them.
    """

    peaks: tuple[Peak, ...]
    objective: str
    units: Units

    @property
    def kernel(self) -> Kernel:
        """The kernel at the highest peak, in the units of the data."""
        return self.peaks[0].kernel

    @property
    def log_marginal_likelihood(self) -> float:
        """BKE (13) at the highest peak."""
        return self.peaks[0].log_marginal_likelihood

    @property
    def gamma(self) -> float:
        """``gamma`` of scikit-learn's RBF kernels, see :func:`~bke.inference.rbf_gamma`."""
        return scikit_learn.rbf_gamma(self.kernel)

    def to_sklearn(self) -> Any:
        """Turn it into a kernel of scikit-learn, see :func:`~bke.inference.to_sklearn`."""
        return scikit_learn.to_sklearn(self.kernel)

    def heights(self) -> np.ndarray:
        """The objective at every peak less that at the highest, nats."""
        values = np.array(
            [
                peak.log_marginal_likelihood + (peak.log_prior if self.objective == "map" else 0.0)
                for peak in self.peaks
            ]
        )
        return values - values[0]

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each mode, the highest first.

        Columns: its hyperparameters in the units of the data (``lengthscale``, or of several
        ``lengthscale[0]``, ...), ``log_marginal_likelihood``, ``log_prior``, ``height`` under the
        highest, ``low`` and ``high``, the ends of its basin (NaN with several hyperparameters),
        ``starts`` that ended in it and whether it is ``at_bound``.
        """
        import pandas as pd

        rows = []
        for peak, height in zip(self.peaks, self.heights(), strict=True):
            ends = [float(np.ravel(end)[0]) for end in peak.basin or (np.nan, np.nan)]
            rows.append(
                {
                    **numbers_of(peak.values),
                    "log_marginal_likelihood": peak.log_marginal_likelihood,
                    "log_prior": peak.log_prior,
                    "height": float(height),
                    "low": ends[0],
                    "high": ends[1],
                    "starts": peak.starts,
                    "at_bound": peak.at_bound,
                }
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        name = {"ml": "marginal likelihood", "map": "posterior density"}[self.objective]
        count = len(self.peaks)
        lines = [f"{count} mode{'s' * (count > 1)} of the {name}, highest first:"]
        for peak, height in list(zip(self.peaks, self.heights(), strict=True))[:MOST_PRINTED]:
            where = ", ".join(f"{site} {as_text(value)}" for site, value in peak.values.items())
            line = f"  {where}: log marginal likelihood {peak.log_marginal_likelihood:.2f}"
            line += f" ({height:.1f})" if height else ""
            if peak.basin is not None:
                low, high = (as_text(end) for end in peak.basin)
                line += f", basin {low} to {high}"
            if peak.at_bound:
                line += "; it still rises at the end of the range that was searched"
            lines.append(line)
        if count > MOST_PRINTED:
            lines.append(f"  and {count - MOST_PRINTED} more")
        if self.peaks[0].at_bound:
            advice = ", or take the objective 'map'" if self.objective == "ml" else ""
            lines.append(
                f"The {name} is highest at the end of the range that was searched, that of the "
                f"prior: check the units and the scale, widen the prior{advice}."
            )
        return "\n".join(lines)


def learn_kernel(
    X: ArrayLike | tuple[ArrayLike, ...],
    *,
    kernel: Kernel | type[Kernel] = SquaredExponential,
    objective: str = "ml",
    prior: Prior | None = None,
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
    share: str = "pooled",
    scale: str | None = "column",
    dither: str | float | Sequence[float] | None = "auto",
    starts: int = 16,
    seed: int = 0,
    progress: bool = True,
    columns: Sequence[str] | None = None,
) -> LearnedKernel:
    """The kernel that maximises the marginal likelihood BKE (13), and the best of every other mode.

    One hyperparameter: a profile over the range of the prior, smoothed; ``starts`` optimisations in
    each basin. Several: ``starts`` optimisations from the best of prior draws at different scales,
    grouped into modes by the paths between their ends, then as many again around the highest ends
    of the highest modes; how many modes are found depends on ``starts``. For D >= 2 the marginal
    likelihood, a pseudo-likelihood, may have no maximum: then the peak is at a bound, and says so.

    The order of rows changes nothing but rounding, so a kernel learned from a pooled sample may be
    used in a permutation test (BKE section 5), but with a dither for rounded data.

    Args:
        X: as for :func:`~bke.inference.fit`.
        kernel: a kernel class, or an instance whose lengthscales are learned.
        objective: ``"ml"``, the marginal likelihood, where the prior only says where to look, the
            range of 2000 draws and a little more; or ``"map"``, the posterior density of the
            hyperparameters themselves (not of their logs).
        prior: as for :func:`~bke.inference.fit`; a dict names other parameters to learn.
        noise_variance: likewise.
        measure: likewise.
        likelihood: as for :func:`~bke.inference.fit`; :func:`~bke.models.low_rank_error` tells what
            an approximation is worth.
        share: likewise.
        scale: likewise.
        dither: likewise.
        starts: of the optimiser, SciPy's L-BFGS-B, in each basin (one hyperparameter) or in all.
        seed: of the prior draws.
        progress: show a progress bar.
        columns: names of the columns.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
        SamplingError: where the density is zero over the whole range of the prior.
    """
    if objective not in OBJECTIVES:
        raise InputError(
            f"objective must be one of {OBJECTIVES}, got {objective!r}"
            f"{nearest(objective, OBJECTIVES)}"
        )
    check_count(starts, "starts", 1)
    check_count(seed, "seed", 0, 2**63 - 1)
    with computing():
        observed = observe(X, share=share, scale=scale, columns=columns)
        model = Model(kernel, prior, noise_variance, measure, likelihood)
        target = model.target(observed.units, observed.rows, seed)
        evaluate = programs.objectives(target, objective)
        units, points, prior_draws = prepare(target, observed, evaluate, dither=dither, seed=seed)
        search = PeakSearch(target, points, prior_draws, evaluate, objective, progress)
        found = search.by_profile(starts) if target.is_scalar else search.by_paths(starts)
        found.sort(key=lambda one: -one.value)
        peaks = [_peak(one, search, units) for one in found]
    return LearnedKernel(tuple(peaks), objective, units)


def _peak(found: Top, search: PeakSearch, units: Units) -> Peak:
    """A peak in the units of the data."""
    target = search.target
    z = unflatten(found.z[None, None], target.shapes)
    inner = {name: value[0, 0] for name, value in z.items()}
    values = target.constrain({name: jnp.asarray(value) for name, value in inner.items()})
    log_prior = float(target.log_prior_density(values))
    batch = {name: value[0] for name, value in z.items()}
    basin = None
    if found.basin is not None:
        (name,) = target.shapes
        ends = np.array(found.basin)[None]
        in_units = in_data_units(target, units, {name: ends})[name].values[0]
        basin = (in_units[0], in_units[1])
    dataset = in_data_units(target, units, z)
    return Peak(
        kernel=kernel_in_data_units(target, units, values),
        values={str(k): np.asarray(v.values[0, 0]) for k, v in dataset.data_vars.items()},
        log_marginal_likelihood=float(
            profile.log_densities(search.likelihood, batch, search.points)[0]
        ),
        log_prior=log_prior,
        curvature=search.curvature(found),
        basin=basin,
        starts=found.starts,
        at_bound=found.at_bound,
    )
