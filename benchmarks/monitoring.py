"""False alarms of monitors, rows until an alarm, since when, and rows a second.

Four parts, each a file of its own: ``alarms`` (10 000 streams that do not change, 10 000 rows
each), ``delays`` (eight kinds of change after 1000 rows, beside other tools), ``rate``. Hours on
two cores: ``--parts`` chooses, and ``--resume`` goes on where a run ended.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Sequence
from typing import Any

import levels
import monitoring_peers
import numpy as np
import repeats
import report
from bke.inference import Monitor
from monitoring_settings import CHANGES, NULLS, normal
from scipy.stats import binom

ALPHA = levels.ALPHA
#: Rows of a stream that does not change; before a change, and at most after it.
ROWS, BEFORE, AFTER = 10_000, 1000, 5000
#: Rows of the reference where there is a change.
REFERENCE = 1000
#: Rows of an update.
TOGETHER = 500
PARTS = ("alarms", "delays", "rate")


def largest(kind: str, permutations: int, seeds: range) -> list[float]:
    """The largest evidence ever, one for each seed; ``permutations`` is not used."""
    reference, rows = NULLS[kind]
    found = []
    for seed in seeds:
        rng = np.random.default_rng([list(NULLS).index(kind), seed])
        monitor = Monitor(rows(reference, rng), seed=seed)
        found.append(monitor.update(rows(ROWS, rng)).max_wealth)
    return found


def alarms_summary(evidence: np.ndarray) -> dict[str, Any]:
    """How often the evidence has ever reached 20, and 2 and 100 for comparison."""
    return {
        f"ever {limit:g}": float(np.mean(evidence >= limit)) for limit in (2.0, 1 / ALPHA, 100.0)
    } | {"streams": len(evidence)}


def delay(change: str, tool: str, permutations: int, seeds: range) -> list[list[float]]:
    """Rows from the change to the alarm, and whether the interval holds the change."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([101, list(CHANGES).index(change), seed])
        reference = normal(REFERENCE, rng)
        stream = np.concatenate([normal(BEFORE, rng), CHANGES[change](AFTER, rng)])
        if tool == "bke":
            found.append(_of_monitor(reference, stream, seed))
        else:
            row = monitoring_peers.alarm(tool, reference, stream, seed)
            found.append([row - BEFORE, math.nan, math.nan])
    return found


def _of_monitor(reference: np.ndarray, stream: np.ndarray, seed: int) -> list[float]:
    monitor = Monitor(reference, seed=seed)
    for start in range(0, len(stream), TOGETHER):
        state = monitor.update(stream[start : start + TOGETHER])
        if state.alarm:
            _, low, high, _ = state.change_point
            return [state.alarm_row - BEFORE, float(low <= BEFORE + 1 <= high), high - low + 1]
    return [math.inf, math.nan, math.nan]


def delay_summary(results: np.ndarray) -> dict[str, Any]:
    """The median, how many alarms were false or never came, and the interval's coverage."""
    rows, held, width = results.T
    false = rows <= 0
    true = np.isfinite(rows) & ~false
    return {
        "median rows": float(np.median(rows[~false])),
        "false": float(false.mean()),
        "never": float(np.isinf(rows).mean()),
        "held": float(np.nanmean(held[true])) if np.isfinite(held[true]).any() else None,
        "width": float(np.nanmedian(width[true])) if np.isfinite(width[true]).any() else None,
        "streams": len(rows),
    }


