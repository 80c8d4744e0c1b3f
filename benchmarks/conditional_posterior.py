"""Coverage of bands of conditional expectations, compared with Gaussian process regression.

Data sets of 100 rows: x is uniform from -3 to 3 and y normal given x. ``linear``: mean x / 2 and
standard deviation 0.5; ``sine``: sin(2 x) and 0.3; ``variance``: sin(x) and 0.1 + 0.3 abs(x).
For each function f of y, pointwise bands of E[f(y) | x] at ten points from -2.7 to 2.7, of
``learn_conditional_posterior`` (``bke``), of which all functions share the hyperparameters, and of
scikit-learn's ``GaussianProcessRegressor`` of f(y) on x with its own (``GP``).

About 30 minutes on two cores.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import learn_conditional_posterior
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

ROWS, LEVELS = 100, (0.8, 0.95)
AT = np.linspace(-2.7, 2.7, 10)
#: Mean and standard deviation of y given x.
PROBLEMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "linear": (lambda x: 0.5 * x, lambda x: 0.5 + 0.0 * x),
    "sine": (lambda x: np.sin(2.0 * x), lambda x: 0.3 + 0.0 * x),
    "variance": (np.sin, lambda x: 0.1 + 0.3 * np.abs(x)),
}
#: Functions, and their expectations under a normal distribution.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "y": (lambda y: y, lambda mean, sd: mean),
    "y^2": (lambda y: y**2, lambda mean, sd: mean**2 + sd**2),
    "y > 0": (lambda y: (y > 0.0).astype(float), lambda mean, sd: norm.cdf(mean / sd)),
    "exp y": (np.exp, lambda mean, sd: np.exp(mean + 0.5 * sd**2)),
}
METHODS = ("bke", "GP")


def values(y: np.ndarray) -> np.ndarray:
    """Evaluate all functions, (n, F)."""
    return np.column_stack([function(np.ravel(y)) for function, _ in FUNCTIONS.values()])


def bands(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield means (m, F) and, for each level, intervals (m, F, 2) of each method."""
    posterior = learn_conditional_posterior(x, y)
    intervals = [posterior.interval(AT, values, level=level) for level in LEVELS]
    yield posterior.expectation(AT, values), intervals
    means, deviations = [], []
    for column in values(y).T:
        kernel = ConstantKernel() * RBF() + WhiteKernel()
        regression = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2)
        regression.fit(x[:, None], column)
        noise = regression.kernel_.k2.noise_level * column.var()
        mean, deviation = regression.predict(AT[:, None], return_std=True)
        means.append(mean)
        deviations.append(np.sqrt(np.maximum(deviation**2 - noise, 0.0)))
    mean, deviation = np.column_stack(means), np.column_stack(deviations)
    halves = [norm.isf(0.5 * (1.0 - level)) * deviation for level in LEVELS]
    yield mean, [np.stack([mean - half, mean + half], axis=-1) for half in halves]


def results(problem: str, _: int, seeds: range) -> list[np.ndarray]:
    """Return coverage by level, width at the first and squared errors, (methods, F, 4), by seed."""
    warnings.simplefilter("ignore")  # hyperparameters at their bounds
    mean, sd = PROBLEMS[problem]
    truth = np.column_stack([moment(mean(AT), sd(AT)) for _, moment in FUNCTIONS.values()])
    measured = []
    for seed in seeds:
        rng = np.random.default_rng([seed, list(PROBLEMS).index(problem)])
        x = rng.uniform(-3.0, 3.0, ROWS)
        y = rng.normal(mean(x), sd(x))
        rows = []
        for center, intervals in bands(x, y):
            covered = [
                np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1]), axis=0)
                for ends in intervals
            ]
            width = np.mean(np.diff(intervals[0], axis=-1)[..., 0], axis=0)
            rows.append([*covered, width, np.mean((center - truth) ** 2, axis=0)])
        measured.append(np.transpose(rows, (0, 2, 1)))
    return measured


def summary(measured: np.ndarray) -> repeats.Row:
    """Compute means over data sets for each function and method."""
    table: dict[str, Any] = {}
    for j, function in enumerate(FUNCTIONS):
        for i, method in enumerate(METHODS):
            first, second, width, square = np.mean(measured[:, i, j], axis=0)
            table[f"{function}: {method}"] = {
                "80 %": float(first),
                "standard error": float(np.std(measured[:, i, j, 0]) / len(measured) ** 0.5),
                "95 %": float(second),
                "width": float(width),
                "error": float(square**0.5),
            }
    return table


def text(rows: list[repeats.Row], repeat_count: int) -> str:
    """Format one table row for each problem, function and method."""
    table = [
        {"problem": row["problem"], "function and method": side, **entries}
        for row in rows
        for side, entries in row.items()
        if side != "problem"
    ]
    return (
        f"{repeat_count} data sets of {ROWS} rows each. Pointwise coverage of bands of 80 %, with "
        "its standard error, and of 95 %; mean width of the bands of 80 %; root mean squared error "
        f"of the posterior mean.\n\n{report.table(table)}"
    )


def main() -> None:
    """Measure coverage and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    repeats.add_options(parser, repeats=200, permutations=0)
    options = parser.parse_args()
    problems = list(PROBLEMS)
    if options.quick:
        options.repeats, problems = 1, problems[:1]
    repeats.fill(
        "conditional_posterior",
        "Bands of conditional expectations",
        [{"problem": problem} for problem in problems],
        results,
        summary,
        functools.partial(text, repeat_count=options.repeats),
        options,
    )


if __name__ == "__main__":
    main()
