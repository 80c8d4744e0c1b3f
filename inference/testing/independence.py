"""Independence and conditional independence tests, with kernels learned from each variable."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import numpy as np
from bke.models.linalg.pivoted_cholesky import dense_pivoted_cholesky
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, checksum, generator, pairs_fingerprints
from ..data.checks import (
    as_sample,
    check_count,
    check_memory,
    check_options,
    check_same_rows,
    column_names,
    default_names,
)
from ..data.equality import equalize
from ..io.types import describe_sentinel, find_sentinels
from ..learning import PairKernel
from ..learning.kernel_selection import take_evenly
from ..permutation.enough import few_rows_note
from ..permutation.permutation import in_batches, without_rounding
from ..permutation.serial import serial_note
from ..permutation.stages import count_in_words, in_stages
from .kernels import KernelChoice, center, gram, short_name
from .nulls import HSIC_NULLS, NullChoice, hsic_approximation
from .residuals import regress_out
from .result import COMBINED, CombinedStatistic, TestResult, combine, kernel_notes

TEST = "independence test"
KERNEL_CHOICES: tuple[str, ...] = get_args(PairKernel)
HYPOTHESES = ("no evidence that x and y depend on each other", "x and y depend on each other")
CONDITIONAL_HYPOTHESES = (
    "no evidence that x and y depend on each other given z",
    "x and y depend on each other given z",
)


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
    """Test independence by HSIC, with a kernel selected from each variable separately.

    Permutations of the pairs do not change the selected kernels, so the level is exact.

    Args:
        X: first variable, shape (n, D) or (n,).
        Y: second variable, shape (n, E) or (n,), row by row with X.
        kernel: choice for both variables, or a tuple of two choices. ``"multiscale"`` takes pairs
            of a few lengthscales of each variable, from short to long and at the modes of the
            smoothed marginal likelihood. Their statistics are standardized by permutations and
            combined by log-sum-exp. The result is combined with the statistic of linear kernels by
            tail probabilities. ``"bkl"``, ``"posterior"``, ``"median"`` or a kernel are those of
            :func:`~bke.inference.two_sample_test`.
        null: null distribution. ``"permutation"`` is exact for independent rows. The others are
            approximations for one kernel of each variable: ``"gamma"`` (TST-5) and ``"spectrum"``
            (TST-6) for independent rows; for stationary series with rows in order of time
            ``"wild bootstrap"`` (TST-7) and ``"shift"``, circular shifts of y.
        estimator: with permutations ``"unbiased"`` (default, for n >= 4) or ``"biased"``; the other
            null distributions are those of the biased estimator.
        permutations: number B of permutations, or of draws from the null distribution. The smallest
            p-value is 1 / (1 + B).
        sequential: stop early, as in :func:`~bke.inference.two_sample_test`.
        memory: number of steps beyond which the series are independent, for the wild bootstrap and
            the shifts. Default: 20.
        alpha: level of the test.
        standardize: ``"column"``, ``"pooled"`` or ``None``, for each variable.
        seed: random seed of the permutations or draws. Kernel selection does not depend on it. The
            order of rows and columns and swapping X and Y have no influence.
        progress: show a progress bar.

    Raises:
        InputError: for invalid data or arguments.
    """
    per_variable = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    if len(per_variable) != 2:
        raise InputError(f"kernel must be one for both or a tuple of two, got {len(per_variable)}")
    choices = [KernelChoice.checked(k, KERNEL_CHOICES, standardize) for k in per_variable]
    check_count(seed, "seed", 0, 2**63 - 1)
    null_choice = NullChoice.checked(
        null, estimator, choices, HSIC_NULLS, draws=permutations, alpha=alpha, memory=memory
    )
    first, second = samples = _check_pairs(X, Y, null_choice)
    check_memory(len(first), first.shape[1] + second.shape[1], matrices=16)
    with computing(), progress_bar("variables", 2, shown=progress) as advance:
        kernels = []
        for choice, sample in zip(choices, samples, strict=True):
            kernels.append(variable_kernels(sample, choice))
            advance(1)
    selection = " and ".join(dict.fromkeys(map(str, choices)))
    with computing():
        if null_choice.is_permutation:
            result = in_stages(
                lambda count: _permutation_test(
                    samples, choices, kernels, null_choice, seed, count, progress=progress
                ),
                permutations,
                alpha,
                sequential=sequential,
            )
            result = dataclasses.replace(result, method=f"{result.method}, {selection}")
            # Serial dependence within only one of the variables is harmless.
            serial = [
                serial_note([values], column_names(Z) or default_names(values.shape[1]))
                for Z, values in ((X, first), (Y, second))
            ]
            if all(serial):
                result = dataclasses.replace(result, notes=(*result.notes, *serial[0]))
        else:
            single = tuple(of_variable[0] for of_variable in kernels)
            K, L = (gram(k, sample) for k, sample in zip(single, samples, strict=True))
            approximation = hsic_approximation(null_choice, K, L, generator(seed, first, second))
            label = f"HSIC ({null_choice.estimator})"
            result = approximation.to_result(
                TEST, HYPOTHESES, single, selection, null_choice.alpha, label
            )
    sentinels = tuple(
        f"{variable}: {describe_sentinel(name, sentinel, 'some rows')} leave these rows out"
        for variable, Z, values in (("X", X, first), ("Y", Y, second))
        for name, column in zip(
            column_names(Z) or default_names(values.shape[1]), values.T, strict=True
        )
        for sentinel in find_sentinels(column)
    )
    return dataclasses.replace(
        result,
        notes=(*result.notes, *sentinels),
        fingerprints=pairs_fingerprints(first, second),
    )


def _check_pairs(X: ArrayLike, Y: ArrayLike, null: NullChoice) -> tuple[np.ndarray, np.ndarray]:
    """Check that the rows of two variables are pairs, and enough for the null distribution."""
    check_same_rows(X=X, Y=Y)
    first, second = (equalize([as_sample(Z, name)])[0] for Z, name in ((X, "X"), (Y, "Y")))
    n = len(first)
    if n != len(second):
        raise InputError(f"X has {n} rows but Y has {len(second)}: independence needs pairs")
    if null.estimator == "unbiased" and n < 4:
        raise InputError(f"unbiased HSIC needs at least 4 rows, and has {n}")
    null.memory_steps(n)  # checks the memory for these rows
    return first, second


def _permutation_test(
    samples: tuple[np.ndarray, np.ndarray],
    choices: list[KernelChoice],
    kernels: list[list[Any]],
    null: NullChoice,
    seed: int,
    count: int,
    *,
    progress: bool,
) -> TestResult:
    """Compute the exact test with ``count`` permutations."""
    # The p-value must not depend on the order of the pairs, nor on that of the variables: pairs are
    # sorted, and a checksum of the data determines which variable is permuted.
    order = canonical_order(np.concatenate(samples, axis=1))
    n = len(order)
    indices = permuted_indices(n, count, generator(seed, *samples))
    if checksum(samples[0]) > checksum(samples[1]):
        indices = np.argsort(indices, axis=1)
    x, y = (
        Variable.from_sample(sample[order], of_variable, choice)
        for sample, of_variable, choice in zip(samples, kernels, choices, strict=True)
    )
    combined, most_extreme = hsic_statistic(x, y, indices, null.estimator, progress=progress)
    label = f"HSIC ({null.estimator})"
    if combined.num_other:
        label = "minus log generalized mean p-value of the combined HSICs and the linear HSIC"
    elif combined.parts:
        label = COMBINED
    # With 4 rows, the centered Gram matrix of the unbiased estimator has three different entries.
    num_values = 6 if n == 4 and null.estimator == "unbiased" else math.factorial(n)
    return TestResult.from_permutations(
        combined.values,
        test=TEST,
        hypotheses=HYPOTHESES,
        kernel=most_extreme,
        method=count_in_words(count, null.draws),
        exact=True,
        alpha=null.alpha,
        statistic_label=label,
        kernel_label="most extreme HSIC at" if combined.parts else "kernel",
        parts=combined.parts,
        pvalue_error=combined.pvalue_error(),
        notes=(*kernel_notes(list(most_extreme)), *few_rows_note(num_values, null.alpha)),
    )


def conditional_independence_test(
    X: ArrayLike, Y: ArrayLike, Z: ArrayLike, *, seed: int = 0, **options: Any
) -> TestResult:
    """Test that X and Y are independent given Z, by HSIC of residuals (CI-3).

    X and Y are regressed on Z by Gaussian processes, and the residuals are tested for independence,
    as in BKE section 5. This is an approximation: residuals are estimates, so that permutations of
    them are not exact. For independent X and Y with 20 to 200 rows about 0.07 are rejected at level
    0.05. A dependence on Z beyond the mean, such as a variance that changes with Z, is mistaken for
    a dependence between X and Y.

    Args:
        X: first variable, shape (n, D) or (n,).
        Y: second variable, shape (n, E) or (n,), row by row with X.
        Z: conditioning variable, shape (n, F) or (n,).
        seed: random seed of the subsample of the regressions and of the test.
        **options: options of :func:`~bke.inference.independence_test`.

    Raises:
        InputError: for invalid data or arguments, without scikit-learn, or if Z determines X or Y.
    """
    check_options(options, independence_test)
    check_same_rows(X=X, Y=Y, Z=Z)
    conditioning = as_sample(Z, "Z")
    residuals = []
    for values, name in ((X, "X"), (Y, "Y")):
        sample = as_sample(values, name)
        if len(sample) != len(conditioning):
            raise InputError(f"{name} has {len(sample)} rows but Z has {len(conditioning)}")
        try:
            residuals.append(regress_out(sample, conditioning, seed=seed))
        except InputError as error:
            raise InputError(f"{name} given Z: {error}") from None
    result = independence_test(residuals[0], residuals[1], seed=seed, **options)
    result = dataclasses.replace(
        result, exact=False, rows="residuals", method=f"{result.method}, of residuals"
    )
    return result.renamed("conditional independence test", CONDITIONAL_HYPOTHESES)


def permuted_indices(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw permutations of row indices, (1 + count, size), the first of which is the identity."""
    indices = np.tile(np.arange(size), (1 + count, 1))
    indices[1:] = rng.permuted(indices[1:], axis=1)
    return indices


