"""Types of columns, inferred from their cells in all tables together."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data.checks import INEXACT_INTEGERS, MAX_ABS_VALUE, loses_digits, pluralize
from ..data.equality import merge_rounding
from .formats import (
    BELOW,
    CURRENCIES,
    DECIMAL_COMMAS,
    ISO,
    LIKE_NUMBERS,
    NEGATIVE,
    PLAIN,
    POINTS,
    THOUSANDS,
    TIMES,
    TOKENS,
    AmbiguousError,
    Parsed,
    as_numpy,
    date_conversion,
    determine_points,
    matches,
    normalize_signs,
    normalize_words,
    parse_dates,
    parse_format,
    parse_numbers,
    strip_offsets,
    strip_zeros,
    unparsed_cell,
)
from .tables import Table

ColumnType: TypeAlias = Literal[
    "number", "integer", "boolean", "category", "datetime", "text", "identifier"
]
COLUMN_TYPES: tuple[str, ...] = get_args(ColumnType)
#: Words of true and false, in pairs; as digits where another table has booleans.
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")
#: Distinct texts up to which, or up to this share of the rows, text is a category.
MAX_LEVELS, LEVELS_PER_ROW = 30, 0.05
#: Share of distinct cells of an identifier, words of free text on average, rows that both need.
DISTINCT_PROPORTION, WORDS_OF_TEXT, LEAST_ROWS = 0.9, 3.0, 20
#: The first whole number that floating-point numbers do not distinguish from the next.
FIRST_INEXACT = 2.0**53
#: Cells that are codes, not numbers: of digits, some with a leading zero, or too many.
DIGITS, PADDED = r"^[+-]?\d+$", r"^0\d+$"
#: Zeros at the end of other decimals, which versions such as 1.1 and 1.10 differ by.
TRAILING_ZEROS = r"\.\d*[1-9]0+$"
#: Whole numbers with exponents as codes have them; programs write a sign or a decimal point.
EXPONENTS = r"^\d+[eE]\d+$"
#: Format of columns of durations.
DURATIONS = "durations in seconds"
#: Invisible characters: zero-width characters, soft hyphens, marks of direction and byte order.
INVISIBLE = (
    r"[\x00-\x08\x{00ad}\x{034f}\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}"
    r"\x{2800}\x{3164}\x{fe0f}\x{feff}\x{e0020}-\x{e007f}]"
)
#: A number in text, in any format.
NUMERIC = r"^[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?$"
#: Share of cells, or of distinct cells, up to which text among numbers is a mistake.
MISTAKES, DISTINCT_MISTAKES = 0.05, 0.1
#: Words among numbers that a message lists.
MAX_WORDS = 5
#: Distinct words, and share of them with digits, from which a note says that there are digits.
MIN_WORDS, LESS_THAN_ALL = 2, 0.9
#: Share of distinct cells that look like numbers or dates from which a note says so.
LIKE = 0.9
#: Names of identifiers; whole numbers without repeats that are so dense are identifiers too.
#: A date whose year has two digits.
TWO_DIGIT_YEAR = re.compile(r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2}")
IDENTIFIER = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|no)$|[Nn](r|ummer)$|^index$|Id$|(?<![A-Z])ID$|^Unnamed", re.ASCII
)
RANGE_PER_ROW = 1.05
#: Numbers that often stand for a missing value: -999 and the like; of NetCDF, of climate models,
#: and the limits of single precision, equal to the relative precision of that.
SENTINELS = (
    *(sign * (10.0**k - j) for k in range(2, 8) for j in (1.0, 2.0, 3.0) for sign in (-1, 1)),
    *(9.969209968386869e36, 1e20, 3.4e38, 3.4028234663852886e38, 1e30, 1e36),
    *(-3.4e38, -3.4028234663852886e38, -1e30, -1e34, -999.25, -888.0, 888.0),
    *(-(2.0**31), 2.0**31 - 1.0, -(2.0**15), 2.0**15 - 1.0, 2.0**16 - 1.0),
)
SENTINEL_PRECISION = 1e-6
#: Dates that often stand for a missing value: the ends of calendars, and the zero of clocks.
DATE_SENTINELS = (
    *("0001-01-01", "1753-01-01", "1899-12-30", "1900-01-01", "1970-01-01"),
    *("2099-12-31", "2999-12-31", "9999-12-31"),
)
DAY = 86_400.0
#: Rows and share of rows that a sentinel has at least.
SENTINEL_ROWS, SENTINEL_PROPORTION = 3, 0.002
#: Parsers of text, which return ``None`` for other text.
PARSERS: dict[Callable[[pa.Array], Parsed | None], str] = {
    parse_numbers: PLAIN.name,
    parse_dates: "ISO dates",
}
#: Types of Arrow that are not supported, by the beginning of their names, and what to do.
UNSUPPORTED = {
    "lists": (r"list|large_list|fixed_size_list|list_view", "make a column of each entry"),
    "structures": (r"struct|map|union|dense_union|sparse_union", "make a column of each field"),
    "bytes": (r"binary|large_binary|fixed_size_binary", "decode them"),
    "calendar intervals": (r"month_day_nano_interval|interval", "give days or seconds"),
}


class Column(NamedTuple):
    """A column of all tables, the rows of one after those of the other.

    Attributes:
        name: its name.
        kind: its type.
        values: (N,) float64: numbers, or seconds since 1970, or indices of ``levels``; NaN where a
            cell is missing.
        levels: distinct cells of columns that are not numbers.
    """

    name: str
    kind: ColumnType
    values: np.ndarray
    levels: tuple[str, ...] = ()

    @property
    def lengths(self) -> np.ndarray:
        """Number of characters of every cell of text, (N,); NaN where it is missing."""
        lengths = np.array([*map(len, self.levels), np.nan])
        return lengths[np.where(np.isnan(self.values), -1, self.values).astype(int)]


class ColumnError(Exception):
    """Reason why a column cannot be used; a sentence whose subject is the column's name."""


