"""Independence tests: do x and y say anything about each other? Kernels learned from each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..checks import as_sample, check_count, check_memory
from ..errors import InputError
from ..machine import computing
from ..progress import progress_bar
from .kernels import canonical_order, kernels_for, some
from .pairing import hsic_row, pairings, side
from .permutation import generator, p_value, standardised
from .result import (
    Part,
    TestResult,
    brief,
    check_kernel,
    check_permutations,
    kernel_notes,
    name_of,
)
from .two_sample import COMBINED, gram

CHOICES = ("multiscale", "bkl", "posterior", "median")
ESTIMATORS = ("unbiased", "biased")
HYPOTHESES = ("no evidence that x and y depend on each other", "x and y depend on each other")
#: Kernels of each variable in a multiscale test, evenly taken from its ladder.
SCALES = 4
MATRICES = 20


def independence_test(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    kernel: Any = "multiscale",
    estimator: str = "unbiased",
    permutations: int = 999,
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
        estimator: ``"unbiased"`` (for n >= 4) or ``"biased"``.
        permutations: B; the smallest p-value is 1 / (1 + B).
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
    for choice in choices:
        check_kernel(choice, CHOICES)
    if estimator not in ESTIMATORS:
        raise InputError(f"estimator must be one of {ESTIMATORS}, got {estimator!r}")
    check_permutations(permutations, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    first, second = as_sample(X, "X"), as_sample(Y, "Y")
    n = len(first)
    if n != len(second):
        raise InputError(f"X has {n} rows but Y has {len(second)}: independence needs pairs")
    if estimator == "unbiased" and n < 4:
        raise InputError(f"unbiased HSIC needs at least 4 rows, and has {n}")
    check_memory(n, first.shape[1] + second.shape[1], matrices=MATRICES)
    # Sorted by x, so that the p-value is the same for any order of the pairs.
    order = canonical_order(np.concatenate([first, second], axis=1))
    first, second = first[order], second[order]
    rows = pairings(n, permutations, generator(seed))
    with computing():
        both = [
            some(kernels_for(choice, sample[canonical_order(sample)], scale, seed), SCALES)
            for choice, sample in zip(choices, (first, second), strict=True)
        ]
        sides = [
            [side(gram(one, Z)) for one in ks] for ks, Z in zip(both, (first, second), strict=True)
        ]
        pairs = [(i, j) for i in range(len(both[0])) for j in range(len(both[1]))]
        with progress_bar("permutations", len(pairs) * len(rows), shown=progress) as advance:
            statistics = np.array(
                [
                    hsic_row(sides[0][i], sides[1][j], rows, estimator=estimator, advance=advance)
                    for i, j in pairs
                ]
            )
    kernels = [(both[0][i], both[1][j]) for i, j in pairs]
    deviations = standardised(statistics)
    row = statistics[0] if len(pairs) == 1 else logsumexp(deviations, axis=0)
    parts = tuple(
        Part(" and ".join(map(brief, ks)), float(one[0]), p_value(one), ks, float(deviation[0]))
        for ks, one, deviation in zip(kernels, statistics, deviations, strict=True)
    )
    loudest = kernels[int(np.argmax(deviations[:, 0]))]
    names = [name_of(choice) for choice in choices]
    named = names[0] if names[0] == names[1] else " and ".join(names)
    return TestResult(
        test="independence test",
        hypotheses=HYPOTHESES,
        statistic=float(row[0]),
        pvalue=p_value(row),
        null=row[1:],
        kernel=loudest,
        how=f"{permutations} permutations, {named}",
        exact=True,
        alpha=alpha,
        statistic_of=f"HSIC ({estimator})" if len(parts) == 1 else COMBINED,
        parts=parts if len(parts) > 1 else (),
        notes=kernel_notes(list(loudest)),
    )