def variable_kernels(sample: np.ndarray, choice: KernelChoice) -> list[Any]:
    """Select the kernels of a variable (n, D), at most four, evenly from a bandwidth grid."""
    return take_evenly(choice.kernels(sample), 4)


class CenteredGram(NamedTuple):
    """The centered Gram matrix of a variable with derived quantities.

    No estimator of HSIC changes with k(x, y) + f(x) + f(y), and centering removes large common
    terms.

    Attributes:
        gram: centered Gram matrix, (n, n).
        factor: low-rank factor A with A A' = ``gram``, (n, r).
        diagonal: diagonal, (n,).
        row_sums: sums of the rows without the diagonal, (n,).
    """

    gram: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray
    row_sums: np.ndarray

    @classmethod
    def of(cls, gram: np.ndarray) -> CenteredGram:
        """Center and factorize a Gram matrix (n, n)."""
        gram = center(gram)
        diagonal = np.diagonal(gram).copy()
        return cls(gram, cholesky_factor(gram), diagonal, gram.sum(axis=0) - diagonal)


def cholesky_factor(gram: np.ndarray) -> np.ndarray:
    """Compute A (n, r) with A A' = ``gram`` up to rounding, by pivoted Cholesky."""
    largest = max(float(np.max(np.diagonal(gram))), np.finfo(float).tiny)
    return dense_pivoted_cholesky(gram, 1e-12 * largest)[0]


