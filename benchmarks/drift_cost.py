"""Time, memory and report size of a comparison of tables, compared with evidently.

Two tables of mixed columns are in Parquet files, with a thousand to a million rows each. Every
report runs in a separate process and is timed from reading the files to writing the HTML page,
without imports. evidently compares each column by itself; ``compare_tables`` also compares all
pairs of columns and the joint distribution, with 999 permutations.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: Rows of each table, and columns.
SIZES = ((1_000, 10), (100_000, 10), (1_000_000, 30))


def write_table(path: Path, rows: int, columns: int, seed: int) -> None:
    """Write a table of numbers (some skewed, with missing values), counts, categories and dates."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(seed)
    words = np.array([f"w{index:02d}" for index in range(40)])
    table: dict[str, Any] = {}
    for index in range(columns):
        kind = index % 10
        if kind < 4:
            table[f"x{index}"] = rng.normal(size=rows)
        elif kind == 4:
            missing = rng.uniform(size=rows) < 0.1
            table[f"y{index}"] = pa.array(np.exp(rng.normal(size=rows)), mask=missing)
        elif kind < 7:
            table[f"k{index}"] = rng.poisson(2.0 + kind, size=rows)
        elif kind == 7:
            table[f"c{index}"] = words[np.minimum(rng.geometric(0.2, size=rows), 40) - 1]
        elif kind == 8:
            seconds = 1_700_000_000 + rng.integers(0, 200 * 86_400, size=rows)
            table[f"d{index}"] = pa.array(seconds, pa.timestamp("s"))
        else:
            table[f"b{index}"] = rng.uniform(size=rows) < 0.3
    pa.parquet.write_table(pa.table(table), path)


def bke(before: Path, after: Path, page: Path) -> float:
    """Write the report of ``compare_tables`` and return the seconds."""
    from bke.inference import compare_tables

    started = time.perf_counter()
    page.write_text(compare_tables(before, after, progress=False).to_html(), encoding="utf-8")
    return time.perf_counter() - started


def evidently(before: Path, after: Path, page: Path) -> float:
    """Write the report of evidently and return the seconds."""
    import pandas as pd
    from evidently import Report
    from evidently.presets import DataDriftPreset

    started = time.perf_counter()
    tables = [pd.read_parquet(path) for path in (before, after)]
    drift_report = Report([DataDriftPreset()]).run(reference_data=tables[0], current_data=tables[1])
    drift_report.save_html(str(page))
    return time.perf_counter() - started


MAKERS = {"bke": bke, "evidently": evidently}


def child(name: str, before: Path, after: Path, page: Path) -> None:
    """Write one report and print its seconds, memory and size."""
    seconds = MAKERS[name](before, after, page)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "GiB": peak, "kB": page.stat().st_size / 1000.0}))


def main() -> None:
    """Write the tables of all sizes, measure every report on them, and write the results."""
    import drift
    import report

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=Path, default=drift.ENVIRONMENTS)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    drift.environment("evidently", options.environments)
    pythons = {
        "bke": Path(sys.executable),
        "evidently": options.environments / "evidently" / "bin" / "python",
    }
    rows = []
    with tempfile.TemporaryDirectory() as home:
        paths = [Path(home) / f"{name}.parquet" for name in ("before", "after")]
        for count, columns in SIZES[:1] if options.quick else SIZES:
            for seed, path in enumerate(paths):
                write_table(path, count, columns, seed)
            for name, python in pythons.items():
                page = Path(home) / "page.html"
                measurement = report.child(__file__, name, *paths, page, python=python)
                rows.append(
                    {"rows": f"{count} + {count}", "columns": columns, "by": name, **measurement}
                )
                print(rows[-1])
    name = "drift-cost-quick" if options.quick else "drift-cost"
    report.save(
        folder, name, "What a page of drift takes", info, report.table(rows), {"rows": rows}
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], *map(Path, sys.argv[3:]))
    else:
        main()
