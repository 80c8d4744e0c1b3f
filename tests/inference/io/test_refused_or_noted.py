"""Inputs that two readers would read in two ways are refused, or noted."""

import datetime
import decimal
import io
import json
import re
import uuid
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import xarray as xr
from bke.inference import (
    InputError,
    Monitor,
    Monitors,
    compare,
    compare_chains,
    compare_groups,
    compare_tables,
    conditional_independence_test,
    fit,
    independence_test,
    learn_conditional,
    open_blocks,
    read_sample,
    thin,
    two_sample_test,
)
from bke.inference.io.samples import choose_columns, read_samples
from bke.inference.io.stream import RowStream
from bke.inference.io.tables import as_table, parse_json_objects, table_of_objects
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables

QUIET = {"n_resamples": 39, "sequential": False, "progress": False}
VALUES = np.random.default_rng(0).normal(size=60)
MISSING = np.r_[VALUES[:50], [-999.0] * 10]
TWO = np.random.default_rng(2).normal(size=(60, 2))
FRAME = pd.DataFrame({"a": TWO[:, 0], "b": TWO[:, 1], "ab": VALUES})
GROUPED = FRAME.assign(g=["u", "v"] * 30)
HOURS = [datetime.datetime(2024, 1, 1 + at % 28, 13) for at in range(60)]
TOKYO = datetime.timezone(datetime.timedelta(hours=9))
ZONES = ["Europe/Berlin", "America/New_York"]
DATES = pd.date_range("2024-01-01", periods=200, freq="37h")
SECONDS = DATES.astype("datetime64[s]").astype("int64").to_numpy()
THOUSANDS = "points between thousands and decimal commas"


def read(before, after=None, types=None, roles=None, **options):
    """Return columns of two tables, and notes; a list of entries is a column ``v``."""
    tables = [
        as_table({"v": table} if isinstance(table, list | np.ndarray | pd.Index) else table, name)
        for table, name in ((before, "P"), (before if after is None else after, "Q"))
    ]
    result = pool_tables(
        tables, None, (), ReadOptions(types or {}, **options), Roles(**roles or {})
    )
    columns = {column.name: column for column in result.columns}
    return columns | result.role_columns, " ".join(result.notes)


def objects(entries):
    return pd.DataFrame({"v": pd.Series(entries, dtype=object)})


def batch(rows, monitor):
    """Return rows of a stream as a monitor reads them, and the notes."""
    return monitor._reader.values(as_table(rows, "rows"))


def matrix(columns, rows=None):
    """A matrix of xarray, whose columns a and b have the means 0 and 5."""
    values = TWO + [5.0 * (name == "b") for name in columns]
    coords = {"v": list(columns)} | ({} if rows is None else {"o": rows})
    return xr.DataArray(values, dims=("o", "v"), coords=coords)


CODES = [2**53, 2**53 + 1]
FOUR_DIGITS = list(range(1000, 9000, 20))
POINTS = [f"{number // 1000}.{number % 1000:03d}" for number in FOUR_DIGITS]
AMBIGUOUS = r"'1\.000' that may be written with decimal points or with points between"
RUPEES = 812_345.25 + 10_000.0 * np.arange(200)
LAKHS = {"v": [f"{number // 1e5:.0f},{number % 1e5:09,.2f}" for number in RUPEES]}
NOT_READ = r"not understood, .* in row 1 of P: convert it(, with years of four digits)?$"
SHORT, CLOCK, ISO, TWO_DIGITS = (
    {"v": DATES.strftime(form).tolist()}
    for form in ("%m/%d/%y", "%m/%d/%Y %I:%M %p", "%Y-%m-%d", "%d/%m/%y")
)
COMPLEX = r"^column 'v' of P has complex numbers: make columns of the real and"
TO_FRAME = r"give \.to_dataframe\(\) of it"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            objects(
                [hour.replace(tzinfo=TOKYO) if at % 2 else hour for at, hour in enumerate(HOURS)]
            ),
            None,
            r"offset from UTC, such as .* and others without one",
        ),
        (
            pd.DataFrame({"v": [f"{hour.isoformat()}+02:00" for hour in HOURS]}),
            pd.DataFrame({"v": pd.to_datetime(HOURS).tz_localize("UTC")}),
            r"offsets from UTC in one table, such as .02:00, and the",
        ),
        ([1.5, 3.0, HOURS[0], *VALUES], None, r"column 'v' holds dates, such as .*, among numbers"),
        (["50%", "51%"], [0.5, 0.51], r"signs.* in one table, such as .*write both in one unit"),
        (["$50", "$51"], [0.5, 0.51], r"signs.* in one table, such as .*write both in one unit"),
        ([*VALUES, True], None, r"column 'v' has numbers but 'true' in row"),
        (CODES * 30, [float(CODES[0])] * 60, r"'v' has whole numbers beyond 2\^53"),
        (
            [decimal.Decimal(f"1.00000000000000000{digit}") for digit in "12"] * 30,
            None,
            "'v' has decimals that double precision does not",
        ),
        (POINTS, FOUR_DIGITS, AMBIGUOUS),
        (POINTS, list(map(str, FOUR_DIGITS)), AMBIGUOUS),
        (HOURS, list(range(60)), r"pandas\.to_datetime\(\.\.\., unit='s'\)"),
        ([datetime.timedelta(1)] * 60, list(range(60)), r"with \.dt\.total_seconds\(\)"),
        ([datetime.timedelta(1)] * 60, HOURS, "convert one to the type of the other"),
        (["(1,234.50)", "2,000.00", "-"], None, r"numbers but '-' in row 3 .*--na-value=- "),
        (["(1,234.50)", "2,000.00", "-"], [1.5, 2], r"numbers but '-' in row 3 .*--na-value=- "),
        (xr.Dataset({"v": ("x", VALUES)}), None, TO_FRAME),
        (xr.DataArray(VALUES), None, TO_FRAME),
        (VALUES.astype(ml_dtypes.bfloat16), None, r"\.astype\('float32'\)"),
        (VALUES.astype("complex128"), VALUES, COMPLEX),
        (pd.DataFrame({"v": VALUES.astype("complex64")}), None, COMPLEX),
        (pd.DataFrame({"v": list(VALUES + 1j)}), None, COMPLEX),
        ("https://example.org/a.csv", None, r"https://example\.org/a\.csv is not a file: download"),
        ("/dev/null", None, "is not a regular file: write a pipe or stream to a file"),
        (SHORT, ISO, NOT_READ),
        (SHORT, DATES, NOT_READ),
        (CLOCK, DATES, NOT_READ),
        (LAKHS, RUPEES, NOT_READ),
        (LAKHS, {"v": list(map(str, RUPEES))}, NOT_READ),
        (SHORT, None, "or take it for words"),
        (LAKHS, None, "or take it for words"),
        (FRAME, FRAME.rename(columns=str.upper), "rename those that differ by capital letters"),
        (FRAME.set_index("a"), FRAME, "reset_index"),
        ({"v": list(range(60))}, None, r"--identifiers \(identifiers=True\), or set the type of"),
        (pd.DataFrame(TWO, columns=["v", "v"]), None, "2 columns named 'v': rename them"),
        (DATES, TWO_DIGITS, r"'01/01/24' in row 1 of Q.*years of four digits"),
    ],
)
def test_tables_are_refused(before, after, message):
    repeated = (
        entries * 20 if isinstance(entries, list) else entries for entries in (before, after)
    )
    with pytest.raises(InputError, match=message):
        read(*repeated)


@pytest.mark.skipif(np.dtype("longdouble").name != "float128", reason="no float128 here")
@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_numbers_of_more_than_double_precision_are_refused(make):
    with pytest.raises(InputError, match=r"'v' of P has float128 numbers: .* \.astype\('float64'"):
        read(make({"v": VALUES.astype("longdouble")}), {"v": VALUES})
    close = 1.0 + np.longdouble("1e-18") * np.arange(60)
    for rows in (close, np.column_stack([VALUES, close])):
        for read_rows in (lambda X: compare(X, X, **QUIET), Monitor):
            with pytest.raises(InputError, match="equal in double precision: subtract a common"):
                read_rows(rows)


