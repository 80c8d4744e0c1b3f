"""Posterior predictive check of any model: do the data look like its own predictions?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr
from bke.models import SquaredExponential
from scipy.spatial.distance import cdist

from ..core.machine import computing
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.canonical import canonical_order
from ..data.checks import check_count
from ..data.units import choose_scale
from ..learning.kernel_selection import multiscale_kernels, take_evenly
from ..permutation.enough import check_permutations
from ..permutation.permutation import in_batches
from .combination import COMBINED, combine
from .kernel_choice import brief
from .notes import rounding_note
from .predictions import Dealt, Predictions
from .result import TestResult
from .scores import Scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Kernels, evenly taken from the ladder and the learned modes.
SCALES = 6
HYPOTHESES = ("no evidence against the model", "the data do not look like the model's predictions")
#: Observations that are printed, none nearer to another than the lengthscale or so many standard
#: deviations of the predictions: those disagree for one reason.
MOST_PRINTED, APART = 5, 0.3
#: Predictive draws that say how large a score is usual, and memory that one of them takes.
MOST_SETS, FEWEST_SETS = 59, 19
BYTES_OF_A_SET = 2**25


@dataclasses.dataclass(frozen=True, repr=False)
class PredictiveCheck(Shown):
    """What :func:`posterior_predictive_check` found.

    Attributes:
        result: the test.
        variable: that was checked.
        points: the observations, (n, D).
        witness: data less predictions at every observation, (n,), at ``result.kernel``.
        score: the witness over its standard error, (n,): large and positive where the data have
            more observations than the model predicts, or one where it predicts none; negative
            where they have fewer.
        reach: the largest size of a score stays below it in all but a share ``alpha`` of the
            model's own data sets.
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

    def worst(self, count: int = MOST_PRINTED) -> np.ndarray:
        """Find the observations where model and data disagree most, by index, the worst first."""
        return np.argsort(-np.abs(self.score), kind="stable")[:count]

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each observation, in the order of the data.

        Columns: its value, by the name of the variable (or of several ``name[0]``, ...);
        ``witness`` and ``score`` there; and ``beyond``, whether the score is larger than ``reach``.
        """
        import pandas as pd

        many = self.points.shape[1]
        each = [f"{self.variable}[{k}]" if many > 1 else self.variable for k in range(many)]
        found = {"witness": self.witness, "score": self.score}
        beyond = np.abs(self.score) > self.reach
        values = pd.DataFrame(self.points, columns=each)
        return values.assign(**found, beyond=beyond)

    def __str__(self) -> str:
        share = f"{100 * (1 - self.result.alpha):g} % of the model's own data sets stay below"
        far = int(np.sum(np.abs(self.score) > self.reach))
        beyond = (
            f"{far} of {len(self.points)} observations do not" if far else "and so does this one"
        )
        lines = [
            str(self.result),
            f"Where {self.variable} and the model disagree most ({share} {self.reach:.1f} standard "
            f"errors, {beyond}):",
        ]
        unit = self.predicted.std(axis=0)
        apart = np.maximum(np.asarray(self.result.kernel.lengthscale), APART * unit)
        shown: list[int] = []
        for index in self.worst(len(self.points)):
            away = np.abs(self.points[shown] - self.points[index]) / apart
            if len(shown) < MOST_PRINTED and not (away < 1.0).all(axis=1).any():
                shown.append(int(index))
        for index in shown:
            value = ", ".join(map(_placed, self.points[index], unit))
            more = "more" if self.score[index] > 0 else "fewer"
            lines.append(
                f"  [{index}] at {value}: {more} than predicted, witness "
                f"{self.witness[index]:.3g}, {abs(self.score[index]):.1f} standard errors"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return repr(self.result)

    def plot(self, *, axes: Sequence[Axes] | None = None) -> Figure:
        """Draw the null with the observed value, and the witness at the observations.

        Args:
            axes: one for each panel; by default a new figure.
        """
        from ..plots.predictive import plot_predictive_check

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

    Some of the predictive draws serve as the reference, and give the lengthscales; the distance of
    the data from them is compared with the distances of other draws from them. If the data were one
    more draw, its p-value would be uniform. But the model has seen the data, as in every posterior
    predictive check, which draws p-values to the middle; the level is at most doubled (Meng, 1994).

    The rows of one data set are taken as a sample: with covariates it is their marginal
    distribution that is checked.

    Args:
        tree: with the groups ``posterior_predictive`` and ``observed_data``, such as ArviZ makes.
        variable: its name; may be left out where the two groups share one.
        replicates: predictive draws to compare with; the others are the reference.
        rows: of each data set, at most, at random but the same in all; and twice as many of the
            reference.
        alpha: level of the verdict.
        standardize: as for :func:`~bke.inference.two_sample_test`, by the reference.
        seed: of the choice of draws and rows.
        progress: show a progress bar.

    Raises:
        InputError: for a tree without these groups, too few draws, or values that are not finite.
    """
    alpha = check_permutations(replicates, alpha, "replicates")
    check_count(rows, "rows", 4)
    check_count(seed, "seed", 0, 2**63 - 1)
    known = Predictions.of(tree, variable)
    dealt = known.dealt(replicates, rows, seed)
    with computing():
        lengthscales = _Lengthscales.learned(dealt.reference, standardize, seed)
        statistics = _statistics(dealt, lengthscales, progress=progress)
    kernels, unit = lengthscales.kernels, lengthscales.unit
    combined = combine(statistics, [(f"MMD, {brief(kernel)}", kernel) for kernel in kernels])
    most_extreme = combined.most_extreme
    result = TestResult.permuted(
        combined.row,
        test=f"posterior predictive check of {known.variable}",
        hypotheses=HYPOTHESES,
        kernel=kernels[most_extreme],
        how=f"{replicates} predictive draws",
        exact=False,
        alpha=alpha,
        parts=combined.parts,
        statistic_of=COMBINED,
    )
    scorer = Scorer(dealt.far / unit, lengthscales.scaled[most_extreme])
    # Scores of as many rows as were observed; of fewer sets where these are many.
    compared = dealt.replicates[: _sets_scored(replicates, alpha, len(known.observed) <= rows)]
    reach = _reach(scorer, known.draws, compared, unit, alpha, progress=progress)
    told = result.rejected
    notes = rounding_note(known.observed, dealt.reference, result.kernel) if told else ()
    notes += scorer.ceiling_note(len(known.observed), reach)
    witness, error = scorer.witness(known.observed / unit)
    return PredictiveCheck(
        dataclasses.replace(result, notes=notes),
        known.variable,
        known.observed,
        witness,
        witness / error,
        reach,
        dealt.reference,
    )


