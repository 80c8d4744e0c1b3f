"""Two-sample tests at an exact level, with kernels learned from the tested data."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..core.errors import InputError, check_choice, check_flag
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.checks import (
    check_count,
    check_memory,
    column_names,
    default_names,
    index_notes,
)
from ..data.row_notes import decimals_note
from ..data.units import choose_scale
from ..learning.bandwidths import bandwidth_grid
from ..learning.kernel_selection import KERNEL_NAMES, check_kernel, extend_kernel, scaled_kernel
from ..permutation.bins import LARGE
from ..permutation.null_distribution import (
    describe_count,
    in_stages,
    p_value,
    proportion_error,
    small_sample_note,
)
from ..permutation.partitioned import PartitionedSamples
from ..permutation.pool import pool_pairs, pool_rows
from ..permutation.pooled_sample import PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.combined import CombinedStatistic, choose_statistics, n_scales
from ..statistics.label_bayes_factor import LabelBayesFactors
from ..statistics.landmark_bayes_factor import (
    MAX_LANDMARKS,
    LandmarkBayesFactors,
    draw_landmarks,
)
from ..statistics.partitioned import PartitionedSums
from ..streams.partitions import as_partitioned, is_collection
from . import TwoSampleStatistic
from .kernels import SELECTION_SEED, Factor, KernelChoice, factorize, gram, short_name
from .mmd import mmd_interval, permuted_mmd
from .nulls import MMD_ESTIMATORS, NullChoice, linear_time_approximation, mmd_approximation
from .result import (
    COMBINED,
    TestComponent,
    TestResult,
    combine,
    constant_note,
    kernel_notes,
    rounding_note,
)

HYPOTHESES = ("no evidence that P and Q differ", "P and Q differ")


class PermutedStatistic(NamedTuple):
    """A two-sample statistic for all permutations.

    Attributes:
        values: statistic, (1 + B,), the observed value first.
        components: empty if there is only one.
        kernel: kernel of the most extreme MMD, or ``None``.
        label: name of the statistic.
        pvalue_error: Monte Carlo standard error of the p-value.
        kernel_label: text before the kernel in the summary.
        kernel_significant: whether the statistic of ``kernel`` alone may be significant.
    """

    values: np.ndarray
    components: tuple[TestComponent, ...]
    kernel: Any
    label: str
    pvalue_error: float
    kernel_label: str = "kernel"
    kernel_significant: bool = True


@dataclasses.dataclass(frozen=True)
class StatisticChoice(KernelChoice):
    """The options of a statistic.

    Attributes:
        kernel: a kernel or the name of a selection rule, of ``"mmd"`` only, otherwise ``None``.
        standardize: scale of the columns, see :func:`~bke.inference.fit`.
        statistic: ``"combined"``, ``"mmd"`` or ``"bayes_factor"``.
    """

    statistic: str

    @classmethod
    def of(
        cls,
        statistic: str | None,
        kernel: Any,
        standardize: str | None,
        null: NullChoice,
        estimator: str | None = None,
    ) -> Self:
        """Check the options of :func:`two_sample_test` and fill in the defaults.

        Raises:
            InputError: if an option is unknown or options exclude each other.
        """
        if statistic is None:
            statistic = "combined" if kernel is None and null.is_permutation else "mmd"
        check_choice(statistic, "statistic", get_args(TwoSampleStatistic))
        if statistic == "mmd":
            kernel = check_kernel("multiscale" if kernel is None else kernel, KERNEL_NAMES)
            null.check_kernel(kernel)
            return cls(kernel, standardize, statistic)
        for option, value, is_allowed in (
            ("kernel", kernel, kernel is None),
            ("method", null.method, null.is_permutation),
            ("estimator", estimator, estimator is None),
        ):
            if not is_allowed:
                raise InputError(
                    f"{option}={value!r} is for statistic='mmd', not for {statistic!r}: pass "
                    f"statistic='mmd' or leave {option} out"
                )
        return cls(None, standardize, statistic)

    def __str__(self) -> str:
        names = {"combined": "combined statistic", "bayes_factor": "Bayes factor"}
        return names.get(self.statistic) or super().__str__()


def two_sample_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    statistic: str | None = None,
    kernel: Any = None,
    method: str = "permutation",
    paired: bool = False,
    estimator: str | None = None,
    n_resamples: int = 999,
    sequential: bool = True,
    dependence_length: float | None = None,
    block_size: int | None = None,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test whether two samples come from one distribution, P = Q.

    Kernels are selected from the tested rows, from the pooled sample only, which permutations of
    the labels do not change. The level is therefore exact without held-out data (BKE section 5),
    for every ``statistic``:

    - ``"combined"``: a combination of statistics at all scales, at landmarks, of location, of
      covariances and of the most significant region, each by its tail probability. This is the
      test of :func:`~bke.inference.compare`; see :mod:`bke.inference.statistics.combined`. Its cost
      is linear in the rows: rows of one or two columns are counted in cells, and very many rows of
      more columns are permuted in bins (:mod:`bke.inference.permutation.bins`).
    - ``"mmd"``: the squared maximum mean discrepancy of ``kernel``.
    - ``"bayes_factor"``: the Bayes factor of P != Q, where the difference of the embeddings has the
      BKE prior; see :mod:`bke.inference.statistics.landmark_bayes_factor`.

    Values are compared in the lower precision of the types of both samples, and rounding of tied
    values is not a difference (:mod:`bke.inference.data.equality`).

    With 2000 rows or more, Gram matrices of low numerical rank, such as those of smooth kernels in
    few columns, are replaced by factors. No (m + n) x (m + n) matrix is then computed.

    Args:
        P: sample of P, shape (m, D) or (m,); or a collection of Dask or a dataset of Ray. More than
            131 072 rows in such partitions are tested where they are, with ``"combined"`` and
            permutations only, without an interval and without a progress bar.
        Q: sample of Q, shape (n, D) or (n,), of the same types.
        statistic: test statistic, see above. Default: ``"mmd"`` if a ``kernel`` or a ``method``
            other than ``"permutation"`` is passed, otherwise ``"combined"``.
        kernel: kernel of the squared MMD, for ``statistic="mmd"`` only. ``"multiscale"`` (default)
            takes squared MMDs on a grid of lengthscales and at every mode of the smoothed marginal
            likelihood, standardized by their permutations and combined by log-sum-exp. ``"bkl"`` is
            the kernel that maximizes the marginal likelihood, as in the paper. ``"posterior"`` is
            the average of the kernel over the posterior of its lengthscale; the statistic is the
            average of the statistics (KER-12). ``"median"`` is the median heuristic. A kernel,
            such as ``SquaredExponential(0.5)``, is in the units of the data.
        method: method for the null distribution. ``"permutation"`` is exact. The others are
            approximations for the squared MMD of a single kernel, any but ``"multiscale"``:
            ``"gamma"`` (TST-2) and ``"spectrum"`` (TST-3) for independent rows;
            ``"wild bootstrap"`` (TST-7) for two stationary series, rows in order of time;
            ``"normal"`` for estimators of linear cost, and thus for very many rows.
        paired: row i of P and row i of Q are a pair, and may be dependent; permutations exchange
            the two.
        estimator: estimator of the squared MMD. With permutations ``"unbiased"`` (default) or
            ``"biased"``; for pairs that of MMD-6. With ``"normal"`` ``"linear"`` (default, MMD-13)
            or ``"block"`` (MMD-14). The other methods have one estimator each.
        n_resamples: number B of permutations, or of draws from the null distribution. The smallest
            p-value is 1 / (1 + B).
        sequential: for more than 9998 permutations, draw 999 first, and ten times as many only if
            the p-value is not above 4 ``alpha``, at the same level
            (:mod:`bke.inference.permutation.null_distribution`); otherwise all at once.
        dependence_length: number of steps beyond which the series are independent, for the wild
            bootstrap; at most a fifth of the rows. Default: 20.
        block_size: rows of each sample in a block, for ``estimator="block"``. Default: the square
            root of m.
        alpha: level of the test and of the interval.
        standardize: ``"column"``, ``"pooled"`` or ``None``, as for :func:`~bke.inference.fit`, by
            the pooled sample.
        seed: random seed of the permutations or draws. Kernel selection does not depend on it. The
            order of rows, columns and samples has no influence.
        progress: show a progress bar.

    Raises:
        InputError: for invalid data or arguments, or arguments that exclude each other.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    check_flag(paired, "paired")
    if estimator == "paired":
        raise InputError("rows that are pairs are tested with paired=True")
    if paired and (estimator is not None or method != "permutation"):
        raise InputError(
            "paired=True is for method='permutation', with an estimator of its own: leave method "
            "and estimator out"
        )
    null = NullChoice.checked(
        method,
        "paired" if paired else estimator,
        MMD_ESTIMATORS,
        n_resamples=n_resamples,
        alpha=alpha,
        dependence_length=dependence_length,
    )
    choice = StatisticChoice.of(statistic, kernel, standardize, null, estimator)
    if block_size is not None and null.estimator != "block":
        raise InputError("block_size is for method='normal' with estimator='block'")
    if is_collection(P) or is_collection(Q):
        survey = _survey_partitions(P, Q)
        if survey.n_rows > LARGE:
            return _partitioned_test(survey, choice, null, seed, sequential=sequential)
        P, Q = survey.to_numpy()
    pair = TwoSamples.checked(P, Q, paired=null.is_paired)
    if null.estimator in ("paired", "linear", "block"):
        pair.check_equal_sizes(null.estimator)
    null.check_rows(len(pair.first))
    with computing():
        if null.is_permutation:
            paired = null.is_paired
            result = in_stages(
                lambda count: _permutation_test(pair, choice, null, seed, count, progress=progress),
                n_resamples,
                alpha,
                sequential=sequential,
            )
            names = column_names(P) or default_names(pair.first.shape[1])
            row_notes = (
                *small_sample_note(pair.n_permutations(paired=paired), null.alpha),
                *pair.notes(("P", "Q"), names, paired=paired),
                *(() if paired else index_notes((P, Q), "PQ")),
            )
            notes = _notes(result, (pair.first, pair.second), pair.fingerprints, row_notes)
            result = dataclasses.replace(result, notes=notes)
        else:
            result = _approximate_test(pair, choice, null, block_size, seed, progress=progress)
    return dataclasses.replace(result, fingerprints=pair.fingerprints)


def _permutation_test(
    pair: TwoSamples,
    choice: StatisticChoice,
    null: NullChoice,
    seed: int,
    count: int,
    *,
    progress: bool,
) -> TestResult:
    """Compute the exact test with ``count`` permutations."""
    if choice.statistic == "combined":
        statistic = _combined_statistic(pair, choice, null, seed, count, progress=progress)
    else:
        rng = pair.generator(seed)
        permute = pair.swap_pairs if null.is_paired else pair.permute_labels
        statistic = permuted_statistic(
            choice, permute(count, rng), pair.sorted_rows, null.estimator, progress=progress
        )
    result = _to_result(statistic, choice, null, count)
    # The normal limit holds for P != Q only, and only if the difference affects this kernel.
    has_interval = statistic.kernel is not None and statistic.kernel_significant
    if result.reject and has_interval and not null.is_paired and min(pair.sizes) >= 3:
        estimate, interval = mmd_interval(pair, statistic.kernel, null.alpha)
        result = dataclasses.replace(result, estimate=estimate, interval=interval)
    return result


def _to_result(
    statistic: PermutedStatistic, choice: StatisticChoice, null: NullChoice, count: int
) -> TestResult:
    """Create the result of a test with ``count`` permutations."""
    return TestResult.from_permutations(
        statistic.values,
        test="two-sample test" + (" of pairs" if null.is_paired else ""),
        hypotheses=HYPOTHESES,
        kernel=statistic.kernel,
        method=f"{describe_count(count, null.n_resamples)}, {choice}",
        exact=True,
        alpha=null.alpha,
        statistic_label=statistic.label,
        components=statistic.components,
        pvalue_error=statistic.pvalue_error,
        kernel_label=statistic.kernel_label,
        e_value=_e_value(statistic.values) if choice.statistic == "bayes_factor" else None,
        rows="pairs" if null.is_paired else "independent",
    )


def _e_value(log_bayes_factors: np.ndarray) -> float:
    """Compute the first Bayes factor over the mean of all, from their logarithms (1 + B,)."""
    total = logsumexp(log_bayes_factors)
    return float(np.exp(log_bayes_factors[0] - total + np.log(len(log_bayes_factors))))


def _notes(
    result: TestResult,
    samples: tuple[np.ndarray, np.ndarray],
    fingerprints: tuple[int, int],
    row_notes: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Collect the notes of a permutation test, with ``row_notes`` on its rows."""
    return (
        *kernel_notes([] if result.kernel is None else [result.kernel]),
        *constant_note(np.concatenate(samples)),
        *row_notes,
        *(_rounding_notes(samples, result.kernel) if result.reject else ()),
        *(("P and Q are the same rows",) if fingerprints[0] == fingerprints[1] else ()),
    )


