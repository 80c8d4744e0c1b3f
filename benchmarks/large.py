"""Run the benchmarks of speed in sequence and combine their results in one table and a plot.

Each benchmark runs in a separate process and writes its results; the table and the plot are made
from these. ``--summary`` uses the recorded results. The whole takes about two hours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import report

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "large.png"
SCRIPTS = (
    "gradient",
    "scaling",
    "scaling_nd",
    "landmarks",
    "low_rank",
    "cost",
    "million",
    "figure4",
)

Row = dict[str, Any]


def main() -> None:
    """Run the benchmarks, collect their results, and write the table and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--summary", action="store_true", help="use recorded results only")
    parser.add_argument("--scripts", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    if not options.summary:
        for script in options.scripts:
            command = [sys.executable, str(HERE / f"{script}.py"), "--results", str(folder)]
            print(f"== {script}", flush=True)
            subprocess.run(command + ["--quick"] * options.quick, check=True)
    ending = "-quick" if options.quick else ""
    evaluations = [
        row
        for table_rows in (scaling_rows, landmark_rows, low_rank_rows)
        for row in table_rows(folder, ending)
    ]
    jobs = job_rows(folder, ending)
    text = (
        "Milliseconds of one log likelihood, and of one with its derivative in the lengthscale, "
        "from the result files of the single benchmarks, which contain more and their dates. A "
        f"dash: not measured.\n\n{report.table(evaluations)}\n\nWhole jobs, in seconds, with "
        f"compilation:\n\n{report.table(jobs)}"
    )
    data = {"evaluations": evaluations, "jobs": jobs}
    report.save(folder, f"large{ending}", "What large data cost", info, text, data)
    draw(evaluations, folder / "large-quick.png" if options.quick else PICTURE)


def recorded(folder: Path, name: str) -> Row:
    """Return the recorded results of one benchmark, or an empty dictionary."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def evaluation(
    columns: int,
    likelihood: str,
    n: int,
    value: float | None,
    gradient: float | None,
    memory: float | None = None,
) -> Row:
    """Return one row of the table; times in ms, memory in GiB."""
    return {
        "columns": columns,
        "likelihood": likelihood,
        "rows": n,
        "value ms": value,
        "value and gradient ms": gradient,
        "peak GiB": memory,
    }


def scaling_rows(folder: Path, ending: str) -> list[Row]:
    """Return rows of one and two columns at the middle one of the measured lengthscales."""
    evaluations = []
    for columns, name in ((1, f"scaling{ending}"), (2, f"scaling-2d{ending}")):
        rows = recorded(folder, name).get("rows", [])
        lengthscales = sorted({row["l"] for row in rows})
        for row in rows:
            if row["l"] != lengthscales[len(lengthscales) // 2]:
                continue
            for side, likelihood in (("spectral", "spectral"), ("matrices", "dense")):
                value, gradient = (
                    row.get(f"{quantity} ms, {side}") for quantity in ("value", "gradient")
                )
                if value is not None:
                    memory = row["peak GiB"] if side == "spectral" else None
                    evaluations.append(
                        evaluation(columns, likelihood, row["n"], value, gradient, memory)
                    )
    return evaluations


def landmark_rows(folder: Path, ending: str) -> list[Row]:
    """Return rows of the landmark model in ten columns."""
    return [
        evaluation(
            10,
            "landmark, m = 256",
            row["n"],
            1e3 * row["value s"],
            1e3 * row["gradient s"],
            row["peak GiB"],
        )
        for row in recorded(folder, f"landmarks{ending}").get("memory", [])
    ]


def low_rank_rows(folder: Path, ending: str) -> list[Row]:
    """Return rows of the low-rank likelihoods in ten columns, at sizes too large for matrices."""
    return [
        evaluation(
            10,
            f"{row['likelihood']}, rank {row['rank']}",
            row["n"],
            1e3 * row["value s"],
            row["gradient s"] and 1e3 * row["gradient s"],
            row["peak GiB"],
        )
        for row in recorded(folder, f"low_rank{ending}").get("large", [])
    ]


def job_rows(folder: Path, ending: str) -> list[Row]:
    """Return rows of whole posteriors, witnesses and tests."""
    rows = [
        {"job": f"600 rows, {row['method']}", "seconds": row["first fit, s"], "peak GiB": None}
        for row in recorded(folder, f"cost{ending}").get("methods", [])
    ]
    rows += [
        {"job": f"run of BKE Figure 4, {row['side']}", "seconds": row["wall s"], "peak GiB": None}
        for row in recorded(folder, f"figure4{ending}").get("rows", [])
    ]
    rows += [
        {
            "job": f"two samples of a million rows, {row['step']}",
            "seconds": row["seconds"],
            "peak GiB": row["peak GiB"],
        }
        for row in recorded(folder, f"million{ending}").get("rows", [])
    ]
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Plot the milliseconds of a value with its gradient by number of rows, log-log."""
    figure, axes = plt.subplots(figsize=(6.0, 4.2), layout="constrained")
    for columns, likelihood in dict.fromkeys((row["columns"], row["likelihood"]) for row in rows):
        known = [
            (row["rows"], row["value and gradient ms"])
            for row in rows
            if (row["columns"], row["likelihood"]) == (columns, likelihood)
            and row["value and gradient ms"] is not None
        ]
        if known:
            style = "--s" if likelihood == "dense" else "-o"
            label = f"D = {columns}, {likelihood}"
            axes.loglog(*np.array(known, dtype=float).T, style, ms=4, label=label)
    axes.set(xlabel="rows", ylabel="value and gradient, ms")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
