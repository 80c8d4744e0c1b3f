"""What `compare` says of weighted rows: how often it rejects, and what it names.

Random signs of errors instead of permutations give a level that is approximate. In the first five
settings the weighted distributions are the same.
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
    """Normal rows with exponential weights that have nothing to do with them."""
    P, Q = rng.normal(size=(m, columns)), rng.normal(size=(n, columns))
    P[:, 0] += shift
    return (P, rng.exponential(size=m)), (Q, rng.exponential(size=n))


def importance(
    m: int, n: int, rng: np.random.Generator, *, shift: float = 0.0
) -> tuple[Sample, Sample]:
    """Rows of N(0.7, 1) with the weights of N(shift, 1), and such of N(0, 1) without."""
    P = rng.normal(0.7, 1.0, size=(m, 1))
    weights = np.exp(0.5 * (P[:, 0] - 0.7) ** 2 - 0.5 * (P[:, 0] - shift) ** 2)
    return (P, weights), (rng.normal(size=(n, 1)), None)


def heavy(m: int, n: int, rng: np.random.Generator) -> tuple[Sample, Sample]:
    """Lognormal weights of which a tenth of the rows has half, in one sample."""
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


def answers(setting: str, permutations: int, seeds: range) -> list[list[float]]:
    """For each seed one data set and what is measured of it."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([NAMES.index(setting), seed])
        P, Q = SETTINGS[setting](rng)
        options: dict[str, Any] = {"n_resamples": permutations, "seed": seed, "progress": False}
        found = compare(P[0], Q[0], weights=(P[1], Q[1]), **options)
        rows.append(
            [
                found.pvalue <= ALPHA + 1e-9,
                bool(found.regions),
                found.log_bayes_factor,
                *found.effective_sizes,
            ]
        )
    return np.array(rows, dtype=float).tolist()


def main() -> None:
    """Draw, compare, count, write."""
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
            "the weighted distributions are the same but where a shift is named. What samples are "
            "worth is in rows of one weight.\n\n" + report.table(rows)
        )

    repeats.fill(
        "weights",
        "Weighted rows",
        [{"setting": name} for name in options.settings],
        answers,
        summary,
        text,
        options,
    )


if __name__ == "__main__":
    main()
