"""Joint independence of several variables by dHSIC, and the Lancaster interaction of three.

Both compare an embedding of the joint distribution with products of embeddings of its margins, and
have exact permutation tests: if the null hypothesis is true, permuting the rows of one variable
against the others does not change the joint distribution.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, checksum, generator
from ..data.checks import check_count, check_memory
from ..permutation.null_distribution import (
    check_permutations,
    describe_count,
    in_batches,
    in_stages,
    small_sample_note,
    without_rounding,
)
from ..permutation.scheme import PermutationScheme
from .kernels import center, gram, kernel_combinations
from .nulls import NullChoice
from .result import COMBINED, TestComponent, TestResult, combine, kernel_notes
from .variables import (
    kernel_choices,
    paired_samples,
    principal_features,
    variable_kernels,
    variable_notes,
)

#: Estimators of dHSIC for each method.
ESTIMATORS = {"permutation": ("biased",)}
#: Largest number of rows with Gram matrices, and of products of features of all variables for more
#: rows. Not tuned.
MAX_GRAM_ROWS, MAX_PRODUCTS = 500, 4096


class EmbeddedVariable(NamedTuple):
    """A variable and its q kernels: Gram matrices, or features that approximate the kernels.

    Attributes:
        grams: (q, n, n); ``None`` for many rows.
        features: (q, n, r), whose inner products approximate the kernels; ``None`` for few rows.
    """

    grams: np.ndarray | None
    features: np.ndarray | None

    @classmethod
    def of_kernels(
        cls, kernels: Sequence[Any], sample: np.ndarray, n_variables: int, *, centered: bool
    ) -> EmbeddedVariable:
        """Evaluate kernels at a sample (n, D), centered or not."""
        if len(sample) <= MAX_GRAM_ROWS:
            matrices = [gram(kernel, sample) for kernel in kernels]
            return cls(np.stack([center(K) if centered else K for K in matrices]), None)
        count = math.floor(MAX_PRODUCTS ** (1.0 / n_variables) + 1e-9)
        features = [principal_features(k, sample, count, center=centered) for k in kernels]
        return cls(None, np.stack(features))


def permutation_test(
    samples: Sequence[np.ndarray],
    kernels: Sequence[list[Any]],
    null: NullChoice,
    seed: int,
    *,
    sequential: bool,
    progress: bool,
) -> TestResult:
    """Test the joint independence of three or more variables at an exact level.

    Args:
        samples: values of each variable, (n, D).
        kernels: kernels of each variable.
        null: options of the null distribution.
        seed: random seed of the permutations.
        sequential: stop early.
        progress: show a progress bar.
    """
    n, d = samples[0].shape[0], len(samples)
    if n <= MAX_GRAM_ROWS:
        check_memory(n, sum(sample.shape[1] for sample in samples), matrices=8 * d)
    # The p-value must depend neither on the order of the rows nor on that of the variables.
    rows = canonical_order(np.concatenate(samples, axis=1))
    of_variable = sorted(range(d), key=lambda index: checksum(samples[index]))
    ordered = [samples[index][rows] for index in of_variable]
    embedded = [
        EmbeddedVariable.of_kernels(kernels[index], sample, d, centered=False)
        for index, sample in zip(of_variable, ordered, strict=True)
    ]
    combinations = kernel_combinations(kernels, of_variable)
    scheme = PermutationScheme("pairings", n)

    def evaluate(count: int) -> TestResult:
        rng = generator(seed, *samples)
        others = [np.vstack([np.arange(n), scheme.draw(count, rng).T]) for _ in range(d - 1)]
        with progress_bar("permutations", 1 + count, show=progress) as advance:
            values = permuted_dhsic(embedded, others, advance=advance)
        combined = combine(values, combinations)
        return TestResult.from_permutations(
            combined.values,
            test="test of joint independence",
            hypotheses=(
                f"no evidence that the {d} variables depend on each other",
                f"the {d} variables are not jointly independent",
            ),
            kernel=combinations[combined.most_extreme][1],
            method=describe_count(count, null.n_resamples),
            exact=True,
            alpha=null.alpha,
            statistic_label=COMBINED if combined.components else "dHSIC",
            kernel_label="most extreme dHSIC at" if combined.components else "kernel",
            components=combined.components,
            pvalue_error=combined.pvalue_error(),
            notes=small_sample_note(scheme.n_distinct ** (d - 1), null.alpha),
        )

    return in_stages(evaluate, null.n_resamples, null.alpha, sequential=sequential)


def permuted_dhsic(
    variables: Sequence[EmbeddedVariable],
    permutations: Sequence[np.ndarray],
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Compute dHSIC for permutations of all variables but the first.

    dHSIC is the squared distance of the embedding of the joint distribution from the product of
    the embeddings of the variables, a V-statistic (Pfister et al. 2018, definition 4).

    Args:
        variables: the variables.
        permutations: of the rows of each variable but the first, (1 + B, n).
        advance: progress callback, called with the number of completed permutations.

    Returns:
        dHSIC, (k, 1 + B), for all combinations of the kernels in the order of
        :func:`itertools.product`.
    """
    by_features = variables[0].grams is None
    value, magnitudes = (_dhsic_of_features if by_features else _dhsic_of_grams)(variables)

    def batch(columns: slice) -> np.ndarray:
        some = zip(*(orders[columns] for orders in permutations), strict=True)
        values = np.stack([value(orders) for orders in some], axis=-1)
        advance(values.shape[-1])
        return values

    n = permutations[0].shape[1]
    values = in_batches(batch, len(permutations[0]), 16 * n)
    return np.stack([without_rounding(*pair) for pair in zip(values, magnitudes, strict=True)])


