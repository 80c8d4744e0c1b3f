"""Power of the default two-sample test and of 15 other tests, in 34 settings of four families.

Seventeen settings are held out: they did not influence the choice of the statistic of ``bke``, and
their effect sizes were set by the power of the other tests. All tools use the same data sets, and
every decision is stored, so that differences of power have paired standard errors. ``--null`` draws
both samples from P. The benchmark takes hours on two cores: ``--resume`` continues a run, and
``--summary`` only writes the report. Tools whose package is not installed are skipped
(`pip install hyppo goodpoints scikit-learn`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import referee_peers
import report
from bke.inference import two_sample_test
from bke.inference.core.machine import cores
from matplotlib.figure import Figure
from referee_settings import FAMILIES, SETTINGS
from threadpoolctl import threadpool_limits

ALPHA, OURS = 0.05, "bke"
PICTURE = Path(__file__).parents[1] / "docs" / "referee.png"
#: Data sets that a process takes at a time.
CHUNK = 5
#: Decisions by setting and tool, a character for each data set: 1 if P = Q is rejected, else 0.
Results = dict[str, dict[str, str]]


def pvalue(tool: str, x: np.ndarray, y: np.ndarray, index: int) -> float:
    """Return the p-value of a tool; its random numbers depend only on the index of the data set."""
    if tool == OURS:
        return float(two_sample_test(x, y, n_resamples=499, progress=False).pvalue)
    return referee_peers.PEERS[tool][0](x, y, np.random.default_rng(index))


def evaluate(tool: str, name: str, indices: range, null: bool) -> tuple[str, str, str, list[float]]:
    """Return the tool, the setting, and the decisions and seconds of some data sets."""
    rejected, seconds = "", []
    for index in indices:
        x, y = SETTINGS[name].draw(index, null=null)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            value = pvalue(tool, x, y, index)
            seconds.append(round(time.perf_counter() - start, 4))
        rejected += str(int(value <= ALPHA + 1e-9))
    return tool, name, rejected, seconds


def decisions(results: Results, name: str, tool: str) -> np.ndarray:
    """Return for each data set 1 if a tool rejects P = Q, else 0."""
    return np.array([int(digit) for digit in results[name][tool]])


def powers(results: Results, tool: str, names: list[str]) -> dict[str, float]:
    """Return the power of a tool in each setting in which it has results."""
    return {
        name: float(np.mean(decisions(results, name, tool)))
        for name in names
        if tool in results.get(name, {})
    }


def power_difference(results: Results, name: str, tool: str) -> tuple[float, float]:
    """Return a tool's power minus that of bke in a setting, and the paired standard error."""
    ours, other = (decisions(results, name, compared_tool) for compared_tool in (OURS, tool))
    count = min(len(ours), len(other))
    difference = other[:count] - ours[:count]
    return float(difference.mean()), float(difference.std() / count**0.5)


def losses(results: Results, tools: list[str], names: list[str]) -> list[dict[str, Any]]:
    """List settings where another tool has more power by over two paired standard errors."""
    rows = []
    for name in names:
        for tool in tools:
            if tool == OURS or tool not in results[name]:
                continue
            difference, error = power_difference(results, name, tool)
            if difference > 2.0 * error > 0.0:
                rows.append({"setting": name, "tool": tool, "ahead by": difference, "error": error})
    return rows


def summary(results: Results, median_seconds: dict[str, float], *, null: bool) -> str:
    """Format the report: power by setting and tool, settings with more power, and seconds."""
    tools = [
        tool
        for tool in (OURS, *referee_peers.PEERS)
        if any(tool in by_tool for by_tool in results.values())
    ]
    names = [name for name in SETTINGS if OURS in results.get(name, {})]
    fewest = min(len(digits) for name in names for digits in results[name].values())
    most = max(len(digits) for name in names for digits in results[name].values())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    parts = [
        f"{count} data sets each, level {ALPHA}; 499 permutations, except for packages, which are "
        f"used with their defaults. Standard error of a power at most {0.5 / fewest**0.5:.3f}."
    ]
    short = {tool: f"{index}" for index, tool in enumerate(tools)}
    parts.append(
        "Tools: " + "; ".join(f"({number}) {tool}" for tool, number in short.items()) + "."
    )
    for held_out in (True, False):
        chosen = [name for name in names if SETTINGS[name].held_out == held_out]
        if not chosen:
            continue
        rows = []
        for name in chosen:
            powers_by_tool = {
                short[tool]: powers(results, tool, [name]).get(name) for tool in tools
            }
            setting = SETTINGS[name]
            rows.append(
                {"setting": name, "family": setting.family, "n": setting.n, **powers_by_tool}
            )
        means = {
            short[tool]: float(np.mean(list(powers(results, tool, chosen).values()) or [np.nan]))
            for tool in tools
        }
        rows.append({"setting": "mean", "family": "", "n": None, **means})
        measure = "rejected where P = Q" if null else "power"
        parts.append(f"## {'Held out' if held_out else 'Open'}: {measure}\n\n{report.table(rows)}")
    if not null:
        lost = losses(results, tools, names)
        parts.append(
            "## Settings where another tool has more power by over two paired standard errors\n\n"
            + (report.table(lost) if lost else "None.")
        )
    seconds = [{"tool": tool, "median seconds": median_seconds[tool]} for tool in tools]
    parts.append(f"## Seconds, one core\n\n{report.table(seconds)}")
    return "\n\n".join(parts)