@pytest.mark.parametrize("formats", [["decimal commas"], ["day/month/year"]])
def test_points_stay_ambiguous_where_decimal_commas_are_preferred(formats):
    with pytest.raises(InputError, match=AMBIGUOUS):
        read(POINTS, FOUR_DIGITS, formats=formats)


def test_points_are_read_as_the_format_says():
    for formats, unit in (["decimal points"], 1000), ([THOUSANDS], 1):
        values = read(POINTS, FOUR_DIGITS, formats=formats)[0]["v"].values[: len(POINTS)]
        np.testing.assert_array_equal(values, np.array(FOUR_DIGITS) / unit)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_numbers_of_time_units_since_1970_are_refused_with_their_unit(unit):
    numbers = SECONDS * 1000 ** ["s", "ms", "us", "ns"].index(unit)
    for before, after, types in (
        (numbers, DATES, None),
        (numbers, None, {"v": "datetime"}),
        (list(map(str, numbers)), DATES, {"v": "datetime"}),
    ):
        with pytest.raises(InputError, match=rf"pandas\.to_datetime\(\.\.\., unit='{unit}'\)"):
            read(before, after, types)


def test_conversions_of_numbers_to_dates_that_give_the_same_dates():
    days = pd.Series(pd.date_range("2024-01-01", periods=300))
    for numbers, advice in (
        ((days - pd.Timestamp("1899-12-30")).dt.days, "unit='D', origin='1899-12-30'"),
        (days.dt.strftime("%Y%m%d").astype(int), "format='%Y%m%d'"),
    ):
        with pytest.raises(InputError, match=re.escape(f"pandas.to_datetime(..., {advice})")):
            read(pd.DataFrame({"v": days}), pd.DataFrame({"v": numbers}))
        converted = pd.to_datetime(numbers, **eval(f"dict({advice})"))
        np.testing.assert_array_equal(converted, days)


RNG = np.random.default_rng(0)
REPEATED = pd.DataFrame(
    {"user": np.repeat(range(40), 10), "v": np.repeat(RNG.normal(size=40), 10)}
).astype({"user": str})
PATIENTS = [
    pd.DataFrame({"patient": [f"P{at % 40 + k}" for at in range(400)], "v": RNG.normal(size=400)})
    for k in (100, 140)
]
INDEXED = pd.DataFrame({"a": VALUES}, index=pd.date_range("2024-01-01", periods=60))
BIRTHS = pd.Series(pd.date_range("1935-01-01", periods=60, freq="200D"))
EARLY = BIRTHS.where(BIRTHS.index >= 10, pd.Timestamp("1900-01-01"))
EARLIER = EARLY.where(~BIRTHS.index.isin(range(10, 20)), pd.Timestamp("1890-01-01"))
EURO, DOLLAR = (
    {
        "v": [f"{number:.2f} {sign}" for number in RNG.normal(100.0, 20.0, size=300)],
        "c": [*"abc"] * 100,
    }
    for sign in ("EUR", "USD")
)
TOTALS = [
    {"g": [*"abc"] * 10 + [word], "n": [*range(1, 31), total]}
    for word, total in (("Total", 465), ("SUMME:", 465), ("Grand total", 465), ("Total", 9))
]
DAYS = pd.DatetimeIndex(pd.date_range("2024-01-01", periods=60).astype("datetime64[us]"))
END = DAYS[:50].append(pd.DatetimeIndex(["9999-12-31"] * 10).astype("datetime64[us]"))
FAR_DATE_NOTE = "'v' is 9999-12-31 in 8.3% of the rows, far from all others"


@pytest.mark.parametrize(
    ("before", "after", "options", "note"),
    [
        (INDEXED, None, {}, "the index of pandas is left out"),
        (REPEATED[:200], REPEATED[200:], {}, "keep them together with --clusters user"),
        (*PATIENTS, {}, "keep them together with --clusters patient"),
        (pd.concat([FRAME] * 3), FRAME, {}, "Every row of P occurs 3 times"),
        (["1.5", "n/a", "2.5"] * 20, None, {"na_values": ["k.A."]}, "No cell is k.A."),
        (DAYS, END, {}, FAR_DATE_NOTE),
        (DAYS, END, {}, "--na-value=9999-12-31 "),
        (pd.DataFrame({"v": DAYS}), pd.DataFrame({"v": END}), {}, FAR_DATE_NOTE),
        (objects(DAYS.date), objects(END.date), {}, FAR_DATE_NOTE),
        (
            pd.DataFrame({"d": EARLY}),
            None,
            {},
            "'d' is 1900-01-01 in 16.7% of the rows, far from all others: if it stands for a "
            "missing value, say so with --na-value=1900-01-01 (na_values=) or --sentinels missing.",
        ),
        (
            ["1,5", "2,25"] * 30,
            None,
            {"formats": ["day/month/year"]},
            "No column has day/month/year, as --format says.",
        ),
        (
            {"c": ["de\u200b", "fr"] * 30, "v": VALUES},
            None,
            {},
            r"'c' has invisible characters, such as in 'de\u200b'.",
        ),
        (
            ["1.1", "1.2"] * 30,
            ["1.10", "1.2"] * 30,
            {},
            "'v' has texts that are one number, such as '1.1' and '1.10'",
        ),
        (["1.1", "1.2"] * 30, ["1.10", "1.2"] * 30, {}, "--column-type v=category"),
        (CODES * 30, CODES[:1] * 60, {}, "for numbers subtract a common number"),
        (["(1)", "(2)"] * 30, [1, 2] * 30, {}, "'v' has numbers such as '(1)', read as negative."),
        (["1-", "2"] * 30, [1, 2] * 30, {}, "'v' has numbers such as '1-', read as negative."),
        (["2.387,00 €", "23,87 €"] * 30, None, {}, "signs of a currency"),
        (
            objects(
                [pd.Timestamp(hour).tz_localize(ZONES[at % 2]) for at, hour in enumerate(HOURS)]
            ),
            pd.DataFrame({"v": pd.to_datetime(HOURS).tz_localize(ZONES[0])}),
            {},
            "by the local clock of Europe/Berlin; it has offsets from UTC in P. ",
        ),
        (
            EURO,
            DOLLAR,
            {"types": {"v": "category"}},
            f"'v' is a category of 600 cells with {len({*EURO['v'], *DOLLAR['v']})} different "
            "values: ",
        ),
        (EURO, DOLLAR, {"types": {"v": "category"}}, "almost no power"),
        *(
            (
                *tables,
                {},
                f"Row 31 of {name} has {total['g'][-1]!r} in 'g', and in 'n' the sum of the other "
                "rows: leave it out",
            )
            for total in TOTALS[:3]
            for tables, name in (((total, TOTALS[3]), "P"), ((TOTALS[3], total), "Q"))
        ),
        (
            GROUPED,
            GROUPED.assign(g=["u", "w", "w"] * 20),
            {"roles": {"strata": "g"}},
            "Rows whose value of 'g' only one table has: 70.",
        ),
        (
            pd.DataFrame({"g": ["u", None] * 30, "v": VALUES}),
            pd.DataFrame({"g": "u", "v": VALUES + 3.0}),
            {"roles": {"strata": "g"}},
            "only one table has: 30.",
        ),
    ],
)
def test_tables_are_noted(before, after, options, note):
    assert note in read(before, after, **options)[1] + " "


@pytest.mark.parametrize(
    ("before", "after", "options", "note"),
    [
        (INDEXED.reset_index(drop=True).iloc[::-1], None, {}, "index"),
        (PATIENTS[0], PATIENTS[0], {}, "--clusters"),
        (["1.5", "n/a", "2.5"] * 20, None, {"na_values": ["n/a"]}, "No cell"),
        (pd.DataFrame({"d": EARLIER}), None, {}, "far from all others"),
        (["1,5", "2,25"] * 30, None, {"formats": ["decimal commas"]}, "No column has"),
        (["1.5", "2.25"] * 30, ["1.50", "2.25"] * 30, {}, "one number"),
        (["1.0", "2"] * 30, ["1", "2.0"] * 30, {}, "one number"),
        ([f"{at} words on day {at**2} were written" for at in range(60)], None, {}, "digits"),
        (
            [f"{number % 40} EUR" for number in range(300)],
            None,
            {"types": {"v": "category"}},
            "almost no power",
        ),
        (TOTALS[3], None, {}, "the sum of the other rows"),
        *(
            (
                pd.DataFrame({"s": pd.Series(["u", value] * 30, dtype=object), "v": VALUES}),
                pd.DataFrame({"s": pd.Series(["u", value] * 30, dtype=object), "v": VALUES + 3.0}),
                {"roles": {"strata": "s"}},
                "only one table has",
            )
            for value in (None, "m")
        ),
    ],
)
def test_tables_need_no_note(before, after, options, note):
    assert note not in read(before, after, **options)[1]


