"""Mutation scores: the proportion of small changes of the code that tests detect.

cosmic-ray changes one operator, comparison, number or branch at a time in a copy of the package; a
mutant that passes every test of its group has survived. A random sample of the mutants of each
group is run, for an hour or two of one core. Another run with the same ``--work`` resumes,
``--again`` runs survivors again after tests were added, and ``--summary`` only writes the table.
``--record`` takes whole packages instead, and the cases of ``tests/record`` that reach a mutant, to
show that the comparison with recorded values can fail. Needs `pip install cosmic-ray pytest-cov`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import report

ROOT = Path(__file__).parents[1]
#: This operator changes almost only annotations, which are not evaluated.
NOT_EVALUATED = "core/ReplaceBinaryOperator_BitOr"
#: Seconds after which a mutant counts as detected: it may never end.
TIMEOUT = 900.0


class Group(NamedTuple):
    """Modules, the test files that should detect their mutants (fastest first), sample size.

    Without test files these are the cases of the record.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    mutants: int


def _files(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names.split())


GROUPS = {
    "likelihood": Group(
        _files(
            "models/likelihood",
            "base marginal jacobian noise dense low_rank",
        ),
        (
            *_files("tests/models/likelihood", "test_noise test_jacobian"),
            "tests/models/linalg",
            "tests/models/likelihood/test_marginal.py",
        ),
        60,
    ),
    "difference": Group(
        _files("models", "numpyro_models"), ("tests/models/test_log_difference_evidence.py",), 30
    ),
    "p-values": Group(
        _files("inference/permutation", "scheme bins pooled_sample null_distribution combination"),
        (
            "tests/inference/permutation",
            "tests/inference/statistics",
        ),
        60,
    ),
    "tests and e-values": Group(
        _files("inference/testing", "nulls result two_sample"),
        (
            "tests/inference/testing/test_nulls.py",
            "tests/inference/testing/test_two_sample.py",
            "tests/inference/testing/test_permuted_statistics.py",
        ),
        21,
    ),
    "regions": Group(
        _files("inference/statistics", "local_differences"),
        (
            "tests/inference/statistics/test_local_differences.py",
            "tests/inference/statistics/test_location.py",
            "tests/inference/comparison/test_compare.py",
            "tests/inference/comparison/test_pairs.py",
            "tests/inference/comparison/test_weights.py",
        ),
        24,
    ),
}

#: Packages whose mutants the record of public calls should detect: all but output.
RECORD = tuple(
    str(folder.relative_to(ROOT))
    for top in (ROOT / "models", ROOT / "inference")
    for folder in (top, *sorted(path.parent for path in top.glob("*/__init__.py")))
    if folder.name not in ("cli", "plots", "report")
)
RECORD_TESTS = "tests/record/test_record.py"


def _modules(package: str) -> list[Path]:
    """Modules of a package; of ``models`` and ``inference`` those at their top level."""
    folder = ROOT / package
    return sorted(folder.rglob("*.py") if "/" in package else folder.glob("*.py"))


def record_groups(packages: Sequence[str], mutants: int) -> dict[str, Group]:
    """Return a group for each package; :func:`detect` chooses the cases that reach a mutant."""
    return {
        f"record-{package.replace('/', '-')}": Group(
            tuple(str(path.relative_to(ROOT)) for path in _modules(package)), (), mutants
        )
        for package in packages
    }


