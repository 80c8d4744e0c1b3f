"""Cost of BKE (13) for two columns of data as n grows: the spectral solver and n x n matrices.

The data are draws from the 3 x 3 grid of unit Gaussians of BKE Figure 2, at a distance of six. For
each size and lengthscale the benchmark measures the time to prepare the data, of one value, and of
one value with gradient, and the size of the basis. Up to ``--most-dense`` rows both terms are
compared with those of the dense solver, and log gamma at every point. The slope is that of log time
over log n from 10^4 rows on. ``--columns 3`` does the same for three columns.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.inference.core.machine import computing
from bke.models import SquaredExponential, log_jacobian
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import spectral_index
from scaling import LARGE, NOISE_VARIANCE, Row, arguments, best, functions, slope


def main() -> None:
    """Measure all sizes and write the table."""
    parser = arguments(__doc__, [1000, 4000, 10_000, 30_000, 100_000], 4000, 3.0)
    parser.set_defaults(lengthscales=[0.7, 1.4, 5.0])
    parser.add_argument("--columns", type=int, default=2, choices=(2, 3))
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.most_dense, options.seconds = [1000, 10_000], 1000, 0.2
    info, folder = report.start(options.results)
    rows: list[Row] = []
    with computing():
        for n in options.sizes:
            rows += measure(n, options)
    slope_rows = [slope(rows, lengthscale) for lengthscale in options.lengthscales]
    name = f"scaling-{options.columns}d{'-quick' if options.quick else ''}"
    text = (
        "Best of several calls, one BLAS thread; a dash means that the solver is not used. `m` is "
        "the size of the basis. `difference` is the relative difference between the spectral and "
        "the dense Gaussian term, and `of log gamma` the largest difference at any point, divided "
        "by max(1, |log gamma|).\n\n"
        f"{report.table(rows)}\n\nSlope of log time over log n from {LARGE} rows on:\n\n"
        f"{report.table(slope_rows)}"
    )
    data = {"rows": rows, "slopes": slope_rows}
    title = f"Cost as n grows, {options.columns} columns"
    report.save(folder, name, title, info, text, data)


def sample(n: int, columns: int) -> np.ndarray:
    """Draw rows (n, D) from a grid of Gaussians."""
    rng = np.random.default_rng(0)
    return 6.0 * rng.integers(0, 3, size=(n, columns)) + rng.normal(size=(n, columns))


def measure(n: int, options: argparse.Namespace) -> list[Row]:
    """Measure one size and return a row for each lengthscale."""
    X = sample(n, options.columns)
    begin = time.perf_counter()
    index: Any = jax.tree.map(jnp.asarray, spectral_index(X))
    prepared = time.perf_counter() - begin
    extent = float(np.ptp(X, axis=0).max())
    (value, gradient), (exact, _) = functions("auto"), functions("dense")
    rows = []
    for lengthscale in options.lengthscales:
        at = jnp.asarray(lengthscale)
        use_spectral = lengthscale >= index.shortest
        row: Row = {"n": n, "l": lengthscale, "extent / l": extent / lengthscale}
        row |= {"m": None, "prepare s": prepared}
        columns = ("value ms, spectral", "gradient ms, spectral", "value ms, matrices")
        row |= dict.fromkeys((*columns, "difference", "of log gamma"))
        if use_spectral:
            row["m"] = int(np.sum(index.ranges[int(index.range_of(at))].basis.used))
            row[columns[0]] = best(value, (at, index), options.seconds)
            row[columns[1]] = best(gradient, (at, index), options.seconds)
        if n <= options.most_dense:
            row[columns[2]] = best(exact, (at, index.rows.points), options.seconds)
            if use_spectral:
                row |= differences(index, at)
        row["peak GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(row)
        print(", ".join(f"{name} {report.cell(entry)}" for name, entry in row.items()), flush=True)
    return rows


def differences(index: Any, lengthscale: jax.Array) -> Row:
    """Return the differences from the dense terms."""
    kernel = SquaredExponential(lengthscale)
    gaussian = index.likelihood_terms(kernel, NOISE_VARIANCE, "unit").gaussian
    spectral = index.sums(kernel, NOISE_VARIANCE).log_jacobian
    exact = dense_terms(index.rows, kernel, NOISE_VARIANCE, "unit", low_rank=False)
    expected = np.asarray(log_jacobian(index.rows.points, kernel))
    error = np.abs(np.asarray(spectral) - expected) / np.maximum(1.0, np.abs(expected))
    return {
        "difference": abs(float(gaussian / exact.gaussian) - 1.0),
        "of log gamma": float(error.max()),
    }


if __name__ == "__main__":
    main()
