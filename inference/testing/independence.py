"""Independence and conditional independence tests, with kernels learned from each variable."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from bke.models.linalg.pivoted_cholesky import dense_pivoted_cholesky
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_choice
from ..core.machine import computing, side_by_side
from ..core.progress import progress_bar
from ..data.canonical import (
    canonical_order,
    checksum,
    generator,
    pairs_fingerprints,
)
from ..data.checks import (
    as_sample,
    check_common_keys,
    check_count,
    check_memory,
    check_options,
    check_same_rows,
)
from ..permutation.null_distribution import (
    describe_count,
    in_batches,
    in_stages,
    small_sample_note,
    without_rounding,
)
from ..permutation.scheme import PermutationScheme
from . import joint_independence, kernel_conditional_independence
from .kernel_conditional_independence import HYPOTHESES_GIVEN_Z
from .kernels import KernelChoice, center, gram, kernel_combinations
from .nulls import HSIC_ESTIMATORS, NullChoice, hsic_approximation
from .residuals import regress_out
from .result import COMBINED, CombinedComponents, TestResult, combine, kernel_notes
from .variables import (
    kernel_choices,
    paired_samples,
    principal_features,
    variable_kernels,
    variable_notes,
)

TEST = "independence test"
#: Largest number of rows with Gram matrices and permutations of single rows.
MAX_GRAM_ROWS = 1000
#: For more rows: number of blocks whose rows are permuted together, and largest number of
#: features. Not tuned: of 60 data sets of 400 rows in five settings as many were rejected as with
#: Gram matrices, within 0.05.
N_BLOCKS, MAX_FEATURES = 40, 64
HYPOTHESES = ("no evidence that x and y depend on each other", "x and y depend on each other")


def independence_test(
    X: ArrayLike,
    Y: ArrayLike,
    *others: ArrayLike,
    kernel: Any = "multiscale",
    method: str = "permutation",
    estimator: str | None = None,
    n_resamples: int = 999,
    sequential: bool = True,
    dependence_length: float | None = None,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test independence by HSIC, with a kernel selected from each variable separately.

    Permutations of the pairs do not change the selected kernels, so the level is exact.

    Kernels of more than 1000 rows are represented by up to 64 features, and 40 blocks of random
    rows are permuted together. The level remains exact (permutations of blocks are a subgroup), and
    the time is linear in the rows; dependence at scales much finer than those features resolve is
    not detected.

    For three and more variables the null hypothesis is that all are jointly independent, and the
    statistic is dHSIC (Pfister, Bühlmann, Schölkopf and Peters 2018, definition 4), also at an
    exact level. It detects dependence of pairs, and of more variables whose pairs are independent.
    Kernels of more than 500 rows are then represented by few features, 16 of each of three
    variables.

    Args:
        X: first variable, shape (n, D) or (n,).
        Y: second variable, shape (n, E) or (n,), row by row with X.
        *others: more variables, row by row with X, with permutations and the biased estimator only.
        kernel: choice for all variables, or a tuple with one for each. ``"multiscale"`` takes pairs
            of a few lengthscales of each variable, from short to long and at the modes of the
            smoothed marginal likelihood. Their statistics are standardized by permutations and
            combined by log-sum-exp. For two variables the result is combined with the statistic of
            linear kernels by tail probabilities. ``"bkl"``, ``"posterior"``, ``"median"`` or a
            kernel are those of :func:`~bke.inference.two_sample_test`.
        method: method for the null distribution. ``"permutation"`` is exact for independent rows.
            The others are approximations for one kernel of each variable, any but ``"multiscale"``:
            ``"gamma"`` (TST-5) and ``"spectrum"`` (TST-6) for independent rows; for stationary
            series with rows in order of time ``"wild bootstrap"`` (TST-7) and ``"shift"``, circular
            shifts of y.
        estimator: estimator of HSIC. With permutations of two variables ``"unbiased"`` (default,
            for n >= 4) or ``"biased"``; otherwise ``"biased"``.
        n_resamples: number B of permutations, or of draws from the null distribution. The smallest
            p-value is 1 / (1 + B).
        sequential: stop early, as in :func:`~bke.inference.two_sample_test`.
        dependence_length: number of steps beyond which the series are independent, for the wild
            bootstrap and the shifts; at most a fifth of the rows. Default: 20.
        alpha: level of the test.
        standardize: ``"column"``, ``"pooled"`` or ``None``, for each variable.
        seed: random seed of the permutations or draws. Kernel selection does not depend on it. The
            order of rows, columns and variables has no influence.
        progress: show a progress bar.

    Raises:
        InputError: for invalid data or arguments.
    """
    names = ["X", "Y", *(f"variable {index}" for index in range(3, 3 + len(others)))]
    variables = dict(zip(names, (X, Y, *others), strict=True))
    choices = kernel_choices(kernel, len(names), standardize)
    check_count(seed, "seed", 0, 2**63 - 1)
    null = NullChoice.checked(
        method,
        estimator,
        joint_independence.ESTIMATORS if others else HSIC_ESTIMATORS,
        n_resamples,
        alpha,
        dependence_length,
    )
    for choice in choices:
        null.check_kernel(choice.kernel)
    samples = paired_samples(variables)
    n = len(samples[0])
    if null.estimator == "unbiased" and n < 4:
        raise InputError(f"unbiased HSIC needs at least 4 rows, and has {n}")
    null.check_rows(n)
    with computing(), progress_bar("variables", len(names), show=progress) as advance:
        kernels = []
        for choice, sample in zip(choices, samples, strict=True):
            kernels.append(variable_kernels(sample, choice, len(names)))
            advance(1)
    with computing():
        if others:
            result = joint_independence.permutation_test(
                samples, kernels, null, seed, sequential=sequential, progress=progress
            )
        elif null.is_permutation:
            result = _permutation_test(
                samples, choices, kernels, null, seed, sequential=sequential, progress=progress
            )
        else:
            check_memory(n, samples[0].shape[1] + samples[1].shape[1], matrices=16)
            single = tuple(of_variable[0] for of_variable in kernels)
            K, L = (gram(k, sample) for k, sample in zip(single, samples, strict=True))
            result = hsic_approximation(
                null,
                K,
                L,
                generator(seed, *samples),
                test=TEST,
                hypotheses=HYPOTHESES,
                kernel=single,
                alpha=null.alpha,
                statistic_label=f"HSIC ({null.estimator})",
            )
    notes = variable_notes(variables, samples, independent_rows=null.is_permutation)
    return dataclasses.replace(
        result,
        method=f"{result.method}, {' and '.join(dict.fromkeys(map(str, choices)))}",
        notes=(*kernel_notes(list(result.kernel)), *result.notes, *notes),
        fingerprints=() if others else pairs_fingerprints(*samples),
    )


