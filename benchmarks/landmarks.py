"""Cost of the landmark model as n grows, ten columns and 256 landmarks: in memory, from a file,
and by two processes.

Every line is measured in processes of its own, so that peak memory is that of what it did. From a
file the rows are gone through once for eight lengthscales, which are summed side by side. Two
processes share the rows of one likelihood on the same cores that the one process has.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.inference import open_rows
from bke.inference.core import distributed
from bke.inference.core.machine import computing
from bke.inference.streams.checkpoint import Checkpoint
from bke.inference.streams.passes import sums_over_rows
from bke.models import SquaredExponential
from bke.models.likelihood.landmark import LandmarkData, landmark_data

DIMENSION, LANDMARKS, LENGTHSCALE, NOISE_VARIANCE = 10, 256, 3.0, 0.1
KERNELS = 8
#: Calls after the first, of which the fastest counts.
CALLS = 3

Row = dict[str, Any]


def main() -> None:
    """Measure each line in processes of its own, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--together", type=int, default=100_000, help="rows of two processes")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--line", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.line:
        kind, n, *more = options.line
        with computing():
            print(json.dumps(LINES[kind](int(n), *more)))
        return
    if options.quick:
        options.sizes, options.together = [2000, 5000], 5000
    info, folder = report.start(options.results)
    in_memory = [line("memory", n) for n in options.sizes]
    with tempfile.TemporaryDirectory() as place:
        from_file = [line("file", n, place) for n in options.sizes]
    alone, *both = side_by_side(options.together)
    processes = [{"processes": 1, **alone}, {"processes": 2, **both[0]}]
    ratio = alone["gradient s"] / both[0]["gradient s"]
    name = "landmarks-quick" if options.quick else "landmarks"
    text = (
        f"{DIMENSION} columns, {LANDMARKS} landmarks, best of {CALLS} calls.\n\nIn memory:\n\n"
        f"{report.table(in_memory)}\n\nFrom an NPY file, one pass for {KERNELS} lengthscales:\n\n"
        f"{report.table(from_file)}\n\n{options.together} rows shared by processes on the same "
        f"cores: two do {ratio:.2f} times what one does.\n\n{report.table(processes)}"
    )
    data = {"memory": in_memory, "file": from_file, "processes": processes}
    report.save(folder, name, "Cost of the landmark model as n grows", info, text, data)


def line(*arguments: Any) -> Row:
    """What a process of its own measured."""
    (found,) = finished([started(*arguments)])
    print(arguments, found, flush=True)
    return found


def started(*arguments: Any) -> subprocess.Popen[str]:
    """A process that measures."""
    command = [sys.executable, __file__, "--line", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(processes: list[subprocess.Popen[str]]) -> list[Row]:
    """What they print last."""
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a process failed")
    return [json.loads(text.splitlines()[-1]) for text in said]


def side_by_side(n: int) -> list[Row]:
    """A gradient by one process, and by two at once."""
    with socket.socket() as some:
        some.bind(("localhost", 0))
        port = some.getsockname()[1]
    rows = [line("shared", n, port, 1, 0)]
    rows += finished([started("shared", n, port, 2, process) for process in (0, 1)])
    print(rows, flush=True)
    return rows


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and landmarks."""
    rng = np.random.default_rng(0)
    Z = np.random.default_rng(1).normal(size=(LANDMARKS, DIMENSION))
    return rng.normal(size=(n, DIMENSION)), Z


def times(view: LandmarkData) -> Row:
    """Seconds of one value, and of one value with its gradient."""

    def value(lengthscale: jax.Array, view: LandmarkData) -> jax.Array:
        return sum(view.likelihood_terms(SquaredExponential(lengthscale), NOISE_VARIANCE, "unit"))

    found = {}
    for name, function in (("value s", value), ("gradient s", jax.value_and_grad(value))):
        compiled = jax.jit(function)
        jax.block_until_ready(compiled(LENGTHSCALE, view))
        each = []
        for call in range(CALLS):
            begin = time.perf_counter()
            jax.block_until_ready(compiled(LENGTHSCALE + 0.01 * call, view))
            each.append(time.perf_counter() - begin)
        found[name] = min(each)
    return found


def peak() -> float:
    """GiB, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory(n: int) -> Row:
    """Rows in memory."""
    X, Z = data(n)
    return {"n": n, **times(landmark_data(jnp.asarray(X), jnp.asarray(Z))), "peak GiB": peak()}


def file(n: int, folder: str) -> Row:
    """Rows of a file, which another process has written."""
    path = Path(folder, f"{n}.npy")
    if not path.exists():
        subprocess.run([sys.executable, __file__, "--line", "write", str(n), folder], check=True)
    kernels = [SquaredExponential(jnp.asarray(LENGTHSCALE + 0.01 * i)) for i in range(KERNELS)]
    begin = time.perf_counter()
    sums_over_rows(
        open_rows(path),
        np.ones(DIMENSION),
        data(1)[1],
        kernels,
        checkpoint=Checkpoint(None, {}),
        progress=False,
    )
    seconds = (time.perf_counter() - begin) / KERNELS
    return {"n": n, "seconds for each lengthscale": seconds, "peak GiB": peak()}


def write(n: int, folder: str) -> Row:
    """The file."""
    np.save(Path(folder, f"{n}.npy"), data(n)[0])
    return {}


def shared(n: int, port: str, processes: str, process: str) -> Row:
    """Rows shared by processes."""
    if processes != "1":
        distributed.start(f"localhost:{port}", int(processes), int(process))
    X, Z = data(n)
    view = landmark_data(jnp.asarray(X), jnp.asarray(Z)).sharded(jax.devices())
    return {"n": n, **times(view), "peak GiB": peak()}


LINES = {"memory": memory, "file": file, "write": write, "shared": shared}

if __name__ == "__main__":
    main()
