"""False alarms of monitors, detection delays, intervals of the change point, and rows per second.

There are three parts, each with a separate file of results: ``alarms`` (10 000 streams without a
change, 10 000 rows each), ``delays`` (eight kinds of change after 1000 rows, compared with other
tools), and ``rate``. They take hours on two cores: ``--parts`` selects some, and ``--resume``
continues a run.
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
#: Rows of a stream without a change; rows before a change, and at most after it.
ROWS, BEFORE, AFTER = 10_000, 1000, 5000
#: Rows of the reference in streams with a change.
REFERENCE = 1000
#: Rows of an update.
TOGETHER = 500
PARTS = ("alarms", "delays", "rate")


def largest(setting: str, permutations: int, seeds: range) -> list[float]:
    """Return the maximum of the e-process for each seed; ``permutations`` is not used."""
    reference, rows = NULLS[setting]
    largest_values = []
    for seed in seeds:
        rng = np.random.default_rng([list(NULLS).index(setting), seed])
        monitor = Monitor(rows(reference, rng), seed=seed)
        largest_values.append(monitor.update(rows(ROWS, rng)).max_wealth)
    return largest_values


def alarms_summary(wealths: np.ndarray) -> dict[str, Any]:
    """Return the proportions of streams whose e-value ever reached 20, and 2 and 100."""
    return {
        f"ever {limit:g}": float(np.mean(wealths >= limit)) for limit in (2.0, 1 / ALPHA, 100.0)
    } | {"streams": len(wealths)}


def delay(change: str, tool: str, permutations: int, seeds: range) -> list[list[float]]:
    """Return for each seed the delay of the alarm, and coverage and width of the interval."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([101, list(CHANGES).index(change), seed])
        reference = normal(REFERENCE, rng)
        stream = np.concatenate([normal(BEFORE, rng), CHANGES[change](AFTER, rng)])
        if tool == "bke":
            results.append(_of_monitor(reference, stream, seed))
        else:
            row = monitoring_peers.alarm(tool, reference, stream, seed)
            results.append([row - BEFORE, math.nan, math.nan])
    return results


def _of_monitor(reference: np.ndarray, stream: np.ndarray, seed: int) -> list[float]:
    monitor = Monitor(reference, seed=seed)
    for start in range(0, len(stream), TOGETHER):
        state = monitor.update(stream[start : start + TOGETHER])
        if state.alarm:
            _, low, high, _ = state.change_point
            return [state.alarm_row - BEFORE, float(low <= BEFORE + 1 <= high), high - low + 1]
    return [math.inf, math.nan, math.nan]


def delay_summary(results: np.ndarray) -> dict[str, Any]:
    """Return the median delay, rates of false and missing alarms, and the interval's coverage."""
    rows, covered, width = results.T
    false = rows <= 0
    true = np.isfinite(rows) & ~false
    return {
        "median rows": float(np.median(rows[~false])),
        "false": float(false.mean()),
        "never": float(np.isinf(rows).mean()),
        "held": float(np.nanmean(covered[true])) if np.isfinite(covered[true]).any() else None,
        "width": float(np.nanmedian(width[true])) if np.isfinite(width[true]).any() else None,
        "streams": len(rows),
    }


def rate(rows: int) -> dict[str, Any]:
    """Measure rows per second in five columns, after a warm-up, and the memory that they add."""
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
    """Count alarms in streams without a change."""
    settings = list(NULLS)[: 2 if options.quick else None]

    def text(rows: list[dict[str, Any]]) -> str:
        total = sum(row["streams"] for row in rows)
        ever = sum(row[f"ever {1 / ALPHA:g}"] * row["streams"] for row in rows)
        limit = binom.ppf(0.999, total, ALPHA) / total
        table_rows = [
            {"kind": row["kind"], "reference": NULLS[row["kind"]][0], **_without(row, "kind")}
            for row in rows
        ]
        return (
            f"{total} streams of {ROWS} rows without a change. Proportion with an alarm (e-value "
            f"of {1 / ALPHA:g}): {ever / total:.4f}, nominal at most {ALPHA} (at this rate the "
            f"99.9 % quantile of the proportion is {limit:.4f}).\n\n{report.table(table_rows)}"
        )

    repeats.fill(
        "monitoring-alarms",
        "False alarms of monitors",
        [{"kind": setting} for setting in settings],
        largest,
        alarms_summary,
        text,
        options,
        {"rows": ROWS},
    )


def delays(options: argparse.Namespace, tools: Sequence[str]) -> None:
    """Count the rows from a change to an alarm."""
    changes = list(CHANGES)[: 1 if options.quick else None]

    def text(rows: list[dict[str, Any]]) -> str:
        table_rows = []
        recorded = {row["tool"] for row in rows}  # in this run or an earlier one
        measured_tools = [tool for tool in ("bke", *monitoring_peers.TOOLS) if tool in recorded]
        for change in changes:
            by_tool = {row["tool"]: row for row in rows if row["change"] == change}
            if not by_tool:
                continue
            bke_row = by_tool.get("bke", {})
            table_rows.append(
                {
                    "change": change,
                    **{
                        tool: _median(by_tool[tool]) if tool in by_tool else ""
                        for tool in measured_tools
                    },
                    "since: held": bke_row.get("held"),
                    "since: rows": bke_row.get("width"),
                }
            )
        peers = [tool for tool in measured_tools if tool != "bke"]
        descriptions = " ".join(
            [*(monitoring_peers.DESCRIPTIONS[tool] for tool in peers), monitoring_peers.THRESHOLDS]
        )
        return (
            f"Median rows from a change to an alarm. The change follows {BEFORE} rows of the "
            f"distribution of the {REFERENCE} rows of the reference. In brackets: the proportion "
            f"of streams with a false alarm before the change, if any. {options.repeats} streams, "
            f"five columns. {descriptions} The last columns are the coverage of bke's 90 % "
            f"interval for the change point, and its median length."
            f"\n\n{report.table(table_rows)}"
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
    """Measure rows per second and write the table."""
    info, folder = report.start(options.results)
    row = rate(200_000 if options.quick else options.rows)
    body = f"One stream of five columns, in updates of 100 000 rows.\n\n{report.table([row])}"
    name = "monitoring-rate-quick" if options.quick else "monitoring-rate"
    report.save(folder, name, "Rows a second of a monitor", info, body, {"rows": [row]})


def main() -> None:
    """Run the selected parts."""
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