@pytest.mark.parametrize(
    ("before", "options", "values"),
    [
        (["2.387,00 €", "23,87 €"], {}, [2387.0, 23.87]),
        (["€ 2.387,50", "€ 3,00"], {}, [2387.5, 3.0]),
        (["23,87€", "24,00€"], {}, [23.87, 24.0]),
        (["1,234.50 $", "$3.00"], {}, [1234.5, 3.0]),
        (["(1)", "2"], {}, [-1.0, 2.0]),
        (["1-", "2"], {}, [-1.0, 2.0]),
        (pa.table({"v": pa.RunEndEncodedArray.from_arrays([1, 2], [1.5, 2.5])}), {}, [1.5, 2.5]),
        (objects([*"ab", pd.NA, pd.NaT, None, np.nan]), {}, [0.0, 1.0, *[np.nan] * 4]),
        (
            ["-9,999", "300"],
            {"na_values": [-9999], "formats": ["commas between thousands"]},
            [np.nan, 300.0],
        ),
    ],
)
def test_values_of_entries(before, options, values):
    columns, note = read(before, **options)
    np.testing.assert_array_equal(columns["v"].values[: len(values)], values)
    assert "No cell" not in note


@pytest.mark.parametrize("make", [dict, lambda entries: pd.DataFrame(entries, dtype=object)])
def test_a_date_before_times_cuts_no_hours_off(make):
    columns, _ = read(make({"t": [datetime.date(2024, 1, 1), *HOURS[1:]]}))
    hours = (columns["t"].values / 3600.0) % 24.0
    np.testing.assert_array_equal(hours[:60], [0.0] + [13.0] * 59)


@pytest.mark.parametrize(
    ("before", "after", "kind", "levels"),
    [
        (["False", ""], [False, None], "boolean", ("false",)),
        ([False, None], None, "boolean", ("false",)),
        (["yes", ""], None, "category", ("yes",)),
        (["yes", "true"], None, "category", ("true", "yes")),
        *(
            (["Yes", "No"], after, "boolean", ("false", "true"))
            for after in (["TRUE", "FALSE"], ["y", "n"], [True, False])
        ),
        (["Yes", "No"], ["no", "YES"], "boolean", ("no", "yes")),
        (["1d5", "2d3"], None, "category", ("1d5", "2d3")),
        (["1.1", "1.2"], ["1.10", "1.2"], "number", ()),
        (CODES, CODES[:1], "category", tuple(map(str, CODES))),
        (list(map(str, CODES)), None, "category", tuple(map(str, CODES))),
        (np.array(CODES * 30, dtype=np.uint64), CODES, "category", tuple(map(str, CODES))),
    ],
)
def test_types_of_entries(before, after, kind, levels):
    repeated = (
        entries * 30 if isinstance(entries, list) else entries for entries in (before, after)
    )
    column = read(*repeated)[0]["v"]
    assert (column.kind, column.levels) == (kind, levels)


def test_versions_of_a_declared_category_are_not_merged():
    before, after = (pd.Categorical([text, "1.2"] * 30) for text in ("1.1", "1.10"))
    columns, note = read(pd.DataFrame({"v": before}), pd.DataFrame({"v": after}))
    assert columns["v"].levels == ("1.1", "1.10", "1.2")
    assert "'v' has texts that are one number, such as '1.1' and '1.10'" in note


@pytest.mark.parametrize("types", [None, {"x": "category"}])
def test_integers_of_more_than_63_bits_are_words(types):
    size = np.uint64(2**64 - 1)
    before = {"x": size - np.arange(60, dtype=np.uint64) % 4, "v": VALUES}
    after = {"x": -1 - np.arange(60) % 4, "v": VALUES}
    columns, notes = read(pd.DataFrame(before), pd.DataFrame(after), types)
    assert columns["x"].kind == "category"
    assert len(columns["x"].levels) == 8
    assert "subtract" not in notes
    assert ("since double precision does not distinguish them" in notes) == (types is None)


@pytest.mark.parametrize("make", [list, lambda days: pd.Series(days), lambda days: days.date])
def test_dates_that_are_codes_of_missing_values(make):
    tables = [pd.DataFrame({"d": make(part)}) for part in (DAYS, END)]
    for options in ({"sentinels": "missing"}, {"na_values": ["9999-12-31"]}):
        columns, note = read(*tables, **options)
        assert np.isnan(columns["d"].values).sum() == 10
    assert "far from all others" not in note
    hours = pd.DataFrame({"d": pd.Series(HOURS).astype("datetime64[us]")})
    columns, _ = read(hours, na_values=["2024-01-02"])  # stands for all its hours
    assert np.isnan(columns["d"].values).sum() == 2 * sum(hour.day == 2 for hour in HOURS)


@pytest.mark.parametrize("missing", [0, "0", -0.0])
def test_zeros_of_both_signs_are_missing(tmp_path, missing):
    frame = pd.DataFrame({"x": np.where(np.arange(60) % 5 == 0, -0.0, VALUES)})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for table in (frame, tmp_path / "a.parquet", tmp_path / "a.csv"):
        assert np.isnan(read(table, na_values=[missing])[0]["x"].values).sum() == 24
    assert np.isnan(batch(frame, Monitor(frame, na_values=[missing]))[0]).sum() == 12


@pytest.mark.parametrize(
    "entries",
    [
        ["-9999.0%", "12.5%", "3.1%"],
        ["-$9,999.00", "$12.50", "$1,300.00"],
        ["(9999.00)", "12.50", "3.10"],
        ["9999.00-", "12.50", "3.10"],
        ["\u22129999", "12.5", "3.1"],
        ["-9'999", "1'250", "300"],
        ["-9.999,0", "1.250,5", "300"],
        ["-9999", "12.5%", "3.1%"],
    ],
)
@pytest.mark.parametrize("missing", [-9999, "-9999"])
def test_missing_numbers_match_in_all_formats(entries, missing):
    frame = pd.DataFrame({"v": entries * 20, "w": VALUES})
    columns, notes = read(frame, na_values=[missing])
    assert np.isnan(columns["v"].values).sum() == 40
    assert "No cell is" not in notes
    monitor = Monitor(frame, na_values=[missing])
    values, notes = batch({"v": entries[:1], "w": [0.0]}, monitor)
    assert np.isnan(values[0, 0])
    assert not notes


@pytest.mark.parametrize(
    ("entries", "pair"),
    [
        (["0E1", "0E2", "3E1", "0E5"], "'0E1' and '0E2'"),
        (["1E2", "10E1", "2E2"], "'1E2' and '10E1'"),
        (["1E2", "100", "205"], "'1E2' and '100'"),
        (["12e4", "120e3", "5e1"], "'12E4' and '120E3'"),
        (["1.5e-05", "1.50E-5", "3e+02", "300", "1.5E4"], ""),
        (["1E2", "1E3", "7E1"], ""),
        (["1e2", "1E2", "5e1"], ""),
    ],
)
def test_codes_like_exponents_are_noted(entries, pair):
    columns, notes = read(entries * 12)
    assert columns["v"].kind in ("number", "integer")
    assert ("texts that are one number" in notes) == bool(pair)
    assert pair in notes


IDS = np.random.default_rng(0).choice(90_000, 20, replace=False) + 10_000


@pytest.mark.parametrize(
    ("numbers", "is_noted"),
    [
        (np.repeat(IDS, 3), True),
        (np.repeat(10 * IDS, 3), True),
        (np.append(np.repeat(IDS, 3)[:-1], IDS[0]), False),
        (np.repeat(np.arange(1990, 2010), 3), False),
        (np.repeat(np.arange(20) * 1000 + 10_000, 3), False),
        (np.repeat(2 ** np.arange(20), 3), False),
        (np.repeat([*range(1900, 2000, 10), *range(2001, 2011)], 3), False),
        (np.random.default_rng(1).choice(IDS, 60), False),
    ],
)
def test_integers_that_are_repeated_equally_often_are_noted(numbers, is_noted):
    columns, notes = read(pd.DataFrame({"customer": numbers, "v": VALUES}))
    assert ("Rows repeat 'customer', 6 times on average" in notes) == is_noted
    assert "customer" in columns


