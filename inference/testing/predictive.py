"""Posterior predictive checks: tests of observed data against predictions of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.spatial.distance import cdist

from ..core.errors import InputError
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.canonical import canonical_order
from ..data.checks import as_sample, check_count
from ..data.units import choose_scale
from ..learning.kernel_selection import multiscale_kernels, take_evenly
from ..permutation.null_distribution import check_permutations, in_batches
from .kernels import short_name
from .result import COMBINED, TestResult, combine, rounding_note

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HYPOTHESES = ("no evidence against the model", "the data do not look like the model's predictions")
GROUPS = ("posterior_predictive", "observed_data")
#: Number of observations in a summary, and their smallest distance in standard deviations of the
#: predictions or in lengthscales: closer observations disagree for the same reason.
MAX_PRINTED, MIN_DISTANCE = 5, 0.3
#: Largest number of predicted rows that all observations are compared with.
MAX_PREDICTIONS = 20_000
#: Observations with fewer predicted rows nearby than ``MIN_NEARBY`` are compared with up to
#: ``MAX_MORE_PREDICTIONS`` rows: R rows without a neighbor only bound the frequency by 1 / R.
MIN_NEARBY, MAX_MORE_PREDICTIONS = 30, 500_000


@dataclasses.dataclass(frozen=True, repr=False)
class PredictiveCheck(ReprMixin):
    """Result of :func:`posterior_predictive_check`.

    Attributes:
        result: result of the test.
        variable: name of the variable.
        points: observations, (n, D).
        witness: witness (data less predictions) at every observation, (n,), with the kernel
            ``result.kernel``.
        score: witness over its standard error, (n,). It is positive where the data have more
            observations than the model predicts, or an observation has no prediction nearby; and
            negative where they have fewer.
        reach: threshold that the largest absolute score exceeds in a proportion ``alpha`` of the
            data sets from the model.
        predicted: predictions, (R, D).
    """

    result: TestResult
    variable: str
    points: np.ndarray
    witness: np.ndarray
    score: np.ndarray
    reach: float
    predicted: np.ndarray

    @property
    def pvalue(self) -> float:
        """The posterior predictive p-value."""
        return self.result.pvalue

    def worst(self, count: int = MAX_PRINTED) -> np.ndarray:
        """Return the indices of the observations with the largest absolute scores, in order."""
        return np.argsort(-np.abs(self.score), kind="stable")[:count]

    def to_dataframe(self) -> pd.DataFrame:
        """Return the observations as rows, in the order of the data.

        Columns: the value, named after the variable (or ``name[0]``, ... for several columns);
        ``witness``; ``score``; and ``beyond``, whether the absolute score exceeds ``reach``.
        """
        import pandas as pd

        dimension = self.points.shape[1]
        names = [self.variable]
        if dimension > 1:
            names = [f"{self.variable}[{index}]" for index in range(dimension)]
        return pd.DataFrame(self.points, columns=names).assign(
            witness=self.witness, score=self.score, beyond=np.abs(self.score) > self.reach
        )

    def __str__(self) -> str:
        num_beyond = int(np.sum(np.abs(self.score) > self.reach))
        lines = [
            str(self.result),
            f"Observations of {self.variable} with the largest scores ({num_beyond} of "
            f"{len(self.points)} beyond {self.reach:.1f} standard errors, the threshold that "
            f"{100 * (1 - self.result.alpha):g} % of data sets from the model do not exceed):",
        ]
        deviations = self.predicted.std(axis=0)
        lengthscale = np.asarray(self.result.kernel.lengthscale)
        min_distance = np.maximum(lengthscale, MIN_DISTANCE * deviations)
        printed: list[int] = []
        for index in self.worst(len(self.points)):
            distance = np.abs(self.points[printed] - self.points[index]) / min_distance
            if len(printed) < MAX_PRINTED and not (distance < 1.0).all(axis=1).any():
                printed.append(int(index))
        for index in printed:
            value = ", ".join(map(_format_value, self.points[index], deviations))
            more = "more" if self.score[index] > 0 else "fewer"
            lines.append(
                f"  [{index}] at {value}: {more} than predicted, witness "
                f"{self.witness[index]:.3g}, {abs(self.score[index]):.1f} standard errors"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return repr(self.result)

    def plot(self, *, axes: Sequence[Axes] | None = None) -> Figure:
        """Plot the null distribution with the observed value, and the witness at the observations.

        Args:
            axes: axes for each panel; by default a new figure.
        """
        from ..plots.testing import plot_predictive_check

        return plot_predictive_check(self, axes=axes)


def posterior_predictive_check(
    tree: xr.DataTree,
    variable: str | None = None,
    *,
    replicates: int = 199,
    rows: int = 500,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> PredictiveCheck:
    """Compare observed data with posterior predictive draws by squared MMDs at many lengthscales.

    Some of the predictive draws are the reference sample, which also determines the lengthscales.
    The MMD of the data and the reference is compared with the MMDs of other draws and the
    reference. The p-value would be uniform if the data were one more draw. But the model was fitted
    to the data, as in every posterior predictive check, which shifts p-values toward 0.5; the level
    is at most doubled (Meng, 1994).

    The rows of a data set are treated as a sample. For a model with covariates this checks the
    marginal distribution.

    Args:
        tree: tree with the groups ``posterior_predictive`` and ``observed_data``, as made by ArviZ.
        variable: name of the variable. Default: the one that both groups contain.
        replicates: number of predictive draws to compare with; the others are the reference.
        rows: largest number of rows per data set, a random subset that is the same in all; the
            reference has at most twice as many.
        alpha: level of the test.
        standardize: as for :func:`~bke.inference.two_sample_test`, by the reference.
        seed: random seed of the choice of draws and rows.
        progress: show a progress bar.

    Raises:
        InputError: for a tree without these groups, too few draws, or values that are not finite.
    """
    alpha = check_permutations(replicates, alpha, "replicates")
    check_count(rows, "rows", 4)
    check_count(seed, "seed", 0, 2**63 - 1)
    name, observed, draws = _read_variable(tree, variable)
    selected, sets, predicted = _split(name, observed, draws, replicates, rows, seed)
    reference = predicted[: 2 * rows]
    with computing():
        ordered = reference[canonical_order(reference)]
        kernels = take_evenly(multiscale_kernels(ordered, standardize, seed), 6)
        scale = choose_scale(ordered, standardize)
        lengthscales = [float(np.max(np.asarray(kernel.lengthscale) / scale)) for kernel in kernels]
        scaled, size = reference / scale, sets.shape[1]
        with progress_bar("data sets", len(sets), show=progress) as advance:

            def batch(columns: slice) -> np.ndarray:
                values = [squared_mmds(Z, scaled, lengthscales) for Z in sets[columns] / scale]
                advance(len(values))
                return np.stack(values, axis=1)

            statistics = in_batches(batch, len(sets), 16 * size * (size + len(scaled)))
    combined = combine(statistics, [(f"MMD, {short_name(kernel)}", kernel) for kernel in kernels])
    most_extreme = combined.most_extreme
    result = TestResult.from_permutations(
        combined.values,
        test=f"posterior predictive check of {name}",
        hypotheses=HYPOTHESES,
        kernel=kernels[most_extreme],
        method=f"{replicates} predictive draws",
        exact=False,
        alpha=alpha,
        components=combined.components,
        statistic_label=COMBINED,
    )
    scorer = Scorer(predicted / scale, lengthscales[most_extreme])
    # Scores are computed for all rows: with many rows only for few data sets.
    needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    num_sets = min(replicates, max(needed, 59 if len(observed) <= rows else 19))
    threshold = _score_threshold(scorer, draws[selected[:num_sets]], scale, alpha, progress)
    notes = rounding_note(observed, reference, result.kernel) if result.reject else ()
    max_score = scorer.max_score(len(observed))
    if max_score < threshold:
        notes += (
            f"with {len(predicted)} predicted rows, an observation without a prediction nearby has "
            f"a score of at most {max_score:.1f}, below the threshold: more predictive draws "
            "increase it",
        )
    witness, error = scorer.witness(observed / scale)
    return PredictiveCheck(
        dataclasses.replace(result, notes=notes),
        name,
        observed,
        witness,
        witness / error,
        threshold,
        reference,
    )


def _read_variable(tree: Any, variable: str | None) -> tuple[str, np.ndarray, np.ndarray]:
    """Read a variable, by default the one that both groups contain.

    Returns:
        The name of the variable, the data (n, D), and posterior predictive draws (draws, n, D).

    Raises:
        InputError: for a tree without the groups or the variable, or values that do not match.
    """
    if not isinstance(tree, xr.DataTree) or not set(GROUPS) <= set(tree.children):
        raise InputError(f"a DataTree with the groups {GROUPS[0]} and {GROUPS[1]} is needed")
    predictive, observed = (tree[group].to_dataset() for group in GROUPS)
    shared = [str(name) for name in observed.data_vars if name in predictive.data_vars]
    if variable is None and len(shared) != 1:
        raise InputError(
            f"the two groups share {len(shared)} variables ({', '.join(shared)}): pass the "
            "name of one"
        )
    if variable is not None and variable not in shared:
        raise InputError(f"there is no {variable!r} in both groups, only {', '.join(shared)}")
    name = variable or shared[0]
    values = observed[name].values
    if values.ndim == 0:
        raise InputError(f"{name!r} is a single number and not a sample")
    draws = predictive[name].transpose("chain", "draw", ...).values
    if draws.shape[2:] != values.shape:
        raise InputError(
            f"{name!r} was observed in shape {values.shape} and predicted in {draws.shape[2:]}"
        )
    rows = values.reshape(len(values), -1)
    data = as_sample(rows * 1.0, name, may_be_constant=True)
    draws = draws.reshape(-1, *data.shape).astype(float)
    if not np.isfinite(draws).all():
        raise InputError(f"{(~np.isfinite(draws)).sum()} predicted values are not finite")
    return name, data, draws


def _split(
    name: str,
    observed: np.ndarray,
    draws: np.ndarray,
    num_replicates: int,
    max_rows: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split predictive draws at random into replicates and others, whose rows are the reference.

    Args:
        name: name of the variable.
        observed: data, (n, D).
        draws: predictive draws, (draws, n, D).
        num_replicates: number of replicates B.
        max_rows: largest number of rows k of each data set.
        seed: random seed.

    Returns:
        Indices of the replicates, (B,); the data and the replicates with the same k rows each,
        (1 + B, k, D); and rows of all other draws in random order, (R, D).

    Raises:
        InputError: for too few draws, or predictions that are constant.
    """
    total, n = draws.shape[:2]
    if total < num_replicates + 2:
        raise InputError(
            f"there are {total} predictive draws, and {num_replicates + 2} are needed, "
            f"replicates={num_replicates} and at least 2 for the reference: make more draws, "
            "or decrease replicates"
        )
    rng = np.random.default_rng((seed, 4))
    order = rng.permutation(total)
    rows = np.sort(rng.choice(n, min(n, max_rows), replace=False))
    replicates = order[:num_replicates]
    sets = np.concatenate([observed[None, rows], draws[replicates][:, rows]])
    predicted = draws[order[num_replicates:]].reshape(-1, observed.shape[1])
    as_sample(predicted, f"the predictions of {name}")
    size = max(2 * max_rows, MAX_MORE_PREDICTIONS)
    return replicates, sets, predicted[rng.permutation(len(predicted))[:size]]


