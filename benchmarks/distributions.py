"""Distribution regression: do intervals hold y, what shrinkage is worth, and seconds.

Groups of rows whose means say nothing of y, only their shape, in the manner of Law et al. (2018,
section 5.1): rows of group i are Gamma(y_i / 2) in five columns, over their mean, with y_i uniform
from 4 to 8.
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
#: Rows of groups; groups by which is learned, and on which it is judged, of each size.
SIZES, LEARNED, JUDGED = (5, 10, 30, 100, 500), 400, 400
#: Shares of small groups among those by which is learned, rows of small ones and of others.
SHARES, FEW, MANY = (0.0, 0.25, 0.5, 0.75, 0.9), 5, 500
LEVEL = 0.9

Groups = list[np.ndarray]


def draw(sizes: Sequence[int], rng: np.random.Generator) -> tuple[Groups, np.ndarray]:
    """Draw groups of these sizes, and y."""
    y = rng.uniform(4.0, 8.0, len(sizes))
    return [rng.gamma(v / 2.0, 2.0 / v, (n, COLUMNS)) for v, n in zip(y, sizes, strict=True)], y


def summaries(groups: Groups) -> np.ndarray:
    """Means, deviations and skewness of every column, as one would do by hand."""
    found = []
    for rows in groups:
        apart = rows - rows.mean(axis=0)
        deviation = rows.std(axis=0)
        found.append([*rows.mean(axis=0), *deviation, *(apart**3).mean(axis=0) / deviation**3])
    return np.array(found)


class _BySummaries:
    """A regressor of scikit-learn's on summaries of the groups."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, groups: Groups, y: np.ndarray) -> _BySummaries:
        """Learn."""
        self.regressor.fit(summaries(groups), y)
        return self

    def predict(self, groups: Groups) -> np.ndarray:
        """Predict."""
        return np.asarray(self.regressor.predict(summaries(groups)))


def tools(seed: int) -> dict[str, Any]:
    """All that are compared."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 33)))
    forest = RandomForestRegressor(300, min_samples_leaf=3, random_state=seed, n_jobs=1)
    return {
        "bke": DistributionRegressor(seed=seed),
        "ridge on embeddings": DistributionRegressor(shrinkage=False, seed=seed),
        "ridge on summaries": _BySummaries(ridge),
        "forest on summaries": _BySummaries(forest),
    }


def coverage(seeds: range) -> list[dict[str, Any]]:
    """How many intervals hold y, and errors, by the size of the groups that are judged."""
    rows: dict[int, dict[str, list[Any]]] = {size: {} for size in SIZES}
    for seed in seeds:
        rng = np.random.default_rng([1, seed])
        groups, y = draw(rng.choice(SIZES, LEARNED), rng)
        fitted = {name: tool.fit(groups, y) for name, tool in tools(seed).items()}
        for size in SIZES:
            new, truth = draw([size] * JUDGED, rng)
            interval = fitted["bke"].predict_interval(new, level=LEVEL)
            held = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
            rows[size].setdefault("held", []).append(held.mean())
            rows[size].setdefault("width", []).append(np.diff(interval, axis=1).mean())
            for name, tool in fitted.items():
                error = float(np.mean((tool.predict(new) - truth) ** 2))
                rows[size].setdefault(name, []).append(error)
    return [
        {
            "rows of a group": size,
            **{
                name: float(np.mean(v) if name in ("held", "width") else np.sqrt(np.mean(v)))
                for name, v in found.items()
            },
        }
        for size, found in rows.items()
    ]


def shrinking(seeds: range) -> list[dict[str, Any]]:
    """Errors on large groups where some of those that were learned from are small."""
    found: list[dict[str, Any]] = []
    for share in SHARES:
        errors: dict[str, list[float]] = {}
        for seed in seeds:
            rng = np.random.default_rng([2, seed])
            sizes = np.where(rng.random(LEARNED) < share, FEW, MANY)
            groups, y = draw(sizes, rng)
            new, truth = draw([MANY] * JUDGED, rng)
            for name, tool in tools(seed).items():
                tool.fit(groups, y)
                error = float(np.mean((tool.predict(new) - truth) ** 2))
                errors.setdefault(name, []).append(error)
                if isinstance(tool, DistributionRegressor):
                    mean, deviation = tool.predict(new, return_std=True)
                    lost = -norm.logpdf(truth, mean, deviation).mean()
                    errors.setdefault(f"nats, {name}", []).append(float(lost))
        found.append(
            {
                "share of small": share,
                **{
                    name: float(np.mean(v) if name.startswith("nats") else np.sqrt(np.mean(v)))
                    for name, v in errors.items()
                },
            }
        )
    return found


def seconds(groups: int, rows: int) -> dict[str, Any]:
    """How long it takes to learn from groups and to predict them."""
    rng = np.random.default_rng(3)
    y = rng.uniform(4.0, 8.0, groups)
    values = np.concatenate([rng.gamma(v / 2.0, 2.0 / v, (rows, COLUMNS)) for v in y])
    labels = np.repeat(np.arange(groups), rows)
    start = time.perf_counter()
    fitted = DistributionRegressor().fit(values, y, labels)
    between = time.perf_counter()
    fitted.predict(values, labels)
    return {
        "groups": groups,
        "rows": groups * rows,
        "fit, s": between - start,
        "predict, s": time.perf_counter() - between,
        "peak, GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def text(found: dict[str, Any], datasets: int) -> str:
    """The three tables in words."""
    count = datasets * JUDGED
    low, high = (edge / count for edge in binom.interval(0.99, count, LEVEL))
    sizes = ", ".join(map(str, SIZES))
    return (
        f"Learned from {LEARNED} groups of {sizes} rows at random, judged on {JUDGED} new groups "
        f"of each size, {datasets} times: how many of the 90 % intervals hold y (99 % band of "
        f"{count} independent ones: {low:.3f} to {high:.3f}; groups of one data set share what was "
        "learned), their width, and root mean squared errors; y has a deviation of 1.15.\n\n"
        f"{report.table(found['coverage'])}\n\n"
        f"Learned from {LEARNED} groups of {MANY} rows, of which a share has {FEW} instead, and "
        f"judged on {JUDGED} groups of {MANY} rows: root mean squared errors, and the negative log "
        "density of y in nats of the two that have one (what Law et al. 2018, section 5.1, show: "
        f"small groups mislead where they are taken for large ones).\n\n"
        f"{report.table(found['shrinking'])}\n\n"
        f"Seconds.\n\n{report.table(found['seconds'])}"
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
    found = {
        "coverage": coverage(range(datasets)),
        "shrinking": shrinking(range(datasets)),
        "seconds": [seconds(*one) for one in large],
    }
    name = "distributions-quick" if options.quick else "distributions"
    report.save(
        folder,
        name,
        "Distribution regression",
        info,
        text(found, datasets),
        {"datasets": datasets, **found},
    )


if __name__ == "__main__":
    main()
