"""The referee: the default two-sample test beside 15 others, in 34 settings of four families.

Seventeen settings are held out: they had no say in how our statistic was chosen, and their
strengths were set by the power of the others. Every tool is given the same data sets; every p-value
is stored, so that differences of power have paired standard errors. ``--null`` draws both samples
from P. Hours on two cores; ``--resume`` goes on where a run ended, ``--summary`` only tells.
Tools whose package is not here are left out (`pip install hyppo goodpoints scikit-learn`).
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
#: Of each setting and tool: p-values, and seconds.
Found = dict[str, dict[str, dict[str, list[float]]]]


def pvalue(tool: str, x: np.ndarray, y: np.ndarray, index: int) -> float:
    """The p-value of a tool, whose random numbers hang on the data set's number alone."""
    if tool == OURS:
        return float(two_sample_test(x, y, n_resamples=499, progress=False).pvalue)
    return referee_peers.PEERS[tool][0](x, y, np.random.default_rng(index))


def evaluated(
    tool: str, name: str, indices: range, null: bool
) -> tuple[str, str, list[float], list[float]]:
    """The tool and the setting, and the p-values and seconds of some data sets."""
    pvalues, seconds = [], []
    for index in indices:
        x, y = SETTINGS[name].drawn(index, null=null)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            found = pvalue(tool, x, y, index)
            seconds.append(round(time.perf_counter() - start, 4))
        pvalues.append(round(found, 6))
    return tool, name, pvalues, seconds


def powers(found: Found, tool: str, names: list[str]) -> dict[str, float]:
    """The power of a tool in each setting that it was given."""
    return {
        name: float(np.mean(np.array(found[name][tool]["p"]) <= ALPHA + 1e-9))
        for name in names
        if tool in found.get(name, {})
    }


def compared(found: Found, name: str, tool: str) -> tuple[float, float]:
    """By how much a tool has more power than ours in a setting, and its paired standard error."""
    ours, other = (np.array(found[name][one]["p"]) <= ALPHA + 1e-9 for one in (OURS, tool))
    count = min(len(ours), len(other))
    apart = other[:count].astype(float) - ours[:count]
    return float(apart.mean()), float(apart.std() / count**0.5)


def losses(found: Found, tools: list[str], names: list[str]) -> list[dict[str, Any]]:
    """Settings where another tool is ahead by more than two paired standard errors."""
    rows = []
    for name in names:
        for tool in tools:
            if tool == OURS or tool not in found[name]:
                continue
            apart, error = compared(found, name, tool)
            if apart > 2.0 * error > 0.0:
                rows.append({"setting": name, "tool": tool, "ahead by": apart, "error": error})
    return rows


def told(found: Found, *, null: bool) -> str:
    """The tables in words."""
    tools = [
        tool for tool in (OURS, *referee_peers.PEERS) if any(tool in one for one in found.values())
    ]
    names = [name for name in SETTINGS if OURS in found.get(name, {})]
    fewest = min(len(one["p"]) for name in names for one in found[name].values())
    most = max(len(one["p"]) for name in names for one in found[name].values())
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    parts = [
        f"{count} data sets each, level {ALPHA}; 499 permutations where a test has them, but "
        "for packages, which are as they are. Standard error of a power at most "
        f"{0.5 / fewest**0.5:.3f}."
    ]
    short = {tool: f"{index}" for index, tool in enumerate(tools)}
    parts.append(
        "Tools: " + "; ".join(f"({number}) {tool}" for tool, number in short.items()) + "."
    )
    for held_out in (True, False):
        some = [name for name in names if SETTINGS[name].held_out == held_out]
        if not some:
            continue
        rows = []
        for name in some:
            own = {short[tool]: powers(found, tool, [name]).get(name) for tool in tools}
            setting = SETTINGS[name]
            rows.append({"setting": name, "family": setting.family, "n": setting.n, **own})
        means = {
            short[tool]: float(np.mean(list(powers(found, tool, some).values()) or [np.nan]))
            for tool in tools
        }
        rows.append({"setting": "mean", "family": "", "n": None, **means})
        what = "rejected where P = Q" if null else "power"
        parts.append(f"## {'Held out' if held_out else 'Open'}: {what}\n\n{report.table(rows)}")
    if not null:
        lost = losses(found, tools, names)
        parts.append(
            "## Where another is ahead by more than two paired standard errors\n\n"
            + (report.table(lost) if lost else "Nowhere.")
        )
    seconds = [
        {
            "tool": tool,
            "median seconds": float(
                np.median(
                    [s for one in found.values() for s in one.get(tool, {}).get("seconds", [])]
                )
            ),
        }
        for tool in tools
    ]
    parts.append(f"## Seconds, one core\n\n{report.table(seconds)}")
    return "\n\n".join(parts)


