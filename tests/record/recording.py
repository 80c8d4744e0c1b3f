"""Take, store and compare the outputs of the cases in ``adapter.py``.

    python tests/record/recording.py --take          # write values/ with the installed bke
    python tests/record/recording.py --against       # compare the installed bke with values/
    python tests/record/recording.py --against --area likelihood --all-seeds

Both run with the environment variables of ``tests/conftest.py`` and JAX's default precision, so
that a wheel of the reference commit in a separate environment and the tree of today are run
alike.

An output is *exact* if it is the same for all seeds: numbers must agree to 1e-9, relative to the
largest element of the array (to 1e-5 where the processor, a version of JAX, NumPy or SciPy, or
XLA's flags are not those of the recorded values), and strings and booleans must be equal. It is
*distributional* if it depends on the seed: then it must be equal at seed 0, or else its mean over
runs with fresh seeds must be within four standard errors of the recorded mean. P-values of a case
with a seed are always distributional, with at least the binomial error of their permutations.
Outputs *allowed* to change are listed with reasons in ``values/allowed.json``: keys are patterns of
``area.case.output``.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib.metadata
import json
import os
import platform
import runpy
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # before JAX and NumPy are imported
    runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))

import numpy as np
from cases import CASES, N_RESAMPLES, Case

VALUES = Path(__file__).parent / "values"
ALLOWED = VALUES / "allowed.json"
ENVIRONMENT = VALUES / "environment.json"


def environment() -> dict[str, str]:
    """Return the processor, versions and compiler flags on which the last digits depend."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = {name: importlib.metadata.version(name) for name in ("jax", "numpy", "scipy")}
    processor = models[0] if models else platform.processor()
    return {"processor": processor, **versions, "XLA flags": os.environ.get("XLA_FLAGS", "")}


#: Relative to the largest element of an array.
TOLERANCE = (
    1e-9 if ENVIRONMENT.exists() and json.loads(ENVIRONMENT.read_text()) == environment() else 1e-5
)
#: Absolute, for outputs that are zero but for rounding.
FLOOR = 1e-12
STANDARD_ERRORS = 4.0
#: Runs with different seeds when values are taken, of quick and of slow cases, and runs with seeds
#: from the first fresh one on when an output differs at seed 0.
SEEDS, SLOW_SEEDS = 16, 8
FRESH_SEEDS, FIRST_FRESH_SEED = 8, 100


class Outcome(NamedTuple):
    """Comparison of one output with its recorded value.

    Attributes:
        output: ``area.case.output``.
        kind: ``exact``, ``distributional`` or ``allowed``.
        agrees: whether the promise of its class holds.
        identical: whether it equals the recorded value at seed 0.
        message: the two values, where they differ.
    """

    output: str
    kind: str
    agrees: bool
    identical: bool
    message: str = ""


def equal(value: Any, recorded: Any) -> bool:
    """Compare numbers to the tolerance, and anything else exactly."""
    if not isinstance(value, np.ndarray):
        return bool(value == recorded)
    expected = np.asarray(recorded, dtype=float)
    if value.shape != expected.shape:
        return False
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = max(FLOOR, TOLERANCE * finite.max(initial=0.0))
    return bool(np.allclose(value, expected, rtol=0.0, atol=tolerance, equal_nan=True))


def equal_in_mean(values: np.ndarray, entry: Mapping[str, Any]) -> bool:
    """Return whether means over seeds, the first axis of ``values``, agree statistically."""
    mean, deviation, runs = np.asarray(entry["mean"]), np.asarray(entry["sd"]), entry["runs"]
    if values.shape[1:] != mean.shape:
        return False
    fresh = len(values)
    degrees = (runs - 1, fresh - 1)
    variance = (degrees[0] * deviation**2 + degrees[1] * values.var(axis=0, ddof=1)) / sum(degrees)
    error = np.sqrt(np.maximum(variance, deviation**2) * (1.0 / runs + 1.0 / fresh))
    allowed = STANDARD_ERRORS * error + FLOOR + TOLERANCE * np.abs(mean)
    return bool((np.abs(values.mean(axis=0) - mean) <= allowed).all())


