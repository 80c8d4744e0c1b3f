"""Time the default two-sample test of a Dask array with one worker and with two on this machine.

Every worker is a process with one thread and has its partitions in memory. The test is timed from
the call to the result, after a small test, which does the imports. Rounds alternate. The same rows
are also tested in memory, without Dask. P and Q are normal, and Q is a little wider.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import report
from bke.inference import two_sample_test
from distributed import Client, LocalCluster, wait

WORKERS, ROUNDS = (1, 2), 3
#: Partitions of each sample.
PARTS = 8
#: Standard deviation of Q; that of P is 1.
WIDER = 1.0005


def part(seed: int, rows: int, columns: int, width: float) -> np.ndarray:
    """Draw one partition of a sample, the same on any machine."""
    return width * np.random.default_rng(seed).normal(size=(rows, columns))


def sample(first: int, rows: int, columns: int, width: float) -> da.Array:
    """Return a sample in partitions, which the workers draw."""
    size = rows // PARTS
    parts = [
        da.from_delayed(
            dask.delayed(part)(first + index, size, columns, width), (size, columns), float
        )
        for index in range(PARTS)
    ]
    return da.concatenate(parts)


def pair(rows: int, columns: int) -> tuple[da.Array, da.Array]:
    """Return P and Q."""
    return sample(0, rows, columns, 1.0), sample(PARTS, rows, columns, WIDER)


def by_workers(workers: int, rows: int, columns: int) -> dict[str, Any]:
    """Time the test with a number of workers."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        two_sample_test(*pair(2**16 + PARTS, columns), n_resamples=39)
        P, Q = client.persist(list(pair(rows, columns)))
        wait([P, Q])
        begin = time.perf_counter()
        result = two_sample_test(P, Q)
        took = time.perf_counter() - begin
    result_row = {"pvalue": result.pvalue, "statistic": result.statistic}
    return {"workers": workers, "seconds": took, **result_row}


def in_memory(rows: int, columns: int) -> dict[str, Any]:
    """Time the test without Dask."""
    P, Q = dask.compute(*pair(rows, columns), scheduler="synchronous")
    begin = time.perf_counter()
    result = two_sample_test(P, Q, progress=False)
    took = time.perf_counter() - begin
    return {
        "workers": "none",
        "seconds": took,
        "pvalue": result.pvalue,
        "statistic": result.statistic,
    }


def main() -> None:
    """Measure all rounds and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--rows", type=int, default=10**6, help="of each sample")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    rows, columns = (80_000, 3) if options.quick else (options.rows, options.columns)
    runs: list[dict[str, Any]] = []
    for _ in range(1 if options.quick else ROUNDS):
        for workers in WORKERS:
            runs.append(by_workers(workers, rows, columns))
            print(runs[-1], flush=True)
    best = {
        workers: min(r["seconds"] for r in runs if r["workers"] == workers) for workers in WORKERS
    }
    all_equal = len({(run["pvalue"], run["statistic"]) for run in runs}) == 1
    runs.append(in_memory(rows, columns))
    print(runs[-1], flush=True)
    table_rows = [{**run, "statistic": repr(run["statistic"])} for run in runs]
    body = (
        f"{rows} + {rows} rows of {columns} columns in {2 * PARTS} parts; 999 permutations.\n\n"
        f"{report.table(table_rows)}\n\nTwo workers are {best[1] / best[2]:.2f} times as fast as "
        f"one, best of each; their statistics are {'equal' if all_equal else 'not equal'} to the "
        "last digit."
    )
    name = "cluster-quick" if options.quick else "cluster"
    report.save(folder, name, "A test by one worker and by two", info, body, {"rows": runs})


if __name__ == "__main__":
    main()
