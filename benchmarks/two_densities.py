"""Calibration and power of the Bayes factor of two kernel Student-t densities against one.

Odds are calibrated if, among data sets with odds near r, the proportion with two densities is
r / (1 + r). Half of the data sets of a calibration setting have one density, half have two:

- *labels given rows*: normal rows. With one density all assignments to samples are equally
  probable; with two they are drawn in proportion to the ratio of marginal likelihoods. The odds of
  ``two_density_test`` are calibrated here, up to their Monte Carlo error.
- *rows from the prior*: rows of the generative process of Huszar and Lacoste-Julien (2011), section
  4, on a box: one process of 60 rows that are assigned at random, or one process for each sample.
  The odds do not use what the pooled rows say about the hypotheses, and the hyperparameters are
  learned.

Power and odds are compared with those of ``compare``, whose test is that of ``two_sample_test``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import compare, learn_student_t, two_density_test
from bke.models import SquaredExponential
from scipy.linalg import solve_triangular
from scipy.special import expit

ALPHA = 0.05
#: Rows of each sample.
ROWS = 30
#: Edges of the bins of log odds.
EDGES = (-np.inf, -3.0, -1.0, 0.0, 1.0, 3.0, np.inf)
#: Entries of the result of a data set.
ENTRIES = (
    "two densities",
    "log odds",
    "error",
    "p-value",
    "p-value, compare",
    "log odds, compare",
)
Samples = tuple[np.ndarray, np.ndarray]


def log_marginal_likelihood(values: np.ndarray, noise_variance: float) -> float:
    """Compute that of rows with kernel values (n, n), up to a constant; alpha 1, beta 0.01."""
    n = len(values)
    matrix = values + noise_variance * (np.eye(n) + 100.0)
    return float(-0.5 * (1 + n) * np.linalg.slogdet(matrix)[1])


def labels_given_rows(rng: np.random.Generator, *, proposals: int = 5000) -> list[Samples]:
    """Draw normal rows with labels of one density and of two densities.

    Labels of two densities are resampled from equally probable assignments. The density is the one
    that ``two_density_test`` learns, for labels do not change it.
    """
    rows = np.sort(rng.normal(size=2 * ROWS))[:, None]
    density = learn_student_t(rows, progress=False).density
    values = np.asarray(density.kernel(rows, rows), dtype=float)
    noise_variance = float(density.noise_variance)
    orders = rng.permuted(np.tile(np.arange(2 * ROWS), (proposals, 1)), axis=1)
    logs = np.array(
        [
            sum(
                log_marginal_likelihood(values[np.ix_(part, part)], noise_variance)
                for part in (order[:ROWS], order[ROWS:])
            )
            for order in orders
        ]
    )
    weights = np.exp(logs - logs.max())
    chosen = orders[rng.choice(proposals, p=weights / weights.sum())]
    return [tuple(np.split(rows[order], 2)) for order in (orders[0], chosen)]


def rows_of_process(n: int, rng: np.random.Generator, *, bound: float = 5.0) -> np.ndarray:
    """Draw rows (n, 1) one by one from the predictive density on a grid of [-bound, bound].

    The lengthscale and the noise variance are 1, alpha is 1 and beta 0.01.
    """
    grid = np.linspace(-bound, bound, 2001)
    kernel = SquaredExponential(1.0)
    matrix = np.asarray(kernel(grid[:, None], grid[:, None]), dtype=float) + 100.0
    indices: list[int] = []
    for count in range(n):
        variance = np.full(len(grid), matrix[0, 0] + 1.0)
        if indices:
            factor = np.linalg.cholesky(matrix[np.ix_(indices, indices)] + np.eye(count))
            half = solve_triangular(factor, matrix[indices], lower=True)
            variance -= np.sum(half**2, axis=0)
        logs = -0.5 * (2 + count) * np.log(variance)
        probability = np.exp(logs - logs.max())
        indices.append(rng.choice(len(grid), p=probability / probability.sum()))
    # Uniform within the steps of the grid, so that there are no ties.
    step = grid[1] - grid[0]
    return (grid[indices] + step * (rng.random(n) - 0.5))[:, None]


def rows_from_the_prior(rng: np.random.Generator) -> list[Samples]:
    """Draw samples of one process, and of two."""
    together = rng.permutation(rows_of_process(2 * ROWS, rng))
    return [
        (together[:ROWS], together[ROWS:]),
        (rows_of_process(ROWS, rng), rows_of_process(ROWS, rng)),
    ]


def two_modes(rng: np.random.Generator) -> np.ndarray:
    """Draw rows with two modes, with the mean and the variance of a standard normal variable."""
    return rng.choice([-0.9, 0.9], ROWS) + np.sqrt(0.19) * rng.normal(size=ROWS)


CALIBRATION: dict[str, Callable[[np.random.Generator], list[Samples]]] = {
    "labels given rows": labels_given_rows,
    "rows from the prior": rows_from_the_prior,
}
#: Draws of the second sample; the first is standard normal.
POWER: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "P = Q": lambda rng: rng.normal(size=ROWS),
    "shift 0.7": lambda rng: rng.normal(0.7, 1.0, ROWS),
    "scale 2": lambda rng: rng.normal(0.0, 2.0, ROWS),
    "two modes": two_modes,
}


def results(setting: str, permutations: int, seeds: range) -> list[tuple[float, ...]]:
    """Return the values of ``ENTRIES`` for each data set."""
    options: dict[str, Any] = {"n_resamples": permutations, "progress": False}
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([seed, [*CALIBRATION, *POWER].index(setting)])
        if setting in CALIBRATION:
            samples = CALIBRATION[setting](rng)
        else:
            samples = [(rng.normal(size=ROWS), POWER[setting](rng))]
        for number, (P, Q) in enumerate(samples):
            test = two_density_test(P, Q, seed=seed, **options)
            other = compare(P, Q, seed=seed, **options)
            rows.append(
                (
                    float(number if setting in CALIBRATION else setting != "P = Q"),
                    test.log_bayes_factor,
                    test.log_bayes_factor_error,
                    test.pvalue,
                    other.pvalue,  # that of two_sample_test
                    other.log_bayes_factor,
                )
            )
    return rows


def calibration_table(setting: str, values: np.ndarray) -> list[repeats.Row]:
    """Return a row for each bin of log odds: the mean probability and the proportion."""
    truth = values[:, 0]
    table = []
    for low, high in itertools.pairwise(EDGES):
        row: repeats.Row = {"setting": setting, "log odds": f"{low:g} to {high:g}"}
        for name, column in (("two_density_test", 1), ("compare", 5)):
            inside = (values[:, column] > low) & (values[:, column] <= high)
            count = int(inside.sum())
            probability = float(expit(values[inside, column]).mean()) if count else None
            row[f"{name}: sets"] = count
            row[f"{name}: mean r / (1 + r)"] = probability
            row[f"{name}: with two densities"] = float(truth[inside].mean()) if count else None
        table.append(row)
    return table


def power_row(setting: str, values: np.ndarray) -> repeats.Row:
    """Return rejection rates and medians of the log odds."""
    return {
        "setting": setting,
        "two_density_test": float(np.mean(values[:, 3] <= ALPHA + 1e-9)),
        "compare, two_sample_test": float(np.mean(values[:, 4] <= ALPHA + 1e-9)),
        "median log odds": float(np.median(values[:, 1])),
        "median log odds, compare": float(np.median(values[:, 5])),
        "median error": float(np.median(values[:, 2])),
        "largest error": float(np.max(values[:, 2])),
    }


def main() -> None:
    """Run the settings and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=[*CALIBRATION, *POWER])
    repeats.add_options(parser, repeats=60, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.permutations = 1, 19

    def text(rows: list[repeats.Row]) -> str:
        by_setting = {row["setting"]: np.array(row["data sets"]) for row in rows}
        parts = [
            f"{ROWS} rows in each sample, {options.repeats} seeds, {options.permutations} "
            f"permutations, level {ALPHA}. Prior odds are 1."
        ]
        for setting in CALIBRATION:
            if setting in by_setting:
                parts.append(report.table(calibration_table(setting, by_setting[setting])))
        powers = [power_row(name, by_setting[name]) for name in POWER if name in by_setting]
        if powers:
            parts.append(f"Rejection rates and log odds:\n\n{report.table(powers)}")
        return "\n\n".join(parts)

    repeats.fill(
        "two_densities",
        "Bayes factors of two kernel Student-t densities",
        [{"setting": setting} for setting in options.settings],
        results,
        lambda values: {"entries": ENTRIES, "data sets": values.tolist()},
        text,
        options,
    )


if __name__ == "__main__":
    main()