def ambiguous_format(name: str, error: AmbiguousError) -> ColumnError:
    """Describe cells that fit several formats."""
    cell, *formats = error.args
    return ColumnError(
        f"has cells such as {cell!r} that may be written with {' or with '.join(formats)}: choose "
        f"one of these with --format (formats=), or treat the column as categorical with "
        f"{type_option(name, 'category')}"
    )


def type_option(name: str, kind: ColumnType) -> str:
    """Describe how a user sets the type of a column, in the shell and in Python."""
    option = shlex.quote(f"{name}={kind}")
    return f"--column-type {option} (column_types={{{name!r}: {kind!r}}})"


class TypedColumn(NamedTuple):
    """A column of some type, and how it was read.

    Attributes:
        column: the column.
        notes: notes on how its cells were read.
        sentinels: numbers that may stand for a missing value.
        format: name of the format of numbers in text, "" for decimal points.
        pointed: a cell of text with a decimal point, of numbers with decimal points.
    """

    column: Column
    notes: tuple[str, ...] = ()
    sentinels: tuple[float, ...] = ()
    format: str = ""
    pointed: str = ""


Read = TypeVar("Read", TypedColumn, Parsed)


def read_columns(
    names: Sequence[str], read: Callable[[str, Sequence[str]], Read], formats: Sequence[str] = ()
) -> tuple[dict[str, Read], dict[str, str]]:
    """Read all columns of tables; where one has decimal commas, others are read so if they can be.

    Args:
        names: names of the columns.
        read: reads one, by its name and the preferred formats; raises :class:`ColumnError`.
        formats: names of the preferred formats.

    Returns:
        The columns by name, and the problems of those that cannot be read.
    """
    columns: dict[str, Read] = {}
    problems: dict[str, str] = {}
    for name in names:
        try:
            columns[name] = read(name, formats)
        except ColumnError as error:
            problems[name] = str(error)
    if any(column.format.endswith("decimal commas") for column in columns.values()):
        unclear = [name for name in names if name in problems or columns[name].pointed]
        for name in unclear:
            with contextlib.suppress(ColumnError):
                column = read(name, [*formats, DECIMAL_COMMAS.name, POINTS.name])
                if column.format:
                    columns[name] = column
                    problems.pop(name, None)
    return {name: columns[name] for name in names if name in columns}, problems


def infer_type(
    name: str,
    array: pa.Array,
    tables: Sequence[Table],
    kind: str | None = None,
    formats: Sequence[str] = (),
) -> TypedColumn:
    """Infer the type of a column, and convert its cells.

    Args:
        name: name of the column.
        array: (N,) cells of all tables, of one Arrow type; text without blanks around it.
        tables: one or two tables, for the place of a cell in messages.
        kind: the type that the user asks for.
        formats: names of preferred formats of numbers or dates.

    Raises:
        ColumnError: the cells have no type, or another than ``kind``.
    """
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    if pa.types.is_boolean(array.type):
        return TypedColumn(_with_levels(name, "boolean", pc.cast(array, pa.string())))
    check_supported(array.type)
    if pa.types.is_temporal(array.type) and not pa.types.is_duration(array.type):
        return _from_dates(name, array, kind)
    if pa.types.is_null(array.type):
        return TypedColumn(_with_levels(name, "category", pc.cast(array, pa.string())))
    is_whole = pa.types.is_integer(array.type) or (
        pa.types.is_decimal(array.type) and array.type.scale == 0
    )
    if is_whole and kind in ("category", "boolean", "identifier"):
        # Not as floating-point numbers, which do not distinguish long identifiers.
        return TypedColumn(_with_levels(name, kind, pc.cast(array, pa.string())))  # type: ignore[arg-type]
    if is_whole and kind is None and is_inexact(array):
        return _from_text(name, pc.cast(array, pa.string()), tables, kind, formats)
    if pa.types.is_decimal(array.type):
        known = array.drop_null()
        if len(pc.unique(known)) > 1 == len(np.unique(as_numpy(known))):
            raise ColumnError(
                "has decimals that double precision does not distinguish: subtract a common number"
            )
    if is_numeric(array.type):
        format_ = DURATIONS if pa.types.is_duration(array.type) else ""
        values = as_numpy(array)
        typed = _from_numbers(name, values, tables, kind, format_)
        check_exact(array, values)
        return typed._replace(format=format_)
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise ColumnError(f"holds {array.type}, which is no number, word or date")
    return _from_text(name, array, tables, kind, formats)


def check_supported(dtype: pa.DataType) -> None:
    """Refuse types whose cells are neither numbers, words nor dates, with a remedy."""
    for types, (names, advice) in UNSUPPORTED.items():
        if re.match(rf"({names})\b", str(dtype)):
            raise ColumnError(f"holds {types} (type {dtype}): {advice}, or leave it out")


