"""Seconds and memory of the two-sample test and of `compare`, by size, compared with other tests.

Each size is measured in a separate process, with equal distributions and with a difference: the
first column of the second sample is multiplied by 1.03. The benchmark times the first and second
call of the test, the second call of `compare`, and other tests by their published formulas
(`referee_peers`) up to ``PEER_ROWS`` rows, with 499 permutations instead of 999. The plot shows a
grid of sizes. For hyppo: ``pip install hyppo``.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Rows of each sample, and columns.
SIZES = (
    *((150, 1), (150, 2), (500, 2), (1000, 2), (100, 500), (10_000, 10), (100_000, 10)),
    *((262_144, 10), (1_000_000, 1), (100_000, 50)),
)
#: Rows of each sample, and columns, in the plot.
GRID_ROWS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
GRID_COLUMNS = (1, 2, 10)
#: Factor of the first column of the second sample.
FACTORS = (1.0, 1.03)
#: Seconds up to which a call is repeated, and the largest number of rows of other tests.
SHORT, PEER_ROWS = 30.0, 1000
PEERS = ("MMD-FUSE", "MMDAgg", "spectral MMD", "energy distance", "HSIC (hyppo)")


def child(rows: int, columns: int, factor: float, only_test: int) -> None:
    """Print the seconds of the calls and the memory."""
    import numpy as np

    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, rows, columns))
    Q[:, 0] *= factor
    begin = time.perf_counter()
    from bke.inference import compare, two_sample_test

    def seconds(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    two_sample_test(P, Q, progress=False)
    first = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    times: dict[str, float | None] = {"first s": first, "GiB": peak, "second s": None}
    if first < SHORT:
        times["second s"] = min(
            seconds(lambda: two_sample_test(P, Q, progress=False)) for _ in range(3)
        )
    if not only_test:
        times["compare s"] = seconds(lambda: compare(P, Q, progress=False))
        if first < SHORT:
            times["compare s"] = seconds(lambda: compare(P, Q, progress=False))
        times |= dict.fromkeys(PEERS)
        if rows <= PEER_ROWS:
            import referee_peers

            for name in set(PEERS) & set(referee_peers.here()):
                test, generator = referee_peers.PEERS[name][0], np.random.default_rng(1)
                test(P[:20], Q[:20], generator)
                times[name] = seconds(lambda test=test, rng=generator: test(P, Q, rng))
    print(json.dumps(times))


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot the seconds of the second call over the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    ax = figure.subplots()
    for columns, color in zip(GRID_COLUMNS, ("#0072B2", "#E69F00", "#009E73"), strict=True):
        for factor, line in zip(FACTORS, ("-", "--"), strict=True):
            chosen = [row for row in rows if row["columns"] == columns and row["factor"] == factor]
            difference = "no difference" if factor == 1.0 else "with a difference"
            ax.loglog(
                [row["n"] for row in chosen],
                [row["second s"] for row in chosen],
                line,
                color=color,
                marker=".",
                label=f"{columns} column{'s' * (columns > 1)}, {difference}",
            )
    ax.set_xlabel("rows of each sample")
    ax.set_ylabel("seconds of a test with 999 permutations")
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure each size and write the table and the plot."""
    import report

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    rows: list[dict[str, Any]] = []
    for size, columns in ((40, 2),) if options.quick else SIZES:
        for factor in FACTORS:
            times = report.child(__file__, size, columns, factor, 0)
            rows.append({"rows": f"{size} + {size}", "columns": columns, "factor": factor, **times})
            print(rows[-1], flush=True)
    grid: list[dict[str, Any]] = []
    for columns in GRID_COLUMNS:
        for size in (40, 80) if options.quick else GRID_ROWS:
            for factor in FACTORS:
                times = report.child(__file__, size, columns, factor, 1)
                grid.append({"n": size, "columns": columns, "factor": factor, **times})
    name = "sizes-quick" if options.quick else "sizes"
    plot(grid, folder / f"{name}.png")
    text = (
        "999 permutations, of other tests 499; `first s` includes imports; `factor` is that of one "
        f"column of the second sample.\n\n{report.table(rows)}"
    )
    title = "Seconds and memory of the default test"
    report.save(folder, name, title, info, text, {"rows": rows, "grid": grid})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        n_rows, n_columns, multiple, only_test = sys.argv[2:]
        child(int(n_rows), int(n_columns), float(multiple), int(only_test))
    else:
        main()
