"""Two-sample tests: is P = Q? With kernels learned from the same data, at an exact level."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from bke.models import squared_mmd, squared_mmd_variance
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from scipy.stats import norm

from ..data.canonical import canonical_order, fingerprint, generator
from ..data.checks import as_tested_pair, check_count, check_memory
from ..data.units import choose_scale
from ..errors import InputError
from ..learning.choice import CHOICES, kernels_for, ladder, scaled_kernel
from ..runtime.machine import computing
from ..runtime.progress import progress_bar
from .approximations import (
    MMD_NULLS,
    check_null,
    mmd_approximation,
    series_memory,
    terms_approximation,
)
from .combination import COMBINED, combine
from .evidence import LANDMARKS, VARIANCES, evidence_rows, landmarks
from .factors import Factor, factor_of, mmd_and_variance
from .gram import gram
from .notes import few_rows_note, kernel_notes, rounding_note
from .permutation import (
    mmd_row,
    p_value,
    pair_swaps,
    relabellings,
)
from .result import (
    Part,
    TestResult,
    brief,
    check_kernel,
    check_permutations,
    name_of,
)

HYPOTHESES = ("no evidence that P and Q differ", "P and Q differ")
#: Matrices of the size of the pooled sample that are alive at once.
MATRICES = 10
WITHOUT_MATRICES = (
    "a random part of them, or null='normal' with one kernel, such as 'median' (--null linear)"
)


class _Rows(NamedTuple):
    """A statistic for all labels."""

    row: np.ndarray  # (1 + B,)
    parts: tuple[Part, ...]
    kernel: Any
    name: str


def two_sample_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    kernel: Any = "fused",
    null: str = "permutation",
    estimator: str | None = None,
    permutations: int = 999,
    memory: float | None = None,
    block_size: int | None = None,
    alpha: float = 0.05,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test P = Q by the maximum mean discrepancy, its kernel chosen from the same data.

    Whatever is learned is learned from the pooled sample, which does not change when labels are
    permuted; so the level is exact, with no data held out (BKE section 5), for every choice:

    - ``"multiscale"``: squared MMDs at a ladder of lengthscales and at every mode of the smoothed
      marginal likelihood, each standardised by its permutations, combined by log-sum-exp.
    - ``"evidence"``: the Bayes factor of "they differ" with the difference of the embeddings drawn
      from the BKE prior; see :mod:`bke.inference.testing.evidence`.
    - ``"fused"``: the statistics of ``"multiscale"`` and the log Bayes factors at every lengthscale
      and variance, all standardised and combined alike. The evidence weighs a difference by its
      sampling covariance and sees small ones that MMD drowns in large ones that are only noise.
    - ``"bkl"``: the one kernel that maximises the marginal likelihood, as in the paper.
    - ``"posterior"``: the kernel averaged over the posterior of its lengthscale, so the statistic
      is the average of the statistics (KER-12).
    - ``"median"``: the median heuristic.
    - a kernel, such as ``SquaredExponential(0.5)``, in the units of the data.

    From 2000 rows on the Gram matrix is taken as a factor of its numerical rank, where that is
    small, as of smooth kernels in few columns: no matrix is (m + n) x (m + n) then.

    Args:
        P: sample of P, shape (m, D) or (m,).
        Q: sample of Q, shape (n, D) or (n,).
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
        memory: steps over which the series forget, for the wild bootstrap; by default 20.
        block_size: rows of each sample in a block; by default the square root of m.
        alpha: level of the verdict and of the interval.
        scale: ``"column"``, ``"pooled"`` or ``None``, as for :func:`~bke.inference.fit`; by the
            pooled sample.
        seed: of the permutations and of whatever is random in the choice of the kernel.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    kernel = check_kernel(kernel, CHOICES)
    chosen = check_null(null, estimator, (kernel,), MMD_NULLS)
    if isinstance(kernel, str) and kernel == "evidence" and estimator == "biased":
        raise InputError("the evidence is no squared MMD and has no biased estimate")
    if block_size is not None and chosen != "block":
        raise InputError(f"block_size is for estimator='block', not for {chosen!r}")
    check_permutations(permutations, alpha, null=null)
    check_count(seed, "seed", 0, 2**63 - 1)
    first, second = as_tested_pair(P, Q)
    sizes = len(first), len(second)
    tested = fingerprint(first), fingerprint(second)
    if chosen in ("paired", "linear", "block") and sizes[0] != sizes[1]:
        raise InputError(
            f"the {chosen} estimate needs samples of one size: P has {sizes[0]} rows, Q {sizes[1]}"
        )
    memory = series_memory(memory, null, sizes[0])
    pooled = np.concatenate([first, second])
    if null not in ("normal", "permutation"):
        _check_matrices(pooled)
    order = canonical_order(pooled)
    points = pooled[order]
    if chosen == "paired":  # sorted too, as pairs
        pairs = canonical_order(np.concatenate([first, second], axis=1))
        pooled = np.concatenate([first[pairs], second[pairs]])
    rng = generator(seed, pooled)
    paired = chosen == "paired"
    with computing():
        if null != "permutation":
            (one,) = _chosen(kernel, points, scale, seed, progress)
            of = f"squared MMD ({chosen})"
            if null == "normal":
                # Shuffled from sorted, so that neither order nor blocks of like rows matter.
                shuffled = [rng.permutation(Z[canonical_order(Z)]) for Z in (first, second)]
                size = block_size if chosen == "block" else 2
                approximation = terms_approximation(shuffled[0], shuffled[1], one, size)
                of += " over its standard error"
            else:
                matrix = gram(one, pooled)
                approximation = mmd_approximation(null, matrix, sizes, permutations, rng, memory)
            name = name_of(kernel)
            result = approximation.result("two-sample test", HYPOTHESES, one, name, alpha, of)
            return dataclasses.replace(result, fingerprints=tested)
        if paired:
            labels = pair_swaps(sizes[0], permutations, rng)
            plain = pooled
        else:
            # Sorted, so that the p-value is the same for any order of the rows.
            labels = relabellings(sizes, permutations, rng)
            labels[:, 0] = (np.arange(len(pooled)) < sizes[0])[order]
            plain = points
        found = _statistics(kernel, plain, points, labels, chosen, scale, seed, progress)
        estimate, interval = None, None
        row = found.row
        # The normal limit holds where P and Q differ; under P = Q it says nothing.
        differ = p_value(row) <= alpha
        if differ and found.kernel is not None and not paired and min(sizes) >= 3:
            estimate, interval = _interval(first, second, found.kernel, alpha)
    e_value = None
    if isinstance(kernel, str) and kernel == "evidence":
        e_value = float(np.exp(row[0] - logsumexp(row) + np.log(len(row))))
    return TestResult(
        test="two-sample test" + (" of pairs" if paired else ""),
        hypotheses=HYPOTHESES,
        statistic=float(row[0]),
        pvalue=p_value(row),
        null=row[1:],
        kernel=found.kernel,
        how=f"{permutations} permutations, {name_of(kernel)}",
        exact=True,
        alpha=alpha,
        statistic_of=found.name,
        parts=found.parts,
        interval=interval,
        kernel_of="loudest MMD at" if found.parts else "kernel",
        interval_of="squared MMD at that kernel",
        estimate=estimate,
        e_value=e_value,
        notes=(
            *kernel_notes([found.kernel] if found.kernel is not None else []),
            *few_rows_note(_ways(sizes, paired), alpha),
            *(rounding_note(first, second, found.kernel) if differ else ()),
            *(("P and Q are the same rows",) if tested[0] == tested[1] else ()),
        ),
        rows="pairs" if paired else "independent",
        fingerprints=tested,
    )


def gram_or_factor(kernel: Any, pooled: np.ndarray) -> np.ndarray | Factor:
    """The Gram matrix of (N, D) rows, of many by a factor where its rank is small."""
    factor = factor_of(kernel, pooled)
    if factor is not None:
        return factor
    _check_matrices(pooled)
    return gram(kernel, pooled)


def _check_matrices(pooled: np.ndarray) -> None:
    check_memory(len(pooled), pooled.shape[1], matrices=MATRICES, instead=WITHOUT_MATRICES)


def _chosen(
    choice: Any, points: np.ndarray, scale: str | None, seed: int, progress: bool
) -> list[Any]:
    """Kernels, with a bar that says how long they took to find."""
    with progress_bar("kernels", 1, shown=progress) as advance:
        kernels = kernels_for(choice, points, scale, seed)
        advance(1)
    return list(kernels)


def _statistics(
    choice: Any,
    pooled: np.ndarray,
    points: np.ndarray,
    labels: np.ndarray,
    estimator: str,
    scale: str | None,
    seed: int,
    progress: bool,
) -> _Rows:
    """The statistic that ``choice`` names, of the rows of ``pooled``; ``points`` are sorted."""
    discrepancy = "multiscale" if choice == "fused" else choice
    kernels: list[Any] = []
    unit = choose_scale(points, scale)
    lengthscales = np.empty(0)
    if choice != "evidence":
        kernels = _chosen(discrepancy, points, scale, seed, progress)
    if choice in ("evidence", "fused"):
        lengthscales = ladder(points / unit, seed)
    count = labels.shape[1]
    total = count * (len(kernels) + bool(len(lengthscales)))
    with progress_bar("permutations", total, shown=progress) as advance:
        rows = [
            mmd_row(gram_or_factor(one, pooled), labels, estimator=estimator, advance=advance)
            for one in kernels
        ]
        if len(lengthscales):
            places = landmarks(points / unit, LANDMARKS, seed)
            rows += list(
                evidence_rows(
                    pooled / unit,
                    labels,
                    lengthscales,
                    places,
                    paired=estimator == "paired",
                    advance=advance,
                )
            )
    if choice == "evidence":
        # The prior is uniform over the ladder, in the log, and over the variances.
        return _Rows(logsumexp(rows, axis=0) - np.log(len(rows)), (), None, "log Bayes factor")
    named: list[tuple[str, Any]] = [(f"MMD, {brief(one)}", one) for one in kernels]
    for length in lengthscales:
        one = scaled_kernel(length, unit)
        named += [(f"evidence, {brief(one)}, prior variance {value:g}", one) for value in VARIANCES]
    combined = combine(np.array(rows), named)
    if not combined.parts:
        return _Rows(combined.row, (), kernels[0], f"squared MMD ({estimator})")
    loudest = max(combined.parts[: len(kernels)], key=lambda part: part.deviation).kernel
    return _Rows(combined.row, combined.parts, loudest, COMBINED)


def _ways(sizes: tuple[int, int], paired: bool) -> int:
    """How many statistics labels can give: P and Q may change their names."""
    if paired:
        return int(2 ** (sizes[0] - 1))
    return math.comb(sum(sizes), sizes[0]) // (2 if sizes[0] == sizes[1] else 1)


def _interval(
    first: np.ndarray, second: np.ndarray, kernel: Any, alpha: float
) -> tuple[float, tuple[float, float]]:
    """The unbiased squared MMD and its interval."""
    factor = factor_of(kernel, np.concatenate([first, second]))
    if factor is not None:
        value, variance = mmd_and_variance(factor, len(first))
    else:
        value = float(squared_mmd(first, second, kernel))
        variance = float(squared_mmd_variance(first, second, kernel))
    deviation = variance**0.5
    reach = float(norm.isf(0.5 * alpha)) * deviation
    return value, (max(0.0, value - reach), max(0.0, value + reach))