def is_numeric(dtype: pa.DataType) -> bool:
    """Return whether a type is of numbers or durations."""
    return (
        pa.types.is_integer(dtype)
        or pa.types.is_floating(dtype)
        or pa.types.is_decimal(dtype)
        or pa.types.is_duration(dtype)
    )


def as_identifier(column: Column) -> Column:
    """Return a column of whole numbers or words as identifiers."""
    if column.levels:
        return column._replace(kind="identifier")
    return _with_levels(column.name, "identifier", number_texts(column.values))


def are_integers(values: np.ndarray) -> bool:
    """Return whether all numbers are whole, and distinguished from their neighbors."""
    integral = bool(len(values)) and bool((values == np.round(values)).all())
    return integral and bool(np.abs(values).max() < FIRST_INEXACT)


def are_identifiers(name: str, samples: Sequence[np.ndarray]) -> bool:
    """Return whether whole numbers are identifiers: without repeats, and dense or named so.

    Args:
        name: name of the column.
        samples: its numbers in every sample, NaN where they are missing.
    """
    for sample in samples:
        known = sample[~np.isnan(sample)]
        if len(known) < LEAST_ROWS or len(np.unique(known)) < len(known):
            return False
    if IDENTIFIER.search(name):
        return True
    return all(
        np.nanmax(sample) - np.nanmin(sample) < RANGE_PER_ROW * len(sample) for sample in samples
    )


def identifier_notes(names: Sequence[str], *samples: np.ndarray) -> tuple[str, ...]:
    """Write notes on columns of samples (n, D) that may be identifiers, of pairs too."""
    return tuple(
        describe_identifier(name, *parts)
        + ("; leave it out" if has_same_values(*parts) else ": leave it out unless it is measured")
        for name, *parts in zip(names, *(sample.T for sample in samples), strict=True)
        if all(map(are_integers, parts)) and are_identifiers(name, parts)
    )


def has_same_values(first: np.ndarray, *others: np.ndarray) -> bool:
    """Return whether there are other samples, with the same values in any order."""
    ordered = np.sort(first)
    return bool(others) and all(np.array_equal(ordered, np.sort(other)) for other in others)


def describe_identifier(name: str, *samples: np.ndarray) -> str:
    """Write the beginning of a note on an identifier, up to the advice on leaving it out."""
    if has_same_values(*samples):
        return (
            f"the numbers of {name!r} are all different, and the same in both samples, as the "
            f"identifiers of pairs are: to pair the rows, sort both samples by {name!r} first"
        )
    return f"the numbers of {name!r} are all different, as those of an identifier are"


def find_sentinels(values: np.ndarray) -> tuple[float, ...]:
    """Find numbers that may stand for a missing value: repeated, and far from all others."""
    return _isolated_values(values, _equal_to_sentinels(values)) if len(values) else ()


def find_date_sentinels(seconds: np.ndarray) -> tuple[float, ...]:
    """Find days of dates (n,), in seconds, that may stand for a missing value."""
    days = np.array(DATE_SENTINELS, dtype="datetime64[s]").astype(float)
    known = seconds[~np.isnan(seconds)]
    return _isolated_values(known, [np.floor(known / DAY) * DAY == day for day in days])


def _equal_to_sentinels(values: np.ndarray) -> list[np.ndarray]:
    """Return which numbers (n,) are each of :data:`SENTINELS` within their range."""
    known = np.array(SENTINELS)
    # Whole numbers are equal exactly.
    tolerances = np.where(np.abs(known) > FIRST_INEXACT, SENTINEL_PRECISION * np.abs(known), 0.0)
    possible = (known >= values.min() - tolerances) & (known <= values.max() + tolerances)
    return [
        np.abs(values - sentinel) <= tolerance
        for sentinel, tolerance in zip(known[possible], tolerances[possible], strict=True)
    ]


def _isolated_values(values: np.ndarray, equal: list[np.ndarray]) -> tuple[float, ...]:
    """Return the values that a mask (n,) selects often enough, and far from all others."""
    measured = values[~np.any(equal, axis=0)] if equal else values[:0]
    if not len(measured):
        return ()
    low, high = measured.min(), measured.max()
    least = max(SENTINEL_ROWS, SENTINEL_PROPORTION * len(values))
    repeated = [float(values[rows][0]) for rows in equal if rows.sum() >= least]
    return tuple(
        value for value in repeated if min(abs(value - low), abs(value - high)) > high - low
    )


def describe_sentinel(name: str, value: float | str, where: str) -> str:
    """Write the beginning of a note on a sentinel, up to the advice."""
    text = value if isinstance(value, str) else f"{value:.10g}"
    return f"{name!r} is {text} in {where}, far from all others: if it stands for a missing value,"


def value_text(column: Column, value: float) -> str:
    """Write a value of a column of numbers or dates."""
    if column.kind != "datetime":
        return f"{value:.10g}"
    return str(np.datetime64(round(value), "s")).removesuffix("T00:00:00")


def is_inexact(array: pa.Array) -> bool:
    """Return whether floating-point numbers do not distinguish some of the whole numbers."""
    return bool(np.nanmax(np.abs(as_numpy(array)), initial=0.0) >= FIRST_INEXACT)


