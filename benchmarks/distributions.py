"""Distribution regression: coverage of intervals, gain by shrinkage, and computing time.

The response y changes the shape of a group's distribution, not its mean, as in Law et al. (2018,
section 5.1): rows of group i are Gamma(y_i / 2) in five columns, divided by their mean, with y_i
uniform from 4 to 8.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference import DistributionRegressor
from scipy.stats import binom, norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

COLUMNS = 5
#: Rows per group; number of training groups, and of test groups of each size.
SIZES, NUM_TRAINING, NUM_TEST = (5, 10, 30, 100, 500), 400, 400
#: Fractions of small training groups; rows of small groups and of the others.
SMALL_FRACTIONS, SMALL_SIZE, LARGE_SIZE = (0.0, 0.25, 0.5, 0.75, 0.9), 5, 500
LEVEL = 0.9

Groups = list[np.ndarray]


def draw(sizes: Sequence[int], rng: np.random.Generator) -> tuple[Groups, np.ndarray]:
    """Draw groups of given sizes, and y."""
    y = rng.uniform(4.0, 8.0, len(sizes))
    return [rng.gamma(v / 2.0, 2.0 / v, (n, COLUMNS)) for v, n in zip(y, sizes, strict=True)], y


def summaries(groups: Groups) -> np.ndarray:
    """Compute mean, standard deviation and skewness of each column of each group."""
    result = []
    for rows in groups:
        centered = rows - rows.mean(axis=0)
        deviation = rows.std(axis=0)
        result.append([*rows.mean(axis=0), *deviation, *(centered**3).mean(axis=0) / deviation**3])
    return np.array(result)


class _SummaryRegressor:
    """A scikit-learn regressor on summaries of the groups."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, groups: Groups, y: np.ndarray) -> _SummaryRegressor:
        """Fit on summaries of groups."""
        self.regressor.fit(summaries(groups), y)
        return self

    def predict(self, groups: Groups) -> np.ndarray:
        """Predict y from summaries of groups."""
        return np.asarray(self.regressor.predict(summaries(groups)))


def regressors(seed: int) -> dict[str, Any]:
    """Return the regressors of the comparison."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 33)))
    forest = RandomForestRegressor(300, min_samples_leaf=3, random_state=seed, n_jobs=1)
    return {
        "bke": DistributionRegressor(seed=seed),
        "ridge on embeddings": DistributionRegressor(shrinkage=False, seed=seed),
        "ridge on summaries": _SummaryRegressor(ridge),
        "forest on summaries": _SummaryRegressor(forest),
    }


def coverage(seeds: range) -> list[dict[str, Any]]:
    """Compute coverage of intervals and errors, by the size of test groups."""
    rows: dict[int, dict[str, list[Any]]] = {size: {} for size in SIZES}
    for seed in seeds:
        rng = np.random.default_rng([1, seed])
        groups, y = draw(rng.choice(SIZES, NUM_TRAINING), rng)
        fitted = {name: regressor.fit(groups, y) for name, regressor in regressors(seed).items()}
        for size in SIZES:
            test_groups, truth = draw([size] * NUM_TEST, rng)
            interval = fitted["bke"].predict_interval(test_groups, level=LEVEL)
            covered = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
            rows[size].setdefault("held", []).append(covered.mean())
            rows[size].setdefault("width", []).append(np.diff(interval, axis=1).mean())
            for name, regressor in fitted.items():
                error = float(np.mean((regressor.predict(test_groups) - truth) ** 2))
                rows[size].setdefault(name, []).append(error)
    return [
        {
            "rows of a group": size,
            **{
                name: float(np.mean(v) if name in ("held", "width") else np.sqrt(np.mean(v)))
                for name, v in measures.items()
            },
        }
        for size, measures in rows.items()
    ]


def mixed_sizes(seeds: range) -> list[dict[str, Any]]:
    """Compute errors on large groups, with a fraction of small training groups."""
    result: list[dict[str, Any]] = []
    for fraction in SMALL_FRACTIONS:
        errors: dict[str, list[float]] = {}
        for seed in seeds:
            rng = np.random.default_rng([2, seed])
            sizes = np.where(rng.random(NUM_TRAINING) < fraction, SMALL_SIZE, LARGE_SIZE)
            groups, y = draw(sizes, rng)
            test_groups, truth = draw([LARGE_SIZE] * NUM_TEST, rng)
            for name, regressor in regressors(seed).items():
                regressor.fit(groups, y)
                error = float(np.mean((regressor.predict(test_groups) - truth) ** 2))
                errors.setdefault(name, []).append(error)
                if isinstance(regressor, DistributionRegressor):
                    mean, deviation = regressor.predict(test_groups, return_std=True)
                    loss = -norm.logpdf(truth, mean, deviation).mean()
                    errors.setdefault(f"nats, {name}", []).append(float(loss))
        result.append(
            {
                "share of small": fraction,
                **{
                    name: float(np.mean(v) if name.startswith("nats") else np.sqrt(np.mean(v)))
                    for name, v in errors.items()
                },
            }
        )
    return result


def seconds(groups: int, rows: int) -> dict[str, Any]:
    """Measure the time to fit groups and to predict them."""
    rng = np.random.default_rng(3)
    y = rng.uniform(4.0, 8.0, groups)
    values = np.concatenate([rng.gamma(v / 2.0, 2.0 / v, (rows, COLUMNS)) for v in y])
    labels = np.repeat(np.arange(groups), rows)
    start = time.perf_counter()
    fitted = DistributionRegressor().fit(values, y, labels)
    middle = time.perf_counter()
    fitted.predict(values, labels)
    return {
        "groups": groups,
        "rows": groups * rows,
        "fit, s": middle - start,
        "predict, s": time.perf_counter() - middle,
        "peak, GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def text(results: dict[str, Any], datasets: int) -> str:
    """Format the three tables with explanations."""
    count = datasets * NUM_TEST
    low, high = (edge / count for edge in binom.interval(0.99, count, LEVEL))
    sizes = ", ".join(map(str, SIZES))
    return (
        f"{NUM_TRAINING} training groups of {sizes} rows at random, {NUM_TEST} test groups of each "
        f"size, {datasets} data sets. `held`: coverage of y by 90 % intervals (99 % band of "
        f"{count} independent groups: {low:.3f} to {high:.3f}; groups of a data set share a "
        "fit). `width`: mean width of the intervals. Other columns: root mean squared errors. "
        "The standard deviation of y is 1.15.\n\n"
        f"{report.table(results['coverage'])}\n\n"
        f"{NUM_TRAINING} training groups of {LARGE_SIZE} rows, a fraction of which has "
        f"{SMALL_SIZE} rows instead; {NUM_TEST} test groups of {LARGE_SIZE} rows. Root mean "
        "squared errors, and the negative log density of y in nats of the two methods with a "
        "density. Treating small groups like large ones increases the error (Law et al. 2018, "
        "section 5.1).\n\n"
        f"{report.table(results['shrinking'])}\n\n"
        f"Seconds.\n\n{report.table(results['seconds'])}"
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    datasets = 1 if options.quick else options.datasets
    info, folder = report.start(options.results)
    large = [(200, 20)] if options.quick else [(1000, 50), (10_000, 50)]
    results = {
        "coverage": coverage(range(datasets)),
        "shrinking": mixed_sizes(range(datasets)),
        "seconds": [seconds(*sizes) for sizes in large],
    }
    name = "distributions-quick" if options.quick else "distributions"
    report.save(
        folder,
        name,
        "Distribution regression",
        info,
        text(results, datasets),
        {"datasets": datasets, **results},
    )


if __name__ == "__main__":
    main()