def _permutation_test(
    samples: Sequence[np.ndarray],
    choices: Sequence[KernelChoice],
    kernels: Sequence[list[Any]],
    null: NullChoice,
    seed: int,
    *,
    sequential: bool,
    progress: bool,
) -> TestResult:
    """Compute the exact test of two variables."""
    n = len(samples[0])
    if n <= MAX_GRAM_ROWS:
        check_memory(n, samples[0].shape[1] + samples[1].shape[1], matrices=16)
    # The p-value must not depend on the order of the pairs: they are sorted, or in a random order
    # that depends on their values.
    order = canonical_order(np.concatenate(samples, axis=1))
    if n > MAX_GRAM_ROWS:
        order = generator(seed, *samples, stream=4).permutation(order)
    x, y = (
        Variable.from_sample(sample[order], of_variable, choice)
        for sample, of_variable, choice in zip(samples, kernels, choices, strict=True)
    )
    # With 4 rows, the centered Gram matrix of the unbiased estimator has three different entries.
    num_values = PermutationScheme("pairings", n).n_distinct
    if n == 4 and null.estimator == "unbiased":
        num_values = 6

    def evaluate(count: int) -> TestResult:
        units = n if n <= MAX_GRAM_ROWS else N_BLOCKS
        indices = permuted_indices(units, count, generator(seed, *samples))
        # Nor on the order of the variables: a checksum of the data determines which is permuted.
        if checksum(samples[0]) > checksum(samples[1]):
            indices = np.argsort(indices, axis=1)
        combined, most_extreme = hsic_statistic(x, y, indices, null.estimator, progress=progress)
        label = COMBINED if combined.components else f"HSIC ({null.estimator})"
        if combined.num_other:
            label = "combined statistic, -log of the generalized mean p-value of the HSICs"
        return TestResult.from_permutations(
            combined.values,
            test=TEST,
            hypotheses=HYPOTHESES,
            kernel=most_extreme,
            method=describe_count(count, null.n_resamples),
            exact=True,
            alpha=null.alpha,
            statistic_label=label,
            kernel_label="most extreme HSIC at" if combined.components else "kernel",
            components=combined.components,
            pvalue_error=combined.pvalue_error(),
            notes=small_sample_note(num_values, null.alpha),
        )

    return in_stages(evaluate, null.n_resamples, null.alpha, sequential=sequential)


