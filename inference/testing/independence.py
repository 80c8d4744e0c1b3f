"""Independence tests: do x and y say anything about each other? Kernels learned from each alone."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, checksum, generator, pairs_fingerprints
from ..data.checks import (
    as_sample,
    check_count,
    check_memory,
    check_same_rows,
    column_names,
    default_names,
)
from ..data.equality import equalize
from ..learning import PairKernel
from ..learning.kernel_selection import take_evenly
from ..permutation.enough import few_rows_note
from ..permutation.serial import serial_note
from ..permutation.stages import count_in_words, in_stages
from .approximations import hsic_approximation
from .combination import COMBINED, Combined, combine
from .gram import gram
from .kernel_choice import KernelChoice, brief
from .notes import kernel_notes
from .null_choice import HSIC_NULLS, NullChoice
from .pairing import Side, hsic_row, pairings, side
from .result import TestResult

TEST = "independence test"
CHOICES: tuple[str, ...] = get_args(PairKernel)
HYPOTHESES = ("no evidence that x and y depend on each other", "x and y depend on each other")
#: Kernels of each variable in a multiscale test, evenly taken from its ladder.
SCALES = 4
MATRICES = 16
#: How a linear dependence joins.
WITH_LINEAR = "how surprising the log-sum-exp of HSICs and the linear one are"


class Variable(NamedTuple):
    """One of two variables, with all that its part of a statistic needs."""

    kernels: list[Any]
    sides: list[Side]
    linear: Side | None  # of many kernels: a linear dependence alone


def chosen_kernels(sample: np.ndarray, choice: KernelChoice) -> list[Any]:
    """At most :data:`SCALES` kernels for one variable, (n, D) in any order."""
    return take_evenly(choice.kernels(sample), SCALES)


def variable(sample: np.ndarray, kernels: list[Any], choice: KernelChoice) -> Variable:
    """Make the Gram matrices of a variable's sample (n, D), one for each of its kernels."""
    linear = None
    if choice.named == "multiscale":
        scaled = (sample - sample.mean(axis=0)) / choice.unit(sample)
        linear = side(scaled @ scaled.T)
    return Variable(kernels, [side(gram(one, sample)) for one in kernels], linear)


def dependence(
    first: Variable, second: Variable, rows: np.ndarray, estimator: str, *, progress: bool
) -> tuple[Combined, tuple[Any, Any]]:
    """Evaluate HSIC for every pairing and pair of kernels; all combined, and the most extreme pair.

    Args:
        first: the variable x.
        second: the variable y, paired with x row by row.
        rows: see :func:`~bke.inference.testing.pairing.pairings`.
        estimator: ``"unbiased"`` or ``"biased"``.
        progress: show a progress bar.
    """
    sides = list(itertools.product(first.sides, second.sides))
    kernels = list(itertools.product(first.kernels, second.kernels))
    named: list[tuple[str, Any]] = [(" and ".join(map(brief, both)), both) for both in kernels]
    if first.linear is not None and second.linear is not None:
        sides.append((first.linear, second.linear))
        named.append(("linear", None))  # its kernel is of columns in standard deviations
    with progress_bar("permutations", len(sides) * len(rows), shown=progress) as advance:
        statistics = np.array(
            [hsic_row(x, y, rows, estimator=estimator, advance=advance) for x, y in sides]
        )
    combined = combine(statistics, named, beside=len(sides) - len(kernels))
    return combined, kernels[combined.most_extreme]


def _ways(n: int, estimator: str) -> int:
    """Count how many statistics the orders of n pairs can give."""
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
    sequential: bool = True,
    memory: float | None = None,
    alpha: float = 0.05,
    standardize: str | None = "column",
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
            standardised by its permutations and combined by log-sum-exp, and beside it the linear
            kernels, each by how surprising it is; ``"bkl"``,
            ``"posterior"``, ``"median"`` or a kernel, as for
            :func:`~bke.inference.two_sample_test`.
        null: ``"permutation"``, exact for independent rows. The others are approximations, for one
            kernel of each variable: ``"gamma"`` (TST-5) and ``"spectrum"`` (TST-6) for independent
            rows; for rows in order of time, each variable a stationary series, ``"wild bootstrap"``
            (TST-7) and ``"shift"``, which shifts y in a circle.
        estimator: with permutations ``"unbiased"`` (the default, for n >= 4) or ``"biased"``; the
            other nulls are of the biased estimate.
        permutations: B, or draws of the null; the smallest p-value is 1 / (1 + B).
        sequential: whether to stop before, as :func:`~bke.inference.two_sample_test` does.
        memory: steps over which the series forget, for the wild bootstrap and the shift; by default
            20.
        alpha: level of the verdict.
        standardize: ``"column"``, ``"pooled"`` or ``None``, for each of the two.
        seed: of the permutations, or of the draws of the null. The choice of kernels has nothing
            of it, nor does anything hang on the order of rows, of columns or of X and Y.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    choices = _choices(kernel, standardize)
    check_count(seed, "seed", 0, 2**63 - 1)
    asked = NullChoice.checked(
        null, estimator, choices, HSIC_NULLS, draws=permutations, alpha=alpha, memory=memory
    )
    first, second = samples = _checked(X, Y, asked)
    check_memory(len(first), first.shape[1] + second.shape[1], matrices=MATRICES)
    with computing(), progress_bar("variables", 2, shown=progress) as advance:
        kernels = []
        for choice, sample in zip(choices, samples, strict=True):
            kernels.append(chosen_kernels(sample, choice))
            advance(1)
    with computing():
        if asked.permutes:
            result = in_stages(
                lambda count: _permuted(
                    samples, choices, kernels, asked, seed, count, progress=progress
                ),
                permutations,
                alpha,
                sequential=sequential,
            )
            # Dependence within one variable alone does no harm.
            serial = [
                serial_note([values], column_names(Z) or default_names(values.shape[1]))
                for Z, values in ((X, first), (Y, second))
            ]
            if all(serial):
                result = dataclasses.replace(result, notes=(*result.notes, *serial[0]))
        else:
            rng = generator(seed, first, second)
            result = _approximated(samples, kernels, _named(choices), asked, rng)
    return dataclasses.replace(result, fingerprints=pairs_fingerprints(first, second))


