"""Two-sample tests: is P = Q? With kernels learned from the same data, at an exact level."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..core.errors import InputError
from ..core.machine import computing
from ..data.checks import check_count, column_names, default_names
from ..learning.kernel_selection import KERNEL_NAMES
from ..permutation.deal import MANY
from ..permutation.enough import few_rows_note
from ..permutation.pair import Pair
from ..permutation.stages import count_in_words, in_stages
from ..streams.partitions import is_collection
from .approximations import Approximation, mmd_approximation, terms_approximation
from .discrepancy import Statistic, check_matrices, chosen_kernels, statistic
from .fused import fused
from .gram import gram
from .in_parts import InParts, survey
from .kernel_choice import KernelChoice
from .mmd_interval import mmd_interval
from .notes import constant_note, kernel_notes, rounding_note
from .null_choice import MMD_NULLS, NullChoice
from .result import TestResult

HYPOTHESES = ("no evidence that P and Q differ", "P and Q differ")
#: Choices that are no squared MMD.
NO_MMD = ("evidence", "fused")
#: Estimators that go by pairs of rows, one of each sample.
OF_PAIRS = ("paired", "linear", "block")


def two_sample_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    kernel: Any = "fused",
    null: str = "permutation",
    estimator: str | None = None,
    permutations: int = 999,
    sequential: bool = True,
    memory: float | None = None,
    block_size: int | None = None,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test P = Q by the maximum mean discrepancy, its kernel chosen from the same data.

    Whatever is learned is learned from the pooled sample, which does not change when labels are
    permuted; so the level is exact, with no data held out (BKE section 5), for every choice:

    - ``"fused"``: no MMD but the evidence of a difference at all scales, at landmarks, in location,
      in covariances and at the most conspicuous place, each by how surprising it is; the test of
      :func:`~bke.inference.compare`. See :mod:`bke.inference.evidence.statistic`. Its cost is
      linear in the rows: those of one or two columns become cells, and in more columns
      permutations deal very many out in bins (:mod:`bke.inference.permutation.bins`).
    - ``"multiscale"``: squared MMDs at a ladder of lengthscales and at every mode of the smoothed
      marginal likelihood, each standardised by its permutations, combined by log-sum-exp.
    - ``"evidence"``: the Bayes factor of "they differ" with the difference of the embeddings drawn
      from the BKE prior; see :mod:`bke.inference.evidence.landmarks`.
    - ``"bkl"``: the one kernel that maximises the marginal likelihood, as in the paper.
    - ``"posterior"``: the kernel averaged over the posterior of its lengthscale, so the statistic
      is the average of the statistics (KER-12).
    - ``"median"``: the median heuristic.
    - a kernel, such as ``SquaredExponential(0.5)``, in the units of the data.

    Values are compared at the precision of the narrower of both samples' types, and rounding among
    ties is no difference (:mod:`bke.inference.data.equality`).

    The Gram matrices of MMDs are, from 2000 rows on, taken as factors of their numerical rank,
    where that is small, as of smooth kernels in few columns: none is (m + n) x (m + n) then.

    Args:
        P: sample of P, shape (m, D) or (m,); or a collection of Dask or a dataset of Ray, whose
            rows stay where they are (:mod:`bke.inference.testing.in_parts`). More than 131 072 rows
            in all are tested there with ``"fused"`` by permutations alone, without an interval and
            without a bar.
        Q: sample of Q, shape (n, D) or (n,), likewise.
        kernel: see above.
        null: ``"permutation"``, exact. The others are approximations, for one kernel: ``"gamma"``
            (TST-2) and ``"spectrum"`` (TST-3) for independent rows; ``"wild bootstrap"`` (TST-7)
            for two stationary series, rows in order of time; ``"normal"`` for estimators whose
            cost is linear in the rows, so for very many.
        estimator: of the squared MMD (the evidence has none). With permutations ``"unbiased"``, the
            default, ``"biased"``, or ``"paired"``, for rows that belong together, where
            permutations swap the two of a pair: then they may depend on each other. With
            ``"normal"`` ``"linear"``, the default, (MMD-13) or ``"block"`` (MMD-14). The other
            nulls have one each.
        permutations: B, or draws of the null; the smallest p-value is 1 / (1 + B).
        sequential: of more than 9998 permutations draw the first 999, and ten times as many only
            where p is not above 4 ``alpha`` by these, at the same level
            (:mod:`bke.inference.permutation.stages`); else all at once.
        memory: steps over which the series forget, for the wild bootstrap; by default 20.
        block_size: rows of each sample in a block; by default the square root of m.
        alpha: level of the verdict and of the interval.
        standardize: ``"column"``, ``"pooled"`` or ``None``, as for :func:`~bke.inference.fit`;
            by the pooled sample.
        seed: of the permutations, or of the draws of the null. The choice of kernels has nothing
            of it, nor does anything hang on the order of rows, of columns or of the samples.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    choice = KernelChoice.checked(kernel, KERNEL_NAMES, standardize)
    check_count(seed, "seed", 0, 2**63 - 1)
    asked = NullChoice.checked(
        null, estimator, [choice], MMD_NULLS, draws=permutations, alpha=alpha, memory=memory
    )
    if isinstance(kernel, str) and kernel in NO_MMD and estimator == "biased":
        raise InputError(f"{kernel!r} is no squared MMD and has no biased estimate")
    if block_size is not None and asked.estimator != "block":
        raise InputError(f"block_size is for estimator='block', not for {asked.estimator!r}")
    if is_collection(P) or is_collection(Q):
        found = survey(P, Q)
        if found.total > MANY:
            return _in_parts(InParts(found, choice, seed), asked, sequential=sequential)
        P, Q = found.gathered()
    pair = Pair.checked(P, Q)
    if asked.estimator in OF_PAIRS:
        pair.check_one_size(asked.estimator)
    asked.steps(len(pair.first))  # refuses a memory that is not for these rows
    with computing():
        if asked.permutes:
            result = in_stages(
                lambda count: _permuted(pair, choice, asked, seed, count, progress=progress),
                permutations,
                alpha,
                sequential=sequential,
            )
            ways = pair.ways(paired=asked.estimator == "paired")
            names = column_names(P) or default_names(pair.first.shape[1])
            paired = asked.estimator == "paired"
            notes = _notes(result, pair, ways, pair.notes(("P", "Q"), names, paired=paired))
            result = dataclasses.replace(result, notes=notes)
        else:
            result = _approximated(pair, choice, asked, block_size, seed, progress=progress)
    return dataclasses.replace(result, fingerprints=pair.fingerprints)


def _permuted(
    pair: Pair, choice: KernelChoice, asked: NullChoice, seed: int, count: int, *, progress: bool
) -> TestResult:
    """The exact test: the statistic for every one of ``count`` labellings."""
    paired = asked.estimator == "paired"
    drawn = dataclasses.replace(asked, draws=count)
    if choice.named == "fused":
        found = fused(pair, choice, drawn, seed, progress=progress)
    else:
        relabel = pair.swapped if paired else pair.relabelled
        labelled = relabel(count, pair.generator(seed))
        found = statistic(choice, labelled, pair.points, asked.estimator, progress=progress)
    result = _result(found, choice, asked, count)
    # The normal limit holds where P and Q differ; under P = Q it says nothing, nor does it where
    # they differ in what that kernel does not hear.
    told = found.kernel is not None and found.heard and not paired
    if result.rejected and told and min(pair.sizes) >= 3:
        estimate, interval = mmd_interval(pair, found.kernel, asked.alpha)
        result = dataclasses.replace(result, estimate=estimate, interval=interval)
    return result


def _result(found: Statistic, choice: KernelChoice, asked: NullChoice, count: int) -> TestResult:
    """Tell a statistic of ``count`` labellings."""
    paired = asked.estimator == "paired"
    return TestResult.permuted(
        found.row,
        test="two-sample test" + (" of pairs" if paired else ""),
        hypotheses=HYPOTHESES,
        kernel=found.kernel,
        how=f"{count_in_words(count, asked.draws)}, {choice}",
        exact=True,
        alpha=asked.alpha,
        statistic_of=found.name,
        parts=found.parts,
        pvalue_error=found.error,
        kernel_of=found.kernel_of,
        interval_of="squared MMD at that kernel",
        e_value=_e_value(found.row) if choice.named == "evidence" else None,
        rows="pairs" if paired else "independent",
    )


def _in_parts(test: InParts, asked: NullChoice, *, sequential: bool) -> TestResult:
    """The exact test of very many rows in parts, which has no interval."""
    test.check(asked)
    with computing():
        result = in_stages(
            lambda count: _result(test.statistic(count, asked.alpha), test.choice, asked, count),
            asked.draws,
            asked.alpha,
            sequential=sequential,
        )
    known = test.survey.known
    some = test.survey.some
    notes = (
        *kernel_notes([result.kernel] if result.kernel is not None else []),
        *constant_note(np.concatenate(some)),
        *(rounding_note(*some, result.kernel) if result.rejected else ()),
        *(("P and Q are the same rows",) if known[0] == known[1] else ()),
    )
    return dataclasses.replace(result, notes=notes)


def _notes(result: TestResult, pair: Pair, ways: int, on_rows: tuple[str, ...]) -> tuple[str, ...]:
    """What could mislead the reader of a permutation test."""
    return (
        *kernel_notes([result.kernel] if result.kernel is not None else []),
        *constant_note(pair.pooled),
        *few_rows_note(ways, result.alpha),
        *on_rows,
        *(rounding_note(pair.first, pair.second, result.kernel) if result.rejected else ()),
        *(("P and Q are the same rows",) if len(set(pair.fingerprints)) == 1 else ()),
    )


def _e_value(row: np.ndarray) -> float:
    """The observed Bayes factor over the mean of all, of their logarithms (1 + B,)."""
    return float(np.exp(row[0] - logsumexp(row) + np.log(len(row))))


def _approximated(
    pair: Pair,
    choice: KernelChoice,
    asked: NullChoice,
    block_size: int | None,
    seed: int,
    *,
    progress: bool,
) -> TestResult:
    """The test of one kernel by a null that is an approximation."""
    rng = pair.generator(seed)
    if asked.name != "normal":
        check_matrices(pair.pooled)
    (kernel,) = chosen_kernels(choice, pair.points, progress=progress)
    of = f"squared MMD ({asked.estimator})"
    if asked.name == "normal":
        size = block_size if asked.estimator == "block" else 2
        found: Approximation = terms_approximation(*pair.shuffled(rng), kernel, size)
        of += " over its standard error"
    else:
        found = mmd_approximation(asked, gram(kernel, pair.pooled), pair.sizes, rng)
    return found.result("two-sample test", HYPOTHESES, kernel, str(choice), asked.alpha, of)
