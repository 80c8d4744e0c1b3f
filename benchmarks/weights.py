"""Rejection rates of `compare` on weighted rows, and rates of significant regions.

The test uses random signs of errors instead of permutations, so that its level is approximate. In
the first five settings the weighted distributions are equal.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import compare

ALPHA = 0.05
Sample = tuple[np.ndarray, np.ndarray | None]
Draw = Callable[[np.random.Generator], tuple[Sample, Sample]]


def survey(
    m: int, n: int, rng: np.random.Generator, *, columns: int = 1, shift: float = 0.0
) -> tuple[Sample, Sample]:
    """Normal rows with independent exponential weights."""
    P, Q = rng.normal(size=(m, columns)), rng.normal(size=(n, columns))
    P[:, 0] += shift
    return (P, rng.exponential(size=m)), (Q, rng.exponential(size=n))


def importance(
    m: int, n: int, rng: np.random.Generator, *, shift: float = 0.0
) -> tuple[Sample, Sample]:
    """Rows of N(0.7, 1) with importance weights for N(shift, 1), and rows of N(0, 1) without."""
    P = rng.normal(0.7, 1.0, size=(m, 1))
    weights = np.exp(0.5 * (P[:, 0] - 0.7) ** 2 - 0.5 * (P[:, 0] - shift) ** 2)
    return (P, weights), (rng.normal(size=(n, 1)), None)


def heavy(m: int, n: int, rng: np.random.Generator) -> tuple[Sample, Sample]:
    """Lognormal weights in one sample, half of whose sum belongs to a tenth of the rows."""
    return (rng.normal(size=(m, 1)), rng.lognormal(0.0, 1.3, size=m)), (
        rng.normal(size=(n, 1)),
        None,
    )


SETTINGS: dict[str, Draw] = {
    "survey, 300 + 300": functools.partial(survey, 300, 300),
    "survey, three columns, 200 + 400": functools.partial(survey, 200, 400, columns=3),
    "importance, 300 + 300": functools.partial(importance, 300, 300),
    "importance, 100 + 600": functools.partial(importance, 100, 600),
    "heavy weights, 300 + 300": functools.partial(heavy, 300, 300),
    "survey, shift 0.4, 300 + 300": functools.partial(survey, 300, 300, shift=0.4),
    "importance, shift 0.4, 300 + 300": functools.partial(importance, 300, 300, shift=0.4),
}
NAMES = list(SETTINGS)


def measurements(setting: str, permutations: int, seeds: range) -> list[list[float]]:
    """Draw a data set for each seed and compute one row of measurements from it."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([NAMES.index(setting), seed])
        P, Q = SETTINGS[setting](rng)
        options: dict[str, Any] = {"n_resamples": permutations, "seed": seed, "progress": False}
        comparison = compare(P[0], Q[0], weights=(P[1], Q[1]), **options)
        rows.append(
            [
                comparison.pvalue <= ALPHA + 1e-9,
                bool(comparison.regions),
                comparison.log_bayes_factor,
                *comparison.effective_sizes,
            ]
        )
    return np.array(rows, dtype=float).tolist()


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=NAMES, default=NAMES)
    repeats.add_options(parser, repeats=400, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.permutations = 4, 99

    def summary(values: np.ndarray) -> repeats.Row:
        return {
            "rejected": float(values[:, 0].mean()),
            "named": float(values[:, 1].mean()),
            "median log BF": float(np.median(values[:, 2])),
            "P is worth": float(values[:, 3].mean()),
            "Q is worth": float(values[:, 4].mean()),
        }

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"{options.repeats} data sets each, {options.permutations} sign changes, level 0.05; "
            "the weighted distributions are equal except in settings with a shift. `P is worth` "
            "and `Q is worth` are effective sample sizes.\n\n" + report.table(rows)
        )

    repeats.fill(
        "weights",
        "Weighted rows",
        [{"setting": name} for name in options.settings],
        measurements,
        summary,
        text,
        options,
    )


if __name__ == "__main__":
    main()
