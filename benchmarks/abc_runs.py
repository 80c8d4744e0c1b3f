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
from bke.inference.core.machine import cores

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCS = Path(__file__).parent.parent / "docs"
Row = dict[str, Any]
#: The ends of the names of sequential sides that may make as many simulations as the others, and so
#: many times as many.
SEQUENTIAL = {"sequential": 1, "sequential, 3 x": 3}
#: Simulations to a particle: one from the prior, and five stages of three moves. Before moves went
#: on until most particles had moved, a run came to four or five stages on data of another seed.
PER_PARTICLE = 16


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


def sequential_options(count: int) -> dict[str, dict[str, Any]]:
    """Arguments other than the library's defaults, of both sequential sides."""
    return {
        end: {"num_particles": times * count // PER_PARTICLE, "num_simulations": times * count}
        for end, times in SEQUENTIAL.items()
    }


def sequential_facts(run: xr.DataTree) -> Row:
    """How far a sequential run came, and what it took."""
    reached = float(run["sample_stats"]["epsilon"].values[0])
    return {
        "ess": float(run["sample_stats"]["ess"].values[0]),
        "particles": run["sample_stats"].sizes["draw"],
        "simulations": int(run.attrs["simulations"]),
        "stages": int(np.sum(run["stages"]["epsilon"].values >= reached)),
        "epsilon": reached,
        "stopped": run.attrs["stopped"],
    }


def sequential_table(rows: list[Row], keys: Mapping[str, str]) -> str:
    """Means over the data sets, by side; ``keys`` are further columns, and their keys in rows."""
    table = []
    for side in dict.fromkeys(row["side"] for row in rows if "stopped" in row):
        mine = [row for row in rows if row["side"] == side]

        def mean(key: str, mine: list[Row] = mine) -> str:
            return report.cell(float(np.mean([row[key] for row in mine])))

        hardly = sum("of the moves" in row["stopped"] for row in mine)
        table.append(
            {
                "side": side,
                "particles": mean("particles"),
                "simulations": f"{np.mean([row['simulations'] for row in mine]):.0f}",
                "stages": mean("stages"),
                "stopped by few acceptances": f"{hardly} of {len(mine)}",
                "ESS": mean("ess"),
                **{name: spread_of([row[key] for row in mine]) for name, key in keys.items()},
                "CPU s": mean("CPU s"),
            }
        )
    return report.table(table)


def dates(rows: list[Row], sides: Sequence[str]) -> str:
    """Which sides were computed in which run, where it was more than one."""
    found: dict[str, list[str]] = {}
    for side in sides:
        begun = sorted({row["date"] for row in rows if row["side"] == side})
        if begun:
            found.setdefault(" and ".join(begun), []).append(f"`{side}`")
    if len(found) < 2:
        return ""
    most = max(found, key=lambda date: len(found[date]))
    parts = [f"{date}: {'; '.join(names)}" for date, names in found.items() if date != most]
    return f"Computed in the run of {'; of '.join(parts)}. All the others are of {most}."


def add_options(parser: argparse.ArgumentParser, data_sets: int, simulations: int) -> None:
    """What both benchmarks can be asked."""
    parser.add_argument("--data-sets", type=int, default=data_sets)
    parser.add_argument("--simulations", type=int, default=simulations)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep what the last run recorded")
    parser.add_argument(
        "--only", metavar="END", help="add to the recorded data sets the sides whose names end so"
    )
    parser.add_argument("--summary", action="store_true", help="write and draw what is recorded")
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
    """The rows of every data set, each from its seed, written after each.

    ``experiment`` is called with a seed, the settings and those of the ``sides`` that are not
    recorded; its rows name the seed as ``data``, and the ``side``.
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
        rows = [{"date": info["date"], **row} for row in rows]
    if not options.summary:
        info, folder = report.start(options.results)
        info = {**info, "load_average": None}  # errors are measured here, not times

    def write() -> None:
        rows.sort(key=lambda row: (row["data"], sides.index(row["side"])))
        said = "\n\n".join(filter(None, [text(rows, settings), dates(rows, sides)]))
        report.save(folder, name, title, info, said, {"settings": settings, "rows": rows})

    recorded = {(row["data"], row["side"]) for row in rows}
    if options.only and not rows:
        sys.exit("--only adds to what is recorded: it needs --resume, and results")
    missing: dict[int, frozenset[str]] = {}
    for seed in {row["data"] for row in rows} if options.only else range(options.data_sets):
        wanted = frozenset(
            side
            for side in sides
            if (seed, side) not in recorded and side.endswith(options.only or "")
        )
        if wanted:
            missing[seed] = wanted
    if options.summary or not missing:
        write()
        return rows
    with ProcessPoolExecutor(
        min(options.processes, len(missing)), multiprocessing.get_context("spawn")
    ) as pool:
        for done in as_completed(
            pool.submit(experiment, seed, settings, wanted) for seed, wanted in missing.items()
        ):
            rows += [{"date": info["date"], **row} for row in done.result()]
            write()
    return rows


def spread_of(values: Sequence[float]) -> str:
    """Their mean, and its standard error in brackets."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return report.cell(float(found.mean()))
    error = float(f"{found.std(ddof=1) / len(found) ** 0.5:.1g}")
    return f"{report.cell(float(found.mean()))} ({error:g})"
