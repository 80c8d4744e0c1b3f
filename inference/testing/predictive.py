"""Posterior predictive check of any model: do the data look like its own predictions?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.spatial.distance import cdist

from ..data.canonical import canonical_order
from ..data.checks import as_sample, check_count
from ..data.units import choose_scale
from ..errors import InputError
from ..learning.named_kernels import multiscale_kernels, some
from ..runtime.machine import computing
from ..runtime.progress import progress_bar
from .combination import COMBINED, combine
from .notes import rounding_note
from .permutation import in_batches, p_value
from .result import TestResult, brief, check_permutations
from .scores import MORE_ROWS, Scorer

if TYPE_CHECKING:
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
class PredictiveCheck:
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
        """Indices of the observations where model and data disagree most, the worst first."""
        return np.argsort(-np.abs(self.score), kind="stable")[:count]

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

    def plot(self) -> Figure:
        """The null with the observed value, and the witness at the observations."""
        from ..plots.predictive import plot_predictive_check

        return plot_predictive_check(self)


def posterior_predictive_check(
    tree: xr.DataTree,
    variable: str | None = None,
    *,
    replicates: int = 199,
    rows: int = 500,
    alpha: float = 0.05,
    scale: str | None = "column",
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
        scale: as for :func:`~bke.inference.two_sample_test`, by the reference.
        seed: of the choice of draws and rows.
        progress: show a progress bar.

    Raises:
        InputError: for a tree without these groups, too few draws, or values that are not finite.
    """
    check_permutations(replicates, alpha, "replicates")
    check_count(rows, "rows", 4)
    check_count(seed, "seed", 0, 2**63 - 1)
    name, observed, predictive = _arrays(tree, variable)
    total, n = predictive.shape[:2]
    if total < replicates + 2:
        raise InputError(
            f"there are {total} predictive draws, where {replicates + 2} are needed, "
            f"replicates={replicates} and at least 2 for reference: make more, or lower replicates"
        )
    rng = np.random.default_rng((seed, 4))
    order = rng.permutation(total)
    kept = np.sort(rng.choice(n, min(n, rows), replace=False))
    sets = np.concatenate([observed[None, kept], predictive[order[:replicates]][:, kept]])
    others = predictive[order[replicates:]].reshape(-1, observed.shape[1])
    as_sample(others, f"the predictions of {name}")
    far = others[rng.permutation(len(others))[: max(2 * rows, MORE_ROWS)]]
    reference = far[: 2 * rows]
    with computing():
        sorted_reference = reference[canonical_order(reference)]
        kernels = some(multiscale_kernels(sorted_reference, scale, seed), SCALES)
        unit = choose_scale(sorted_reference, scale)
        lengths = [float(np.max(np.asarray(one.lengthscale) / unit)) for one in kernels]
        with progress_bar("data sets", len(sets), shown=progress) as advance:

            def one(columns: slice) -> np.ndarray:
                found = np.stack(
                    [_distances(Z / unit, reference / unit, lengths) for Z in sets[columns]], axis=1
                )
                advance(found.shape[1])
                return found

            statistics = in_batches(one, len(sets), 16 * len(kept) * (len(kept) + len(reference)))
    row, parts, loudest = combine(
        statistics, [(f"MMD, {brief(kernel)}", kernel) for kernel in kernels]
    )
    result = TestResult(
        test=f"posterior predictive check of {name}",
        hypotheses=HYPOTHESES,
        statistic=float(row[0]),
        pvalue=p_value(row),
        null=row[1:],
        kernel=kernels[loudest],
        how=f"{replicates} predictive draws",
        exact=False,
        alpha=alpha,
        parts=parts,
        statistic_of=COMBINED,
    )
    if result.rejected:
        notes = rounding_note(observed, reference, result.kernel)
        result = dataclasses.replace(result, notes=notes)
    scorer = Scorer(far / unit, lengths[loudest])
    # Of as many rows as were observed; fewer sets where these are many, but enough for the level.
    enough = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    count = min(replicates, max(enough, MOST_SETS if n <= rows else FEWEST_SETS))
    with computing(), progress_bar("scores", count, shown=progress) as advance:

        def highest(columns: slice) -> np.ndarray:
            found = []
            for index in order[:count][columns]:
                height, error = scorer.witness(predictive[index] / unit)
                found.append(np.abs(height / error).max())
                advance(1)
            return np.array(found)

        heights = in_batches(highest, count, BYTES_OF_A_SET)
    # As a p-value counts: of 59 sets the third largest leaves 0.05.
    rank = int(np.floor(alpha * (count + 1) + 1e-9))
    reach = float(np.sort(heights)[count - rank])
    witness, error = scorer.witness(observed / unit)
    ceiling = scorer.ceiling(n)
    if ceiling < reach:
        note = (
            f"with {len(far)} predicted rows an observation where none is predicted scores no more "
            f"than {ceiling:.1f}, which is not unusual: more predictive draws would show it"
        )
        result = dataclasses.replace(result, notes=(*result.notes, note))
    return PredictiveCheck(result, name, observed, witness, witness / error, reach, reference)


def _placed(value: float, unit: float) -> str:
    """A number with the digits that tell it from others a hundredth of ``unit`` away."""
    digits = 4 if value == 0 else int(np.ceil(np.log10(max(abs(value) / unit, 1.0)))) + 3
    return f"{value:.{min(digits, 15)}g}"


def _distances(Z: np.ndarray, reference: np.ndarray, lengths: list[float]) -> np.ndarray:
    """Unbiased squared MMD of Z and the reference for each lengthscale, up to a constant."""
    within, across = cdist(Z, Z, "sqeuclidean"), cdist(Z, reference, "sqeuclidean")
    n = len(Z)
    values = []
    for length in lengths:
        factor = -0.5 / length**2
        own = (np.exp(factor * within).sum() - n) / (n * (n - 1))
        values.append(own - 2.0 * np.exp(factor * across).mean())
    return np.array(values)


def _arrays(tree: Any, variable: str | None) -> tuple[str, np.ndarray, np.ndarray]:
    """Name, observed (n, D) and predictive draws (draws, n, D)."""
    groups = ("posterior_predictive", "observed_data")
    if not isinstance(tree, xr.DataTree) or not set(groups) <= set(tree.children):
        raise InputError(f"a DataTree with the groups {groups[0]} and {groups[1]} is needed")
    predictive, observed = (tree[group].to_dataset() for group in groups)
    shared = [str(name) for name in observed.data_vars if name in predictive.data_vars]
    if variable is None:
        if len(shared) != 1:
            raise InputError(
                f"the two groups share {len(shared)} variables ({', '.join(shared)}): name one"
            )
        (variable,) = shared
    elif variable not in shared:
        raise InputError(f"there is no {variable!r} in both groups, only {', '.join(shared)}")
    values = observed[variable].values
    if values.ndim == 0:
        raise InputError(f"{variable!r} is one number: there is no sample to check")
    draws = predictive[variable].transpose("chain", "draw", ...).values
    if draws.shape[2:] != values.shape:
        raise InputError(
            f"{variable!r} was observed in shape {values.shape} and predicted in {draws.shape[2:]}"
        )
    numbers = values.reshape(len(values), -1)
    data = as_sample(numbers * 1.0, variable, may_be_constant=True)
    made = draws.reshape(-1, *data.shape).astype(float)
    if not np.isfinite(made).all():
        raise InputError(f"{(~np.isfinite(made)).sum()} predicted values are not finite")
    return variable, data, made
