"""Shared code of the benchmarks of likelihood-free inference: weighted draws and resumable runs.

Weights are computed here from squared distances, independently of the library under test.
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
from bke.inference.core.machine import cores

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCS = Path(__file__).parent.parent / "docs"
Row = dict[str, Any]
#: Suffixes of the names of sequential methods, and their budgets of simulations relative to the
#: other methods.
SEQUENTIAL = {"sequential": 1, "sequential, 3 x": 3}
#: Simulations per particle: one from the prior, and five stages of three moves. Without repetition
#: of moves until most particles have moved, a run on data of another seed had four or five stages.
PER_PARTICLE = 16


class Draws(NamedTuple):
    """Weighted draws (M, p), with weights (M,) that sum to one."""

    points: np.ndarray
    weights: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.weights @ self.points

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self.weights @ (self.points - self.mean) ** 2)

    @property
    def ess(self) -> float:
        return float(1.0 / np.sum(self.weights**2))

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """Compute quantiles (len(levels), p): first draws whose cumulative weights reach levels."""
        result = []
        for column in self.points.T:
            order = np.argsort(column)
            index = np.searchsorted(np.cumsum(self.weights[order]), levels)
            result.append(column[order][np.minimum(index, len(column) - 1)])
        return np.array(result).T


def parameters(run: xr.DataTree, names: Sequence[str]) -> np.ndarray:
    """Return draws (M, p) of all chains, with a column for each component of each parameter."""
    posterior = run["posterior"].to_dataset().stack(sample=("chain", "draw"))
    parts = [posterior[name].transpose("sample", ...).values for name in names]
    return np.column_stack([part.reshape(len(part), -1) for part in parts])


def squared_distances(run: xr.DataTree) -> np.ndarray:
    """Return the squared distances (M,) of the simulations that did not fail."""
    return run["sample_stats"]["squared_distance"].values.ravel()


def exponential_weights(squared: np.ndarray, epsilon: float) -> np.ndarray:
    """Compute normalized weights proportional to exp(-d^2 / epsilon), (M,)."""
    weights = np.exp(-(squared - squared.min()) / epsilon)
    return weights / weights.sum()


def epsilon_for_ess(squared: np.ndarray, target: float) -> float:
    """Find the epsilon at which the effective sample size, increasing in epsilon, is ``target``."""
    low, high = -40.0, 40.0  # logarithms of epsilon over the standard deviation of the distances
    scale = squared.std() or 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        ess = 1.0 / np.sum(exponential_weights(squared, scale * np.exp(middle)) ** 2)
        low, high = (middle, high) if ess < target else (low, middle)
    return float(scale * np.exp(high))


def equally_weighted(run: xr.DataTree, names: Sequence[str]) -> Draws:
    """Return the draws of a run with equal weights."""
    points = parameters(run, names)
    return Draws(points, np.full(len(points), 1.0 / len(points)))


def weighted(points: np.ndarray, squared: np.ndarray, target: float) -> Draws:
    """Return draws weighted with the epsilon whose effective sample size is ``target``."""
    return Draws(points, exponential_weights(squared, epsilon_for_ess(squared, target)))


def accepted(points: np.ndarray, squared: np.ndarray, count: int) -> Draws:
    """Return the ``count`` nearest draws with equal weights."""
    nearest = np.argsort(squared, kind="stable")[:count]
    return Draws(points[nearest], np.full(count, 1.0 / count))


def sequential_options(count: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of both sequential methods that differ from the library's defaults."""
    return {
        suffix: {"num_particles": times * count // PER_PARTICLE, "num_simulations": times * count}
        for suffix, times in SEQUENTIAL.items()
    }


def sequential_diagnostics(run: xr.DataTree) -> Row:
    """Return the reached epsilon, the number of stages and the cost of a sequential run."""
    epsilon = float(run["sample_stats"]["epsilon"].values[0])
    return {
        "ess": float(run["sample_stats"]["ess"].values[0]),
        "particles": run["sample_stats"].sizes["draw"],
        "simulations": int(run.attrs["simulations"]),
        "stages": int(np.sum(run["stages"]["epsilon"].values >= epsilon)),
        "epsilon": epsilon,
        "stopped": run.attrs["stopped"],
    }


def sequential_table(rows: list[Row], keys: Mapping[str, str]) -> str:
    """Format means over the data sets by method; ``keys`` maps further columns to keys of rows."""
    table = []
    for side in dict.fromkeys(row["side"] for row in rows if "stopped" in row):
        selected = [row for row in rows if row["side"] == side]

        def mean(key: str, selected: list[Row] = selected) -> str:
            return report.cell(float(np.mean([row[key] for row in selected])))

        stopped_early = sum("of the moves" in row["stopped"] for row in selected)
        table.append(
            {
                "side": side,
                "particles": mean("particles"),
                "simulations": f"{np.mean([row['simulations'] for row in selected]):.0f}",
                "stages": mean("stages"),
                "stopped by few acceptances": f"{stopped_early} of {len(selected)}",
                "ESS": mean("ess"),
                **{
                    name: mean_and_error([row[key] for row in selected])
                    for name, key in keys.items()
                },
                "CPU s": mean("CPU s"),
            }
        )
    return report.table(table)


def dates(rows: list[Row], sides: Sequence[str]) -> str:
    """Return a sentence on the run of each method, empty where all are of one run."""
    sides_by_date: dict[str, list[str]] = {}
    for side in sides:
        run_dates = sorted({row["date"] for row in rows if row["side"] == side})
        if run_dates:
            sides_by_date.setdefault(" and ".join(run_dates), []).append(f"`{side}`")
    if len(sides_by_date) < 2:
        return ""
    main_date = max(sides_by_date, key=lambda date: len(sides_by_date[date]))
    parts = [
        f"{date}: {'; '.join(names)}" for date, names in sides_by_date.items() if date != main_date
    ]
    return f"Computed in the run of {'; of '.join(parts)}. All the others are of {main_date}."


def add_options(parser: argparse.ArgumentParser, data_sets: int, simulations: int) -> None:
    """Add the command-line options of both benchmarks."""
    parser.add_argument("--data-sets", type=int, default=data_sets)
    parser.add_argument("--simulations", type=int, default=simulations)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the rows of the last run")
    parser.add_argument(
        "--only", metavar="END", help="add the methods whose names end so to the recorded data sets"
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="rewrite tables and figures from the recorded results",
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")


def fill(
    name: str,
    title: str,
    experiment: Callable[[int, Mapping[str, Any], frozenset[str]], list[Row]],
    sides: Sequence[str],
    text: Callable[[list[Row], Mapping[str, Any]], str],
    settings: Mapping[str, Any],
    options: argparse.Namespace,
) -> list[Row]:
    """Compute the missing rows of each data set, and write all rows after each data set.

    ``experiment`` is called with a seed, the settings and the ``sides`` (methods) that are not
    recorded; its rows have the seed as ``data``, and the ``side``.
    """
    name = f"{name}-quick" if options.quick else name
    path = (options.results or report.RESULTS) / f"{name}.json"
    rows: list[Row] = []
    if options.summary or (options.resume and path.exists()):
        previous = json.loads(path.read_text(encoding="utf-8"))
        if not options.summary and previous["settings"] != json.loads(json.dumps(settings)):
            sys.exit(f"--resume needs the settings of the last run: {previous['settings']}")
        settings, rows, info, folder = (
            previous["settings"], previous["rows"], previous["machine"], path.parent,
        )  # fmt: skip
        rows = [{"date": info["date"], **row} for row in rows]
    if not options.summary:
        info, folder = report.start(options.results)
        info = {**info, "load_average": None}  # measures errors, not times

    def write() -> None:
        rows.sort(key=lambda row: (row["data"], sides.index(row["side"])))
        content = "\n\n".join(filter(None, [text(rows, settings), dates(rows, sides)]))
        # Six significant digits, twice those of the tables, halve the size of the file.
        rounded = json.loads(
            json.dumps(rows), parse_float=lambda digits: float(f"{float(digits):.6g}")
        )
        report.save(folder, name, title, info, content, {"settings": settings, "rows": rounded})

    recorded = {(row["data"], row["side"]) for row in rows}
    if options.only and not rows:
        sys.exit("--only adds to recorded results; pass --resume, and run without --only first")
    missing: dict[int, frozenset[str]] = {}
    for seed in {row["data"] for row in rows} if options.only else range(options.data_sets):
        pending = frozenset(
            side
            for side in sides
            if (seed, side) not in recorded and side.endswith(options.only or "")
        )
        if pending:
            missing[seed] = pending
    if options.summary or not missing:
        write()
        return rows
    with ProcessPoolExecutor(
        min(options.processes, len(missing)), multiprocessing.get_context("spawn")
    ) as pool:
        for done in as_completed(
            pool.submit(experiment, seed, settings, pending) for seed, pending in missing.items()
        ):
            rows += [{"date": info["date"], **row} for row in done.result()]
            write()
    return rows


def mean_and_error(values: Sequence[float]) -> str:
    """Format the mean of values with its standard error in brackets."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return report.cell(float(array.mean()))
    error = float(f"{array.std(ddof=1) / len(array) ** 0.5:.1g}")
    return f"{report.cell(float(array.mean()))} ({error:g})"
