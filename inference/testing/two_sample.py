"""Two-sample tests at an exact level, with kernels learned from the tested data."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, Self

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
    small_sample_note,
)
from ..permutation.partitioned import PartitionedSamples
from ..permutation.pool import pool_pairs, pool_rows
from ..permutation.pooled_sample import PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.base import Statistic
from ..statistics.combined import CombinedStatistic, choose_statistics, n_scales
from ..statistics.label_bayes_factor import LabelBayesFactors
from ..statistics.landmark_bayes_factor import (
    MAX_LANDMARKS,
    LandmarkBayesFactors,
    draw_landmarks,
)
from ..statistics.partitioned import PartitionedSums
from ..streams.partitions import as_partitioned, is_collection
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


@dataclasses.dataclass(frozen=True)
class TwoSampleTest(KernelChoice):
    """A two-sample test with its options.

    Attributes:
        kernel: a kernel or the name of a selection rule, of ``"mmd"`` only, otherwise ``None``.
        standardize: scale of the columns, see :func:`~bke.inference.fit`.
        statistic: ``"combined"``, ``"mmd"``, ``"bayes_factor"`` or a class of statistics.
        null: options of the null distribution.
        seed: random seed of the permutations or draws.
        progress: show progress bars.
    """

    statistic: str | type[Statistic]
    null: NullChoice
    seed: int
    progress: bool

    @classmethod
    def of(
        cls,
        statistic: str | type[Statistic] | None,
        kernel: Any,
        standardize: str | None,
        null: NullChoice,
        estimator: str | None,
        *options: Any,
    ) -> Self:
        """Check the options of :func:`two_sample_test` and fill in the defaults.

        Raises:
            InputError: if an option is unknown or options exclude each other.
        """
        if statistic is None:
            statistic = "combined" if kernel is None and null.is_permutation else "mmd"
        if not (isinstance(statistic, type) and issubclass(statistic, Statistic)):
            check_choice(statistic, "statistic", ("combined", "mmd", "bayes_factor"))
        if statistic == "mmd":
            kernel = check_kernel("multiscale" if kernel is None else kernel, KERNEL_NAMES)
            null.check_kernel(kernel)
            return cls(kernel, standardize, statistic, null, *options)
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
        return cls(None, standardize, statistic, null, *options)

    def __str__(self) -> str:
        if isinstance(self.statistic, type):
            return self.statistic.__name__
        names = {"combined": "combined statistic", "bayes_factor": "Bayes factor"}
        return names.get(self.statistic) or super().__str__()

    def permutation_test(self, pair: TwoSamples, count: int) -> TestResult:
        """Compute the exact test with ``count`` permutations."""
        if self.statistic not in ("mmd", "bayes_factor"):
            result = self._combined_test(pair, count)
        else:
            permute = pair.swap_pairs if self.null.is_paired else pair.permute_labels
            sample = permute(count, pair.generator(self.seed))
            compute = self.mmd_test if self.statistic == "mmd" else self.bayes_factor_test
            result = compute(sample, pair.sorted_rows)
        # The normal limit holds for P != Q only, and only if the difference affects this kernel.
        has_interval = self.statistic == "mmd" or any(
            part.kernel is not None and part.pvalue <= self.null.alpha for part in result.components
        )
        if result.reject and has_interval and not self.null.is_paired and min(pair.sizes) >= 3:
            estimate, interval = mmd_interval(pair, result.kernel, self.null.alpha)
            result = dataclasses.replace(result, estimate=estimate, interval=interval)
        return result

    def approximate_test(self, pair: TwoSamples, block_size: int | None) -> TestResult:
        """Compute the test of a single kernel with an approximate null distribution."""
        null, rng = self.null, pair.generator(self.seed)
        if null.method != "normal":
            _check_matrix_memory(pair.pooled)
        (kernel,) = self._select_kernels(pair.sorted_rows)
        attributes: dict[str, Any] = {
            "test": "two-sample test",
            "hypotheses": HYPOTHESES,
            "kernel": kernel,
            "alpha": null.alpha,
            "statistic_label": f"squared MMD ({null.estimator})",
        }
        if null.method == "normal":
            attributes["statistic_label"] += " over its standard error"
            size = block_size if null.estimator == "block" else 2
            result = linear_time_approximation(*pair.shuffled(rng), size, **attributes)
        else:
            matrix = gram(kernel, pair.pooled)
            result = mmd_approximation(null, matrix, pair.sizes, rng, **attributes)
        return dataclasses.replace(
            result,
            method=f"{result.method}, {self}",
            notes=(*kernel_notes([kernel]), *result.notes),
        )

    def partitioned_test(self, survey: PartitionedSamples, *, sequential: bool) -> TestResult:
        """Compute the combined test of very many rows in partitions, as of rows in memory.

        The statistics depend on sums of features over bins of rows, which add over partitions.
        Three passes count, hash and subsample the rows; one further pass computes all sums, for any
        number of permutations.
        """
        if self.statistic != "combined":
            raise InputError(
                f"{survey.n_rows} rows in partitions are tested with statistic='combined' only: "
                "for another statistic pass a random subset of the rows"
            )
        if self.null.is_paired:
            raise InputError("paired rows in partitions are not supported: pass arrays in memory")

        @functools.cache
        def sums() -> PartitionedSums:
            rng, scale = survey.generator(self.seed), survey.scale(self.standardize)
            return PartitionedSums.compute(survey, rng, scale)

        def evaluate(count: int) -> TestResult:
            rng, scale = survey.generator(self.seed), survey.scale(self.standardize)
            rows = survey.pool_counted(count, rng, scale)
            if rows is not None:
                combined = CombinedStatistic.evaluate(rows)
            else:
                sums_over_bins = sums()
                survey.assign_bins(rng)  # advances the generator: labels are drawn after the bins
                combined = sums_over_bins.evaluate(count, rng)
            return self._combined_result(combined, scale, survey.varying)

        with computing():
            result = in_stages(
                evaluate, self.null.n_resamples, self.null.alpha, sequential=sequential
            )
        return dataclasses.replace(
            result, notes=_notes(result, survey.selected_samples, survey.hash_sums)
        )

    def _result(self, values: np.ndarray, **attributes: Any) -> TestResult:
        """Create the result of a statistic for all permutations, (1 + B,)."""
        return TestResult.from_permutations(
            values,
            test="two-sample test" + (" of pairs" if self.null.is_paired else ""),
            hypotheses=HYPOTHESES,
            method=f"{describe_count(len(values) - 1, self.null.n_resamples)}, {self}",
            exact=True,
            alpha=self.null.alpha,
            rows="pairs" if self.null.is_paired else "independent",
            **attributes,
        )

    def _select_kernels(self, points: np.ndarray) -> list[Any]:
        """Select the kernels for rows (N, D), with a progress bar."""
        with progress_bar("kernels", 1, show=self.progress) as advance:
            kernels = self.kernels(points)
            advance(1)
        return kernels

    def mmd_test(self, sample: PooledSample, points: np.ndarray) -> TestResult:
        """Test by squared MMDs for all permutations, which are combined.

        Args:
            sample: single rows with their permuted labels, in the units of the data.
            points: the same rows in canonical order, from which kernels are selected.
        """
        kernels, labels, statistics = self._select_kernels(points), sample.labels, []
        total = labels.shape[1] * len(kernels)
        with progress_bar("permutations", total, show=self.progress) as advance:
            for kernel in kernels:
                matrix: Factor | np.ndarray | None = factorize(kernel, sample.points)
                if matrix is None:
                    _check_matrix_memory(sample.points)
                    matrix = gram(kernel, sample.points)
                statistics.append(
                    permuted_mmd(matrix, labels, estimator=self.null.estimator, advance=advance)
                )
                del matrix  # only one at a time is in memory
        names = [(f"MMD, {short_name(kernel)}", kernel) for kernel in kernels]
        combined = combine(np.array(statistics), names)
        is_single = len(kernels) == 1
        return self._result(
            combined.values,
            kernel=kernels[combined.most_extreme],
            kernel_label="kernel" if is_single else "most extreme MMD at",
            statistic_label=f"squared MMD ({self.null.estimator})" if is_single else COMBINED,
            components=combined.components,
            pvalue_error=combined.pvalue_error(),
        )

    def bayes_factor_test(self, sample: PooledSample, points: np.ndarray) -> TestResult:
        """Test by the Bayes factor at landmarks, with a uniform prior of lengthscales and sizes.

        Args:
            sample: as for :meth:`mmd_test`.
            points: as for :meth:`mmd_test`.
        """
        scales = self.scales(points)
        lengthscales = bandwidth_grid(points / scales, SELECTION_SEED)
        landmarks = draw_landmarks(points / scales, MAX_LANDMARKS, SELECTION_SEED)
        with progress_bar("scales", len(lengthscales), show=self.progress) as advance:
            statistic = LandmarkBayesFactors(lengthscales, landmarks)
            scaled = dataclasses.replace(sample, points=sample.points / scales, scale=scales)
            log_bayes_factors = statistic.evaluate(scaled, advance).values
        values = logsumexp(log_bayes_factors, axis=0) - np.log(len(log_bayes_factors))
        return self._result(
            values, kernel=None, statistic_label="log Bayes factor", e_value=_e_value(values)
        )

    def _combined_test(self, pair: TwoSamples, count: int) -> TestResult:
        """Compute the statistic of a comparison for the same permutations as in a comparison.

        Constant columns are dropped. Columns are scaled by their own scale, or all by one number.
        """
        sample, varying = pair.varying()
        # The scales of the statistic are relative to distances: one common scale has no effect.
        scale = None
        if self.standardize != "column":
            scale = choose_scale(sample.pooled[sample.selection], "pooled")
        pool = pool_pairs if self.null.is_paired else pool_rows
        pooled = pool(sample, count, sample.generator(self.seed), scale)
        if isinstance(self.statistic, type):
            statistics: tuple[Statistic, ...] = (self.statistic.choose(pooled),)
        else:
            statistics = choose_statistics(pooled)
        with progress_bar("scales", n_scales(statistics), show=self.progress) as advance:
            combined = CombinedStatistic.evaluate(pooled, statistics, advance)
        return self._combined_result(combined, pooled.scale, varying)

    def _combined_result(
        self, combined: CombinedStatistic, scale: np.ndarray, varying: np.ndarray
    ) -> TestResult:
        """Create the result of the combined test.

        Args:
            combined: statistics for all permutations.
            scale: scales of the varying columns.
            varying: mask of the columns that are not constant, (D,).
        """
        summaries = combined.summaries()
        (single_scale, _), (all_scales, _) = LabelBayesFactors.component_weights
        kernel, kernel_label = None, ""
        if self.statistic == "combined":
            family, lengthscale = combined.scale
            kernel = extend_kernel(scaled_kernel(lengthscale, scale, family.model), varying)
            kernel_label = "most significant scale"
            if summaries[0].name not in (single_scale, all_scales):
                kernel_label = (
                    f"most significant component {summaries[0].name}, most significant single scale"
                )
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
        return self._result(
            combined.values(),
            kernel=kernel,
            kernel_label=kernel_label,
            statistic_label="minus log generalized mean of component p-values",
            components=parts,
            pvalue_error=combined.pvalue_error(),
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
    rounding: tuple[str, ...] = ()
    if result.reject:
        decimals = [
            decimals_note(first, second, f"column {index + 1}", ("P", "Q"))
            for index, (first, second) in enumerate(zip(samples[0].T, samples[1].T, strict=True))
        ]
        rounding = tuple(itertools.chain(*decimals)) or rounding_note(*samples, result.kernel)
    return (
        *kernel_notes([] if result.kernel is None else [result.kernel]),
        *constant_note(np.concatenate(samples)),
        *row_notes,
        *rounding,
        *(("P and Q are the same rows",) if fingerprints[0] == fingerprints[1] else ()),
    )


def _check_matrix_memory(pooled: np.ndarray) -> None:
    """Check that there is memory for the Gram matrices of a pooled sample (N, D)."""
    alternative = (
        "a random part of them, or method='normal' with one kernel, such as 'median' "
        "(--method linear)"
    )
    # Three matrices of this size are in memory at once.
    check_memory(len(pooled), pooled.shape[1], matrices=3, alternative=alternative)


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


def two_sample_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    statistic: str | type[Statistic] | None = None,
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

    Kernels are selected from the pooled sample, as in BKE section 5. Permutations of the labels do
    not change it, so the level is exact without held-out data for every ``statistic``:

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
        statistic: test statistic, see above, or a class of your own, derived from
            :class:`bke.inference.statistics.base.Statistic`. Default: ``"mmd"`` if a ``kernel`` or
            a ``method`` other than ``"permutation"`` is passed, otherwise ``"combined"``.
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
            the two. The null hypothesis is that both rows of a pair are exchangeable, which implies
            P = Q; the level is exact for it, and not for every dependence with P = Q.
        estimator: estimator of the squared MMD. With permutations ``"unbiased"`` (default) or
            ``"biased"``; for pairs that of MMD-6. With ``"normal"`` ``"linear"`` (default, MMD-13)
            or ``"block"`` (MMD-14). The other methods have one estimator each.
        n_resamples: number B of permutations, or of draws from the null distribution. The smallest
            p-value is 1 / (1 + B).
        sequential: for 9999 or more permutations, draw 999 first (10 / ``alpha`` if that is more),
            and ten times as many only if the p-value is not above 4 ``alpha``, at the same level
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
            "paired=True is for method='permutation' and has a fixed estimator: leave method and "
            "estimator out"
        )
    null = NullChoice.checked(
        method,
        "paired" if paired else estimator,
        MMD_ESTIMATORS,
        n_resamples,
        alpha,
        dependence_length,
    )
    test = TwoSampleTest.of(statistic, kernel, standardize, null, estimator, seed, progress)
    if block_size is not None and null.estimator != "block":
        raise InputError("block_size is for method='normal' with estimator='block'")
    if is_collection(P) or is_collection(Q):
        survey = _survey_partitions(P, Q)
        if survey.n_rows > LARGE:
            return test.partitioned_test(survey, sequential=sequential)
        P, Q = survey.to_numpy()
    pair = TwoSamples.checked(P, Q, paired=null.is_paired)
    if null.estimator in ("paired", "linear", "block"):
        pair.check_equal_sizes(null.estimator)
    null.check_rows(len(pair.first))
    with computing():
        if null.is_permutation:
            evaluate = functools.partial(test.permutation_test, pair)
            result = in_stages(evaluate, n_resamples, alpha, sequential=sequential)
            names = column_names(P) or default_names(pair.first.shape[1])
            row_notes = (
                *small_sample_note(pair.n_permutations(paired=paired), null.alpha),
                *pair.notes(("P", "Q"), names, paired=paired),
                *(() if paired else index_notes((P, Q), "PQ")),
            )
            notes = _notes(result, (pair.first, pair.second), pair.fingerprints, row_notes)
            result = dataclasses.replace(result, notes=notes)
        else:
            result = test.approximate_test(pair, block_size)
    return dataclasses.replace(result, fingerprints=pair.fingerprints)