def _rounding_notes(samples: tuple[np.ndarray, np.ndarray], kernel: Any) -> tuple[str, ...]:
    """Write notes on columns that are rounded differently in both samples."""
    notes = [
        note
        for index, (first, second) in enumerate(zip(samples[0].T, samples[1].T, strict=True))
        for note in decimals_note(first, second, f"column {index + 1}", ("P", "Q"))
    ]
    return tuple(notes) or rounding_note(*samples, kernel)


def _approximate_test(
    pair: TwoSamples,
    choice: StatisticChoice,
    null: NullChoice,
    block_size: int | None,
    seed: int,
    *,
    progress: bool,
) -> TestResult:
    """Compute the test of a single kernel with an approximate null distribution."""
    rng = pair.generator(seed)
    if null.method != "normal":
        _check_matrix_memory(pair.pooled)
    (kernel,) = _select_kernels(choice, pair.sorted_rows, progress=progress)
    label = f"squared MMD ({null.estimator})"
    if null.method == "normal":
        size = block_size if null.estimator == "block" else 2
        approximation = linear_time_approximation(*pair.shuffled(rng), kernel, size)
        label += " over its standard error"
    else:
        approximation = mmd_approximation(null, gram(kernel, pair.pooled), pair.sizes, rng)
    return approximation.to_result(
        "two-sample test", HYPOTHESES, kernel, str(choice), null.alpha, label
    )


