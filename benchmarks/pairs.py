"""Results of `compare` on 24 pairs of samples from data sets that packages ship, to be read.

The data come from scikit-learn, statsmodels (`pip install "bke[benchmarks]"`) and NannyML, of which
only the data in its wheel are needed (`pip install --no-deps nannyml`). Pairs of packages that are
not installed are skipped and listed. The table has a row for each pair; the printed results follow.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import report
from bke.inference import compare

Frames = tuple[pd.DataFrame, pd.DataFrame]


@functools.cache
def sklearn_table(name: str) -> pd.DataFrame:
    """Load a data set of scikit-learn with its target."""
    from sklearn import datasets

    data: Any = getattr(datasets, f"load_{name}")(as_frame=True)
    return pd.DataFrame(data.frame)


@functools.cache
def statsmodels_table(name: str) -> pd.DataFrame:
    """Load a data set of statsmodels."""
    import statsmodels.api as sm

    return pd.DataFrame(getattr(sm.datasets, name).load_pandas().data)


def nannyml_tables(name: str, columns: list[str], rows: int | None = None) -> Frames:
    """Read the reference and analysis periods of a data set in NannyML's wheel; drop missing."""
    wheel = importlib.metadata.distribution("nannyml")
    both = (
        pd.read_csv(str(wheel.locate_file(f"nannyml/datasets/data/{name}_{part}.csv")))
        for part in ("reference", "analysis")
    )
    first, second = (table[columns].dropna()[:rows] for table in both)
    return first, second


def split(
    table: Callable[[], pd.DataFrame],
    columns: list[str],
    chosen: Callable[[pd.DataFrame], pd.Series],
    other: Callable[[pd.DataFrame], pd.Series] | None = None,
) -> Frames:
    """Split a table into rows where ``chosen`` holds, and ``other``, by default the complement."""
    rows = table()
    first = chosen(rows)
    second = ~first if other is None else other(rows)
    return rows.loc[first, columns], rows.loc[second, columns]


def loader(load: Callable[[str], pd.DataFrame], name: str) -> Callable[[], pd.DataFrame]:
    """Return a function that loads the table."""
    return functools.partial(load, name)


IRIS, WINE, CANCER, DIABETES, DIGITS = (
    loader(sklearn_table, name) for name in ("iris", "wine", "breast_cancer", "diabetes", "digits")
)
FAIR, VOTES, NILE, SPOTS, HEALTH, MACRO, STARS = (
    loader(statsmodels_table, name)
    for name in ("fair", "anes96", "nile", "sunspots", "randhie", "macrodata", "star98")
)


def target(value: int) -> Callable[[pd.DataFrame], pd.Series]:
    """Rows of one class."""
    return lambda rows: rows["target"] == value


