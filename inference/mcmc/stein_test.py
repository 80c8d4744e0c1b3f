"""Goodness of fit to a density of which only the slope is known, of rows or of chains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models import Radial, RationalQuadratic
from bke.models.statistics.stein import check_stein_kernel
from numpy.typing import ArrayLike

from ..core.errors import InputError, input_errors
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.checks import check_count, check_same_rows
from ..data.new_rows import known_names, ordered_rows
from ..learning.kernel_selection import format_kernel
from ..permutation.enough import check_permutations
from ..permutation.permutation import in_batches, standardised
from ..permutation.step_down import step_down
from ..testing.kernels import SINGLE_KERNELS, KernelChoice
from ..testing.result import COMBINED, CombinedStatistic, combine
from . import stein_sums
from .batches import INDEPENDENT, Batches, batches, depend
from .draws import Chains, as_chains
from .score import Score
from .stein_result import MOST_TOLD, Misfit, SteinResult

HYPOTHESES = ("no evidence against the density", "the draws do not come from the density")
MULTISCALE = "multiscale"
#: Choices of one kernel that is of the distance: a mixture over a posterior is not.
LEARNED = tuple(name for name in SINGLE_KERNELS if name != "posterior")
#: Lengthscales of the inverse multiquadric, over the median distance of the rows.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Rows that are compared with each other, at most.
MOST_ROWS = 6000
#: Statistics beside those of the scales, of moments, in one column and in several.
MOMENTS = ("second moments", "variances")
WITH_MOMENTS = (
    "log-sum-exp of all scales, standardised, and beside it second moments and variances, each by "
    "how surprising it is"
)
IN_ORDER = (
    "neighbouring rows seem to depend on each other, which this test of independent rows does not "
    "know of: give chains as (chains, draws, columns)"
)
#: Fewer rows or batches than this are told.
FEW = 100
FEW_TOLD = (
    "the null flips the signs of {count} rows or batches only: it rejects more often than its "
    "level says where scores are skewed"
)
#: Skewness of scores over the root of their number from which a note tells of more rejections than
#: the level: 0.07 in place of 0.05 for the logarithm of a gamma variable of shape 0.5 and 200 rows,
#: where it is 0.18; see benchmarks/results/stein.md for larger ones.
SKEWED = 0.15
SKEWED_TOLD = (
    "for so skewed scores, of {names}, {count} rows or batches are few: the test rejects more "
    "often than its level says"
)
#: A score beyond this would overflow in squares of squares.
STEEPEST = 1e60
SHORT = (
    "the chains are short: batches are {lengths:.2g} autocorrelation times long, not ten, so the "
    "level is approximate; {count} batches in all"
)


class Compared(NamedTuple):
    """The draws that are compared with each other, batch after batch, and the signs they are given.

    Attributes:
        points: (N, D).
        slopes: the scores there.
        unit: (D,), of each column.
        cut: which of them are a batch.
        signs: (q, 1 + B), of every batch; the first column has none flipped.
    """

    points: np.ndarray
    slopes: np.ndarray
    unit: np.ndarray
    cut: Batches
    signs: np.ndarray

    def within(self, kernel: Radial) -> tuple[np.ndarray, np.ndarray, Radial, Batches]:
        """Points, scores and kernel in units, in which columns' scores can be added up."""
        inside = stein_sums.within(kernel, self.unit)
        return self.points / self.unit, self.slopes * self.unit, inside, self.cut

    def statistics(self, sums: np.ndarray) -> np.ndarray:
        """The mean over pairs of rows of different batches, (1 + B,), by sums (q, q) over batches.

        Under the observed signs an unbiased estimate of the squared discrepancy.
        """
        others = sums - np.diag(np.diagonal(sums))

        def one(columns: slice) -> np.ndarray:
            part = self.signs[:, columns]
            return np.asarray(np.einsum("ij,ij->j", part, others @ part))

        return in_batches(one, self.signs.shape[1], 16 * len(self.signs)) / self._pairs

    def of_features(self, features: np.ndarray) -> np.ndarray:
        """The mean over pairs as by sums that are products of features (q, k), by these alone.

        In a tenth of the time, and with an error of rounding that grows with the largest feature
        over the others: for what names columns, not for what the test is told by.
        """
        along = features.T @ self.signs
        return np.asarray((np.sum(along**2, axis=0) - np.sum(features**2)) / self._pairs)

    @property
    def _pairs(self) -> int:
        return len(self.points) ** 2 - self.cut.count * self.cut.length**2