def _select_kernels(choice: StatisticChoice, points: np.ndarray, *, progress: bool) -> list[Any]:
    """Select the kernels for rows (N, D), with a progress bar."""
    with progress_bar("kernels", 1, shown=progress) as advance:
        kernels = choice.kernels(points)
        advance(1)
    return kernels


def _check_matrix_memory(pooled: np.ndarray) -> None:
    """Check that there is memory for the Gram matrices of a pooled sample (N, D)."""
    alternative = (
        "a random part of them, or method='normal' with one kernel, such as 'median' "
        "(--method linear)"
    )
    # Three matrices of this size are in memory at once.
    check_memory(len(pooled), pooled.shape[1], matrices=3, alternative=alternative)


def permuted_statistic(
    choice: StatisticChoice,
    sample: PooledSample,
    points: np.ndarray,
    estimator: str,
    *,
    progress: bool = False,
) -> PermutedStatistic:
    """Compute squared MMDs or Bayes factors for all permutations, and combine them.

    Args:
        choice: choice of the statistic, any but ``"combined"``.
        sample: single rows with their permuted labels, in the units of the data.
        points: the same rows in canonical order, from which kernels are selected.
        estimator: estimator of the squared MMD.
        progress: show progress bars.
    """
    if choice.statistic == "bayes_factor":
        return _bayes_factor_statistic(choice, sample, points, progress=progress)
    kernels = _select_kernels(choice, points, progress=progress)
    labels = sample.labels
    statistics = []
    with progress_bar("permutations", labels.shape[1] * len(kernels), shown=progress) as advance:
        for kernel in kernels:
            matrix = _gram_or_factor(kernel, sample.points)
            statistics.append(permuted_mmd(matrix, labels, estimator=estimator, advance=advance))
            del matrix  # only one at a time is in memory
    labels_of_parts = [(f"MMD, {short_name(kernel)}", kernel) for kernel in kernels]
    combined = combine(np.array(statistics), labels_of_parts)
    values, parts, error = combined.values, combined.components, combined.pvalue_error()
    if not parts:
        return PermutedStatistic(values, (), kernels[0], f"squared MMD ({estimator})", error)
    kernel = parts[combined.most_extreme].kernel
    return PermutedStatistic(values, parts, kernel, COMBINED, error, "most extreme MMD at")


