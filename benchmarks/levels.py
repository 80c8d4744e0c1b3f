"""Levels of the permutation tests: how often a true null hypothesis is rejected at 0.05.

The two samples, or the two variables, come from a standard normal distribution; the level is exact
by construction, so a rate outside of the exact 99.9 % binomial band is a fault, but for one in a
thousand cells by chance. ``grid`` is the largest excess of the share of p-values at or below u over
u, for u in 0.01, 0.02, ..., 1, in standard errors of the binomial distribution.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference import independence_test, two_sample_test
from scipy.stats import binom

ALPHA = 0.05
CHOICES = {
    "two samples": ("median", "evidence", "multiscale", "fused", "bkl", "posterior"),
    "independence": ("median", "multiscale", "bkl", "posterior"),
}


def one_pvalue(test: str, choice: str, n: int, dimension: int, seed: int, permutations: int) -> Any:
    """A p-value under the null hypothesis."""
    first, second = np.random.default_rng([seed, n, dimension]).normal(size=(2, n, dimension))
    function = two_sample_test if test == "two samples" else independence_test
    result = function(
        first, second, kernel=choice, permutations=permutations, seed=seed, progress=False
    )
    return result.pvalue


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--kernels", nargs="+", help="by default all of each test")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 10])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 5, [20], [1]
    info, folder = report.start(options.results)
    # The level that permutations can reach: the share of p-values k / (1 + B) up to alpha.
    reachable = np.floor(ALPHA * (1 + options.permutations) + 1e-9) / (1 + options.permutations)
    low, high = binom.interval(0.999, options.repeats, reachable)
    grid = np.linspace(0.01, 1.0, 100)
    rows = []
    for test in options.tests:
        choices = options.kernels or CHOICES[test]
        for choice, n, dimension in itertools.product(choices, options.sizes, options.dimensions):
            pvalues = np.array(
                [
                    one_pvalue(test, choice, n, dimension, seed, options.permutations)
                    for seed in range(options.repeats)
                ]
            )
            rejected = int(np.sum(pvalues <= ALPHA + 1e-9))
            share = np.mean(pvalues[:, None] <= grid + 1e-9, axis=0)
            error = np.sqrt(np.maximum(grid * (1 - grid), 1e-12) / options.repeats)
            rows.append(
                {
                    "test": test,
                    "kernel": choice,
                    "n": n,
                    "D": dimension,
                    "level": rejected / options.repeats,
                    "inside": "yes" if low <= rejected <= high else "NO",
                    "grid": float(np.max((share - grid)[:-1] / error[:-1])),
                }
            )
            print(report.table(rows[-1:]), flush=True)
    outside = sum(row["inside"] == "NO" for row in rows)
    text = (
        f"{options.repeats} data sets each, {options.permutations} permutations. The 99.9 % band "
        f"of the level is {low / options.repeats:.4f} to {high / options.repeats:.4f}; {outside} "
        f"of {len(rows)} cells are outside.\n\n{report.table(rows)}"
    )
    name = "levels-quick" if options.quick else "levels"
    report.save(folder, name, "Levels of the permutation tests", info, text, {"levels": rows})


if __name__ == "__main__":
    main()
