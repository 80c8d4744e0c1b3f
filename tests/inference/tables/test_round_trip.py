"""Comparisons of tables do not depend on the formats in which they were written.

Each example is a table of one to four columns. Its rows in another order, in another container,
have a p-value of 1; and its two halves have the p-value that they have as data frames, whatever the
container of either. Examples are the same in every run (``derandomize``).
"""

from __future__ import annotations

import datetime
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet
import pytest
from bke.inference import InputError, compare_tables
from hypothesis import HealthCheck, assume, given, settings, strategies as st

QUIET = {"n_resamples": 39, "sequential": False, "progress": False}
#: Rows of each half; as many for all, so that programs are compiled once.
HALF = 12
COMMON_SETTINGS = settings(
    derandomize=True,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
UTC, PARIS = datetime.UTC, "Europe/Paris"


class ColumnData(NamedTuple):
    """A column: its Arrow type, and its values, ``None`` where missing."""

    type: pa.DataType
    values: list[Any]


Table = dict[str, ColumnData]

# Whole numbers from 2**53 on are in no float64 column, which NumPy has where some are missing, and
# in no spreadsheet.
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.integers(-3, 20)
#: Ties, numbers of all magnitudes that tables may have, and those of a few digits.
FLOATS = (
    st.sampled_from([0.0, -0.0, 0.1, 0.25, 1.5, -2.75, 3.0, 1e-100, 1e100])
    # Numbers within 1e-150 are refused.
    | st.floats(-1e12, 1e12).filter(lambda value: value == 0.0 or abs(value) > 1e-100)
    | st.integers(-9999, 9999).map(lambda cents: cents / 100.0)
)
WORDS = (
    st.sampled_from(["élan", "e\u0301lan", "Zürich", "007", "7", "10", 'say "no"', "a;b", "a,b"])
    | st.sampled_from(["two\nlines", "a\tb", "'", "x y", "ß", "日本", "yes", "Straße 5", "1-2"])
    | st.text("abcé ,;\"'\n01", min_size=1, max_size=6)
)
#: Arrow knows no summer time after 2037.
DATES = st.dates(datetime.date(1970, 1, 2), datetime.date(2037, 12, 30))
#: Spreadsheets round times to milliseconds.
MOMENTS = st.builds(
    lambda day, second: (
        datetime.datetime(day.year, day.month, day.day) + datetime.timedelta(seconds=second)
    ),
    DATES,
    st.integers(0, 86399),
)
COLUMN_TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), INTEGERS),
    "floats": (pa.float64(), FLOATS),
    "booleans": (pa.bool_(), st.booleans()),
    "words": (pa.string(), WORDS),
    "dates": (pa.date32(), DATES),
    "moments": (pa.timestamp("us"), MOMENTS),
    "moments of a zone": (
        pa.timestamp("us", tz=PARIS),
        MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    ),
}


@st.composite
def columns(draw: st.DrawFn) -> ColumnData:
    of, values = COLUMN_TYPES[draw(st.sampled_from(sorted(COLUMN_TYPES)))]
    pool = draw(st.lists(values, min_size=2, max_size=2 * HALF))
    cell = st.sampled_from(pool)
    cell = draw(st.sampled_from([cell, cell, st.none() | cell]))
    return ColumnData(of, draw(st.lists(cell, min_size=2 * HALF, max_size=2 * HALF)))


TABLES = st.lists(columns(), min_size=1, max_size=4).map(
    lambda drawn: {f"column {index}": column for index, column in enumerate(drawn)}
)


def arrow(table: Table) -> pa.Table:
    return pa.table({name: pa.array(column.values, column.type) for name, column in table.items()})


def numpy_frame(table: Table) -> pd.DataFrame:
    return arrow(table).to_pandas()


def nullable_frame(table: Table) -> pd.DataFrame:
    return numpy_frame(table).assign(
        **{
            name: pd.array(column.values, of)
            for name, column in table.items()
            if (
                of := {"int64": "Int64", "bool": "boolean", "string": "string"}.get(
                    str(column.type)
                )
            )
        }
    )


def text(suffix: str, **options: Any) -> Callable[[Table, Path], Path]:
    def write(table: Table, path: Path) -> Path:
        nullable_frame(table).to_csv(path.with_suffix(suffix), index=False, **options)
        return path.with_suffix(suffix)

    return write


