"""The statistic of two samples that a choice of kernels names, for every labelling of rows."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from bke.models import squared_mmd, squared_mmd_variance
from scipy.special import logsumexp
from scipy.stats import norm

from ..data.checks import check_memory
from ..evidence.landmarks import LANDMARKS, VARIANCES, evidence_rows, landmarks
from ..learning.named_kernels import ladder, scaled_kernel
from ..relabelling.pair import Labelled, Pair
from ..relabelling.permutation import p_value, share_error
from ..runtime.progress import progress_bar
from .combination import COMBINED, combine
from .factors import Factor, factor_of, mmd_and_variance
from .gram import gram
from .kernel_choice import CHOOSING, KernelChoice, brief
from .mmd import mmd_row
from .result import Part

#: Matrices of the size of the pooled sample that are alive at once.
MATRICES = 10
WITHOUT_MATRICES = (
    "a random part of them, or null='normal' with one kernel, such as 'median' (--null linear)"
)


class Statistic(NamedTuple):
    """One statistic for all labellings, with what it was made of."""

    row: np.ndarray  # (1 + B,), the observed value first
    parts: tuple[Part, ...]  # none where there was one
    kernel: Any  # of the most extreme MMD; none of the evidence
    name: str
    error: float  # standard error of its p-value, by the draw of the permutations


def chosen_kernels(choice: KernelChoice, points: np.ndarray, *, progress: bool) -> list[Any]:
    """The kernels for rows (N, D), found under a bar that says how long they took."""
    with progress_bar("kernels", 1, shown=progress) as advance:
        kernels = choice.kernels(points)
        advance(1)
    return kernels


def statistic(
    choice: KernelChoice,
    labelled: Labelled,
    points: np.ndarray,
    estimator: str,
    *,
    progress: bool = False,
) -> Statistic:
    """Evaluate squared MMDs, evidences or both for every labelling, and combine them.

    Args:
        choice: of the kernels, one of :data:`~bke.inference.learning.named_kernels.CHOICES` or a
            kernel.
        labelled: rows with their labels.
        points: the same rows sorted, from which everything is learned.
        estimator: of the squared MMD.
        progress: show bars.
    """
    kernels: list[Any] = []
    lengthscales = np.empty(0)
    unit = choice.unit(points)
    if choice.named != "evidence":
        kernels = chosen_kernels(_of_mmd(choice), points, progress=progress)
    if choice.named in ("evidence", "fused"):
        lengthscales = ladder(points / unit, CHOOSING)
    labels = labelled.labels
    total = labels.shape[1] * (len(kernels) + bool(len(lengthscales)))
    with progress_bar("permutations", total, shown=progress) as advance:
        matrices = (gram_or_factor(one, labelled.rows) for one in kernels)  # one at a time
        rows = [mmd_row(K, labels, estimator=estimator, advance=advance) for K in matrices]
        if len(lengthscales):
            rows += list(
                evidence_rows(
                    labelled.rows / unit,
                    labels,
                    lengthscales,
                    landmarks(points / unit, LANDMARKS, CHOOSING),
                    paired=labelled.paired,
                    advance=advance,
                )
            )
    if not kernels:
        # The prior is uniform over the ladder, in the log, and over the variances.
        row = logsumexp(rows, axis=0) - np.log(len(rows))
        error = share_error(p_value(row), len(row) - 1)
        return Statistic(row, (), None, "log Bayes factor", error)
    named: list[tuple[str, Any]] = [(f"MMD, {brief(one)}", one) for one in kernels]
    for length in lengthscales:
        one = scaled_kernel(length, unit)
        named += [(f"evidence, {brief(one)}, prior variance {value:g}", one) for value in VARIANCES]
    combined = combine(np.array(rows), named)
    if not combined.parts:
        of = f"squared MMD ({estimator})"
        return Statistic(combined.row, (), kernels[0], of, combined.error())
    most_extreme = max(combined.parts[: len(kernels)], key=lambda part: part.deviation).kernel
    return Statistic(combined.row, combined.parts, most_extreme, COMBINED, combined.error())


def _of_mmd(choice: KernelChoice) -> KernelChoice:
    """The kernels of the squared MMDs: those of ``"fused"`` are those of ``"multiscale"``."""
    return dataclasses.replace(choice, named="multiscale") if choice.named == "fused" else choice


def gram_or_factor(kernel: Any, pooled: np.ndarray) -> np.ndarray | Factor:
    """The Gram matrix of (N, D) rows, of many by a factor where its rank is small."""
    factor = factor_of(kernel, pooled)
    if factor is not None:
        return factor
    check_matrices(pooled)
    return gram(kernel, pooled)


def check_matrices(pooled: np.ndarray) -> None:
    """Refuse as many rows (N, D) as there is no memory for matrices of."""
    check_memory(len(pooled), pooled.shape[1], matrices=MATRICES, instead=WITHOUT_MATRICES)


def mmd_interval(pair: Pair, kernel: Any, alpha: float) -> tuple[float, tuple[float, float]]:
    """The unbiased squared MMD and its interval, by a normal limit (MMD-8).

    The limit holds where P and Q differ; under P = Q it says nothing.
    """
    factor = factor_of(kernel, pair.pooled)
    if factor is not None:
        value, variance = mmd_and_variance(factor, len(pair.first))
    else:
        value = float(squared_mmd(pair.first, pair.second, kernel))
        variance = float(squared_mmd_variance(pair.first, pair.second, kernel))
    reach = float(norm.isf(0.5 * alpha)) * variance**0.5
    return value, (max(0.0, value - reach), max(0.0, value + reach))