def _named(choices: list[KernelChoice]) -> str:
    """The choices of both variables in words, once where they are the same."""
    return " and ".join(dict.fromkeys(map(str, choices)))


def _in_words(combined: Combined, estimator: str) -> str:
    """What the statistic is."""
    if not combined.parts:
        return f"HSIC ({estimator})"
    return WITH_LINEAR if combined.beside else COMBINED


def _choices(kernel: Any, standardize: str | None) -> list[KernelChoice]:
    """The choice of kernels for each of the two variables."""
    each = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if len(each) != 2:
        raise InputError(f"kernel must be one for both or a tuple of two, got {len(each)}")
    return [KernelChoice.checked(one, CHOICES, standardize) for one in each]


def _checked(X: ArrayLike, Y: ArrayLike, asked: NullChoice) -> tuple[np.ndarray, np.ndarray]:
    """Samples of pairs that the null and its estimator are for."""
    check_same_rows(X=X, Y=Y)
    first, second = (equalize([as_sample(Z, name)])[0] for Z, name in ((X, "X"), (Y, "Y")))
    n = len(first)
    if n != len(second):
        raise InputError(f"X has {n} rows but Y has {len(second)}: independence needs pairs")
    if asked.estimator == "unbiased" and n < 4:
        raise InputError(f"unbiased HSIC needs at least 4 rows, and has {n}")
    asked.steps(n)  # refuses a memory that is not for these rows
    return first, second


def _permuted(
    samples: tuple[np.ndarray, np.ndarray],
    choices: list[KernelChoice],
    kernels: list[list[Any]],
    asked: NullChoice,
    seed: int,
    count: int,
    *,
    progress: bool,
) -> TestResult:
    """The exact test: HSIC for every one of ``count`` pairings."""
    # Sorted, so that the p-value is the same for any order of the pairs, and dealt to one of the
    # two that goes by what is in them.
    order = canonical_order(np.concatenate(samples, axis=1))
    rows = pairings(len(order), count, generator(seed, *samples))
    if checksum(samples[0]) > checksum(samples[1]):
        rows = np.argsort(rows, axis=1)  # the x are dealt out to the y
    x, y = (
        variable(Z[order], each, choice)
        for Z, each, choice in zip(samples, kernels, choices, strict=True)
    )
    combined, most_extreme = dependence(x, y, rows, asked.estimator, progress=progress)
    ways = _ways(len(order), asked.estimator)
    return TestResult.permuted(
        combined.row,
        test=TEST,
        hypotheses=HYPOTHESES,
        kernel=most_extreme,
        how=f"{count_in_words(count, asked.draws)}, {_named(choices)}",
        exact=True,
        alpha=asked.alpha,
        statistic_of=_in_words(combined, asked.estimator),
        kernel_of="most extreme HSIC at" if combined.parts else "kernel",
        parts=combined.parts,
        pvalue_error=combined.error(),
        notes=(*kernel_notes(list(most_extreme)), *few_rows_note(ways, asked.alpha)),
    )


def _approximated(
    samples: tuple[np.ndarray, np.ndarray],
    kernels: list[list[Any]],
    named: str,
    asked: NullChoice,
    rng: np.random.Generator,
) -> TestResult:
    """The test of one kernel of each variable by a null that is an approximation."""
    single = tuple(each[0] for each in kernels)
    K, L = (gram(one, Z) for one, Z in zip(single, samples, strict=True))
    found = hsic_approximation(asked, K, L, rng)
    of = f"HSIC ({asked.estimator})"
    return found.result(TEST, HYPOTHESES, single, named, asked.alpha, of)
