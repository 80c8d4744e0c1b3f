"""Independence tests: do x and y say anything about each other? Kernels learned from each alone."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..data.canonical import canonical_order, generator, pairs_fingerprints
from ..data.checks import as_sample, check_count, check_memory, check_same_rows
from ..errors import InputError
from ..learning.choice import kernels_for, some
from ..runtime.machine import computing
from ..runtime.progress import progress_bar
from .approximations import HSIC_NULLS, check_null, hsic_approximation, series_memory
from .combination import COMBINED, Combined, combine
from .gram import gram
from .notes import few_rows_note, kernel_notes
from .pairing import Side, hsic_row, pairings, side
from .permutation import p_value
from .result import (
    TestResult,
    brief,
    check_kernel,
    check_permutations,
    name_of,
)

CHOICES = ("multiscale", "bkl", "posterior", "median")
HYPOTHESES = ("no evidence that x and y depend on each other", "x and y depend on each other")
#: Kernels of each variable in a multiscale test, evenly taken from its ladder.
SCALES = 4
MATRICES = 20


class Variable(NamedTuple):
    """One of two variables, with all that its part of a statistic needs."""

    kernels: list[Any]
    sides: list[Side]


def chosen_kernels(sample: np.ndarray, choice: Any, scale: str | None, seed: int) -> list[Any]:
    """The kernels that ``choice`` names for one variable, (n, D) in any order."""
    return some(kernels_for(choice, sample[canonical_order(sample)], scale, seed), SCALES)


def variable(sample: np.ndarray, kernels: list[Any]) -> Variable:
    """A sample (n, D) with its kernels' Gram matrices."""
    return Variable(kernels, [side(gram(one, sample)) for one in kernels])


def dependence(
    first: Variable, second: Variable, rows: np.ndarray, estimator: str, *, progress: bool
) -> tuple[Combined, tuple[Any, Any]]:
    """HSIC for every pairing, of all pairs of kernels, combined; and the loudest pair.

    Args:
        first: x.
        second: y.
        rows: see :func:`~bke.inference.testing.pairing.pairings`.
        estimator: ``"unbiased"`` or ``"biased"``.
        progress: show a progress bar.
    """
    pairs = [(i, j) for i in range(len(first.kernels)) for j in range(len(second.kernels))]
    with progress_bar("permutations", len(pairs) * len(rows), shown=progress) as advance:
        statistics = np.array(
            [
                hsic_row(
                    first.sides[i], second.sides[j], rows, estimator=estimator, advance=advance
                )
                for i, j in pairs
            ]
        )
    kernels = [(first.kernels[i], second.kernels[j]) for i, j in pairs]
    named = [(" and ".join(map(brief, both)), both) for both in kernels]
    combined = combine(statistics, named)
    return combined, kernels[combined.loudest]


def _ways(n: int, estimator: str) -> int:
    """How many statistics orders of the pairs can give."""
    # Of four rows, the centred Gram matrix of the unbiased estimate has three different entries.
    return 6 if n == 4 and estimator == "unbiased" else math.factorial(n)


def independence_test(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    kernel: Any = "multiscale",
    null: str = "permutation",
    estimator: str | None = None,
    permutations: int = 999,
    memory: float | None = None,
    alpha: float = 0.05,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test independence by HSIC, the kernel of each variable chosen from that variable alone.

    What is chosen does not change when the pairing is permuted, so the level is exact.

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel: of both, or a tuple of two: ``"multiscale"``, pairs of a few lengthscales of each,
            short to long and at the modes of the smoothed marginal likelihood, each statistic
            standardised by its permutations and combined by log-sum-exp; ``"bkl"``,
            ``"posterior"``, ``"median"`` or a kernel, as for
            :func:`~bke.inference.two_sample_test`.
        null: ``"permutation"``, exact for independent rows. The others are approximations, for one
            kernel of each variable: ``"gamma"`` (TST-5) and ``"spectrum"`` (TST-6) for independent
            rows; for rows in order of time, each variable a stationary series, ``"wild bootstrap"``
            (TST-7) and ``"shift"``, which shifts y in a circle.
        estimator: with permutations ``"unbiased"`` (the default, for n >= 4) or ``"biased"``; the
            other nulls are of the biased estimate.
        permutations: B, or draws of the null; the smallest p-value is 1 / (1 + B).
        memory: steps over which the series forget, for the wild bootstrap and the shift; by default
            20.
        alpha: level of the verdict.
        scale: ``"column"``, ``"pooled"`` or ``None``, for each of the two.
        seed: of the permutations and of whatever is random in the choice of kernels.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    choices = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if len(choices) != 2:
        raise InputError(f"kernel must be one for both or a tuple of two, got {len(choices)}")
    choices = tuple(check_kernel(choice, CHOICES) for choice in choices)
    chosen = check_null(null, estimator, choices, HSIC_NULLS)
    check_same_rows(X=X, Y=Y)
    check_permutations(permutations, alpha, null=null)
    check_count(seed, "seed", 0, 2**63 - 1)
    first, second = as_sample(X, "X"), as_sample(Y, "Y")
    n = len(first)
    if n != len(second):
        raise InputError(f"X has {n} rows but Y has {len(second)}: independence needs pairs")
    if chosen == "unbiased" and n < 4:
        raise InputError(f"unbiased HSIC needs at least 4 rows, and has {n}")
    tested = pairs_fingerprints(first, second)
    memory = series_memory(memory, null, n)
    check_memory(n, first.shape[1] + second.shape[1], matrices=MATRICES)
    names = [name_of(choice) for choice in choices]
    named = names[0] if names[0] == names[1] else " and ".join(names)
    test, rng = "independence test", generator(seed, first, second)
    with computing(), progress_bar("variables", 2, shown=progress) as advance:
        kernels = []
        for choice, sample in zip(choices, (first, second), strict=True):
            kernels.append(chosen_kernels(sample, choice, scale, seed))
            advance(1)
    if null != "permutation":
        single = [each[0] for each in kernels]
        with computing():
            K, L = (gram(one, Z) for one, Z in zip(single, (first, second), strict=True))
            found = hsic_approximation(null, K, L, permutations, rng, memory, alpha)
        of = f"HSIC ({chosen})"
        result = found.result(test, HYPOTHESES, tuple(single), named, alpha, of)
        return dataclasses.replace(result, fingerprints=tested)
    # Sorted by x, so that the p-value is the same for any order of the pairs.
    order = canonical_order(np.concatenate([first, second], axis=1))
    first, second = first[order], second[order]
    rows = pairings(n, permutations, rng)
    with computing():
        x, y = (variable(Z, each) for Z, each in zip((first, second), kernels, strict=True))
        combined, loudest = dependence(x, y, rows, chosen, progress=progress)
    row = combined.row
    return TestResult(
        test=test,
        hypotheses=HYPOTHESES,
        statistic=float(row[0]),
        pvalue=p_value(row),
        null=row[1:],
        kernel=loudest,
        how=f"{permutations} permutations, {named}",
        exact=True,
        alpha=alpha,
        statistic_of=COMBINED if combined.parts else f"HSIC ({chosen})",
        kernel_of="loudest HSIC at" if combined.parts else "kernel",
        parts=combined.parts,
        fingerprints=tested,
        notes=(*kernel_notes(list(loudest)), *few_rows_note(_ways(n, chosen), alpha)),
    )