def check_exact(array: pa.Array, values: np.ndarray) -> None:
    """Refuse whole numbers, in text too, that are not equal to their values in double precision.

    Text is not refused if some of its numbers have a decimal point or an exponent.

    Args:
        array: (n,) cells.
        values: (n,), their finite values; NaN where cells are null.
    """
    is_text = pa.types.is_string(array.type)
    is_exact = is_text or pa.types.is_integer(array.type) or pa.types.is_decimal(array.type)
    if not is_exact or np.nanmax(np.abs(values), initial=0.0) < FIRST_INEXACT:
        return
    cells, values = array.drop_null(), values[~np.isnan(values)]
    if is_text:
        cells, values = pc.replace_substring_regex(cells, r"\D", ""), np.abs(values)
        if not np.allclose(as_numpy(cells), values, rtol=1e-9, atol=0.0):
            return
    exact = np.array([int(cell) for cell in cells.to_pylist()], dtype=object)
    if loses_digits(exact, values):
        raise ColumnError(f"has {INEXACT_INTEGERS}")


def location(index: int, tables: Sequence[Table]) -> str:
    """Describe where a row of all tables is."""
    rows = tables[0].data.num_rows
    return tables[0].location(index) if index < rows else tables[-1].location(index - rows)


def check_finite(values: np.ndarray, tables: Sequence[Table]) -> None:
    """Refuse infinite numbers."""
    if np.isinf(values).any():
        index = int(np.argmax(np.isinf(values)))
        raise ColumnError(
            f"has an infinite value in {location(index, tables)}: correct it, or say that it is "
            f"missing with --na-value={values[index]:g} (na_values=)"
        )


def check_magnitude(values: np.ndarray, tables: Sequence[Table]) -> None:
    """Refuse numbers whose squares, or those of their differences, overflow or underflow."""
    check_finite(values, tables)
    large = np.abs(values) > MAX_ABS_VALUE
    if large.any():
        index = int(np.argmax(large))
        raise ColumnError(
            f"has {values[index]:.3g} in {location(index, tables)}, beyond {MAX_ABS_VALUE:g}: give "
            "it in a larger unit, or say that it is missing with --na-value (na_values=)"
        )
    known = values[~np.isnan(values)]
    if len(known) and 0.0 < np.ptp(known) < 1.0 / MAX_ABS_VALUE:
        raise ColumnError(
            f"has a range of only {np.ptp(known):.3g}, from smallest to largest number: give them "
            "in a smaller unit"
        )


def _from_dates(name: str, array: pa.Array, kind: str | None) -> TypedColumn:
    if kind in ("category", "identifier"):
        return TypedColumn(_with_levels(name, kind, pc.cast(array, pa.string())))  # type: ignore[arg-type]
    if kind not in (None, "datetime"):
        raise ColumnError(f"holds dates, not {kind}")
    unit = pa.time64("us") if pa.types.is_time(array.type) else pa.timestamp("us")
    seconds = as_numpy(pc.cast(pc.cast(array, unit, safe=False), pa.int64())) / 1e6
    return TypedColumn(Column(name, "datetime", seconds), sentinels=find_date_sentinels(seconds))


def number_texts(values: np.ndarray) -> pa.Array:
    """Write numbers as text; the sum makes 0 of -0."""
    integral = are_integers(values[~np.isnan(values)])
    texts = (f"{value + 0.0:.0f}" if integral else f"{value + 0.0:.15g}" for value in values)
    return pa.array([None if text == "nan" else text for text in texts], pa.string())


def _from_numbers(
    name: str, values: np.ndarray, tables: Sequence[Table], kind: str | None, format_: str
) -> TypedColumn:
    check_magnitude(values, tables)
    values = merge_rounding(values)
    notes = (f"{name!r} is read as {format_}.",) if format_ else ()
    if kind in ("category", "boolean", "identifier"):
        return TypedColumn(_with_levels(name, kind, number_texts(values)), notes)  # type: ignore[arg-type]
    if kind in ("datetime", "text"):
        is_date = kind == "datetime"
        advice = f": convert them first, as with {date_conversion(values)}" if is_date else ""
        raise ColumnError(f"holds numbers, not {kind}{advice}")
    known, rows = values[~np.isnan(values)], tables[0].data.num_rows
    integral = are_integers(known)
    samples = [sample for sample in (values[:rows], values[rows:]) if len(sample)]
    if kind is None and integral and are_identifiers(name, samples):
        return TypedColumn(_with_levels(name, "identifier", number_texts(values)), notes)
    if kind == "integer" and len(known) and np.abs(known).max() >= FIRST_INEXACT:
        raise ColumnError(f"has {INEXACT_INTEGERS}")
    if kind == "integer" and not integral:
        raise ColumnError("holds numbers that are not whole, not integer")
    inferred: ColumnType = "integer" if integral and kind != "number" else "number"
    return TypedColumn(Column(name, inferred, values), notes, find_sentinels(known))