def recorded_entry(name: str, runs: list[Any], seeded: bool) -> dict[str, Any]:
    """Return the class and the value of an output, from ``runs`` with different seeds."""
    first = runs[0]
    if not isinstance(first, np.ndarray):
        if any(run != first for run in runs):
            raise ValueError(f"{name} depends on the seed and is no number: {runs}")
        return {"class": "exact", "value": first}
    shapes = {run.shape for run in runs}
    if len(shapes) > 1:
        raise ValueError(f"{name} has a shape that depends on the seed: {shapes}")
    is_pvalue = seeded and name.rpartition(".")[2].startswith("pvalue")
    if not is_pvalue and all(equal(run, first) for run in runs):
        return {"class": "exact", "value": first.tolist()}
    values = np.stack(runs)
    deviation = values.std(axis=0, ddof=1)
    if is_pvalue:
        pvalue = np.clip(values.mean(axis=0), 1.0 / (1 + N_RESAMPLES), 1.0 - 1.0 / N_RESAMPLES)
        deviation = np.maximum(deviation, np.sqrt(pvalue * (1.0 - pvalue) / N_RESAMPLES))
    return {
        "class": "distributional",
        "value": first.tolist(),
        "mean": values.mean(axis=0).tolist(),
        "sd": deviation.tolist(),
        "runs": len(runs),
    }


def take(case: Case, seeds: int | None = None) -> dict[str, dict[str, Any]]:
    """Run a case, with several seeds where it takes one, and classify its outputs."""
    seeds = seeds or (SLOW_SEEDS if case.slow else SEEDS)
    runs = [case.run(seed) for seed in range(seeds if case.seeded else 1)]
    if any(run.keys() != runs[0].keys() for run in runs):
        raise ValueError(f"{case.name}: its outputs depend on the seed")
    return {
        name: recorded_entry(f"{case.name}.{name}", [run[name] for run in runs], case.seeded)
        for name in runs[0]
    }


def load() -> dict[str, dict[str, dict[str, Any]]]:
    """The recorded outputs of all cases."""
    recorded: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(VALUES.glob("*.json")):
        if path not in (ALLOWED, ENVIRONMENT):
            recorded.update(json.loads(path.read_text(encoding="utf-8")))
    return recorded


def allowed() -> dict[str, str]:
    """Patterns of outputs that may change, each with its reason."""
    return dict(json.loads(ALLOWED.read_text(encoding="utf-8")))


def compare(
    case: Case,
    recorded: Mapping[str, Mapping[str, Any]],
    patterns: Iterable[str] = (),
    *,
    all_seeds: bool = False,
) -> list[Outcome]:
    """Run a case and compare every output with its recorded entry.

    Args:
        case: the case to run.
        recorded: entries by name of the output.
        patterns: outputs that may change, of any case.
        all_seeds: compare distributional outputs over seeds even if equal at seed 0.
    """
    patterns = tuple(patterns)
    outputs = case.run()
    outcomes = []
    differing = []
    for name in sorted({*outputs, *recorded}):
        output = f"{case.name}.{name}"
        free = any(fnmatch.fnmatchcase(output, pattern) for pattern in patterns)
        if name not in outputs or name not in recorded:
            where = "recorded, not returned" if name in recorded else "returned, not recorded"
            outcomes.append(Outcome(output, "allowed" if free else "exact", free, False, where))
            continue
        entry = recorded[name]
        kind = "allowed" if free else entry["class"]
        same = equal(outputs[name], entry["value"])
        if kind == "distributional" and (all_seeds or not same):
            differing.append((name, same))
            continue
        message = "" if same else f"{_short(outputs[name])}, recorded {_short(entry['value'])}"
        outcomes.append(Outcome(output, kind, same or free, same, message))
    if differing:
        runs = [case.run(FIRST_FRESH_SEED + index) for index in range(FRESH_SEEDS)]
        for name, same in differing:
            outcomes.append(_over_seeds(case, name, same, runs, recorded[name]))
    return outcomes


