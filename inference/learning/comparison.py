"""Kernel families on one data set: a score, and a held-out error that can be compared honestly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SamplingNoise, embedding_posterior, empirical_embedding
from bke.models.bayes.priors import Prior, template
from bke.models.kernels.base import Kernel
from bke.models.likelihood.names import Route
from bke.models.likelihood.way import Likelihood
from bke.models.measures.measure import Measure
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.checks import as_samples, check_count
from ..diagnostics.integral import integral_of
from ..sampling.fit import fit
from ..sampling.open_run import open_run
from ..sampling.samplers.quadrature import MOST_EVALUATIONS, Quadrature
from ..sampling.samplers.smc import Smc
from ..sampling.target import Target
from .maximum_likelihood import learn_kernel

if TYPE_CHECKING:
    import pandas as pd

CAVEAT = (
    "The score is the log normaliser, the log of BKE (13) averaged over the prior. (13) is not "
    "normalised over the data and its constant depends on the kernel family, so differences of "
    "scores are no Bayes factors and give no model probabilities."
)
ERROR = (
    "Held-out error: mean squared error of the posterior embedding over that of the plain average, "
    "at held-out points; below 1 the model predicts its own embedding better. Each is relative to "
    "the same kernel's plain average, so it says what the model gains, not which kernel is best."
)

#: Draws of quadrature, whose integral alone counts.
INTEGRAL_DRAWS = 64
#: Arguments of a target, in order.
TARGET = ("kernel", "prior", "noise_variance", "measure", "likelihood")


@dataclasses.dataclass(frozen=True)
class KernelScore:
    """What is known of one kernel family.

    Attributes:
        score: log normaliser, see :data:`CAVEAT`.
        score_error: its estimated error; the standard error over repeats for SMC.
        held_out: mean squared error of the posterior embedding over that of the empirical one.
        held_out_error: its standard error over the folds, taken as independent.
        kernel: learned from all data, in the units of the data.
    """

    score: float
    score_error: float
    held_out: float
    held_out_error: float
    kernel: Kernel


@dataclasses.dataclass(frozen=True)
class KernelComparison(Shown):
    """Scores by name, highest first; prints with its caveat."""

    scores: dict[str, KernelScore]
    caveat: str = CAVEAT

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each kernel, the highest score first.

        Columns: ``kernel``, its name, and ``score``, ``score_error``, ``held_out`` and
        ``held_out_error`` of :class:`KernelScore`. Scores are not Bayes factors: see ``caveat``.
        """
        import pandas as pd

        header = ["score", "score_error", "held_out", "held_out_error"]
        rows = [
            [name, *(getattr(one, what) for what in header)] for name, one in self.scores.items()
        ]
        return pd.DataFrame(rows, columns=["kernel", *header])

    def _answer(self) -> str:
        return ""  # all of the table

    def __str__(self) -> str:
        width = max(6, *map(len, self.scores))
        lines = [f"{'kernel':<{width}}  {'score':>10}  {'error':>8}  {'held-out':>8}  {'se':>6}"]
        for name, one in self.scores.items():
            lines.append(
                f"{name:<{width}}  {one.score:>10.2f}  {one.score_error:>8.2g}  "
                f"{one.held_out:>8.3f}  {one.held_out_error:>6.2g}"
            )
        return "\n".join([*lines, "", self.caveat, ERROR])