def measure_coverage(work: Path, environment: dict[str, str]) -> None:
    """Store which cases of the record reach each line, by module, and the seconds of each case."""
    from coverage import CoverageData

    source, settings, data_file = work / "source", work / "coveragerc", work / "coverage.sqlite"
    settings.write_text(
        f"[run]\nsource_pkgs = bke.models, bke.inference\ndata_file = {data_file}\n"
    )
    # With options of xdist pytest-cov leaves out the cases.
    command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", RECORD_TESTS]
    command += ["-o", "addopts=--import-mode=importlib"]
    command += ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    command += [f"--junitxml={work / 'record.xml'}", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=source, env=environment, check=True)
    cases = ElementTree.parse(work / "record.xml").iter("testcase")
    seconds = {f"{RECORD_TESTS}::{case.get('name')}": float(case.get("time", 0)) for case in cases}
    data = CoverageData(str(data_file))
    data.read()
    lines = {
        str(Path(file).resolve().relative_to(source)): {
            line: sorted({context.partition("|")[0] for context in contexts} - {""})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    (work / "coverage.json").write_text(json.dumps({"lines": lines, "seconds": seconds}))
    for package in ("models", "inference"):
        shutil.copytree(source / package, work / "original" / package)


def detect(work: Path) -> int:
    """Run the cases that reach the mutated statement, the fastest first; 0 if all pass.

    A statement outside of functions runs when its module is imported, in the first case: it counts
    as reached by all cases that reach the module.
    """
    coverage = json.loads((work / "coverage.json").read_text())
    original = work / "original"
    for path in sorted(original.rglob("*.py")):
        name = str(path.relative_to(original))
        text, mutated = path.read_text(), (work / "source" / name).read_text()
        if text == mutated:
            continue
        pairs = zip(text.splitlines(), mutated.splitlines(), strict=False)
        line = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
        statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
        around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
        functions = [node for node in around if isinstance(node, ast.FunctionDef)]
        reached: dict[str, list[str]] = coverage["lines"].get(name, {})
        numbers: Iterable[str] = reached
        if any(line >= node.body[0].lineno for node in functions):
            inner = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
            numbers = map(str, range(inner.lineno, (inner.end_lineno or 0) + 1))
        cases = {case for number in numbers for case in reached.get(number, ())}
        if not cases:
            return 0
        ordered = sorted(cases, key=lambda case: coverage["seconds"].get(case, 0.0))
        options = ["-q", "-n", "0", "-x", "-m", "slow", "-p", "no:cacheprovider"]
        return subprocess.run([sys.executable, "-m", "pytest", *options, *ordered]).returncode
    raise RuntimeError("no module is mutated")


def prepare(work: Path) -> dict[str, str]:
    """Copy the package to ``work`` and return the environment variables that import the copy."""
    source, path = work / "source", work / "path" / "bke"
    shutil.rmtree(source, ignore_errors=True)
    hidden = shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, source, ignore=hidden)
    path.mkdir(parents=True, exist_ok=True)
    for package in ("models", "inference"):
        if not (path / package).exists():
            (path / package).symlink_to(source / package)
    return {**os.environ, "PYTHONPATH": str(path.parent), "JAX_PLATFORMS": "cpu"}


def begin(name: str, work: Path, environment: dict[str, str], seed: int) -> Path:
    """Write the configuration of a group, and the database of its mutants if there is none."""
    group, settings, base = GROUPS[name], work / f"{name}.toml", work / f"{name}.sqlite"
    tests = f"{sys.executable} -m pytest -q -n 0 -x -p no:cacheprovider {' '.join(group.tests)}"
    if not group.tests:
        tests = f"{sys.executable} {Path(__file__).resolve()} --detect --work {work}"
    modules = ", ".join(f'"{module}"' for module in group.modules)
    settings.write_text(
        f"[cosmic-ray]\nmodule-path = [{modules}]\ntimeout = {TIMEOUT}\nexcluded-modules = []\n"
        f'test-command = "{tests}"\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    if not base.exists():
        _cosmic_ray("init", settings, base, environment)
        with sqlite3.connect(base) as mutants:
            rows = mutants.execute("SELECT job_id, operator_name FROM mutation_specs").fetchall()
            eligible = sorted(
                job for job, operator in rows if not operator.startswith(NOT_EVALUATED)
            )
            sample = set(random.Random(seed).sample(eligible, min(group.mutants, len(eligible))))
            for job in {job for job, _ in rows} - sample:
                mutants.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
                mutants.execute("DELETE FROM work_items WHERE job_id = ?", (job,))
    return base


def run(name: str, work: Path, environment: dict[str, str], again: bool, seed: int) -> None:
    """Run the mutants of a group without a result, and the survivors if ``again``."""
    base = begin(name, work, environment, seed)
    if again:
        with sqlite3.connect(base) as mutants:
            mutants.execute("DELETE FROM work_results WHERE test_outcome = 'SURVIVED'")
    _cosmic_ray("exec", work / f"{name}.toml", base, environment)


def _cosmic_ray(action: str, settings: Path, base: Path, environment: dict[str, str]) -> None:
    command = [Path(sys.executable).with_name("cosmic-ray"), action, settings, base]
    source = settings.parent / "source"
    subprocess.run(command, cwd=source, env=environment, check=True)


def score(name: str, work: Path) -> tuple[dict[str, object], list[str]]:
    """Return a row of the table, and the differences of the survivors from the code."""
    with sqlite3.connect(work / f"{name}.sqlite") as mutants:
        rows = mutants.execute(
            "SELECT test_outcome, module_path, diff FROM work_results JOIN mutation_specs"
            " USING (job_id) ORDER BY module_path, start_pos_row"
        ).fetchall()
    survived = [(path, diff) for outcome, path, diff in rows if outcome == "SURVIVED"]
    detected = 1.0 - len(survived) / max(len(rows), 1)
    row: dict[str, object] = {"group": name, "mutants": len(rows), "detected": detected}
    changes = []
    for path, diff in survived:
        lines = [line for line in diff.splitlines() if line[:1] in ("-", "+")]
        changed = "\n".join(line for line in lines if line[:3] not in ("---", "+++"))
        changes.append(f"`{path}`\n\n```diff\n{changed}\n```")
    return {**row, "survived": len(survived)}, changes


def main() -> None:
    """Run the mutants and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--work", type=Path, required=True, help="folder of the databases, to resume"
    )
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--record", action="store_true", help="whole packages and tests/record")
    parser.add_argument("--packages", nargs="+", choices=list(RECORD), default=list(RECORD))
    parser.add_argument("--mutants", type=int, default=5, help="sample size per package")
    parser.add_argument("--seed", type=int, default=0, help="of the random sample")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--summary", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--detect", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.detect:
        sys.exit(detect(options.work))
    info, folder = report.start(options.results)
    names = options.groups
    if options.record:
        GROUPS.clear()
        GROUPS.update(record_groups(options.packages, options.mutants))
        names = list(GROUPS)
    if not options.summary:
        environment = prepare(options.work.resolve())
        if options.record and not (options.work / "coverage.json").exists():
            measure_coverage(options.work.resolve(), environment)
        for name in names:
            run(name, options.work.resolve(), environment, options.again, options.seed)
    scores = [
        score(name, options.work) for name in GROUPS if (options.work / f"{name}.sqlite").exists()
    ]
    rows = [row for row, _ in scores]
    total = sum(int(str(row["mutants"])) for row in rows)
    survived = sum(int(str(row["survived"])) for row in rows)
    rows.append(
        {
            "group": "all",
            "mutants": total,
            "detected": 1.0 - survived / max(total, 1),
            "survived": survived,
        }
    )
    survivors = "\n\n".join(change for _, changes in scores for change in changes)
    text = f"{report.table(rows)}\n\n## Survivors\n\n{survivors}"
    data = {"rows": rows}
    title = "Mutants detected by the record" if options.record else "Mutants"
    name = "mutation-record" if options.record else "mutation"
    report.save(folder, name, title, {**info, "load_average": None}, text, data)


if __name__ == "__main__":
    main()
