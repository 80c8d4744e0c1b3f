"""How much memory each tool of the referee takes, at its largest setting, in a process of its own.

Two samples of 500 rows, tested twice. Told is the peak of resident memory during each test above
what the process held before it: the first loads packages and compiles, the second only computes.
Linux only: the peak is ``VmHWM``, which a process can set back and does not inherit.
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
    """``VmRSS``, resident memory of this process, or ``VmHWM``, its peak, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024.0


def peak(call: Callable[[], object]) -> float:
    """The peak of resident memory during a call above what was held before it, MiB."""
    # Sets the peak back to what is resident now (proc(5)).
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = mebibytes("VmRSS")
    call()
    return mebibytes("VmHWM") - before


def taken(tool: str) -> list[float]:
    """The peak of either test above what was held before it, MiB."""
    x, y = SETTINGS[SETTING].drawn(0)
    found = []
    for _ in range(2):
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found.append(round(peak(lambda: referee.pvalue(tool, x, y, 0)), 1))
    return found


def main() -> None:
    """A process for each tool; then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tools = [referee.OURS, *referee_peers.here()]
    parser.add_argument("--tools", nargs="+", choices=tools, default=tools)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--child", choices=tools, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps({"MiB": taken(options.child)}))
        return
    if options.quick:
        options.tools = tools[:2]
    info, folder = report.start(options.results)
    rows = []
    for tool in options.tools:
        first, second = report.child(__file__, tool)["MiB"]
        rows.append({"tool": tool, "MiB, first test": first, "MiB, second test": second})
        print(rows[-1], flush=True)
    n, columns = np.shape(SETTINGS[SETTING].drawn(0)[0])
    text = f'"{SETTING}", {n} + {n} rows, {columns} columns.\n\n{report.table(rows)}'
    name = "referee-memory" + "-quick" * options.quick
    title = "Memory of the default two-sample test and of others"
    report.save(folder, name, title, {**info, "load_average": None}, text, {"memory": rows})


if __name__ == "__main__":
    main()