def drawn(found: Found) -> Figure:
    """Power of every tool in every setting, those held out above."""
    names = [name for name in SETTINGS if OURS in found.get(name, {})]
    order = sorted(
        names, key=lambda name: (not SETTINGS[name].held_out, FAMILIES.index(SETTINGS[name].family))
    )
    figure = Figure(figsize=(8.0, 0.26 * len(order) + 1.4), layout="constrained")
    axes = figure.subplots()
    for row, name in enumerate(order):
        others = [
            powers(found, tool, [name])[name] for tool in referee_peers.PEERS if tool in found[name]
        ]
        axes.plot(others, np.full(len(others), row), "|", color="0.55", markersize=9)
        if others:
            axes.plot([max(others)], [row], "|", color="0.1", markersize=11)
        axes.plot([powers(found, OURS, [name])[name]], [row], "o", color="C0")
    edge = sum(SETTINGS[name].held_out for name in order) - 0.5
    axes.axhline(edge, color="0.3", linewidth=0.8)
    beside = {"transform": axes.get_yaxis_transform(), "rotation": 90, "ha": "left"}
    axes.text(1.01, edge - 0.3, "held out", va="bottom", **beside)
    axes.text(1.01, edge + 0.3, "open", va="top", **beside)
    axes.set_yticks(range(len(order)), order)
    axes.set(xlabel=f"power at level {ALPHA}", xlim=(-0.02, 1.02), ylim=(len(order) - 0.5, -0.5))
    kinds = (("o", "C0", "bke"), ("|", "0.1", "best of the others"), ("|", "0.55", "others"))
    for marker, color, label in kinds:
        axes.plot([], [], marker, color=color, label=label, markersize=9)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Draw, test, store, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tools = [OURS, *referee_peers.here()]
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--tools", nargs="+", choices=tools, default=tools)
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--null", action="store_true", help="both samples are drawn from P")
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep what the last run found")
    parser.add_argument("--summary", action="store_true", help="only tell what has been found")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.datasets, options.settings = 2, ["scale 1.5, n = 60", "coins that agree, D = 8"]
    info, folder = report.start(options.results)
    name = "referee" + "-level" * options.null + "-quick" * options.quick
    store = folder / f"{name}.json"
    found: Found = {}
    if (options.resume or options.summary) and store.exists():
        found = json.loads(store.read_text(encoding="utf-8"))["found"]
    title = "The default two-sample test beside others" + ", where P = Q" * options.null

    def write() -> None:
        report.save(
            folder,
            name,
            title,
            {**info, "load_average": None},
            told(found, null=options.null),
            {"found": found},
        )

    if not options.summary:
        fill(found, options, write)
    write()
    if not options.null:
        published = folder == report.RESULTS and not options.quick
        drawn(found).savefig(PICTURE if published else folder / f"{name}.png", dpi=150)


def fill(found: Found, options: argparse.Namespace, write: Any) -> None:
    """Evaluate what is missing, and write it every half minute."""
    context, last = multiprocessing.get_context("spawn"), time.monotonic()
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for start in range(0, options.datasets, CHUNK):
            indices = range(start, min(start + CHUNK, options.datasets))
            futures = [
                pool.submit(evaluated, tool, name, indices, options.null)
                for name in options.settings
                for tool in options.tools
                if len(found.get(name, {}).get(tool, {}).get("p", [])) <= start
            ]
            for future in futures:
                tool, name, pvalues, seconds = future.result()
                own = found.setdefault(name, {}).setdefault(tool, {"p": [], "seconds": []})
                own["p"] += pvalues
                own["seconds"] += seconds
            if time.monotonic() - last > 30.0:
                write()
                last = time.monotonic()


if __name__ == "__main__":
    main()
