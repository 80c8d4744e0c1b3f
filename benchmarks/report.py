"""Shared code of the benchmarks: description of the machine, tables and files of results."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import stale
from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("bke", "jax", "jaxlib", "numpyro", "numpy", "scipy", "arviz-stats", "pystan")
#: One-minute load average above which other programs are assumed to use the cores.
BUSY = 0.5


def machine() -> dict[str, Any]:
    """Return the processor, its cores and current load, and the versions of numerical packages."""
    affinity = getattr(os, "sched_getaffinity", None)
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "blas": sorted(
            {
                f"{library['internal_api']} {library['version']}"
                for library in threadpool_info()
                if library["user_api"] == "blas"
            }
        ),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def busy_warning(info: Mapping[str, Any]) -> str | None:
    """Return a warning if the machine was busy at the start, else None."""
    load = info["load_average"]
    if load is None or load <= BUSY:
        return None
    return (
        f"The load average was {load} at the start, above {BUSY}: other programs used the cores, "
        "so these times are too long and their ratios unreliable. Run it again on an idle machine."
    )


def start(results: Path | None) -> tuple[dict[str, Any], Path]:
    """Create the folder of results; return the description of the machine and the folder.

    Warns if the machine is busy, and turns the compilation cache off for this and child processes.
    """
    os.environ["BKE_COMPILATION_CACHE"] = "off"
    folder = results or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    info = machine()
    print(machine_sentence(info))
    if warning := busy_warning(info):
        print(f"WARNING: {warning}", file=sys.stderr)
    return info, folder


def child(
    script: str,
    *arguments: Any,
    python: str | Path = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run ``script --child`` in a new process and return its last line, parsed as JSON."""
    command = [str(python), script, "--child", *map(str, arguments)]
    variables = {**os.environ, **(environment or {})}
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(process.stderr[-800:])
    return dict(json.loads(process.stdout.splitlines()[-1]))


def machine_sentence(info: Mapping[str, Any]) -> str:
    """Return a sentence that describes the machine."""
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    blas = ", ".join(info["blas"]) or "unknown"
    load = info["load_average"]
    load = "" if load is None else f"load average at the start {load}; "
    cores = f"{info['cores']} core{'s' * (info['cores'] != 1)}"
    return (
        f"{info['processor']}, {cores}, {info['system']}; {versions}; BLAS {blas}; "
        f"{load}{info['date']}."
    )


def write_report(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> None:
    """Write table and settings of a benchmark that does not measure time."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    chosen = ", ".join(f"{key} {value}" for key, value in settings.items())
    info = {**machine(), "load_average": None}
    text = f"Settings: {chosen}.\n\n{table(rows)}"
    save(RESULTS, name, title, info, text, {"settings": dict(settings), "rows": list(rows)})


def cell(value: Any) -> str:
    """Format a number with three significant digits, and None as a dash."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return "nan"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows with equal keys as an aligned Markdown table."""
    head = list(rows[0])
    body = [[cell(row[key]) for key in head] for row in rows]
    widths = [max(3, *(len(line[i]) for line in [head, *body])) for i in range(len(head))]
    text = [all(isinstance(row[key], str) for row in rows) for key in head]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, text, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = (
        "-" * width if left else "-" * (width - 1) + ":"
        for width, left in zip(widths, text, strict=True)
    )
    return "\n".join([line(head), f"| {' | '.join(rule)} |", *map(line, body)])


def save(
    folder: Path, name: str, title: str, info: Mapping[str, Any], text: str, data: Mapping[str, Any]
) -> None:
    """Write ``name``.md and ``name``.json and print the text."""
    warning = busy_warning(info)
    parts = [f"# {title}", machine_sentence(info), *([f"**{warning}**"] if warning else []), text]
    print("\n" + text)
    (folder / f"{name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    path = folder / f"{name}.json"
    content = json.dumps({**origin(path), "machine": info, **data}, indent=1)
    path.write_text(content + "\n", encoding="utf-8")
    print(f"\nWritten: {folder / name}.md and .json")


def origin(path: Path) -> dict[str, Any]:
    """Return the command of this process and the hash of its sources, for ``stale.py``.

    The command has no options that keep recorded rows or name folders. A process that keeps rows
    of an earlier run also keeps its command and hash: some rows are as old as that run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--resume", "--again", "--summary"):
        parser.add_argument(option, action="store_true")
    for option in ("--only", "--results", "--environments"):
        parser.add_argument(option)
    known, words = parser.parse_known_args(sys.argv[1:])
    if path.exists() and (known.resume or known.again or known.summary or known.only):
        earlier = stale.load(path)
        return {key: earlier.get(key) for key in stale.ORIGIN}
    script = Path(getattr(sys.modules["__main__"], "__file__", sys.argv[0])).resolve()
    in_tree = script.is_relative_to(stale.ROOT)
    name = script.relative_to(stale.ROOT).as_posix() if in_tree else script.name
    words = ["OUT" if Path(word).is_absolute() else word for word in words]
    command = shlex.join([name, *words])
    return {"command": command, "sources": stale.hash_today(path.name, command)}