def _from_text(
    name: str, array: pa.Array, tables: Sequence[Table], kind: str | None, formats: Sequence[str]
) -> TypedColumn:
    distinct, rows = pc.unique(array).drop_null(), tables[0].data.num_rows
    if kind is None and (codes := _from_codes(name, array, distinct, rows)) is not None:
        return codes
    if kind in (None, "boolean") and (booleans := _as_booleans(array, distinct, rows)) is not None:
        return TypedColumn(_with_levels(name, "boolean", booleans))
    if kind in ("category", "boolean", "identifier", "text") or not len(distinct):
        twins = note_on_equal_numbers(name, distinct) if kind != "text" else ()
        array = normalize_words(array) if kind != "text" else array
        return TypedColumn(_with_levels(name, kind or "category", array), twins)  # type: ignore[arg-type]
    notes: tuple[str, ...] = ()
    if kind in (None, "datetime") and matches(distinct, ISO).all():
        array, notes = _local_times(name, array, tables)
        distinct = pc.unique(array).drop_null()
    try:
        may_be_numbers = kind in (None, "number", "integer")
        numbers = parse_numbers(distinct, formats) if may_be_numbers else None
        dates = parse_dates(distinct, formats) if kind in (None, "datetime") else None
    except AmbiguousError as error:
        raise ambiguous_format(name, error) from None
    if numbers is not None:
        notes += _notes_on_numbers(name, distinct, numbers, tables, formats)
        parts = [pc.unique(part).drop_null() for part in (array[:rows], array[rows:])]
        if kind is None and any(map(may_be_codes, parts)):
            notes += note_on_equal_numbers(name, distinct, as_numbers=True)
        check_currencies(name, distinct)
        if not determine_points(formats):
            check_thousands(name, *parts)
        format_ = f"numbers with {numbers.format}" if numbers.format else ""
        values = take_values(array, distinct, numbers.values)
        typed = _from_numbers(name, values, tables, kind, format_)
        check_exact(array, values)
        notes += typed.notes
        return typed._replace(format=numbers.format, pointed=numbers.pointed, notes=notes)
    if dates is not None:
        format_ = "times of a day" if matches(distinct, TIMES).all() else dates.format
        notes += (f"{name!r} is read as {format_}.",) if format_ else ()
        values = take_values(array, distinct, dates.values)
        typed = TypedColumn(Column(name, "datetime", values), notes, find_date_sentinels(values))
        return typed._replace(format=dates.format)
    if kind is not None:
        raise ColumnError(_not_of_type(array, distinct, tables, kind))
    return _from_words(name, array, distinct, tables, notes)


def _from_codes(name: str, array: pa.Array, distinct: pa.Array, rows: int) -> TypedColumn | None:
    """Read whole numbers as codes, ``None`` unless one is padded or beyond double precision."""
    if not matches(distinct, DIGITS).all():
        return None
    padded, numbers = matches(distinct, PADDED), parse_format(distinct, PLAIN)
    codes = padded | (np.abs(numbers) >= FIRST_INEXACT)
    if not codes.any():
        return None
    reason = "since double precision does not distinguish them"
    advice = f": for numbers subtract a common number, {reason}"
    if padded.any():
        advice = f": for numbers say {type_option(name, 'integer')}"
    elif np.ptp(numbers) >= FIRST_INEXACT:  # no common number makes all of them small
        advice = f", {reason}"
    code = distinct[int(np.argmax(codes))].as_py()
    note = f"{name!r} has codes such as {code!r}, taken for words{advice}."
    return TypedColumn(_with_levels(name, _type_of_words(array, distinct, rows), array), (note,))


def _from_words(
    name: str,
    array: pa.Array,
    distinct: pa.Array,
    tables: Sequence[Table],
    notes: tuple[str, ...],
) -> TypedColumn:
    """Read text that is neither numbers, dates nor booleans."""
    _check_dates(array, distinct, tables)
    _check_same_format(name, array, tables)
    _check_mistakes(name, array, tables)
    inferred = _type_of_words(array, distinct, tables[0].data.num_rows)
    like_numbers = len(distinct) > 1 and matches(distinct, LIKE_NUMBERS).mean() >= LIKE
    if like_numbers and inferred == "identifier":  # which is not compared
        rows = tables[0].data.num_rows
        parts = [pc.unique(part).drop_null() for part in (array[:rows], array[rows:])]
        unparsed = [
            part
            for part in parts
            if len(part) and not any(_format_name(part, *item) for item in PARSERS.items())
        ]
        is_parsed = len(unparsed) < sum(len(part) > 0 for part in parts)
        cell = unparsed_cell(unparsed[0] if unparsed else distinct)
        where = location(pc.index(array, cell).as_py(), tables)
        advice = f", or take it for words with {type_option(name, 'category')}" * (not is_parsed)
        if TWO_DIGIT_YEAR.fullmatch(cell):
            advice = f", with years of four digits{advice}"
        raise ColumnError(
            f"looks like numbers or dates in a form that is not understood, such as {quote(cell)} "
            f"in {where}: convert it{advice}"
        )
    notes += _notes_on_words(name, distinct, like_numbers=like_numbers)
    if not like_numbers and inferred != "text":
        notes += _note_on_digits(name, distinct)
    return TypedColumn(_with_levels(name, inferred, normalize_words(array)), notes)


def advise_on_spelling(name: str, first: pa.Array, second: pa.Array) -> str:
    """Advise on texts (n,) and (m,) of one column; as words some must be equal, none padded."""
    first, second = (pc.unique(part).drop_null() for part in (first, second))
    padded = matches(first, PADDED).any() or matches(second, PADDED).any()
    if padded or not pc.any(pc.is_in(first, second)).as_py():
        return "write them alike"
    return f"write them alike, or take all for words with {type_option(name, 'category')}"


def quote(cell: str) -> str:
    """Quote a cell for a message; unlike in ``repr``, a backslash is one backslash."""
    return repr(cell).replace("\\\\", "\\")


