"""Memory of each tool of the referee at its largest setting, in separate processes.

Two samples of 500 rows are tested twice. The benchmark reports the peak of resident memory during
each test above that before the test: the first test imports packages and compiles, the second only
computes. Linux only: the peak is ``VmHWM``, which a process can reset and does not inherit.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import referee
import referee_peers
import report
from referee_settings import SETTINGS
from threadpoolctl import threadpool_limits

SETTING = "four normal blobs, one wider"


def mebibytes(field: str) -> float:
    """Return ``VmRSS``, resident memory of this process, or ``VmHWM``, its peak, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024.0


def peak(call: Callable[[], object]) -> float:
    """Return the peak of resident memory during a call above that before the call, in MiB."""
    # Resets the peak to the current resident memory (proc(5)).
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = mebibytes("VmRSS")
    call()
    return mebibytes("VmHWM") - before


def memory_use(tool: str) -> list[float]:
    """Return the peak of each of two tests above the memory before it, in MiB."""
    x, y = SETTINGS[SETTING].draw(0)
    increments = []
    for _ in range(2):
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            increments.append(round(peak(lambda: referee.pvalue(tool, x, y, 0)), 1))
    return increments


def main() -> None:
    """Measure each tool in a separate process and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tools = [referee.OURS, *referee_peers.here()]
    parser.add_argument("--tools", nargs="+", choices=tools, default=tools)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--child", choices=tools, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps({"MiB": memory_use(options.child)}))
        return
    if options.quick:
        options.tools = tools[:2]
    info, folder = report.start(options.results)
    rows = []
    for tool in options.tools:
        first, second = report.child(__file__, tool)["MiB"]
        rows.append({"tool": tool, "MiB, first test": first, "MiB, second test": second})
        print(rows[-1], flush=True)
    n, columns = np.shape(SETTINGS[SETTING].draw(0)[0])
    text = f'"{SETTING}", {n} + {n} rows, {columns} columns.\n\n{report.table(rows)}'
    name = "referee-memory" + "-quick" * options.quick
    title = "Memory of the default two-sample test and of others"
    report.save(folder, name, title, {**info, "load_average": None}, text, {"memory": rows})


if __name__ == "__main__":
    main()
