"""Time of ``bke run`` without files, from the start of the process to its exit, and its parts.

Import, compilation (tracing, lowering and XLA), sampling (``fit`` without these), and the rest.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

Interval = tuple[float, float]
#: Names of the events of JAX that are compilation.
COMPILE = "/jax/core/compile/"


def length(intervals: list[Interval]) -> float:
    """Return the length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def timed(function: Callable[..., Any], intervals: list[Interval]) -> Callable[..., Any]:
    """Return a function that appends the interval of every call."""

    def call(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            intervals.append((start, time.perf_counter()))

    return call


def run(folder: str) -> None:
    """Run the command and write the seconds of its parts as JSON."""
    import builtins
    import importlib

    imports: list[Interval] = []
    compilations: list[Interval] = []
    fits: list[Interval] = []
    builtins.__import__ = timed(builtins.__import__, imports)
    importlib.import_module = timed(importlib.import_module, imports)
    import bke.inference
    import jax.monitoring
    from bke.inference.cli import app

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith(COMPILE):
            now = time.perf_counter()
            compilations.append((now - seconds, now))

    jax.monitoring.register_event_duration_secs_listener(listen)
    bke.inference.fit = timed(bke.inference.fit, fits)
    try:
        app(["run", "--out", folder])
    finally:
        other = length([*imports, *compilations])
        parts = {
            "import": length(imports),
            "compile": other - length(imports),
            "sampling": length([*imports, *compilations, *fits]) - other,
        }
        with open(f"{folder}.json", "w", encoding="utf-8") as file:
            json.dump(parts, file)


def main() -> None:
    """Run the command in a separate process and print its seconds."""
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "run")
        start = time.perf_counter()
        subprocess.run([sys.executable, __file__, folder], check=True)
        wall = time.perf_counter() - start
        with open(f"{folder}.json", encoding="utf-8") as file:
            parts = json.load(file)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    parts["rest"] = wall - sum(parts.values())
    print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items()))
    cpu = used.ru_utime + used.ru_stime
    print(f"wall {wall:.1f} s, CPU {cpu:.1f} s, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        run(sys.argv[1])
    else:
        main()