def _gram_or_factor(kernel: Any, pooled: np.ndarray) -> np.ndarray | Factor:
    """Compute the Gram matrix of a pooled sample (N, D), or its factor if the rank is small."""
    factor = factorize(kernel, pooled)
    if factor is not None:
        return factor
    _check_matrix_memory(pooled)
    return gram(kernel, pooled)


def _bayes_factor_statistic(
    choice: StatisticChoice, sample: PooledSample, points: np.ndarray, *, progress: bool
) -> PermutedStatistic:
    """Compute the log Bayes factor at landmarks, with a uniform prior of lengthscales and sizes."""
    scales = choice.scales(points)
    lengthscales = bandwidth_grid(points / scales, SELECTION_SEED)
    landmarks = draw_landmarks(points / scales, MAX_LANDMARKS, SELECTION_SEED)
    with progress_bar("scales", len(lengthscales), shown=progress) as advance:
        statistic = LandmarkBayesFactors(lengthscales, landmarks)
        scaled = dataclasses.replace(sample, points=sample.points / scales, scale=scales)
        log_bayes_factors = statistic.evaluate(scaled, advance).values
    values = logsumexp(log_bayes_factors, axis=0) - np.log(len(log_bayes_factors))
    error = proportion_error(p_value(values), len(values) - 1)
    return PermutedStatistic(values, (), None, "log Bayes factor", error)


