"""Type-II maximum likelihood: the kernel that maximizes BKE (13), and the maximum of every mode.

The marginal likelihood has narrow genuine zeros at which a gradient step stops. So each mode is
located on the *smoothed* objective first, and the optimizer is started at many points around its
maximum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, minimize
from scipy.stats.qmc import MultivariateNormalQMC

from ..core.errors import SamplingError, check_choice
from ..core.machine import computing, side_by_side
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.checks import check_count
from ..data.units import Units, observe
from ..diagnostics.modes import basins, format_values, scalar_values
from ..sampling import densities
from ..sampling.densities import SMOOTHING, smooth
from ..sampling.draw_graph import cluster_nodes, connect_nodes
from ..sampling.fit import prepare
from ..sampling.run import in_data_units, kernel_in_data_units
from ..sampling.target import Points, Target, flatten, unflatten
from . import Objective, scikit_learn

if TYPE_CHECKING:
    import pandas as pd


class LocalMaximum(NamedTuple):
    """The maximum of one mode, in unconstrained coordinates (log lengthscale).

    Attributes:
        z: its coordinates (p,).
        value: the objective there.
        center: where the curvature is taken, (p,); ``None`` at the end of the search range.
        basin: lower and upper end of the mode, with one hyperparameter.
        starts: number of starts of the optimizer that ended in this mode.
        at_bound: true at the end of the search range.
    """

    z: np.ndarray
    value: float
    center: np.ndarray | None
    basin: tuple[float, float] | None
    starts: int
    at_bound: bool

    def curvature(self, search: PeakSearch, points_per_coefficient: int = 20) -> np.ndarray:
        """Return the curvature (p, p) of the objective over the smoothing window, NaN at the end.

        A quadratic is fitted at quasi-random normal points (with independent ones the kinks of the
        objective leave twice the error): at least 100 with one hyperparameter, 400 with more, which
        give the curvature of two lengthscales to a tenth of the largest.
        """
        p = len(self.z)
        missing = np.full((p, p), np.nan)
        if self.center is None:
            return missing
        pairs = np.triu_indices(p)
        coefficients = 1 + p + len(pairs[0])
        count = max(100 if p == 1 else 400, points_per_coefficient * coefficients)
        count = 2 ** math.ceil(math.log2(count))  # Sobol points are balanced at powers of two
        offsets = MultivariateNormalQMC(np.zeros(p), rng=np.random.default_rng(p)).random(count)
        values = search.objective(self.center + SMOOTHING * offsets)
        finite = np.isfinite(values)
        products = offsets[:, pairs[0]] * offsets[:, pairs[1]]
        design = np.column_stack([np.ones(count), offsets, products])[finite]
        if len(design) < coefficients:
            return missing
        hessian = np.zeros((p, p))
        hessian[pairs] = np.linalg.lstsq(design, values[finite], rcond=None)[0][1 + p :]
        return -(hessian + hessian.T) / SMOOTHING**2


@dataclasses.dataclass
class PeakSearch:
    """Multi-start search for all local maxima of one objective on one data set.

    Attributes:
        target: the model.
        points: the data, prepared for its likelihood.
        prior_draws: unconstrained draws of the prior (k, p); they give the search range.
        name: the objective, ``"ml"`` or ``"map"``.
        progress: show a progress bar.
        margin: the optimizer may leave the range of the prior draws by this much in unconstrained
            coordinates; not tuned.
    """

    target: Target
    points: Points
    prior_draws: np.ndarray
    name: str
    progress: bool
    margin: float = 1.0

    def __post_init__(self) -> None:
        self.low = self.prior_draws.min(axis=0) - self.margin
        self.high = self.prior_draws.max(axis=0) + self.margin
        self.evaluate = densities.objectives(self.target, self.name)
        self.value_and_grad = densities.objective_and_gradient(self.target, self.name)

    def objective(self, flat: np.ndarray, points: Points | None = None) -> np.ndarray:
        """Evaluate the objective (k,) at ``flat`` (k, p), of the search's points by default."""
        points = self.points if points is None else points
        return densities.log_densities(self.evaluate, unflatten(flat, self.target.shapes), points)

    def climb(
        self, starts: np.ndarray, low: np.ndarray, high: np.ndarray, penalty: float = 1e15
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run L-BFGS-B from every start.

        Args:
            starts: (k, p).
            low: lower bounds (k, p).
            high: upper bounds (k, p).
            penalty: replaces minus an objective that is not finite, so that a line search steps
                back from it; far above any log likelihood.

        Returns:
            End points (k, p), and the objective there (k,), minus infinity where it is not finite.
        """
        points = jax.tree.map(jnp.asarray, self.points)
        stop = Event()

        def negative(flat: np.ndarray) -> tuple[float, np.ndarray]:
            if stop.is_set():
                raise SamplingError("stopped before a peak was reached")
            value, gradient = self.value_and_grad(
                unflatten(jnp.asarray(flat), self.target.shapes), points
            )
            gradient = flatten(gradient, leading=0)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return penalty, np.zeros_like(flat)
            return -float(value), -gradient

        def run(index: int) -> tuple[np.ndarray, float]:
            with jax.enable_x64(True):  # the setting belongs to the thread
                bounds = Bounds(low[index], high[index])
                options: Any = {"jac": True, "method": "L-BFGS-B", "bounds": bounds}
                result = minimize(negative, starts[index], **options)
                advance(1)
                return result.x, -float(result.fun) if result.fun < penalty else -np.inf

        with progress_bar("starts", len(starts), show=self.progress) as advance:
            first = run(0)  # compiles, before every thread would
            rest = side_by_side(lambda index: run(index + 1), len(starts) - 1, stop)
        ends, values = zip(first, *rest, strict=True)
        return np.array(ends), np.array(values)

    def search_profile(
        self, starts: int, *, grid_points: int = 250, max_drop: float = 5.0
    ) -> list[LocalMaximum]:
        """Search every basin of the smoothed objective of one hyperparameter.

        Args:
            starts: starts of the optimizer in each basin.
            grid_points: size of the profile's grid; over the range of the default prior its step is
                a third of the smoothing. Three times as many find the same peaks.
            max_drop: starts are where the smoothed objective is at most this far below its maximum
                in the basin, in nats; not tuned.
        """
        prior = self.prior_draws[:, 0]

        def density(z: Mapping[str, np.ndarray]) -> np.ndarray:
            return densities.log_densities(self.evaluate, z, self.points)

        grid, raw = densities.scan(self.target, self.points, prior, prior, density, grid_points)
        smoothed = smooth(raw, grid[1] - grid[0])
        finite = np.where(np.isfinite(raw), raw, -np.inf)
        tops, borders = basins(smoothed)
        edges = [grid[0], *grid[borders], grid[-1]]
        basin, begin = [], []
        for index, top in enumerate(tops):
            inside = (grid >= edges[index]) & (grid <= edges[index + 1])
            near = np.flatnonzero(inside & (smoothed > smoothed[top] - max_drop))
            for part in np.array_split(near, min(starts, len(near))):
                basin.append(index)
                begin.append(grid[part[np.argmax(finite[part])]])
        label, bounds = np.array(basin), np.array(edges)[:, np.newaxis]
        ends, values = self.climb(np.array(begin)[:, np.newaxis], bounds[label], bounds[label + 1])
        maxima = []
        for index, (best, count) in enumerate(_best_of_groups(label, values)):
            z, value, interval = ends[best], float(values[best]), (edges[index], edges[index + 1])
            # An interval between two zeros may stop the optimizer short of the end.
            at_end = tops[index] in (0, len(grid) - 1)
            at_bound = bool(at_end or z[0] in (grid[0], grid[-1]))
            center = None if at_end else grid[[tops[index]]]
            maxima.append(LocalMaximum(z, value, center, interval, count, at_bound))
        return maxima

    def search_multistart(self, starts: int, *, max_refined: int = 6) -> list[LocalMaximum]:
        """Search several hyperparameters: groups of end points, separated by lower objective.

        Args:
            starts: starts of the optimizer in all, from the best prior draws at different scales,
                and again around the best end of each mode: intervals between zeros stop it.
            max_refined: modes that get the second round, the highest ones; not tuned.
        """
        values = self.objective(self.prior_draws)
        if not np.isfinite(values).any():
            raise SamplingError("the density is zero everywhere over the range of the prior")
        values = np.where(np.isfinite(values), values, -np.inf)
        order = np.argsort(self.prior_draws.mean(axis=1), kind="stable")
        parts = np.array_split(order, min(starts, len(order)))
        begin = self.prior_draws[[part[np.argmax(values[part])] for part in parts]]
        ends, values = self._climb_in_range(begin)
        tops = [best for best, _ in _best_of_groups(self._modes(ends, values), values)]
        tops = sorted(tops, key=values.__getitem__)[-max_refined:]
        rng = np.random.default_rng(len(ends))
        again = [ends[top] + SMOOTHING * rng.normal(size=(starts, ends.shape[1])) for top in tops]
        more_ends, more_values = self._climb_in_range(np.concatenate(again))
        ends, values = np.concatenate([ends, more_ends]), np.concatenate([values, more_values])
        maxima = []
        for best, count in _best_of_groups(self._modes(ends, values), values):
            z = ends[best]
            at_bound = bool(((z == self.low) | (z == self.high)).any())
            maxima.append(LocalMaximum(z, float(values[best]), z, None, count, at_bound))
        return maxima

    def _climb_in_range(self, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Climb within the range of the prior; leave out ends where the density is zero."""
        low, high = (np.broadcast_to(bound, begin.shape) for bound in (self.low, self.high))
        ends, values = self.climb(np.clip(begin, low, high), low, high)
        finite = np.isfinite(values)
        return ends[finite], values[finite]

    def _modes(self, ends: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the mode (k,) of every end point."""
        if len(ends) == 1:
            return np.zeros(1, dtype=int)
        unit = np.full(ends.shape[1], 2.0 * SMOOTHING)  # half of it between points of an edge
        edges, low = connect_nodes(ends, values, unit, self.objective)
        return cluster_nodes(values, edges, low)[0]


def _best_of_groups(label: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the index of the largest value and the size of every group."""
    for group in range(label.max() + 1):
        members = np.flatnonzero(label == group)
        yield int(members[np.argmax(values[members])]), len(members)


@dataclasses.dataclass(frozen=True)
class Peak:
    """The maximum of one mode.

    Attributes:
        kernel: with its parameters there, in the units of the data.
        values: all hyperparameters there, by site, in the units of the data.
        log_marginal_likelihood: BKE (13) of the data in the model's units (standardized).
        log_prior: log prior density of the hyperparameters, in the model's units.
        curvature: minus the second derivative of the smoothed objective in the unconstrained
            coordinates (log lengthscale), (p, p), nats; NaN at the end of the range. With one
            hyperparameter at the maximum of the smoothed profile, with several at the peak; an
            estimate from points around it.
        basin: lower and upper end of the mode, in the units of the data, with one hyperparameter,
            the outermost ones those of the search range; ``None`` with several.
        starts: number of starts of the optimizer that ended in this mode.
        at_bound: the objective still rises at the end of the search range.
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
class LearnedKernel(ReprMixin):
    """The kernel at the highest mode, and the maximum of every mode; see :func:`learn_kernel`.

    Attributes:
        peaks: the maximum of every mode, the highest first.
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
        """Convert to a kernel of scikit-learn, see :func:`~bke.inference.to_sklearn`."""
        return scikit_learn.to_sklearn(self.kernel)

    def heights(self) -> np.ndarray:
        """Return the objective at every peak less that at the highest, in nats."""
        values = np.array([peak.log_marginal_likelihood for peak in self.peaks])
        if self.objective == "map":
            values = values + [peak.log_prior for peak in self.peaks]
        return values - values[0]

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each mode, the highest first.

        Columns: its hyperparameters in the units of the data (``lengthscale``, or of several
        ``lengthscale[0]``, ...), ``log_marginal_likelihood``, ``log_prior``, ``height`` under the
        highest, ``low`` and ``high``, the ends of its basin (NaN with several hyperparameters),
        ``starts`` that ended in it and whether it is ``at_bound``.
        """
        import pandas as pd

        rows = []
        for peak, height in zip(self.peaks, self.heights(), strict=True):
            low, high = (float(np.ravel(end)[0]) for end in peak.basin or (np.nan, np.nan))
            values = scalar_values(peak.values)
            rows.append({**vars(peak), **values, "height": float(height), "low": low, "high": high})
        names = ["log_marginal_likelihood", "log_prior", "height", "low", "high"]
        return pd.DataFrame(rows)[[*values, *names, "starts", "at_bound"]]

    def __str__(self) -> str:
        name = {"ml": "marginal likelihood", "map": "posterior density"}[self.objective]
        count, max_printed = len(self.peaks), 8
        lines = [f"{count} mode{'s' * (count > 1)} of the {name}, highest first:"]
        for peak, height in list(zip(self.peaks, self.heights(), strict=True))[:max_printed]:
            sites = ", ".join(
                f"{site} {format_values(value)}" for site, value in peak.values.items()
            )
            line = f"  {sites}: log marginal likelihood {peak.log_marginal_likelihood:.2f}"
            line += f" ({height:.1f})" if height else ""
            if peak.basin is not None:
                low, high = (format_values(end) for end in peak.basin)
                line += f", basin {low} to {high}"
            if peak.at_bound:
                line += "; it still rises at the end of the search range"
            lines.append(line)
        if count > max_printed:
            lines.append(f"  and {count - max_printed} more")
        if self.peaks[0].at_bound:
            advice = ", or use objective 'map'" if self.objective == "ml" else ""
            lines.append(
                f"The {name} is highest at the end of the range of the prior: check the units and "
                f"the scale, widen the prior{advice}."
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
    samples: str = "pooled",
    standardize: str | None = "column",
    dither: str | float | Sequence[float] | None = "auto",
    starts: int = 16,
    seed: int = 0,
    progress: bool = True,
    columns: Sequence[str] | None = None,
) -> LearnedKernel:
    """Maximize the marginal likelihood BKE (13) over hyperparameters, in every mode.

    This is the Bayesian kernel learning of BKE section 4.3.

    One hyperparameter: a profile over the range of the prior, smoothed; ``starts`` optimizations in
    each basin. Several: ``starts`` optimizations from the best of prior draws at different scales,
    grouped into modes by the paths between their ends, then as many again around the highest ends
    of the highest modes; the number of modes found depends on ``starts``. For D >= 2 the marginal
    likelihood, a pseudo-likelihood, may have no maximum: then the peak is marked ``at_bound``.

    The result depends on the order of rows by rounding only. A kernel learned from a pooled sample,
    as in BKE section 5, may therefore be used in a permutation test, unless rounded data are
    dithered.

    Args:
        X: as for :func:`~bke.inference.fit`.
        kernel: a kernel class, or an instance whose lengthscales are learned.
        objective: ``"ml"``, the marginal likelihood, where the prior only gives the search range,
            that of 2000 draws and a margin; or ``"map"``, the posterior density of the
            hyperparameters themselves (not of their logs).
        prior: as for :func:`~bke.inference.fit`; a dict names other parameters to learn.
        noise_variance: as for :func:`~bke.inference.fit`.
        measure: as for :func:`~bke.inference.fit`.
        likelihood: as for :func:`~bke.inference.fit`; :func:`~bke.models.low_rank_error` estimates
            the error of an approximation.
        samples: as for :func:`~bke.inference.fit`.
        standardize: as for :func:`~bke.inference.fit`.
        dither: as for :func:`~bke.inference.fit`.
        starts: starts of the optimizer, SciPy's L-BFGS-B, in each basin (one hyperparameter) or in
            all.
        seed: seed of the prior draws.
        progress: show a progress bar.
        columns: names of the columns.

    Raises:
        InputError: for invalid data or arguments; the message names them.
        SamplingError: where the density is zero over the whole range of the prior.
    """
    check_choice(objective, "objective", get_args(Objective))
    check_count(starts, "starts", 1)
    check_count(seed, "seed", 0, 2**63 - 1)
    with computing():
        observed = observe(X, samples=samples, standardize=standardize, columns=columns)
        model = Target.checked(kernel, prior, noise_variance, measure, likelihood)
        target = model.in_model_units(observed.units, observed.rows, seed)
        evaluate = densities.objectives(target, objective)
        units, points, prior_draws = prepare(target, observed, evaluate, dither=dither, seed=seed)
        search = PeakSearch(target, points, flatten(prior_draws), objective, progress)
        run = search.search_profile if target.is_scalar else search.search_multistart
        maxima = sorted(run(starts), key=lambda maximum: -maximum.value)
        peaks = [_peak(maximum, search, units) for maximum in maxima]
    return LearnedKernel(tuple(peaks), objective, units)


def _peak(maximum: LocalMaximum, search: PeakSearch, units: Units) -> Peak:
    """Convert a maximum to the units of the data."""
    target = search.target
    values = target.constrain(unflatten(jnp.asarray(maximum.z), target.shapes))
    log_prior = float(target.log_prior_density(values))
    ends = [np.array([end]) for end in maximum.basin or ()]
    converted = in_data_units(
        target, units, unflatten(np.array([[maximum.z, *ends]]), target.shapes)
    )
    sites = {str(name): site.values[0] for name, site in converted.data_vars.items()}
    site = next(iter(sites.values()))
    return Peak(
        kernel=kernel_in_data_units(target, units, values),
        values={name: np.asarray(site[0]) for name, site in sites.items()},
        log_marginal_likelihood=maximum.value - (log_prior if search.name == "map" else 0.0),
        log_prior=log_prior,
        curvature=maximum.curvature(search),
        basin=(site[1], site[2]) if maximum.basin else None,
        starts=maximum.starts,
        at_bound=maximum.at_bound,
    )