def _over_seeds(
    case: Case, name: str, same: bool, runs: list[dict[str, Any]], entry: Mapping[str, Any]
) -> Outcome:
    values = [run[name] for run in runs]
    if len({value.shape for value in values}) > 1:
        return Outcome(f"{case.name}.{name}", "distributional", False, same, "shapes differ")
    agrees = equal_in_mean(np.stack(values), entry)
    mean = np.mean(values, axis=0)
    message = f"mean {_short(mean)}, recorded {_short(entry['mean'])} with sd {_short(entry['sd'])}"
    return Outcome(f"{case.name}.{name}", "distributional", agrees, same, message)


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), precision=12, threshold=8, separator=", ")
    return " ".join(text.split())


def summary(outcomes: Iterable[Outcome]) -> str:
    """A table of counts by class, and every output that breaks the promise of its class."""
    outcomes = list(outcomes)
    counts = collections.Counter(
        (outcome.kind, outcome.identical, outcome.agrees) for outcome in outcomes
    )
    lines = ["class            outputs  identical  within error  differ"]
    for kind in ("exact", "distributional", "allowed"):
        total = sum(count for key, count in counts.items() if key[0] == kind)
        identical = sum(count for key, count in counts.items() if key[:2] == (kind, True))
        within = counts[kind, False, True]
        differ = sum(count for key, count in counts.items() if key[0] == kind and not key[2])
        lines.append(f"{kind:15} {total:8d} {identical:10d} {within:13d} {differ:7d}")
    lines += [f"{outcome.output}: {outcome.message}" for outcome in outcomes if not outcome.agrees]
    return "\n".join(lines)


def main() -> int:
    """Take values or compare with them."""
    import adapter  # noqa: F401  registers the cases

    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--take", action="store_true", help="write the values of this environment")
    action.add_argument("--against", action="store_true", help="compare with the recorded values")
    parser.add_argument("--area", nargs="+", help="these areas only")
    parser.add_argument("--case", nargs="+", help="these cases only")
    parser.add_argument("--seeds", type=int, help="runs of a case with a seed, for --take")
    parser.add_argument("--all-seeds", action="store_true", help="compare means over fresh seeds")
    options = parser.parse_args()
    chosen = [
        case
        for case in CASES.values()
        if (not options.area or case.area in options.area)
        and (not options.case or case.name in options.case)
    ]
    if options.take:
        return _take_all(chosen, options.seeds)
    recorded, patterns = load(), allowed()
    outcomes = [
        outcome
        for case in chosen
        for outcome in _timed(
            case,
            lambda case: compare(
                case, recorded.get(case.name, {}), patterns, all_seeds=options.all_seeds
            ),
        )
    ]
    print(summary(outcomes))
    return int(any(not outcome.agrees for outcome in outcomes))


def _take_all(chosen: Iterable[Case], seeds: int | None) -> int:
    """Write the values of each case as soon as it has run; return the number that failed."""
    failures = 0
    ENVIRONMENT.write_text(json.dumps(environment(), indent=1) + "\n", encoding="utf-8")
    for case in chosen:
        try:
            _write({case.name: _timed(case, lambda item: take(item, seeds))})
        except ValueError as error:
            failures += 1
            print(f"{case.name} is not recorded: {error}", file=sys.stderr, flush=True)
    return failures


def _timed(case: Case, function: Any) -> Any:
    start = time.process_time()
    result = function(case)
    seconds = time.process_time() - start
    print(f"{case.name}: {seconds:.1f} s of processor time", file=sys.stderr, flush=True)
    return result


def _write(new_values: Mapping[str, Any]) -> None:
    """Replace the entries of the cases that were taken, and drop those of cases that are gone."""
    entries = {name: value for name, value in {**load(), **new_values}.items() if name in CASES}
    for area in {CASES[name].area for name in new_values}:
        part = {name: entries[name] for name in sorted(entries) if CASES[name].area == area}
        lines = ",\n".join(
            f"{json.dumps(name)}: {{\n"
            + ",\n".join(f" {json.dumps(key)}: {json.dumps(entry)}" for key, entry in rows.items())
            + "\n}"
            for name, rows in part.items()
        )
        (VALUES / f"{area}.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
