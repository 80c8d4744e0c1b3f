"""Peak memory of the main calls beside what they say, before they start, that they will need.

Each call in a process of its own, at two sizes: what is resident at the peak above what was held
before, and what :func:`check_memory` was asked for. Calls that go through the rows in blocks ask
for nothing; of them the peak is told at two sizes, of which it should not hang much. The first call
of a process loads and compiles too, so that the second one is told. Linux only.
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
#: What the C library frees goes back to the system at once, so that it is not held before.
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
#: In one process, of which those of the second 500 are told.
MANY_FITS = "1000 fits of one column"


def normal(rows: int, columns: int = COLUMNS, seed: int = 0) -> np.ndarray:
    """Rows that repeat nowhere."""
    return np.random.default_rng(seed).normal(size=(rows, columns))


def mixed(rows: int, seed: int) -> Any:
    """A table of two numbers, one of which is missing at times, an integer and a category."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    some = rng.normal(size=rows)
    some[rng.random(rows) < 0.1] = np.nan
    words = np.array(["red", "green", "blue"])
    return pd.DataFrame({"a": rng.normal(size=rows), "b": some, "c": rng.poisson(3.0, rows),
                         "d": words[rng.integers(3, size=rows)]})  # fmt: skip


def fitted(rows: int, **options: Any) -> Any:
    """A run on one sample."""
    from bke.inference import fit

    return fit(normal(rows), progress=False, **options)


def witness(rows: int) -> Callable[[], Any]:
    """The witness between two samples, of a run that was fitted to them before."""
    from bke.inference import fit, sample_witness

    first, second = normal(rows), normal(rows, seed=1) + 0.2
    run = fit(np.concatenate([first, second]), progress=False)
    return lambda: sample_witness(run, first, second, progress=False)


def of_a_test(rows: int) -> Callable[[], Any]:
    """The witness of a test with one kernel."""
    from bke.inference import sample_test_witness, two_sample_test

    first, second = normal(rows), normal(rows, seed=1) + 0.2
    found = two_sample_test(first, second, kernel=SquaredExponential(1.0), progress=False)
    return lambda: sample_test_witness(found, first, second)


def many_fits(count: int, rows: int) -> None:
    """Fit samples of 20 rows and more, most of them of a number that was not there before."""
    from bke.inference import fit

    rng = np.random.default_rng(0)
    for _ in range(count):
        fit(rng.normal(size=int(rng.integers(20, rows))), progress=False)


def calls(name: str, rows: int) -> Callable[[], Any]:
    """A call by its name, ready to be made."""
    import bke.inference as bke

    first, second = normal(rows), normal(rows, seed=1)
    kernel, quiet = Matern(2.5), {"progress": False}
    made: dict[str, Callable[[], Any]] = {
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
        MANY_FITS: lambda: many_fits(500, rows),
    }
    if name == "sample_witness":
        return witness(rows)
    if name == "sample_test_witness":
        return of_a_test(rows)
    return made[name]


#: Rows of each sample, of calls with matrices and of calls in blocks.
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
    MANY_FITS: (200, 400),
}


def taken(name: str, rows: int) -> dict[str, float]:
    """The peak of a second call above what was held before it, and what was asked for, MiB."""
    asked = [0]
    needed = checks.memory_needed

    def recorded(*arguments: Any) -> int:
        asked.append(needed(*arguments))
        return asked[-1]

    checks.memory_needed = recorded
    call = calls(name, rows)
    asked[:] = [0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        return {"peak": peak(call), "said": max(asked) / MIB}


def main() -> None:
    """A process for each call and size; then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(taken(options.child[0], int(options.child[1]))))
        return
    info, folder = report.start(options.results)
    rows = []
    for name in options.calls:
        for size in (200, 300) if options.quick else SIZES[name]:
            found = report.child(__file__, name, size, environment=GIVEN_BACK)
            ratio = found["peak"] / found["said"] if found["said"] else None
            said = found["said"] or None
            row = {"call": name, "rows of each": size, "peak, MiB": found["peak"]}
            rows.append({**row, "said, MiB": said, "peak / said": ratio})
            print(rows[-1], flush=True)
    text = f"Samples of {COLUMNS} columns.\n\n{report.table(rows)}"
    name = "memory" + "-quick" * options.quick
    title = "Memory of the main calls"
    report.save(folder, name, title, {**info, "load_average": None}, text, {"rows": rows})


if __name__ == "__main__":
    main()
