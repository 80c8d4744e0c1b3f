"""Cost of BKE (13) for one column of data as n grows: the spectral solver and n x n matrices.

The data are draws from the distributions of BKE Figures 3 to 5. For each size and lengthscale the
benchmark measures the time to prepare the data, of one value, and of one value with gradient. The
dense solver is measured up to ``--most-dense`` rows, and both values are compared. The slope is
that of log time over log n from 10^4 rows on. ``--kernel`` selects another kernel than the squared
exponential: ``mixture`` is the sum of three, with 1, 3 and 10 times the lengthscale.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import report
from bke.inference.core.machine import computing
from bke.inference.data.samples import normal_laplace
from bke.models import Laplace, Matern, SquaredExponential, Unit
from bke.models.kernels.base import Kernel
from bke.models.likelihood.marginal import likelihood_solver
from bke.models.likelihood.spectral import spectral_index

NOISE_VARIANCE = 0.1
#: Smallest number of rows that is used for the slope.
LARGE = 10_000

SPECTRAL, MATRICES = "spectral", "matrices"
#: Functions from a lengthscale to a kernel, by name.
KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "se": SquaredExponential,
    "laplace": Laplace,
    **{f"matern{round(2 * nu)}2": partial(Matern, nu) for nu in (0.5, 1.5, 2.5)},
    "mixture": lambda shortest: reduce(
        add, [SquaredExponential(ratio * shortest) for ratio in (1.0, 3.0, 10.0)]
    ),
}

Row = dict[str, Any]


def main() -> None:
    """Measure all sizes and write the table and the plot."""
    parser = arguments(__doc__, [1000, 3000, 10_000, 30_000, 100_000, 1_000_000], 3000, 5.0)
    parser.set_defaults(lengthscales=[0.05, 0.5, 3.0])
    parser.add_argument("--kernel", choices=KERNELS, default="se")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.most_dense, options.seconds = [600, 20_000], 600, 0.2
    info, folder = report.start(options.results)
    rows: list[Row] = []
    with computing():
        for n in options.sizes:
            rows += measure(n, options)
    slope_rows = [slope(rows, lengthscale) for lengthscale in options.lengthscales]
    kernel = "" if options.kernel == "se" else f"-{options.kernel}"
    name = f"scaling{kernel}{'-quick' if options.quick else ''}"
    text = (
        "Best of several calls, one BLAS thread. `difference` is the relative difference between "
        f"the spectral and the dense value.\n\n{report.table(rows)}\n\nSlope of log time over "
        f"log n from {LARGE} rows on:\n\n{report.table(slope_rows)}"
    )
    data = {"rows": rows, "slopes": slope_rows}
    title = f"Cost as n grows, one column{kernel.replace('-', ', ')}"
    report.save(folder, name, title, info, text, data)
    draw(rows, folder / f"{name}.png")


def arguments(
    doc: str, sizes: list[int], most_dense: int, seconds: float
) -> argparse.ArgumentParser:
    """Return a parser with the options of a benchmark of cost by n, and their defaults."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--lengthscales", type=float, nargs="+")
    parser.add_argument("--most-dense", type=int, default=most_dense, help="rows")
    parser.add_argument("--seconds", type=float, default=seconds, help="per figure")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    return parser


def measure(n: int, options: argparse.Namespace) -> list[Row]:
    """Measure one size and return a row for each lengthscale."""
    X = np.concatenate(normal_laplace(seed=0, per_component=-(-n // 6)))[:n]
    begin = time.perf_counter()
    kernel = KERNELS[options.kernel]
    index = jax.tree.map(jnp.asarray, spectral_index(X, kernel(1.0)))
    prepared = time.perf_counter() - begin
    rows = []
    for lengthscale in options.lengthscales:
        at = jnp.asarray(lengthscale)
        value, gradient = functions("auto", kernel)
        row: Row = {"n": n, "l": lengthscale, "prepare s": prepared}
        row[f"value ms, {SPECTRAL}"] = best(value, (at, index), options.seconds)
        row[f"gradient ms, {SPECTRAL}"] = best(gradient, (at, index), options.seconds)
        columns = (f"value ms, {MATRICES}", f"gradient ms, {MATRICES}", "difference")
        row |= dict.fromkeys(columns)
        if n <= options.most_dense:
            points = jnp.asarray(X)
            exact, exact_gradient = functions("dense", kernel)
            row[columns[0]] = best(exact, (at, points), options.seconds)
            row[columns[1]] = best(exact_gradient, (at, points), options.seconds)
            row[columns[2]] = abs(float(value(at, index) / exact(at, points)) - 1.0)
        row["peak GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(row)
        print(", ".join(f"{name} {report.cell(entry)}" for name, entry in row.items()), flush=True)
    return rows


def functions(
    likelihood: str, kernel: Callable[[Any], Kernel] = SquaredExponential
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return compiled functions of a lengthscale: the value, and the value with its gradient."""

    def value(lengthscale: jax.Array, points: Any) -> jax.Array:
        at = kernel(lengthscale), NOISE_VARIANCE, Unit()
        return sum(likelihood_solver(points, *at, likelihood).likelihood_terms(*at))

    return jax.jit(value), jax.jit(jax.value_and_grad(value))


def best(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> float:
    """Return the milliseconds of the fastest call after the first."""
    jax.block_until_ready(function(*arguments))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def slope(rows: list[Row], lengthscale: float) -> Row:
    """Return the slopes of log time over log n at one lengthscale."""
    large = [
        row
        for row in rows
        if row["l"] == lengthscale and row["n"] >= LARGE and row[f"value ms, {SPECTRAL}"]
    ]
    exponents: Row = {"l": lengthscale}
    for name in (f"value ms, {SPECTRAL}", f"gradient ms, {SPECTRAL}"):
        logs = np.log([[row["n"], row[name]] for row in large])
        exponents[name] = float(np.polyfit(*logs.T, 1)[0]) if len(large) > 1 else float("nan")
    return exponents


def draw(rows: list[Row], path: Path) -> None:
    """Plot the milliseconds of a value with gradient by n, log-log."""
    figure, axes = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    for color, lengthscale in zip(
        ("C0", "C1", "C3"), sorted({row["l"] for row in rows}), strict=False
    ):
        selected = [row for row in rows if row["l"] == lengthscale]
        for side, style in ((SPECTRAL, "-o"), (MATRICES, "--s")):
            pairs = [(row["n"], row[f"gradient ms, {side}"]) for row in selected]
            known = [pair for pair in pairs if pair[1] is not None]
            label = f"{side}, lengthscale {lengthscale:g}"
            axes.loglog(*np.array(known).T, style, color=color, ms=4, label=label)
    axes.set(xlabel="rows", ylabel="value and gradient, ms")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