def _note_on_digits(name: str, distinct: pa.Array) -> tuple[str, ...]:
    """Note words that may be numbers or dates in a form that is not understood, unless codes.

    Codes have equally many digits, as A17 and B42, and no blank or sign as all of US$17 and US$42.
    """
    has_digits = matches(distinct, r"\pN")
    if len(distinct) < MIN_WORDS or not LESS_THAN_ALL * len(distinct) <= has_digits.sum():
        return ()
    lengths = pc.utf8_length(pc.replace_substring_regex(distinct, r"\PN", ""))
    units = pc.unique(pc.replace_substring_regex(distinct, r"\pN", ""))
    has_unit = len(units) == 1 and matches(units, r"[^\pL]").any()
    has_several_numbers = matches(distinct, r"\pN\PN+\pN").any()
    if len(pc.unique(lengths)) == 1 and not has_unit and not has_several_numbers:
        return ()
    cell = distinct[int(np.argmax(has_digits))].as_py()
    return (
        f"{name!r} is taken for words, which have digits, such as {quote(cell)}: if these are "
        "numbers or dates, convert them before.",
    )


def _not_of_type(array: pa.Array, distinct: pa.Array, tables: Sequence[Table], kind: str) -> str:
    """Describe a cell that is not of the type that the user asks for."""
    if kind == "datetime":
        cell = distinct[0].as_py()
        numbers = distinct.filter(pa.array(matches(distinct, PLAIN.pattern)))
        advice = f": convert them first, as with {date_conversion(as_numpy(numbers))} or format="
        return f"has cells such as {quote(cell)}, not {kind}{advice}"
    cell = unparsed_cell(distinct)
    return f"has {quote(cell)} in {location(pc.index(array, cell).as_py(), tables)}, not {kind}"


def note_on_negative(name: str, distinct: pa.Array) -> tuple[str, ...]:
    """Note negative numbers as accountants write them."""
    negative = matches(distinct, NEGATIVE)
    if not negative.any():
        return ()
    cell = distinct[int(np.argmax(negative))].as_py()
    return (f"{name!r} has numbers such as {quote(cell)}, read as negative.",)


def note_on_equal_numbers(
    name: str, distinct: pa.Array, *, as_numbers: bool = False
) -> tuple[str, ...]:
    """Note texts that are one number, such as 1.1 and 1.10, or 1E2 and 10E1."""
    if not matches(distinct, PLAIN.pattern).all():
        return ()
    longer = distinct.filter(pc.match_substring_regex(distinct, TRAILING_ZEROS))
    shorter = strip_zeros(longer)
    equal = pc.indices_nonzero(pc.is_in(shorter, distinct))
    if len(equal):
        pair = [part[equal[0].as_py()].as_py() for part in (shorter, longer)]
    elif not (pair := _equal_exponents(distinct)):
        return ()
    texts = " and ".join(map(repr, pair))
    if as_numbers:
        advice = f"read as numbers: to distinguish them use {type_option(name, 'category')}."
    else:
        advice = "which are compared as different texts: write them alike if they are equal."
    return (f"{name!r} has texts that are one number, such as {texts}, {advice}",)


def _equal_exponents(distinct: pa.Array) -> list[str]:
    """Return two texts that are one number, at least one with an exponent as codes have it."""
    texts = distinct.filter(pc.match_substring_regex(distinct, rf"{EXPONENTS}|{DIGITS}"))
    has_exponent = matches(texts, EXPONENTS)
    if not has_exponent.any():
        return []
    texts_by_number: dict[float, str] = {}
    for index in np.argsort(~has_exponent, kind="stable"):
        text = texts[int(index)].as_py().upper()
        known = texts_by_number.setdefault(float(text), text)
        if known != text and "E" in known:
            return [known, text]
    return []


def may_be_codes(distinct: pa.Array) -> bool:
    """Return whether numbers in text may be codes, by their decimals or exponents.

    Their decimals have zeros at the end, and several lengths: programs write numbers without such
    zeros, or all with as many decimals.
    """
    if matches(distinct, EXPONENTS).any():
        return True
    pointed = distinct.filter(pc.match_substring(distinct, "."))
    decimals = pc.unique(pc.utf8_length(pc.replace_substring_regex(pointed, r"^.*\.", "")))
    return len(decimals) > 1 and bool(matches(pointed, TRAILING_ZEROS).any())


def _notes_on_numbers(
    name: str, distinct: pa.Array, numbers: Parsed, tables: Sequence[Table], formats: Sequence[str]
) -> tuple[str, ...]:
    """Note negative numbers as accountants write them, and points that may be between thousands."""
    notes = note_on_negative(name, distinct)
    if determine_points(formats):
        return notes
    advice = f"say --format '{POINTS.name}' (formats=)"
    return (*notes, *note_on_thousands(name, numbers, distinct, tables, advice))


def note_on_thousands(
    name: str, numbers: Parsed, distinct: pa.Array, tables: Sequence[Table], advice: str
) -> tuple[str, ...]:
    """Note decimal points that may be between thousands, in tables with semicolons."""
    semicolons = any(table.separator == ";" for table in tables)
    if not (semicolons and numbers.pointed and matches(distinct, THOUSANDS).all()):
        return ()
    return (
        f"{name!r} is read with decimal points, such as {distinct[0].as_py()}; if they are between "
        f"thousands, {advice}.",
    )


def _notes_on_words(name: str, distinct: pa.Array, *, like_numbers: bool) -> tuple[str, ...]:
    """Note characters that are not seen, and words that look like numbers or dates."""
    notes: tuple[str, ...] = ()
    if (invisible := matches(distinct, INVISIBLE)).any():
        cell = distinct[int(np.argmax(invisible))].as_py()
        notes += (f"{name!r} has invisible characters, such as in {cell!a}.",)
    if like_numbers:
        notes += (
            f"{name!r} looks like numbers or dates in a form that is not understood, such as "
            f"{quote(unparsed_cell(distinct))}: it is taken for words.",
        )
    return notes


