"""Error and cost of the low-rank likelihoods in ten columns, compared with n x n matrices.

Columns are independent, normal or Student t with 4 degrees of freedom. There are five lengthscales:
the maximum and quantiles 0.1 to 0.9 of a normal posterior with the curvature there. `error` is the
root mean square error of the log likelihood less its mean over these five, in nats, to which a
posterior is sensitive, and `estimate` is its reported estimate; `error of value` and its estimate
are those at the maximum; `bound` is the error bound of the determinant before its correction.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.inference.core.machine import computing
from bke.models import Fourier, LowRankError, Nystrom, SquaredExponential, Unit
from bke.models.likelihood.low_rank import error_of_differences, standard_error
from bke.models.likelihood.marginal import likelihood_solver
from scipy.optimize import minimize_scalar
from scipy.stats import norm

NOISE_VARIANCE, COLUMNS = 0.1, 10
QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)

Row = dict[str, Any]


@jax.jit
def value(lengthscale: jax.Array, points: Any) -> jax.Array:
    """Return the log marginal likelihood, BKE (13), by the solver of the points."""
    at = SquaredExponential(lengthscale), NOISE_VARIANCE, Unit()
    return sum(likelihood_solver(points, *at, "dense").likelihood_terms(*at))


gradient = jax.jit(jax.value_and_grad(value))


def main() -> None:
    """Measure errors and cost and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[600, 2000, 5000])
    parser.add_argument("--ranks", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--large", type=int, nargs="+", default=[20_000, 50_000])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.ranks, options.large = [400], [100], [2000]
    info, folder = report.start(options.results)
    with computing():
        # First, since the peak of memory is that of the process.
        sizes = [(n, rank) for n in options.large for rank in options.ranks[-2:]]
        large = [uncompared_row(n, rank) for n, rank in sizes if n * rank <= 2e7]
        compared = [
            row
            for name in ("normal", "Student t")
            for n in options.sizes
            for row in comparison_rows(name, n, options.ranks)
        ]
    text = (
        f"{__doc__.split(chr(10), 2)[2].strip()}\n\n{report.table(compared)}\n\nWhere matrices do "
        f"not fit, normal columns; the peak of memory is that of the process:\n\n"
        f"{report.table(large)}"
    )
    name = "low_rank-quick" if options.quick else "low_rank"
    data = {"rows": compared, "large": large}
    report.save(folder, name, "Low-rank likelihoods, ten columns", info, text, data)


def sample(name: str, n: int) -> np.ndarray:
    """Draw rows (n, 10), every column divided by its standard deviation."""
    rng = np.random.default_rng(n)
    shape = (n, COLUMNS)
    X = rng.normal(size=shape) if name == "normal" else rng.standard_t(4, size=shape)
    return X / X.std(axis=0)


def around_maximum(points: Any) -> np.ndarray:
    """Return the five lengthscales."""

    def negative(log_lengthscale: float) -> float:
        return -float(value(np.exp(log_lengthscale), points))

    top = minimize_scalar(negative, bounds=(0.7, 1.8), method="bounded", options={"xatol": 1e-3}).x
    step = 0.03
    curvature = (negative(top + step) - 2.0 * negative(top) + negative(top - step)) / step**2
    return np.exp(top + norm.ppf(QUANTILES) / np.sqrt(curvature))


def estimated(solver: Any, lengthscales: np.ndarray) -> tuple[float, LowRankError]:
    """Return the error estimates of the differences and of the value at the middle lengthscale."""
    terms = [
        solver.error_terms(SquaredExponential(at), NOISE_VARIANCE, "unit") for at in lengthscales
    ]
    middle = terms[len(terms) // 2]
    value_error = LowRankError(
        float(standard_error(middle.influence, middle.rows)),
        float(np.abs(middle.truncation).sum()),
        0.5 * middle.remainder / NOISE_VARIANCE,
    )
    return error_of_differences([terms]).size, value_error


def comparison_rows(name: str, n: int, ranks: list[int]) -> list[Row]:
    """Return a row for the dense likelihood and one for each low-rank likelihood and rank."""
    X = sample(name, n)
    kernel = SquaredExponential(1.0)
    pilot = Nystrom(min(300, n)).solver(X, kernel, NOISE_VARIANCE, "unit")
    lengthscales = around_maximum(pilot)
    exact = np.array([float(value(at, jnp.asarray(X))) for at in lengthscales])
    setting = {"data": name, "n": n, "lengthscale": float(lengthscales[2])}
    rows = [{**setting, "likelihood": "dense", "rank": None, **dict.fromkeys(COLUMN_NAMES)}]
    rows[0] |= timed(lengthscales[2], jnp.asarray(X))
    for kind in (Nystrom, Fourier):
        for rank in ranks:
            if rank > n:
                continue
            solver = kind(rank).solver(X, kernel, NOISE_VARIANCE, "unit")
            error = np.array([float(value(at, solver)) for at in lengthscales]) - exact
            of_differences, of_value = estimated(solver, lengthscales)
            row: Row = {**setting, "likelihood": kind.name, "rank": rank}
            row["error"] = float(error.std())
            row["estimate"] = of_differences
            row["error of value"] = float(abs(error[2]))
            row["its estimate"] = of_value.size
            row["bound"] = of_value.determinant_bound if kind is Nystrom else None
            row |= timed(
                lengthscales[2], solver, with_gradient=kind is Nystrom and rank == ranks[0]
            )
            rows.append(row)
            print(", ".join(f"{k} {report.cell(v)}" for k, v in row.items()), flush=True)
    return rows


COLUMN_NAMES = ("error", "estimate", "error of value", "its estimate", "bound")


def uncompared_row(n: int, rank: int) -> Row:
    """Measure time, memory and the estimated error at sizes that are too large for matrices."""
    X = sample("normal", n)
    begin = time.perf_counter()
    solver = Nystrom(rank).solver(X, SquaredExponential(1.0), NOISE_VARIANCE, "unit")
    row: Row = {"n": n, "likelihood": "nystrom", "rank": rank}
    row["prepare s"] = time.perf_counter() - begin
    # The posterior's standard deviation is extrapolated from smaller samples: 0.52 / sqrt(n).
    lengthscales = np.exp(np.log(3.3) + 0.52 / np.sqrt(n) * norm.ppf(QUANTILES))
    row["estimate"], of_value = estimated(solver, lengthscales)
    row["its estimate"] = of_value.size
    row |= timed(lengthscales[2], solver, with_gradient=rank * n < 1e7)
    row["peak GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(", ".join(f"{k} {report.cell(v)}" for k, v in row.items()), flush=True)
    return row


def timed(lengthscale: float, points: Any, with_gradient: bool = True) -> Row:
    """Time one value, and one value with its gradient."""
    return {
        "value s": _best(value, lengthscale, points),
        "gradient s": _best(gradient, lengthscale, points) if with_gradient else None,
    }


def _best(function: Callable[..., Any], lengthscale: float, points: Any) -> float:
    """Return the seconds of the faster of two calls after the first."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        jax.block_until_ready(function(jnp.asarray(lengthscale), points))
        times.append(time.perf_counter() - begin)
    return min(times[1:])


if __name__ == "__main__":
    main()