class Variable(NamedTuple):
    """One of two variables, with the Gram matrices of its kernels.

    Attributes:
        kernels: kernels.
        grams: Gram matrix of each kernel.
        linear: Gram matrix of the linear kernel in a multiscale test, or ``None``.
    """

    kernels: list[Any]
    grams: list[CenteredGram]
    linear: CenteredGram | None

    @classmethod
    def from_sample(cls, sample: np.ndarray, kernels: list[Any], choice: KernelChoice) -> Variable:
        """Compute the Gram matrices of a sample (n, D)."""
        linear = None
        if choice.kernel == "multiscale":
            scaled = (sample - sample.mean(axis=0)) / choice.scales(sample)
            linear = CenteredGram.of(scaled @ scaled.T)
        return cls(kernels, [CenteredGram.of(gram(k, sample)) for k in kernels], linear)


def hsic_statistic(
    first: Variable, second: Variable, indices: np.ndarray, estimator: str, *, progress: bool
) -> tuple[CombinedStatistic, tuple[Any, Any]]:
    """Compute and combine HSIC for all permutations and all pairs of kernels.

    Args:
        first: variable x.
        second: variable y, paired with x row by row.
        indices: permutations, see :func:`permuted_indices`.
        estimator: ``"unbiased"`` or ``"biased"``.
        progress: show a progress bar.

    Returns:
        The combined statistic and the kernels of the most extreme HSIC.
    """
    grams = list(itertools.product(first.grams, second.grams))
    kernels = list(itertools.product(first.kernels, second.kernels))
    labels: list[tuple[str, Any]] = [
        (" and ".join(map(short_name, kernel_pair)), kernel_pair) for kernel_pair in kernels
    ]
    if first.linear is not None and second.linear is not None:
        grams.append((first.linear, second.linear))
        labels.append(("linear", None))  # its kernel refers to standardized columns
    with progress_bar("permutations", len(grams) * len(indices), shown=progress) as advance:
        statistics = np.array(
            [permuted_hsic(x, y, indices, estimator=estimator, advance=advance) for x, y in grams]
        )
    combined = combine(statistics, labels, num_other=len(grams) - len(kernels))
    return combined, kernels[combined.most_extreme]