# Columns with a role.


@pytest.mark.parametrize("role", ["strata", "clusters"])
def test_spellings_of_a_value_in_roles(role):
    before = pd.DataFrame({"g": ["true", "false"] * 30, "v": VALUES})
    after = pd.DataFrame({"g": ["True", "FALSE"] * 30, "v": VALUES})
    assert read(before, after, roles={role: "g"})[0]["g"].levels == ("false", "true")
    both = pd.concat([before, after])
    assert "of 1 comparison" in str(compare_groups(both, by="g", n_resamples=39, progress=False))
    before["g"] = ["3.1", "3.10"] * 30
    assert read(before, roles={role: "g"})[0]["g"].levels == ("3.1", "3.10")
    before["g"], after["g"] = ["01", "02"] * 30, [1, 2] * 30
    with pytest.raises(InputError, match=r"'g' holds text in P and numbers in Q: write them alike"):
        read(before, after, roles={role: "g"})


@pytest.mark.parametrize(
    ("first", "second"), [("31/12/2024", "2024-12-31"), ("a", "A"), (None, "a"), ("a", None)]
)
def test_strata_in_other_spellings_are_named(first, second):
    tables = [objects([value] * 60).assign(w=VALUES) for value in (first, second)]
    first, second = ("missing" if value is None else repr(value) for value in (first, second))
    message = f"such as {first} in the first and {second} in the second: write equal strata in one"
    with pytest.raises(InputError, match=message):
        compare_tables(*tables, strata="v")


UUIDS = [str(uuid.UUID(int=10**30 * row + 11)) for row in range(1, 21)]
DAYS_OF_JANUARY = pd.Series(pd.date_range("2024-01-05", periods=20))


def pooled_clusters(first, second, role="clusters"):
    tables = (pd.DataFrame({"c": list(part) * 3, "v": VALUES}) for part in (first, second))
    return read(*tables, roles={role: "c"})


@pytest.mark.parametrize("role", ["clusters", "strata"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([f"{row:03d}" for row in range(1, 21)], [str(row) for row in range(1, 21)]),
        (DAYS_OF_JANUARY.dt.strftime("%Y-%m-%d"), DAYS_OF_JANUARY.dt.strftime("%d.%m.%Y")),
        (DAYS_OF_JANUARY.dt.strftime("%Y-%m-%d"), DAYS_OF_JANUARY.dt.strftime("%Y%m%d")),
        ([f"{row:,}" for row in range(1001, 1021)], [str(row) for row in range(1001, 1021)]),
        (list(map(uuid.UUID, UUIDS)), [text.upper() for text in UUIDS]),
        ([f"site-{row:02d}" for row in range(20)], [f"Site {row}" for row in range(20)]),
    ],
)
def test_values_of_roles_in_two_spellings_are_refused(role, first, second):
    with pytest.raises(InputError, match=rf"first and .* in the second: write equal {role} in one"):
        pooled_clusters(first, second, role)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (range(20), range(20, 40)),
        ([f"1-{row}1" for row in range(20)], [f"11-{row}" for row in range(20)]),
        ([f"{row}+" for row in range(20)], [f"{row}-" for row in range(20)]),
        ([f"1.0{row}" for row in range(1, 21)], [f"1.{row}5" for row in range(20)]),
        (UUIDS, [text.replace("a", "b") for text in UUIDS]),
    ],
)
def test_clusters_of_a_single_table_are_compared(first, second):
    assert "spelling" not in pooled_clusters(first, second)[1]


def test_clusters_in_two_spellings_are_noted():
    codes = [f"{letter}{digit}" for digit in range(3) for letter in "abcdefghij"]
    before = pd.DataFrame({"c": ["Xq", *codes[:29]] * 2, "v": VALUES})
    after = pd.DataFrame({"c": ["xQ", *(f"{code}k" for code in codes[:29])] * 2, "v": VALUES})
    notes = read(before, after, roles={"clusters": "c"})[1]
    assert (
        "1 value of 'c' may differ in spelling alone, such as 'Xq' in the first and 'xQ'" in notes
    )


# Files.


def test_parquet_files_with_dates_of_two_types_are_refused(tmp_path):
    moments = pa.array(HOURS, pa.timestamp("us"))
    pa.parquet.write_table(pa.table({"t": moments}), tmp_path / "a.parquet")
    for other in (
        moments.cast(pa.date32(), safe=False),
        moments.cast(pa.timestamp("us", "Asia/Tokyo")),
    ):
        pa.parquet.write_table(pa.table({"t": other}), tmp_path / "b.parquet")
        with pytest.raises(InputError, match=r"b\.parquet has 't' of type .*: write one type"):
            read(tmp_path)
    pa.parquet.write_table(pa.table({"t": [1, 2]}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"t": [1.5, 300.0]}), tmp_path / "b.parquet")
    assert as_table(tmp_path, "P").data["t"].to_pylist() == [1.0, 2.0, 1.5, 300.0]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        (
            "a.csv",
            [
                "t",
                *[f"2024-01-{1 + at % 28:02d}T10:00:00" for at in range(60)],
                "2024-01-08T23:59:60",
            ],
            "has dates but '2024-01-08T23:59:60' in line 62 of",
        ),
        (
            "a.jsonl",
            ['{"v": 1.5}'] * 40 + ['{"v": true}'],
            "column 'v' has numbers but 'true' in row",
        ),
    ],
)
def test_an_invalid_entry_of_a_file_is_named(tmp_path, name, lines, message):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_points_that_are_thousands_in_a_single_table_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("k\n" + "1.910\n850\n2.345\n" * 20)
    (tmp_path / "b.csv").write_text("k\n" + "1910\n850\n2345\n" * 20)
    with pytest.raises(InputError, match=r"'1\.910' that may be written with decimal points or"):
        read(tmp_path / "a.csv", tmp_path / "b.csv")
    columns, _ = read(tmp_path / "a.csv", tmp_path / "b.csv", formats=[THOUSANDS])
    assert set(columns["k"].values) == {1910.0, 850.0, 2345.0}


def test_two_files_of_samples_have_a_common_format(tmp_path):
    first, second = tmp_path / "p.csv", tmp_path / "q.csv"
    first.write_text("v;w\n6.096;1\n1.241;2\n")
    second.write_text("v;w\n3.557,5;1\n4.120;2\n")
    with pytest.warns(UserWarning, match="points between thousands"):
        samples = read_samples([first, second])
    assert [sample.values[:, 0].tolist() for sample in samples] == [[6096, 1241], [3557.5, 4120]]
    second.write_text("v;w\n3557;1\n4120;2\n")
    with pytest.raises(InputError, match=r"'1\.241'|'6\.096'.* that may be written with"):
        read_samples([first, second])
    first.write_text("v;w\n6.09;1\n1.2;2\n")
    second.write_text("v;w\n3,5;1\n4,12;2\n")
    with pytest.raises(InputError, match=r"'v' has decimal points in .* and decimal commas in"):
        read_samples([first, second])


