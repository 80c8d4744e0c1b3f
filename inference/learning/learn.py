"""Bayesian kernel learning, BKE section 4.3: the kernel that maximises (13), in every mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, SquaredExponential
from bke.models.bayes.priors import Prior
from bke.models.kernels.base import Kernel
from bke.models.likelihood.way import Likelihood
from bke.models.measures.measure import Measure
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.machine import computing
from ..core.notebook import Shown
from ..data.checks import check_count
from ..data.observed import observe
from ..data.units import Units
from ..diagnostics.modes import as_text, numbers_of
from ..sampling import profile, programs
from ..sampling.model import Model
from ..sampling.preparation import prepare
from ..sampling.run import in_data_units, kernel_in_data_units
from ..sampling.target import unflatten
from . import scikit_learn
from .names import Objective
from .peaks import PeakSearch, Top

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
