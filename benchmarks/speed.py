"""Time the permutation tests, those of hyppo and one matrix product in the same run.

The product is a lower bound of the time: an N x N Gram matrix times N x (1 + B) labels on all cores
gives all permutations of the MMD. Every method is timed after a first call, and the minimum of
``--rounds`` is reported. hyppo, which takes minutes, is timed once, and above ``--hyppo-rows`` with
a tenth of the permutations, times ten: it computes the statistics one after another. For hyppo:
``pip install hyppo``.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference import independence_test, two_sample_test
from bke.inference.core.machine import computing
from bke.inference.permutation.samples import TwoSamples
from bke.inference.testing.mmd import permuted_mmd
from bke.models import SquaredExponential

#: Least total seconds of the repeats of a call.
LEAST_SECONDS = 1.0


def seconds(function: Callable[[], Any], rounds: int) -> float:
    """Return the minimum seconds of several calls after a first one that does not count."""
    if rounds > 1:
        function()
    times: list[float] = []
    while len(times) < rounds or (rounds > 1 and sum(times) < LEAST_SECONDS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def sides(n: int, permutations: int, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Return the calls of this package for n rows, by name."""
    P, Q = rng.normal(size=(n, 1)), rng.normal(0.1, 1.0, size=(n, 1))
    sample = TwoSamples(P, Q).permute_labels(permutations, rng)
    labels, numbers = sample.labels, sample.labels.astype(float)
    gram = np.asarray(SquaredExponential(0.5)(sample.points))
    options: dict[str, Any] = {"n_resamples": permutations, "progress": False}

    def permute() -> Any:
        with computing():  # as inside a test
            return permuted_mmd(gram, labels)

    return {
        "product": lambda: gram @ numbers,
        "MMD, permutations": permute,
        "MMD, median": lambda: two_sample_test(P, Q, kernel="median", **options),
        "MMD, multiscale": lambda: two_sample_test(P, Q, kernel="multiscale", **options),
        "combined": lambda: two_sample_test(P, Q, **options),
        "HSIC, median": lambda: independence_test(P, Q, kernel="median", **options),
        "HSIC, multiscale": lambda: independence_test(P, Q, **options),
    }


def hyppo_sides(
    n: int, permutations: int, rng: np.random.Generator
) -> dict[str, Callable[[], Any]]:
    """Return calls of hyppo's MMD and HSIC with one worker and defaults."""
    from hyppo.independence import Hsic
    from hyppo.ksample import MMD

    P, Q = rng.normal(size=(n, 1)), rng.normal(0.1, 1.0, size=(n, 1))
    options: dict[str, Any] = {"reps": permutations, "auto": False}
    return {
        "hyppo MMD": lambda: MMD().test(P, Q, **options),
        "hyppo HSIC": lambda: Hsic().test(P, Q, **options),
    }


def main() -> None:
    """Time all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--permutations", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hyppo-rows", type=int, default=1000)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.permutations, options.hyppo_rows = [50], 99, 50
    info, folder = report.start(options.results)
    rows = []
    for n in options.sizes:
        row: dict[str, Any] = {"n": n}
        rng = np.random.default_rng(n)
        for name, function in sides(n, options.permutations, rng).items():
            row[name] = seconds(function, options.rounds)
        if importlib.util.find_spec("hyppo"):
            reduction = 1 if n <= options.hyppo_rows else 10
            for name, function in hyppo_sides(n, options.permutations // reduction, rng).items():
                row[name] = reduction * seconds(function, 1)
            row["MMD, times faster"] = row["hyppo MMD"] / row["MMD, median"]
            row["HSIC, times faster"] = row["hyppo HSIC"] / row["HSIC, median"]
        row["permutations over product"] = row["MMD, permutations"] / row["product"]
        rows.append(row)
        text = (
            f"{options.permutations} permutations, n rows in each sample (MMD) or n pairs (HSIC), "
            f"one column; seconds. Those of hyppo above n = {options.hyppo_rows} are ten times the "
            f"seconds of a tenth of the permutations.\n\n{report.table(rows)}"
        )
        name = "speed-quick" if options.quick else "speed"
        report.save(folder, name, "Speed of the permutation tests", info, text, {"speed": rows})


if __name__ == "__main__":
    main()