def permuted_hsic(
    x: CenteredGram,
    y: CenteredGram,
    indices: np.ndarray,
    *,
    estimator: str = "unbiased",
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Compute HSIC for all permutations, by low-rank factors if these are faster.

    Args:
        x: Gram matrix of x.
        y: Gram matrix of y.
        indices: permutations of y, (1 + B, n), see :func:`permuted_indices`.
        estimator: ``"biased"`` (DEP-2) or ``"unbiased"`` (DEP-3).
        advance: progress callback, called with the number of completed permutations.

    Returns:
        HSIC, (1 + B,).
    """
    n = len(x.gram)
    # Indexing an entry of a Gram matrix takes the time of about 64 multiplications.
    use_factors = x.factor.shape[1] * y.factor.shape[1] < 64 * n

    def inner_product(permutation: np.ndarray) -> float:
        """Compute <K, L> with permuted rows and columns of L."""
        if use_factors:
            return float(np.sum((x.factor.T @ y.factor[permutation]) ** 2))
        return float(np.vdot(x.gram, y.gram[np.ix_(permutation, permutation)]))

    def batch(columns: slice) -> np.ndarray:
        values = np.array([inner_product(permutation) for permutation in indices[columns]])
        advance(len(values))
        if estimator == "biased":
            return values / n**2
        values -= y.diagonal[indices[columns]] @ x.diagonal
        across = y.row_sums[indices[columns]] @ x.row_sums
        totals = x.row_sums.sum() * y.row_sums.sum() / ((n - 1) * (n - 2))
        return np.asarray((values + totals - 2.0 / (n - 2) * across) / (n * (n - 3)))

    magnitude = np.sqrt(np.mean(x.gram**2) * np.mean(y.gram**2))
    return without_rounding(in_batches(batch, len(indices), 16 * n), float(magnitude))
