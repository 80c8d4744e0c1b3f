"""Power of the referee's KLR compared with the power that its authors publish, in their settings.

The published powers are those of the tables of Santoro and Panaretos (arXiv 2508.07982), KLR-0:
100 + 100 rows, 200 data sets, 200 permutations, level 0.05. The settings, kernels, bandwidths and
ridges are those of the authors' scripts
(github.com/leonardoVsantoro/Kernel-Likelihood-Ratio-Two-Sample-Test, commit 22ef7fc). They reject
if one of 40 statistics exceeds all of its permutations, which is Bonferroni's rule without the
added one that makes the p-value of a permutation test valid: the level is above 0.05, in their
table too. The referee uses more permutations, so it rejects less often than here. ``--resume``
continues a run, also with more ``--datasets``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import referee_peers
import report
from bke.inference.core.machine import cores
from referee_settings import Setting, autoregressive, equicorrelated, normal, shell, spiked
from threadpoolctl import threadpool_limits

#: Permutations and data sets of the authors.
PERMUTATIONS, PUBLISHED_SETS = 200, 200
#: Data sets between two updates of the results.
CHUNK = 5
GAUSSIAN, EXPONENTIAL = "sqeuclidean", "euclidean"
#: Return values of ``permutations_exceeded`` for each data set, by setting.
Results = dict[str, list[int]]


def _settings() -> dict[str, tuple[Setting, str, float]]:
    """Return by name: the setting, the metric of its kernel, and the published power."""
    equal, neighbors, plain = equicorrelated(500, 0.5), autoregressive(500, 0.5), normal
    specifications: list[tuple[str, Any, Any, str, float]] = [
        (f"equicorrelation 0.5, {0.5 + more}", equal, equicorrelated(500, 0.5 + more), GAUSSIAN, p)
        for more, p in ((0.01, 0.295), (0.025, 0.945), (0.05, 1.0))
    ]
    specifications += [
        (f"decreasing correlation 0.5, {0.5 + more}", neighbors, changed, EXPONENTIAL, p)
        for more, p in ((0.05, 0.235), (0.1, 0.99), (0.15, 1.0))
        for changed in (autoregressive(500, 0.5 + more),)
    ]
    specifications += [
        (f"spiked covariance, D = {columns}", plain(columns), spiked(columns, 5, 3.0), GAUSSIAN, p)
        for columns, p in ((500, 1.0), (1000, 0.97), (1500, 0.92))
    ]
    spheres = shell(250, 1.0, 0.02), shell(250, 1.015, 0.02)
    specifications.append(("concentric spheres, D = 250", *spheres, EXPONENTIAL, 0.935))
    # The mean of their five runs.
    specifications.append(("equicorrelation 0.5, P = Q", equal, equal, GAUSSIAN, 0.078))
    return {
        name: (Setting(name, "", False, 100, first, second), metric, p)
        for name, first, second, metric, p in specifications
    }


SETTINGS = _settings()


def evaluate(name: str, index: int) -> tuple[str, int]:
    """Return the setting's name and its ``permutations_exceeded`` in a data set."""
    setting, metric, _ = SETTINGS[name]
    with threadpool_limits(1):
        rng = np.random.default_rng(index)
        return name, referee_peers.permutations_exceeded(
            *setting.draw(index), rng, metric, PERMUTATIONS
        )


def rows(results: Results) -> list[dict[str, Any]]:
    """Return the rows of the table: published and measured power by setting."""
    table_rows = []
    for name, (_, metric, published) in SETTINGS.items():
        if not (exceeded := np.array(results.get(name, []))).size:
            continue
        measured, count = float(np.mean(exceeded >= PERMUTATIONS)), len(exceeded)
        pooled = (published * PUBLISHED_SETS + measured * count) / (PUBLISHED_SETS + count)
        error = (pooled * (1.0 - pooled) * (1.0 / PUBLISHED_SETS + 1.0 / count)) ** 0.5
        table_rows.append(
            {
                "setting": name,
                "kernel": "Gaussian" if metric == GAUSSIAN else "exponential",
                "data sets": count,
                "published": published,
                "measured": measured,
                "apart, errors": (measured - published) / error if error else 0.0,
            }
        )
    return table_rows


def main() -> None:
    """Evaluate the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--datasets", type=int, default=100)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the results of the last run")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.datasets, options.settings = 1, ["concentric spheres, D = 250"]
    info, folder = report.start(options.results)
    name = "referee-check" + "-quick" * options.quick
    store = folder / f"{name}.json"
    results: Results = {}
    if options.resume and store.exists():
        results = json.loads(store.read_text(encoding="utf-8"))["found"]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for start in range(0, options.datasets, CHUNK):
            indices = range(start, min(start + CHUNK, options.datasets))
            missing = [
                (setting, index)
                for setting in options.settings
                for index in indices
                if index >= len(results.get(setting, []))
            ]
            if not missing:
                continue
            # ``map`` keeps the order, so that data set i is the i-th that is stored.
            for setting, exceeded in pool.map(evaluate, *zip(*missing, strict=True)):
                results.setdefault(setting, []).append(exceeded)
            write(folder, name, info, results)


def write(folder: Path, name: str, info: dict[str, Any], results: Results) -> None:
    """Write the report and the results."""
    title = "KLR-0 as published, and in the referee"
    note = (
        f"100 + 100 rows, {PERMUTATIONS} permutations. Published power ({PUBLISHED_SETS} data "
        "sets), measured power, and their difference in standard errors."
    )
    text = f"{note}\n\n{report.table(rows(results))}"
    report.save(folder, name, title, {**info, "load_average": None}, text, {"found": results})


if __name__ == "__main__":
    main()
