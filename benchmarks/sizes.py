"""Seconds and memory of the default two-sample test, from 100 rows to a million.

Each size is measured in a process of its own: the first test, which imports and compiles what it
needs, and where that is short the second one too. The samples are normal and differ in nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

#: Rows of each sample, and columns.
SIZES = ((1000, 2), (100, 500), (20_000, 2), (1_000_000, 1), (100_000, 50), (262_144, 10))
#: Seconds up to which a test is done again.
SHORT = 10.0


def child(rows: int, columns: int) -> None:
    """Test once or twice, and print what it took."""
    import numpy as np

    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, rows, columns))
    begin = time.perf_counter()
    from bke.inference import two_sample_test

    took = []
    while not took or (len(took) == 1 and took[0] < SHORT):
        two_sample_test(P, Q, progress=False)
        took.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    second = took[1] if len(took) > 1 else None
    print(json.dumps({"first s": took[0], "second s": second, "GiB": peak}))


def main() -> None:
    """Measure each size, print, write."""
    import report

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    rows: list[dict[str, Any]] = []
    for size, columns in ((40, 2),) if options.quick else SIZES:
        told = report.child(__file__, size, columns)
        rows.append({"rows": f"{size} + {size}", "columns": columns, **told})
        print(rows[-1], flush=True)
    name = "sizes-quick" if options.quick else "sizes"
    text = f"999 permutations; `first s` includes imports.\n\n{report.table(rows)}"
    report.save(folder, name, "What the default test takes", info, text, {"rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*map(int, sys.argv[2:]))
    else:
        main()
