"""Levels of the tests whose null is an approximation: how often a true null is rejected at 0.05.

Standard normal rows, or for the bootstrap and the shift stationary autoregressions of order one
with a coefficient that is given, independent of each other; kernels by the median heuristic. For
conditional independence x = sin(2 s) + e / 2 and y = s^2 + e' / 2 with s the sum of the columns of
z over the root of their number. The permutation test of the same data is beside them: on dependent
rows it is not valid.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import (
    conditional_independence_test,
    independence_test,
    mean_embedding_test,
    relative_similarity_test,
    two_sample_test,
)
from scipy.signal import lfilter
from scipy.stats import binom

ALPHA = 0.05
#: Rows over the memory of series.
MEMORIES = 25


def autoregression(n: int, columns: int, coefficient: float, rng: np.random.Generator) -> Any:
    """Stationary, of unit variance."""
    noise = rng.normal(size=(n + 200, columns)) * (1.0 - coefficient**2) ** 0.5
    return lfilter([1.0], [1.0, -coefficient], noise, axis=0)[200:]


def data(n: int, columns: int, coefficient: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two independent samples of one distribution."""
    rng = np.random.default_rng([seed, n, columns])
    if coefficient:
        return autoregression(n, columns, coefficient, rng), autoregression(
            n, columns, coefficient, rng
        )
    first, second = rng.normal(size=(2, n, columns))
    return first, second


def memory(null: str, n: int) -> float | None:
    """Of the nulls that have one."""
    return n / MEMORIES if null in ("wild bootstrap", "shift") else None


def two_samples(null: str, n: int, columns: int, coefficient: float, **options: Any) -> Any:
    """P = Q."""
    first, second = data(n, columns, coefficient, options["seed"])
    if null in ("linear", "block"):
        return two_sample_test(first, second, null="normal", estimator=null, **options)
    return two_sample_test(first, second, null=null, memory=memory(null, n), **options)


def independence(null: str, n: int, columns: int, coefficient: float, **options: Any) -> Any:
    """x and y independent."""
    first, second = data(n, columns, coefficient, options["seed"])
    return independence_test(first, second, null=null, memory=memory(null, n), **options)


def conditional(null: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """x and y independent given z."""
    rng = np.random.default_rng([options["seed"], n, columns, 1])
    z, (e, f) = rng.normal(size=(n, columns)), rng.normal(size=(2, n))
    s = z.sum(axis=1) / columns**0.5
    x, y = np.sin(2.0 * s) + 0.5 * e, s**2 + 0.5 * f
    return conditional_independence_test(x, y, z, null=null, **options)


def mean_embedding(null: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """P = Q."""
    options.pop("progress")
    return mean_embedding_test(*data(n, columns, 0.0, options["seed"]), null=null, **options)


def relative_similarity(null: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """The data lie between two models that are equally far away; ``null`` is normal."""
    seed = options["seed"]
    first, second = data(n, columns, 0.0, seed)
    between = np.random.default_rng([seed, n, columns, 2]).normal(size=(n, columns))
    return relative_similarity_test(between, first + 0.5, second - 0.5, kernel="median")


TESTS: dict[str, Callable[..., Any]] = {
    "two samples": two_samples,
    "independence": independence,
    "mean embedding": mean_embedding,
    "relative similarity": relative_similarity,
    "conditional": conditional,
}


def pvalues(
    test: str, null: str, n: int, columns: int, coefficient: float, permutations: int, seeds: range
) -> list[float]:
    """Of one test under its null hypothesis, one for each seed."""
    options: dict[str, Any] = {"kernel": "median", "permutations": permutations, "progress": False}
    return [
        TESTS[test](null, n, columns, coefficient, seed=seed, **options).pvalue for seed in seeds
    ]


def cells(sizes: list[int], dimensions: list[int]) -> list[repeats.Row]:
    """What tells the rows of the table apart."""
    wanted = {
        "two samples": ("gamma", "spectrum", "linear", "block"),
        "independence": ("gamma", "spectrum"),
        "mean embedding": ("f",),
        "relative similarity": ("normal",),
        "conditional": ("permutation",),
    }
    found = [
        (test, null, n, columns, 0.0)
        for test, nulls in wanted.items()
        for null in nulls
        for n in sizes
        for columns in dimensions
    ]
    series = {
        "two samples": ("permutation", "wild bootstrap"),
        "independence": ("permutation", "wild bootstrap", "shift"),
    }
    found += [
        (test, null, n, 1, coefficient)
        for test, nulls in series.items()
        for null in nulls
        for n in sizes
        for coefficient in (0.0, 0.5, 0.8)
        if n >= 50 and (coefficient or null != "permutation")
    ]
    names = ("test", "null", "n", "D", "coefficient")
    return [dict(zip(names, cell, strict=True)) for cell in found]


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 200, 500])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 5])
    repeats.add_options(parser, repeats=400, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 3, [50], [1]
    low, high = (edge / options.repeats for edge in binom.interval(0.99, options.repeats, ALPHA))

    def summary(values: np.ndarray) -> repeats.Row:
        level = float(np.mean(values <= ALPHA + 1e-9))
        verdict = "low" if level < low else "HIGH" if level > high else "yes"
        return {"level": level, "as stated": verdict}

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"{options.repeats} data sets each, {options.permutations} permutations or draws. A "
            f"test of level 0.05 has a rate from {low:.4f} to {high:.4f} with probability 0.99. "
            f"The memory of series is n/{MEMORIES}. With few shifts of a short series p-values may "
            f"not reach 0.05 itself: its level is then below.\n\n{report.table(rows)}"
        )

    keys = cells(options.sizes, options.dimensions)
    title = "Levels of the approximate tests"
    repeats.fill("approximations", title, keys, pvalues, summary, text, options)


if __name__ == "__main__":
    main()