def test_integers_that_may_be_decimals_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("5,01\n5,90\n4,18\n")
    with pytest.raises(InputError, match="two columns of whole numbers, or one with"):
        read_sample(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("5,1\n5,90\n4,18\n")
    assert read_sample(tmp_path / "a.csv").values.shape == (3, 2)


def test_points_that_may_be_thousands_are_noted_in_files_with_semicolons(tmp_path):
    rows = [f"{cell};{row % 9}\n" for row, cell in enumerate(POINTS)]
    path, other = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("v;w\n" + "".join(rows))
    other.write_text("v,w\n" + "".join(rows).replace(";", ","))
    note = "'v' is read with decimal points, such as 1.000; if they are between thousands"
    with pytest.warns(UserWarning, match=note):
        read_sample(path)
    assert note in read(path)[1]
    assert "decimal points" not in read(other)[1]
    columns, notes = read(path, formats=[THOUSANDS])
    assert columns["v"].values[0] == 1000.0
    assert "decimal points" not in notes


@pytest.mark.parametrize("rows", [2, 20_000])
def test_names_that_are_no_utf_8(tmp_path, rows):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,b\n".encode("latin-1") + b"1,2\n" * rows)
    with pytest.raises(InputError, match="is not utf-8 in line 1"):
        read(path)
    with pytest.warns(UserWarning, match="read as Latin-1"):
        assert read_sample(path).columns == ("größe", "b")


@pytest.mark.parametrize("name", ["a.csv", "a[1].csv"])
def test_quotes_and_brackets_that_are_part_of_entries_and_names(tmp_path, name):
    (tmp_path / name).write_text('[mm],b\n5" pipe,z\n6 pipe,"x\ny"\n')
    assert as_table(tmp_path / name, "P").data.to_pylist()[1] == {"[mm]": "6 pipe", "b": "x\ny"}


def test_comments_above_names_and_numbers(tmp_path):
    data = np.column_stack([VALUES, VALUES**2])
    for options in ({}, {"delimiter": ","}):
        sep = options.get("delimiter", " ")
        np.savetxt(tmp_path / "a.txt", data, header=f"made here\na{sep}b", **options)
        columns, note = read(tmp_path / "a.txt")
        np.testing.assert_array_equal(columns["a"].values[:60], VALUES)
        assert list(columns) == ["a", "b"]
        assert "1 line above the header left out, the first is '# made here'" in note
        np.savetxt(tmp_path / "b.txt", data, header="all made here", **options)
        with pytest.warns(UserWarning, match="1 line above the header left out"):
            sample = read_sample(tmp_path / "b.txt")
        np.testing.assert_array_equal(sample.values, data)


def test_backslashes_before_quotes_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("v,c\n" + '1,"say \\"hi\\" now"\n2,no\n3,"C:\\dir\\"\n' * 9)
    assert "9 cells of 'c' have backslashes before quotes" in read(path)[1]


def test_several_files_that_are_not_parquet(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("v\n1\n2\n")
    with pytest.raises(InputError, match=r"matches a\.csv, and only Parquet files"):
        read(tmp_path / "*.csv")


def test_empty_rows(tmp_path):
    path, rows = tmp_path / "a.csv", "1.5;x\n2.5;y\n" * 20
    path.write_text(f"a;b\n{rows};\n{rows}" + ";\n ; \n" * 9)
    table = as_table(path, "P")
    assert table.data.num_rows == 81
    assert table.notes == (
        f"{path}: 18 rows of empty cells at the end left out.",
        f"{path}: 1 row of empty cells kept.",
    )
    path.write_text(f'a;b\n{rows}"";""\n')
    assert as_table(path, "P").data.num_rows == 40


def test_an_encoding_is_not_that_of_files_in_utf_8(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    text = "a,b\n" + "Köln,1.5\nBonn,2.5\n" * 30
    for path, encoding in zip(paths, ("cp1252", "utf-8"), strict=True):
        path.write_text(text, encoding=encoding)
    first, second = (as_table(path, "P", "cp1252") for path in paths)
    assert first.data == second.data
    assert first.notes == ()
    assert second.notes == (f"{paths[1]} is UTF-8, and read as such, not as cp1252.",)


@pytest.mark.parametrize("text", ["a,b\n1,x\n" * 30, "a,b\n1,2\n", "x" * 300])
def test_text_in_place_of_a_path(text):
    with pytest.raises(InputError, match=r"is not the path of a file: .*StringIO\(text\)"):
        compare_tables(text, {"a": [1]})


def test_exponents_of_fortran(tmp_path):
    for separator in " ,":
        rows = f"1250.1{separator}1.25D+03\n1300.2{separator}1.5d-01\n" * 20
        (tmp_path / "a.txt").write_text(f"x{separator}y\n{rows}")
        columns, note = read(tmp_path / "a.txt")
        assert set(columns["y"].values) == {1250.0, 0.15}
        assert "'y' is read as numbers with exponents of Fortran" in note


def test_a_last_row_that_is_a_total_is_warned_of(tmp_path):
    rows = np.column_stack([VALUES**2, VALUES**4])
    path = tmp_path / "a.csv"
    np.savetxt(path, [*rows, rows.sum(axis=0)], header="a,b", comments="", delimiter=",")
    with pytest.warns(UserWarning, match="its last row is the sum of the others"):
        read_sample(path)


def test_lines_of_json_that_no_table_has():
    lines = ['{"a": 1, "b": "\\ud800"}', json.dumps({"a": 10**30, "b": "x"}), "{"]
    rows, bad = parse_json_objects([line.encode() for line in lines])
    table = table_of_objects(rows)
    assert table["b"].to_pylist() == ["?", "x"]
    assert table["a"].to_pylist() == ["1", str(10**30)]
    assert bad == {2: "no JSON object"}


@pytest.fixture
def countries(tmp_path):
    """A folder of Parquet files in folders named by a country."""
    for country in ("DE", "US"):
        (tmp_path / f"country={country}").mkdir()
        file = tmp_path / f"country={country}" / "part.parquet"
        pd.DataFrame({"v": VALUES}).to_parquet(file, index=False)
    return tmp_path


@pytest.mark.parametrize("pattern", [".", "*/*.parquet", "**/*.parquet", "country=*/*.parquet"])
def test_partitions_of_parquet_files_are_columns(countries, pattern, monkeypatch):
    monkeypatch.chdir(countries.parent)
    for folder in (countries, Path(countries.name)):
        table = as_table(folder / pattern, "P")
        assert table.data.column_names == ["v", "country"]
        assert pa.compute.unique(table.data["country"]).to_pylist() == ["DE", "US"]
        assert not table.notes
    monkeypatch.chdir(countries)
    assert as_table(pattern, "P").data.column_names == ["v", "country"]


@pytest.mark.parametrize("pattern", ["", "part.parquet", "*.parquet"])
def test_folders_above_are_no_columns_and_noted(countries, pattern):
    table = as_table(countries / "country=DE" / pattern, "P")
    assert table.data.column_names == ["v"]
    assert "the folder 'country=DE' is not read as a column" in table.notes[0]


# Spreadsheets.


def test_spreadsheets_without_a_header_and_with_equal_names(workbook):
    path = workbook([[1.5, 2.0], [3.0, 4.0]])
    assert read_sample(path).values.tolist() == [[1.5, 2.0], [3.0, 4.0]]
    with pytest.raises(InputError, match=r"has the number 1\.5 in row 1"):
        as_table(path, "P")
    with pytest.raises(InputError, match="2 columns named 'x'"):
        read_sample(workbook([["x", "x"], [3.0, 4.0]]))
    path = workbook([["v"], [1.5], [datetime.datetime(2024, 1, 1)], *([at] for at in range(57))])
    with pytest.raises(InputError, match=r"a\.xlsx: column 'v' holds dates"):
        read(path)


def test_large_integers_of_a_spreadsheet(workbook):
    assert as_table(workbook([["v"], [10**30], [2.5]]), "P").data["v"].to_pylist() == [1e30, 2.5]


def test_titles_errors_and_empty_rows_of_spreadsheets(workbook):
    rows = [[float(value), "c" if at % 3 else None] for at, value in enumerate(VALUES)]
    columns, note = read(workbook([["Report"], [], ["v", "k"], *rows, [], []]))
    np.testing.assert_allclose(columns["v"].values[:60], VALUES, rtol=1e-14)
    assert np.isnan(columns["k"].values).sum() == 40
    assert "1 row above the header left out, the first is 'Report'." in note
    for error in ("#DIV/0!", "#N/A"):
        with pytest.raises(InputError, match=f"column 'v' has numbers but '{error}' in line 32 of"):
            read(workbook([["v", "k"], *rows[:30], [error, "c"], *rows[30:]]))
    with pytest.raises(InputError, match=r"sheet 'Sheet', is empty; .* move another to the front"):
        read(workbook([], ["data"]))


def test_errors_name_the_sheet_that_is_read(workbook):
    path = workbook([["a", "b"], [1.5, "x"], [2.5, "y"]], ["data"])
    with pytest.raises(
        InputError, match=r"only 3 distinct perm.*'Sheet', is read, and not 'data': to"
    ):
        compare_tables(path, path, **QUIET)


def test_hidden_rows_and_sheets_are_noted(workbook):
    def hide(book):
        for row in (4, 6):
            book.active.row_dimensions[row].hidden = True
        book.worksheets[0].sheet_state = "hidden"
        book.active = 1

    table = as_table(workbook([["v"], *([value] for value in VALUES)], ["shown"], hide), "P")
    assert len(table.data) == len(VALUES)
    notes = " ".join(table.notes)
    assert "2 hidden rows read like the others" in notes
    assert "its first sheet, 'Sheet', which is hidden, is read, and not 'shown'" in notes


# Streams.


@pytest.mark.parametrize(
    ("raw", "rows", "note"),
    [
        (
            b"v,k\n1,a\n2\0,b\n3,c\n",
            {"v": ["1", "3"], "k": ["a", "c"]},
            "a byte of zero: 1 line, the first of them line 3.",
        ),
        (
            b'{"v": 1, "k": "a"}\n{"v": 2, "v": 3, "k": "b"}\n',
            {"v": [1], "k": ["a"]},
            "a key twice: 1 line, the first of them near line 2.",
        ),
        (
            b"v,k\n1,a\n,\n3,c\n,\n",
            {"v": ["1", "3"], "k": ["a", "c"]},
            "empty cells alone: 2 lines, the first of them near line 3.",
        ),
    ],
)
def test_lines_of_streams_that_are_left_out(raw, rows, note):
    stream = RowStream(io.BytesIO(raw), ("v", "k"), ("v", "k"))
    assert [table.data.to_pydict() for table in stream.batches(9)] == [rows]
    assert stream.notes == [f"Left out for {note}"]


ARRAY = [{"v": value, "k": "u, v"} for value in VALUES]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("v,k\n1,a\n".encode("utf-16"), "the stream is not text in UTF-8"),
        (b'{"v": 1, "k": 2},\n' * 3, r"no line of the stream is a row\. .* 3 lines"),
        (b"v,k\r1,2\r", "end with carriage returns alone"),
        *(
            (text.encode(), "write each object of an array on a separate line")
            for text in (json.dumps(ARRAY), json.dumps(ARRAY, indent=1), "[[1,2],\n[3,4]]")
        ),
    ],
)
def test_streams_that_are_refused(raw, message):
    stream = RowStream(io.BytesIO(raw), ("v", "k"), ("v", "k"), ("v",))
    with pytest.raises(InputError, match=message):
        next(stream.batches(10))


@pytest.mark.parametrize("rows", [["1.234"], ["1.234", "12,5"]])
def test_an_entry_of_a_stream_has_the_same_value_in_all_batches(rows):
    monitor = Monitor({"v": [f"{value:.2f}".replace(".", ",") for value in VALUES]})
    values, notes = batch({"v": rows}, monitor)
    assert np.isnan(values[0, 0])
    assert "'1.234', no number" in notes[0]


def test_long_codes_and_categories_of_numbers_in_streams():
    codes = [1_234_567_890_123_456, 1_234_567_890_123_457]
    monitor = Monitor({"k": pd.Categorical(np.tile(codes, 30))})
    values, _ = batch(pd.DataFrame({"k": np.array([*codes, np.nan])}), monitor)
    np.testing.assert_array_equal(values[:, 0], [0, 1, np.nan])


@pytest.mark.parametrize("reference", [VALUES, VALUES > 0.0, (VALUES > 0.0) * 1])
def test_booleans_in_a_stream_of_numbers_are_missing(reference):
    monitor = Monitor({"v": reference, "w": VALUES})
    values, notes = batch({"v": [True, False], "w": [0.0, 0.0]}, monitor)
    if reference is VALUES:
        assert np.isnan(values[:, 0]).all()
        assert notes == [
            "'v' has 2 cells such as 'true', no number with decimal points as in the reference: "
            "read as missing."
        ]
    else:
        np.testing.assert_array_equal(values[:, 0], [1.0, 0.0])
        assert notes == []


def test_versions_in_a_stream_are_noted():
    versions = {"v": ["1.1", "1.2"] * 30}
    monitor = Monitor(versions)
    assert monitor.update({"v": ["1.10", "1.2"] * 30}).notes[0].startswith("'v' has texts that")
    assert batch(versions, monitor)[1] == []
    assert Monitor(versions, column_types={"v": "category"}).update({"v": ["1.10"] * 60}).alarm


@pytest.mark.parametrize(
    ("reference", "options", "rows", "notes"),
    [
        (FRAME, {"exclude": ["b", "ab"]}, -FRAME, []),
        (
            FRAME[["a"]],
            {},
            -FRAME[["a"]].assign(vv=VALUES),
            ["Rows have columns that are not in the reference, and not watched: 'vv'."],
        ),
        (
            {"v": MISSING},
            {},
            None,
            ["'v' is -999 in some rows of the reference, far from all others"],
        ),
        ({"v": VALUES}, {"na_values": [-99]}, None, ["No cell is -99, as --na-value says."]),
        ({"v": VALUES}, {}, {"v": ["5%", "6%"] * 10}, ["'v' has 20 cells such as '5%', no number"]),
    ],
)
def test_notes_of_monitors(reference, options, rows, notes):
    monitor = Monitor(reference, **options)
    result = monitor.notes if rows is None else monitor.update(rows).notes
    assert len(result) == len(notes)
    assert all(note.startswith(start) for note, start in zip(result, notes, strict=True))


def test_rows_without_a_stream_are_noted():
    monitors = Monitors(GROUPED, "g")
    monitors.update(GROUPED.assign(g=["u", None] * 30))
    assert "Rows without a value of 'g' are dropped." in monitors.notes


@pytest.mark.parametrize(
    "row",
    [
        pd.Series({"b": 5.0, "a": 0.0}),
        xr.DataArray([5.0, 0.0], dims="v", coords={"v": ["b", "a"]}),
    ],
)
def test_entries_of_a_row_are_matched_by_name(row):
    for monitor in (Monitor(matrix("ab")), Monitor(matrix("ab").values, columns=["a", "b"])):
        np.testing.assert_array_equal(monitor._reader.values(row)[0], [[0.0, 5.0]])


# Samples.


def test_columns_of_frames_are_not_renamed_by_accident():
    for columns in (["b", "a"], "ab"):
        with pytest.raises(InputError, match="choose columns of data frames by"):
            compare(FRAME, FRAME, columns=columns, **QUIET)
    with pytest.raises(InputError, match="columns are names for an array"):
        Monitor(FRAME, columns=["a"])


OBJECTS = [{"a": value} for value in VALUES]
FLAGS = [
    (lambda flag, test=test, samples=samples, name=name: test(*samples, **{**QUIET, name: flag}),
     name)
    for test, samples in (
        (compare, (VALUES, VALUES[::-1] ** 2)),
        (two_sample_test, (VALUES, VALUES[::-1] ** 2)),
        (independence_test, (VALUES, VALUES[::-1] ** 2)),
        (compare_tables, (FRAME, FRAME)),
    )
    for name in ("sequential", "progress")
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "flag"),
    [
        *FLAGS,
        (lambda flag: compare(VALUES, VALUES, paired=flag), "paired"),
        (lambda flag: compare_tables(FRAME, FRAME, identifiers=flag, **QUIET), "identifiers"),
        (lambda flag: compare_groups(GROUPED, "g", rest=flag, **QUIET), "rest"),
        (lambda flag: thin(TWO, 10, weighted=flag), "weighted"),
    ],
)
def test_flags_are_true_or_false(call, flag):
    with pytest.raises(InputError, match=f"{flag} must be True or False, got 'no'"):
        call("no")