PAIRS: dict[str, tuple[tuple[str, str], Callable[[], Frames]]] = {
    "iris: sepal width": (
        ("versicolor", "virginica"),
        lambda: split(IRIS, ["sepal width (cm)"], target(1), target(2)),
    ),
    "iris: all columns": (
        ("versicolor", "virginica"),
        lambda: split(IRIS, list(IRIS().columns[:4]), target(1), target(2)),
    ),
    "iris: every other setosa": (
        ("even", "odd"),
        lambda: split(
            IRIS,
            list(IRIS().columns[:4]),
            lambda t: target(0)(t) & (t.index % 2 == 0),
            lambda t: target(0)(t) & (t.index % 2 == 1),
        ),
    ),
    "wine: ash": (("class 0", "class 2"), lambda: split(WINE, ["ash"], target(0), target(2))),
    "wine: hue, color": (
        ("class 0", "class 1"),
        lambda: split(WINE, ["hue", "color_intensity"], target(0), target(1)),
    ),
    "wine: all columns": (
        ("class 0", "class 1"),
        lambda: split(WINE, list(WINE().columns[:-1]), target(0), target(1)),
    ),
    "tumours: texture": (
        ("malignant", "benign"),
        lambda: split(CANCER, ["mean texture"], target(0)),
    ),
    "tumours: fractal dimension": (
        ("malignant", "benign"),
        lambda: split(CANCER, ["mean fractal dimension"], target(0)),
    ),
    "tumours: symmetry, smoothness": (
        ("malignant", "benign"),
        lambda: split(CANCER, ["mean symmetry", "mean smoothness"], target(0)),
    ),
    "diabetes: body mass": (
        ("one sex", "the other"),
        lambda: split(DIABETES, ["bmi"], lambda t: t["sex"] > 0),
    ),
    "diabetes: progression": (
        ("one sex", "the other"),
        lambda: split(DIABETES, ["target"], lambda t: t["sex"] > 0),
    ),
    "diabetes: eight columns": (
        ("progressing", "others"),
        lambda: split(
            DIABETES,
            ["age", "bmi", "bp", "s1", "s2", "s3", "s5", "s6"],
            lambda t: t["target"] > t["target"].median(),
        ),
    ),
    "digits: 3 and 8, all pixels that vary": (
        ("three", "eight"),
        lambda: split(
            DIGITS,
            [c for c in DIGITS().columns[:64] if DIGITS()[c].std() > 2.0],
            target(3),
            target(8),
        ),
    ),
    "affairs: age": (
        ("any", "none"),
        lambda: split(FAIR, ["age"], lambda t: t["affairs"] > 0),
    ),
    "affairs: years married, children, religious": (
        ("any", "none"),
        lambda: split(FAIR, ["yrs_married", "children", "religious"], lambda t: t["affairs"] > 0),
    ),
    "election 1996: income": (
        ("Dole", "Clinton"),
        lambda: split(VOTES, ["income"], lambda t: t["vote"] > 0),
    ),
    "election 1996: age, education": (
        ("Dole", "Clinton"),
        lambda: split(VOTES, ["age", "educ"], lambda t: t["vote"] > 0),
    ),
    "the Nile's volume": (
        ("1871-1898", "1899-1970"),
        lambda: split(NILE, ["volume"], lambda t: t["year"] <= 1898),
    ),
    "sunspots": (
        ("1700-1854", "1855-2008"),
        lambda: split(SPOTS, ["SUNACTIVITY"], lambda t: t["YEAR"] <= 1854),
    ),
    "inflation": (
        ("1959-1984", "1985-2009"),
        lambda: split(MACRO, ["infl"], lambda t: t["year"] <= 1984),
    ),
    "doctor's visits": (
        ("deductible", "none"),
        lambda: split(HEALTH, ["mdvis"], lambda t: t["idp"] > 0),
    ),
    "schools: pupils per teacher": (
        ("poor", "others"),
        lambda: split(STARS, ["PTRATIO"], lambda t: t["LOWINC"] > t["LOWINC"].median()),
    ),
    "Titanic: age, fare": (
        ("reference", "analysis"),
        lambda: nannyml_tables("titanic", ["Age", "Fare"]),
    ),
    "Californian houses: five columns": (
        ("reference", "analysis"),
        lambda: nannyml_tables(
            "california_housing", ["MedInc", "HouseAge", "AveRooms", "Latitude", "Longitude"]
        ),
    ),
}


def main() -> None:
    """Compare every pair, and write the table and the printed results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", nargs="+", choices=list(PAIRS), default=list(PAIRS))
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    info, folder = report.start(options.results)
    chosen = options.pairs[:2] if options.quick else options.pairs
    rows, texts, missing = [], [], []
    for name in chosen:
        names, load = PAIRS[name]
        try:
            P, Q = load()
        except ImportError as error:
            missing.append(f"{name} ({error})")
            continue
        began = time.perf_counter()
        comparison = compare(
            P, Q, names=names, progress=False, n_resamples=99 if options.quick else 999
        )
        rows.append(
            {
                "pair": name,
                "rows": f"{len(P)} + {len(Q)}",
                "columns": P.shape[1],
                "p": comparison.pvalue,
                "log BF": comparison.log_bayes_factor,
                "regions": len(comparison.regions),
                "AUC": comparison.auc,
                "seconds": time.perf_counter() - began,
            }
        )
        texts.append(f"**{name}**\n\n```\n{comparison}\n```")
        print(texts[-1], flush=True)
    left_out = f"\n\nLeft out: {', '.join(missing)}." if missing else ""
    body = f"{report.table(rows)}{left_out}\n\n" + "\n\n".join(texts)
    name = "pairs-quick" if options.quick else "pairs"
    report.save(folder, name, "Answers on real pairs", info, body, {"rows": rows})


if __name__ == "__main__":
    main()