def parquet(table: Table, path: Path) -> Path:
    pyarrow.parquet.write_table(arrow(table), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def feather(table: Table, path: Path) -> Path:
    pyarrow.feather.write_feather(arrow(table), path.with_suffix(".feather"))
    return path.with_suffix(".feather")


def json_lines(table: Table, path: Path) -> Path:
    # Not by pandas, which keeps 15 decimals of a number, and none of 1e-100.
    def cell(value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else value

    rows = zip(*(arrow(table).column(name).to_pylist() for name in table), strict=True)
    lines = [json.dumps(dict(zip(table, map(cell, row), strict=True))) for row in rows]
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")
    return path.with_suffix(".jsonl")


def excel(table: Table, path: Path) -> Path:
    frame = numpy_frame(table)
    for name, column in table.items():
        if getattr(column.type, "tz", None):  # spreadsheets have no time zones
            frame[name] = frame[name].map(lambda moment: moment.isoformat(), na_action="ignore")
    frame.to_excel(path.with_suffix(".xlsx"), index=False)
    return path.with_suffix(".xlsx")


def polars_frame(table: Table) -> Any:
    import polars

    return polars.from_arrow(arrow(table))


def in_memory(make: Callable[[Table], Any]) -> Callable[[Table, Path], Any]:
    return lambda table, path: make(table)


CONTAINERS: dict[str, Callable[[Table, Path], Any]] = {
    "pandas": in_memory(numpy_frame),
    "pandas, nullable": in_memory(nullable_frame),
    "pandas, Arrow": in_memory(lambda table: arrow(table).to_pandas(types_mapper=pd.ArrowDtype)),
    "Arrow": in_memory(arrow),
    "CSV": text(".csv"),
    "TSV": text(".tsv", sep="\t"),
    "CSV, decimal commas": text(".csv", sep=";", decimal=","),
    "Parquet": parquet,
    "Feather": feather,
    "JSON lines": json_lines,
}
CONTAINERS |= {"polars": in_memory(polars_frame)} if importlib.util.find_spec("polars") else {}
CONTAINERS |= {"Excel": excel} if importlib.util.find_spec("openpyxl") else {}


def select_rows(table: Table, rows: list[int]) -> Table:
    return {
        name: ColumnData(column.type, [column.values[row] for row in rows])
        for name, column in table.items()
    }


#: Two names of containers. Excluded below is what is lost or refused by intent.
PAIRS = st.tuples(st.sampled_from(sorted(CONTAINERS)), st.sampled_from(sorted(CONTAINERS)))
COMMAS = "CSV, decimal commas"


def assume_that_both_hold(table: Table, pair: tuple[str, str]) -> None:
    """Discard tables that files cannot represent, which are refused, and a known defect."""
    texts = {"CSV", "TSV", COMMAS} & set(pair)
    # Rows of empty cells at the end of a file are left out, with a note.
    keeps_empty_rows = "Excel" not in pair and not texts
    assume(keeps_empty_rows or any(None not in column.values for column in table.values()))
    # Spreadsheets keep 15 digits.
    numbers = (column.values for column in table.values() if pa.types.is_floating(column.type))
    rounds = (float(f"{value:.15g}") != value for values in numbers for value in values if value)
    assume("Excel" not in pair or not any(rounds))
    # A file of a single column has no separator, and commas are ambiguous.
    assume(not texts or len(table) > 1)
    # Numbers of text have the same format in both, or are refused.
    floats = any(pa.types.is_floating(column.type) for column in table.values())
    assume(not floats or texts <= {COMMAS} or COMMAS not in texts)
    # See test_the_zone_of_dates_in_json_is_kept.
    zones = any(getattr(column.type, "tz", None) for column in table.values())
    assume(not zones or "JSON lines" not in pair)


def compare_or_refuse(before: Any, after: Any) -> Any:
    """Return p-values and types of columns, or None if the tables are refused.

    No column can be compared, or one has numbers and words that may stand for missing values.
    """
    try:
        result = compare_tables(before, after, **QUIET)
    except InputError as error:
        if "no column can be compared" in str(error) or " has numbers but " in str(error):
            return None
        raise
    return result.pvalue, [(column.name, column.kind, column.pvalue) for column in result.columns]


def check(table: Table, order: list[int], pair: tuple[str, str], folder: Path) -> None:
    assume_that_both_hold(table, pair)
    first, second = (CONTAINERS[name] for name in pair)
    moved = compare_or_refuse(
        first(table, folder / "a"), second(select_rows(table, order), folder / "b")
    )
    if moved is not None:
        assert moved[0] == 1.0
    parts = select_rows(table, list(range(HALF))), select_rows(table, list(range(HALF, 2 * HALF)))
    result = compare_or_refuse(first(parts[0], folder / "a"), second(parts[1], folder / "b"))
    assert result == compare_or_refuse(*map(numpy_frame, parts))


@given(TABLES, st.permutations(range(2 * HALF)), PAIRS)
@settings(COMMON_SETTINGS, max_examples=25)
def test_comparisons_do_not_depend_on_containers(tmp_path, table, order, pair):
    check(table, order, pair, tmp_path)


@pytest.mark.slow
@given(TABLES, st.permutations(range(2 * HALF)), PAIRS)
@settings(COMMON_SETTINGS, max_examples=500)
def test_comparisons_of_more_tables_do_not_depend_on_containers(tmp_path, table, order, pair):
    check(table, order, pair, tmp_path)


def test_the_zone_of_dates_in_json_is_kept(tmp_path):
    moments = [datetime.datetime(2024, 1, 1 + day, 23, tzinfo=UTC) for day in range(2 * HALF)]
    table = {"moment": ColumnData(pa.timestamp("us", tz=PARIS), moments)}
    rows = list(range(2 * HALF))
    parts = select_rows(table, rows[::2]), select_rows(table, rows[1::2])
    # Where the local clock says midnight, at 23:00 in UTC.
    local = pa.table({"moment": pa.compute.local_timestamp(arrow(parts[1])["moment"])})
    with pytest.raises(InputError, match=r"time zone|offset"):
        compare_tables(json_lines(parts[0], tmp_path / "a"), local, **QUIET)
