"""Tests of models that can be sampled: goodness of fit, and which of two models is closer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

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
from .gram import TELLS_NOTHING, biased_mmd, check_tells_apart, gram
from .kernel_choice import SINGLE, KernelChoice
from .notes import kernel_notes
from .nulls import mmd_gamma
from .result import TestResult
from .two_sample import two_sample_test

SAMPLER = (
    "sampler must be a function of a NumPy generator and a number of rows, such as "
    "lambda rng, n: rng.normal(size=n)"
)
SAME = (
    "X can be told from neither sample: then the normal approximation does not hold, and a small "
    "p-value means little where the sizes are unequal"
)


class Alternative(NamedTuple):
    """What a test of relative similarity may find."""

    which: str  # of the two samples may be closer
    tail: str  # of the null that rejects
    pvalue: Callable[[float], float]  # of a statistic that is standard normal under the null


ALTERNATIVES = {
    "two-sided": Alternative("one", "both", lambda z: 2.0 * norm.sf(abs(z))),
    "first closer": Alternative("the first", "lower", norm.cdf),
    "second closer": Alternative("the second", "upper", norm.sf),
}


def goodness_of_fit_test(
    X: ArrayLike,
    sampler: Callable[[np.random.Generator, int], ArrayLike],
    *,
    draws: int | None = None,
    seed: int = 0,
    **options: Any,
) -> TestResult:
    """Test that X comes from the distribution that ``sampler`` draws from (MMD-24).

    A two-sample test of X and of draws made for it; exact, whatever the distribution.

    Args:
        X: data, shape (n, D) or (n,).
        sampler: of a NumPy generator and a number of rows; returns (draws, D) or (draws,).
        draws: how many; by default as many as X has rows. More give more power.
        seed: of the draws and of the test.
        **options: to :func:`~bke.inference.two_sample_test`.

    Raises:
        InputError: for data, draws or arguments that make no sense.
    """
    check_options(options, two_sample_test)
    check_count(seed, "seed", 0, 2**63 - 1)
    data = as_sample(X, may_be_constant=True)
    count = len(data) if draws is None else check_count(draws, "draws", 2)
    if not callable(sampler):
        raise InputError(f"{SAMPLER}, got {type(sampler).__name__}")
    try:
        # By the data too: the same draws for all data would have a level of their own.
        drawn = sampler(generator(seed, data, stream=2), count)
    except TypeError as error:
        raise InputError(f"{SAMPLER}; the one given failed: {error}") from error
    names = column_names(X) if data.shape[1] > 1 else None
    made = ordered_rows(drawn, names, "the sampler")
    made = made[:, None] if made.ndim == 1 else made
    if made.shape != (count, data.shape[1]):
        raise InputError(
            f"the sampler was asked for {count} rows of {data.shape[1]} columns and gave an array "
            f"of shape {made.shape}"
        )
    made = as_sample(made, "the sampler", may_be_constant=True)
    data, made = equalize([data, made], [stored_sizes(X, data.shape[1])] * 2)
    result = two_sample_test(data, made, seed=seed, **options)
    said = ("no evidence against the distribution", "the data do not come from the distribution")
    return result.renamed(f"goodness-of-fit test with {count} draws", said)


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

    The difference of the unbiased squared MMDs, MMD^2(X, first) - MMD^2(X, second), over its
    standard error, is normal in the limit where X differs from both; an approximation. Where X
    differs from neither there is no such limit: with samples of one size the test then hardly ever
    rejects, with one much smaller than the others too often. A note says when neither difference
    can be told from zero. The three samples are taken as independent.

    Args:
        X: the data, shape (n, D) or (n,).
        first: draws from the one model, shape (k, D) or (k,).
        second: draws from the other model.
        kernel: ``"bkl"``, ``"posterior"``, ``"median"``, of all three together, or a kernel.
        alternative: ``"two-sided"``, ``"first closer"`` or ``"second closer"``.
        alpha: level of the verdict.
        standardize: as for :func:`~bke.inference.two_sample_test`.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    choice = KernelChoice.checked(kernel, SINGLE, standardize)
    check_choice(alternative, "alternative", tuple(ALTERNATIVES))
    check_alpha(alpha)
    samples = _checked_three(X, first, second)
    pooled = as_sample(np.concatenate(samples), "the union of the three")
    check_memory(len(pooled), pooled.shape[1], matrices=3)
    with computing():
        (chosen,) = choice.kernels(pooled)
        matrix = gram(chosen, pooled)
    sizes = [len(sample) for sample in samples]
    difference, deviation = similarity_difference(matrix, sizes)
    if deviation == 0.0:
        raise InputError(TELLS_NOTHING)
    z = difference / deviation
    way = ALTERNATIVES[alternative]
    reach = float(norm.isf(0.5 * alpha)) * deviation
    differs = any(_differ(matrix, sizes, other, alpha) for other in (1, 2))
    return TestResult(
        test="relative similarity test",
        hypotheses=(
            f"no evidence that {way.which} is closer",
            f"the {'first' if z < 0 else 'second'} is closer",
        ),
        statistic=float(z),
        pvalue=float(way.pvalue(z)),
        null=np.empty(0),
        kernel=chosen,
        how=f"normal approximation, {choice}, {alternative}",
        exact=False,
        alpha=alpha,
        interval=(difference - reach, difference + reach),
        interval_of="squared MMD to the first less that to the second",
        estimate=difference,
        statistic_of="z",
        limit=norm(),
        tail=way.tail,
        notes=(*kernel_notes([chosen]), *([] if differs else [SAME])),
    )


def _checked_three(*samples: ArrayLike) -> list[np.ndarray]:
    """The data and two other samples of the same columns, each of at least three rows."""
    named = zip(samples, ("X", "first", "second"), strict=True)
    checked = [as_sample(values, name, may_be_constant=True) for values, name in named]
    if len({sample.shape[1] for sample in checked}) > 1:
        raise InputError("X, first and second must have the same number of columns")
    if min(map(len, checked)) < 3:
        raise InputError("X, first and second must have at least 3 rows each")
    names = [column_names(values) for values in samples]
    if checked[0].shape[1] > 1:
        check_same_columns(*names)
    wanted = next((one for one in names if one is not None), None)
    stored = [stored_sizes(values, checked[0].shape[1])[None] for values in samples]
    checked, sizes = (
        [reorder_columns(wanted, one, rows) for one, rows in zip(names, each, strict=True)]
        for each in (checked, stored)
    )
    return equalize(checked, [one[0] for one in sizes])


def _differ(matrix: np.ndarray, sizes: list[int], other: int, alpha: float) -> bool:
    """Whether the first sample differs from another by the gamma approximation."""
    edges = np.cumsum([0, *sizes])
    rows = np.r_[: edges[1], edges[other] : edges[other + 1]]
    pair = matrix[np.ix_(rows, rows)]
    check_tells_apart(pair)
    null = mmd_gamma(pair, (sizes[0], sizes[other]))
    return bool(null.sf(biased_mmd(pair, sizes[0])) <= alpha)


def similarity_difference(matrix: np.ndarray, sizes: list[int]) -> tuple[float, float]:
    """Estimate MMD^2(X, Y) - MMD^2(X, Z) without bias, and its standard error.

    The difference is a sum of means over the three samples, up to terms of second order:
    2 [k(x, Z) - k(x, Y)], 2 [k(y, Y') - k(y, X)] and -2 [k(z, Z') - k(z, X)], averaged over the
    capitals.

    Args:
        matrix: Gram matrix of X, Y and Z, one below the other.
        sizes: of the three.
    """
    edges = np.cumsum([0, *sizes])
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    x, y, z = parts

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
    variance = sum(4.0 * one.var(ddof=1) / len(one) for one in projections)
    return float(difference), float(np.sqrt(variance))
