"""Milliseconds per value and gradient of the log marginal likelihood, BKE (13).

All methods run in this process, in turn, so that changes of the machine's speed affect all of them:

- ``bke auto``, ``bke dense``, ``bke spectral``: this package, by its likelihood solvers, for traced
  data (``auto`` then uses a low-rank factor of R) and, for ``spectral``, for concrete data;
- ``plain``: ``plain_model.py``, reverse mode through the Cholesky factor;
- ``potrf+potri``: LAPACK's Cholesky factor and inverse of R + sigma^2 I only, which each dense
  gradient needs. It excludes building K and R, and the weights.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import plain_model
import report
from bke.inference.data.samples import normal_laplace
from bke.models import SquaredExponential, log_marginal_likelihood
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits

REFERENCE = "potrf+potri"
NOISE_VARIANCE = 0.1
#: Least number of rows of the spectral solver.
MIN_SPECTRAL_ROWS = 250
#: Threads of the BLAS library: 1, as ``fit`` sets for its chains, or the default of the library.
THREADS: Mapping[str, int | None] = {"one": 1, "all": None}
#: Seconds before each call: idle threads of a BLAS library wait for work at full load for some
#: hundredths of a second, and use a core during the next call.
PAUSE = 0.15

Call = Callable[[], Any]


def main() -> None:
    """Measure all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 600, 1200, 2400])
    parser.add_argument(
        "--columns",
        type=int,
        default=1,
        help="more than 1: normal data, by bke dense and plain only",
    )
    parser.add_argument("--lengthscales", type=float, nargs="+", default=[0.5, 3.0])
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="per size, lengthscale and number of threads"
    )
    parser.add_argument(
        "--min-rounds",
        type=int,
        default=7,
        help="minimum number of rounds, even if that exceeds --seconds",
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.columns < 1:
        parser.error("--columns must be at least 1")
    if any(n % 6 for n in options.sizes):
        parser.error("--sizes must be multiples of 6: the built-in data have six components")
    if options.quick:
        options.sizes, options.seconds, options.min_rounds = [120, 300], 0.5, 3
    jax.config.update("jax_enable_x64", True)
    info, folder = report.start(options.results)
    rows = []
    for n in options.sizes:
        x = data(n, options.columns)
        for lengthscale in options.lengthscales:
            sides = gradients(x, lengthscale)
            check_agreement(sides)
            calls = {**sides, REFERENCE: lapack(x, lengthscale)}
            for threads, num_threads in THREADS.items():
                with (
                    threadpool_limits(num_threads, "blas")
                    if num_threads
                    else contextlib.nullcontext()
                ):
                    times = interleaved(calls, options.seconds, options.min_rounds)
                rows += summary(
                    times, {"n": n, "D": options.columns, "l": lengthscale, "BLAS threads": threads}
                )
                message = ", ".join(
                    f"{r['side']} {r['median ms']:.3g} ms" for r in rows[-len(calls) :]
                )
                print(f"n {n}, l {lengthscale:g}, BLAS threads {threads}: {message}", flush=True)
    name = "gradient" if options.columns == 1 else f"gradient-{options.columns}-columns"
    name += "-quick" if options.quick else ""
    explanation = (
        f"Milliseconds per value and gradient of BKE (13). Ratios are medians over the median of "
        f"`{REFERENCE}` in the same rounds. `CPU ms` is summed over cores: the cost of a chain "
        "while other chains use the other cores."
    )
    text = f"{explanation}\n\n{report.table(rows)}"
    report.save(folder, name, "Value and gradient", info, text, {"rows": rows})


def data(n: int, columns: int) -> np.ndarray:
    """Return the built-in data (n, 1), or standard normal rows (n, ``columns``)."""
    if columns == 1:
        return np.concatenate(normal_laplace(seed=0, per_component=n // 6))
    return np.random.default_rng(0).normal(size=(n, columns))


def gradients(x: np.ndarray, lengthscale: float) -> dict[str, Call]:
    """Return compiled value-and-gradient functions at data (n, D), by method."""
    points, scale = jnp.asarray(x), jnp.asarray(lengthscale)

    def package(likelihood: str) -> Call:
        def value(scale: jax.Array, points: jax.Array) -> jax.Array:
            return log_marginal_likelihood(
                x if likelihood == "spectral" else points,
                SquaredExponential(scale),
                noise_variance=NOISE_VARIANCE,
                likelihood=likelihood,
            )

        compiled = jax.jit(jax.value_and_grad(value))
        return lambda: jax.block_until_ready(compiled(scale, points))

    if x.shape[1] > 1:
        return {"bke dense": package("dense"), "plain": plain_in_columns(points, scale)}
    plain = jax.jit(jax.value_and_grad(plain_model.log_marginal_likelihood))
    return {
        "bke auto": package("auto"),
        "bke dense": package("dense"),
        **({"bke spectral": package("spectral")} if len(x) >= MIN_SPECTRAL_ROWS else {}),
        "plain": lambda: jax.block_until_ready(plain(scale, points[:, 0], NOISE_VARIANCE)),
    }


def plain_in_columns(points: jax.Array, scale: jax.Array) -> Call:
    """Return the function of ``plain`` for ``points`` (n, D), as in ``plain_model.py``."""

    def value(scale: jax.Array) -> jax.Array:
        n = len(points)
        delta = (points[:, None] - points[None]) / scale
        squares = jnp.sum(delta**2, axis=-1)
        K, R = jnp.exp(-squares / 2), jnp.exp(-squares / 4)
        mu_hat = jnp.mean(K, axis=1)
        gradient = jnp.einsum("ij,ijd->id", K, delta) / (n * scale)
        factor = jnp.linalg.cholesky(R + NOISE_VARIANCE * jnp.eye(n))
        whitened = jax.scipy.linalg.solve_triangular(factor, mu_hat, lower=True)
        gaussian = -0.5 * (whitened @ whitened + n * jnp.log(2 * jnp.pi))
        gaussian = gaussian - jnp.sum(jnp.log(jnp.diagonal(factor)))
        return gaussian + 0.5 * jnp.sum(jnp.log(jnp.sum(gradient**2, axis=1)))

    compiled = jax.jit(jax.value_and_grad(value))
    return lambda: jax.block_until_ready(compiled(scale))


def check_agreement(sides: Mapping[str, Call]) -> None:
    """Check that all methods compute the same value and gradient."""
    value, gradient = sides["plain"]()
    for side, call in sides.items():
        np.testing.assert_allclose(call()[0], value, rtol=1e-8, err_msg=f"value of {side}")
        np.testing.assert_allclose(
            call()[1], gradient, rtol=1e-6, atol=1e-6, err_msg=f"gradient of {side}"
        )


def lapack(x: np.ndarray, lengthscale: float) -> Call:
    """Return a call that factors and inverts R + sigma^2 I, in a copy made before timing."""
    R = np.exp(-sum((c[:, None] - c) ** 2 for c in x.T) / (4 * lengthscale**2))
    covariance = np.asfortranarray(R + NOISE_VARIANCE * np.eye(len(x)))
    work = np.empty_like(covariance, order="F")

    def call() -> np.ndarray:
        factor, failed = dpotrf(work, lower=1, clean=0, overwrite_a=1)
        inverse, failed_too = dpotri(factor, lower=1, overwrite_c=1)
        assert failed == failed_too == 0
        assert np.shares_memory(inverse, work), "LAPACK worked on a copy, which costs time"
        return inverse

    call.prepare = lambda: np.copyto(work, covariance)  # type: ignore[attr-defined]
    return call


def interleaved(
    calls: Mapping[str, Call], seconds: float, min_rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Measure (elapsed, processor) seconds of all calls, in turn, round by round."""
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in calls}
    begin = time.perf_counter()
    rounds = -1  # the first round is a warmup and is not recorded
    while rounds < min_rounds or time.perf_counter() - begin < seconds:
        for side, call in calls.items():
            getattr(call, "prepare", lambda: None)()
            time.sleep(PAUSE)
            elapsed, processor = time.perf_counter(), time.process_time()
            call()
            elapsed, processor = time.perf_counter() - elapsed, time.process_time() - processor
            if rounds >= 0:
                times[side].append((elapsed, processor))
        rounds += 1
    return times


def summary(
    times: Mapping[str, list[tuple[float, float]]], labels: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a row for each method, in milliseconds."""
    milliseconds = {side: 1e3 * np.array(values) for side, values in times.items()}
    reference = np.median(milliseconds[REFERENCE], axis=0)
    rows = []
    for side, values in milliseconds.items():
        median = np.median(values, axis=0)
        rows.append(
            {
                **labels,
                "side": side,
                "median ms": float(median[0]),
                "min ms": float(values[:, 0].min()),
                f"over {REFERENCE}": float(median[0] / reference[0]),
                "CPU ms": float(median[1]),
                f"CPU over {REFERENCE}": float(median[1] / reference[1]),
                "rounds": len(values),
            }
        )
    return rows


if __name__ == "__main__":
    main()