def draw_powers(results: Results) -> Figure:
    """Plot the power of every tool in every setting, held-out settings at the top."""
    names = [name for name in SETTINGS if OURS in results.get(name, {})]
    order = sorted(
        names, key=lambda name: (not SETTINGS[name].held_out, FAMILIES.index(SETTINGS[name].family))
    )
    figure = Figure(figsize=(8.0, 0.26 * len(order) + 1.4), layout="constrained")
    axes = figure.subplots()
    for row, name in enumerate(order):
        peer_powers = [
            powers(results, tool, [name])[name]
            for tool in referee_peers.PEERS
            if tool in results[name]
        ]
        axes.plot(peer_powers, np.full(len(peer_powers), row), "|", color="0.55", markersize=9)
        if peer_powers:
            axes.plot([max(peer_powers)], [row], "|", color="0.1", markersize=11)
        axes.plot([powers(results, OURS, [name])[name]], [row], "o", color="C0")
    edge = sum(SETTINGS[name].held_out for name in order) - 0.5
    axes.axhline(edge, color="0.3", linewidth=0.8)
    text_options = {"transform": axes.get_yaxis_transform(), "rotation": 90, "ha": "left"}
    axes.text(1.01, edge - 0.3, "held out", va="bottom", **text_options)
    axes.text(1.01, edge + 0.3, "open", va="top", **text_options)
    axes.set_yticks(range(len(order)), order)
    axes.set(xlabel=f"power at level {ALPHA}", xlim=(-0.02, 1.02), ylim=(len(order) - 0.5, -0.5))
    markers = (("o", "C0", "bke"), ("|", "0.1", "best of the others"), ("|", "0.55", "others"))
    for marker, color, label in markers:
        axes.plot([], [], marker, color=color, label=label, markersize=9)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Evaluate the tools in all settings, and write the results, the report and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tools = [OURS, *referee_peers.here()]
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--tools", nargs="+", choices=tools, default=tools)
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--null", action="store_true", help="both samples are drawn from P")
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the results of the last run")
    parser.add_argument("--summary", action="store_true", help="only write the report")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.datasets, options.settings = 2, ["scale 1.5, n = 60", "coins that agree, D = 8"]
    info, folder = report.start(options.results)
    name = "referee" + "-level" * options.null + "-quick" * options.quick
    store = folder / f"{name}.json"
    results: Results = {}
    seconds: dict[str, list[float]] = {}
    if (options.resume or options.summary) and store.exists():
        recorded = json.loads(store.read_text(encoding="utf-8"))
        results = recorded["rejected"]
        for tool, median in recorded["median seconds"].items():
            # Data sets of an earlier run count with their median.
            count = sum(len(by_tool.get(tool, "")) for by_tool in results.values())
            seconds[tool] = [median] * count
    title = "The default two-sample test compared with others" + ", where P = Q" * options.null

    def write() -> None:
        medians = {tool: float(np.median(values)) for tool, values in seconds.items() if values}
        report.save(
            folder,
            name,
            title,
            {**info, "load_average": None},
            summary(results, medians, null=options.null),
            {"rejected": results, "median seconds": medians},
        )

    if not options.summary:
        fill(results, seconds, options, write)
    write()
    if not options.null:
        published = folder == report.RESULTS and not options.quick
        draw_powers(results).savefig(PICTURE if published else folder / f"{name}.png", dpi=150)


def fill(
    results: Results, seconds: dict[str, list[float]], options: argparse.Namespace, write: Any
) -> None:
    """Evaluate the missing results, and write them every half minute."""
    context, last = multiprocessing.get_context("spawn"), time.monotonic()
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for start in range(0, options.datasets, CHUNK):
            indices = range(start, min(start + CHUNK, options.datasets))
            futures = [
                pool.submit(evaluate, tool, name, indices, options.null)
                for name in options.settings
                for tool in options.tools
                if len(results.get(name, {}).get(tool, "")) <= start
            ]
            for future in futures:
                tool, name, rejected, elapsed = future.result()
                by_tool = results.setdefault(name, {})
                by_tool[tool] = by_tool.get(tool, "") + rejected
                seconds.setdefault(tool, []).extend(elapsed)
            if time.monotonic() - last > 30.0:
                write()
                last = time.monotonic()


if __name__ == "__main__":
    main()