class _Lengthscales(NamedTuple):
    """Squared exponential kernels, with their lengthscales over the unit of each column."""

    kernels: list[SquaredExponential]
    unit: np.ndarray  # (D,)
    scaled: list[float]

    @classmethod
    def learned(cls, reference: np.ndarray, standardize: str | None, seed: int) -> _Lengthscales:
        """At most :data:`SCALES` of the kernels of a multiscale test of the reference (R, D)."""
        points = reference[canonical_order(reference)]
        kernels = take_evenly(multiscale_kernels(points, standardize, seed), SCALES)
        unit = choose_scale(points, standardize)
        scaled = [float(np.max(np.asarray(one.lengthscale) / unit)) for one in kernels]
        return cls(kernels, unit, scaled)


def _statistics(dealt: Dealt, lengthscales: _Lengthscales, *, progress: bool) -> np.ndarray:
    """Squared MMDs of every data set and the reference, (kernels, 1 + B)."""
    reference = dealt.reference / lengthscales.unit
    count, rows = dealt.sets.shape[:2]
    with progress_bar("data sets", count, shown=progress) as advance:

        def one(columns: slice) -> np.ndarray:
            sets = dealt.sets[columns] / lengthscales.unit
            found = np.stack([_distances(Z, reference, lengthscales.scaled) for Z in sets], axis=1)
            advance(found.shape[1])
            return found

        return in_batches(one, count, 16 * rows * (rows + len(reference)))


def _sets_scored(replicates: int, alpha: float, whole: bool) -> int:
    """Of how many data sets the scores are found: enough for the level, fewer of large ones."""
    enough = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    return min(replicates, max(enough, MOST_SETS if whole else FEWEST_SETS))


def _reach(
    scorer: Scorer,
    draws: np.ndarray,
    compared: np.ndarray,
    unit: np.ndarray,
    alpha: float,
    *,
    progress: bool,
) -> float:
    """What the highest score stays below in all but a share ``alpha`` of the model's data sets.

    Args:
        scorer: of the predictions that scores are taken against.
        draws: predictive data sets (draws, n, D).
        compared: indices of those that are scored, (k,).
        unit: of the columns, (D,).
        alpha: see above.
        progress: show a bar.
    """
    count = len(compared)
    with computing(), progress_bar("scores", count, shown=progress) as advance:

        def highest(columns: slice) -> np.ndarray:
            found = []
            for index in compared[columns]:
                height, error = scorer.witness(draws[index] / unit)
                found.append(np.abs(height / error).max())
                advance(1)
            return np.array(found)

        heights = in_batches(highest, count, BYTES_OF_A_SET)
    # As a p-value counts: of 59 sets the third largest leaves 0.05.
    rank = int(np.floor(alpha * (count + 1) + 1e-9))
    return float(np.sort(heights)[count - rank])


def _placed(value: float, unit: float) -> str:
    """A number with the digits that tell it from others a hundredth of ``unit`` away."""
    digits = 4 if value == 0 else int(np.ceil(np.log10(max(abs(value) / unit, 1.0)))) + 3
    return f"{value:.{min(digits, 15)}g}"


def _distances(Z: np.ndarray, reference: np.ndarray, lengths: list[float]) -> np.ndarray:
    """Squared MMD of Z and the reference for each lengthscale, unbiased, up to a constant."""
    within, across = cdist(Z, Z, "sqeuclidean"), cdist(Z, reference, "sqeuclidean")
    n = len(Z)
    values = []
    for length in lengths:
        factor = -0.5 / length**2
        own = (np.exp(factor * within).sum() - n) / (n * (n - 1))
        values.append(own - 2.0 * np.exp(factor * across).mean())
    return np.array(values)
