"""Levels of tests with an approximate null distribution: rejection rates at 0.05 with P = Q.

Rows are standard normal. For the wild bootstrap and the shift they are independent stationary
autoregressions of order one, with the coefficient of the table. Kernels are those of the median
heuristic. For conditional independence x = sin(2 s) + e / 2 and y = s^2 + e' / 2, where s is the
sum of the columns of z over the root of their number. The permutation test on the same data is
included for comparison; it is not valid for dependent rows.
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
#: Number of rows of a series for each step of its dependence length.
ROWS_PER_STEP = 25


def autoregression(n: int, columns: int, coefficient: float, rng: np.random.Generator) -> Any:
    """Draw stationary autoregressions (n, columns) of unit variance."""
    noise = rng.normal(size=(n + 200, columns)) * (1.0 - coefficient**2) ** 0.5
    return lfilter([1.0], [1.0, -coefficient], noise, axis=0)[200:]


def data(n: int, columns: int, coefficient: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two independent samples of one distribution."""
    rng = np.random.default_rng([seed, n, columns])
    if coefficient:
        return autoregression(n, columns, coefficient, rng), autoregression(
            n, columns, coefficient, rng
        )
    first, second = rng.normal(size=(2, n, columns))
    return first, second


def dependence_length(method: str, n: int) -> float | None:
    """Return the dependence length of methods for series, None for other methods."""
    return n / ROWS_PER_STEP if method in ("wild bootstrap", "shift") else None


def two_samples(method: str, n: int, columns: int, coefficient: float, **options: Any) -> Any:
    """Test two samples with P = Q."""
    first, second = data(n, columns, coefficient, options["seed"])
    if method in ("linear", "block"):
        return two_sample_test(first, second, method="normal", estimator=method, **options)
    return two_sample_test(
        first, second, method=method, dependence_length=dependence_length(method, n), **options
    )


def independence(method: str, n: int, columns: int, coefficient: float, **options: Any) -> Any:
    """Test independent x and y."""
    first, second = data(n, columns, coefficient, options["seed"])
    return independence_test(
        first, second, method=method, dependence_length=dependence_length(method, n), **options
    )


def conditional(method: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """Test x and y that are independent given z."""
    rng = np.random.default_rng([options["seed"], n, columns, 1])
    z, (e, f) = rng.normal(size=(n, columns)), rng.normal(size=(2, n))
    s = z.sum(axis=1) / columns**0.5
    x, y = np.sin(2.0 * s) + 0.5 * e, s**2 + 0.5 * f
    return conditional_independence_test(x, y, z, method=method, **options)


def mean_embedding(method: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """Test mean embeddings with P = Q."""
    options.pop("progress")
    return mean_embedding_test(*data(n, columns, 0.0, options["seed"]), method=method, **options)


def relative_similarity(method: str, n: int, columns: int, _: float, **options: Any) -> Any:
    """Test data at equal distances from two models; ``method`` is normal."""
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
    test: str,
    method: str,
    n: int,
    columns: int,
    coefficient: float,
    permutations: int,
    seeds: range,
) -> list[float]:
    """Compute p-values of a test under its null hypothesis, one for each seed."""
    options: dict[str, Any] = {"kernel": "median", "n_resamples": permutations, "progress": False}
    return [
        TESTS[test](method, n, columns, coefficient, seed=seed, **options).pvalue for seed in seeds
    ]


def table_keys(sizes: list[int], dimensions: list[int]) -> list[repeats.Row]:
    """Return the key of each row of the table."""
    methods_by_test = {
        "two samples": ("gamma", "spectrum", "linear", "block"),
        "independence": ("gamma", "spectrum"),
        "mean embedding": ("f",),
        "relative similarity": ("normal",),
        "conditional": ("permutation",),
    }
    settings = [
        (test, method, n, columns, 0.0)
        for test, methods in methods_by_test.items()
        for method in methods
        for n in sizes
        for columns in dimensions
    ]
    series_methods = {
        "two samples": ("permutation", "wild bootstrap"),
        "independence": ("permutation", "wild bootstrap", "shift"),
    }
    settings += [
        (test, method, n, 1, coefficient)
        for test, methods in series_methods.items()
        for method in methods
        for n in sizes
        for coefficient in (0.0, 0.5, 0.8)
        if n >= 50 and (coefficient or method != "permutation")
    ]
    names = ("test", "method", "n", "D", "coefficient")
    return [dict(zip(names, setting, strict=True)) for setting in settings]


def main() -> None:
    """Measure the levels and write the table."""
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
            f"The dependence length of series is n/{ROWS_PER_STEP}. With few shifts of a short "
            "series p-values may not reach 0.05 itself: its level is then below.\n\n"
            f"{report.table(rows)}"
        )

    keys = table_keys(options.sizes, options.dimensions)
    title = "Levels of the approximate tests"
    repeats.fill("approximations", title, keys, pvalues, summary, text, options)


if __name__ == "__main__":
    main()