def conditional_independence_test(
    X: ArrayLike,
    Y: ArrayLike,
    Z: ArrayLike,
    *,
    statistic: str = "residuals",
    seed: int = 0,
    **options: Any,
) -> TestResult:
    """Test that X and Y are independent given Z, by HSIC of residuals or by KCI.

    ``"residuals"`` (default): X and Y are regressed on Z by Gaussian processes, and the residuals
    are tested for independence by HSIC (CI-3), as in BKE section 5. This is an approximation:
    residuals are estimates, so that permutations of them are not exact. For independent X and Y
    with 20 to 200 rows about 0.07 are rejected at level 0.05. A dependence on Z beyond the mean,
    such as a variance that changes with Z, is mistaken for a dependence between X and Y.

    ``"kci"``: functions of (X, Z) and of Y are regressed on Z in place of X and Y themselves, so
    that any dependence on Z is removed as far as the regressions succeed (CI-2; KME section 4.7;
    Zhang, Peters, Janzing and Schölkopf 2011). The statistic is tr(A B) / n for the inner products
    A and B of the residuals of all functions in the spaces of the kernels. Exchanging X and Y
    changes the p-value, because only X is extended by Z.

    ``"normalized"``: the squared norm of the normalized conditional cross-covariance operator of
    (X, Z) and (Y, Z) (CI-1; KME (4.26); Fukumizu, Gretton, Sun and Schölkopf 2008).

    Null distributions (``method``) of the last two:

    - ``"local permutation"`` (default) permutes x within clusters of about five to ten rows with
      similar z, or of any number from five on with equal z. The level is exact if the rows of every
      cluster have equal z (``exact`` of the result). Otherwise it exceeds ``alpha`` at most by the
      total variation distance between the distribution of the x given the z and one that is
      exchangeable within clusters. This vanishes if the distribution of x given z is Lipschitz in z
      in Hellinger distance and the diameter of the clusters is of smaller order than n^(-1/2) (Kim,
      Neykov, Balakrishnan and Wasserman 2022). The clusters attain this for one column of z with a
      density that is bounded away from zero on an interval, and not for two or more columns. The
      regression of functions of y serves for x too, so that no choice depends on the pairs of x.
    - ``"gamma"`` (KCI only) has the first two moments of the limit. It takes less time, and its
      level is approximate: it rejects far too often where the regressions fail, as with several
      columns of z that all have strong effects.

    Args:
        X: first variable, shape (n, D) or (n,).
        Y: second variable, shape (n, E) or (n,).
        Z: conditioning variable, shape (n, F) or (n,).
        statistic: ``"residuals"``, ``"kci"`` or ``"normalized"``.
        seed: random seed of the subsample of the regressions and of the test.
        **options: for ``"residuals"`` those of :func:`~bke.inference.independence_test`. For the
            others ``method``; ``kernel``, ``"median"`` (default), ``"bkl"``, ``"posterior"`` or a
            kernel, for each of X, Y and Z, or a tuple of three; and ``n_resamples``,
            ``sequential``, ``alpha``, ``standardize`` and ``progress`` of
            :func:`~bke.inference.independence_test`.

    Raises:
        InputError: for invalid data or arguments, for ``"residuals"`` without scikit-learn, or if
            Z determines a variable that is regressed on it.
    """
    check_choice(statistic, "statistic", ("residuals", *kernel_conditional_independence.METHODS))
    if statistic != "residuals":
        check_options(options, kernel_conditional_independence.kernel_test)
        return kernel_conditional_independence.kernel_test(
            X, Y, Z, statistic=statistic, seed=seed, **options
        )
    if options.get("method") == "local permutation":
        raise InputError(
            "method='local permutation' requires statistic='kci' or 'normalized', got 'residuals'"
        )
    check_options(options, independence_test)
    check_same_rows(X=X, Y=Y, Z=Z)
    conditioning = as_sample(Z, "Z")
    residuals = []
    for values, name in ((X, "X"), (Y, "Y")):
        sample = as_sample(values, name)
        if len(sample) != len(conditioning):
            raise InputError(f"{name} has {len(sample)} rows but Z has {len(conditioning)}")
        check_common_keys(values, Z, sample, conditioning)
        try:
            residuals.append(regress_out(sample, conditioning, seed=seed))
        except InputError as error:
            raise InputError(f"{name} given Z: {error}") from None
    result = independence_test(residuals[0], residuals[1], seed=seed, **options)
    result = dataclasses.replace(
        result, exact=False, rows="residuals", method=f"{result.method}, of residuals"
    )
    return result.renamed("conditional independence test", HYPOTHESES_GIVEN_Z)


