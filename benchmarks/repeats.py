"""A table of which every row takes many repeats: spread over processes, written after every row.

An experiment is a function of the row's key, the number of permutations and a range of seeds, in a
module that can be imported, and returns one result for each seed.
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
#: Seeds that a process takes at a time.
CHUNK = 20


def add_options(parser: argparse.ArgumentParser, repeats: int, permutations: int) -> None:
    """What every such table can be asked."""
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--permutations", type=int, default=permutations)
    parser.add_argument("--processes", type=int, default=cores())
    parser.add_argument("--resume", action="store_true", help="keep the rows of the last run")
    parser.add_argument(
        "--again",
        action="store_true",
        help="measure what is asked for anew; keep other rows, and what else a row has",
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
    """Make the rows and write them.

    Args:
        name: of the files, less ``-quick``.
        title: above the table.
        keys: what tells the rows apart; their order is that of the work.
        experiment: called with the values of a key, the permutations and a range of seeds.
        summary: the other entries of a row, from the results of all seeds.
        text: the report of the rows.
        options: as ``add_options`` adds them.
        settings: what else rows of an earlier run must have had in common to be kept.
    """
    info, folder = report.start(options.results)
    name = f"{name}-quick" if options.quick else name
    shared = {"repeats": options.repeats, "permutations": options.permutations, **(settings or {})}
    kept = options.resume or options.again
    earlier = _earlier(folder / f"{name}.json", shared) if kept else []
    #: By their keys, in the order of the table; None where a row has not been measured yet.
    found: dict[tuple[Any, ...], Row | None] = {
        tuple(row.get(entry) for entry in keys[0]): row for row in earlier
    }
    asked = {tuple(key.values()): key for key in keys}
    asked = {key: asked[key] for key in asked if options.again or key not in found}
    found |= {key: None for key in asked if key not in found}
    chunks = [range(a, min(a + CHUNK, options.repeats)) for a in range(0, options.repeats, CHUNK)]

    def write() -> None:
        rows = [row for row in found.values() if row is not None]
        body = text(rows)
        if earlier:
            body += "\n\nMeasured in several runs, of which the date above is that of the last."
        if len(rows) < len(found):
            body += f"\n\n{len(rows)} of {len(found)} rows so far."
        data = {"settings": shared, "rows": rows}
        report.save(folder, name, title, {**info, "load_average": None}, body, data)

    if any(found.values()):
        write()  # of rows that were put together from several runs
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for values, key in asked.items():
            arguments = (*values, options.permutations)
            futures = [pool.submit(experiment, *arguments, chunk) for chunk in chunks]
            results = np.concatenate([np.asarray(future.result()) for future in futures])
            found[values] = {**(found[values] or {}), **key, **summary(results)}
            write()


def _earlier(path: Path, settings: Mapping[str, Any]) -> list[Row]:
    """Rows of a run that was cut short, none where there was none; exits if it was another kind."""
    if not path.exists():
        return []
    before = json.loads(path.read_text(encoding="utf-8"))
    if before.get("settings") != settings:
        sys.exit(f"the last run had other settings: {before.get('settings')}")
    return list(before["rows"])
