"""Time value and gradient of the likelihoods on a GPU and on the processor of the same machine.

The dense likelihood (BKE (13), three columns) and the landmark likelihood (ten columns, 256
landmarks) are evaluated in double precision. Each device is measured in a separate process, and
every number of the GPU is compared with the processor's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.models import SquaredExponential, log_marginal_likelihood
from bke.models.likelihood.landmark import LandmarkData, landmark_data

NOISE_VARIANCE = 0.1
#: Increment of the lengthscale between calls, so that no call repeats the previous one.
STEP = 0.01

Call = Callable[[float], tuple[jax.Array, jax.Array]]


def dense(n: int, device: Any) -> Call:
    """Value and gradient of the dense likelihood of three columns."""
    points = jax.device_put(np.random.default_rng(0).normal(size=(n, 3)), device)

    def value(lengthscale: jax.Array, points: jax.Array) -> jax.Array:
        return log_marginal_likelihood(
            points,
            SquaredExponential(lengthscale),
            noise_variance=NOISE_VARIANCE,
            likelihood="dense",
        )

    compiled = jax.jit(jax.value_and_grad(value))
    return lambda at: compiled(jax.device_put(jnp.asarray(at), device), points)


def landmarks(n: int, device: Any) -> Call:
    """Value and gradient of the landmark likelihood of ten columns."""
    rng = np.random.default_rng(0)
    points, landmark_points = rng.normal(size=(n, 10)), rng.normal(size=(256, 10))
    data = jax.device_put(landmark_data(jnp.asarray(points), jnp.asarray(landmark_points)), device)

    def value(lengthscale: jax.Array, data: LandmarkData) -> jax.Array:
        return sum(data.likelihood_terms(SquaredExponential(lengthscale), NOISE_VARIANCE, "unit"))

    compiled = jax.jit(jax.value_and_grad(value))
    return lambda at: compiled(jax.device_put(jnp.asarray(at), device), data)


#: By name of a likelihood: the function that prepares it, the lengthscale, and numbers of rows.
LIKELIHOODS: dict[str, tuple[Callable[[int, Any], Call], float, tuple[int, ...]]] = {
    "dense, 3 columns": (dense, 0.7, (1200, 2400, 4800, 9600)),
    "landmarks, 10 columns": (landmarks, 3.0, (10_000, 100_000, 1_000_000)),
}


def time_calls(call: Call, at: float, calls: int) -> tuple[float, float, np.ndarray]:
    """Return the seconds of the first call, which compiles, the best of the others, and the result.

    The result is the value and its gradient.
    """
    begin = time.perf_counter()
    result = np.array(jax.block_until_ready(call(at)))
    first, times = time.perf_counter() - begin, []
    for index in range(calls):
        begin = time.perf_counter()
        jax.block_until_ready(call(at + STEP * (1 + index)))
        times.append(time.perf_counter() - begin)
    return first, min(times), result


def measure(name: str, n: int, calls: int) -> dict[str, Any]:
    """Time one likelihood on this process's device; the result is part of the returned record."""
    jax.config.update("jax_enable_x64", True)
    likelihood, at, _ = LIKELIHOODS[name]
    first, best, result = time_calls(likelihood(n, jax.devices()[0]), at, calls)
    kind = jax.devices()[0].device_kind
    return {"kind": kind, "first s": first, "ms": 1e3 * best, "result": result.tolist()}


def main() -> None:
    """Measure both devices, compare their numbers and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=3, help="after the first; the best counts")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    devices: dict[str, dict[str, str]] = {"processor": {"JAX_PLATFORMS": "cpu"}}
    if jax.default_backend() != "cpu":
        devices["GPU"] = {}
    rows: list[dict[str, Any]] = []
    gpu = "no GPU here"
    for name, (_, _, sizes) in LIKELIHOODS.items():
        for n in sizes[:1] if options.quick else sizes:
            row: dict[str, Any] = {"likelihood": name, "n": n}
            results = {
                device: report.child(__file__, name, n, options.calls, environment=environment)
                for device, environment in devices.items()
            }
            for device, result in results.items():
                row |= {f"{device} first s": result["first s"], f"{device} ms": result["ms"]}
            if "GPU" in results:
                gpu = results["GPU"]["kind"]
                values = [np.array(result["result"]) for result in results.values()]
                difference = float(np.abs(values[1] / values[0] - 1.0).max())
                row |= {"times": row["processor ms"] / row["GPU ms"], "apart": difference}
                assert difference < 1e-6, f"{name}, n = {n}: {results}"
            rows.append(row)
            print(row, flush=True)
    text = (
        f"GPU: {gpu}. Best of {options.calls} calls after the first, which compiles; `apart` is "
        f"the largest relative difference of value and gradient.\n\n{report.table(rows)}"
    )
    name = "accelerator-quick" if options.quick else "accelerator"
    report.save(folder, name, "Value and gradient on a GPU", info, text, {"rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        main()