def _local_times(
    name: str, array: pa.Array, tables: Sequence[Table]
) -> tuple[pa.Array, tuple[str, ...]]:
    """Return ISO dates in local time, and a note if they have offsets from UTC.

    Offsets that differ by up to an hour are those of one place, in winter and in summer.

    Raises:
        ColumnError: some have an offset and others none, or offsets differ by more.
    """
    bare, offsets = strip_offsets(array)
    if offsets in ((), ("",)):
        return array, ()
    if "" in offsets:
        rows = tables[0].data.num_rows
        parts = zip(tables, (array[:rows], array[rows:]), strict=False)
        without = [table.source for table, part in parts if strip_offsets(part)[1] == ("",)]
        raise ColumnError(
            f"has dates with an offset from UTC, such as {offsets[-1]}, and others without one"
            f"{', as in ' + without[0] if without else ''}: write all with one, or all without"
        )
    try:
        times = [datetime.strptime(offset, "%z").utcoffset() for offset in offsets]
    except ValueError as error:
        raise ColumnError(f"has a date with an offset that does not exist: {error}") from None
    ahead = [time for time in times if time is not None]
    if max(ahead) - min(ahead) > timedelta(hours=1):
        raise ColumnError(
            f"has dates with offsets from UTC of {offsets[0]} to {offsets[-1]}, whose hours and "
            "days are those of several places: write all in UTC, or all by the local clock without "
            "an offset"
        )
    if offsets == ("Z",):
        return bare, ()
    return bare, (f"{name!r} is read by its local clock ({', '.join(offsets)}).",)


def check_currencies(name: str, distinct: pa.Array) -> None:
    """Refuse amounts of several currencies."""
    signs = sorted(set("".join(distinct.to_pylist())) & set(CURRENCIES))
    if len(signs) > 1:
        raise ColumnError(
            f"has amounts in {' and '.join(signs)}: convert them to one currency, or take them for "
            f"words with {type_option(name, 'category')}"
        )


def check_thousands(name: str, first: pa.Array, second: pa.Array) -> None:
    """Refuse points that may be between thousands in one table, and are not in the other.

    Args:
        name: name of the column.
        first: (k,) distinct texts of the first table, none of which is null.
        second: those of the second table.
    """
    for part, other in ((first, second), (second, first)):
        has_point = pc.match_substring(part, ".")
        pointed, without_point = part.filter(has_point), part.filter(pc.invert(has_point))
        may_be = (
            len(pointed)
            and matches(pointed, THOUSANDS).all()
            and matches(without_point, BELOW).all()
        )
        plain = matches(other, DIGITS).all() and not matches(other, BELOW).all()
        if may_be and len(other) and plain:
            raise ambiguous_format(
                name, AmbiguousError(pointed[0].as_py(), PLAIN.name, POINTS.name)
            )


def parse_booleans(distinct: pa.Array) -> list[bool] | None:
    """Parse words (k,) such as yes and no; ``None`` where one of them is neither."""
    words = [word.lower() for word in distinct[: 4 * len(TRUE_WORDS)].to_pylist()]
    known = all(word in TRUE_WORDS or word in FALSE_WORDS for word in words)
    if len(words) < len(distinct) or not known:
        return None
    return [word in TRUE_WORDS for word in words]


def _as_booleans(array: pa.Array, distinct: pa.Array, rows: int) -> pa.Array | None:
    """Return cells of one pair of words: ``True`` and ``TRUE`` are ``true``, as in frames.

    Two tables may have different pairs, which become ``true`` and ``false``.
    """
    if not 1 <= len(distinct) <= 4 * len(TRUE_WORDS):
        return None
    pairs = [{yes, no} for yes, no in zip(TRUE_WORDS, FALSE_WORDS, strict=True) if yes != "1"]

    def are_pair(values: pa.Array) -> bool:
        words = {word.lower() for word in values.to_pylist()}
        # Programs write booleans as true and false, and one of these may be missing.
        return words in pairs or words <= {"true", "false"}

    if are_pair(distinct):
        are_other_words = "true" not in pc.utf8_lower(distinct).to_pylist()
        return array if len(distinct) == 2 and are_other_words else pc.utf8_lower(array)
    parts = [pc.unique(part).drop_null() for part in (array[:rows], array[rows:])]
    if not all(len(part) and are_pair(part) for part in parts):
        return None
    booleans = [str(word in TRUE_WORDS).lower() for word in pc.utf8_lower(distinct).to_pylist()]
    return pa.array(booleans).take(pc.index_in(array, distinct))


def _type_of_words(array: pa.Array, distinct: pa.Array, rows: int) -> ColumnType:
    known = len(array) - array.null_count
    if len(distinct) <= MAX_LEVELS or len(distinct) <= LEVELS_PER_ROW * known:
        return "category"
    words = pc.list_value_length(pc.utf8_split_whitespace(distinct[:1000]))
    if pc.mean(words).as_py() >= WORDS_OF_TEXT:
        return "text"
    if known < LEAST_ROWS:
        return "category"
    parts = [part.drop_null() for part in (array[:rows], array[rows:])]
    differ = all(len(pc.unique(part)) >= DISTINCT_PROPORTION * len(part) for part in parts)
    return "identifier" if differ else "category"


