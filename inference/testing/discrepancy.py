"""The statistic of two samples that a choice of kernels names, for every labelling of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..core.progress import progress_bar
from ..data.checks import check_memory
from ..evidence.landmarks import LANDMARKS, evidence_rows, landmarks
from ..learning.bandwidths import bandwidth_grid
from ..permutation.pair import Labelled
from ..permutation.permutation import p_value, share_error
from .combination import COMBINED, combine
from .factors import Factor, factor_of
from .gram import gram
from .kernel_choice import CHOOSING, KernelChoice, brief
from .mmd import mmd_row
from .result import Part

#: Matrices of the size of the pooled sample that are alive at once.
MATRICES = 3
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
    kernel_of: str = "kernel"
    heard: bool = True  # whether the kernel hears a difference by itself


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
    """Evaluate squared MMDs, or evidences at landmarks, for every labelling, and combine them.

    Args:
        choice: of the kernels, one of the names of
            :data:`~bke.inference.learning.TwoSampleKernel` but ``"fused"``, or a kernel.
        labelled: rows with their labels.
        points: the same rows sorted, from which everything is learned.
        estimator: of the squared MMD.
        progress: show bars.
    """
    if choice.named == "evidence":
        return _evidence(choice, labelled, points, progress=progress)
    kernels = chosen_kernels(choice, points, progress=progress)
    labels = labelled.labels
    total = labels.shape[1] * len(kernels)
    with progress_bar("permutations", total, shown=progress) as advance:
        matrices = (gram_or_factor(one, labelled.rows) for one in kernels)  # one at a time
        rows = [mmd_row(K, labels, estimator=estimator, advance=advance) for K in matrices]
    combined = combine(np.array(rows), [(f"MMD, {brief(one)}", one) for one in kernels])
    error, parts = combined.error(), combined.parts
    if not parts:
        return Statistic(combined.row, (), kernels[0], f"squared MMD ({estimator})", error)
    kernel = parts[combined.most_extreme].kernel
    return Statistic(combined.row, parts, kernel, COMBINED, error, "most extreme MMD at")


def _evidence(
    choice: KernelChoice, labelled: Labelled, points: np.ndarray, *, progress: bool
) -> Statistic:
    """The log Bayes factor at landmarks, over a prior that is uniform over lengths and sizes."""
    unit = choice.unit(points)
    lengthscales = bandwidth_grid(points / unit, CHOOSING)
    places = landmarks(points / unit, LANDMARKS, CHOOSING)
    with progress_bar("scales", len(lengthscales), shown=progress) as advance:
        rows = evidence_rows(labelled.relabelled(unit), lengthscales, places, advance=advance)
    row = logsumexp(rows, axis=0) - np.log(len(rows))
    return Statistic(row, (), None, "log Bayes factor", share_error(p_value(row), len(row) - 1))


def gram_or_factor(kernel: Any, pooled: np.ndarray) -> np.ndarray | Factor:
    """The Gram matrix of (N, D) rows, of many by a factor where its rank is small."""
    factor = factor_of(kernel, pooled)
    if factor is not None:
        return factor
    check_matrices(pooled)
    return gram(kernel, pooled)


def check_matrices(pooled: np.ndarray) -> None:
    """Refuse as many rows (N, D) as there is no memory for matrices of."""
    check_memory(len(pooled), pooled.shape[1], matrices=MATRICES, alternative=WITHOUT_MATRICES)