def rate(rows: int) -> dict[str, Any]:
    """Rows a second in five columns, after a warm-up, and the memory that they add."""
    rng = np.random.default_rng(3)
    monitor = Monitor(normal(REFERENCE, rng))
    monitor.update(normal(20_000, rng))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parts = []
    for _ in range(max(1, rows // 100_000)):
        block = normal(100_000, rng)
        start = time.perf_counter()
        monitor.update(block)
        parts.append(time.perf_counter() - start)
    return {
        "rows": 100_000 * len(parts),
        "rows a second": round(100_000 / float(np.median(parts))),
        "slowest": round(100_000 / max(parts)),
        "MiB added": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
        "alarm": monitor.alarm,
    }


def alarms(options: argparse.Namespace) -> None:
    """Count alarms where nothing changes."""
    kinds = list(NULLS)[: 2 if options.quick else None]

    def text(rows: list[dict[str, Any]]) -> str:
        total = sum(row["streams"] for row in rows)
        ever = sum(row[f"ever {1 / ALPHA:g}"] * row["streams"] for row in rows)
        limit = binom.ppf(0.999, total, ALPHA) / total
        told = [
            {"kind": row["kind"], "reference": NULLS[row["kind"]][0], **_without(row, "kind")}
            for row in rows
        ]
        return (
            f"{total} streams of {ROWS} rows that do not change. Alarms ever (evidence of "
            f"{1 / ALPHA:g}): {ever / total:.4f} of them, where {ALPHA} is promised (of a test at "
            f"this level so many would be at most {limit:.4f} in 999 of 1000 "
            f"runs).\n\n{report.table(told)}"
        )

    repeats.fill(
        "monitoring-alarms",
        "False alarms of monitors",
        [{"kind": kind} for kind in kinds],
        largest,
        alarms_summary,
        text,
        options,
        {"rows": ROWS},
    )


def delays(options: argparse.Namespace, tools: Sequence[str]) -> None:
    """Count rows until an alarm."""
    changes = list(CHANGES)[: 1 if options.quick else None]

    def text(rows: list[dict[str, Any]]) -> str:
        told = []
        measured = {row["tool"] for row in rows}  # now, or in a run before
        seen = [tool for tool in ("bke", *monitoring_peers.TOOLS) if tool in measured]
        for change in changes:
            of = {row["tool"]: row for row in rows if row["change"] == change}
            if not of:
                continue
            ours = of.get("bke", {})
            told.append(
                {
                    "change": change,
                    **{tool: _median(of[tool]) if tool in of else "" for tool in seen},
                    "since: held": ours.get("held"),
                    "since: rows": ours.get("width"),
                }
            )
        peers = [tool for tool in seen if tool != "bke"]
        words = " ".join(
            [*(monitoring_peers.TOLD[tool] for tool in peers), monitoring_peers.THRESHOLDS]
        )
        return (
            f"Median rows from a change, after {BEFORE} rows that are as the {REFERENCE} of the "
            f"reference, to an alarm; in brackets the share of streams with a false alarm before, "
            f"if any. {options.repeats} streams, five columns. {words} The last "
            f"columns: how often the 90 % interval of bke's change holds it, and its median "
            f"length.\n\n{report.table(told)}"
        )

    repeats.fill(
        "monitoring-delays",
        "Rows until an alarm",
        [{"change": change, "tool": tool} for tool in tools for change in changes],
        delay,
        delay_summary,
        text,
        options,
        {"rows": AFTER},
    )


def _median(row: dict[str, Any]) -> str:
    false = f" ({row['false']:.2f})" if row["false"] else ""
    median = row["median rows"]
    return (f"more than {AFTER}" if math.isinf(median) else f"{median:.0f}") + false


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def rates(options: argparse.Namespace) -> None:
    """Measure the time of rows."""
    info, folder = report.start(options.results)
    row = rate(200_000 if options.quick else options.rows)
    body = f"One stream of five columns, in updates of 100 000 rows.\n\n{report.table([row])}"
    name = "monitoring-rate-quick" if options.quick else "monitoring-rate"
    report.save(folder, name, "Rows a second of a monitor", info, body, {"rows": [row]})


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    tools = ("bke", *monitoring_peers.TOOLS)
    parser.add_argument("--tools", nargs="+", choices=tools, default=["bke", "betting"])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the rate")
    repeats.add_options(parser, repeats=1000, permutations=0)
    options = parser.parse_args()
    if options.quick:
        options.repeats = 4
    if "alarms" in options.parts:
        alarms(options)
    if "delays" in options.parts:
        delays(options, options.tools)
    if "rate" in options.parts:
        rates(options)


if __name__ == "__main__":
    main()