ADVICE = r"pass pandas\.DataFrame of the rows"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Monitor(FRAME, alpha=0.95), r"for a confidence of 0\.95 pass 0\.05"),
        (lambda: Monitors(GROUPED, "g", alpha=0.95), r"for a confidence of 0\.95 pass 0\.05"),
        (lambda: compare(VALUES * 1e300, VALUES), "divide the column by a power of ten"),
        (
            lambda: compare(*[(VALUES + 1e9).astype(np.float32)] * 2),
            r"in float32, which rounds .* to multiples of 64",
        ),
        (
            lambda: compare(*[VALUES.astype(ml_dtypes.bfloat16)] * 2),
            r"\.astype\('float32'\)",
        ),
        (
            lambda: compare_tables({"g": [1, 2, 3] * 20, "v": VALUES}, by="g"),
            r"'g' has 3 values, .*: for more use compare_groups",
        ),
        (lambda: compare(OBJECTS, OBJECTS), ADVICE),
        (lambda: Monitor(OBJECTS), ADVICE),
        (
            lambda: compare(*[VALUES + 1j] * 2),
            "make columns of the real and of the imaginary part",
        ),
        (
            lambda: compare(*[np.zeros(30, [("t", float), ("h", float)])] * 2),
            r"P is a structured array: pass pandas\.DataFrame of it",
        ),
        (lambda: compare(*[VALUES.astype("S")] * 2), "decode the cells, or convert numbers"),
        (lambda: compare(*[VALUES.tobytes()] * 2), r"pass numpy\.frombuffer of it"),
        (
            lambda: compare(SimpleNamespace(values=VALUES), VALUES),
            r"got SimpleNamespace: pass \.values of it",
        ),
        (
            lambda: compare_tables(({"v": value} for value in VALUES), {"v": VALUES}),
            r"got generator: give pandas\.DataFrame\(list\(\.\.\.\)\)",
        ),
    ],
)
def test_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_sample_of_a_file_and_an_expression_are_no_arrays(tmp_path):
    (tmp_path / "a.csv").write_text("v\n" + "\n".join(map(str, VALUES)))
    with pytest.raises(InputError, match=r"got Sample: pass \.values of it"):
        compare(read_sample(tmp_path / "a.csv"), VALUES, **QUIET)
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"got Expr: pass the result of \.select\(\) of it"):
        compare(polars.col("v"), VALUES, **QUIET)


