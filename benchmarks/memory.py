"""Peak memory of the main calls, compared with their estimates before the computation.

Each call runs in a separate process at two sizes. The benchmark reports the peak resident memory
above that before the call, and the memory that the call requested from :func:`check_memory`. Calls
that process the rows in blocks request nothing; their peak should depend little on the size. The
first call of a process also imports and compiles, so the second one is measured. Linux only.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference.data import checks
from bke.models import Matern, SquaredExponential
from referee_memory import peak

MIB = 2.0**20
COLUMNS = 5
#: Settings of the C library that return freed memory to the system immediately, so that it does not
#: count as resident before the call.
RELEASE_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
#: A call with two batches of 500 fits in one process, of which the second batch is measured.
REPEATED_FITS = "1000 fits of one column"


def normal(rows: int, columns: int = COLUMNS, seed: int = 0) -> np.ndarray:
    """Draw normal rows (rows, columns)."""
    return np.random.default_rng(seed).normal(size=(rows, columns))


def mixed(rows: int, seed: int) -> Any:
    """Draw a table of two numeric columns, one with missing values, an integer and a category."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    values = rng.normal(size=rows)
    values[rng.random(rows) < 0.1] = np.nan
    words = np.array(["red", "green", "blue"])
    return pd.DataFrame({"a": rng.normal(size=rows), "b": values, "c": rng.poisson(3.0, rows),
                         "d": words[rng.integers(3, size=rows)]})  # fmt: skip


def fitted(rows: int, **options: Any) -> Any:
    """Fit a normal sample."""
    from bke.inference import fit

    return fit(normal(rows), progress=False, **options)


def witness(rows: int) -> Callable[[], Any]:
    """Fit two samples, and return a call that draws their witness."""
    from bke.inference import fit, sample_witness

    first, second = normal(rows), normal(rows, seed=1) + 0.2
    run = fit(np.concatenate([first, second]), progress=False)
    return lambda: sample_witness(run, first, second, progress=False)


def witness_of_test(rows: int) -> Callable[[], Any]:
    """Run a test with one kernel, and return a call that draws its witness."""
    from bke.inference import sample_test_witness, two_sample_test

    first, second = normal(rows), normal(rows, seed=1) + 0.2
    test = two_sample_test(first, second, kernel=SquaredExponential(1.0), progress=False)
    return lambda: sample_test_witness(test, first, second)


def repeated_fits(count: int, rows: int) -> None:
    """Fit samples of random sizes from 20 rows on, most of which are compiled anew."""
    from bke.inference import fit

    rng = np.random.default_rng(0)
    for _ in range(count):
        fit(rng.normal(size=int(rng.integers(20, rows))), progress=False)


def calls(name: str, rows: int) -> Callable[[], Any]:
    """Prepare the data of a call and return the call."""
    import bke.inference as bke

    first, second = normal(rows), normal(rows, seed=1)
    kernel, quiet = Matern(2.5), {"progress": False}
    calls_by_name: dict[str, Callable[[], Any]] = {
        "fit, quadrature": lambda: fitted(rows),
        "fit, NUTS": lambda: fitted(rows, method=bke.Nuts(2, 20, 5)),
        "two_sample_test, one kernel": lambda: bke.two_sample_test(
            first, second, kernel=kernel, **quiet
        ),
        "two_sample_test, many kernels": lambda: bke.two_sample_test(
            first, second, kernel="multiscale", **quiet
        ),
        "independence_test": lambda: bke.independence_test(first, second[:, :2], **quiet),
        "regress_out": lambda: bke.regress_out(first[:, :1], second[:, :2]),
        "mean_embedding_test": lambda: bke.mean_embedding_test(first, second),
        "relative_similarity_test": lambda: bke.relative_similarity_test(
            first, second, normal(rows, seed=2), kernel=kernel
        ),
        "causal_graph": lambda: bke.causal_graph(first[:, :3], **quiet),
        "compare": lambda: bke.compare(first, second, **quiet),
        "compare_tables": lambda: bke.compare_tables(mixed(rows, 0), mixed(rows, 1), **quiet),
        REPEATED_FITS: lambda: repeated_fits(500, rows),
    }
    if name == "sample_witness":
        return witness(rows)
    if name == "sample_test_witness":
        return witness_of_test(rows)
    return calls_by_name[name]


#: Rows of each sample for calls with matrices and for calls in blocks.
MATRICES = (1000, 2000)
BLOCKS = (50_000, 150_000)
SIZES = {
    "fit, quadrature": MATRICES,
    "fit, NUTS": (400, 800),
    "two_sample_test, one kernel": MATRICES,
    "two_sample_test, many kernels": MATRICES,
    "independence_test": (500, 1000),
    "regress_out": MATRICES,
    "mean_embedding_test": MATRICES,
    "relative_similarity_test": MATRICES,
    "causal_graph": MATRICES,
    "sample_witness": (300, 600),
    "sample_test_witness": (500, 1000),
    "compare": BLOCKS,
    "compare_tables": BLOCKS,
    REPEATED_FITS: (200, 400),
}


def memory_use(name: str, rows: int) -> dict[str, float]:
    """Measure the peak memory of a second call and the memory that it requested, in MiB."""
    requested = [0]
    needed = checks.memory_needed

    def recorded(*arguments: Any) -> int:
        requested.append(needed(*arguments))
        return requested[-1]

    checks.memory_needed = recorded
    call = calls(name, rows)
    requested[:] = [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        return {"peak": peak(call), "requested": max(requested) / MIB}


def main() -> None:
    """Measure each call and size in a separate process and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(memory_use(options.child[0], int(options.child[1]))))
        return
    info, folder = report.start(options.results)
    rows = []
    for name in options.calls:
        for size in (200, 300) if options.quick else SIZES[name]:
            usage = report.child(__file__, name, size, environment=RELEASE_MEMORY)
            ratio = usage["peak"] / usage["requested"] if usage["requested"] else None
            requested = usage["requested"] or None
            row = {"call": name, "rows of each": size, "peak, MiB": usage["peak"]}
            rows.append({**row, "said, MiB": requested, "peak / said": ratio})
            print(rows[-1], flush=True)
    text = f"Samples of {COLUMNS} columns.\n\n{report.table(rows)}"
    name = "memory" + "-quick" * options.quick
    title = "Memory of the main calls"
    report.save(folder, name, title, {**info, "load_average": None}, text, {"rows": rows})


if __name__ == "__main__":
    main()
