"""Own code outside the core against the libraries that could replace it.

Quadrature: the normalizer of kernel Student-t densities by :func:`bke.models.log_normalizer` and by
``scipy.integrate.cubature``, at a relative tolerance of 1e-6. The reference is the trapezoid rule
on a fine grid in one column, and ``log_normalizer`` at a tolerance of 1e-10 in two. ``cubature`` is
stopped after as many evaluations as ``log_normalizer`` is allowed, two million.

Resampling: the functions of likelihood-free inference and those of ``blackjax.smc``, whose first
call compiles.

Times are CPU time; both functions of a row are called once before they are timed, so that programs
are compiled, unless the row says "first call".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.inference.data.weighted import systematic
from bke.inference.likelihood_free.results import inverse_epsilon
from bke.models import SquaredExponential, kernel_student_t, log_normalizer
from blackjax.smc import ess, resampling, solver
from scipy.integrate import cubature

TOLERANCE = 1e-6
MAX_EVALUATIONS = 2_000_000
#: Columns, rows and lengthscale of standard normal data.
DENSITIES = ((1, 40, 0.3), (1, 40, 0.01), (1, 100, 0.01), (2, 3, 0.3), (2, 3, 0.03))
GRID = 4_000_000


def timed(function: Callable[[], Any], *, warm: bool = True) -> tuple[Any, float]:
    """Call a function, after another call if ``warm``; return its value and its CPU time."""
    if warm:
        function()
    start = time.process_time()
    value = function()
    return value, time.process_time() - start


def quadrature(columns: int, rows: int, lengthscale: float, grid_size: int) -> list[dict[str, Any]]:
    """Compare the logs of normalizers and their times, for one density."""
    X = np.random.default_rng(0).normal(size=(rows, columns))
    density = kernel_student_t(X, SquaredExponential(lengthscale), noise_variance=0.01)
    low, high = X.min(axis=0) - 1.0, X.max(axis=0) + 1.0
    offset = float(np.max(density.log_density(X)))
    count = 0

    def integrand(at: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(at)
        if count > MAX_EVALUATIONS:
            raise TimeoutError
        return np.asarray(np.exp(np.asarray(density.log_density(at)) - offset))

    def by_cubature(points: list[np.ndarray] | None) -> float | None:
        nonlocal count
        count = 0
        rule = "gk21" if columns == 1 else "genz-malik"
        try:
            result = cubature(
                integrand, low, high, rule=rule, rtol=TOLERANCE, atol=0.0, points=points
            )
        except TimeoutError:
            return None
        if result.status != "converged":
            return None
        with np.errstate(divide="ignore"):
            return float(np.log(result.estimate)) + offset

    def by_log_normalizer() -> float:
        return log_normalizer(density, (low, high), tolerance=TOLERANCE).value

    if columns == 1:
        grid = np.linspace(low[0], high[0], grid_size)
        values = np.concatenate(
            [np.exp(np.asarray(density.log_density(part)) - offset) for part in np.split(grid, 100)]
        )
        reference = float(np.log(np.trapezoid(values, grid))) + offset
    else:
        reference = log_normalizer(density, (low, high), tolerance=1e-10).value
    methods: dict[str, Callable[[], float | None]] = {
        "log_normalizer": by_log_normalizer,
        "cubature": lambda: by_cubature(None),
        "cubature, rows as points": lambda: by_cubature(list(X)),
    }
    table = []
    for name, method in methods.items():
        value, seconds = timed(method)
        table.append(
            {
                "columns": columns,
                "rows": rows,
                "lengthscale": lengthscale,
                "method": name,
                "error of the log integral": None if value is None else abs(value - reference),
                "seconds": seconds,
            }
        )
        print(table[-1], flush=True)
    return table


def weights() -> list[dict[str, Any]]:
    """Compare resampling, and the step of the temperature to a given effective sample size."""
    squared = np.random.default_rng(0).gamma(2.0, size=1000)
    weight = np.exp(-squared)
    weight /= weight.sum()
    rng, key = np.random.default_rng(1), jax.random.key(1)
    traced, particles = jnp.asarray(weight), jnp.asarray(squared)

    def step() -> float:
        delta = ess.ess_solver(lambda x: -x, particles, 0.5, 100.0, solver.dichotomy)
        return float(delta)

    functions: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
        (
            "systematic resampling of 1000",
            lambda: systematic(weight, 1000, rng),
            lambda: np.asarray(resampling.systematic(key, traced, 1000)),
        ),
        ("1 / epsilon for half the sample size", lambda: inverse_epsilon(squared, 500.0), step),
    )
    table = []
    for name, function, library in functions:
        for call, warm in (("first call", False), ("later call", True)):
            seconds = [timed(f, warm=warm)[1] for f in (function, library)]
            row = {
                "task": f"{name}, {call}",
                "bke, ms": 1e3 * seconds[0],
                "BlackJAX, ms": 1e3 * seconds[1],
            }
            table.append(row)
            print(row, flush=True)
    return table


def main() -> None:
    """Measure quadrature and resampling and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    resampled = weights()
    settings = DENSITIES[:1] if options.quick else DENSITIES
    grid_size = GRID // 100 if options.quick else GRID
    integrals = [row for setting in settings for row in quadrature(*setting, grid_size)]
    text = (
        "Normalizers of kernel Student-t densities; a dash: not converged within two million "
        f"evaluations.\n\n{report.table(integrals)}\n\nWeights of likelihood-free inference.\n\n"
        f"{report.table(resampled)}"
    )
    name = "libraries-quick" if options.quick else "libraries"
    title = "Own code against libraries"
    report.save(folder, name, title, info, text, {"integrals": integrals, "weights": resampled})


if __name__ == "__main__":
    main()