@pytest.mark.parametrize("types", ["a=number", ["ab"], [("a", "number")]])
@pytest.mark.parametrize(
    "call",
    [
        lambda types: compare_tables(FRAME, FRAME, column_types=types, **QUIET),
        lambda types: Monitor(FRAME, column_types=types),
        lambda types: compare_groups(GROUPED, "g", column_types=types, **QUIET),
    ],
)
def test_types_of_columns_are_a_dictionary(call, types):
    with pytest.raises(InputError, match="column_types must be a dictionary"):
        call(types)


NAME_COLUMNS = [
    lambda names: compare(TWO, TWO, columns=names, **QUIET),
    lambda names: Monitor(TWO, columns=names),
    lambda names: fit(TWO, columns=names),
]


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize(
    "call",
    [
        *NAME_COLUMNS,
        lambda names: compare(VALUES, VALUES, names=names, **QUIET),
        lambda names: compare_tables(FRAME, FRAME, names=names, **QUIET),
        lambda names: open_blocks([TWO], columns=names),
        lambda names: choose_columns(Path("a.csv"), ["a", "b"], names),
        lambda names: compare_chains(TWO.reshape(2, 30, 2), columns=names),
    ],
)
def test_sets_are_refused_if_the_order_matters(call, kind):
    with pytest.raises(InputError, match="must be in an order, and a set has none"):
        call(kind(["a", "b"]))


@pytest.mark.parametrize("call", NAME_COLUMNS)
def test_a_string_is_the_name_of_a_single_column(call):
    with pytest.raises(InputError, match="columns has 1 name, but the data have 2 columns"):
        call("ab")
    assert compare(VALUES, VALUES + 1.0, columns="speed", **QUIET).columns == ("speed",)
    assert Monitor(VALUES, columns="speed").columns == ("speed",)


def compared(before, after=None, **options):
    return compare_tables(before, before if after is None else after, **QUIET, **options)


def test_single_values_are_accepted_as_lists():
    table = {"v": [*VALUES[:55], *[-99.0] * 5]}
    assert compared(table, na_values=-99)["v"].effect.missing == (5 / 60, 5 / 60)
    assert [column.name for column in compared(FRAME, exclude="ab").columns] == ["a", "b"]
    assert Monitor(FRAME, exclude="ab").columns == ("a", "b")
    assert Monitors(GROUPED, "g", exclude="ab").monitors["u"].columns == ("a", "b")


def test_names_of_columns_that_are_numbers():
    table = pd.DataFrame({2020: VALUES, 2021: VALUES, 2022: [1, 2] * 30})
    for exclude in ([2020], 2020):
        result = compare_tables(
            table, by=2022, exclude=exclude, column_types={2021: "number"}, **QUIET
        )
        assert [column.name for column in result.columns] == ["2021"]
    assert [pair.columns for pair in compare_groups(table, 2022, **QUIET).comparisons[0].pairs]
    assert Monitor(table, exclude=[2020]).columns == ("2021", "2022")


def test_groups_of_equal_numbers_are_merged_and_versions_are_not():
    table = pd.DataFrame({"g": ["1", "1.0", "2"] * 40, "a": np.tile(VALUES, 2)})
    assert len(compare_groups(table, "g", **QUIET).comparisons) == 1
    table["g"] = ["3.1", "3.10", "3.2"] * 40
    result = compare_groups(table, "g", column_types={"g": "category"}, **QUIET)
    assert len(result.comparisons) == 2
    assert any(
        "such as '3.1' and '3.10', which are compared as different" in note for note in result.notes
    )


LEARNED = "'x' is -999 in 10 rows, far from all others"


@pytest.mark.filterwarnings("error")  # before anything is learned
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(MISSING), f"X: {LEARNED}"),
        (lambda: learn_conditional(VALUES, MISSING), f"Y: {LEARNED}"),
    ],
)
def test_sentinels_are_warned_of_where_models_are_learned(call, message):
    with pytest.raises(UserWarning, match=message):
        call()


def test_sentinels_of_samples_are_noted():
    sentinel = "is -999 in some rows, far from all"
    assert sentinel in " ".join(compare(MISSING, VALUES, **QUIET).notes)
    assert f"X: 'x' {sentinel}" in " ".join(independence_test(MISSING, VALUES, **QUIET).notes)


def test_equal_rows_are_noted():
    table = pd.DataFrame({"a": VALUES, "c": ["x", None] * 30})
    assert compared(table, table.iloc[::-1]).notes[-1] == "before and after have the same rows."
    assert not any("same rows" in note for note in compared(table, table * 2).notes)
    assert "u and v are the same rows" in compare(VALUES, VALUES, names=("u", "v"), **QUIET).notes
    assert "P and Q are the same rows" in compare(VALUES, VALUES[::-1], **QUIET).notes
    assert not any("same rows" in note for note in compare(VALUES, VALUES + 1.0, **QUIET).notes)


def test_tables_of_a_single_row_are_noted():
    for tables in (({"v": [1.0]}, {"v": VALUES}), ({"v": VALUES}, {"v": [1.0]})):
        (note,) = (note for note in compared(*tables).notes if "one row" in note)
        assert note.startswith("before" if len(tables[0]["v"]) == 1 else "after")


def test_fewer_decimals_in_one_sample_are_noted():
    options = {"n_resamples": 199, "progress": False}
    full = pd.DataFrame({"score": np.random.default_rng(0).integers(3, 16, 600) / 3})
    note = (
        "'score' has at most 4 decimals in P and more in Q: round both alike, for the rounding "
        "alone may explain a difference"
    )
    result = compare_tables(full.round(4), full, names=("P", "Q"), **options)
    assert result.reject
    assert result.notes == (f"{note}.",)
    assert compare(full.round(4), full, **options).notes == (note,)
    tested = two_sample_test(full.round(4), full, **options)
    assert tested.notes == (note.replace("'score'", "column 1"),)
    single = (full.round(2).astype("float32"), full.astype("float32"))
    (note,) = compare_tables(*single, **options).notes
    assert note.startswith("'score' has at most 2 decimals in before and more in after")


