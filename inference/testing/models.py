"""Tests of models that can be sampled: goodness of fit, and which of two is closer to the data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.canonical import generator
from ..data.checks import (
    as_sample,
    check_alpha,
    check_count,
    check_memory,
    check_options,
    check_same_columns,
    column_names,
    reorder_columns,
)
from ..data.equality import equalize, stored_sizes
from ..data.new_rows import ordered_rows
from .kernels import (
    DEGENERATE_KERNEL,
    SINGLE_KERNELS,
    KernelChoice,
    biased_mmd,
    gram,
)
from .nulls import mmd_gamma
from .result import TestResult, kernel_notes
from .two_sample import two_sample_test

SAMPLER_MESSAGE = (
    "sampler must be a function of a NumPy generator and a number of rows, such as "
    "lambda rng, n: rng.normal(size=n)"
)
INDISTINGUISHABLE_NOTE = (
    "X is not significantly different from either sample: the normal approximation does not hold "
    "then, and a small p-value is not reliable if the sizes are unequal"
)


def goodness_of_fit_test(
    X: ArrayLike,
    sampler: Callable[[np.random.Generator, int], ArrayLike],
    *,
    draws: int | None = None,
    seed: int = 0,
    **options: Any,
) -> TestResult:
    """Test that X comes from the distribution that ``sampler`` draws from (MMD-24).

    This is a two-sample test of X against new draws, and exact for every distribution.

    Args:
        X: data, shape (n, D) or (n,).
        sampler: function of a NumPy generator and a number of rows that returns (draws, D) or
            (draws,).
        draws: number of draws. Default: the number of rows of X. More draws have more power.
        seed: random seed of the draws and of the test.
        **options: options of :func:`~bke.inference.two_sample_test`.

    Raises:
        InputError: for invalid data, draws or arguments.
    """
    check_options(options, two_sample_test)
    check_count(seed, "seed", 0, 2**63 - 1)
    data = as_sample(X, may_be_constant=True)
    count = len(data) if draws is None else check_count(draws, "draws", 2)
    if not callable(sampler):
        raise InputError(f"{SAMPLER_MESSAGE}, got {type(sampler).__name__}")
    try:
        # The generator depends on the data: with the same draws for all data, the level would
        # be conditional on these draws.
        drawn = sampler(generator(seed, data, stream=2), count)
    except TypeError as error:
        raise InputError(f"{SAMPLER_MESSAGE}; this one raised a TypeError: {error}") from error
    names = column_names(X) if data.shape[1] > 1 else None
    sample = ordered_rows(drawn, names, "the sampler")
    sample = sample[:, None] if sample.ndim == 1 else sample
    if sample.shape != (count, data.shape[1]):
        raise InputError(
            f"the sampler was called for {count} rows of {data.shape[1]} columns and returned an "
            f"array of shape {sample.shape}"
        )
    sample = as_sample(sample, "the sampler", may_be_constant=True)
    drawn_sizes = stored_sizes(drawn, data.shape[1])[None]
    (drawn_sizes,) = reorder_columns(column_names(X), column_names(drawn), drawn_sizes)
    data, sample = equalize([data, sample], [stored_sizes(X, data.shape[1]), drawn_sizes])
    result = two_sample_test(data, sample, seed=seed, **options)
    return result.renamed(
        f"goodness-of-fit test with {count} draws",
        ("no evidence against the distribution", "the data do not come from the distribution"),
    )


def relative_similarity_test(
    X: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    kernel: Any = "bkl",
    alternative: str = "two-sided",
    alpha: float = 0.05,
    standardize: str | None = "column",
) -> TestResult:
    """Test which of two samples is closer in distribution to X (MMD-32, Bounliphone et al., 2016).

    The statistic is the difference of the unbiased squared MMDs, MMD^2(X, first) - MMD^2(X,
    second), over its standard error. It is approximately normal if X differs from both samples. If
    X differs from neither, this limit does not exist: the test then rejects too rarely for samples
    of equal size, and too often if one is much smaller. A note reports that neither difference is
    significant. The three samples are assumed to be independent.

    Args:
        X: data, shape (n, D) or (n,).
        first: draws from the first model, shape (k, D) or (k,).
        second: draws from the second model.
        kernel: ``"bkl"``, ``"posterior"``, ``"median"``, selected from all three samples, or a
            kernel.
        alternative: ``"two-sided"``, ``"first closer"`` or ``"second closer"``.
        alpha: level of the test.
        standardize: as for :func:`~bke.inference.two_sample_test`.

    Raises:
        InputError: for invalid data or arguments.
    """
    choice = KernelChoice.checked(kernel, SINGLE_KERNELS, standardize)
    check_choice(alternative, "alternative", ("two-sided", "first closer", "second closer"))
    check_alpha(alpha)
    samples = _check_samples(X, first, second)
    pooled = as_sample(np.concatenate(samples), "the union of the three")
    check_memory(len(pooled), pooled.shape[1], matrices=3)
    with computing():
        (selected,) = choice.kernels(pooled)
        matrix = gram(selected, pooled)
    sizes = [len(sample) for sample in samples]
    difference, standard_error = similarity_difference(matrix, sizes)
    if standard_error == 0.0:
        raise InputError(DEGENERATE_KERNEL)
    z = difference / standard_error
    closer, tail, pvalue = {
        "two-sided": ("one", "both", 2.0 * norm.sf(abs(z))),
        "first closer": ("the first", "lower", norm.cdf(z)),
        "second closer": ("the second", "upper", norm.sf(z)),
    }[alternative]
    margin = float(norm.isf(0.5 * alpha)) * standard_error
    distinguishable = any(_differs(matrix, sizes, index, alpha) for index in (1, 2))
    return TestResult(
        test="relative similarity test",
        hypotheses=(
            f"no evidence that {closer} is closer",
            f"the {'first' if z < 0 else 'second'} is closer",
        ),
        statistic=float(z),
        pvalue=float(pvalue),
        null_distribution=np.empty(0),
        kernel=selected,
        method=f"normal approximation, {choice}, {alternative}",
        exact=False,
        alpha=alpha,
        interval=(difference - margin, difference + margin),
        interval_label="squared MMD to the first less that to the second",
        estimate=difference,
        statistic_label="z",
        limit=norm(),
        tail=tail,
        notes=(*kernel_notes([selected]), *([] if distinguishable else [INDISTINGUISHABLE_NOTE])),
    )


def _check_samples(*arrays: ArrayLike) -> list[np.ndarray]:
    """Check X and two samples: the same columns, and at least three rows each."""
    labeled = zip(arrays, ("X", "first", "second"), strict=True)
    samples = [as_sample(values, name, may_be_constant=True) for values, name in labeled]
    if len({sample.shape[1] for sample in samples}) > 1:
        raise InputError("X, first and second must have the same number of columns")
    if min(map(len, samples)) < 3:
        raise InputError("X, first and second must have at least 3 rows each")
    dimension = samples[0].shape[1]
    names = [column_names(values) for values in arrays]
    if dimension > 1:
        check_same_columns(*names)
    columns = next((known for known in names if known is not None), None)
    sizes = [stored_sizes(values, dimension)[None] for values in arrays]
    samples, sizes = (
        [reorder_columns(columns, known, rows) for known, rows in zip(names, tables, strict=True)]
        for tables in (samples, sizes)
    )
    return equalize(samples, [size[0] for size in sizes])


def _differs(matrix: np.ndarray, sizes: list[int], index: int, alpha: float) -> bool:
    """Test whether X differs from sample ``index`` by the gamma approximation."""
    edges = np.cumsum([0, *sizes])
    rows = np.r_[: edges[1], edges[index] : edges[index + 1]]
    pair = matrix[np.ix_(rows, rows)]
    if np.ptp(pair) == 0.0:  # all rows of both are equal
        return False
    null = mmd_gamma(pair, (sizes[0], sizes[index]))
    return bool(null.sf(biased_mmd(pair, sizes[0])) <= alpha)


def similarity_difference(matrix: np.ndarray, sizes: list[int]) -> tuple[float, float]:
    """Estimate MMD^2(X, Y) - MMD^2(X, Z) without bias, and its standard error.

    Up to second-order terms the difference is a sum of means over the three samples, of
    2 [k(x, Z) - k(x, Y)], 2 [k(y, Y') - k(y, X)] and -2 [k(z, Z') - k(z, X)], where capital letters
    denote averages over a sample.

    Args:
        matrix: Gram matrix of X, Y and Z, one below the other.
        sizes: sizes of the three samples.

    Returns:
        Difference and standard error.
    """
    edges = np.cumsum([0, *sizes])
    x, y, z = (slice(a, b) for a, b in itertools.pairwise(edges))

    def across(rows: slice, columns: slice) -> np.ndarray:
        return np.asarray(matrix[rows, columns].mean(axis=1))

    def within(rows: slice) -> np.ndarray:
        block = matrix[rows, rows]
        return np.asarray((block.sum(axis=1) - np.diagonal(block)) / (len(block) - 1))

    projections = [
        across(x, z) - across(x, y),
        within(y) - across(y, x),
        -(within(z) - across(z, x)),
    ]
    difference = within(y).mean() - within(z).mean() + 2.0 * projections[0].mean()
    variance = sum(4.0 * terms.var(ddof=1) / len(terms) for terms in projections)
    return float(difference), float(np.sqrt(variance))
