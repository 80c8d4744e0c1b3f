"""What the benchmarks of likelihood-free inference share: weighted draws, one data set at a time.

Weights are worked out here from squared distances, and not by the library that is measured.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import report
import xarray as xr
from bke.inference.machine import cores

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCS = Path(__file__).parent.parent / "docs"
Row = dict[str, Any]


class Draws(NamedTuple):
    """Draws (M, p) with weights (M,) that sum to one."""

    points: np.ndarray
    weight: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.weight @ self.points

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self.weight @ (self.points - self.mean) ** 2)

    @property
    def ess(self) -> float:
        return float(1.0 / np.sum(self.weight**2))

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """(len(levels), p): the first draw at which the weights below reach a level."""
        found = []
        for column in self.points.T:
            order = np.argsort(column)
            reached = np.searchsorted(np.cumsum(self.weight[order]), levels)
            found.append(column[order][np.minimum(reached, len(column) - 1)])
        return np.array(found).T


def parameters(run: xr.DataTree, names: Sequence[str]) -> np.ndarray:
    """Draws (M, p) of all chains, a column for each component of each parameter."""
    posterior = run["posterior"].to_dataset().stack(sample=("chain", "draw"))
    parts = [posterior[name].transpose("sample", ...).values for name in names]
    return np.column_stack([part.reshape(len(part), -1) for part in parts])


def squared_distances(run: xr.DataTree) -> np.ndarray:
    """(M,), of what has not failed."""
    return run["sample_stats"]["squared_distance"].values.ravel()


def weights_of(squared: np.ndarray, epsilon: float) -> np.ndarray:
    """exp(-d^2 / epsilon) over its sum, (M,)."""
    weight = np.exp(-(squared - squared.min()) / epsilon)
    return weight / weight.sum()


def epsilon_with(squared: np.ndarray, size: float) -> float:
    """The epsilon whose weights have the effective sample size ``size``; it grows with epsilon."""
    low, high = -40.0, 40.0  # logarithms, of epsilon over the spread of the distances
    spread = squared.std() or 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        ess = 1.0 / np.sum(weights_of(squared, spread * np.exp(middle)) ** 2)
        low, high = (middle, high) if ess < size else (low, middle)
    return float(spread * np.exp(high))


def equal(run: xr.DataTree, names: Sequence[str]) -> Draws:
    """Of a run whose draws have equal weight."""
    points = parameters(run, names)
    return Draws(points, np.full(len(points), 1.0 / len(points)))


def weighted(points: np.ndarray, squared: np.ndarray, size: float) -> Draws:
    """With the epsilon that gives the effective sample size."""
    return Draws(points, weights_of(squared, epsilon_with(squared, size)))


def accepted(points: np.ndarray, squared: np.ndarray, count: int) -> Draws:
    """The nearest ones, alike."""
    chosen = np.argsort(squared, kind="stable")[:count]
    return Draws(points[chosen], np.full(count, 1.0 / count))


def add_options(parser: argparse.ArgumentParser, data_sets: int, simulations: int) -> None:
    """What both benchmarks can be asked."""
    parser.add_argument("--data-sets", type=int, default=data_sets)
    parser.add_argument("--simulations", type=int, default=simulations)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the data sets of the last run")
    parser.add_argument("--summary", action="store_true", help="write and draw what is recorded")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")


def fill(
    name: str,
    title: str,
    experiment: Callable[[int, Mapping[str, Any]], list[Row]],
    text: Callable[[list[Row], Mapping[str, Any]], str],
    settings: Mapping[str, Any],
    options: argparse.Namespace,
) -> list[Row]:
    """The rows of every data set, each from its seed, written after each.

    ``experiment`` is called with a seed and the settings, and its rows name the seed as ``data``.
    """
    name = f"{name}-quick" if options.quick else name
    path = (options.results or report.RESULTS) / f"{name}.json"
    rows: list[Row] = []
    if options.summary or (options.resume and path.exists()):
        before = json.loads(path.read_text(encoding="utf-8"))
        if not options.summary and before["settings"] != json.loads(json.dumps(settings)):
            sys.exit(f"the last run had other settings: {before['settings']}")
        settings, rows, info, folder = (
            before["settings"], before["rows"], before["machine"], path.parent,
        )  # fmt: skip
    if not options.summary:
        info, folder = report.start(options.results)
        info = {**info, "load_average": None}  # errors are measured here, not times

    def write() -> None:
        rows.sort(key=lambda row: row["data"])
        report.save(
            folder, name, title, info, text(rows, settings), {"settings": settings, "rows": rows}
        )

    missing = sorted(set(range(options.data_sets)) - {row["data"] for row in rows})
    if options.summary or not missing:
        write()
        return rows
    with ProcessPoolExecutor(
        min(options.processes, len(missing)), multiprocessing.get_context("spawn")
    ) as pool:
        for done in as_completed(pool.submit(experiment, seed, settings) for seed in missing):
            rows += done.result()
            write()
    return rows


def spread_of(values: Sequence[float]) -> str:
    """Their mean, and its standard error in brackets."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return report.cell(float(found.mean()))
    error = float(f"{found.std(ddof=1) / len(found) ** 0.5:.1g}")
    return f"{report.cell(float(found.mean()))} ({error:g})"
