"""Tables whose rows need many repeats, which run in parallel; written after every row.

An experiment is a function of the row's key, the number of permutations and a range of seeds. It is
defined in a module that can be imported, and returns one result for each seed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import report
from bke.inference.core.machine import cores

Row = dict[str, Any]
#: Number of seeds in a task of a process.
CHUNK = 20


def add_options(parser: argparse.ArgumentParser, repeats: int, permutations: int) -> None:
    """Add the common options of these benchmarks."""
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--permutations", type=int, default=permutations)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the rows of the last run")
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure the selected rows again; keep other rows, and other entries of a row",
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")


def fill(
    name: str,
    title: str,
    keys: Sequence[Row],
    experiment: Callable[..., Sequence[Any]],
    summary: Callable[[np.ndarray], Row],
    text: Callable[[list[Row]], str],
    options: argparse.Namespace,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Compute the rows and write the table after each of them.

    Args:
        name: name of the files, without ``-quick``.
        title: title of the report.
        keys: entries that identify the rows, in the order of the computation.
        experiment: function of the values of a key, the permutations and a range of seeds.
        summary: function that computes the other entries of a row from the results of all seeds.
        text: function that formats the rows.
        options: parsed options of ``add_options``.
        settings: further settings; rows of an earlier run are kept only if its settings are equal.
    """
    info, folder = report.start(options.results)
    name = f"{name}-quick" if options.quick else name
    shared = {"repeats": options.repeats, "permutations": options.permutations, **(settings or {})}
    keep_rows = options.resume or options.again
    earlier = _earlier(folder / f"{name}.json", shared) if keep_rows else []
    #: Rows by their keys, in the order of the table; None if a row has not been measured yet.
    table_rows: dict[tuple[Any, ...], Row | None] = {
        tuple(row.get(entry) for entry in keys[0]): row for row in earlier
    }
    pending = {tuple(key.values()): key for key in keys}
    pending = {key: pending[key] for key in pending if options.again or key not in table_rows}
    table_rows |= {key: None for key in pending if key not in table_rows}
    chunks = [range(a, min(a + CHUNK, options.repeats)) for a in range(0, options.repeats, CHUNK)]

    def write() -> None:
        rows = [row for row in table_rows.values() if row is not None]
        body = text(rows)
        if earlier:
            body += "\n\nMeasured in several runs; the date above is that of the last run."
        if len(rows) < len(table_rows):
            body += f"\n\n{len(rows)} of {len(table_rows)} rows so far."
        data = {"settings": shared, "rows": rows}
        report.save(folder, name, title, {**info, "load_average": None}, body, data)

    if any(table_rows.values()):
        write()  # an earlier file may have been merged from several runs
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for values, key in pending.items():
            arguments = (*values, options.permutations)
            futures = [pool.submit(experiment, *arguments, chunk) for chunk in chunks]
            results = np.concatenate([np.asarray(future.result()) for future in futures])
            table_rows[values] = {**(table_rows[values] or {}), **key, **summary(results)}
            write()


def _earlier(path: Path, settings: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an earlier run, if any; exit if it had other settings."""
    if not path.exists():
        return []
    before = json.loads(path.read_text(encoding="utf-8"))
    if before.get("settings") != settings:
        sys.exit(f"the last run had other settings: {before.get('settings')}")
    return list(before["rows"])
