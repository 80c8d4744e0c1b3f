"""Simulation-based calibration of quadrature, NUTS and SMC: rank histograms of 500 data sets.

What `bke check` does with 100: lengthscales and rows are drawn from the model's joint density, and
each lengthscale is ranked among 48 posterior draws given its rows (Talts et al. 2018). Seven bins
of ranks, each beside the band that a uniform count leaves with probability 0.001.

    python benchmarks/calibration.py
"""

from __future__ import annotations

import argparse

import numpy as np
import report
from bke.inference.selfcheck.calibration import KEPT, METHODS, joint_draws, ranks, uniformity
from scipy.stats import binom

BINS, OUTSIDE = 7, 1e-3


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    count = 6 if options.quick else options.datasets
    joint = joint_draws(count, seed=1)
    low, high = binom.ppf([OUTSIDE / 2, 1 - OUTSIDE / 2], count, 1 / BINS).astype(int)
    rows = []
    for name, method in METHODS.items():
        found = ranks(method, joint)
        counts = np.bincount(found * BINS // (KEPT + 1), minlength=BINS)
        bins = {f"bin {index + 1}": int(number) for index, number in enumerate(counts)}
        within = bool(((counts >= low) & (counts <= high)).all())
        rows.append({"method": name, **bins, "p": uniformity(found), "within": str(within)})
    settings = {
        "data sets": count,
        "rows each": 3,
        "ranks among": KEPT,
        "band of a bin": f"{low} to {high}",
        "proposals worth": round(joint.worth),
    }
    print(report.table(rows))
    if not options.quick:
        report.write_report("calibration", "Simulation-based calibration", rows, settings)


if __name__ == "__main__":
    main()