def stein_test(
    draws: ArrayLike | xr.DataTree | xr.Dataset,
    score: Score | Callable[[np.ndarray], ArrayLike] | ArrayLike,
    *,
    kernel: Any = "multiscale",
    bootstraps: int = 999,
    alpha: float = 0.05,
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> SteinResult:
    """Test that draws come from a density, by its slope alone: the kernel Stein test (MMD-23).

    A sampler that is biased is told from a right one, which R-hat, that compares chains with each
    other, cannot tell. The statistic is the squared kernel Stein discrepancy (Liu, Lee and Jordan
    2016; Chwialkowski, Strathmann and Gretton 2016), at several lengthscales, each standardised by
    its bootstrap and combined by log-sum-exp, and beside it what Stein's identity says of second
    moments and of variances, E[x s(x)'] = -I, each by how surprising it is. The null flips the
    signs of rows where these are independent, and of batches ten autocorrelation times long in
    chains; an approximation, whose level is measured in ``benchmarks/results/stein.md``. Modes that
    no draw is in it cannot see, nor, where modes lie far apart, whether each has its mass: there
    the slope says nothing of it.

    Args:
        draws: independent rows, shape (n, D) or (n,); chains (C, n, D), in order of time; or a tree
            of ArviZ's, see ``score``.
        score: d log p / dx of a density on all of R^D that falls off everywhere (of one with an
            edge take logarithms or logits first, with their volume): its values, of the shape of
            ``draws``; a function that maps rows (N, D) to slopes (N, D), such as
            ``jax.vmap(jax.grad(log_density))``; or what :func:`~bke.inference.score_of` makes of a
            NumPyro model, with which a tree's draws are taken to where nothing is constrained.
        kernel: ``"multiscale"``, inverse multiquadrics (1 + r^2 / l^2)^(-1/2), so rational
            quadratics of alpha 1/2, of five lengthscales around the median distance; ``"bkl"`` or
            ``"median"``, a squared exponential that is learned or at that distance; or a
            :class:`~bke.models.Radial`.
        bootstraps: B; the smallest p-value is 1 / (1 + B).
        alpha: level of the verdict.
        standardize: ``"column"``, ``"pooled"`` or ``None``, as for :func:`~bke.inference.fit`: the
            units in which columns' scores are added up, and lengthscales chosen.
        columns: names, in place of those that are known.
        seed: of the signs.
        progress: show a progress bar.

    Raises:
        InputError: for draws, scores or arguments that make no sense, in one sentence.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    alpha = check_permutations(bootstraps, alpha, "bootstraps")
    choice = KernelChoice.checked(kernel, (MULTISCALE, *LEARNED), standardize)
    chains, slopes = with_scores(draws, score, columns)
    # What a batch must forget: where the draws are, and how steep the density is there.
    both = np.concatenate([chains.values, slopes], axis=2)
    cut = batches(both, in_order=chains.in_order)
    notes = _notes(chains, slopes, cut)
    if isinstance(score, Score) and not isinstance(draws, (xr.DataTree, xr.Dataset)):
        notes += score.taken_as_unconstrained()
    rows, cut_down = cut.thinned(MOST_ROWS)
    if cut.count * cut.length > MOST_ROWS:
        notes.append(f"{len(rows)} draws, evenly from all, are compared with each other")
    rng = np.random.default_rng([seed, 11])
    signs = rng.choice([-1.0, 1.0], size=(cut.count, 1 + bootstraps))
    signs[:, 0] = 1.0
    points = cut.kept(chains.values)[rows]
    compared = Compared(points, cut.kept(slopes)[rows], choice.scales(points), cut_down, signs)
    with computing():
        return _tested(compared, chains.columns, choice, alpha, notes, progress=progress)


def with_scores(draws: Any, score: Any, columns: Sequence[str] | None) -> tuple[Chains, np.ndarray]:
    """The draws, where nothing is constrained if the score is of a model, and slopes (C, n, D).

    Raises:
        InputError: for draws or scores that make no sense.
    """
    if isinstance(draws, (xr.DataTree, xr.Dataset)) and isinstance(score, Score):
        draws = score.unconstrained(draws)
        columns = score.columns if columns is None else columns
    chains = as_chains(draws, columns=columns)
    shape = chains.values.shape
    if not isinstance(draws, (xr.DataTree, xr.Dataset)):
        check_same_rows(draws=draws, score=score)
    names = known_names(chains.columns) if shape[2] > 1 else None
    slope = _called(score, chains.rows) if callable(score) else score
    given = ordered_rows(slope, names, "the score")
    flat = callable(score) or not chains.in_order
    expected = chains.rows.shape if flat else shape
    if given.ndim == 1 and shape[2] == 1:
        given = given[:, None]
    if given.shape != expected:
        raise InputError(
            f"the score must be real numbers of shape {expected}, one slope each, and is of shape "
            f"{given.shape}"
        )
    slopes = given.reshape(shape)
    beyond = ~(np.abs(slopes) <= STEEPEST)
    if beyond.any():
        chain, draw, column = np.argwhere(beyond)[0]
        where = f"draw {draw}" if len(slopes) == 1 else f"chain {chain}, draw {draw}"
        raise InputError(
            f"the score is not finite, or beyond {STEEPEST:g}, in {where} of "
            f"{chains.columns[column]} (counted from 0): the density may be zero there"
        )
    return chains, slopes


def _called(score: Callable[[np.ndarray], Any], rows: np.ndarray) -> Any:
    try:
        return score(rows)
    except InputError:
        raise
    except Exception as error:  # of the user's function, or of a model that is none of rows
        raise InputError(
            "the score must be a function of rows (N, D), such as score_of(model, data): it raised "
            f"{type(error).__name__}{f' ({error})' if str(error) else ''}"
        ) from error


def _notes(chains: Chains, slopes: np.ndarray, cut: Batches) -> list[str]:
    notes = []
    if not chains.in_order and depend(np.concatenate([chains.rows, slopes[0]], axis=1)):
        notes.append(IN_ORDER)
    if chains.in_order and cut.short:
        notes.append(SHORT.format(lengths=(cut.length + cut.gap) / cut.time, count=cut.count))
    if cut.count < FEW:
        notes.append(FEW_TOLD.format(count=cut.count))
    means = cut.kept(slopes).reshape(cut.count, cut.length, -1).mean(axis=1)
    apart = means - means.mean(axis=0)
    deviation = apart.std(axis=0)
    skewness = np.mean((apart / np.where(deviation > 0.0, deviation, 1.0)) ** 3, axis=0)
    skewed = np.abs(skewness) > SKEWED * np.sqrt(cut.count)
    if skewed.any():
        names = ", ".join(np.array(chains.columns)[skewed][:MOST_TOLD])
        notes.append(SKEWED_TOLD.format(count=cut.count, names=names))
    return notes


def kernels_of(points: np.ndarray, choice: KernelChoice, *, single: bool = False) -> list[Radial]:
    """The kernels by the rows (n, D) alone; ``single``: one at their median distance."""
    if choice.kernel != MULTISCALE and not (single and choice.kernel == "median"):
        kernels = choice.kernels(points)
        with input_errors():
            for one in kernels:
                check_stein_kernel(one)
        return kernels
    if not np.ptp(points, axis=0).any():
        raise InputError("all draws are the same")
    median = dataclasses.replace(choice, kernel="median").kernels(points)[0].lengthscale
    scales = (1.0,) if single else SCALES
    return [RationalQuadratic(0.5, median * factor) for factor in scales]


def _tested(
    compared: Compared,
    columns: tuple[str, ...],
    choice: KernelChoice,
    alpha: float,
    notes: list[str],
    *,
    progress: bool,
) -> SteinResult:
    cut, kernels = compared.cut, kernels_of(compared.points, choice)
    rows, means = [], []
    with progress_bar("kernels", len(kernels), shown=progress) as advance:
        for one in kernels:
            sums, mean = stein_sums.of_batches(*compared.within(one))
            rows.append(compared.statistics(sums))
            means.append(mean)
            advance(1)
    named: list[tuple[str, Any]] = [(format_kernel(one), one) for one in kernels]
    beside = _moments(compared) if choice.kernel == MULTISCALE else []
    named += [(name, None) for name in MOMENTS[: len(beside)]]
    combined = combine(np.array([*rows, *beside]), named, num_other=len(beside))
    best = combined.most_extreme
    result = SteinResult.from_permutations(
        combined.values,
        test="Stein test",
        hypotheses=HYPOTHESES,
        kernel=kernels[best],
        kernel_label="most extreme at" if combined.parts else "kernel",
        method=f"{compared.signs.shape[1] - 1} flips of {cut.count} "
        f"{'rows' if cut.length == 1 else f'batches of {cut.length} rows'}, {choice}",
        exact=False,
        alpha=alpha,
        parts=combined.parts,
        statistic_label=_in_words(combined),
        pvalue_error=combined.pvalue_error(),
        rows="series" if cut.time > INDEPENDENT else "independent",
        notes=tuple(notes),
        names=columns,
        points=compared.points,
        witness=means[best],
        batches=cut.count,
        autocorrelation_time=cut.time,
    )
    if not result.rejected:
        return result
    found = _columns(compared, columns, kernels, combined, alpha)
    return dataclasses.replace(result, columns=found)


def _moments(compared: Compared) -> list[np.ndarray]:
    """Statistics of second moments, and of several columns of their variances too."""
    rows = (compared.points, compared.slopes, compared.unit, compared.cut)
    found = [compared.statistics(stein_sums.of_moments(*rows))]
    if compared.points.shape[1] > 1:
        each = stein_sums.of_variances(*rows)
        found.append(compared.statistics(each @ each.T))
    return found


def _in_words(combined: CombinedStatistic) -> str:
    """What the statistic is."""
    if not combined.parts:
        return "squared kernel Stein discrepancy"
    return WITH_MOMENTS if combined.num_other else COMBINED


def _columns(
    compared: Compared,
    columns: tuple[str, ...],
    kernels: list[Radial],
    combined: CombinedStatistic,
    alpha: float,
) -> tuple[Misfit, ...]:
    """Every column's part, adjusted for all by the same signs; of a test that rejects."""
    loudest = np.full((len(columns), compared.signs.shape[1]), -np.inf)
    parts = np.empty(len(columns))
    for index, kernel in enumerate(kernels):
        sums = stein_sums.of_columns(*compared.within(kernel))
        rows = np.array([compared.statistics(one) for one in sums])
        loudest = np.maximum(loudest, standardised(rows))
        if index == combined.most_extreme:
            parts = rows[:, 0]
    if combined.num_other:
        each = stein_sums.of_each_moment(
            compared.points, compared.slopes, compared.unit, compared.cut
        )
        for index, of_column in enumerate(each):
            rows = np.array([compared.of_features(one) for one in of_column])
            loudest[index] = np.maximum(loudest[index], standardised(rows).max(axis=0))
    return tuple(
        Misfit(name, float(part), float(p), bool(p <= alpha))
        for name, part, p in zip(columns, parts, step_down(loudest), strict=True)
    )
