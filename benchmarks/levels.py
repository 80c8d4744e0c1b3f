"""Levels of the permutation tests: rejection rates of true null hypotheses at 0.05.

The samples, or the variables, come from standard normal distributions; paired samples share a
normal component. The level is exact by construction, so a rate outside of the exact 99.9 % binomial
band is a fault, except for one in a thousand settings by chance. ``grid`` is the largest excess of
the proportion of p-values at or below u over u, for u in 0.01, 0.02, ..., 0.99, in standard errors
of the binomial distribution. The benchmark takes hours on two cores: the table is written after
every setting, and ``--resume`` continues a run of the same settings.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import independence_test, mean_embedding_test, two_sample_test
from scipy.stats import binom

ALPHA = 0.05
#: Statistics of each test, those of MMD and HSIC by their kernels.
STATISTICS = {
    "two samples": ("median", "bayes_factor", "multiscale", "combined", "bkl", "posterior"),
    "pairs": ("median", "bayes_factor", "multiscale", "combined", "bkl", "posterior"),
    "independence": ("median", "multiscale", "bkl", "posterior"),
    "mean embedding": ("median", "bkl", "posterior"),
}


def statistic_options(statistic: str) -> dict[str, str]:
    """Return the arguments of a test for one of ``STATISTICS``."""
    return {"statistic" if statistic in ("combined", "bayes_factor") else "kernel": statistic}


def pvalues(
    test: str, statistic: str, n: int, dimension: int, permutations: int, seeds: range
) -> list[float]:
    """Return a p-value under the null hypothesis for each seed."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, dimension])
        first, second = rng.normal(size=(2, n, dimension))
        options: dict[str, Any] = {"n_resamples": permutations, "seed": seed}
        options |= statistic_options(statistic)
        if test == "mean embedding":
            results.append(mean_embedding_test(first, second, **options).pvalue)
            continue
        options["progress"] = False
        if test == "independence":
            results.append(independence_test(first, second, **options).pvalue)
            continue
        if test == "pairs":
            options["paired"] = True
            shared = rng.normal(size=(n, dimension))
            first, second = first + shared, second + shared
        results.append(two_sample_test(first, second, **options).pvalue)
    return results


def summary(values: np.ndarray, band: tuple[float, float]) -> repeats.Row:
    """Return the rejection rate and the largest excess of the distribution of the p-values."""
    rejected = int(np.sum(values <= ALPHA + 1e-9))
    grid = np.linspace(0.01, 0.99, 99)
    proportion = np.mean(values[:, None] <= grid + 1e-9, axis=0)
    error = np.sqrt(grid * (1 - grid) / len(values))
    return {
        "level": rejected / len(values),
        "inside": "yes" if band[0] <= rejected <= band[1] else "NO",
        "grid": float(np.max((proportion - grid) / error)),
    }


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", choices=list(STATISTICS), default=list(STATISTICS))
    parser.add_argument("--statistics", nargs="+", help="by default all of each test")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 10])
    repeats.add_options(parser, repeats=1000, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 5, [20], [1]
    # The attainable level of a permutation test: the probability of p-values k / (1 + B) <= alpha.
    reachable = np.floor(ALPHA * (1 + options.permutations) + 1e-9) / (1 + options.permutations)
    band = binom.interval(0.999, options.repeats, reachable)
    low, high = (edge / options.repeats for edge in band)

    def text(rows: list[repeats.Row]) -> str:
        outside = sum(row["inside"] == "NO" for row in rows)
        in_order = sorted(rows, key=lambda row: (list(STATISTICS).index(row["test"]), row["n"]))
        return (
            f"{options.repeats} data sets each, {options.permutations} permutations. The 99.9 % "
            f"band of the level is {low:.4f} to {high:.4f}; {outside} of {len(rows)} settings are "
            f"outside.\n\n{report.table(in_order)}"
        )

    # The cheap statistics of all tests first.
    keys = [
        {"test": test, "statistic": statistic, "n": n, "D": dimension}
        for n, statistic, test, dimension in itertools.product(
            options.sizes,
            options.statistics or STATISTICS["two samples"],
            options.tests,
            options.dimensions,
        )
        if statistic in STATISTICS[test]
    ]
    repeats.fill(
        "levels",
        "Levels of the permutation tests",
        keys,
        pvalues,
        functools.partial(summary, band=band),
        text,
        options,
    )


if __name__ == "__main__":
    main()
