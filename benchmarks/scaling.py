"""Cost of BKE (13) for one column of data as n grows: the spectral route beside n x n matrices.

Data: as many draws as asked for from the distributions of BKE Figures 3 to 5. For each size and
lengthscale the time to prepare the data, and of one value and of one value and gradient afterwards;
the matrices up to the size they can be taken to, where both values are compared. The slope is that
of log time over log n from 10^4 rows on. ``--kernel`` takes another than the squared exponential:
``mixture`` is the sum of three, of the lengthscale, three times and ten times it.
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
#: Rows from which on the slope is taken.
LARGE = 10_000

SPECTRAL, MATRICES = "spectral", "matrices"
#: The kernel of a lengthscale, by its name.
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
    """Measure, compare, write, draw."""
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
            rows += measured(n, options)
    slopes = [slope(rows, lengthscale) for lengthscale in options.lengthscales]
    kernel = "" if options.kernel == "se" else f"-{options.kernel}"
    name = f"scaling{kernel}{'-quick' if options.quick else ''}"
    text = (
        "Best of several, one BLAS thread. `difference` is that of the spectral value from the one "
        f"by matrices, relative.\n\n{report.table(rows)}\n\nSlope of log time over log n from "
        f"{LARGE} rows on:\n\n{report.table(slopes)}"
    )
    data = {"rows": rows, "slopes": slopes}
    title = f"Cost as n grows, one column{kernel.replace('-', ', ')}"
    report.save(folder, name, title, info, text, data)
    draw(rows, folder / f"{name}.png")


def arguments(
    doc: str, sizes: list[int], most_dense: int, seconds: float
) -> argparse.ArgumentParser:
    """Options of a study of cost as n grows, with their defaults."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--lengthscales", type=float, nargs="+")
    parser.add_argument("--most-dense", type=int, default=most_dense, help="rows")
    parser.add_argument("--seconds", type=float, default=seconds, help="per figure")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    return parser


def measured(n: int, options: argparse.Namespace) -> list[Row]:
    """A row for each lengthscale."""
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
    """Compiled value, and value with gradient, of a lengthscale."""

    def value(lengthscale: jax.Array, points: Any) -> jax.Array:
        at = kernel(lengthscale), NOISE_VARIANCE, Unit()
        return sum(likelihood_solver(points, *at, likelihood).likelihood_terms(*at))

    return jax.jit(value), jax.jit(jax.value_and_grad(value))


def best(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> float:
    """Milliseconds of the fastest call after the first."""
    jax.block_until_ready(function(*arguments))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


def slope(rows: list[Row], lengthscale: float) -> Row:
    large = [
        row
        for row in rows
        if row["l"] == lengthscale and row["n"] >= LARGE and row[f"value ms, {SPECTRAL}"]
    ]
    found: Row = {"l": lengthscale}
    for name in (f"value ms, {SPECTRAL}", f"gradient ms, {SPECTRAL}"):
        logs = np.log([[row["n"], row[name]] for row in large])
        found[name] = float(np.polyfit(*logs.T, 1)[0]) if len(large) > 1 else float("nan")
    return found


def draw(rows: list[Row], path: Path) -> None:
    """Milliseconds of a gradient over n, both logarithmic."""
    figure, axes = plt.subplots(figsize=(5.0, 4.2), layout="constrained")
    for color, lengthscale in zip(
        ("C0", "C1", "C3"), sorted({row["l"] for row in rows}), strict=False
    ):
        mine = [row for row in rows if row["l"] == lengthscale]
        for side, style in ((SPECTRAL, "-o"), (MATRICES, "--s")):
            pairs = [(row["n"], row[f"gradient ms, {side}"]) for row in mine]
            known = [pair for pair in pairs if pair[1] is not None]
            label = f"{side}, lengthscale {lengthscale:g}"
            axes.loglog(*np.array(known).T, style, color=color, ms=4, label=label)
    axes.set(xlabel="rows", ylabel="value and gradient, ms")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
