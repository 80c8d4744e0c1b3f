"""Required sample sizes by `Comparison.required_sample_size`, compared with the true ones.

For the true size, data sets of six sizes are drawn and tested, and a probit curve is fitted to all
tests. The estimates and their intervals come from data sets of the size ``--n``.
"""

from __future__ import annotations

import argparse
import functools

import answers
import numpy as np
import repeats
import report
from bke.inference import compare
from bke.inference.comparison.power import SIZE_RESAMPLES, size_at_power
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.combined import combined_pvalue

ALPHA, POWER = 0.05, 0.8
#: Approximate required size of both samples; the tested sizes are multiples of it by ``FACTORS``.
SETTINGS = {
    "normal and Laplace mixture": 700,
    "shift 0.25": 650,
    "scale 1.25": 500,
    "four Gaussians, one 1.6 times as wide": 800,
}
FACTORS = np.geomspace(0.4, 2.5, 6)
TRIALS = 8


def measurements(setting: str, permutations: int, seeds: range, *, n: int) -> list[list[float]]:
    """Return for each seed the estimate, its interval, six sizes, and rejections at each size."""
    draw, rows = answers.SETTINGS[setting][0], []
    for seed in seeds:
        rng = np.random.default_rng([answers.NAMES.index(setting), seed])
        comparison = compare(*draw(n, rng), n_resamples=permutations, seed=seed, progress=False)
        estimate = comparison.required_sample_size(POWER, seed=seed)
        sizes = np.round(0.5 * FACTORS * SETTINGS[setting]).astype(int)
        rejected = []
        for size in sizes:
            tests = (TwoSamples.checked(*draw(size, rng)) for _ in range(TRIALS))
            pooled = (pool_rows(samples, SIZE_RESAMPLES, rng) for samples in tests)
            rejected.append(sum(combined_pvalue(sample) <= ALPHA for sample in pooled))
        total = float(sum(estimate.sizes)) if estimate.sizes else np.inf
        rows.append([total, *estimate.interval, *(2.0 * sizes), *map(float, rejected)])
    return rows


def summary(values: np.ndarray) -> repeats.Row:
    """Return the true size with its error, and quartiles of the estimates divided by it."""
    root_sizes, rejections = [], []
    estimates, intervals, sizes, rejected = np.split(values, [1, 3, 3 + len(FACTORS)], axis=1)
    for total, count in zip(sizes[0], rejected.sum(axis=0), strict=True):
        tests = TRIALS * len(values)
        root_sizes += [total**0.5] * tests
        rejections += [True] * int(count) + [False] * (tests - int(count))
    root, error = size_at_power(np.array(root_sizes), np.array(rejections), POWER, ALPHA)
    low, middle, high = np.quantile(estimates / root**2, [0.25, 0.5, 0.75])
    holds = (intervals[:, 0] <= root**2) & (root**2 <= intervals[:, 1])
    return {
        "true number": root**2,
        "its relative error": 2.0 * error,
        "said over true, median": float(middle),
        "lower quartile": float(low),
        "upper quartile": float(high),
        "80 % interval holds it": float(np.mean(holds)),
    }


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--n", type=int, default=2000)
    repeats.add_options(parser, repeats=20, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.n, options.settings = 1, 60, ["shift 0.25"]
    repeats.CHUNK = 2

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"Rows of both samples for power {POWER:g} at level {ALPHA:g}, estimated from "
            f"{options.repeats} data sets of {options.n} + {options.n} rows; the true number by "
            f"{options.repeats * TRIALS * len(FACTORS)} tests.\n\n" + report.table(rows)
        )

    repeats.fill(
        "rows_needed",
        "Rows needed, said and true",
        [{"setting": name} for name in options.settings],
        functools.partial(measurements, n=options.n),
        summary,
        text,
        options,
        {"n": options.n},
    )


if __name__ == "__main__":
    main()
