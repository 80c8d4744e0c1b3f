"""List results and pictures, and whether the code that they depend on has changed since.

Each file ``benchmarks/results/NAME.json`` records its command, and a hash of the sources that the
script imports from this repository. ``docs/pictures.json`` records the same of each picture in
``docs``. ``--run`` runs the commands of stale results and pictures in turn. Sources are compared by
their syntax trees without docstrings: comments and formatting do not count.
"""

from __future__ import annotations

import argparse
import ast
import functools
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = "docs/pictures.json"
#: Entries of a result or picture that this script reads.
ORIGIN = ("command", "sources")


def main() -> None:
    """Print results and pictures with their states, and run the commands of the stale ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="run the commands of the stale ones")
    options = parser.parse_args()
    rows = states()
    for path, command, state in rows:
        print(f"{state:23}  {path:43}  python {command}", flush=True)
    if options.run:
        for command in dict.fromkeys(command for _, command, state in rows if state == "stale"):
            run(command)


def states(root: Path = ROOT) -> list[tuple[str, str, str]]:
    """Return path, command and state of each result and picture."""
    paths = sorted((root / "benchmarks" / "results").glob("*.json"))
    records = {path.relative_to(root).as_posix(): load(path) for path in paths}
    records |= load(root / PICTURES)
    rows = []
    for path, record in records.items():
        state = "recorded without a hash"
        if record.get("sources"):
            today = hash_today(path, record["command"], root)
            state = "current" if record["sources"] == today else "stale"
        rows.append((path, record["command"], state))
    return rows


def load(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def run(command: str, root: Path = ROOT) -> None:
    """Run a command and record the hashes of the pictures that it draws.

    A script writes its results, and a picture of them, in place. Pictures of a command with
    ``--out OUT`` are copied from that folder.
    """
    print(f"\n== python {command}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        words = [folder if word == "OUT" else word for word in shlex.split(command)]
        subprocess.run([sys.executable, *words], cwd=root, check=True)
        pictures = load(root / PICTURES)
        for path, record in pictures.items():
            if record["command"] == command:
                if folder in words:
                    shutil.copy(Path(folder, Path(path).name), root / path)
                record["sources"] = hash_today(path, command, root)
    (root / PICTURES).write_text(json.dumps(pictures, indent=1) + "\n", encoding="utf-8")


def hash_today(path: str, command: str, root: Path = ROOT) -> str | None:
    """Return the hash of the sources of a result or picture, or None if there is no script.

    A picture that is drawn with ``--summary`` depends on its script and the recorded result only.
    """
    script = root / shlex.split(command)[0]
    if not script.is_file():
        return None
    files, data = {script}, ""
    if path.endswith(".png") and "--summary" in command:
        result = load(root / "benchmarks" / "results" / f"{Path(path).stem}.json")
        data = str({key: result[key] for key in result if key not in (*ORIGIN, "machine")})
    else:
        pending = {script}
        while pending:
            pending = {new for file in pending for new in imported(file, root)} - files
            if path.endswith(".json"):  # results import their plot inside `.plot()`
                pending = {file for file in pending if file.parent.name != "plots"}
            files |= pending
    # The excluded modules format results and compute none.
    texts = [canonical(tree(file)) for file in files if file.stem not in ("report", "stale")]
    return hashlib.sha256("\n".join([*sorted(texts), data]).encode()).hexdigest()[:16]


@functools.cache
def imported(path: Path, root: Path) -> set[Path]:
    """Return the files of this repository that a file imports, or that a script names."""
    parts, files, names = path.relative_to(root).parts, set[Path](), list[str]()
    is_script = parts[0] not in ("inference", "models")
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["bke", *parts[:-1]][: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+\.py", str(node.value)):
            files |= set(path.parent.rglob(str(node.value)) if is_script else ())
    for name in names:
        first, *rest = public_modules(root).get(name, name).split(".")
        if first == "bke" or is_script:
            module = root.joinpath(*rest) if first == "bke" else path.with_name(first)
            files |= {f for f in (module.with_suffix(".py"), module / "__init__.py") if f.is_file()}
    return files


@functools.cache
def public_modules(root: Path) -> dict[str, str]:
    """Return the module of each public name."""
    modules = {}
    for package in ("bke.inference", "bke.models"):
        for node in tree(root / package.removeprefix("bke.") / "__init__.pyi").body:
            if isinstance(node, ast.ImportFrom):
                modules |= {f"{package}.{n.name}": f"{package}.{node.module}" for n in node.names}
    return modules


@functools.cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def canonical(node: object) -> str:
    """Format a syntax tree without docstrings, and without empty fields, which Python 3.13 adds."""
    if isinstance(node, ast.AST):
        fields = [(key, value) for key, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({','.join(f'{k}={canonical(v)}' for k, v in fields)})"
    if not isinstance(node, list):
        return repr(node)
    is_text = [isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) for item in node]
    return ";".join(canonical(item) for item, text in zip(node, is_text, strict=True) if not text)


if __name__ == "__main__":
    main()
