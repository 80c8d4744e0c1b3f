"""Columns that another drift package flags in pairs of tables with its default settings.

The script runs in the package's virtual environment. ``python drift_peers.py NAME FOLDER`` reads
``0000_before.csv``, ``0000_after.csv`` and so on from the folder, and ``kinds.json`` with the types
of the columns. It prints a list of the names flagged in each pair (``(table)`` stands for the whole
table) and the seconds of each.

Missing numbers are NaN. The packages receive the list of categorical columns. TabularDrift accepts
no missing values: for it a missing category is a separate level, and a missing number is -999.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ColumnTypes = dict[str, str]
#: Value of a missing number for packages that accept no missing values.
MISSING = -999.0


def read(path: Path, column_types: ColumnTypes) -> pd.DataFrame:
    """Read a table with columns of the given types."""
    categories = {
        name: object
        for name, column_type in column_types.items()
        if column_type in ("category", "text")
    }
    dates = [name for name, column_type in column_types.items() if column_type == "datetime"]
    return pd.read_csv(path, dtype=categories, parse_dates=dates, keep_default_na=True)


def evidently(before: pd.DataFrame, after: pd.DataFrame, column_types: ColumnTypes) -> list[str]:
    """Return the columns whose p-value or distance exceeds its threshold in DataDriftPreset."""
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    definition = {
        "numerical_columns": [
            name
            for name, column_type in column_types.items()
            if column_type in ("number", "integer")
        ],
        "categorical_columns": [
            name
            for name, column_type in column_types.items()
            if column_type in ("category", "boolean")
        ],
        "datetime_columns": [
            name for name, column_type in column_types.items() if column_type == "datetime"
        ],
    }
    data = [Dataset.from_pandas(table, DataDefinition(**definition)) for table in (before, after)]
    drift_report = (
        Report([DataDriftPreset()]).run(reference_data=data[0], current_data=data[1]).dict()
    )
    flagged = []
    for metric in drift_report["metrics"]:
        config = metric["config"]
        if "column" not in config:
            if metric["value"]["share"] >= config["drift_share"]:
                flagged.append("(table)")
        elif "p_value" in config["method"]:
            flagged += [config["column"]] * bool(metric["value"] < config["threshold"])
        else:
            flagged += [config["column"]] * bool(metric["value"] >= config["threshold"])
    return flagged


def nannyml(before: pd.DataFrame, after: pd.DataFrame, column_types: ColumnTypes) -> list[str]:
    """Return the columns with an alert in any of ten chunks; the table by its reconstruction."""
    import nannyml as nml

    used = [
        name
        for name, column_type in column_types.items()
        if column_type not in ("datetime", "text")
    ]
    categories = [name for name in used if column_types[name] in ("category", "boolean")]
    calculator = nml.UnivariateDriftCalculator(
        column_names=used, treat_as_categorical=categories
    ).fit(before)
    drift = calculator.calculate(after).filter(period="analysis").to_df()
    alerts = drift.xs("alert", axis=1, level=-1).any()
    flagged = [name for name in used if bool(np.any(alerts[name]))]
    reconstruction = nml.DataReconstructionDriftCalculator(column_names=used).fit(before)
    joint = reconstruction.calculate(after).filter(period="analysis").to_df()
    return flagged + ["(table)"] * bool(joint.xs("alert", axis=1, level=-1).any().any())


def alibi_detect(before: pd.DataFrame, after: pd.DataFrame, column_types: ColumnTypes) -> list[str]:
    """Return the columns below the corrected threshold of TabularDrift; the table if any is."""
    from alibi_detect.cd import TabularDrift

    used = [
        name
        for name, column_type in column_types.items()
        if column_type not in ("datetime", "text")
    ]
    categories = [
        index for index, name in enumerate(used) if column_types[name] in ("category", "boolean")
    ]
    both = pd.concat([before, after])
    columns = []
    for name in used:
        if column_types[name] in ("category", "boolean"):
            columns.append(
                pd.factorize(both[name].astype(object).where(both[name].notna(), "-"))[0]
            )
        else:
            columns.append(both[name].astype(float).fillna(MISSING).to_numpy())
    rows = np.stack(columns, axis=1).astype(float)
    first, second = rows[: len(before)], rows[len(before) :]
    detector: Any = TabularDrift(
        first, p_val=0.05, categories_per_feature=dict.fromkeys(categories)
    )
    prediction = detector.predict(second)["data"]
    flagged = [
        name
        for name, p in zip(used, prediction["p_val"], strict=True)
        if p < prediction["threshold"]
    ]
    return flagged + ["(table)"] * bool(prediction["is_drift"])


PEERS: dict[str, Callable[[pd.DataFrame, pd.DataFrame, ColumnTypes], list[str]]] = {
    "evidently": evidently,
    "nannyml": nannyml,
    "alibi-detect": alibi_detect,
}


def main() -> None:
    """Read the pairs, run the package and print the names that it flags."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    name, folder = sys.argv[1], Path(sys.argv[2])
    column_types: ColumnTypes = json.loads((folder / "kinds.json").read_text())
    results = []
    for path in sorted(folder.glob("*_before.csv")):
        tables = [
            read(path, column_types),
            read(path.with_name(path.name.replace("before", "after")), column_types),
        ]
        started = time.perf_counter()
        try:
            flagged = PEERS[name](*tables, column_types)
        except Exception as error:  # a failure of the package is recorded as a result
            flagged = [f"failed: {type(error).__name__}: {error}"]
        results.append({"flagged": flagged, "seconds": time.perf_counter() - started})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