def compare_kernels(
    X: ArrayLike,
    kernels: Mapping[str, Kernel | type[Kernel]],
    *,
    priors: Mapping[str, Prior] | None = None,
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
    scale: str | None = "column",
    dither: str | float | None = "auto",
    folds: int = 5,
    particles: int = 4000,
    seed: int = 0,
    progress: bool = True,
) -> KernelComparison:
    """Scores of several kernel families, with what they do not mean, and a held-out error.

    The held-out error has no constant that depends on the family: in each fold the
    kernel is learned from the other folds (:func:`~bke.inference.learn_kernel`, ``"map"``) and
    E_t (mu_tilde(t) - mu(t))^2 of its posterior embedding, with the sampling covariance for noise
    as :func:`~bke.models.embedding_posterior` has it, compared with that of mu_hat, both
    estimated without bias at the held-out points. It says how much a family's model gains over the
    plain average of the same kernel, not which kernel is best for a task.

    Args:
        X: data, shape (n, D) or (n,).
        kernels: by name, as for :func:`~bke.inference.fit`.
        priors: by the same names; by default Gamma(1, 1) on every lengthscale.
        noise_variance: as for :func:`~bke.inference.fit`.
        measure: likewise.
        likelihood: ``"auto"``, ``"dense"`` or ``"spectral"``.
        scale: likewise.
        dither: likewise.
        folds: of the held-out error, from 2 to n / 4.
        particles: of SMC, for families of more than two hyperparameters.
        seed: of folds and SMC.
        progress: show progress bars.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    if not isinstance(kernels, Mapping) or not kernels:
        raise InputError("kernels must be a dict of at least one kernel by name")
    if priors is not None and not isinstance(priors, Mapping):
        raise InputError("priors must be a dict by the names of the kernels")
    if unknown := set(priors or {}) - set(kernels):
        raise InputError(f"priors has {', '.join(sorted(unknown))}, which kernels has not")
    if not _is_exact(likelihood):
        raise InputError(
            f"likelihood must be one of {get_args(Route)}, got {likelihood!r}"
            f"{nearest(likelihood, get_args(Route))}"
        )
    data = np.concatenate(as_samples(X, "pooled"))
    check_count(folds, "folds", 2, max(2, len(data) // 4))
    found = {}
    with progress_bar("kernels", len(kernels) * (folds + 2), shown=progress) as advance:
        for name, family in kernels.items():
            model: dict[str, Any] = {
                "kernel": template(family),
                "prior": (priors or {}).get(name),
                "noise_variance": noise_variance,
                "measure": measure,
                "likelihood": likelihood,
                "seed": seed,
            }
            units: dict[str, Any] = {"scale": scale, "dither": dither}
            run = _integrated(data, {**model, **units}, particles)
            advance(1)
            learned = learn_kernel(data, objective="map", progress=False, **model, **units)
            advance(1)
            held_out = _held_out(run, data, model, dither, folds, seed, advance)
            weighed = integral_of(run)
            assert weighed is not None  # both ways to it know the integral
            found[name] = KernelScore(weighed.log, weighed.error, *held_out, learned.kernel)
    order = sorted(found, key=lambda name: -found[name].score)
    return KernelComparison({name: found[name] for name in order})


def _integrated(data: np.ndarray, arguments: dict[str, Any], particles: int) -> xr.DataTree:
    """A run with its normaliser, by quadrature where that can be."""
    target = Target.checked(*(arguments[name] for name in TARGET))
    few = target.hyperparameters in MOST_EVALUATIONS
    method = Quadrature(draws=INTEGRAL_DRAWS) if few else Smc(particles=particles)
    return fit(data, method=method, progress=False, **arguments)


def _is_exact(likelihood: Likelihood | str) -> bool:
    """Whether it gives the marginal likelihood itself: errors of families do not cancel."""
    if isinstance(likelihood, Likelihood):
        return likelihood.exact
    return likelihood in get_args(Route)


def _held_out(
    run: xr.DataTree,
    data: np.ndarray,
    model: dict[str, Any],
    dither: str | float | None,
    folds: int,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[float, float]:
    """Risk of the posterior embedding over that of the empirical one, and its standard error."""
    opened = open_run(run)
    target, units = opened.target, opened.units
    points = units.points(data)  # of one scale and dither for all folds
    # Rows may cancel in a fold that do not in all; what is dithered already cannot.
    dither = None if units.dither.any() else dither
    model = {**model, "measure": target.measure, "scale": None, "dither": dither}
    parts = np.array_split(np.random.default_rng(seed).permutation(len(points)), folds)
    gains, risks = [], []
    for part in parts:
        rest = np.delete(points, part, axis=0)
        peak = learn_kernel(rest, objective="map", progress=False, **model).peaks[0]
        measure = target.measure_at(peak.values)
        gain, risk = risk_difference(rest, points[part], peak.kernel, measure)
        gains.append(gain)
        risks.append(risk)
        advance(1)
    # The risk of the plain average is known far better than the difference from it.
    risk = float(np.mean(risks))
    error = float(np.std(gains, ddof=1) / np.sqrt(folds) / risk)
    return 1.0 + float(np.mean(gains)) / risk, error


def risk_difference(
    train: np.ndarray, test: np.ndarray, kernel: Kernel, measure: Measure
) -> tuple[float, float]:
    """E_t (mu_tilde(t) - mu(t))^2 less that of the empirical embedding, and the latter.

    Both embeddings are of ``train`` (n, D). With t and x drawn from the same distribution,
    E (a(t) - mu(t))^2 = E a(t)^2 - 2 E a(t) k(x, t) + E mu(t)^2, whose last term cancels in the
    difference; ``test`` (m, D) gives t and, but for t itself, x. The risk of the empirical
    embedding is E_t Var k(X, t) / n.
    """
    features = np.asarray(kernel(test, test))
    posterior = np.asarray(embedding_posterior(train, kernel, test, measure=measure).mean)
    plain = np.asarray(empirical_embedding(train, kernel, test))
    m = len(test)
    others = (features.sum(axis=0) - np.diagonal(features)) / (m - 1)
    difference = np.mean(posterior**2 - plain**2 - 2.0 * (posterior - plain) * others)
    variance = np.asarray(kernel(train, test)).var(axis=0, ddof=1)
    return float(difference), float(variance.mean() / len(train))
