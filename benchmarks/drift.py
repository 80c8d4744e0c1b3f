"""Detection rates and false alarm rates of drift tools on pairs of tables.

``compare_tables`` is compared with the defaults of evidently, NannyML and alibi-detect on the same
CSV files. Each of these packages is installed in a separate virtual environment in
``--environments`` (a few gigabytes, some minutes). ``--level`` uses halves of one table: a
simulated table with ties, missing values and heavy tails, and three tables that NannyML ships
(census, passengers, car loans). Without it the benchmark uses twelve kinds of change of a simulated
table of ten columns.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import repeats
import report
from bke.inference import compare_tables

Frame = pd.DataFrame
Change = Callable[[Frame, np.random.Generator], None]
#: Requirements of each virtual environment, at the versions of the recorded results.
PEERS = {
    "evidently": ["evidently==0.7.23", "pandas<3", "pyarrow"],
    "nannyml": ["nannyml==0.13.1", "pandas<3", "statsmodels"],
    "alibi-detect": ["alibi-detect==0.13.0"],
}
ENVIRONMENTS = Path(tempfile.gettempdir()) / "bke-drift-peers"
COLUMN_TYPES = {
    "size": "number", "length": "number", "weight": "number", "income": "number",
    "error": "number", "visits": "integer", "grade": "integer", "city": "category",
    "member": "boolean", "when": "datetime",
}  # fmt: skip
CITIES = ["Paris", "Lyon", "Nice", "Lille", "Metz", "Brest"]
CITY_WEIGHTS = [0.4, 0.25, 0.15, 0.1, 0.07, 0.03]


def simulated(n: int, rng: np.random.Generator, correlation: float = 0.15) -> Frame:
    """Draw a table of ten correlated, skewed, heavy-tailed, tied, categorical and date columns."""
    covariance = np.full((3, 3), correlation) + (1.0 - correlation) * np.eye(3)
    size, length, weight = rng.multivariate_normal(np.zeros(3), covariance, n).T
    income = np.exp(8.0 + 0.6 * rng.normal(size=n))
    income[rng.uniform(size=n) < 0.1] = np.nan
    minutes = rng.integers(0, 28 * 24 * 60, size=n)
    return pd.DataFrame(
        {
            "size": size,
            "length": length,
            "weight": weight,
            "income": income.round(2),
            "error": rng.standard_t(2, size=n),
            "visits": rng.poisson(3.0, size=n),
            "grade": rng.integers(1, 6, size=n),
            "city": rng.choice(CITIES, p=CITY_WEIGHTS, size=n).astype(object),
            "member": rng.uniform(size=n) < 0.3,
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(minutes, unit="min"),
        }
    )


def random_rows(table: Frame, probability: float, rng: np.random.Generator) -> np.ndarray:
    """Return a mask of rows, each selected with the probability."""
    return rng.uniform(size=len(table)) < probability


def shape(table: Frame, rng: np.random.Generator) -> None:
    """Mix a bimodal distribution of the same mean into one column."""
    humps = rng.choice([-0.8, 0.8], size=len(table)) + 0.6 * rng.normal(size=len(table))
    table["error"] = np.where(random_rows(table, 0.5, rng), humps, table["error"])


def more_of_second_city(table: Frame, rng: np.random.Generator) -> None:
    """Move rows of the first city to the second, so that its proportion falls from 0.4 to 0.32."""
    moved = (table["city"] == "Paris") & random_rows(table, 0.2, rng)
    table.loc[moved, "city"] = "Lyon"


def weekdays(table: Frame, rng: np.random.Generator) -> None:
    """Move a third of the rows of each weekend to the Monday after it."""
    moved = (table["when"].dt.dayofweek >= 5) & random_rows(table, 1 / 3, rng)
    days = np.where(moved, 7 - table["when"].dt.dayofweek, 0)
    table["when"] = table["when"] + pd.to_timedelta(days, unit="D")


def flip(table: Frame, rng: np.random.Generator) -> None:
    """Change the correlation of two columns from 0.15 to -0.15."""
    table["size"], table["length"] = simulated(len(table), rng, -0.15)[["size", "length"]].T.values


def a_little(table: Frame, rng: np.random.Generator) -> None:
    """Shift every numeric column by about a tenth of its standard deviation."""
    for name in ("size", "length", "weight", "error"):
        table[name] += 0.1
    table["income"] *= 1.06
    table["visits"] += random_rows(table, 0.17, rng)


def subgroup(table: Frame, rng: np.random.Generator) -> None:
    """Increase three columns in 5 % of the rows."""
    rows = random_rows(table, 0.05, rng)
    table.loc[rows, ["size", "length", "weight"]] += 2.0


def assign(**columns: Callable[[Frame, np.random.Generator], Any]) -> Change:
    """Return a change that replaces columns by functions of the table."""

    def change(table: Frame, rng: np.random.Generator) -> None:
        for name, function in columns.items():
            table[name] = function(table, rng)

    return change


#: The change of the second table, and the columns in which it is.
CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "mean by 0.2 sd": (assign(size=lambda t, rng: t["size"] + 0.2), ("size",)),
    "spread by 1.25": (assign(size=lambda t, rng: 1.25 * t["size"]), ("size",)),
    "shape": (shape, ("error",)),
    "share of a category, 0.4 to 0.32": (more_of_second_city, ("city",)),
    "a new category, 2.5 %": (
        assign(city=lambda t, rng: t["city"].where(~random_rows(t, 0.025, rng), "Nancy")),
        ("city",),
    ),
    "missing, 10 to 18 %": (
        assign(income=lambda t, rng: t["income"].where(~random_rows(t, 0.09, rng))),
        ("income",),
    ),
    "correlation, 0.15 to -0.15": (flip, ("size", "length")),
    "one of ten, counts by 0.3": (
        assign(visits=lambda t, rng: t["visits"] + random_rows(t, 0.3, rng)),
        ("visits",),
    ),
    "all by a little": (a_little, ("size", "length", "weight", "error", "income", "visits")),
    "weekends thinned by a third": (weekdays, ("when",)),
    "a subgroup of 5 %": (subgroup, ("size", "length", "weight")),
    "units in 2 %, times 1000": (
        assign(
            income=lambda t, rng: t["income"].where(~random_rows(t, 0.02, rng), 1000 * t["income"])
        ),
        ("income",),
    ),
}
#: Tables in NannyML's wheel: the file, rows of each half, and types of the columns.
REAL: dict[str, tuple[str, int, dict[str, str]]] = {
    "census": (
        "employment_MA_reference.pq",
        500,
        {
            "AGEP": "number", "SCHL": "category", "MAR": "category", "RELP": "category",
            "DIS": "category", "ESP": "category", "CIT": "category", "MIG": "category",
            "MIL": "category", "ANC": "category", "SEX": "category", "RAC1P": "category",
        },
    ),
    "passengers": (
        "titanic_reference.csv",
        440,
        {
            "Pclass": "category", "Sex": "category", "Age": "number", "SibSp": "integer",
            "Parch": "integer", "Fare": "number", "Embarked": "category", "boat": "category",
            "Survived": "category",
        },
    ),
    "car loans": (
        "synthetic_car_loan_dq_reference.csv",
        500,
        {
            "car_value": "number", "salary_range": "category", "debt_to_income_ratio": "number",
            "loan_length": "integer", "repaid_loan_on_prev_car": "boolean",
            "size_of_downpayment": "category", "driver_tenure": "number", "repaid": "category",
        },
    ),
}  # fmt: skip
HALF_TABLES = ["simulated", *REAL]
#: Rows of each simulated table in the settings of power, and in those of level.
ROWS, LEVEL_ROWS = 1000, 300


@functools.cache
def nannyml_table(name: str, environments: Path) -> Frame:
    """Read a table from NannyML's wheel."""
    file, _, column_types = REAL[name]
    (path,) = (environments / "nannyml").glob(f"lib/*/site-packages/nannyml/datasets/data/{file}")
    read = pd.read_parquet(path) if path.suffix == ".pq" else pd.read_csv(path)
    return read[list(column_types)]