def permuted_indices(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw permutations of row indices, (1 + count, size), the first of which is the identity."""
    pairings = PermutationScheme("pairings", size).draw(count, rng)
    return np.vstack([np.arange(size), pairings.T])


class CenteredGram(NamedTuple):
    """The centered Gram matrix of a variable with derived quantities.

    No estimator of HSIC changes with k(x, y) + f(x) + f(y), and centering removes large common
    terms.

    Attributes:
        gram: centered Gram matrix, (n, n); ``None`` for many rows.
        factor: factor A with A A' equal to the centered Gram matrix, or approximately for many
            rows, (n, r).
        diagonal: diagonal, (n,).
        row_sums: sums of the rows without the diagonal, (n,).
    """

    gram: np.ndarray | None
    factor: np.ndarray
    diagonal: np.ndarray
    row_sums: np.ndarray

    @classmethod
    def of(cls, gram: np.ndarray) -> CenteredGram:
        """Center and factorize a Gram matrix (n, n)."""
        gram = center(gram)
        diagonal = np.diagonal(gram).copy()
        return cls(gram, cholesky_factor(gram), diagonal, gram.sum(axis=0) - diagonal)

    @classmethod
    def of_features(cls, features: np.ndarray) -> CenteredGram:
        """Return the matrix of inner products of features (n, r), after centering."""
        factor = features - features.mean(axis=0)
        diagonal = np.einsum("ij,ij->i", factor, factor)
        return cls(None, factor, diagonal, factor @ factor.sum(axis=0) - diagonal)

    @classmethod
    def of_kernel(cls, kernel: Any, sample: np.ndarray) -> CenteredGram:
        """Compute the Gram matrix of a sample (n, D), for many rows by principal features."""
        if len(sample) <= MAX_GRAM_ROWS:
            return cls.of(gram(kernel, sample))
        return cls.of_features(principal_features(kernel, sample, MAX_FEATURES, center=True))

    @property
    def mean_square(self) -> float:
        """Mean square of the entries of the centered Gram matrix."""
        if self.gram is not None:
            return float(np.mean(self.gram**2))
        return float(np.sum((self.factor.T @ self.factor) ** 2)) / len(self.factor) ** 2


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
            if len(sample) <= MAX_GRAM_ROWS:
                linear = CenteredGram.of(scaled @ scaled.T)
            else:
                linear = CenteredGram.of_features(scaled)
        return cls(kernels, [CenteredGram.of_kernel(k, sample) for k in kernels], linear)


def hsic_statistic(
    first: Variable, second: Variable, indices: np.ndarray, estimator: str, *, progress: bool
) -> tuple[CombinedComponents, tuple[Any, Any]]:
    """Compute and combine HSIC for all permutations and all pairs of kernels.

    Args:
        first: variable x.
        second: variable y, paired with x row by row.
        indices: permutations of y, (1 + B, n), the identity first.
        estimator: ``"unbiased"`` or ``"biased"``.
        progress: show a progress bar.

    Returns:
        The combined statistic and the kernels of the most extreme HSIC.
    """
    grams = list(itertools.product(first.grams, second.grams))
    combinations = kernel_combinations([first.kernels, second.kernels], [0, 1])
    labels: list[tuple[str, Any]] = list(combinations)
    if first.linear is not None and second.linear is not None:
        grams.append((first.linear, second.linear))
        labels.append(("linear", None))  # its kernel refers to standardized columns
    with progress_bar("permutations", len(grams) * len(indices), show=progress) as advance:
        statistics = np.array(
            [permuted_hsic(x, y, indices, estimator=estimator, advance=advance) for x, y in grams]
        )
    combined = combine(statistics, labels, num_other=len(grams) - len(combinations))
    return combined, combinations[combined.most_extreme][1]


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
        indices: permutations of the rows of y, (1 + B, n), or of blocks of rows, (1 + B, M); the
            identity first.
        estimator: ``"biased"`` (DEP-2) or ``"unbiased"`` (DEP-3).
        advance: progress callback, called with the number of completed permutations.

    Returns:
        HSIC, (1 + B,).
    """
    n = len(x.factor)
    if indices.shape[1] < n:
        inner, diagonals, across = _permuted_block_sums(x, y, indices)
        advance(len(indices))
    else:
        inner, diagonals, across = _permuted_sums(x, y, indices, advance)
    if estimator == "biased":
        values = inner / n**2
    else:
        totals = x.row_sums.sum() * y.row_sums.sum() / ((n - 1) * (n - 2))
        values = (inner - diagonals + totals - 2.0 / (n - 2) * across) / (n * (n - 3))
    return without_rounding(values, float(np.sqrt(x.mean_square * y.mean_square)))


def _permuted_sums(
    x: CenteredGram, y: CenteredGram, indices: np.ndarray, advance: Callable[[int], None]
) -> np.ndarray:
    """Compute sums for permutations (1 + B, n) of y.

    Returns:
        <K, L>, the inner product of the diagonals and that of the row sums, (3, 1 + B).
    """
    # Indexing an entry of a Gram matrix takes the time of about 64 multiplications.
    x_gram, y_gram = x.gram, y.gram
    use_factors = x.factor.shape[1] * y.factor.shape[1] < 64 * len(x.factor)

    def inner_product(permutation: np.ndarray) -> float:
        """Compute <K, L> with permuted rows and columns of L."""
        if x_gram is None or y_gram is None or use_factors:
            return float(np.sum((x.factor.T @ y.factor[permutation]) ** 2))
        return float(np.vdot(x_gram, y_gram[np.ix_(permutation, permutation)]))

    def batch(columns: slice) -> np.ndarray:
        batch_indices = indices[columns]
        inner = np.array([inner_product(permutation) for permutation in batch_indices])
        advance(len(batch_indices))
        diagonals = y.diagonal[batch_indices] @ x.diagonal
        return np.stack([inner, diagonals, y.row_sums[batch_indices] @ x.row_sums])

    return in_batches(batch, len(indices), 16 * len(x.factor))


def _permuted_block_sums(x: CenteredGram, y: CenteredGram, indices: np.ndarray) -> np.ndarray:
    """Compute the sums of :func:`_permuted_sums` for permutations (1 + B, M) of blocks of rows.

    Consecutive rows are a block; rows of an incomplete block are not permuted. Products of all
    pairs of blocks serve all permutations.
    """
    n_blocks = indices.shape[1]
    size = len(x.factor) // n_blocks
    columns = np.arange(n_blocks) * n_blocks + indices
    starts = np.arange(0, columns.size + 1, n_blocks)
    shape = (len(indices), n_blocks**2)
    chosen = scipy.sparse.csr_array((np.ones(columns.size), columns.ravel(), starts), shape)

    def sums(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Sum products of features (n, r) and permuted features (n, s), (1 + B, r s)."""
        rest = n_blocks * size
        left = first[:rest].reshape(n_blocks, size, -1)
        right = second[:rest].reshape(n_blocks, size, -1)
        wide = right.transpose(1, 0, 2).reshape(size, -1)

        def products(block: int) -> np.ndarray:
            table = (left[block].T @ wide).reshape(first.shape[1], n_blocks, -1)
            return table.transpose(1, 0, 2).reshape(n_blocks, -1)

        table = np.concatenate(side_by_side(products, n_blocks, Event()))
        return np.asarray(chosen @ table) + (first[rest:].T @ second[rest:]).ravel()

    inner = np.square(sums(x.factor, y.factor)).sum(axis=1)
    pairs = ((x.diagonal, y.diagonal), (x.row_sums, y.row_sums))
    marginal = [sums(first[:, None], second[:, None])[:, 0] for first, second in pairs]
    return np.stack([inner, *marginal])
