"""Value and gradient of the likelihoods on a GPU, beside the processor of the same machine.

The dense likelihood (BKE (13), three columns) and the landmark likelihood (ten columns, 256
landmarks), in double precision, and what each costs in memory where that is the limit. Every number
of the GPU is held against the processor's, each in a process of its own.
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
#: Of the lengthscale, so that no call is of the numbers of the one before.
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
    points, places = rng.normal(size=(n, 10)), rng.normal(size=(256, 10))
    view = jax.device_put(landmark_data(jnp.asarray(points), jnp.asarray(places)), device)

    def value(lengthscale: jax.Array, view: LandmarkData) -> jax.Array:
        return sum(view.likelihood_terms(SquaredExponential(lengthscale), NOISE_VARIANCE, "unit"))

    compiled = jax.jit(jax.value_and_grad(value))
    return lambda at: compiled(jax.device_put(jnp.asarray(at), device), view)


#: What is measured, at a lengthscale and for how many rows.
LIKELIHOODS: dict[str, tuple[Callable[[int, Any], Call], float, tuple[int, ...]]] = {
    "dense, 3 columns": (dense, 0.7, (1200, 2400, 4800, 9600)),
    "landmarks, 10 columns": (landmarks, 3.0, (10_000, 100_000, 1_000_000)),
}


def seconds(call: Call, at: float, calls: int) -> tuple[float, float, np.ndarray]:
    """Of the first call, which compiles, and the best of the others; value and slope."""
    begin = time.perf_counter()
    found = np.array(jax.block_until_ready(call(at)))
    first, each = time.perf_counter() - begin, []
    for index in range(calls):
        begin = time.perf_counter()
        jax.block_until_ready(call(at + STEP * (1 + index)))
        each.append(time.perf_counter() - begin)
    return first, min(each), found


def measured(name: str, n: int, calls: int) -> dict[str, Any]:
    """Seconds and numbers of one likelihood on this process's device."""
    jax.config.update("jax_enable_x64", True)
    made, at, _ = LIKELIHOODS[name]
    first, best, found = seconds(made(n, jax.devices()[0]), at, calls)
    kind = jax.devices()[0].device_kind
    return {"kind": kind, "first s": first, "ms": 1e3 * best, "found": found.tolist()}


def main() -> None:
    """Measure, compare, write."""
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
    told = "no GPU here"
    for name, (_, _, sizes) in LIKELIHOODS.items():
        for n in sizes[:1] if options.quick else sizes:
            row: dict[str, Any] = {"likelihood": name, "n": n}
            found = {
                device: report.child(__file__, name, n, options.calls, environment=environment)
                for device, environment in devices.items()
            }
            for device, one in found.items():
                row |= {f"{device} first s": one["first s"], f"{device} ms": one["ms"]}
            if "GPU" in found:
                told = found["GPU"]["kind"]
                each = [np.array(one["found"]) for one in found.values()]
                apart = float(np.abs(each[1] / each[0] - 1.0).max())
                row |= {"times": row["processor ms"] / row["GPU ms"], "apart": apart}
                assert apart < 1e-6, f"{name}, n = {n}: {found}"
            rows.append(row)
            print(row, flush=True)
    text = (
        f"GPU: {told}. Best of {options.calls} calls after the first, which compiles; `apart` is "
        f"the largest relative difference of value and slope.\n\n{report.table(rows)}"
    )
    name = "accelerator-quick" if options.quick else "accelerator"
    report.save(folder, name, "Value and gradient on a GPU", info, text, {"rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measured(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        main()
