"""Cost of the landmark model by n: in memory, from a file and by two processes.

The data have ten columns and 256 landmarks. Each line is measured in separate processes, so that
peak memory is that of this line. One pass over a file computes sums for eight lengthscales. Two
processes share the rows of one likelihood on the same cores as one process.
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
from bke.inference.core.machine import computing
from bke.inference.sampling.out_of_core import Checkpoint, sums_over_rows
from bke.models import SquaredExponential
from bke.models.likelihood.landmark import LandmarkData, landmark_data

DIMENSION, LANDMARKS, LENGTHSCALE, NOISE_VARIANCE = 10, 256, 3.0, 0.1
KERNELS = 8
#: Number of calls after the first; the fastest is reported.
NUM_CALLS = 3

Row = dict[str, Any]


def main() -> None:
    """Measure each line in separate processes and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--together", type=int, default=100_000, help="number of rows shared by two processes"
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--line", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.line:
        measurement, n, *extra = options.line
        with computing():
            print(json.dumps(LINES[measurement](int(n), *extra)))
        return
    if options.quick:
        options.sizes, options.together = [2000, 5000], 5000
    info, folder = report.start(options.results)
    in_memory = [run_line("memory", n) for n in options.sizes]
    with tempfile.TemporaryDirectory() as directory:
        from_file = [run_line("file", n, directory) for n in options.sizes]
    single, *pair = shared_rows(options.together)
    processes = [{"processes": 1, **single}, {"processes": 2, **pair[0]}]
    ratio = single["gradient s"] / pair[0]["gradient s"]
    name = "landmarks-quick" if options.quick else "landmarks"
    text = (
        f"{DIMENSION} columns, {LANDMARKS} landmarks, best of {NUM_CALLS} calls.\n\nIn memory:\n\n"
        f"{report.table(in_memory)}\n\nFrom an NPY file, one pass for {KERNELS} lengthscales:\n\n"
        f"{report.table(from_file)}\n\n{options.together} rows shared by processes on the same "
        f"cores: the throughput of two is {ratio:.2f} times that of one.\n\n"
        f"{report.table(processes)}"
    )
    results = {"memory": in_memory, "file": from_file, "processes": processes}
    report.save(folder, name, "Cost of the landmark model as n grows", info, text, results)


def run_line(*arguments: Any) -> Row:
    """Measure a line in a new process."""
    (row,) = collect([launch(*arguments)])
    print(arguments, row, flush=True)
    return row


def launch(*arguments: Any) -> subprocess.Popen[str]:
    """Start a process that measures a line."""
    command = [sys.executable, __file__, "--line", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def collect(processes: list[subprocess.Popen[str]]) -> list[Row]:
    """Wait for processes and parse the last line of each."""
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a measuring process failed; see its error output above")
    return [json.loads(text.splitlines()[-1]) for text in outputs]


def shared_rows(n: int) -> list[Row]:
    """Measure a gradient by one process and by two processes that share the rows."""
    with socket.socket() as free_socket:
        free_socket.bind(("localhost", 0))
        port = free_socket.getsockname()[1]
    rows = [run_line("shared", n, port, 1, 0)]
    rows += collect([launch("shared", n, port, 2, process) for process in (0, 1)])
    print(rows, flush=True)
    return rows


def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and landmarks."""
    rng = np.random.default_rng(0)
    Z = np.random.default_rng(1).normal(size=(LANDMARKS, DIMENSION))
    return rng.normal(size=(n, DIMENSION)), Z


def timings(landmarks: LandmarkData) -> Row:
    """Measure seconds of a value, and of a value with gradient."""

    def value(lengthscale: jax.Array, landmarks: LandmarkData) -> jax.Array:
        return sum(
            landmarks.likelihood_terms(SquaredExponential(lengthscale), NOISE_VARIANCE, "unit")
        )

    seconds = {}
    for name, function in (("value s", value), ("gradient s", jax.value_and_grad(value))):
        compiled = jax.jit(function)
        jax.block_until_ready(compiled(LENGTHSCALE, landmarks))
        elapsed = []
        for call in range(NUM_CALLS):
            begin = time.perf_counter()
            jax.block_until_ready(compiled(LENGTHSCALE + 0.01 * call, landmarks))
            elapsed.append(time.perf_counter() - begin)
        seconds[name] = min(elapsed)
    return seconds


def peak() -> float:
    """Return the peak memory of this process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory(n: int) -> Row:
    """Measure the likelihood of rows in memory."""
    X, Z = sample(n)
    return {"n": n, **timings(landmark_data(jnp.asarray(X), jnp.asarray(Z))), "peak GiB": peak()}


def file(n: int, folder: str) -> Row:
    """Measure a pass over the rows of a file, written by another process."""
    path = Path(folder, f"{n}.npy")
    if not path.exists():
        subprocess.run([sys.executable, __file__, "--line", "write", str(n), folder], check=True)
    kernels = [SquaredExponential(jnp.asarray(LENGTHSCALE + 0.01 * i)) for i in range(KERNELS)]
    begin = time.perf_counter()
    sums_over_rows(
        open_rows(path),
        np.ones(DIMENSION),
        sample(1)[1],
        kernels,
        checkpoint=Checkpoint(None, {}),
        progress=False,
    )
    seconds = (time.perf_counter() - begin) / KERNELS
    return {"n": n, "seconds for each lengthscale": seconds, "peak GiB": peak()}


def write(n: int, folder: str) -> Row:
    """Write the file."""
    np.save(Path(folder, f"{n}.npy"), sample(n)[0])
    return {}


def shared(n: int, port: str, processes: str, process: str) -> Row:
    """Measure the likelihood of rows shared by processes."""
    if processes != "1":
        jax.distributed.initialize(f"localhost:{port}", int(processes), int(process))
    X, Z = sample(n)
    landmarks = landmark_data(jnp.asarray(X), jnp.asarray(Z)).sharded(jax.devices())
    return {"n": n, **timings(landmarks), "peak GiB": peak()}


LINES = {"memory": memory, "file": file, "write": write, "shared": shared}

if __name__ == "__main__":
    main()
