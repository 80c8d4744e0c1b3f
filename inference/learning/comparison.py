"""Comparison of kernel families by log marginal pseudo-likelihood and by held-out error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, embedding_posterior, empirical_embedding
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.measures import Measure
from bke.models.priors import Prior, template
from numpy.typing import ArrayLike
from scipy.stats import sem

from ..core.errors import InputError, check_choice
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.checks import as_samples, check_count
from ..diagnostics.integral import integral_of
from ..sampling.fit import fit
from ..sampling.open_run import OpenRun, open_run
from ..sampling.record import describe_kernel
from ..sampling.samplers import MOST_EVALUATIONS, Quadrature, Smc
from ..sampling.target import Target
from .maximum_likelihood import learn_kernel

if TYPE_CHECKING:
    import pandas as pd

CAVEAT = (
    "The score is the log normalizer, the log of BKE (13) averaged over the prior. (13) is not "
    "normalized over the data and its constant depends on the kernel family, so differences of "
    "scores are no Bayes factors and give no model probabilities."
)
RELATIVE_MSE = (
    "relative_mse: mean squared error of the posterior embedding over that of the empirical "
    "embedding, at held-out points; below 1 the model predicts its embedding better. Each is "
    "relative to the empirical embedding of the same kernel, so it says what the model gains, not "
    "which kernel is best."
)


@dataclasses.dataclass(frozen=True)
class KernelScore:
    """Log marginal pseudo-likelihood and held-out error of one kernel family.

    Attributes:
        score: log normalizer, see :data:`CAVEAT`.
        score_error: its estimated error; the standard error over repeats for SMC.
        relative_mse: held-out mean squared error of the posterior embedding over that of the
            empirical one.
        relative_mse_error: its standard error over the folds, taken as independent.
        kernel: learned from all data, in the units of the data.
    """

    score: float
    score_error: float
    relative_mse: float
    relative_mse_error: float
    kernel: Kernel

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {**vars(self), "kernel": describe_kernel(self.kernel)}


@dataclasses.dataclass(frozen=True)
class KernelComparison(ReprMixin):
    """Results by name of the family, the highest log marginal pseudo-likelihood first."""

    scores: dict[str, KernelScore]
    caveat: str = CAVEAT

    def to_dict(self) -> dict[str, Any]:
        """Return all scores and the caveat as dictionaries, for JSON."""
        scores = {name: score.to_dict() for name, score in self.scores.items()}
        return {"scores": scores, "caveat": self.caveat}

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each kernel, the highest score first.

        Columns: ``kernel``, its name, and ``score``, ``score_error``, ``relative_mse`` and
        ``relative_mse_error`` of :class:`KernelScore`. Scores are not Bayes factors: see
        ``caveat``.
        """
        import pandas as pd

        rows = [{**vars(score), "kernel": name} for name, score in self.scores.items()]
        header = ["kernel", "score", "score_error", "relative_mse", "relative_mse_error"]
        return pd.DataFrame(rows, columns=header)

    def _answer(self) -> str:
        return ""  # the first line alone is only a header

    def __str__(self) -> str:
        formatters = {"score": "{:.2f}".format, "relative_mse": "{:.3f}".format}
        table = self.to_dataframe().to_string(
            index=False, float_format="{:.2g}".format, formatters=formatters
        )
        return "\n".join([table, "", self.caveat, RELATIVE_MSE])


