"""Thinning: remaining MMD by herding, by kernel thinning and at random, and seconds.

There are 100 000 draws of a mixture of two normal distributions in ten columns, and the kernel has
the median distance. The MMD is computed to 16 384 draws that are not the candidates of herding;
weights are optimized on them. Kernel thinning is that of goodpoints (`pip install goodpoints`).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference import thin

DRAWS, COLUMNS, COUNTS = 100_000, 10, (30, 100, 300, 1000)


def mixture(draws: int) -> np.ndarray:
    """Draw rows that are with probability 2/3 around 0 and 1/3 around 2 in every column."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(draws, COLUMNS)) + 2.0 * (rng.random((draws, 1)) < 1.0 / 3.0)


def main() -> None:
    """Thin to all counts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    draws = mixture(2000 if options.quick else DRAWS)
    rows: list[dict[str, Any]] = []
    for count in COUNTS[:2] if options.quick else COUNTS:
        for method in ("herding", "kernel"):
            thin(draws, count, method=method)  # compiles
            start = time.perf_counter()
            thinned = thin(draws, count, method=method)
            seconds = time.perf_counter() - start
            weighted = thin(draws, count, method=method, weighted=True)
            rows.append(
                {
                    "kept": count,
                    "method": method,
                    "MMD": thinned.discrepancy,
                    "with weights": weighted.discrepancy,
                    "at random": thinned.random_discrepancy,
                    "every so-many-th": thinned.systematic_discrepancy,
                    "seconds": seconds,
                }
            )
            print(rows[-1], flush=True)
    text = f"{len(draws)} draws, {COLUMNS} columns.\n\n{report.table(rows)}"
    name = "thinning" + "-quick" * options.quick
    report.save(folder, name, "Thinning", info, text, {"rows": rows})


if __name__ == "__main__":
    main()