def _check_mistakes(name: str, array: pa.Array, tables: Sequence[Table]) -> None:
    """Refuse a column of numbers with a few texts among them, or with texts in one table alone.

    Few are at most a twentieth of the cells, or a tenth of the distinct ones; texts that stand for
    something that is not known are refused at any share.
    """
    known, first = array.drop_null(), len(array[: tables[0].data.num_rows].drop_null())
    numeric = matches(normalize_signs(known), NUMERIC)
    proportions = [part.mean() if len(part) else 0.5 for part in np.split(numeric, [first])]
    if max(proportions) == 1.0 and min(proportions) < 0.5:
        words = int(np.argmin(proportions))
        cell = known[int(np.argmin(numeric))].as_py()
        raise ColumnError(
            f"holds numbers in {tables[1 - words].source} and words such as {cell!r} in "
            f"{tables[words].source}: {advise_on_spelling(name, known[:first], known[first:])}"
        )
    of_distinct = matches(normalize_signs(pc.unique(known)), NUMERIC)
    mostly_numeric = (
        of_distinct.sum() >= LEAST_ROWS and of_distinct.mean() >= 1.0 - DISTINCT_MISTAKES
    )
    if numeric.mean() == 1.0 or matches(known, PADDED).any():  # codes, such as 007
        return
    words = pc.unique(known.filter(pa.array(~numeric))).to_pylist()
    tokens = of_distinct.sum() > 1 and matches(pa.array(words), TOKENS).all()
    if tokens or mostly_numeric or numeric.mean() >= 1.0 - MISTAKES:
        where = location(pc.index(array, words[0]).as_py(), tables)
        rest = f" and {', '.join(map(quote, words[1:MAX_WORDS]))}" if len(words) > 1 else ""
        rest += ", ..." if len(words) > MAX_WORDS else ""
        missing = " ".join(f"--na-value={shlex.quote(word)}" for word in words[:MAX_WORDS])
        raise ColumnError(
            f"has numbers but {quote(words[0])} in {where}{rest} "
            f"({pluralize(int((~numeric).sum()), 'such cell')}): correct them, or say that they "
            f"are missing with {missing} (na_values=), or take all for words with "
            f"{type_option(name, 'category')}"
        )


def _check_dates(array: pa.Array, distinct: pa.Array, tables: Sequence[Table]) -> None:
    """Refuse a few cells that are no dates among ISO dates."""
    is_date = matches(distinct, ISO) | matches(distinct, TIMES)
    rest = distinct.filter(pa.array(~is_date))
    if is_date.sum() > 1 and len(rest) and matches(rest, TOKENS).all():
        cell = rest[0].as_py()
        raise ColumnError(
            f"has dates but {quote(cell)} in {location(pc.index(array, cell).as_py(), tables)}: "
            f"say that it is missing with --na-value={shlex.quote(cell)} (na_values=)"
        )
    if len(distinct) < LEAST_ROWS or matches(distinct, ISO).mean() < 1.0 - DISTINCT_MISTAKES:
        return
    import pandas as pd

    dates = pd.to_datetime(distinct.to_pylist(), format="ISO8601", errors="coerce", utc=True)
    if 0.0 < dates.isna().mean() <= DISTINCT_MISTAKES:
        cell = distinct[int(np.argmax(dates.isna()))]
        raise ColumnError(
            f"has dates but {cell.as_py()!r} in {location(pc.index(array, cell).as_py(), tables)}: "
            "correct it, or say that it is missing with --na-value (na_values=)"
        )


def _check_same_format(name: str, array: pa.Array, tables: Sequence[Table]) -> None:
    """Refuse cells that are numbers or dates in both tables, but not in one format."""
    rows = tables[0].data.num_rows
    parts = [pc.unique(part).drop_null() for part in (array[:rows], array[rows:])]
    for parse, usual in PARSERS.items():
        formats = [_format_name(part, parse, usual) if len(part) else None for part in parts]
        if None not in formats:
            described = " and ".join(
                f"{format_} in {table.source}, such as {part[0].as_py()!r},"
                for format_, table, part in zip(
                    formats, (tables[0], tables[-1]), parts, strict=True
                )
            )
            raise ColumnError(
                f"has {described.rstrip(',')}: write it in one format, or take all for words with "
                f"{type_option(name, 'category')}"
            )


def _format_name(
    distinct: pa.Array, parse: Callable[[pa.Array], Parsed | None], usual: str
) -> str | None:
    """Return the format in which all cells can be parsed, or several; ``None`` if in none."""
    try:
        parsed = parse(distinct)
    except AmbiguousError as error:
        return " or ".join(error.args[1:])
    return None if parsed is None else parsed.format or usual


def take_values(array: pa.Array, distinct: pa.Array, values: np.ndarray) -> np.ndarray:
    """Return the value of every cell (N,), by the values of the distinct ones; NaN where null."""
    index = pc.index_in(array, distinct).to_numpy(zero_copy_only=False)  # NaN where null
    return np.append(values, np.nan)[np.where(np.isnan(index), -1, index).astype(int)]


def _with_levels(name: str, kind: ColumnType, array: pa.Array) -> Column:
    """Return a column of words: indices of its distinct cells in alphabetical order."""
    distinct = pc.unique(array).drop_null()
    distinct = distinct.take(pc.array_sort_indices(distinct))
    values = take_values(array, distinct, np.arange(len(distinct), dtype=float))
    return Column(name, kind, values, tuple(distinct.to_pylist()))