def _combined_statistic(
    pair: TwoSamples,
    choice: StatisticChoice,
    null: NullChoice,
    seed: int,
    count: int,
    *,
    progress: bool,
) -> PermutedStatistic:
    """Compute the statistic of a comparison for the same permutations as in a comparison.

    Constant columns are dropped. Columns are scaled by their own scale, or all by one number.
    """
    sample, varying = pair.varying()
    # The scales of the statistic are relative to distances, so that one common scale has no effect.
    scale = None
    if choice.standardize != "column":
        scale = choose_scale(sample.pooled[sample.selection], "pooled")
    pool = pool_pairs if null.is_paired else pool_rows
    pooled = pool(sample, count, sample.generator(seed), scale)
    statistics = choose_statistics(pooled)
    with progress_bar("scales", n_scales(statistics), shown=progress) as advance:
        combined = CombinedStatistic.evaluate(pooled, statistics, advance)
    return _combine_components(combined, pooled.scale, varying, null.alpha)


def _combine_components(
    combined: CombinedStatistic, scale: np.ndarray, varying: np.ndarray, alpha: float
) -> PermutedStatistic:
    """Combine the components of the combined statistic.

    Args:
        combined: statistics for all permutations.
        scale: scales of the varying columns.
        varying: mask of the columns that are not constant, (D,).
        alpha: level at which the statistic of a single scale is significant.
    """
    values = combined.values()
    family, lengthscale = combined.scale
    kernel = extend_kernel(scaled_kernel(lengthscale, scale, family.model), varying)
    summaries = combined.summaries()
    (single_scale, _), (all_scales, _) = LabelBayesFactors.component_weights
    parts = tuple(
        TestComponent(
            summary.name,
            summary.statistic,
            summary.pvalue,
            kernel if summary.name == single_scale else None,
            summary.neg_log_pvalue,
        )
        for summary in summaries
    )
    error = combined.pvalue_error()
    kernel_label = "most significant scale"
    if summaries[0].name not in (single_scale, all_scales):
        kernel_label = f"largest component {summaries[0].name}, most significant single scale"
    (pvalue,) = (summary.pvalue for summary in summaries if summary.name == single_scale)
    label = "minus log generalized mean of component p-values"
    return PermutedStatistic(values, parts, kernel, label, error, kernel_label, pvalue <= alpha)


def _survey_partitions(P: Any, Q: Any) -> PartitionedSamples:
    """Summarize the rows of two samples in one pass. One of the samples may be in memory.

    Raises:
        InputError: if the rows are not valid samples, or the columns differ.
    """
    if is_collection(P):
        first = as_partitioned(P, "P")
        return PartitionedSamples.of(first, as_partitioned(Q, "Q", first.engine))
    second = as_partitioned(Q, "Q")
    return PartitionedSamples.of(as_partitioned(P, "P", second.engine), second)


def _partitioned_test(
    survey: PartitionedSamples,
    choice: StatisticChoice,
    null: NullChoice,
    seed: int,
    *,
    sequential: bool,
) -> TestResult:
    """Compute the combined test of very many rows in partitions, with the p-value of one in memory.

    The statistics depend on sums of features over bins of rows, which add over partitions. Three
    passes count, hash and subsample the rows; one further pass computes all sums, for any number
    of permutations.
    """
    if choice.statistic != "combined":
        raise InputError(
            f"{survey.n_rows} rows in partitions are tested with statistic='combined' only: for "
            "another statistic pass a random subset of the rows"
        )
    if null.is_paired:
        raise InputError("paired rows in partitions are not supported: pass arrays in memory")

    @functools.cache
    def sums() -> PartitionedSums:
        rng, scale = survey.generator(seed), survey.scale(choice.standardize)
        return PartitionedSums.compute(survey, rng, scale)

    def evaluate(count: int) -> TestResult:
        rng = survey.generator(seed)
        scale = survey.scale(choice.standardize)
        rows = survey.pool_counted(count, rng, scale)
        if rows is not None:
            combined = CombinedStatistic.evaluate(rows)
        else:
            sums_over_bins = sums()
            survey.assign_bins(rng)  # advances the generator: labels are drawn after the bins
            combined = sums_over_bins.evaluate(count, rng)
        statistic = _combine_components(combined, scale, survey.varying, null.alpha)
        return _to_result(statistic, choice, null, count)

    with computing():
        result = in_stages(evaluate, null.n_resamples, null.alpha, sequential=sequential)
    return dataclasses.replace(
        result, notes=_notes(result, survey.selected_samples, survey.hash_sums)
    )
