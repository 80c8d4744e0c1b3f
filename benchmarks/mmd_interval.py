"""Error and cost of the confidence interval of the squared MMD.

The first table compares the interval by landmarks with the exact one by all pairs of rows: for
6000 + 6000 normal rows, with the first column of Q scaled by 1.2, and for smaller and other samples
of P with normal or lognormal rows of Q. The second table has CPU time and peak resident memory of
``two_sample_test``, which reports the interval, with and without a difference. Each call is in a
separate process, which also draws the data, imports and compiles. Linux only: the peak is
``VmHWM``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import report
from bke.inference import two_sample_test
from bke.inference.core.machine import computing
from bke.inference.permutation.samples import TwoSamples
from bke.inference.testing import mmd
from bke.models import Laplace, SquaredExponential
from referee_memory import mebibytes
from scipy.stats import norm

#: Numbers of columns and kernels for normal rows.
NORMAL_SETTINGS = (
    (1, SquaredExponential(0.3)),
    (3, SquaredExponential(2.0)),
    (10, SquaredExponential(4.0)),
    (10, SquaredExponential(8.0)),
    (10, SquaredExponential(12.0)),
    (1, Laplace(1.0)),
    (1, Laplace(10.0)),
    (3, Laplace(100.0)),
    (10, Laplace(1000.0)),
)
#: Rows of each sample and factor of the first column of Q.
COST_SETTINGS = ((131_072, 1.0), (131_072, 1.03), (262_144, 1.0), (262_144, 1.03))
COST_COLUMNS = 10
ALPHA = 0.05


def samples(rows: int, columns: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw P and Q, (rows, columns) each."""
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, rows, columns))
    Q[:, 0] *= factor
    return P, Q


def error_settings(
    rows: int,
) -> Iterator[tuple[str, np.ndarray, np.ndarray, SquaredExponential | Laplace]]:
    """Yield names, samples and kernels."""
    for columns, kernel in NORMAL_SETTINGS:
        yield f"normal, {columns} columns", *samples(rows, columns, 1.2), kernel
    rng = np.random.default_rng(1)
    standard = rng.normal(size=(2 * rows, 3))
    yield (
        "5 rows, 20 times as wide",
        20.0 * rng.normal(size=(5, 3)),
        standard,
        SquaredExponential(1.5),
    )
    yield (
        "40 rows, 20 times as wide",
        20.0 * rng.normal(size=(40, 3)),
        standard,
        SquaredExponential(1.5),
    )
    uniform = rng.uniform(-8.0, 8.0, (100, 2))
    yield "100 uniform rows", uniform, standard[:, :2], SquaredExponential(0.3)
    lognormal = rng.lognormal(size=(100, 1))
    yield "100 lognormal rows", lognormal, np.exp(standard[:, :1]), SquaredExponential(0.05)
    heavy = rng.standard_t(2, (rows, 2))
    yield "t with 2 degrees of freedom", heavy, standard[:rows, :2], SquaredExponential(0.7)
    centers = np.repeat(rng.normal(size=(50, 3)), rows // 50, axis=0)
    clusters = centers + 0.01 * rng.normal(size=centers.shape)
    yield "50 clusters", clusters, standard[:rows], SquaredExponential(1.0)


def error(rows: int) -> list[dict[str, Any]]:
    """Compare estimate and width by landmarks with those by all pairs of rows."""
    table = []
    for name, P, Q, kernel in error_settings(rows):
        pair = TwoSamples(P, Q)
        with computing():
            with mock.patch.object(mmd, "MAX_EXACT_ROWS", len(P) + len(Q)):
                exact, exact_limits = mmd.mmd_interval(pair, kernel, ALPHA)
            with mock.patch.object(mmd, "MAX_EXACT_ROWS", 0):
                value, limits = mmd.mmd_interval(pair, kernel, ALPHA)
        assert exact is not None
        assert exact_limits is not None
        shift = width = None
        if value is not None and limits is not None:
            # Half of the width, since the lower limit may be cut off at zero.
            exact_width = exact_limits[1] - exact
            shift = float(abs(value - exact) / (exact_width / norm.isf(0.5 * ALPHA)))
            width = abs((limits[1] - value) / exact_width - 1.0)
        table.append(
            {
                "rows of P": name,
                "kernel": f"{type(kernel).__name__}({float(kernel.lengthscale):g})",
                "estimate: error in standard errors": shift,
                "standard error: relative error": width,
            }
        )
        print(table[-1], flush=True)
    return table


def test_cost(rows: int, factor: float) -> dict[str, Any]:
    """Test once and return CPU time, wall time, memory and p-value."""
    P, Q = samples(rows, COST_COLUMNS, factor)
    start, cpu_start = time.perf_counter(), time.process_time()
    result = two_sample_test(P, Q, progress=False)
    return {
        "rows of each": rows,
        "factor": factor,
        "seconds": time.perf_counter() - start,
        "CPU seconds": time.process_time() - cpu_start,
        "peak GiB": mebibytes("VmHWM") / 1024.0,
        "p": result.pvalue,
    }


def main() -> None:
    """Measure errors and cost and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(test_cost(int(options.child[0]), float(options.child[1]))))
        return
    info, folder = report.start(options.results)
    errors = error(1500 if options.quick else 6000)
    costs = []
    for rows, factor in ((3000, 1.0), (3000, 1.2)) if options.quick else COST_SETTINGS:
        costs.append(report.child(__file__, str(rows), str(factor)))
        print(costs[-1], flush=True)
    text = (
        "Interval by landmarks against all pairs of rows; a dash: no interval, since the landmarks "
        f"do not represent the kernel.\n\n{report.table(errors)}\n\n`two_sample_test` of "
        f"{COST_COLUMNS} columns, the first of Q times the factor.\n\n{report.table(costs)}"
    )
    name = "mmd_interval-quick" if options.quick else "mmd_interval"
    title = "The confidence interval of the squared MMD"
    report.save(folder, name, title, info, text, {"errors": errors, "costs": costs})


if __name__ == "__main__":
    main()
