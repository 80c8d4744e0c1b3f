"""What two sketches say: the posterior of the lengthscale, the witness, a two-sample test."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models.bayes.priors import default_prior
from bke.models.embeddings.landmarks import posterior_of_sums
from bke.models.landmarks import landmark_gaussian
from bke.models.measures import Measure, as_measure
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..comparison.compare import sample_names
from ..core.errors import InputError
from ..core.jit import jit
from ..core.machine import computing
from ..core.notebook import Shown
from ..data.checks import as_evaluation_points, check_count, check_noise_variance
from ..data.units import Units
from ..data.weighted import weighted_quantiles
from ..diagnostics.modes import as_text
from ..diagnostics.resolution import in_words, reach
from ..permutation.enough import check_permutations
from ..testing.result import TestResult
from ..witness.bands import Band, band
from ..witness.draws import check_noise, equal_draws, gaussian_draw
from ..witness.places import default_points
from .sketch import Sketch, SketchPlan, check_sketch
from .two_sample import NO_TEST, sketch_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Posterior mass at one lengthscale beyond which the grid is too coarse to show the posterior.
COARSE = 0.5
#: Lengthscales of the grid, evenly, that the test is at.
TESTED = 12
#: Mass of a lengthscale, over that of the heaviest, below which the witness is not drawn at it.
LIGHT = 1e-6
#: Posterior standard deviation over the prior's from which a landmark has told nothing of a point,
#: and the share of such points that is worth a note.
UNTOLD, MANY = 0.9, 0.25
REMEDY = "give lengthscales of a finer grid around it (lengthscales=, --lengthscales)"


class Drawn(NamedTuple):
    """Draws of the witness at some points."""

    values: np.ndarray  # (k, points), in pairs above and below their mean
    weights: np.ndarray  # (k,)
    untold: float  # the share of points at which the band is as wide as the prior


@dataclasses.dataclass(frozen=True, repr=False)
class SketchComparison(Shown):
    """What :func:`compare_sketches` found.

    Attributes:
        posterior: over the ``grid``: ``lengthscale`` (grid, column) in the units of the data,
            ``log_likelihood`` and ``log_prior`` at it, its ``mass``, and how far the kernel
            reaches (grid, landmarks): its share of its height at the next landmark and over all
            pairs, medians.
        test: of P = Q; ``None`` where too few rows are near the landmarks.
        witness: as of :func:`~bke.inference.sample_witness`.
        sizes: rows of P and of Q.
        names: what the samples are called in words and pictures.
    """

    posterior: xr.Dataset
    test: TestResult | None
    witness: xr.DataTree
    sizes: tuple[int, int]
    names: tuple[str, str] = ("P", "Q")

    def band(self, level: float = 0.8) -> Band:
        """Find the band of the witness, see :func:`~bke.inference.band`."""
        return band(self.witness, level)

    @property
    def notes(self) -> tuple[str, ...]:
        """What could mislead a reader of the comparison."""
        mass = self.posterior["mass"].values
        best = int(mass.argmax())
        notes = [] if self.test is None else list(self.test.notes)
        if self.test is None:
            notes.append(NO_TEST)
        if best in (0, len(mass) - 1):
            notes.append("the posterior is at the end of the grid: make sketches with a wider one")
        notes += in_words(self.posterior["reach"].values, mass)
        if (untold := self.witness.attrs["untold"]) > MANY:
            notes.append(
                f"the band is as wide as the prior at {100 * untold:.0f} % of the witness's "
                "points: there landmarks are too sparse for these lengthscales"
            )
        return tuple(notes)

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each lengthscale of the grid.

        Columns: ``lengthscale.`` and the name of each column, in the units of the data;
        ``log_likelihood``, ``log_prior`` and ``mass``.
        """
        import pandas as pd

        told = {
            f"lengthscale.{name}": self.posterior["lengthscale"].sel(column=name).values
            for name in self.posterior["column"].values
        }
        names = ("log_likelihood", "log_prior", "mass")
        return pd.DataFrame({**told, **{name: self.posterior[name].values for name in names}})

    def __str__(self) -> str:
        posterior = self.posterior
        mass = posterior["mass"].values
        best = int(mass.argmax())
        low, high = weighted_quantiles(
            np.arange(len(mass)), mass, (0.1, 0.9), method="inverted_cdf"
        )
        places = posterior["lengthscale"].values
        where = as_text(places[best])
        span = f"80 % of the posterior from {as_text(places[low])} to {as_text(places[high])}"
        if mass[best] > COARSE:
            span = (
                f"{100 * mass[best]:.0f} % of the posterior: it is narrower than the grid's step; "
                f"{REMEDY}"
            )
        each = zip(self.names, self.sizes, strict=True)
        lines = [
            "; ".join(f"{name}: {rows} rows" for name, rows in each) + ".",
            f"Lengthscale {where}, of {len(mass)} the one with the most mass; {span}.",
        ]
        if self.test is not None:
            lines.append(str(dataclasses.replace(self.test, notes=())))
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        said = "no test" if self.test is None else f"p = {self.test.pvalue:.3g}"
        return f"<comparison of sketches: {said}>"

    def plot(self, level: float = 0.8, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw the witness with its band.

        Args:
            level: of the band at each point.
            axes: one for each panel; by default a new figure.
        """
        from ..plots.witness import plot_witness

        return plot_witness(self.witness, level, names=self.names, axes=axes)


def compare_sketches(
    P: Sketch,
    Q: Sketch,
    *,
    noise_variance: float = 0.1,
    prior: dist.Distribution | None = None,
    measure: Measure | str = "unit",
    at: ArrayLike | None = None,
    noise: str | float = "clt",
    draws: int = 400,
    null_draws: int = 9999,
    alpha: float = 0.05,
    names: tuple[str, str] = ("P", "Q"),
    seed: int = 0,
) -> SketchComparison:
    """Compare two sketches: posterior of the lengthscale, witness and two-sample test.

    The posterior is that of the landmark model given both sets of rows, on the grid of the
    sketches. The test is at twelve lengthscales of the grid, an approximation by the central limit
    theorem; where the landmarks were chosen from the rows of one of the sketches it rejects a
    little too often, see :func:`sketch`. The witness is given the embeddings at the landmarks, and
    is as wide as the prior where none is near; its draws are in pairs above and below the mean, so
    that the mean of its band is the posterior's.

    Args:
        P: sketch of the first sample.
        Q: of the second, made like it.
        noise_variance: tau^2, see :func:`~bke.models.landmark_log_likelihood`.
        prior: of the lengthscale over the unit; by default Gamma(1, 1).
        measure: of the smoothed kernel: ``"unit"``, ``"lebesgue"`` (over the unit) or a
            :class:`~bke.models.Gaussian` in the units of the data.
        at: where the witness is drawn, (k, D) in the units of the data; by default a line, a mesh
            or the landmarks.
        noise: of the witness, see :func:`~bke.inference.sample_witness`.
        draws: of the witness; or a few more, for each lengthscale has pairs of its own.
        null_draws: of the test; its smallest p-value is 1 / (1 + null_draws).
        alpha: level of the test's verdict.
        names: what the samples are called in words and pictures.
        seed: of all draws.

    Raises:
        InputError: for sketches that were not made alike, or arguments that make no sense.
    """
    for each, name in ((P, "P"), (Q, "Q")):
        check_sketch(each, name)
    check_count(draws, "draws", 4)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_permutations(null_draws, alpha, "null draws")
    check_noise(noise)
    called = sample_names(names)
    variance = check_noise_variance(noise_variance)
    if not isinstance(variance, (int, float)):
        raise InputError(f"noise_variance must be a positive number, got {noise_variance!r}")
    plan = P.plan
    if at is not None:
        points = as_evaluation_points(at, len(plan.columns))
    else:
        places = plan.landmarks * plan.unit
        points = default_points(places, places[:0])
    prior = default_prior() if prior is None else prior
    measure = _in_units(measure, plan)
    try:
        plan.kernel.smoothed(measure, len(plan.columns))  # what compiled code could not refuse
    except (ValueError, NotImplementedError) as error:
        raise InputError(str(error)) from None
    posterior = _posterior(P.merged(Q), float(variance), _checked(prior), measure)
    rng = np.random.default_rng((seed, 5))
    with computing():
        # All of the grid would be many tests that say the same.
        some = np.unique(np.linspace(0, len(plan.lengthscales) - 1, TESTED).round().astype(int))
        test = sketch_test(
            [(P.at(index), Q.at(index), plan.kernel_in_data_units(index)) for index in some],
            draws=null_draws,
            alpha=alpha,
            rng=rng,
        )
        mass = posterior["mass"].values
        drawn = _witness(P, Q, mass, points / plan.unit, noise, measure, draws, seed)
    witness = _group(P, Q, drawn, points, noise, seed)
    renamed = None if test is None else test.of_samples(called)
    return SketchComparison(posterior, renamed, witness, (P.rows, Q.rows), called)


def _in_units(measure: Any, plan: SketchPlan) -> Measure:
    try:
        found = as_measure(measure)
    except ValueError as error:
        raise InputError(str(error)) from None
    if found.prior is not None:
        raise InputError("the scale of the measure must be a number here, not a prior")
    none = np.zeros(len(plan.columns))
    return Units(plan.unit, none, 0, plan.columns).measure_to_model(found)


def _checked(prior: Any) -> dist.Distribution:
    if not isinstance(prior, dist.Distribution) or prior.shape() != ():
        raise InputError(f"prior must be a NumPyro distribution of one number, got {prior!r}")
    return prior


def _posterior(
    pooled: Sketch, noise_variance: float, prior: dist.Distribution, measure: Measure
) -> xr.Dataset:
    """The posterior on the grid of lengthscales, by the trapezoid rule."""
    plan = pooled.plan
    grid = plan.lengthscales
    with computing():
        landmarks = jnp.asarray(plan.landmarks)

        @jit
        def gaussian(sums: Any, kernel: Any) -> jax.Array:
            R = kernel.smoothed(measure, landmarks.shape[1]).matrix(landmarks, landmarks)
            return landmark_gaussian(sums, R, jnp.asarray(noise_variance))

        values = [gaussian(pooled.at(i), plan.kernel_at(i)) for i in range(len(grid))]
        reaches = np.asarray([reach(plan.kernel_at(i), landmarks) for i in range(len(grid))])
        log_likelihood = np.asarray(values) + pooled.sums.log_volume
        inside = np.asarray(prior.support(jnp.asarray(grid)))
        log_prior = np.full(len(grid), -np.inf)
        if inside.any():
            log_prior[inside] = np.asarray(prior.log_prob(jnp.asarray(grid[inside])))
    total = np.where(np.isnan(log_likelihood), -np.inf, log_likelihood) + log_prior
    if not np.isfinite(total).any():
        raise InputError(
            "the density is zero at every lengthscale of the grid: the prior may have nothing "
            "there, the noise variance be too small, or the landmarks too few or all on a line"
        )
    steps = np.diff(grid)
    total = total + np.log(0.5 * (np.append(steps, 0.0) + np.append(0.0, steps)))
    return xr.Dataset(
        {
            "lengthscale": (("grid", "column"), grid[:, None] * plan.unit),
            "log_likelihood": ("grid", log_likelihood),
            "log_prior": ("grid", log_prior),
            "mass": ("grid", np.exp(total - logsumexp(total))),
            "reach": (("grid", "landmarks"), reaches),
        },
        coords={"column": list(plan.columns), "landmarks": ["next", "all"]},
        attrs={"rows": pooled.rows, "noise_variance": noise_variance},
    )


def _witness(
    P: Sketch,
    Q: Sketch,
    mass: np.ndarray,
    at: np.ndarray,
    noise: Any,
    measure: Measure,
    draws: int,
    seed: int,
) -> Drawn:
    """Draw the witness at the points ``at`` (k, D): pairs of every lengthscale, by its mass."""
    plan = P.plan
    landmarks, places = jnp.asarray(plan.landmarks), jnp.asarray(at)

    @jit
    def difference(sums_P: Any, sums_Q: Any, kernel: Any) -> Any:
        first, second = (
            posterior_of_sums(sums, landmarks, kernel, places, noise=noise, measure=measure)
            for sums in (sums_P, sums_Q)
        )
        prior = kernel.smoothed(measure, places.shape[1]).matrix(places, places)
        of_both = first.covariance + second.covariance
        return first.mean - second.mean, of_both, 2.0 * jnp.diagonal(prior)

    drawn = jit(jax.vmap(gaussian_draw, in_axes=(0, None)))
    chosen = np.flatnonzero(mass > LIGHT * mass.max())
    share = mass[chosen] / mass[chosen].sum()
    pairs = np.ceil(share * draws / 2.0 - 1e-9).astype(int)
    keys = jax.random.split(jax.random.key(seed), pairs.sum())
    ends = np.cumsum(pairs)
    values: list[np.ndarray] = []
    after, before = np.zeros(len(at)), np.zeros(len(at))
    for index, weight, begin, end in zip(chosen.tolist(), share, ends - pairs, ends, strict=True):
        mean, covariance, prior = difference(P.at(index), Q.at(index), plan.kernel_at(index))
        # All keys each time: another number of them would be compiled again.
        half = np.asarray(drawn(keys, covariance))[begin:end]
        values.append(np.asarray(mean) + np.concatenate([half, -half]))
        after += weight * np.diagonal(covariance)
        before += weight * np.asarray(prior)
    every = np.concatenate(values)
    if not np.isfinite(every).all():
        raise InputError(
            "the witness is not finite: the noise is too small beside the prior covariance for "
            "double precision"
        )
    untold = float(np.mean(after > UNTOLD**2 * before))
    return Drawn(every, np.repeat(share / (2 * pairs), 2 * pairs), untold)


def _group(
    P: Sketch, Q: Sketch, drawn: Drawn, points: np.ndarray, noise: Any, seed: int
) -> xr.DataTree:
    attrs = {
        "method": "sketch",
        "noise": str(noise),
        "seed": seed,
        "sizes": [P.rows, Q.rows],
        "landmarks": len(P.plan.landmarks),
        "title": f"given the embeddings at {len(P.plan.landmarks)} landmarks",
        "untold": drawn.untold,
    }
    return equal_draws(drawn.values, points, P.plan.columns, attrs, drawn.weights)
