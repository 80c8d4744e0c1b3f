"""Seconds of the permutation tests beside hyppo's and beside one matrix product, in one run.

The product is the limit: an N x N Gram matrix times N x (1 + B) labels, with every core, on which
all permutations of MMD rest. Every side is timed once warm, the smallest of ``--rounds``; hyppo's,
which takes minutes, once, and above ``--hyppo-rows`` with a tenth of the permutations, times ten:
it computes one statistic after another. For hyppo: ``pip install hyppo``.
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

#: What is over in milliseconds is repeated for so many seconds.
LEAST_SECONDS = 1.0


def seconds(function: Callable[[], Any], rounds: int) -> float:
    """The smallest of some, after one that is not counted."""
    if rounds > 1:
        function()
    found: list[float] = []
    while len(found) < rounds or (rounds > 1 and sum(found) < LEAST_SECONDS):
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return min(found)


def sides(n: int, permutations: int, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """Everything of this package, for n rows."""
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


def others(n: int, permutations: int, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """MMD and HSIC of hyppo, one worker, as it comes."""
    from hyppo.independence import Hsic
    from hyppo.ksample import MMD

    P, Q = rng.normal(size=(n, 1)), rng.normal(0.1, 1.0, size=(n, 1))
    options: dict[str, Any] = {"reps": permutations, "auto": False}
    return {
        "hyppo MMD": lambda: MMD().test(P, Q, **options),
        "hyppo HSIC": lambda: Hsic().test(P, Q, **options),
    }


def main() -> None:
    """Time and write."""
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
            share = 1 if n <= options.hyppo_rows else 10
            for name, function in others(n, options.permutations // share, rng).items():
                row[name] = share * seconds(function, 1)
            row["MMD, times faster"] = row["hyppo MMD"] / row["MMD, median"]
            row["HSIC, times faster"] = row["hyppo HSIC"] / row["HSIC, median"]
        row["permutations over product"] = row["MMD, permutations"] / row["product"]
        rows.append(row)
        text = (
            f"{options.permutations} permutations, n rows in each sample (MMD) or n pairs (HSIC), "
            f"one column; seconds. hyppo's above n = {options.hyppo_rows} are ten times those of a "
            f"tenth of the permutations.\n\n{report.table(rows)}"
        )
        name = "speed-quick" if options.quick else "speed"
        report.save(folder, name, "Speed of the permutation tests", info, text, {"speed": rows})


if __name__ == "__main__":
    main()