def squared_mmds(Z: np.ndarray, reference: np.ndarray, lengthscales: list[float]) -> np.ndarray:
    """Compute the unbiased squared MMD for each lengthscale, up to a term of the reference only."""
    within, across = cdist(Z, Z, "sqeuclidean"), cdist(Z, reference, "sqeuclidean")
    n = len(Z)
    values = []
    for lengthscale in lengthscales:
        factor = -0.5 / lengthscale**2
        mean_within = (np.exp(factor * within).sum() - n) / (n * (n - 1))
        values.append(mean_within - 2.0 * np.exp(factor * across).mean())
    return np.array(values)


@dataclasses.dataclass(frozen=True)
class Scorer:
    """The witness between data and predictions, and its standard error.

    Attributes:
        predicted: predictions (R, D) in random order, in the units of ``lengthscale``.
        lengthscale: lengthscale of the squared exponential kernel.
    """

    predicted: np.ndarray
    lengthscale: float

    def witness(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the witness of points (n, D) less predictions at these points, and its error.

        The error is that of a mean of n predicted values. The mean over the points includes the
        point of evaluation, so that a point without a prediction nearby has a positive witness.

        Returns:
            Witness and standard error, (n,) each.
        """
        predicted = self.predicted[:MAX_PREDICTIONS]
        data_mean = np.empty(len(points))
        mean, variance = np.empty(len(points)), np.empty(len(points))
        for start in range(0, len(points), 100):
            block = slice(start, start + 100)
            data_mean[block] = self._kernel(points[block], points).mean(axis=1)
            values = self._kernel(points[block], predicted)
            mean[block], variance[block] = values.mean(axis=1), values.var(axis=1, ddof=1)
        num_rows = np.full(len(points), len(predicted))
        rare = np.flatnonzero(variance * len(predicted) < MIN_NEARBY)
        if len(self.predicted) > len(predicted):
            error = self._error(variance, num_rows, len(points))[rare]
            scores = np.abs(data_mean - mean)[rare] / error
            # At most 20 observations, those with the largest scores.
            repeated = rare[np.argsort(-scores, kind="stable")[:20]]
            for index in repeated:
                values = self._kernel(points[[index]], self.predicted)[0]
                mean[index], variance[index] = values.mean(), values.var(ddof=1)
            num_rows[repeated] = len(self.predicted)
        return data_mean - mean, self._error(variance, num_rows, len(points))

    def max_score(self, n: int) -> float:
        """Compute the score of one of ``n`` observations without a prediction nearby."""
        num_rows = np.array(len(self.predicted))
        return float(1.0 / n / self._error(np.array(0.0), num_rows, n))

    def _kernel(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 / self.lengthscale**2 * cdist(points, rows, "sqeuclidean"))

    @staticmethod
    def _error(variance: np.ndarray, num_rows: np.ndarray, n: int) -> np.ndarray:
        """Compute the standard error of a witness. The variance is at least 1 / ``num_rows``."""
        return np.sqrt(np.maximum(variance, 1.0 / num_rows) * (1.0 / n + 1.0 / num_rows))


def _score_threshold(
    scorer: Scorer, sets: np.ndarray, scale: np.ndarray, alpha: float, progress: bool
) -> float:
    """Compute the threshold that the largest score exceeds in a proportion ``alpha`` of data sets.

    Args:
        scorer: scorer of the predictions.
        sets: predictive data sets, (B, n, D).
        scale: scales of the columns, (D,).
        alpha: proportion.
        progress: show a progress bar.
    """
    count = len(sets)
    with computing(), progress_bar("scores", count, show=progress) as advance:

        def batch(columns: slice) -> np.ndarray:
            largest = []
            for data in sets[columns]:
                witness, error = scorer.witness(data / scale)
                largest.append(np.abs(witness / error).max())
                advance(1)
            return np.array(largest)

        # A data set takes about 32 MiB.
        largest_scores = in_batches(batch, count, 2**25)
    # The rank is that of a p-value: with 59 data sets the third largest has p = 0.05.
    rank = int(np.floor(alpha * (count + 1) + 1e-9))
    return float(np.sort(largest_scores)[count - rank])


def _format_value(value: float, scale: float) -> str:
    """Format a number with a resolution of a hundredth of ``scale``."""
    digits = 4 if value == 0 else int(np.ceil(np.log10(max(abs(value) / scale, 1.0)))) + 3
    return f"{value:.{min(digits, 15)}g}"
