"""What the ways to the posterior cost on the data of BKE Figure 3, n = 600, each in a new process.

The first fit of a process compiles and the second does not; both are timed, with JAX imported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import report

METHODS = ("quadrature", "nuts", "smc")
PROGRAM = """
import json, sys, time
import numpy as np
from bke.inference import fit, normal_laplace
import bke.inference.fitting

method, count = sys.argv[1], int(sys.argv[2])
X = np.concatenate(normal_laplace())[:count]
seconds = []
for _ in range(2):
    begin = time.perf_counter()
    fit(X, method=method, scale=None, progress=False)
    seconds.append(time.perf_counter() - begin)
print(json.dumps(seconds))
"""


def main() -> None:
    """Time, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    rows = []
    for method in options.methods:
        command = [sys.executable, "-c", PROGRAM, method, "40" if options.quick else "600"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        first, second = json.loads(done.stdout)
        rows.append({"method": method, "first fit, s": first, "second fit, s": second})
        print(report.table(rows[-1:]), flush=True)
    text = (
        "4000 draws by quadrature and SMC, 8 chains x (200 + 200) by NUTS, otherwise the defaults."
        "\n\n" + report.table(rows)
    )
    name = "cost-quick" if options.quick else "cost"
    report.save(folder, name, "Cost of the methods", info, text, {"methods": rows})


if __name__ == "__main__":
    main()
