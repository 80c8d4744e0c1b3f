"""What another package flags in pairs of tables, by its defaults; run by its own Python.

``python drift_peers.py NAME FOLDER`` reads ``0000_before.csv``, ``0000_after.csv`` and so on from
the folder, with ``kinds.json`` beside them, and prints a list of the names flagged in each pair
(``(table)`` stands for the whole) and the seconds of each.

A number that is missing is NaN. The packages are told which columns are categories. A missing
category is a level of its own for TabularDrift, and a missing number the value -999, since it takes
no holes.
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

Kinds = dict[str, str]
#: What stands for a number that is missing, where a package takes no holes.
HOLE = -999.0


def read(path: Path, kinds: Kinds) -> pd.DataFrame:
    """A table with columns of their kinds."""
    words = {name: object for name, kind in kinds.items() if kind in ("category", "text")}
    dates = [name for name, kind in kinds.items() if kind == "datetime"]
    return pd.read_csv(path, dtype=words, parse_dates=dates, keep_default_na=True)


def evidently(before: pd.DataFrame, after: pd.DataFrame, kinds: Kinds) -> list[str]:
    """Columns whose p-value or distance is beyond its threshold in DataDriftPreset."""
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    of = {
        "numerical_columns": [one for one, kind in kinds.items() if kind in ("number", "integer")],
        "categorical_columns": [
            one for one, kind in kinds.items() if kind in ("category", "boolean")
        ],
        "datetime_columns": [one for one, kind in kinds.items() if kind == "datetime"],
    }
    data = [Dataset.from_pandas(one, DataDefinition(**of)) for one in (before, after)]
    found = Report([DataDriftPreset()]).run(reference_data=data[0], current_data=data[1]).dict()
    flagged = []
    for metric in found["metrics"]:
        config = metric["config"]
        if "column" not in config:
            if metric["value"]["share"] >= config["drift_share"]:
                flagged.append("(table)")
        elif "p_value" in config["method"]:
            flagged += [config["column"]] * bool(metric["value"] < config["threshold"])
        else:
            flagged += [config["column"]] * bool(metric["value"] >= config["threshold"])
    return flagged


def nannyml(before: pd.DataFrame, after: pd.DataFrame, kinds: Kinds) -> list[str]:
    """Columns with an alert in any of ten chunks, and the table if its reconstruction has one."""
    import nannyml as nml

    used = [name for name, kind in kinds.items() if kind not in ("datetime", "text")]
    words = [name for name in used if kinds[name] in ("category", "boolean")]
    one = nml.UnivariateDriftCalculator(column_names=used, treat_as_categorical=words).fit(before)
    found = one.calculate(after).filter(period="analysis").to_df()
    alerts = found.xs("alert", axis=1, level=-1).any()
    flagged = [name for name in used if bool(np.any(alerts[name]))]
    whole = nml.DataReconstructionDriftCalculator(column_names=used).fit(before)
    joint = whole.calculate(after).filter(period="analysis").to_df()
    return flagged + ["(table)"] * bool(joint.xs("alert", axis=1, level=-1).any().any())


def alibi_detect(before: pd.DataFrame, after: pd.DataFrame, kinds: Kinds) -> list[str]:
    """Columns below the threshold of TabularDrift with its correction; the table if any."""
    from alibi_detect.cd import TabularDrift

    used = [name for name, kind in kinds.items() if kind not in ("datetime", "text")]
    words = [index for index, name in enumerate(used) if kinds[name] in ("category", "boolean")]
    both = pd.concat([before, after])
    columns = []
    for name in used:
        if kinds[name] in ("category", "boolean"):
            columns.append(
                pd.factorize(both[name].astype(object).where(both[name].notna(), "-"))[0]
            )
        else:
            columns.append(both[name].astype(float).fillna(HOLE).to_numpy())
    rows = np.stack(columns, axis=1).astype(float)
    first, second = rows[: len(before)], rows[len(before) :]
    detector: Any = TabularDrift(first, p_val=0.05, categories_per_feature=dict.fromkeys(words))
    found = detector.predict(second)["data"]
    flagged = [name for name, p in zip(used, found["p_val"], strict=True) if p < found["threshold"]]
    return flagged + ["(table)"] * bool(found["is_drift"])


PEERS: dict[str, Callable[[pd.DataFrame, pd.DataFrame, Kinds], list[str]]] = {
    "evidently": evidently,
    "nannyml": nannyml,
    "alibi-detect": alibi_detect,
}


def main() -> None:
    """Read pairs, ask the package, print what it flags."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    name, folder = sys.argv[1], Path(sys.argv[2])
    kinds: Kinds = json.loads((folder / "kinds.json").read_text())
    answers = []
    for path in sorted(folder.glob("*_before.csv")):
        tables = [
            read(path, kinds),
            read(path.with_name(path.name.replace("before", "after")), kinds),
        ]
        started = time.perf_counter()
        try:
            flagged = PEERS[name](*tables, kinds)
        except Exception as error:  # what a package cannot answer is told as such
            flagged = [f"failed: {type(error).__name__}: {error}"]
        answers.append({"flagged": flagged, "seconds": time.perf_counter() - started})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
