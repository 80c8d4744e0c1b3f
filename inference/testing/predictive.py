"""Posterior predictive checks: tests of observed data against predictions of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.spatial.distance import cdist

from ..core.errors import InputError
from ..core.machine import computing
from ..core.notebook import Shown
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
class PredictiveCheck(Shown):
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
    predictions = Predictions.from_tree(tree, variable)
    split = predictions.split(replicates, rows, seed)
    observed, reference = predictions.observed, split.reference
    with computing():
        ordered = reference[canonical_order(reference)]
        kernels = take_evenly(multiscale_kernels(ordered, standardize, seed), 6)
        scale = choose_scale(ordered, standardize)
        lengthscales = [float(np.max(np.asarray(kernel.lengthscale) / scale)) for kernel in kernels]
        statistics = _mmds_to_reference(split, scale, lengthscales, progress=progress)
    combined = combine(statistics, [(f"MMD, {short_name(kernel)}", kernel) for kernel in kernels])
    most_extreme = combined.most_extreme
    result = TestResult.from_permutations(
        combined.values,
        test=f"posterior predictive check of {predictions.variable}",
        hypotheses=HYPOTHESES,
        kernel=kernels[most_extreme],
        method=f"{replicates} predictive draws",
        exact=False,
        alpha=alpha,
        components=combined.components,
        statistic_label=COMBINED,
    )
    scorer = Scorer(split.predicted / scale, lengthscales[most_extreme])
    # Scores are computed for all rows: with many rows only for few data sets.
    needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    num_sets = min(replicates, max(needed, 59 if len(observed) <= rows else 19))
    scored = [predictions.draws[index] for index in split.replicates[:num_sets]]
    threshold = _score_threshold(scorer, scored, scale, alpha, progress=progress)
    notes = rounding_note(observed, reference, result.kernel) if result.reject else ()
    notes += scorer.power_note(len(observed), threshold)
    witness, error = scorer.witness(observed / scale)
    return PredictiveCheck(
        dataclasses.replace(result, notes=notes),
        predictions.variable,
        observed,
        witness,
        witness / error,
        threshold,
        reference,
    )


class Split(NamedTuple):
    """Predictive draws, split at random into replicates and the reference.

    Attributes:
        replicates: indices of the draws that are compared with the reference, (B,).
        sets: the data and these draws, (1 + B, k, D), with the same k rows each.
        predicted: rows of all other draws in random order, (R, D).
        reference: the first rows of ``predicted``, from which MMDs are computed.
    """

    replicates: np.ndarray
    sets: np.ndarray
    predicted: np.ndarray
    reference: np.ndarray


@dataclasses.dataclass(frozen=True)
class Predictions:
    """A variable of a model, observed and predicted.

    Attributes:
        variable: name of the variable.
        observed: data, (n, D).
        draws: posterior predictive draws, (draws, n, D).
    """

    variable: str
    observed: np.ndarray
    draws: np.ndarray

    @classmethod
    def from_tree(cls, tree: Any, variable: str | None) -> Predictions:
        """Read a variable, by default the one that both groups contain.

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
        return cls(name, data, draws)

    def split(self, num_replicates: int, max_rows: int, seed: int) -> Split:
        """Split the draws at random into replicates and the reference.

        Args:
            num_replicates: number of replicates.
            max_rows: largest number of rows of each data set; the reference has twice as many.
            seed: random seed.

        Raises:
            InputError: for too few draws, or predictions that are constant.
        """
        total, n = self.draws.shape[:2]
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
        sets = np.concatenate([self.observed[None, rows], self.draws[replicates][:, rows]])
        predicted = self.draws[order[num_replicates:]].reshape(-1, self.observed.shape[1])
        as_sample(predicted, f"the predictions of {self.variable}")
        size = max(2 * max_rows, MAX_MORE_PREDICTIONS)
        predicted = predicted[rng.permutation(len(predicted))[:size]]
        return Split(replicates, sets, predicted, predicted[: 2 * max_rows])


def _mmds_to_reference(
    split: Split, scale: np.ndarray, lengthscales: list[float], *, progress: bool
) -> np.ndarray:
    """Compute squared MMDs between every data set and the reference, (kernels, 1 + B)."""
    reference = split.reference / scale
    count, rows = split.sets.shape[:2]
    with progress_bar("data sets", count, shown=progress) as advance:

        def batch(columns: slice) -> np.ndarray:
            sets = split.sets[columns] / scale
            values = np.stack([squared_mmds(Z, reference, lengthscales) for Z in sets], axis=1)
            advance(values.shape[1])
            return values

        return in_batches(batch, count, 16 * rows * (rows + len(reference)))


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

    def power_note(self, n: int, threshold: float) -> tuple[str, ...]:
        """Warn if an observation without a prediction nearby would score below the threshold."""
        max_score = self.max_score(n)
        if max_score >= threshold:
            return ()
        return (
            f"with {len(self.predicted)} predicted rows, an observation without a prediction "
            f"nearby has a score of at most {max_score:.1f}, below the threshold: more predictive "
            "draws increase it",
        )

    def _kernel(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 / self.lengthscale**2 * cdist(points, rows, "sqeuclidean"))

    @staticmethod
    def _error(variance: np.ndarray, num_rows: np.ndarray, n: int) -> np.ndarray:
        """Compute the standard error of a witness. The variance is at least 1 / ``num_rows``."""
        return np.sqrt(np.maximum(variance, 1.0 / num_rows) * (1.0 / n + 1.0 / num_rows))


def _score_threshold(
    scorer: Scorer, sets: Sequence[np.ndarray], scale: np.ndarray, alpha: float, *, progress: bool
) -> float:
    """Compute the threshold that the largest score exceeds in a proportion ``alpha`` of data sets.

    Args:
        scorer: scorer of the predictions.
        sets: predictive data sets, (n, D) each.
        scale: scales of the columns, (D,).
        alpha: proportion.
        progress: show a progress bar.
    """
    count = len(sets)
    with computing(), progress_bar("scores", count, shown=progress) as advance:

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
