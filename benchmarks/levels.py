"""Levels of the permutation tests: how often a true null hypothesis is rejected at 0.05.

The samples, or the variables, come from standard normal distributions; those of pairs share a part.
The level is exact by construction, so a rate outside of the exact 99.9 % binomial band is a fault,
but for one in a thousand cells by chance. ``grid`` is the largest excess of the share of p-values
at or below u over u, for u in 0.01, 0.02, ..., 0.99, in standard errors of the binomial
distribution. Hours on two cores: the table is written after every cell, and ``--resume`` goes on
where a run of the same settings ended.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference import independence_test, mean_embedding_test, two_sample_test
from bke.inference.machine import cores
from scipy.stats import binom

ALPHA = 0.05
CHOICES = {
    "two samples": ("median", "evidence", "multiscale", "fused", "bkl", "posterior"),
    "pairs": ("median", "evidence", "multiscale", "fused", "bkl", "posterior"),
    "independence": ("median", "multiscale", "bkl", "posterior"),
    "mean embedding": ("median", "bkl", "posterior"),
}
CHUNK = 20


def pvalues(
    test: str, choice: str, n: int, dimension: int, permutations: int, seeds: range
) -> list[float]:
    """Under the null hypothesis, one for each seed."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, dimension])
        first, second = rng.normal(size=(2, n, dimension))
        options: dict[str, Any] = {"kernel": choice, "permutations": permutations, "seed": seed}
        if test == "mean embedding":
            found.append(mean_embedding_test(first, second, **options).pvalue)
            continue
        options["progress"] = False
        if test == "independence":
            found.append(independence_test(first, second, **options).pvalue)
            continue
        if test == "pairs":
            options["estimator"] = "paired"
            shared = rng.normal(size=(n, dimension))
            first, second = first + shared, second + shared
        found.append(two_sample_test(first, second, **options).pvalue)
    return found


def cell(
    pool: ProcessPoolExecutor,
    key: dict[str, Any],
    repeats: int,
    permutations: int,
    band: tuple[float, float],
) -> dict[str, Any]:
    """One row of the table."""
    chunks = [range(a, min(a + CHUNK, repeats)) for a in range(0, repeats, CHUNK)]
    futures = [pool.submit(pvalues, *key.values(), permutations, chunk) for chunk in chunks]
    values = np.concatenate([future.result() for future in futures])
    rejected = int(np.sum(values <= ALPHA + 1e-9))
    grid = np.linspace(0.01, 0.99, 99)
    share = np.mean(values[:, None] <= grid + 1e-9, axis=0)
    error = np.sqrt(grid * (1 - grid) / repeats)
    return {
        **key,
        "level": rejected / repeats,
        "inside": "yes" if band[0] <= rejected <= band[1] else "NO",
        "grid": float(np.max((share - grid) / error)),
    }


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--kernels", nargs="+", help="by default all of each test")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 10])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the cells of the last run")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 5, [20], [1]
    name = "levels-quick" if options.quick else "levels"
    info, folder = report.start(options.results)
    settings = {"repeats": options.repeats, "permutations": options.permutations}
    rows = report.earlier(folder / f"{name}.json", settings) if options.resume else []
    done = [tuple(row[key] for key in ("test", "kernel", "n", "D")) for row in rows]
    # The level that permutations can reach: the share of p-values k / (1 + B) up to alpha.
    reachable = np.floor(ALPHA * (1 + options.permutations) + 1e-9) / (1 + options.permutations)
    band = binom.interval(0.999, options.repeats, reachable)
    low, high = (edge / options.repeats for edge in band)
    # The cheap choices of all tests first.
    keys = [
        {"test": test, "kernel": kernel, "n": n, "D": dimension}
        for n, kernel, test, dimension in itertools.product(
            options.sizes,
            options.kernels or CHOICES["two samples"],
            options.tests,
            options.dimensions,
        )
        if kernel in CHOICES[test]
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for key in keys:
            if tuple(key.values()) in done:
                continue
            rows.append(cell(pool, key, options.repeats, options.permutations, band))
            rows.sort(key=lambda row: list(CHOICES).index(row["test"]))
            outside = sum(row["inside"] == "NO" for row in rows)
            text = (
                f"{options.repeats} data sets each, {options.permutations} permutations. The "
                f"99.9 % band of the level is {low:.4f} to {high:.4f}; {outside} of {len(rows)} "
                f"cells are outside.\n\n{report.table(rows)}"
            )
            title = "Levels of the permutation tests"
            data = {"settings": settings, "levels": rows}
            report.save(folder, name, title, {**info, "load_average": None}, text, data)


if __name__ == "__main__":
    main()