def compare_kernels(
    X: ArrayLike,
    kernels: Mapping[str, Kernel | type[Kernel]],
    *,
    priors: Mapping[str, Prior] | None = None,
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
    standardize: str | None = "column",
    dither: str | float | None = "auto",
    folds: int = 5,
    particles: int = 4000,
    seed: int = 0,
    progress: bool = True,
) -> KernelComparison:
    """Compute the log marginal pseudo-likelihood and a held-out error of several kernel families.

    The first is no Bayes factor: its constant depends on the family, see :data:`CAVEAT`.

    The held-out error has no constant that depends on the family: in each fold the kernel is
    learned from the other folds (:func:`~bke.inference.learn_kernel`, ``"map"``).
    E_t (mu_tilde(t) - mu(t))^2 of its posterior embedding, with the sampling covariance for noise
    as in :func:`~bke.models.embedding_posterior`, is compared with that of mu_hat, both estimated
    without bias at the held-out points. It measures the gain of a family's model over the
    empirical embedding of the same kernel, not which kernel is best for a task.

    Args:
        X: data, shape (n, D) or (n,).
        kernels: by name, as for :func:`~bke.inference.fit`.
        priors: by the same names; by default Gamma(1, 1) on every lengthscale.
        noise_variance: as for :func:`~bke.inference.fit`.
        measure: as for :func:`~bke.inference.fit`.
        likelihood: ``"auto"``, ``"dense"`` or ``"spectral"``.
        standardize: as for :func:`~bke.inference.fit`.
        dither: as for :func:`~bke.inference.fit`.
        folds: number of folds, from 2 to n / 4.
        particles: number of particles of SMC, for families of more than two hyperparameters.
        seed: seed of folds and SMC.
        progress: show progress bars.

    Raises:
        InputError: for invalid data or arguments; the message names them.
    """
    if not isinstance(kernels, Mapping) or not kernels:
        raise InputError("kernels must be a dict of at least one kernel by name")
    if priors is not None and not isinstance(priors, Mapping):
        raise InputError("priors must be a dict by the names of the kernels")
    if unknown := set(priors or {}) - set(kernels):
        raise InputError(f"priors has {', '.join(sorted(unknown))}, which is not in kernels")
    # Errors of approximate likelihoods do not cancel between families.
    if not (isinstance(likelihood, Likelihood) and likelihood.exact):
        exact = tuple(name for name, cls in LIKELIHOODS.items() if cls.exact)
        check_choice(likelihood, "likelihood", exact)
    data = np.concatenate(as_samples(X, "pooled"))
    check_count(folds, "folds", 2, max(2, len(data) // 4))
    scores = {}
    with progress_bar("kernels", len(kernels) * (folds + 2), show=progress) as advance:
        for name, family in kernels.items():
            model: dict[str, Any] = {
                "kernel": template(family),
                "prior": (priors or {}).get(name),
                "noise_variance": noise_variance,
                "measure": measure,
                "likelihood": likelihood,
            }
            quadrature = Target.checked(*model.values()).num_hyperparameters in MOST_EVALUATIONS
            # Only the integral is used, so few draws do.
            method = Quadrature(num_samples=64) if quadrature else Smc(num_particles=particles)
            model["seed"] = seed
            options: dict[str, Any] = {
                "standardize": standardize,
                "dither": dither,
                "progress": False,
            }
            run = fit(data, method=method, **model, **options)
            advance(1)
            learned = learn_kernel(data, objective="map", **model, **options)
            advance(1)
            relative = _relative_mse(open_run(run), data, model, dither, folds, advance)
            integral = integral_of(run)
            assert integral is not None  # both methods compute it
            scores[name] = KernelScore(integral.log, integral.error, *relative, learned.kernel)
    return KernelComparison(dict(sorted(scores.items(), key=lambda item: -item[1].score)))


def _relative_mse(
    run: OpenRun,
    data: np.ndarray,
    model: dict[str, Any],
    dither: str | float | None,
    folds: int,
    advance: Callable[[int], None],
) -> tuple[float, float]:
    """Return the risk of the posterior embedding over that of the empirical one, and its error."""
    points = run.units.transform_data(data)  # with the same scale and dither in all folds
    # Rows may cancel in a fold that do not in all data, but not if they are dithered already.
    dither = None if run.units.dither.any() else dither
    model = {**model, "measure": run.target.measure, "standardize": None, "dither": dither}
    order = np.random.default_rng(model["seed"]).permutation(len(points))
    results = []
    for fold in np.array_split(order, folds):
        train = np.delete(points, fold, axis=0)
        peak = learn_kernel(train, objective="map", progress=False, **model).peaks[0]
        measure = run.target.measure_at(peak.values)
        results.append(risk_difference(train, points[fold], peak.kernel, measure))
        advance(1)
    differences, risks = np.transpose(results)
    # The risk of the empirical embedding is known far better than the difference from it.
    relative = differences / risks.mean()
    return 1.0 + float(relative.mean()), float(sem(relative))


def risk_difference(
    train: np.ndarray, test: np.ndarray, kernel: Kernel, measure: Measure
) -> tuple[float, float]:
    """Return E_t (mu_tilde(t) - mu(t))^2 less that of the empirical embedding, and the latter.

    Both embeddings are of ``train`` (n, D). With t and x drawn from the same distribution,
    E (a(t) - mu(t))^2 = E a(t)^2 - 2 E a(t) k(x, t) + E mu(t)^2, whose last term cancels in the
    difference; ``test`` (m, D) gives t and, except for t itself, x. The risk of the empirical
    embedding is E_t Var k(X, t) / n.
    """
    gram = np.asarray(kernel(test, test))
    posterior = np.asarray(embedding_posterior(train, kernel, test, measure=measure).mean)
    empirical = np.asarray(empirical_embedding(train, kernel, test))
    leave_one_out = (gram.sum(axis=0) - np.diagonal(gram)) / (len(test) - 1)
    difference = np.mean(
        posterior**2 - empirical**2 - 2.0 * (posterior - empirical) * leave_one_out
    )
    variance = np.asarray(kernel(train, test)).var(axis=0, ddof=1)
    return float(difference), float(variance.mean() / len(train))