def pair(setting: str, seed: int, environments: Path) -> tuple[Frame, Frame, dict[str, str]]:
    """Return the two tables of a setting and the types of their columns."""
    rng = np.random.default_rng([sum(setting.encode()), seed])
    if setting in REAL:
        _, rows, column_types = REAL[setting]
        table = nannyml_table(setting, environments)
        drawn = table.iloc[rng.permutation(len(table))[: 2 * rows]]
        return drawn[:rows], drawn[rows:], column_types
    n = ROWS if setting in CHANGES else LEVEL_ROWS
    before, after = simulated(n, rng), simulated(n, rng)
    if setting in CHANGES:
        CHANGES[setting][0](after, rng)
    return before, after, COLUMN_TYPES


def environment(name: str, folder: Path) -> None:
    """Create a virtual environment with a package, unless it exists."""
    home = folder / name
    if (home / "made").exists():
        return
    print(f"installing {' '.join(PEERS[name])} into {home}", file=sys.stderr)
    venv.create(home, with_pip=True, clear=True)
    subprocess.run([home / "bin" / "pip", "install", "-q", *PEERS[name]], check=True)
    (home / "made").touch()


def flagged_by(name: str, folder: Path, environments: Path) -> list[dict[str, Any]]:
    """Return the columns that another package flags in each pair of tables in a folder."""
    python, script = (
        environments / name / "bin" / "python",
        Path(__file__).with_name("drift_peers.py"),
    )
    done = subprocess.run(
        [python, script, name, folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-800:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def flagged_here(folder: Path, seed: int, index: int, permutations: int) -> dict[str, Any]:
    """Return the columns that bke reports for a pair of tables; ``(table)`` is the whole table."""
    column_types = json.loads((folder / "kinds.json").read_text())
    categories = {
        name: "category"
        for name, column_type in column_types.items()
        if column_type in ("category", "boolean")
    }
    started = time.perf_counter()
    comparison = compare_tables(
        folder / f"{index:04d}_before.csv",
        folder / f"{index:04d}_after.csv",
        column_types=categories,
        n_resamples=permutations,
        seed=seed,
        progress=False,
    )
    seconds = time.perf_counter() - started
    names = [column.name for column in comparison.columns if column.reject]
    names += [name for pair in comparison.pairs if pair.reject for name in pair.columns]
    return {"flagged": names + ["(table)"] * comparison.reject, "seconds": seconds}


def measurements(
    setting: str, permutations: int, seeds: range, *, environments: Path, peers: tuple[str, ...]
) -> list[list[float]]:
    """For each pair and package: any flag, any correct flag, failure, and seconds."""
    truth = set(CHANGES[setting][1]) if setting in CHANGES else set()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        for index, seed in enumerate(seeds):
            before, after, column_types = pair(setting, seed, environments)
            before.to_csv(folder / f"{index:04d}_before.csv", index=False)
            after.to_csv(folder / f"{index:04d}_after.csv", index=False)
        (folder / "kinds.json").write_text(json.dumps(column_types))
        flags = [
            [flagged_here(folder, seed, index, permutations) for index, seed in enumerate(seeds)]
        ]
        flags += [flagged_by(name, folder, environments) for name in peers]
    rows = []
    for per_package in zip(*flags, strict=True):
        row: list[float] = []
        for result in per_package:
            failed = any(name.startswith("failed") for name in result["flagged"])
            right = bool(truth & set(result["flagged"]))
            row += [bool(result["flagged"]) and not failed, right, failed, result["seconds"]]
        rows.append(row)
    return rows


def main() -> None:
    """Install the packages, run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--level", action="store_true", help="halves of one table")
    parser.add_argument("--settings", nargs="+", choices=[*CHANGES, *HALF_TABLES])
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    repeats.add_options(parser, repeats=50, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.permutations = 3, 99
    settings = options.settings or (HALF_TABLES if options.level else list(CHANGES))
    for name in dict.fromkeys([*options.peers, "nannyml"]):
        environment(name, options.environments)
    names = ["bke", *options.peers]

    def summary(values: np.ndarray) -> repeats.Row:
        row: repeats.Row = {}
        for index, name in enumerate(names):
            any_, right, failed, seconds = values[:, 4 * index : 4 * index + 4].T
            row[name] = any_.mean()
            if not options.level:
                row[f"{name}, rightly"] = right.mean()
            if failed.any():
                row[f"{name}, failed"] = failed.mean()
            row[f"{name}, seconds"] = float(np.median(seconds))
        return row

    def text(rows: list[repeats.Row]) -> str:
        keys = list(dict.fromkeys(key for row in rows for key in row if "seconds" not in key))
        table_rows = [{key: row.get(key, 0.0) for key in keys} for row in rows]
        tables = "halves of one table" if options.level else f"{ROWS} + {ROWS} rows of ten columns"
        return (
            f"{options.repeats} pairs each, {tables}, {options.permutations} permutations of bke, "
            "each package with its defaults, on the same files. Proportions of pairs in which a "
            "package flags anything, a column or the table"
            + (".\n\n" if options.level else ", and in which it flags a changed column.\n\n")
            + report.table(table_rows)
        )

    experiment = functools.partial(
        measurements, environments=options.environments, peers=tuple(options.peers)
    )
    repeats.fill(
        "drift-level" if options.level else "drift-power",
        "What drift tools flag",
        [{"setting": name} for name in settings],
        experiment,
        summary,
        text,
        options,
        {"level": options.level},
    )


if __name__ == "__main__":
    main()
