"""Time the methods of ``fit`` on the data of BKE Figure 3, n = 600, each in a new process.

The first fit of a process compiles. The second does not, nor does a third of slightly fewer rows.
All are timed with JAX already imported. The first fit is also timed in a process that uses the
compilation cache of an earlier process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import report

METHODS = ("quadrature", "nuts", "smc")
PROGRAM = """
import json, sys, time
import numpy as np
from bke.inference import fit, normal_laplace

method, count = sys.argv[1], int(sys.argv[2])
X = np.concatenate(normal_laplace())[:count]
seconds = []
for rows in (count, count, count - count // 40):
    begin = time.perf_counter()
    fit(X[:rows], method=method, standardize=None, progress=False)
    seconds.append(time.perf_counter() - begin)
print(json.dumps(seconds))
"""


def main() -> None:
    """Time the methods and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    rows = []
    for method in options.methods:
        command = [sys.executable, "-c", PROGRAM, method, "40" if options.quick else "600"]

        def seconds(cache_folder: str, command: list[str] = command) -> list[float]:
            environment = {**os.environ, "BKE_COMPILATION_CACHE": cache_folder}
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=environment
            )
            return json.loads(done.stdout)

        first, second, fewer = seconds("off")
        with tempfile.TemporaryDirectory() as cache:
            seconds(cache)
            from_cache, *_ = seconds(cache)
        row = {"method": method, "first fit, s": first, "second fit, s": second}
        row |= {"third, of fewer rows, s": fewer, "first fit, programs on disk, s": from_cache}
        rows.append(row)
        print(report.table(rows[-1:]), flush=True)
    text = (
        "4000 draws by quadrature and SMC, 8 chains x (200 + 200) by NUTS, otherwise the defaults. "
        "The third fit is of a fortieth fewer rows, which are filled up to the same size."
        "\n\n" + report.table(rows)
    )
    name = "cost-quick" if options.quick else "cost"
    report.save(folder, name, "Cost of the methods", info, text, {"methods": rows})


if __name__ == "__main__":
    main()