#: Computes dHSIC (k,) for permutations (n,) of all variables but the first.
PermutedValues: TypeAlias = Callable[[Sequence[np.ndarray]], np.ndarray]


def _dhsic_of_grams(variables: Sequence[EmbeddedVariable]) -> tuple[PermutedValues, np.ndarray]:
    """Return the function that computes dHSIC, and the sizes (k,) of the terms that it adds."""
    grams = [variable.grams for variable in variables if variable.grams is not None]
    n = grams[0].shape[1]
    means = [matrices.mean(axis=2) for matrices in grams]
    margins = _products([mean.mean(axis=1, keepdims=True) for mean in means])[:, 0]

    def value(permutations: Sequence[np.ndarray]) -> np.ndarray:
        permuted = [
            matrices[:, order[:, None], order].reshape(-1, n * n)
            for matrices, order in zip(grams[1:], permutations, strict=True)
        ]
        joint = _products([grams[0].reshape(-1, n * n), *permuted[:-1]]) @ permuted[-1].T
        across = [mean[:, order] for mean, order in zip(means[1:], permutations, strict=True)]
        return joint.ravel() / n**2 - 2.0 * _products([means[0], *across]).mean(axis=1) + margins

    largest = [np.abs(matrices).max(axis=(1, 2))[:, None] for matrices in grams]
    return value, np.abs(margins) + _products(largest)[:, 0]


def _dhsic_of_features(variables: Sequence[EmbeddedVariable]) -> tuple[PermutedValues, np.ndarray]:
    """Return the function that computes dHSIC, and the sizes (k,) of the terms that it adds."""
    features = [variable.features for variable in variables if variable.features is not None]
    n = features[0].shape[1]
    margins = [
        _products([mean[:, None] for mean in means])[:, 0]
        for means in itertools.product(*(values.mean(axis=1) for values in features))
    ]

    def value(permutations: Sequence[np.ndarray]) -> np.ndarray:
        permuted = [
            values[:, order] for values, order in zip(features[1:], permutations, strict=True)
        ]
        others = [_products([part.T for part in parts]) for parts in itertools.product(*permuted)]
        joints = [(other @ first).T.ravel() for first in features[0] for other in others]
        pairs = zip(joints, margins, strict=True)
        return np.array([np.sum((joint / n - margin) ** 2) for joint, margin in pairs])

    return value, np.array([margin @ margin for margin in margins])