def test_decimals_that_explain_no_difference_need_no_note():
    rng = np.random.default_rng(0)
    numbers, thirds = rng.normal(size=300), rng.integers(3, 16, 300) / 3
    pairs = [
        (numbers.round(4), numbers + 1.0),  # rounding merges few values
        (thirds.round(4), thirds.round(4) + 1.0),
        (thirds.round(4), thirds + 100.0),
        (rng.integers(0, 9, 300), rng.integers(4, 9, 300) / 2 + 10.0),
    ]
    for before, after in pairs:
        result = compared({"v": before}, {"v": after})
        assert result.reject
        assert not any("decimals" in note for note in result.notes)
    (note,) = compared({"v": rng.integers(0, 9, 300)}, {"v": rng.normal(9, 2, 300)}).notes
    assert note.startswith("'v' has no decimals in before and some in after: round both alike")


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_ends_of_regions_are_distinguished(scale):
    rng = np.random.default_rng(0)
    before, after = 1.4e9 + scale * rng.uniform(size=(2, 400)) * [[1.0], [0.3]]
    text = str(compared({"n": before}, {"n": after}))
    ends = re.findall(r"higher density from (\S+) to ([\d.]+\d)", text)
    assert ends
    for low, high in ends:
        assert float(low) < float(high)
        assert low.startswith("1400000000")


def test_interval_of_means_counts_frequencies_as_rows():
    values = np.random.default_rng(0).normal(0.0, 5.0, 300)
    frame = pd.DataFrame({"v": values, "w": 4})
    expanded = pd.DataFrame({"v": np.repeat(values, 4)})
    results = (
        compared(frame, frame.assign(v=values + 1.0), freq_weights="w"),
        compared(expanded, expanded + 1.0),
    )
    first, second = (result.columns[0].effect.mean_difference_interval for result in results)
    np.testing.assert_allclose(first, second, rtol=1e-3)


# Names of rows and columns.


PAIRS = pd.MultiIndex.from_product([range(6), range(10)], names=["s", "t"])


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (pd.Index([f"a{at}" for at in range(60)]), ""),
        (pd.Index(range(60), name="id"), " 'id'"),
        (PAIRS, " 's', 't'"),
    ],
)
def test_the_index_of_a_table_is_noted_once(index, name):
    frame = pd.DataFrame({"v": VALUES}, index=index)
    about = f"the index{name} of pandas is left out: .reset_index() compares it."
    for after, tables in ((frame * 2, "before and after"), ({"v": VALUES}, "before")):
        notes = compared(frame, after).notes
        assert [note for note in notes if "index" in note] == [f"{tables}: {about}"]


@pytest.mark.parametrize(
    ("index", "description"),
    [
        (pd.Index(VALUES, name="temperature"), "the index 'temperature'"),
        (pd.Index(np.arange(60) // 3, name="age"), "the index 'age'"),
        (PAIRS, "the index 's', 't'"),
        (pd.RangeIndex(60, name="row"), None),
        (pd.Index(range(0, 120, 2)), None),
        (pd.Index(list("abc") * 20, name="g"), None),
    ],
)
@pytest.mark.parametrize("test", [compare, two_sample_test])
def test_an_index_of_a_sample_that_may_be_a_column_is_noted(test, index, description):
    P = pd.DataFrame({"a": VALUES}, index=index)
    for after, samples in ((P + 1.0, "P and Q"), (P.to_numpy() + 1.0, "P")):
        notes = test(P, after, **QUIET).notes
        expected = f"{description} of {samples} is not compared: .reset_index() makes it a column"
        assert [note for note in notes if "index" in note] == [expected] * bool(description)


def test_arrays_of_xarray_are_tested_as_they_are_compared():
    samples = VALUES, np.exp(VALUES)
    arrays = tuple(map(xr.DataArray, samples))
    for function in (compare, two_sample_test, independence_test):
        assert function(*arrays, **QUIET).pvalue == function(*samples, **QUIET).pvalue
    pytest.importorskip("dask")
    chunked = xr.DataArray(samples[0], dims="row").chunk({"row": 20})
    assert two_sample_test(chunked, arrays[1], **QUIET).pvalue <= 0.05


@pytest.mark.parametrize("test", [compare, two_sample_test])
def test_columns_of_xarray_are_matched_by_name(test):
    P, Q = matrix("ab"), matrix("ba")
    assert test(P, Q, **QUIET).pvalue > 0.05
    assert test(P.to_pandas(), Q, **QUIET).pvalue > 0.05
    with pytest.raises(InputError, match="the columns are a, b in one sample and a, c in another"):
        test(P, matrix("ac"), **QUIET)


def test_columns_of_xarray_have_names():
    P, numbered = matrix("ab"), matrix("ab").assign_coords(v=[1, 2])
    assert compare(P, P + 1.0, **QUIET).columns == ("a", "b")
    assert compare(numbered, numbered + 1.0, **QUIET).columns == ("x0", "x1")
    monitor = Monitor(P)
    assert monitor.columns == ("a", "b")
    values, _ = monitor._reader.values(matrix("ba"))
    np.testing.assert_allclose(values[:, 1].mean(), 5.0, atol=0.5)


@pytest.mark.parametrize(
    "label",
    [
        lambda rows: pd.Series(VALUES, index=rows),
        lambda rows: xr.DataArray(VALUES, dims="o", coords={"o": rows}),
        lambda rows: xr.DataArray(VALUES, dims="o", coords={"id": ("o", rows)}),
        lambda rows: matrix("ab", rows),
    ],
)
@pytest.mark.parametrize(
    "test",
    [
        lambda P, Q: compare(P, Q, paired=True, **QUIET),
        lambda P, Q: two_sample_test(P, Q, paired=True, **QUIET),
        lambda P, Q: independence_test(P, Q, **QUIET),
    ],
)
def test_labels_of_rows_are_those_of_the_other_sample(test, label):
    with pytest.raises(InputError, match="same row labels in another order"):
        test(label(np.arange(60)), label(np.arange(60)[::-1]))
    with pytest.raises(InputError, match="different row labels: 0 and 5 in row 1"):
        test(label(np.arange(60)), label(np.arange(5, 65)))


def test_labels_of_rows_of_two_files_may_differ():
    first = pd.DataFrame({"a": VALUES}, index=range(60))
    other = first.set_index(pd.Index(range(60, 120)))
    compare(first, other + 0.1, paired=True, **QUIET)
    first.index = pd.Index(VALUES, name="temperature")
    notes = compare(first, first + 1.0, paired=True, **QUIET).notes
    assert not any("index" in note for note in notes)


@pytest.mark.parametrize(
    "label", [pd.Series, lambda values, rows: xr.DataArray(values, {"o": rows})]
)
def test_weights_have_the_labels_of_the_rows(label):
    rows = np.arange(60)
    P = label(VALUES, rows)
    compare(P, P + 1.0, weights=(label(rows + 1.0, rows), None), **QUIET)
    with pytest.raises(InputError, match="different row labels: 59 and 0 in row 1"):
        compare(P, P + 1.0, weights=(label(rows + 1.0, rows[::-1]), None), **QUIET)


@pytest.mark.parametrize("kernel", [None, "median", "bkl", "posterior", "multiscale"])
def test_paired_rows_are_checked_with_every_kernel(kernel):
    options = {"kernel": kernel, "paired": True, **QUIET}
    P = pd.DataFrame({"x": VALUES}, index=[f"id{row}" for row in range(60)])
    with pytest.raises(InputError, match="same row labels in another order"):
        two_sample_test(P, P[::-1] + 0.1, **options)
    P = pytest.importorskip("polars").DataFrame({"id": np.arange(60), "x": VALUES})
    with pytest.raises(InputError, match="same values of 'id' in different orders"):
        two_sample_test(P, P[::-1], **options)


def test_keys_of_independence_tests_in_another_order_are_refused():
    keys = np.arange(60) + 7000
    X = pd.DataFrame({"id": keys, "x": VALUES})
    Y = pd.DataFrame({"y": VALUES[::-1], "id": keys[::-1]})
    Z = pd.DataFrame({"z": np.random.default_rng(1).normal(size=60)})
    message = "same values of 'id' in different orders"
    with pytest.raises(InputError, match=message):
        independence_test(X, Y, **QUIET)
    for arguments in ((X, Z, Y), (Z, X, Y)):
        with pytest.raises(InputError, match=message):
            conditional_independence_test(*arguments, **QUIET)
    notes = independence_test(X, Y[::-1].reset_index(drop=True), **QUIET).notes
    for variable in "XY":
        start = f"{variable}: the numbers of 'id' are all different, as those of an identifier"
        assert any(note.startswith(start) for note in notes)
    notes = independence_test(np.arange(60), VALUES, **QUIET).notes
    assert "identifier" not in " ".join(notes)