def _products(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Compute all products of one row of each factor, (q_1 q_2 ..., n) of factors (q_j, n)."""
    products = factors[0]
    for values in factors[1:]:
        products = (products[:, None] * values).reshape(-1, values.shape[1])
    return products


def lancaster_test(
    X: ArrayLike,
    Y: ArrayLike,
    Z: ArrayLike,
    *,
    kernel: Any = "multiscale",
    n_resamples: int = 999,
    sequential: bool = True,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test whether three variables interact, so that none is independent of the other two.

    The null hypothesis is that the joint distribution factorizes: X is independent of (Y, Z), or Y
    of (X, Z), or Z of (X, Y). The statistic is the squared norm of the embedding of the Lancaster
    interaction (DEP-10; Sejdinovic, Gretton and Bergsma 2013), which is zero for each of these. For
    each of the three hypotheses one variable is permuted, at an exact level. The p-value is the
    largest of the three, so that the level is at most ``alpha``, and less where more than one of
    them is true.

    An interaction can be present where all pairs are independent, such as in Z = sign(X Y) of
    symmetric X and Y. If only two variables depend on each other, use
    :func:`~bke.inference.independence_test`.

    Args:
        X: first variable, shape (n, D) or (n,).
        Y: second variable, row by row with X.
        Z: third variable, row by row with X.
        kernel: choice for all variables, or a tuple of three, as in
            :func:`~bke.inference.independence_test`. Statistics of several kernels are standardized
            by permutations and combined by log-sum-exp.
        n_resamples: number B of permutations for each hypothesis.
        sequential: stop early, as in :func:`~bke.inference.two_sample_test`.
        alpha: level of the test.
        standardize: ``"column"``, ``"pooled"`` or ``None``, for each variable.
        seed: random seed of the permutations. The order of rows and of variables has no influence.
        progress: show a progress bar.

    Returns:
        The result. Its ``components`` have the p-values of the three hypotheses, for which X, Y or
        Z is permuted. A large one means that no interaction of all three was found, and not that
        the permuted variable is independent of the others: Y may depend on X only.
        ``null_distribution`` is that of the hypothesis with the largest p-value.

    Raises:
        InputError: for invalid data or arguments.
    """
    variables = {"X": X, "Y": Y, "Z": Z}
    choices = kernel_choices(kernel, 3, standardize)
    check_count(seed, "seed", 0, 2**63 - 1)
    alpha = check_permutations(n_resamples, alpha)
    samples = paired_samples(variables)
    n = len(samples[0])
    if n <= MAX_GRAM_ROWS:
        check_memory(n, sum(sample.shape[1] for sample in samples), matrices=24)
    rows = canonical_order(np.concatenate(samples, axis=1))
    with computing(), progress_bar("hypotheses", 3, show=progress) as advance:
        kernels = [
            variable_kernels(sample, choice, 3)
            for sample, choice in zip(samples, choices, strict=True)
        ]
        embedded = [
            EmbeddedVariable.of_kernels(of_variable, sample[rows], 3, centered=True)
            for sample, of_variable in zip(samples, kernels, strict=True)
        ]

        def draw(count: int) -> np.ndarray:
            drawn = PermutationScheme("pairings", n).draw(count, generator(seed, *samples))
            return np.vstack([np.arange(n), drawn.T])

        results = []
        for permuted in range(3):
            test = _factorization_test(
                embedded, kernels, permuted, n_resamples, alpha, draw, sequential=sequential
            )
            results.append(test)
            advance(1)
    largest = max(results, key=lambda result: result.pvalue)
    notes = variable_notes(variables, samples, independent_rows=True)
    return dataclasses.replace(
        largest,
        components=tuple(
            TestComponent(result.test, result.statistic, result.pvalue, result.kernel)
            for result in results
        ),
        test="Lancaster test",
        statistic_label=f"{largest.statistic_label} of the hypothesis with the largest p-value",
        method=f"{largest.method}, {' and '.join(dict.fromkeys(map(str, choices)))}",
        notes=(*kernel_notes(list(largest.kernel)), *largest.notes, *notes),
    )


def _factorization_test(
    embedded: Sequence[EmbeddedVariable],
    kernels: Sequence[list[Any]],
    permuted: int,
    n_resamples: int,
    alpha: float,
    draw: Callable[[int], np.ndarray],
    *,
    sequential: bool,
) -> TestResult:
    """Test by the Lancaster interaction that one variable is independent of the other two.

    Args:
        embedded: centered kernels of the three variables.
        kernels: the kernels themselves.
        permuted: index of the variable.
        n_resamples: largest number of permutations.
        alpha: level.
        draw: draws permutations of the rows, (1 + B, n), the identity first.
        sequential: stop early.
    """
    first, second = (index for index in range(3) if index != permuted)
    combinations = kernel_combinations(kernels, [first, second, permuted])

    def evaluate(count: int) -> TestResult:
        permutations = draw(count)
        values = permuted_interaction(
            embedded[first], embedded[second], embedded[permuted], permutations
        )
        combined = combine(values, combinations)
        return TestResult.from_permutations(
            combined.values,
            test=(
                f"interaction of all three, {'XYZ'[permuted]} permuted against "
                f"({'XYZ'[first]}, {'XYZ'[second]})"
            ),
            hypotheses=(
                "no evidence of an interaction of all three variables",
                "the three variables interact",
            ),
            kernel=combinations[combined.most_extreme][1],
            method=describe_count(count, n_resamples),
            exact=True,
            alpha=alpha,
            statistic_label=COMBINED if combined.components else "squared norm of the interaction",
            kernel_label="most extreme interaction at" if combined.components else "kernel",
            pvalue_error=combined.pvalue_error(),
            notes=small_sample_note(
                PermutationScheme("pairings", permutations.shape[1]).n_distinct, alpha
            ),
        )

    return in_stages(evaluate, n_resamples, alpha, sequential=sequential)


def permuted_interaction(
    first: EmbeddedVariable,
    second: EmbeddedVariable,
    third: EmbeddedVariable,
    permutations: np.ndarray,
) -> np.ndarray:
    """Compute the squared norm of the Lancaster interaction (DEP-10) for permutations of the third.

    Args:
        first: centered kernels of the first variable.
        second: those of the second.
        third: those of the third, which is permuted.
        permutations: of the rows, (1 + B, n).

    Returns:
        Squared norms, (k, 1 + B), for all combinations of the kernels in the order of
        :func:`itertools.product`.
    """
    n = permutations.shape[1]
    if first.grams is not None and second.grams is not None and third.grams is not None:
        grams = third.grams
        pairs = _products([first.grams.reshape(-1, n * n), second.grams.reshape(-1, n * n)])
        sizes = np.outer(np.abs(pairs).max(axis=1), np.abs(grams).max(axis=(1, 2))).ravel()

        def value(order: np.ndarray) -> np.ndarray:
            permuted = grams[:, order[:, None], order].reshape(-1, n * n)
            return (pairs @ permuted.T).ravel() / n**2
    else:
        parts = [np.asarray(variable.features) for variable in (first, second, third)]
        products = [_products([one.T, other.T]) for one, other in itertools.product(*parts[:2])]
        squares = [float(np.square(values).sum()) for values in products]
        sizes = np.outer(squares, np.square(parts[2]).sum(axis=(1, 2))).ravel() / n**2

        def value(order: np.ndarray) -> np.ndarray:
            permuted = parts[2][:, order]
            norms = [np.sum((pair @ last) ** 2) for pair in products for last in permuted]
            return np.array(norms) / n**2

    values = in_batches(
        lambda columns: np.stack([value(order) for order in permutations[columns]], axis=-1),
        len(permutations),
        16 * n,
    )
    return np.stack([without_rounding(*pair) for pair in zip(values, sizes, strict=True)])
